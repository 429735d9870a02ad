/**
 * `npm run demo`: three processes compete for one role on a real Kafka, and the log proves at the end that none wrote out of turn.
 *
 * Starts a one-node Kafka, unless KAFKA_BROKERS or KAFKA_BOOTSTRAP_SERVERS names a cluster; there it uses names of its own and removes
 * its topics. Exit code 0 only if everything held. Whatever happens, it ends the processes and the Kafka that it started.
 */
import { randomBytes } from 'node:crypto'
import { Kafka, logLevel } from 'kafkajs'
import { CoordinationClient } from '../../src/index.js'
import { defaultKafkaVersion, kafkaArtifacts } from '../../test/kafka/artifacts.js'
import { type KafkaCluster, startCluster } from '../../test/kafka/cluster.js'
import { brokersAvailability, namedBrokers } from '../../test/kafka/requirements.js'
import { makeTopics } from '../../test/support/topics.js'
import { Cast } from './cast.js'
import { check, type Run } from './checker.js'
import { machineNow } from './events.js'
import { readCommittedLog } from './raw-log.js'
import { play } from './story.js'

const leaseMs = 3_000
const commandPartitions = 2

interface Names {
  readonly role: string
  readonly coordinationTopic: string
  readonly commandsTopic: string
}

let startedAt = machineNow()

/** Prints a line with the time since the start; an empty one as it is. */
function tell(line: string): void {
  console.log(
    line === ''
      ? ''
      : `${Math.round(machineNow() - startedAt)
          .toString()
          .padStart(6)} ms  ${line}`,
  )
}

/** Runs the demo; answers whether everything held. Rejects with the signal's reason when it aborts. */
async function demo(signal: AbortSignal): Promise<boolean> {
  const named = namedBrokers()
  if (named !== undefined) {
    tell(`The environment names a Kafka: ${named.join(', ')}`)
    const suffix = randomBytes(4).toString('hex')
    const names = {
      role: `controller-${suffix}`,
      coordinationTopic: `mandate-demo-${suffix}`,
      commandsTopic: `commands-${suffix}`,
    }
    try {
      return await onKafka(named, names, signal)
    } finally {
      await removeTopics(named, [names.coordinationTopic, names.commandsTopic])
    }
  }
  const availability = brokersAvailability()
  if (!availability.available) {
    throw new Error(`No Kafka can be started: ${availability.missing}. Or name a cluster in KAFKA_BROKERS.`)
  }
  tell(`Kafka ${defaultKafkaVersion} starts on this machine, with one node (the first time it is downloaded)`)
  await kafkaArtifacts(defaultKafkaVersion)
  startedAt = machineNow()
  const starting = startCluster({ nodes: 1, transactionVersion: 2 })
  let cluster: KafkaCluster | undefined
  try {
    cluster = await orAborted(starting, signal)
    tell(`Kafka answers on ${cluster.bootstrap.join(', ')}`)
    const names = { role: 'controller', coordinationTopic: '__coordination_state', commandsTopic: 'commands' }
    return await onKafka(cluster.bootstrap, names, signal)
  } finally {
    cluster ??= await starting.catch(() => undefined)
    await cluster?.stop()
  }
}

async function onKafka(bootstrap: readonly string[], names: Names, signal: AbortSignal): Promise<boolean> {
  const { role, coordinationTopic, commandsTopic } = names
  const kafka = observerOf(bootstrap)
  await makeTopics(bootstrap, [{ topic: commandsTopic, numPartitions: commandPartitions }])
  const observer = new CoordinationClient({ kafka, memberId: 'observer', topic: coordinationTopic })
  const cast = new Cast(
    ['node-1', 'node-2', 'node-3'].map((memberId) => ({ memberId, brokers: bootstrap, ...names })),
    signal,
  )
  try {
    const memberNames = cast.members.map(({ name }) => name).join(', ')
    const pids = cast.members.map(({ pid }) => pid).join(', ')
    tell(`${memberNames} (pid ${pids}) compete for '${role}'`)
    const stage = { cast, observer, role, commandsTopic, bootstrap, leaseMs, tell }
    const { killedTerms } = await orAborted(play(stage), signal)
    return await verdict(bootstrap, commandsTopic, { role, writes: cast.writes, killedTerms })
  } finally {
    await cast.end()
    await observer.close()
  }
}

/** Reads the log apart from the library, and tells what it proves. */
async function verdict(bootstrap: readonly string[], commandsTopic: string, run: Run): Promise<boolean> {
  const records = await readCommittedLog(bootstrap, commandsTopic)
  const { violations, committedByTerm, aborted, refusedAfterWaking } = check(records, run)
  tell('')
  tell(`The log of '${commandsTopic}', read batch by batch without the library:`)
  for (const [term, count] of committedByTerm) tell(`  term ${term}: ${count} committed`)
  tell(`  ${aborted} aborted, which readers at isolation level read_committed never see`)
  tell(`  ${refusedAfterWaking} refused after waking, and not committed`)
  for (const violation of violations) tell(`  VIOLATION: ${violation}`)
  if (violations.length === 0) tell('  no committed record of an older term follows one of a newer term')
  return violations.length === 0
}

/** Leaves somebody's cluster as it was found. What cannot be removed is told, and changes nothing of the outcome. */
async function removeTopics(brokers: readonly string[], topics: readonly string[]): Promise<void> {
  const admin = observerOf(brokers).admin()
  try {
    await admin.connect()
    const present = new Set(await admin.listTopics())
    await admin.deleteTopics({ topics: topics.filter((topic) => present.has(topic)) })
  } catch (error) {
    tell(`The topics ${topics.join(' and ')} could not be removed: ${readable(error)}`)
  } finally {
    await admin.disconnect()
  }
}

/** The kafkajs client of this process, which fails soon where there is no Kafka. */
function observerOf(brokers: readonly string[]): Kafka {
  return new Kafka({ clientId: 'observer', brokers: [...brokers], logLevel: logLevel.NOTHING, retry: { retries: 3 } })
}

/** Settles as `task`, or rejects with the signal's reason as soon as it aborts. */
async function orAborted<T>(task: Promise<T>, signal: AbortSignal): Promise<T> {
  signal.throwIfAborted()
  let onAbort: () => void = () => {}
  const aborted = new Promise<never>((_resolve, reject) => {
    onAbort = () => reject(signal.reason)
    signal.addEventListener('abort', onAbort, { once: true })
  })
  try {
    return await Promise.race([task, aborted])
  } finally {
    signal.removeEventListener('abort', onAbort)
  }
}

/** An error's message without the frames of a stack that a process may have printed into it. */
function readable(error: unknown): string {
  const message = error instanceof Error ? error.message : String(error)
  return message
    .split('\n')
    .filter((line) => !/^\s+at /.test(line))
    .join('\n')
}

const interruption = new AbortController()
for (const name of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
  process.on(name, () => interruption.abort(new Error(`Stopped by ${name}`)))
}
try {
  const held = await demo(interruption.signal)
  tell('')
  tell(held ? 'All of it held.' : 'FAILED: the log does not hold what was promised.')
  process.exitCode = held ? 0 : 1
} catch (error) {
  tell('')
  tell(`FAILED: ${readable(error)}`)
  process.exitCode = 1
}

import { Kafka, type KafkaConfig, logLevel } from 'kafkajs'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { readCommittedLog } from '../../examples/demo/raw-log.js'
import { CoordinationClient, isCoordinationError, type Leadership, parseRole, rolePartition } from '../../src/index.js'
import { describeWithKafka, freshName, type SharedCluster } from '../kafka/suites.js'
import { isLongForm, tell, testWhere } from '../support/form.js'
import { type Direction, type FrameProxy, startFrameProxy } from '../support/frame-proxy.js'
import { kinds } from '../support/kinds.js'
import { lookAt } from '../support/look.js'
import { coordinatorPartition, leadersOf, placedTopic, transactionState } from './placement.js'
import { endsOf, findingsOf, SteadyWriter } from './steady-writer.js'

const lease = { leaseMs: 5_000, renewIntervalMs: 500, staggerMs: 250, requestTimeoutMs: 1_500 }
/** Ten times what the end of a term, or a rejection, should take past its instant. */
const graceMs = 10 * 100

/** What of the user's kafkajs configuration must not matter. */
const configurations: Readonly<Record<string, Partial<KafkaConfig>>> = {
  'as it is': {},
  'requestTimeout 0': { requestTimeout: 0 },
  'huge timeouts': { requestTimeout: 3_600_000, connectionTimeout: 3_600_000, authenticationTimeout: 3_600_000 },
  'timeouts not enforced': { enforceRequestTimeout: false, retry: { retries: 100, maxRetryTime: 3_600_000 } },
}

type Fault = Direction | 'reset'

/** Lays the fault; what it answers takes it away. */
function disturb(proxy: FrameProxy, fault: Fault, broker?: string): () => void {
  const disturbance = fault === 'reset' ? proxy.block(broker) : proxy.silence(fault, broker)
  return () => disturbance.lift()
}

interface Settled {
  readonly outcome: unknown
  readonly at: number
}

/** What became of a promise, and when. */
async function settled(promise: Promise<unknown>): Promise<Settled> {
  const outcome = await promise.catch((error: unknown) => error)
  return { outcome, at: performance.now() }
}

function codeOf(outcome: unknown): string {
  return isCoordinationError(outcome) ? outcome.code : String(outcome)
}

const opened: { close(): Promise<void> }[] = []

beforeEach(() => {
  opened.length = 0
})
afterEach(async () => {
  for (const open of opened.toReversed()) await open.close()
})

function openClient(
  brokers: readonly string[],
  options: {
    memberId: string
    topic?: string
    kafka?: Partial<KafkaConfig>
    leaseMs?: number
    renewIntervalMs?: number
    requestTimeoutMs?: number
  },
): CoordinationClient {
  const { kafka: configuration, ...rest } = options
  const kafka = new Kafka({ brokers: [...brokers], logLevel: logLevel.NOTHING, ...configuration })
  const client = new CoordinationClient({ kafka, ...lease, ...rest })
  opened.push(client)
  return client
}

async function openProxy(brokers: readonly string[]): Promise<FrameProxy> {
  const proxy = await startFrameProxy(brokers)
  opened.push(proxy)
  return proxy
}

describe.each(kinds())('$name', ({ kind }) => {
  describeWithKafka('a network that', kind, (cluster) => {
    test('is gone ends a term within its lease, and every call by its own deadline', { timeout: 120_000 }, async () => {
      const { bootstrap } = cluster()
      const topic = freshName('commands')
      await placedTopic(bootstrap, topic, [[1]])
      const standby = openClient(bootstrap, { memberId: 'standby' })
      const faults = ['both', 'toBroker', 'toClient', 'reset'] as const
      const cases = faults.flatMap((fault) =>
        Object.entries(configurations)
          .filter(([name]) => isLongForm || fault === 'both' || name === 'as it is')
          .map(([name, kafka]) => ({ fault, bootstrap, topic, standby, name, kafka })),
      )
      const lines: string[] = []
      // A few at a time: on a busy machine more of them would lose their terms to each other.
      while (cases.length > 0) {
        lines.push(...(await Promise.all(cases.splice(0, 4).map((one) => gone(one)))))
      }
      for (const line of lines) tell(line)
    })

    testWhere(
      isLongForm || kinds()[0]?.kind.transactionVersion === kind.transactionVersion,
      'takes 2 s a request costs no term that is long enough, and a short one its lease',
      { timeout: 300_000 },
      async () => {
        const { bootstrap } = cluster()
        const topic = freshName('commands')
        await placedTopic(bootstrap, topic, [[1]])
        const proxy = await openProxy(bootstrap)
        const patient = openClient(proxy.bootstrap, {
          memberId: 'patient',
          leaseMs: 24_000,
          renewIntervalMs: 8_000,
          requestTimeoutMs: 5_000,
        })
        const hasty = openClient(proxy.bootstrap, { memberId: 'hasty', requestTimeoutMs: 5_000 })
        const long = await patient.acquire(freshName('slow'))
        const short = await hasty.acquire(freshName('slow'))
        const slow = proxy.rule(
          { times: Number.POSITIVE_INFINITY, when: ({ api }) => api !== 'Fetch' },
          { do: 'delay', ms: 2_000 },
        )
        const startedAt = performance.now()
        const values = isLongForm ? ['a', 'b', 'c'] : ['a']
        const sends = values.map((value) =>
          settled(long.transact((transaction) => transaction.send({ topic, messages: [{ value, partition: 0 }] }))),
        )
        await aborted(short, lease.leaseMs + graceMs)
        expect(short.signal.reason).toMatchObject({ code: 'LEASE_EXPIRED' })
        const outcomes = await Promise.all(sends)
        expect(outcomes.map(({ outcome }) => (outcome instanceof Error ? outcome.message : 'sent'))).toEqual(
          values.map(() => 'sent'),
        )
        tell(
          `2 s a request: guarded writes done after ${outcomes.map(({ at }) => (at - startedAt).toFixed(0)).join(', ')} ms, same token`,
        )
        expect(long.remainingMs()).toBeGreaterThan(0)
        expect((await lookAt(bootstrap, long.role)).producerId).toBe(long.token.producerId)
        if (isLongForm) {
          const newcomer = openClient(proxy.bootstrap, {
            memberId: 'newcomer',
            leaseMs: 60_000,
            requestTimeoutMs: 5_000,
          })
          const askedAt = performance.now()
          const led = await newcomer.acquire(freshName('slow'))
          tell(`2 s a request: a free role led after ${(performance.now() - askedAt).toFixed(0)} ms`)
          expect(led.remainingMs()).toBeGreaterThan(0)
        }
        slow.remove()
        expect(valuesOf(await readCommittedLog(bootstrap, topic))).toEqual(values)
      },
    )
  })
})

describe.each(kinds({ nodes: 3 }))('$name', ({ kind }) => {
  describeWithKafka('a link to one broker that is gone', kind, (cluster) => {
    test.each<Fault>(isLongForm ? ['both', 'toBroker', 'toClient', 'reset'] : ['both', 'reset'])(
      '(%s) ends the terms that need it within their leases, and no other',
      { timeout: 120_000 },
      async (fault) => await oneLinkGone(cluster(), fault),
    )
  })
})

interface Gone {
  readonly fault: Fault
  readonly bootstrap: readonly string[]
  readonly topic: string
  readonly standby: CoordinationClient
  readonly name: string
  readonly kafka: Partial<KafkaConfig>
}

/** A leader whose network goes away with everything that it can call under way; and what is there when it comes back. */
async function gone({ fault, bootstrap, topic, standby, name, kafka }: Gone): Promise<string> {
  const proxy = await openProxy(bootstrap)
  const role = freshName('silent')
  const client = openClient(proxy.bootstrap, { memberId: `leader ${name}`, kafka })
  const leadership = await client.acquire(role)
  await leadership.send({ topic, messages: [{ value: `${role} before`, partition: 0 }] })
  const otherRole = freshName('silent')
  const takeOver = standby.acquire(role)
  const held = await standby.acquire(otherRole)
  await seenInQueue(client, role, 'standby')
  await leadership.renew()
  const confirmedBy = performance.now()

  const lift = disturb(proxy, fault)
  const goneAt = performance.now()
  expect(leadership.remainingMs()).toBeGreaterThan(0)
  const giveUp = new AbortController()
  const waiting = settled(client.acquire(otherRole, { signal: giveUp.signal }))
  const late = openClient(proxy.bootstrap, { memberId: `late ${name}`, kafka })
  const pending = {
    send: settled(leadership.send({ topic, messages: [{ value: `${role} lost`, partition: 0 }] })),
    transact: settled(
      leadership.transact((transaction) =>
        transaction.send({ topic, messages: [{ value: `${role} lost too`, partition: 0 }] }),
      ),
    ),
    renew: settled(leadership.renew()),
    describe: settled(client.describe(role, { timeoutMs: 1_500 })),
    'describe of a new client': settled(late.describe(role, { timeoutMs: 1_500 })),
    'tryAcquire of a new client': settled(late.tryAcquire(freshName('silent'))),
  }
  await aborted(leadership, lease.leaseMs + graceMs)
  const endedAt = performance.now()
  // The guard is false within the lease, counted from before the renewal was sent; the signal follows at once.
  expect(leadership.remainingMs()).toBe(0)
  expect(endedAt - confirmedBy).toBeLessThan(lease.leaseMs + graceMs)
  const { reason } = leadership.signal
  expect(['LEASE_EXPIRED', 'TERM_ENDED']).toContain(codeOf(reason))

  const next = await takeOver
  expect(next.term).toBeGreaterThan(leadership.term)
  const took: string[] = []
  for (const [what, settling] of Object.entries(pending)) {
    const { outcome, at } = await settling
    expect(isCoordinationError(outcome), `${what}: ${String(outcome)}`).toBe(true)
    took.push(`${what} ${codeOf(outcome)} ${(at - goneAt).toFixed(0)}`)
    const deadlineMs = what.startsWith('describe')
      ? 1_500
      : what.startsWith('tryAcquire')
        ? 4 * lease.requestTimeoutMs
        : lease.leaseMs
    expect(at - goneAt, what).toBeLessThan(deadlineMs + graceMs)
  }
  const resigned = await settled(leadership.resign())
  expect(resigned.outcome).toBe('already-ended')
  const abortedAt = performance.now()
  giveUp.abort(new Error('enough'))
  const waited = await waiting
  expect(waited.outcome).toEqual(new Error('enough'))
  expect(waited.at - abortedAt).toBeLessThan(graceMs)
  const closingAt = performance.now()
  await late.close()
  const closeMs = performance.now() - closingAt
  expect(closeMs).toBeLessThan(2_000 + graceMs)

  await next.send({ topic, messages: [{ value: `${role} of the successor`, partition: 0 }] })
  lift()
  // What was sent into the silence arrives now, behind the successor's mint.
  await client.describe(role)
  await next.renew()
  const { producerId, producerEpoch } = await lookAt(bootstrap, role)
  expect(`${producerId}:${producerEpoch}`).toBe(next.token.toString())
  const mine = (await readCommittedLog(bootstrap, topic)).filter(({ value }) => String(value).startsWith(role))
  const committed = valuesOf(mine.filter(({ outcome }) => outcome === 'committed'))
  const known = committed.filter((value) => value !== `${role} lost`)
  expect(known).toEqual([`${role} before`, `${role} of the successor`])
  // A commit that was applied unheard is told as unknown, never as failed.
  if (committed.length > known.length) {
    expect(codeOf((await pending.send).outcome)).toBe('COMMIT_UNKNOWN')
    expect(committed.indexOf(`${role} lost`)).toBe(1)
  }
  await expect(leadership.send({ topic, messages: [{ value: 'stale', partition: 0 }] })).rejects.toBe(reason)
  expect(await next.resign()).toBe('resigned')
  expect(await held.resign()).toBe('resigned')
  return `${fault}, kafkajs ${name}: ended by ${codeOf(reason)} ${(endedAt - confirmedBy).toFixed(0)} ms after its last renewal; ${took.join(', ')}, close ${closeMs.toFixed(0)}`
}

const partitions = 6
/** Room for a renewal of each role on a machine that runs three brokers beside other things. */
const threeNodeLeaseMs = 6_000

async function oneLinkGone({ bootstrap }: SharedCluster, fault: Fault): Promise<void> {
  const topic = freshName('coordination')
  const ledBy = (id: number): number[] => [id, (id % 3) + 1, ((id + 1) % 3) + 1]
  await placedTopic(
    bootstrap,
    topic,
    Array.from({ length: partitions }, (_, partition) => ledBy((partition % 3) + 1)),
    { 'cleanup.policy': 'compact' },
  )
  const coordinators = await leadersOf(bootstrap, transactionState)
  const leaders = await leadersOf(bootstrap, topic)
  const [gone] = coordinators
  if (gone === undefined) throw new Error('no coordinator')
  const other = (gone % 3) + 1
  const roleWhere = (isLed: boolean, isRun: boolean): string => {
    for (;;) {
      const role = freshName('link')
      const leader = leaders[rolePartition(parseRole(role), partitions)]
      const coordinator = coordinators[coordinatorPartition(role)]
      if ((leader === gone) === isLed && (coordinator === gone) === isRun) return role
    }
  }
  const cast = [
    { what: 'led over it', role: roleWhere(true, false), needsIt: true },
    { what: 'coordinated over it', role: roleWhere(false, true), needsIt: true },
    { what: 'beside it', role: roleWhere(false, false), needsIt: false },
  ]
  const proxy = await openProxy(bootstrap)
  const leader = openClient(proxy.bootstrap, { memberId: 'leader', topic, leaseMs: threeNodeLeaseMs })
  const writers: SteadyWriter[] = []
  for (const { role } of cast) {
    const commands = freshName('commands')
    await placedTopic(bootstrap, commands, [ledBy(other)])
    writers.push(new SteadyWriter(leader, role, commands))
  }
  await Promise.all(writers.map((writer) => writer.goesOn(5, 30_000)))
  const address = bootstrap[gone - 1] ?? ''
  const lift = disturb(proxy, fault, address)
  const goneAt = performance.now()
  const needy = writers.filter((_writer, index) => cast[index]?.needsIt === true)
  await expect.poll(() => needy.every((writer) => endsOf(writer, goneAt).length > 0), { timeout: 20_000 }).toBe(true)
  const endedMs = performance.now() - goneAt
  expect(endedMs).toBeLessThan(threeNodeLeaseMs + graceMs)
  // Longer than a lease, so that what goes on goes on without that broker.
  await writers[2]?.goesOn(5, 20_000)
  lift()
  const liftedAt = performance.now()
  await Promise.all(writers.map((writer) => writer.goesOn(5, 30_000)))
  const backMs = performance.now() - liftedAt
  await Promise.all(writers.map((writer) => writer.stop()))
  for (const [index, writer] of writers.entries()) {
    const ends = endsOf(writer, goneAt)
    tell(
      `${fault}, ${cast[index]?.what}: ${writer.acked.length} writes, ${writer.longestGapMs(goneAt).toFixed(0)} ms without one at most, ` +
        `terms ended: ${ends.join(', ') || 'none'}`,
    )
    expect(await findingsOf(bootstrap, writer), cast[index]?.what).toEqual([])
    if (cast[index]?.needsIt === true) {
      expect(ends.filter((code) => code !== 'LEASE_EXPIRED' && code !== 'TERM_ENDED')).toEqual([])
    } else expect(ends).toEqual([])
  }
  tell(
    `${fault} of the link to one broker: terms over it ended after ${endedMs.toFixed(0)} ms, led again ${backMs.toFixed(0)} ms after it was back`,
  )
}

/** Resolves when the term has ended, with a bound that a test can fail by. */
async function aborted({ signal }: Leadership, withinMs: number): Promise<void> {
  if (signal.aborted) return
  await new Promise<void>((resolve, reject) => {
    const timer = setTimeout(() => reject(new Error(`the term had not ended after ${withinMs} ms`)), withinMs)
    signal.addEventListener(
      'abort',
      () => {
        clearTimeout(timer)
        resolve()
      },
      { once: true },
    )
  })
}

async function seenInQueue(client: CoordinationClient, role: string, memberId: string): Promise<void> {
  for (;;) {
    const { roster } = await client.describe(role)
    if (roster.some((member) => member.memberId === memberId)) return
  }
}

function valuesOf(records: readonly { readonly value: Buffer | null }[]): readonly string[] {
  return records.map(({ value }) => String(value))
}

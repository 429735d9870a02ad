import { setTimeout as delay } from 'node:timers/promises'
import { Kafka, logLevel } from 'kafkajs'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type RawRecord, readCommittedLog } from '../../examples/demo/raw-log.js'
import { type ClientOptions, CoordinationClient, parseRole, rolePartition } from '../../src/index.js'
import { type KafkaCluster, type KafkaNode, startCluster } from '../kafka/cluster.js'
import type { SharedKind } from '../kafka/global-setup.js'
import { describeWithBrokers, freshName } from '../kafka/suites.js'
import { aborted } from '../support/aborted.js'
import { isLongForm, rounds, tell, testWhere } from '../support/form.js'
import { kinds, losesMarkers } from '../support/kinds.js'
import { lookAt } from '../support/look.js'
import {
  coordinatorPartition,
  electPreferred,
  leadersOf,
  placedTopic,
  reorderReplicas,
  transactionState,
} from './placement.js'
import { endsOf, findings, findingsOf, SteadyWriter, type Told } from './steady-writer.js'

/**
 * Brokers that are taken for dead sooner than by default, so that a crash takes seconds here. A coordinator waits for a broker that
 * neither answers nor closes as long as `request.timeout.ms` (30 s by default) before it sends a transaction's markers to the next.
 */
const overrides = {
  'request.timeout.ms': '4000',
  'broker.session.timeout.ms': '3000',
  'broker.heartbeat.interval.ms': '500',
  'controller.quorum.election.timeout.ms': '500',
  'controller.quorum.fetch.timeout.ms': '1500',
}
/** Longer than any of these outages. */
const lease = { leaseMs: 40_000, renewIntervalMs: 500, staggerMs: 1_000 }
const partitions = 6
/** Ten times what an outage by these settings should take. */
const longestOutageMs = 60_000

type Harm = 'kill' | 'stop' | 'pause'

/** Undoes a harm. */
async function restore(node: KafkaNode, harm: Harm): Promise<void> {
  if (harm === 'pause') await node.resume()
  else await node.start()
}

/** Three replicas, the given broker first. */
function ledBy(id: number): number[] {
  return [id, (id % 3) + 1, ((id + 1) % 3) + 1]
}

describe('the judgement', () => {
  const told = (value: string, outcome: string, offset: bigint | undefined): Told => ({
    value,
    outcome,
    offset,
    term: 1n,
    startedAt: 0,
    at: 0,
    message: undefined,
  })
  const record = (value: string, offset: bigint, fields: Partial<RawRecord> = {}): RawRecord => ({
    topic: 't',
    partition: 0,
    offset,
    timestamp: 0n,
    key: null,
    value: Buffer.from(value),
    headers: [['mandate-term', Buffer.from('1')]],
    producerId: 1n,
    producerEpoch: 0,
    transactional: true,
    outcome: 'committed',
    ...fields,
  })
  const term = (number: bigint) => ({ token: '', term: number, begunAt: 0, endedBy: undefined, endedAt: undefined })
  const history = {
    told: [told('a', 'ack', 0n), told('b', 'TRANSACTION_ABORTED', undefined), told('c', 'COMMIT_UNKNOWN', undefined)],
    terms: [term(1n), term(2n)],
  }
  const log = [record('a', 0n), record('b', 1n, { outcome: 'aborted' }), record('c', 3n)]

  test('finds nothing where all is well, with an unknown commit there or not', () => {
    expect(findings(history, log)).toEqual([])
    expect(findings(history, log.slice(0, 2))).toEqual([])
  })

  test.each([
    ['a lost record', log.slice(1), 'a was acknowledged and is lost'],
    ['a record told to be aborted', [...log.slice(0, 1), record('b', 1n), ...log.slice(2)], 'b is committed'],
    ['a wrong offset', [record('a', 7n), ...log.slice(1)], 'a is at 7, and 0 was told'],
    ['a double', [...log, record('a', 5n)], 'a is there 2 times'],
    ['another order', [record('c', 0n), record('a', 0n)], 'another order'],
    ['an open transaction', [...log, record('x', 5n, { outcome: 'open' })], 'x is open'],
    ['a stranger', [...log, record('x', 5n)], 'x was never written'],
    ['a stale record', [...log, record('c', 5n, { headers: [['mandate-term', Buffer.from('0')]] })], 'lies behind'],
  ])('finds %s', (_what, doctored, finding) => {
    expect(findings(history, doctored).join('\n')).toContain(finding)
  })

  test('finds a term that did not rise', () => {
    expect(findings({ ...history, terms: [term(2n), term(2n)] }, log)).toEqual(['term 2 follows 2'])
  })
})

/** A cluster of a suite's own, and clients that end with it. */
function ownCluster(kind: SharedKind) {
  let running: KafkaCluster | undefined
  const clients: CoordinationClient[] = []
  beforeAll(async () => {
    running = await startCluster({ ...kind, overrides })
  })
  afterAll(async () => {
    await Promise.all(clients.map((client) => client.close()))
    await running?.stop()
  })
  return {
    cluster: (): KafkaCluster => {
      if (running === undefined) throw new Error('the cluster runs within hooks and tests only')
      return running
    },
    client: (topic: string, memberId: string, options: Partial<ClientOptions> = {}): CoordinationClient => {
      const kafka = new Kafka({ brokers: [...(running?.bootstrap ?? [])], logLevel: logLevel.NOTHING })
      const client = new CoordinationClient({ kafka, memberId, topic, ...lease, ...options })
      clients.push(client)
      return client
    },
  }
}

async function coordinationTopic({ bootstrap, nodes }: KafkaCluster): Promise<string> {
  const topic = freshName('coordination')
  const replicas = Array.from({ length: partitions }, (_, partition) =>
    nodes.length === 1 ? [1] : ledBy((partition % 3) + 1),
  )
  await placedTopic(bootstrap, topic, replicas, { 'cleanup.policy': 'compact' })
  return topic
}

type OfBroker = (id: number) => boolean

/** A role whose lease partition is led, and which is coordinated, by a broker for which that holds. */
async function roleWhere(cluster: KafkaCluster, topic: string, isLed: OfBroker, isRun: OfBroker): Promise<string> {
  const leaders = await leadersOf(cluster.bootstrap, topic)
  const coordinators = await leadersOf(cluster.bootstrap, transactionState)
  for (let attempt = 0; attempt < 10_000; attempt++) {
    const role = freshName('role')
    const leader = leaders[rolePartition(parseRole(role), partitions)] ?? -1
    const coordinator = coordinators[coordinatorPartition(role)] ?? -1
    if (isLed(leader) && isRun(coordinator)) return role
  }
  throw new Error(`no such role with leaders ${leaders} and coordinators ${coordinators}`)
}

/** The broker that coordinates the most roles, so that one of each kind exists. */
async function busiestNode({ bootstrap, nodes }: KafkaCluster): Promise<KafkaNode> {
  await electPreferred(bootstrap[0] ?? '', transactionState, [0, 1, 2, 3])
  const coordinators = await leadersOf(bootstrap, transactionState)
  const count = ({ id }: KafkaNode): number => coordinators.filter((leader) => leader === id).length
  const [busiest] = nodes.toSorted((a, b) => count(b) - count(a))
  if (busiest === undefined) throw new Error('no broker')
  return busiest
}

interface Part {
  readonly what: string
  readonly role: string
  /** Replicas of the topic that the role's leader writes to. */
  readonly guarded: readonly number[]
}

/** Members of `cast` that write under their roles all the time, with a standby that waits for each. */
async function writing(
  leader: CoordinationClient,
  standby: CoordinationClient,
  cluster: KafkaCluster,
  cast: readonly Part[],
) {
  const writers: SteadyWriter[] = []
  for (const { role, guarded } of cast) {
    const commands = freshName('commands')
    await placedTopic(cluster.bootstrap, commands, [guarded])
    writers.push(new SteadyWriter(leader, role, commands))
  }
  const all = async (): Promise<void> => {
    await Promise.all(writers.map((writer) => writer.goesOn(5, longestOutageMs)))
  }
  await all()
  const giveUp = new AbortController()
  const waits = cast.map(({ role }) => standby.acquire(role, { signal: giveUp.signal }))
  for (const wait of waits) wait.catch(() => undefined)
  return {
    /** Each writes five more records. */
    goOn: all,
    longestGaps: (from: number): readonly number[] => writers.map((writer) => writer.longestGapMs(from)),
    /** Ends it, and judges: nothing acknowledged is lost, no standby led, and nothing but a lost answer (I9) cost a term. */
    judge: async (what: string, gaps: readonly number[]): Promise<void> => {
      giveUp.abort(new Error('enough'))
      const waited = await Promise.allSettled(waits)
      expect(waited.map((outcome) => (outcome.status === 'rejected' ? outcome.reason.message : 'led'))).toEqual(
        cast.map(() => 'enough'),
      )
      await Promise.all(writers.map((writer) => writer.stop()))
      for (const [index, writer] of writers.entries()) {
        const ends = endsOf(writer)
        tell(
          `${what}, ${cast[index]?.what}: ${writer.acked.length} writes, ${gaps[index]?.toFixed(0)} ms without one` +
            `${ends.length === 0 ? ', same token' : `, ended by ${ends.join(', ')}`}${failuresOf(writer)}`,
        )
        expect(await findingsOf(cluster.bootstrap, writer), cast[index]?.what).toEqual([])
        expect(ends.filter((code) => code !== 'TERM_ENDED')).toEqual([])
      }
    },
  }
}

describe.each(kinds())('$name', ({ kind }) => {
  describeWithBrokers('the only broker', () => {
    const own = ownCluster(kind)

    test.each<Harm>(harmsOf(kind, ['kill'], ['pause']))(
      'gone by %s and back ends no term but for a lost answer',
      {
        timeout: 120_000,
      },
      async (harm) => {
        const cluster = own.cluster()
        const [node] = cluster.nodes
        if (node === undefined) throw new Error('no broker')
        const topic = await coordinationTopic(cluster)
        // Patience shorter than the pause, so that answers are lost, and arrive late.
        const leader = own.client(topic, 'leader', { requestTimeoutMs: 1_000 })
        const standby = own.client(topic, 'standby')
        const cast = [{ what: 'its role', role: freshName('role'), guarded: [1] }]
        const play = await writing(leader, standby, cluster, cast)
        const harmedAt = performance.now()
        await node[harm]()
        if (harm === 'pause') await delay(3_000)
        await restore(node, harm)
        await play.goOn()
        await play.judge(`${harm} of the only broker`, play.longestGaps(harmedAt))
        await Promise.all([leader, standby].map((client) => client.close()))
      },
    )
  })
})

describe.each(kinds({ nodes: 3 }))('$name', ({ kind }) => {
  describeWithBrokers('a broker that fails', () => {
    const own = ownCluster(kind)

    test.each<Harm>(harmsOf(kind, ['kill', 'pause'], ['stop']))(
      'by %s ends no term but for a lost answer, and loses nothing acknowledged',
      { timeout: 240_000 },
      async (harm) => {
        const cluster = own.cluster()
        const { bootstrap } = cluster
        const topic = await coordinationTopic(cluster)
        const node = await busiestNode(cluster)
        const { id } = node
        const other = (id % 3) + 1
        const isIt: OfBroker = (leader) => leader === id
        const isNot: OfBroker = (leader) => leader !== id
        const cast = [
          { what: 'led by it', role: await roleWhere(cluster, topic, isIt, isNot), guarded: ledBy(other) },
          { what: 'coordinated by it', role: await roleWhere(cluster, topic, isNot, isIt), guarded: ledBy(other) },
          { what: 'both', role: await roleWhere(cluster, topic, isIt, isIt), guarded: ledBy(id) },
          { what: 'neither', role: await roleWhere(cluster, topic, isNot, isNot), guarded: ledBy(other) },
        ]
        const stranger = freshName('stranger')
        await placedTopic(bootstrap, stranger, [[id]])
        const leader = own.client(topic, 'leader')
        const standby = own.client(topic, 'standby')
        const play = await writing(leader, standby, cluster, cast)

        const harmedAt = performance.now()
        await node[harm]()
        await play.goOn()
        const gaps = play.longestGaps(harmedAt)
        // The stranger's topic has no leader now; whoever comes new is not held up by it.
        const others = bootstrap.filter((address) => address !== `127.0.0.1:${node.port}`)
        await expect.poll(() => leadersOf(others, stranger), { timeout: 20_000 }).toEqual([-1])
        const newcomer = own.client(topic, 'newcomer')
        const askedAt = performance.now()
        const fresh = await newcomer.acquire(await roleWhere(cluster, topic, isNot, isNot))
        const acquiredMs = performance.now() - askedAt
        expect(await fresh.resign()).toBe('resigned')
        tell(`${harm}: a newcomer led beside a stranger's leaderless topic after ${acquiredMs.toFixed(0)} ms`)

        await restore(node, harm)
        await expect.poll(() => leadersOf(bootstrap, stranger), { timeout: 60_000 }).toEqual([id])
        await play.goOn()
        await play.judge(harm, gaps)
        await Promise.all([leader, standby, newcomer].map((client) => client.close()))
      },
    )

    testWhere(
      isLongForm,
      'together with the broker that coordinates the role it leads, and both back',
      {
        timeout: 240_000,
      },
      async () => {
        const cluster = own.cluster()
        const topic = await coordinationTopic(cluster)
        const first = await busiestNode(cluster)
        const second = cluster.nodes.find(({ id }) => id === (first.id % 3) + 1)
        if (second === undefined) throw new Error('no second broker')
        const role = await roleWhere(
          cluster,
          topic,
          (id) => id === second.id,
          (id) => id === first.id,
        )
        const leader = own.client(topic, 'leader')
        const standby = own.client(topic, 'standby')
        const play = await writing(leader, standby, cluster, [{ what: 'their role', role, guarded: ledBy(second.id) }])
        const harmedAt = performance.now()
        await Promise.all([first.kill(), second.kill()])
        await Promise.all([first.start(), second.start()])
        await play.goOn()
        await play.judge('kill of leader and coordinator', play.longestGaps(harmedAt))
        await Promise.all([leader, standby].map((client) => client.close()))
      },
    )

    test('leads on while leaders and coordinators move', { timeout: 240_000 }, async () => {
      const cluster = own.cluster()
      const { bootstrap } = cluster
      const moves = rounds(3, 20)
      const topic = await coordinationTopic(cluster)
      const leader = own.client(topic, 'leader')
      const commands = freshName('commands')
      await placedTopic(bootstrap, commands, [ledBy(1)])
      const role = freshName('moved')
      const writer = new SteadyWriter(leader, role, commands)
      await writer.goesOn(5, 30_000)
      const began = performance.now()
      const leadersSeen: string[] = []
      for (let move = 0; move < moves; move++) {
        const next = (partition: number): number[] => ledBy(((partition + move) % 3) + 1)
        const moved = [
          { name: topic, count: partitions },
          { name: transactionState, count: 4 },
          { name: commands, count: 1 },
        ]
        for (const { name, count } of moved) {
          await reorderReplicas(bootstrap, name, count, next)
          await electPreferred(
            bootstrap[0] ?? '',
            name,
            Array.from({ length: count }, (_, partition) => partition),
          )
        }
        await writer.goesOn(5, longestOutageMs)
        const coordinators = await leadersOf(bootstrap, transactionState)
        const leaders = await leadersOf(bootstrap, topic)
        leadersSeen.push(
          `${coordinators[coordinatorPartition(role)]}/${leaders[rolePartition(parseRole(role), partitions)]}`,
        )
      }
      const gap = writer.longestGapMs(began)
      await writer.stop()
      const ends = endsOf(writer)
      tell(
        `${moves} moves (coordinator/leader ${leadersSeen.join(' ')}): ${writer.acked.length} writes, ${gap.toFixed(0)} ms without one at most, ` +
          `terms ended: ${ends.join(', ') || 'none'}${failuresOf(writer)}`,
      )
      // The positive control: both did move.
      expect(new Set(leadersSeen).size).toBeGreaterThan(1)
      expect(await findingsOf(bootstrap, writer)).toEqual([])
      expect(ends.filter((code) => code !== 'TERM_ENDED')).toEqual([])
      await leader.close()
    })

    testWhere(
      losesMarkers,
      'that holds the only replica of a guarded partition costs the marker: what was acknowledged there waits for the next transaction of the role',
      { timeout: 240_000 },
      async () => {
        const cluster = own.cluster()
        const { bootstrap } = cluster
        const topic = await coordinationTopic(cluster)
        const node = await busiestNode(cluster)
        const isNot = (leader: number): boolean => leader !== node.id
        const client = own.client(topic, 'leader', { leaseMs: 60_000, renewIntervalMs: 500 })
        const cases = await Promise.all(
          (['commits', 'aborts'] as const).map(async (next) => {
            const guarded = freshName('commands')
            await placedTopic(bootstrap, guarded, [[node.id]])
            const leadership = await client.acquire(await roleWhere(cluster, topic, isNot, isNot))
            return { next, guarded, leadership }
          }),
        )
        // One broker, killed between the Produce and the EndTxn of both.
        let produced = 0
        let kill: () => void = () => undefined
        const killed = new Promise<void>((resolve, reject) => {
          kill = () => {
            node.kill().then(resolve, reject)
          }
        })
        await Promise.all(
          cases.map(({ leadership, guarded }) =>
            leadership.transact(async (transaction) => {
              await transaction.send({ topic: guarded, messages: [{ value: 'acknowledged', partition: 0 }] })
              produced += 1
              if (produced === cases.length) kill()
              await killed
            }),
          ),
        )
        for (const { leadership } of cases) await leadership.renew()
        await node.start()
        const outcomesIn = async (guarded: string): Promise<readonly string[]> =>
          (await readCommittedLog(bootstrap, guarded)).map(({ value, outcome }) => `${value} ${outcome}`)
        for (const { next, guarded, leadership } of cases) {
          expect(await outcomesIn(guarded)).toEqual(['acknowledged open'])
          const failure = new Error('thought better of it')
          const done = leadership.transact(async (transaction) => {
            await transaction.send({ topic: guarded, messages: [{ value: 'more', partition: 0 }] })
            if (next === 'aborts') throw failure
          })
          await (next === 'aborts' ? expect(done).rejects.toBe(failure) : done)
          const outcome = next === 'aborts' ? 'aborted' : 'committed'
          expect(await outcomesIn(guarded)).toEqual([`acknowledged ${outcome}`, `more ${outcome}`])
          expect(leadership.signal.aborted).toBe(false)
        }
        await client.close()
      },
    )

    testWhere(
      !losesMarkers && (isLongForm || isFirst(kind)),
      'that holds the only replica of a guarded partition wedges the role until it is back',
      {
        timeout: 240_000,
      },
      async () => {
        const cluster = own.cluster()
        const { bootstrap } = cluster
        const topic = await coordinationTopic(cluster)
        const node = await busiestNode(cluster)
        const isNot = (leader: number): boolean => leader !== node.id
        const commands = freshName('commands')
        await placedTopic(bootstrap, commands, [[node.id]])
        const leader = own.client(topic, 'leader', { leaseMs: 10_000, renewIntervalMs: 1_000 })
        const prober = own.client(topic, 'prober')
        const short = await leader.acquire(await roleWhere(cluster, topic, isNot, isNot))
        const long = await leader.acquire(await roleWhere(cluster, topic, isNot, isNot), { leaseMs: 120_000 })
        const [shortTopic, longTopic] = [commands, freshName('commands')]
        await placedTopic(bootstrap, longTopic, [[node.id]])

        /** Kills the broker between Produce and EndTxn of a transaction of each. */
        let killed: Promise<void> | undefined
        const ready: (() => void)[] = []
        const together = new Promise<void>((resolve) => ready.push(resolve))
        let sentCount = 0
        const send = (leadership: typeof short, guarded: string) =>
          leadership.transact(async (transaction) => {
            const [position] = await transaction.send({
              topic: guarded,
              messages: [{ value: 'acknowledged', partition: 0 }],
            })
            sentCount += 1
            if (sentCount === 2) {
              killed = node.kill()
              await killed
              for (const go of ready) go()
            }
            await together
            return position
          })
        const positions = await Promise.all([send(short, shortTopic), send(long, longTopic)])
        const committedAt = performance.now()
        const wedged = { code: 'WEDGED', partitions: [`${shortTopic}-0`] }

        await expect(prober.tryAcquire(short.role)).resolves.toBeUndefined()
        await aborted(short.signal)
        const endedMs = performance.now() - committedAt
        expect(short.signal.reason).toMatchObject({
          code: 'LEASE_EXPIRED',
          cause: { code: 'WEDGED', role: short.role },
        })
        expect(short.signal.reason.cause.partitions).toContain(`${shortTopic}-0`)
        expect(short.remainingMs()).toBe(0)
        expect(long.signal.aborted).toBe(false)
        expect(
          (
            await lookAt(
              bootstrap.filter((address) => address !== `127.0.0.1:${node.port}`),
              short.role,
            )
          ).state,
        ).toBe('PrepareCommit')
        const askedAt = performance.now()
        await expect(leader.tryAcquire(short.role)).rejects.toMatchObject(wedged)
        const rejectedMs = performance.now() - askedAt

        const successor = prober.acquire(short.role)
        const renewal = long.renew()
        await node.start()
        const startedAt = performance.now()
        await renewal
        const renewedMs = performance.now() - startedAt
        const next = await successor
        const ledMs = performance.now() - startedAt
        expect(next.term).toBeGreaterThan(short.term)
        expect(long.signal.aborted).toBe(false)
        tell(
          `offline guarded partition: LEASE_EXPIRED by WEDGED ${endedMs.toFixed(0)} ms after the commit, tryAcquire rejected in ${rejectedMs.toFixed(0)} ms; ` +
            `back: the long lease renewed after ${renewedMs.toFixed(0)} ms under the same token, the short one's successor led after ${ledMs.toFixed(0)} ms`,
        )
        for (const [index, guarded] of [shortTopic, longTopic].entries()) {
          const records = await readCommittedLog(bootstrap, guarded)
          expect(records.map(({ value, offset, outcome }) => [String(value), offset, outcome])).toEqual([
            ['acknowledged', positions[index]?.offset, 'committed'],
          ])
        }
        await long.transact((transaction) =>
          transaction.send({ topic: longTopic, messages: [{ value: 'more', partition: 0 }] }),
        )
        await leader.close()
        await prober.close()
      },
    )
  })
})

/** Counts of what was told besides acknowledgements, with the last message of each. */
function failuresOf({ told }: SteadyWriter): string {
  const counts = new Map<string, { count: number; message: string }>()
  for (const { outcome, message = '' } of told) {
    if (outcome !== 'ack') counts.set(outcome, { count: (counts.get(outcome)?.count ?? 0) + 1, message })
  }
  return [...counts].map(([code, { count, message }]) => `, ${count} x ${code} (${message})`).join('')
}

/** All harms in the long form; in the short one some on the first kind of cluster that this run knows, and another on the second. */
function harmsOf(kind: SharedKind, onFirst: readonly Harm[], onSecond: readonly Harm[]): readonly Harm[] {
  if (isLongForm) return ['kill', 'stop', 'pause']
  return isFirst(kind) ? onFirst : onSecond
}

function isFirst({ transactionVersion }: SharedKind): boolean {
  return kinds()[0]?.kind.transactionVersion === transactionVersion
}

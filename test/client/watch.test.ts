/** A watch at each of its waits, on a scripted cluster and hand-moved time: what it tells, how it ends, what it leaves behind. */
import { afterEach, describe, expect, test } from 'vitest'
import { Contentions } from '../../src/client/contentions.js'
import type { CoordinationLog } from '../../src/client/coordination-log.js'
import type { Leadership } from '../../src/client/leadership.js'
import { settingsOf } from '../../src/client/options.js'
import type { Services } from '../../src/client/services.js'
import { openServices } from '../../src/client/services.js'
import { Watch } from '../../src/client/watch.js'
import type { ApiResponse } from '../../src/cluster/connection.js'
import type { LeadershipStatus } from '../../src/election/status.js'
import { encodeKey } from '../../src/format/key.js'
import { encodeLease } from '../../src/format/lease.js'
import type { Role } from '../../src/format/names.js'
import { parseMemberId, parseRole } from '../../src/format/names.js'
import { FencingToken } from '../../src/format/token.js'
import { watched } from '../cluster/support.js'
import { ManualRuntime, settled } from '../support/manual-runtime.js'
import { ScriptedCluster } from '../support/scripted-cluster.js'
import type { SeenRequest } from '../support/scripted-connection.js'

const role: Role = parseRole('orders')
const states = '__coordination_state'
const leaseMs = 9_000
const requestTimeoutMs = 1_000

interface World {
  readonly runtime: ManualRuntime
  readonly cluster: ScriptedCluster
  /** Of the watcher. */
  readonly services: Services
  watch(roles: readonly Role[] | undefined, signal?: AbortSignal): Watch
}

const closing = new Set<Services>()
afterEach(() => {
  for (const services of closing) services.close()
  closing.clear()
})

function servicesOn(runtime: ManualRuntime, cluster: ScriptedCluster, memberId: string): Services {
  const settings = settingsOf({ kafka: {}, runtime, memberId, leaseMs, requestTimeoutMs })
  const services = openServices(settings, cluster.connection, { tell: () => undefined, warn: () => undefined })
  closing.add(services)
  return services
}

function world(): World {
  const runtime = new ManualRuntime()
  const cluster = new ScriptedCluster(runtime, { partitions: 1, transactionVersion: 2 })
  const services = servicesOn(runtime, cluster, 'watcher')
  return {
    runtime,
    cluster,
    services,
    watch: (roles, signal) => new Watch(services, roles === undefined ? undefined : new Set(roles), [signal]),
  }
}

async function opened({ runtime, services }: World): Promise<CoordinationLog> {
  const log = watched(services.log({ deadline: Number.POSITIVE_INFINITY }))
  await runtime.pass(100)
  const { value, error } = log.now()
  if (value === undefined) throw error
  return value
}

async function lead({ runtime, cluster }: World, led: Role = role, memberId = 'leader'): Promise<Leadership> {
  const contentions = new Contentions(servicesOn(runtime, cluster, memberId), new AbortController().signal)
  const contending = watched(contentions.contend(led, {}, false))
  await runtime.passUntil(() => contending.now().state !== 'pending', 60_000)
  const { value, error } = contending.now()
  if (value === undefined) throw error
  return value
}

/** The next status, with as much time passed as it takes. */
async function next({ runtime }: World, watch: Watch, mostMs = 30_000): Promise<LeadershipStatus> {
  const told = watched(watch.next())
  await runtime.passUntil(() => told.now().state !== 'pending', mostMs)
  const { value, error } = told.now()
  if (value?.value === undefined) throw error ?? new Error('the watch is done')
  return value.value
}

/** A lease that says it is of the pair that wrote it, committed under a producer id that is not the role's. */
function forge(cluster: ScriptedCluster, producerId: bigint): void {
  const pair = { producerId, producerEpoch: 0 }
  const value = encodeLease({
    member: parseMemberId('forger'),
    token: FencingToken.of(producerId, 0),
    grantedAt: 0n,
    deadline: 60_000n,
  })
  const record = { offset: 0n, key: encodeKey({ kind: 'lease', role }), value, headers: [] }
  cluster.append(`${states}-0`, { ...pair, transactional: true, records: [record] })
  cluster.append(`${states}-0`, { ...pair, transactional: true, control: 'commit' })
}

/** The looks of the watcher: a leader's own go over another channel. */
function looks({ cluster }: World): readonly SeenRequest<'DescribeTransactions'>[] {
  return cluster.connection.of('DescribeTransactions').filter(({ channel }) => channel === 'work')
}

interface Refusals {
  readonly DescribeTransactions?: number
  readonly ListOffsets?: number
}

/** From now on the cluster answers these codes. */
function refuse({ cluster }: World, { DescribeTransactions: look, ListOffsets: end }: Refusals): void {
  const { connection } = cluster
  if (look !== undefined) {
    connection.always('DescribeTransactions', ({ request }) => ({
      transactions: cluster.describe(request).transactions.map((one) => ({ ...one, errorCode: look })),
    }))
  }
  if (end !== undefined) {
    connection.always('ListOffsets', ({ request }) => ({
      partitions: cluster.listOffsets(request).partitions.map((one) => ({ ...one, errorCode: end })),
    }))
  }
}

/** The next polls of the leader and the watcher are answered with OFFSET_OUT_OF_RANGE. */
function outOfRange({ cluster }: World): void {
  const step = ({ request }: SeenRequest<'Fetch'>): ApiResponse<'Fetch'> => ({
    errorCode: 0,
    partitions: request.partitions.map(({ partition }) => ({
      partition,
      errorCode: 1,
      highWatermark: 0n,
      logStartOffset: 0n,
      batches: [],
    })),
  })
  cluster.connection.next('Fetch', step, step)
  // Something that ends the polls under way.
  cluster.append(`${states}-0`, {})
}

/** From now on only the watcher's looks stay unanswered. */
function silenceLooks({ cluster }: World): void {
  const answer = cluster.describe
  cluster.connection.always('DescribeTransactions', ({ channel, request }) =>
    channel === 'work' ? 'silent' : answer(request),
  )
}

describe('a watch', () => {
  test('that nobody iterates leaves no timer behind once its signal aborts', async () => {
    const given = world()
    await lead(given)
    const stop = new AbortController()
    const watch = given.watch([role], stop.signal)
    expect((await next(given, watch)).holder).toBe('leader')
    const before = given.runtime.pendingTimers
    stop.abort(new Error('seen enough'))
    expect(given.runtime.pendingTimers).toBe(before - 1)
    await expect(watch.next()).rejects.toThrow('seen enough')
  })

  test('whose signal was aborted before asks the cluster for nothing', async () => {
    const given = world()
    const watch = given.watch([role], AbortSignal.abort(new Error('not at all')))
    await expect(watch.next()).rejects.toThrow('not at all')
    await given.runtime.pass(1)
    expect(given.cluster.connection.seen).toEqual([])
  })

  test.each([
    ['a look is refused', 'UNAUTHORIZED', { DescribeTransactions: 53 }],
    ['its topic is', 'UNAUTHORIZED', { ListOffsets: 29 }],
  ] as const)('whose first pass cannot ever succeed ends: %s', async (_, code, codes: Refusals) => {
    const given = world()
    await lead(given)
    refuse(given, codes)
    const told = watched(given.watch([role]).next())
    await given.runtime.pass(5_000)
    expect(told.now().error).toMatchObject({ code })
  })

  test('that loses its rights later ends, and one that begins after the topic was made again does not begin', async () => {
    const given = world()
    await lead(given)
    const watch = given.watch([role])
    await next(given, watch)
    refuse(given, { DescribeTransactions: 53 })
    forge(given.cluster, 77n)
    await settled()
    await expect(watch.next()).rejects.toMatchObject({ code: 'UNAUTHORIZED' })

    const other = world()
    await opened(other)
    const first = other.watch([role])
    await next(other, first)
    other.cluster.connection.always('Metadata', ({ request }) => ({
      brokers: [{ id: 1, host: 'one', port: 9092 }],
      clusterId: 'c',
      controllerId: 1,
      topics: request.topics.map((topic) => ({ errorCode: 3, topic, partitions: [] })),
    }))
    await other.runtime.pass(15_000)
    await expect(first.next()).rejects.toMatchObject({ code: 'TOPIC' })
    const told = watched(other.watch([role]).next())
    await other.runtime.pass(1_000)
    expect(told.now().error).toMatchObject({ code: 'TOPIC' })
  })

  test('whose partition is read from the start again tells that it knows nothing, and then no lower term', async () => {
    const given = world()
    const leadership = await lead(given)
    const watch = given.watch([role])
    await next(given, watch)
    await leadership.renew()
    const held = await next(given, watch)
    expect(held).toMatchObject({ state: 'held', term: leadership.term })
    outOfRange(given)
    const told: LeadershipStatus[] = []
    while (told.at(-1)?.state !== 'held') {
      const waiting = watched(watch.next())
      await given.runtime.passUntil(() => waiting.now().state !== 'pending', 60_000)
      const value = waiting.now().value?.value
      if (value !== undefined) told.push(value)
    }
    expect(
      told.map(({ state }) => state),
      'reading a lease again makes its age no less known',
    ).toEqual(['unknown', 'held'])
    expect(told.every(({ term }) => term === undefined || term === held.term)).toBe(true)
    await watch.return()
  })

  test('tells that a lease ran out, and that a role is vacant, while a look stays unanswered', async () => {
    const given = world()
    const leadership = await lead(given)
    const watch = given.watch([role])
    await next(given, watch)
    await leadership.renew()
    expect((await next(given, watch)).state).toBe('held')
    silenceLooks(given)
    forge(given.cluster, 77n)
    await settled()
    const told = watched(watch.next())
    const resigned = watched(leadership.resign())
    await given.runtime.passUntil(() => resigned.now().state !== 'pending', 5_000)
    await settled()
    expect(told.now().value?.value?.state).toBe('vacant')
    await watch.return()
  })

  test('gives a look its whole time, for a request that times out takes down what others have under way', async () => {
    const given = world()
    await lead(given)
    const watch = given.watch([role])
    await next(given, watch)
    const { connection } = given.cluster
    const from = looks(given).length
    // The first half of the round's time goes by before the coordinator is found.
    given.services.coordinators.forget({ keyType: 'transaction', key: role })
    connection.next('FindCoordinators', async ({ request }) => {
      await new Promise<void>((resolve) => given.runtime.setTimer(900, resolve))
      const node = { id: 1, host: 'one', port: 9092 }
      return { coordinators: request.keys.map((key) => ({ key, errorCode: 0, errorMessage: null, node })) }
    })
    silenceLooks(given)
    forge(given.cluster, 77n)
    await given.runtime.pass(950)
    const look = looks(given)[from]
    expect((look?.options.deadline ?? 0) - (look?.at ?? 0)).toBe(requestTimeoutMs)
    await watch.return()
  })

  test('of a role under whose key somebody forges one lease after the other looks once for each at most, and one at a time', async () => {
    const given = world()
    await lead(given)
    const watch = given.watch([role])
    await next(given, watch)
    const from = looks(given).length
    for (let forged = 0; forged < 200; forged++) {
      forge(given.cluster, 1_000_000n + BigInt(forged))
      await given.runtime.pass(5)
    }
    expect(looks(given).length - from).toBeLessThanOrEqual(200)
    // While one is under way, what comes waits for the next.
    silenceLooks(given)
    for (let forged = 0; forged < 100; forged++) {
      forge(given.cluster, 2_000_000n + BigInt(forged))
      await given.runtime.pass(5)
    }
    expect(looks(given).length - from).toBeLessThanOrEqual(201)
    await watch.return()
  })

  test('that ends at any tick of its first pass leaves nothing to be called', async () => {
    let told = 0
    for (let ticks = 0; told < 3; ticks++) {
      const given = world()
      await lead(given)
      let listeners = 0
      const log = await opened(given)
      const listen = log.listenToAll.bind(log)
      log.listenToAll = (listener) => {
        listeners += 1
        const unlisten = listen(listener)
        return () => {
          listeners -= 1
          unlisten()
        }
      }
      const watch = given.watch([role])
      const first = watched(watch.next())
      for (let tick = 0; tick < ticks; tick++) await Promise.resolve()
      if (ticks % 7 === 6) await given.runtime.pass(1)
      await watch.return()
      await given.runtime.pass(1)
      if (first.now().value?.done === false) told += 1
      expect(listeners, `${ticks} ticks`).toBe(0)
    }
  })
})

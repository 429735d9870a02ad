/** An operator's deposal at each of its steps, on a scripted cluster and hand-moved time: what it waits for, and what it leaves to others. */
import { afterEach, describe, expect, test } from 'vitest'
import { Contentions } from '../../src/client/contentions.js'
import { deposeHolder } from '../../src/client/depose.js'
import type { Leadership } from '../../src/client/leadership.js'
import { settingsOf } from '../../src/client/options.js'
import type { Services } from '../../src/client/services.js'
import { openServices } from '../../src/client/services.js'
import type { LeadershipStatus } from '../../src/election/status.js'
import type { Role } from '../../src/format/names.js'
import { parseRole } from '../../src/format/names.js'
import { watched } from '../cluster/support.js'
import { ManualRuntime } from '../support/manual-runtime.js'
import { ScriptedCluster } from '../support/scripted-cluster.js'

const role: Role = parseRole('orders')
/** Of virtual time. A stranger is waited for by a second and more. */
const floorMs = 200

interface World {
  readonly runtime: ManualRuntime
  readonly cluster: ScriptedCluster
}

type Watched<T> = ReturnType<typeof watched<T>>

const open = new Set<Services>()
afterEach(() => {
  for (const services of open) services.close()
  open.clear()
})

function world(): World {
  const runtime = new ManualRuntime()
  return { runtime, cluster: new ScriptedCluster(runtime, { partitions: 1, transactionVersion: 2 }) }
}

function servicesOf({ runtime, cluster }: World, memberId: string): Services {
  const settings = settingsOf({ kafka: {}, runtime, memberId, leaseMs: 9_000, requestTimeoutMs: 1_000 })
  const services = openServices(settings, cluster.connection, { tell: () => undefined, warn: () => undefined })
  open.add(services)
  return services
}

function contend(
  given: World,
  memberId: string,
  services: Services = servicesOf(given, memberId),
): Watched<Leadership> {
  const contentions = new Contentions(services, new AbortController().signal)
  return watched(contentions.contend(role, {}, false) as Promise<Leadership>)
}

async function outcome<T>({ runtime }: World, of: Watched<T>, mostMs = 30_000): Promise<T> {
  await runtime.passUntil(() => of.now().state !== 'pending', mostMs)
  const { value, error } = of.now()
  if (value === undefined) throw error
  return value
}

function depose(
  given: World,
  services = servicesOf(given, 'operator'),
  signal?: AbortSignal,
): Watched<LeadershipStatus> {
  const deadline = given.runtime.monotonicNow() + 15_000
  const bound = { deadline, answersUntil: Number.POSITIVE_INFINITY }
  return watched(deposeHolder(services, role, signal === undefined ? bound : { ...bound, signal }))
}

/** Virtual time until a member that comes now leads. */
async function acquireMs(given: World): Promise<number> {
  const from = given.runtime.monotonicNow()
  await outcome(given, contend(given, 'next'))
  return given.runtime.monotonicNow() - from
}

describe('depose', () => {
  test('of a role that nobody ever held mints nothing, and whoever comes next leads at once', async () => {
    const given = world()
    expect((await outcome(given, depose(given))).state).toBe('vacant')
    expect(given.cluster.connection.of('InitProducerId')).toEqual([])
    expect(await acquireMs(given)).toBeLessThan(floorMs)
  })

  test('of a role that was resigned mints nothing', async () => {
    const given = world()
    const leadership = await outcome(given, contend(given, 'leader'))
    await outcome(given, watched(leadership.resign()))
    const minted = given.cluster.connection.of('InitProducerId').length
    expect((await outcome(given, depose(given))).state).toBe('vacant')
    expect(given.cluster.connection.of('InitProducerId')).toHaveLength(minted)
    expect(await acquireMs(given)).toBeLessThan(floorMs)
  })

  test('by two operators at once, or of a role of which only a mint is there, lets the next lead at once', async () => {
    for (const others of [2, 3, 4]) {
      const given = world()
      await outcome(given, contend(given, 'leader'))
      const all = Array.from({ length: others }, (_, index) => depose(given, servicesOf(given, `operator-${index}`)))
      for (const one of all) await outcome(given, one)
      expect(await acquireMs(given)).toBeLessThan(floorMs)
    }
    const given = world()
    given.cluster.mint(role)
    await outcome(given, depose(given))
    expect(await acquireMs(given)).toBeLessThan(floorMs)
  })

  test('looks again where a look or a mint fails, and finds the coordinator again', async () => {
    const given = world()
    await outcome(given, contend(given, 'leader'))
    const { connection } = given.cluster
    const operator = servicesOf(given, 'operator')
    const other = { id: 2, host: 'two', port: 9092 }
    let mints = 0
    connection.always('InitProducerId', ({ node, request }) => {
      mints += 1
      if (node !== 'seed' && node.id === 1) return { errorCode: 16, producerId: -1n, producerEpoch: -1 }
      return given.cluster.initProducerId(request)
    })
    const looked = connection.of('DescribeTransactions').length
    connection.always('DescribeTransactions', ({ node, request }) => {
      const answer = given.cluster.describe(request)
      const fails =
        connection.of('DescribeTransactions').length === looked + 2 || (mints > 0 && node !== 'seed' && node.id === 1)
      if (!fails) return answer
      return { transactions: answer.transactions.map((one) => ({ ...one, errorCode: 16 })) }
    })
    connection.always('FindCoordinator', () => ({
      errorCode: 0,
      errorMessage: null,
      node: mints > 0 ? other : { id: 1, host: 'one', port: 9092 },
    }))
    const ended = await outcome(given, depose(given, operator))
    expect(ended.holder).toBe('leader')
    expect(given.cluster.logs.get('__coordination_state-0')?.at(-2)?.records[0]?.value).toBeNull()
  })

  test('gives its turn back while the coordinator finishes a transaction, and calls that WEDGED in its time only', async () => {
    const given = world()
    await outcome(given, contend(given, 'leader'))
    const operator = servicesOf(given, 'operator')
    let busy = false
    given.cluster.connection.always('DescribeTransactions', ({ request }) => {
      const answer = given.cluster.describe(request)
      if (!busy || !request.transactionalIds.includes(role)) return answer
      return { transactions: answer.transactions.map((one) => ({ ...one, state: 'PrepareAbort' })) }
    })
    busy = true
    const from = given.runtime.monotonicNow()
    const deposed = depose(given, operator)
    await given.runtime.pass(3_000)
    const other = watched(operator.minting.look('another', { deadline: given.runtime.monotonicNow() + 500 }))
    await given.runtime.pass(500)
    expect(other.now()).toMatchObject({ state: 'fulfilled' })
    await expect(outcome(given, deposed)).rejects.toMatchObject({ code: 'WEDGED' })
    expect(given.runtime.monotonicNow() - from).toBeLessThan(7_000)
  })

  test('that was aborted once it had minted still lets the next lead at once', async () => {
    const given = world()
    await outcome(given, contend(given, 'leader'))
    const stop = new AbortController()
    const { connection, initProducerId } = {
      ...given.cluster,
      initProducerId: given.cluster.initProducerId.bind(given.cluster),
    }
    let mints = 0
    connection.always('InitProducerId', ({ request }) => {
      if (++mints === 1) stop.abort(new Error('never mind'))
      return initProducerId(request)
    })
    const deposed = depose(given, servicesOf(given, 'operator'), stop.signal)
    await given.runtime.pass(100)
    expect(deposed.now().state).not.toBe('pending')
    expect(await acquireMs(given)).toBeLessThan(floorMs)
  })
})

/** A term from its acquire to every way it ends, on a scripted cluster and hand-moved time. */
import { AsyncLocalStorage } from 'node:async_hooks'
import { afterEach, describe, expect, test } from 'vitest'
import { Contentions } from '../../src/client/contentions.js'
import type { Diagnostics } from '../../src/client/diagnostics.js'
import type { Leadership } from '../../src/client/leadership.js'
import { settingsOf } from '../../src/client/options.js'
import type { Services } from '../../src/client/services.js'
import { openServices } from '../../src/client/services.js'
import { coordinationError } from '../../src/errors.js'
import { encodeKey } from '../../src/format/key.js'
import type { Role } from '../../src/format/names.js'
import { parseRole } from '../../src/format/names.js'
import { rolePartition } from '../../src/format/partition.js'
import { addAnswer, watched } from '../cluster/support.js'
import { ManualRuntime } from '../support/manual-runtime.js'
import { ScriptedCluster } from '../support/scripted-cluster.js'
import { lost, unreachable } from '../support/scripted-connection.js'

const role: Role = parseRole('orders')
const states = '__coordination_state'
const job = (value: string) => ({ topic: 'jobs', messages: [{ value, partition: 0 }] })

interface World {
  readonly runtime: ManualRuntime
  readonly cluster: ScriptedCluster
  readonly services: Services
  readonly contentions: Contentions
  readonly closing: AbortController
  readonly told: { readonly name: string; readonly message: object }[]
  names(): string[]
}

const worlds: World[] = []

afterEach(() => {
  for (const { services } of worlds.splice(0)) services.close()
})

function world(options: { transactionVersion?: number; requestTimeoutMs?: number; partitions?: number } = {}): World {
  const runtime = new ManualRuntime()
  const cluster = new ScriptedCluster(runtime, {
    partitions: options.partitions ?? 1,
    transactionVersion: options.transactionVersion ?? 2,
  })
  const settings = settingsOf({
    kafka: {},
    runtime,
    memberId: 'm',
    leaseMs: 9_000,
    requestTimeoutMs: options.requestTimeoutMs ?? 1_000,
  })
  const told: World['told'] = []
  const diagnostics: Diagnostics = {
    tell: (name, message) => told.push({ name, message }),
    warn: (message) => told.push({ name: 'warn', message }),
  }
  const services = openServices(settings, cluster.connection, diagnostics)
  const closing = new AbortController()
  const contentions = new Contentions(services, closing.signal)
  const made: World = {
    runtime,
    cluster,
    services,
    contentions,
    closing,
    told,
    names: () => told.map(({ name }) => name),
  }
  worlds.push(made)
  return made
}

async function lead(given: World = world()): Promise<World & { leadership: Leadership }> {
  const contending = watched(given.contentions.contend(role, {}, false))
  await given.runtime.passUntil(() => contending.now().state !== 'pending', 30_000)
  const { value: leadership, error } = contending.now()
  if (leadership === undefined) throw error
  return { ...given, leadership }
}

/** The APIs sent since `from` requests had been, without look-ups and the follower's. */
function sentSince({ cluster }: World, from: number): string[] {
  const quiet = ['Metadata', 'FindCoordinator', 'ApiVersions', 'Fetch', 'ListOffsets']
  return cluster.connection.seen
    .slice(from)
    .map(({ request }) => request.api)
    .filter((api) => !quiet.includes(api))
}

describe('acquiring', () => {
  test.each([2, 0])('on transaction version %d takes two mints: plain, then as a compare-and-swap', async (version) => {
    const led = await lead(world({ transactionVersion: version }))
    const requests = led.cluster.connection.of('InitProducerId')
    expect(requests.map(({ request }) => request.producerEpoch)).toEqual([-1, 0])
    expect(led.leadership.token.toString()).toBe('1000:1')
  })

  test('goes look, mint, mint, end of the log, lease (I5, I10)', async () => {
    const { cluster } = await lead()
    expect(
      cluster.connection.seen.map(({ request }) => request.api).filter((api) => api !== 'Fetch' && api !== 'Metadata'),
    ).toEqual(
      expect.arrayContaining(['DescribeTransactions', 'InitProducerId', 'AddPartitionsToTxn', 'Produce', 'EndTxn']),
    )
    const apis = cluster.connection.seen.map(({ request }) => request.api)
    const secondMint = apis.lastIndexOf('InitProducerId')
    expect(apis.slice(secondMint).indexOf('ListOffsets')).toBeGreaterThan(0)
    expect(apis.slice(secondMint).indexOf('ListOffsets')).toBeLessThan(apis.slice(secondMint).indexOf('Produce'))
  })

  test('is told with its split', async () => {
    const { told, leadership } = await lead()
    const acquired = told.filter(({ name }) => name === 'acquired')
    expect(acquired).toHaveLength(1)
    expect(acquired[0]?.message).toMatchObject({
      role,
      member: 'm',
      token: leadership.token.toString(),
      term: leadership.term.toString(),
      mintMs: expect.any(Number),
    })
  })

  test('ends at once when aborted, and leaves no timer behind', async () => {
    const given = world()
    given.cluster.connection.always('Metadata', unreachable)
    const abort = new AbortController()
    const contending = watched(given.contentions.contend(role, { signal: abort.signal }, false))
    await given.runtime.pass(500)
    const reason = new Error('enough')
    abort.abort(reason)
    await given.runtime.pass(200)
    expect(contending.now().error).toBe(reason)
  })

  test('of a first lease whose commit was answered late leads nothing, and then leads anew', async () => {
    const given = world()
    given.cluster.connection.next('EndTxn', given.cluster.endsUnheard)
    const { leadership, cluster } = await lead(given)
    expect(leadership.token.toString()).toBe('1000:3')
    expect(cluster.connection.of('EndTxn').map(({ request }) => request.producerEpoch)).toContain(1)
  })
})

describe('renewing', () => {
  test('keeps the token, and the deadline counts from before AddPartitionsToTxn was sent', async () => {
    const { runtime, leadership, cluster } = await lead()
    const renewed = watched(leadership.renew())
    await runtime.passUntil(() => renewed.now().state !== 'pending', 100)
    const sentAt = cluster.connection.of('AddPartitionsToTxn').at(-1)?.at ?? 0
    expect(leadership.remainingMs()).toBe(sentAt + 9_000 - runtime.monotonicNow())
    await runtime.pass(60_000)
    expect(leadership.signal.aborted).toBe(false)
    expect(new Set(cluster.connection.of('EndTxn').map(({ request }) => request.producerEpoch))).toEqual(new Set([1]))
  })

  test('that fails for good tells `renew` in the words of the library, and the term goes on while it lasts', async () => {
    const { runtime, leadership, cluster } = await lead()
    cluster.connection.next('AddPartitionsToTxn', addAnswer(29))
    const renewed = watched(leadership.renew())
    await runtime.passUntil(() => renewed.now().state !== 'pending', 100)
    expect(renewed.now().error).toMatchObject({ code: 'REFUSED', topic: states, kafkaCode: 29 })
    expect(leadership.signal.aborted).toBe(false)
  })

  test('that fails is tried again on a back-off, also after the clock was set', async () => {
    const { runtime, leadership, cluster } = await lead()
    cluster.connection.always('AddPartitionsToTxn', addAnswer(29))
    runtime.stepWall(3_600_000)
    const before = cluster.connection.of('AddPartitionsToTxn').length
    await runtime.pass(4_000)
    expect(cluster.connection.of('AddPartitionsToTxn').length - before).toBeGreaterThan(2)
    expect(cluster.connection.of('AddPartitionsToTxn').length - before).toBeLessThan(20)
    expect(leadership.remainingMs()).toBe(0)
    expect(leadership.signal.aborted).toBe(false)
  })

  test('comes at once after the clocks moved apart, and until then nothing remains', async () => {
    const { runtime, leadership } = await lead()
    runtime.stepWall(3_600_000)
    expect(leadership.remainingMs()).toBe(0)
    await runtime.pass(10)
    expect(leadership.remainingMs()).toBeGreaterThan(8_000)
  })

  test('that never succeeds ends the term at its deadline: LEASE_EXPIRED, once', async () => {
    const { runtime, leadership, cluster, told } = await lead()
    cluster.connection.always('AddPartitionsToTxn', unreachable)
    let aborts = 0
    leadership.signal.addEventListener('abort', () => {
      aborts += 1
    })
    await runtime.pass(20_000)
    expect(leadership.signal.reason).toMatchObject({ code: 'LEASE_EXPIRED', role, member: 'm' })
    expect(aborts).toBe(1)
    expect(told.filter(({ name }) => name === 'lost')).toHaveLength(1)
    expect(told.filter(({ name }) => name === 'renewal-late').length).toBeGreaterThan(0)
    await expect(leadership.send(job('x'))).rejects.toBe(leadership.signal.reason)
    await expect(leadership.renew()).rejects.toBe(leadership.signal.reason)
    expect(await leadership.resign()).toBe('already-ended')
  })

  test('that was slept through is noticed by the next call, whatever the timers did', async () => {
    const { runtime, leadership, cluster } = await lead()
    runtime.leap(60_000)
    const before = cluster.connection.seen.length
    expect(leadership.remainingMs()).toBe(0)
    await expect(leadership.send(job('x'))).rejects.toMatchObject({ code: 'LEASE_EXPIRED' })
    expect(leadership.signal.aborted).toBe(true)
    expect(cluster.connection.seen.slice(before).some(({ request }) => request.api === 'Produce')).toBe(false)
  })
})

test('a broker that let one request go unanswered is looked for again by all', async () => {
  const { runtime, leadership, cluster } = await lead()
  const { connection } = cluster
  await runtime.pass(0)
  await leadership.send(job('a')).catch((error: unknown) => error)
  const metadata = (): number => connection.of('Metadata').length
  const coordinator = (): number => connection.of('FindCoordinator').length
  const before = { metadata: metadata(), coordinator: coordinator() }
  const known = watched(leadership.send(job('b')))
  await runtime.pass(50)
  expect(known.now().state).toBe('fulfilled')
  expect({ metadata: metadata(), coordinator: coordinator() }).toEqual(before)

  connection.next('AddPartitionsToTxn', { fails: 'timeout', written: true })
  const sent = watched(leadership.send(job('c')))
  await runtime.pass(3_000)
  expect(sent.now().state).toBe('fulfilled')
  expect(coordinator()).toBeGreaterThan(before.coordinator)
  expect(metadata()).toBeGreaterThan(before.metadata)
})

describe('a coordinator that cannot finish the last transaction', () => {
  const unfinished = {
    errorCode: 0,
    transactionalId: role,
    state: 'PrepareCommit',
    timeoutMs: 0,
    startTimeMs: 0n,
    producerId: 1_000n,
    producerEpoch: 1,
    topics: [{ topic: 'jobs', partitions: [3] }],
  }
  const wedged = { code: 'WEDGED', role, partitions: ['jobs-3'] }
  const codeOf = (error: unknown): unknown => (error instanceof Error && 'code' in error ? error.code : undefined)

  test('is the cause of the end of the term, named while it lasts and told once', async () => {
    const { runtime, leadership, cluster, told } = await lead()
    await runtime.passUntil(() => told.some(({ name }) => name === 'renewed'), 4_000)
    cluster.connection.always('AddPartitionsToTxn', addAnswer(51))
    cluster.connection.always('DescribeTransactions', { transactions: [unfinished] })
    const sent = watched(leadership.send(job('a')))
    await runtime.passUntil(() => leadership.signal.aborted, 9_500)
    expect(leadership.signal.reason).toMatchObject({ code: 'LEASE_EXPIRED', cause: wedged })
    expect(sent.now().error).toMatchObject({ cause: wedged })
    expect(told.filter(({ message }) => 'err' in message && codeOf(message.err) === 'WEDGED')).toHaveLength(1)
  })

  test('is the cause of a resignation that could not seal', async () => {
    const { runtime, leadership, cluster } = await lead()
    cluster.connection.always('InitProducerId', { errorCode: 51, producerId: -1n, producerEpoch: -1 })
    cluster.connection.always('DescribeTransactions', { transactions: [unfinished] })
    const resigned = watched(leadership.resign())
    await runtime.passUntil(() => resigned.now().state !== 'pending', 9_500)
    expect(resigned.now().value).toBe('already-ended')
    expect(leadership.signal.reason).toMatchObject({ code: 'LEASE_EXPIRED', cause: wedged })
  })

  test('is not named where a look shows nothing unfinished, nor after it has passed', async () => {
    const { runtime, leadership, cluster, told } = await lead()
    cluster.connection.always('AddPartitionsToTxn', addAnswer(51))
    await runtime.passUntil(() => leadership.signal.aborted, 9_500)
    expect(leadership.signal.reason).toMatchObject({ code: 'LEASE_EXPIRED' })
    expect(codeOf(leadership.signal.reason.cause)).not.toBe('WEDGED')
    expect(told.filter(({ name }) => name === 'warn')).toEqual([])

    const second = await lead()
    second.cluster.connection.next('AddPartitionsToTxn', ...Array.from({ length: 250 }, () => addAnswer(51)))
    second.cluster.connection.next('DescribeTransactions', { transactions: [unfinished] })
    const sent = watched(second.leadership.send(job('a')))
    await second.runtime.passUntil(() => sent.now().state !== 'pending', 9_000)
    expect(sent.now().state).toBe('fulfilled')
    expect(second.told.filter(({ name }) => name === 'warn')).toHaveLength(1)
    second.cluster.connection.always('AddPartitionsToTxn', unreachable)
    await second.runtime.passUntil(() => second.leadership.signal.aborted, 20_000)
    expect(codeOf(second.leadership.signal.reason.cause)).not.toBe('WEDGED')
  })
})

describe('a guarded write', () => {
  test('is done after its EndTxn, never before', async () => {
    const { runtime, leadership, cluster } = await lead()
    let finish: () => void = () => undefined
    cluster.connection.next('EndTxn', async ({ request }) => {
      await new Promise<void>((resolve) => {
        finish = resolve
      })
      return cluster.endTxn(request)
    })
    const sent = watched(leadership.send(job('a')))
    await runtime.pass(500)
    expect(sent.now().state).toBe('pending')
    finish()
    await runtime.pass(0)
    expect(sent.now().value).toMatchObject([{ topic: 'jobs', partition: 0, offset: 0n }])
    expect(cluster.committed('jobs')).toEqual(['a'])
  })

  test('whose commit is answered at the second asking is done, and the term ends: TERM_ENDED', async () => {
    const { runtime, leadership, cluster } = await lead()
    cluster.connection.next('EndTxn', cluster.endsUnheard)
    const sent = watched(leadership.send(job('a')))
    await runtime.pass(500)
    expect(sent.now().state).toBe('fulfilled')
    expect(leadership.signal.reason).toMatchObject({ code: 'TERM_ENDED' })
    expect(cluster.committed('jobs')).toEqual(['a'])
  })

  test('whose commit nobody answers for certain is COMMIT_UNKNOWN, and the term ends', async () => {
    const { runtime, leadership, cluster } = await lead()
    cluster.connection.next('EndTxn', cluster.endsUnheard, { errorCode: 90 })
    const sent = watched(leadership.send(job('a')))
    await runtime.pass(2_000)
    expect(sent.now().error).toMatchObject({ code: 'COMMIT_UNKNOWN', role })
    expect(leadership.signal.reason).toMatchObject({ code: 'TERM_ENDED' })
  })

  test('whose Produce is never answered is no success, and the epoch begins nothing more', async () => {
    const { runtime, leadership, cluster } = await lead()
    cluster.connection.always('Produce', lost)
    const sent = watched(leadership.send(job('a')))
    await runtime.pass(20_000)
    expect(sent.now().state).toBe('rejected')
    expect(['TERM_ENDED', 'LEASE_EXPIRED']).toContain((leadership.signal.reason as { code: string }).code)
    expect(cluster.committed('jobs')).toEqual([])
  })

  test('of a deposed leader is FENCED, with the reason, and nothing more is sent under the token', async () => {
    const { runtime, leadership, cluster } = await lead()
    cluster.mint(role)
    const from = cluster.connection.seen.length
    const sent = watched(leadership.send(job('a')))
    const next = watched(leadership.send(job('b')))
    await runtime.pass(2_000)
    expect(sent.now().error).toMatchObject({ code: 'FENCED', reason: 'external-mint' })
    expect(next.now().error).toMatchObject({ code: 'FENCED' })
    expect(leadership.signal.reason).toMatchObject({ code: 'FENCED' })
    expect(sentSince({ cluster } as World, from)).toEqual(['AddPartitionsToTxn', 'DescribeTransactions'])
  })

  test.each([
    ['external-mint', 0],
    // The lease of the first renewal that nobody confirmed would have run out by then; only the clocks of brokers come sooner.
    ['transaction-timeout', 60_000],
  ])(
    'over whose open transaction the coordinator shows an abort one epoch up: %s, %d ms after a renewal',
    async (reason, ms) => {
      const { runtime, leadership, cluster } = await lead()
      cluster.connection.next('AddPartitionsToTxn', async ({ request }) => {
        runtime.leap(ms)
        return {
          topics: request.topics.map((one) => ({
            topic: one.topic,
            partitions: one.partitions.map((partition) => ({ partition, errorCode: 47 })),
          })),
        }
      })
      cluster.connection.next('DescribeTransactions', ({ request }) => ({
        transactions: request.transactionalIds.map((transactionalId) => ({
          errorCode: 0,
          transactionalId,
          state: 'CompleteAbort',
          timeoutMs: 60_000,
          startTimeMs: -1n,
          producerId: leadership.token.producerId,
          producerEpoch: leadership.token.producerEpoch + 1,
          topics: [],
        })),
      }))
      const sent = watched(leadership.send(job('a')))
      await runtime.pass(500)
      expect(sent.now().error).toMatchObject({ code: 'FENCED', reason })
    },
  )

  test('that is fenced while nobody tells why ends within a second all the same', async () => {
    const { runtime, leadership, cluster } = await lead(world({ requestTimeoutMs: 5_000 }))
    cluster.mint(role)
    cluster.connection.always('ListOffsets', 'silent')
    const sent = watched(leadership.send(job('a')))
    await runtime.pass(1_100)
    expect(sent.now().error).toMatchObject({ code: 'FENCED', reason: 'unknown' })
  })

  test('that is refused together with the riding lease is told, not repeated for ever', async () => {
    const { runtime, leadership, cluster } = await lead()
    await runtime.pass(2_000)
    cluster.connection.always('AddPartitionsToTxn', ({ request }) => ({
      topics: request.topics.map(({ topic, partitions }) => ({
        topic,
        partitions: partitions.map((partition) => ({ partition, errorCode: topic === states ? 29 : 55 })),
      })),
    }))
    const before = cluster.connection.of('AddPartitionsToTxn').length
    const sent = watched(leadership.send(job('a')))
    await runtime.pass(100)
    expect(sent.now().state).toBe('rejected')
    expect(cluster.connection.of('AddPartitionsToTxn').length - before).toBeLessThan(6)
  })
})

describe('transact', () => {
  test('without a send carries the lease, so that success means that the broker checked the token (I2)', async () => {
    const { runtime, leadership, cluster } = await lead()
    const from = cluster.connection.seen.length
    const done = watched(leadership.transact(async () => 'nothing'))
    await runtime.pass(10)
    expect(done.now().value).toBe('nothing')
    expect(sentSince({ cluster } as World, from)).toEqual(['AddPartitionsToTxn', 'Produce', 'EndTxn'])
    cluster.mint(role)
    const stale = watched(leadership.transact(async () => 'nothing'))
    await runtime.pass(2_000)
    expect(stale.now().error).toMatchObject({ code: 'FENCED' })
  })

  test('whose callback throws before any send ends without a request, with the callback’s error', async () => {
    const { runtime, leadership, cluster } = await lead()
    const from = cluster.connection.seen.length
    const error = new Error('mine')
    const done = watched(leadership.transact(() => Promise.reject(error)))
    await runtime.pass(10)
    expect(done.now().error).toBe(error)
    expect(sentSince({ cluster } as World, from)).toEqual([])
  })

  test('whose callback throws after a send is aborted, with the callback’s error', async () => {
    const { runtime, leadership, cluster } = await lead()
    const error = new Error('mine')
    const done = watched(
      leadership.transact(async (tx) => {
        await tx.send(job('a'))
        throw error
      }),
    )
    await runtime.pass(10)
    expect(done.now().error).toBe(error)
    expect(cluster.connection.of('EndTxn').at(-1)?.request.committed).toBe(false)
    expect(cluster.committed('jobs')).toEqual([])
    expect(leadership.signal.aborted).toBe(false)
  })

  test('whose time is up is TRANSACTION_ABORTED; a Produce under way is waited for, and the term goes on', async () => {
    const { runtime, leadership, cluster } = await lead()
    let answer: () => void = () => undefined
    const seenBefore = cluster.connection.of('Produce').length
    cluster.connection.next('Produce', async () => {
      await new Promise<void>((resolve) => {
        answer = resolve
      })
      return {
        topics: [
          {
            topic: 'jobs',
            partitions: [{ partition: 0, errorCode: 0, baseOffset: 0n, errorMessage: null, recordErrors: [] }],
          },
        ],
      }
    })
    const done = watched(
      leadership.transact(
        async (tx) => {
          for (;;) await tx.send(job('a'))
        },
        { timeoutMs: 50 },
      ),
    )
    await runtime.pass(200)
    expect(cluster.connection.of('Produce')).toHaveLength(seenBefore + 1)
    answer()
    await runtime.pass(10)
    expect(done.now().error).toMatchObject({ code: 'TRANSACTION_ABORTED' })
    expect(cluster.connection.of('EndTxn').at(-1)?.request.committed).toBe(false)
    await runtime.pass(10_000)
    expect(leadership.signal.aborted).toBe(false)
  })

  test('whose callback hangs ends with the term, and sends nothing after it', async () => {
    const { runtime, leadership, cluster } = await lead()
    let wakeUp: () => void = () => undefined
    let late: ReturnType<typeof watched<unknown>> | undefined
    const done = watched(
      leadership.transact(async (tx) => {
        await new Promise<void>((resolve) => {
          wakeUp = resolve
        })
        late = watched(tx.send(job('late')))
      }),
    )
    await runtime.pass(10)
    const error = coordinationError('CLOSED', 'closed', {})
    leadership.abandon(error)
    await runtime.pass(10)
    expect(done.now().error).toBe(error)
    const from = cluster.connection.seen.length
    wakeUp()
    await runtime.pass(10)
    expect(late?.now().error).toBe(error)
    expect(cluster.connection.seen.length).toBe(from)
  })

  test('with a send that was refused before it was sent commits nothing, awaited or not', async () => {
    const { runtime, leadership, cluster } = await lead()
    const bad = { topic: 'jobs', messages: [{ value: 'b', partition: 9 }] }
    const done = watched(
      leadership.transact(async (tx) => {
        void tx.send(job('a'))
        void tx.send(bad)
      }),
    )
    await runtime.pass(50)
    expect(done.now().error).toMatchObject({ code: 'REFUSED' })
    expect(cluster.committed('jobs')).toEqual([])
  })

  test('refuses calls of the leadership inside it, and only there', async () => {
    const { runtime, leadership } = await lead()
    let later: () => Promise<unknown> = () => Promise.resolve()
    const done = watched(
      leadership.transact(async () => {
        const inContext = new AsyncLocalStorageProbe()
        later = inContext.bind(() => leadership.send(job('later')))
        const calls = [leadership.send(job('x')), leadership.renew(), leadership.transact(async () => 1)]
        const outcomes = await Promise.allSettled([...calls, leadership.resign()])
        return outcomes.map((outcome) => (outcome.status === 'rejected' ? outcome.reason.code : 'done'))
      }),
    )
    await runtime.pass(50)
    expect(done.now().value).toEqual(Array.from({ length: 4 }, () => 'TRANSACTION_ABORTED'))
    // What the callback started may call after its transaction has ended.
    const sent = watched(later())
    await runtime.pass(50)
    expect(sent.now().state).toBe('fulfilled')
  })

  test('runs its callback in the async context of its caller, not of whoever woke the lane', async () => {
    const { runtime, leadership } = await lead()
    const request = new AsyncLocalStorage<string>()
    const seen: (string | undefined)[] = []
    const calls = ['a', 'b'].map((name) =>
      watched(
        request.run(name, () =>
          leadership.transact(async () => {
            seen.push(request.getStore())
          }),
        ),
      ),
    )
    await runtime.pass(100)
    expect(calls.map((call) => call.now().state)).toEqual(['fulfilled', 'fulfilled'])
    expect(seen).toEqual(['a', 'b'])
  })
})

/** Keeps the async context in which it was made. */
class AsyncLocalStorageProbe {
  readonly #run: <T>(work: () => T) => T = AsyncLocalStorage.snapshot()

  bind<T>(work: () => T): () => T {
    return () => this.#run(work)
  }
}

describe('a loss that the log shows', () => {
  test('before any answer does: a look is made for each writer that nobody has named', async () => {
    const { runtime, cluster } = await lead()
    const key = encodeKey({ kind: 'lease', role })
    const candidate = (producerId: bigint): void => {
      const pair = { producerId, producerEpoch: 0, transactional: true }
      cluster.append(`${states}-0`, { ...pair, records: [{ offset: 0n, key, value: null, headers: [] }] })
      cluster.append(`${states}-0`, { ...pair, control: 'commit' })
    }
    const looks = (): number => cluster.connection.of('DescribeTransactions').length
    const before = looks()
    let answer: () => void = () => undefined
    cluster.connection.next('DescribeTransactions', async ({ request }) => {
      await new Promise<void>((resolve) => {
        answer = resolve
      })
      const id = cluster.ids.get(role)
      return {
        transactions: request.transactionalIds.map((transactionalId) => ({
          errorCode: 0,
          transactionalId,
          state: 'CompleteCommit',
          timeoutMs: 0,
          startTimeMs: -1n,
          producerId: id?.producerId ?? -1n,
          producerEpoch: id?.producerEpoch ?? -1,
          topics: [],
        })),
      }
    })
    candidate(77n)
    await runtime.pass(10)
    expect(looks() - before).toBe(1)
    candidate(78n)
    await runtime.pass(10)
    answer()
    await runtime.pass(10)
    expect(looks() - before).toBe(2)
  })
})

describe('resigning', () => {
  test('finishes what waits, seals with the own pair, and buries lease and registration in one transaction', async () => {
    const { runtime, leadership, cluster } = await lead()
    const from = cluster.connection.seen.length
    const sent = watched(leadership.send(job('a')))
    await runtime.pass(0)
    const resigned = watched(leadership.resign())
    await expect(leadership.send(job('b'))).rejects.toMatchObject({ code: 'RESIGNED' })
    await runtime.pass(50)
    expect(sent.now().state).toBe('fulfilled')
    expect(resigned.now().value).toBe('resigned')
    expect(sentSince({ cluster } as World, from)).toEqual([
      'AddPartitionsToTxn',
      'Produce',
      'EndTxn',
      'InitProducerId',
      'AddPartitionsToTxn',
      'Produce',
      'EndTxn',
    ])
    expect(cluster.connection.of('InitProducerId').at(-1)?.request).toMatchObject(leadership.token)
    const batch = cluster.connection.of('Produce').at(-1)?.request.topics[0]?.partitions[0]?.batch
    expect(batch?.records.map(({ value }) => value)).toEqual([null, null])
    expect(batch?.producerEpoch).toBe(leadership.token.producerEpoch + 1)
    expect(leadership.signal.reason).toMatchObject({ code: 'RESIGNED' })
  })

  test('after somebody else minted writes no tombstone', async () => {
    const { runtime, leadership, cluster, services } = await lead()
    cluster.mint(role)
    const before = cluster.connection.of('Produce').length
    const resigned = watched(leadership.resign())
    await runtime.pass(2_000)
    expect(resigned.now().value).toBe('already-ended')
    expect(services.health.health(true).roles, 'its end was asked for').toEqual([])
    expect(leadership.signal.reason).toMatchObject({ code: 'FENCED' })
    expect(cluster.connection.of('Produce')).toHaveLength(before)
  })

  test('with a seal that nobody answers is already-ended at the deadline, with LEASE_EXPIRED', async () => {
    const { runtime, leadership, cluster, services } = await lead()
    cluster.connection.always('InitProducerId', lost)
    const resigned = watched(leadership.resign())
    await runtime.pass(10_000)
    expect(resigned.now().value).toBe('already-ended')
    expect(services.health.health(true).roles, 'its end was asked for').toEqual([])
    expect(leadership.signal.reason).toMatchObject({ code: 'LEASE_EXPIRED' })
  })

  test('with a tombstone that nobody answers is resigned: the token is dead', async () => {
    const { runtime, leadership, cluster } = await lead()
    cluster.connection.always('AddPartitionsToTxn', lost)
    const resigned = watched(leadership.resign())
    await runtime.pass(10_000)
    expect(resigned.now().value).toBe('resigned')
    expect(leadership.signal.reason).toMatchObject({ code: 'RESIGNED' })
  })

  test('does not wait behind a challenger whose partition cannot be read', async () => {
    const led = await lead(world({ partitions: 2 }))
    const { runtime, cluster, contentions, leadership } = led
    const own = rolePartition(role, 2)
    const name = ['a', 'b', 'c', 'd', 'e'].find((one) => rolePartition(one, 2) !== own) ?? ''
    // Once its registration was read, the other partition names an end that nobody ever reaches.
    let readsAfterRegistration = 0
    cluster.connection.always('ListOffsets', ({ request }) => {
      const { partitions } = cluster.listOffsets(request)
      const isRegistered = (cluster.logs.get(`${states}-${1 - own}`)?.length ?? 0) > 0
      if (isRegistered && request.partitions[0]?.partition !== own) readsAfterRegistration += 1
      if (readsAfterRegistration < 2) return { partitions }
      return { partitions: partitions.map((one) => (one.partition === own ? one : { ...one, offset: 1_000n })) }
    })
    const contending = watched(contentions.contend(parseRole(name), {}, false))
    await runtime.pass(3_500)
    const resignedAt = runtime.monotonicNow()
    const resigned = watched(leadership.resign())
    await runtime.passUntil(() => resigned.now().state !== 'pending', 9_000)
    expect(resigned.now().value).toBe('resigned')
    expect(runtime.monotonicNow() - resignedAt).toBeLessThan(1_100)
    expect(contending.now().state).toBe('pending')
  })

  test('lets the role be contended for again, with a greater term', async () => {
    const led = await lead()
    const resigned = watched(led.leadership.resign())
    await led.runtime.pass(50)
    expect(resigned.now().state).toBe('fulfilled')
    const again = await lead(led)
    expect(again.leadership.term).toBeGreaterThan(led.leadership.term)
  })
})

describe('closing', () => {
  test('ends every repetition: nothing outlives the client', async () => {
    const { runtime, leadership, cluster, services, contentions } = await lead()
    cluster.connection.always('AddPartitionsToTxn', unreachable)
    const renewed = watched(leadership.renew())
    await runtime.pass(100)
    contentions.abandonAll(coordinationError('CLOSED', 'closed', {}))
    services.close()
    await runtime.pass(1_100)
    expect(renewed.now().state).toBe('rejected')
    expect(runtime.pendingTimers - cluster.polling).toBe(0)
  })

  test('while the topic is looked for ends that too', async () => {
    const { runtime, cluster, services } = world()
    cluster.connection.always('Metadata', unreachable)
    const opening = watched(services.log({ deadline: 60_000 }))
    await runtime.pass(100)
    services.close()
    await runtime.pass(1_100)
    expect(opening.now().error).toMatchObject({ code: 'CLOSED' })
    expect(runtime.pendingTimers).toBe(0)
  })

  test('inside transact winds up the rest and does not throw', async () => {
    const { runtime, leadership, contentions } = await lead()
    const done = watched(leadership.transact(() => contentions.resignAll(), { timeoutMs: 500 }))
    await runtime.pass(1_000)
    expect(done.now().state).toBe('fulfilled')
    expect(leadership.signal.aborted).toBe(false)
  })
})

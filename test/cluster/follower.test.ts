/** The follower: ends that are proven, joins that do not wait, re-reads, partitions in error, waits that end. */
import { describe, expect, test } from 'vitest'
import type { ApiRequest, ApiResponse, FetchedBatch, MetadataTopic, Node } from '../../src/cluster/connection.js'
import type { PartitionReader } from '../../src/cluster/follower.js'
import { Follower } from '../../src/cluster/follower.js'
import type { TopicIdentity } from '../../src/cluster/metadata.js'
import type { SeenRequest, Step } from '../support/scripted-connection.js'
import { lost, unreachable } from '../support/scripted-connection.js'
import type { World } from './support.js'
import { metadataOf, node, otherNode, requestTimeoutMs, topicOf, watched, world } from './support.js'

const topic = 'states'
const longPollMs = 5_000
const longestSilenceMs = 900_000

type FetchAnswer = ApiResponse<'Fetch'>['partitions'][number]

function batch(at: bigint, count = 1, values: Partial<FetchedBatch> = {}): FetchedBatch {
  return {
    baseOffset: at,
    lastOffset: at + BigInt(count) - 1n,
    partitionLeaderEpoch: 4,
    producerId: -1n,
    producerEpoch: -1,
    transactional: false,
    logAppendTime: true,
    maxTimestamp: 0n,
    control: undefined,
    records: Array.from({ length: count }, (_, index) => ({
      offset: at + BigInt(index),
      key: null,
      value: null,
      headers: [],
    })),
    ...values,
  }
}

function fetched(partition: number, batches: readonly FetchedBatch[], errorCode = 0): FetchAnswer {
  return { partition, errorCode, highWatermark: 0n, logStartOffset: 0n, batches }
}

function listed(partition: number, value: bigint, errorCode = 0): ApiResponse<'ListOffsets'>['partitions'][number] {
  return { partition, errorCode, offset: value, leaderEpoch: 4 }
}

function offset(value: bigint, errorCode = 0): Step<'ListOffsets'> {
  return ({ request }) => ({
    partitions: request.partitions.map(({ partition }) => listed(partition, value, errorCode)),
  })
}

interface Log {
  readonly events: string[]
  readonly reader: PartitionReader
}

function log(): Log {
  const events: string[] = []
  return {
    events,
    reader: {
      started: () => events.push('started'),
      records: (records) => events.push(`records ${records.map((record) => record.offset).join(',')}`),
      caughtUp: () => events.push('caught up'),
      topicChanged: ({ message }) => events.push(`changed: ${message.match(/its .* is .*, was [^;]*/)?.[0]}`),
      undecodable: (at) => events.push(`undecodable ${at}`),
    },
  }
}

/** A broker whose partitions hold logs that tests append to; a Fetch waits until there is something, or its time is up. */
class Broker {
  readonly logs = new Map<number, FetchedBatch[]>()
  readonly errors = new Map<number, number>()
  readonly #waiting = new Set<() => void>()
  readonly #cluster: World

  constructor(cluster: World) {
    this.#cluster = cluster
    cluster.connection.always('ListOffsets', ({ request }) => this.#list(request))
    cluster.connection.always('Fetch', (seen) => this.#fetch(seen))
  }

  append(partition: number, ...batches: FetchedBatch[]): void {
    this.logs.set(partition, [...(this.logs.get(partition) ?? []), ...batches])
    for (const wake of this.#waiting) wake()
  }

  end(partition: number): bigint {
    return (this.logs.get(partition)?.at(-1)?.lastOffset ?? -1n) + 1n
  }

  #list(request: ApiRequest<'ListOffsets'>): ApiResponse<'ListOffsets'> {
    return {
      partitions: request.partitions.map(({ partition, at }) => ({
        partition,
        errorCode: 0,
        offset: at === 'latest' ? this.end(partition) : (this.logs.get(partition)?.[0]?.baseOffset ?? 0n),
        leaderEpoch: 4,
      })),
    }
  }

  #fetch({ request }: SeenRequest<'Fetch'>): Promise<ApiResponse<'Fetch'>> {
    const answer = (): ApiResponse<'Fetch'> => ({
      errorCode: 0,
      partitions: request.partitions.map(({ partition, offset: from }) => {
        const error = this.errors.get(partition)
        if (error !== undefined) return fetched(partition, [], error)
        return fetched(partition, this.logs.get(partition)?.filter(({ lastOffset }) => lastOffset >= from) ?? [])
      }),
    })
    const isWorth = (): boolean => answer().partitions.some(({ batches, errorCode }) => batches.length + errorCode > 0)
    if (isWorth()) return Promise.resolve(answer())
    return new Promise((resolve) => {
      const finish = (): void => {
        this.#waiting.delete(wake)
        timer.cancel()
        resolve(answer())
      }
      const wake = (): void => {
        if (isWorth()) finish()
      }
      const timer = this.#cluster.runtime.setTimer(request.maxWaitMs, finish)
      this.#waiting.add(wake)
    })
  }
}

function begin(
  silenceMs = longestSilenceMs,
  identity: Partial<TopicIdentity> = {},
): World & { follower: Follower; broker: Broker } {
  const cluster = world()
  const broker = new Broker(cluster)
  const { connection, metadata, runtime } = cluster
  const follower = new Follower({
    connection,
    metadata,
    runtime,
    topic,
    identity: { partitionCount: 4, topicId: undefined, ...identity },
    requestTimeoutMs,
    longestSilenceMs: silenceMs,
  })
  return { ...cluster, broker, follower }
}

const shortly = ({ runtime }: World, ms = 3_000): { deadline: number } => ({ deadline: runtime.monotonicNow() + ms })
const polledFrom = (cluster: World): bigint | undefined => polls(cluster).at(-1)?.request.partitions[0]?.offset
const polls = ({ connection }: World): readonly SeenRequest<'Fetch'>[] => connection.of('Fetch')

describe('reading', () => {
  test('from earliest is caught up at the end that ListOffsets named, and then follows', async () => {
    const cluster = begin()
    const { broker, follower, runtime } = cluster
    broker.append(0, batch(0n, 2), batch(2n))
    const { events, reader } = log()
    follower.follow(0, reader)
    await runtime.pass(10)
    expect(events).toEqual(['started', 'records 0,1,2', 'caught up'])
    broker.append(0, batch(3n))
    await runtime.pass(10)
    expect(events.slice(3)).toEqual(['records 3'])
    expect(polledFrom(cluster)).toBe(4n)
  })

  test('goes by the end of the batch, through gaps and batches that compaction emptied', async () => {
    const cluster = begin()
    const { broker, follower, runtime } = cluster
    broker.append(0, batch(0n), batch(5n, 1, { lastOffset: 9n }), batch(10n, 1, { lastOffset: 12n, records: [] }))
    const { events, reader } = log()
    follower.follow(0, reader)
    await runtime.pass(10)
    expect(events).toEqual(['started', 'records 0,5', 'caught up'])
    expect(polledFrom(cluster)).toBe(13n)
  })

  test('of an empty log is caught up at once', async () => {
    const { follower, runtime } = begin()
    const { events, reader } = log()
    follower.follow(0, reader)
    await runtime.pass(10)
    expect(events).toEqual(['started', 'caught up'])
  })

  test('takes one batch of very many records', async () => {
    const cluster = begin()
    const { broker, follower, runtime } = cluster
    const count = 200_000
    broker.append(0, batch(0n, count))
    let records = 0
    follower.follow(0, {
      ...log().reader,
      records: (settled) => {
        records += settled.length
      },
    })
    await runtime.pass(10)
    expect(records).toBe(count)
    expect(polledFrom(cluster)).toBe(BigInt(count))
  })

  test('reports bytes that cannot be read and goes on behind them', async () => {
    const { broker, follower, runtime } = begin()
    broker.append(0, batch(0n), batch(1n, 1, { records: [], undecodable: 'compressed with zstd' }), batch(2n))
    const { events, reader } = log()
    follower.follow(0, reader)
    await runtime.pass(10)
    expect(events).toEqual(['started', 'undecodable 1', 'records 0,2', 'caught up'])
  })

  test('hands on what is settled while another transaction is open', async () => {
    const { broker, follower, runtime } = begin()
    const of = (producerId: bigint, values: Partial<FetchedBatch> = {}): Partial<FetchedBatch> => ({
      producerId,
      producerEpoch: 1,
      transactional: true,
      ...values,
    })
    broker.append(0, batch(0n, 1, of(1n)), batch(1n, 1, of(2n)))
    broker.append(0, batch(2n, 1, of(2n, { control: 'commit', records: [] })))
    const { events, reader } = log()
    const settledBelow: bigint[] = []
    follower.follow(0, {
      ...reader,
      records: (records, below) => {
        reader.records(records, below)
        settledBelow.push(below)
      },
    })
    await runtime.pass(10)
    expect(events).toEqual(['started', 'records 1', 'caught up'])
    expect(settledBelow).toEqual([0n])
  })

  test('asks for all partitions of a broker in one Fetch, whose order rotates', async () => {
    const cluster = begin()
    for (const partition of [0, 1, 2]) cluster.follower.follow(partition, log().reader)
    await cluster.runtime.pass(3 * longPollMs)
    const orders = polls(cluster)
      .filter(({ request }) => request.partitions.length === 3)
      .map(({ request }) => request.partitions[0]?.partition)
    expect(new Set(orders)).toEqual(new Set([0, 1, 2]))
    expect(polls(cluster).every(({ channel }) => channel === 'poll')).toBe(true)
  })

  test('names the epoch of the last batch, so that a cut-back log is noticed', async () => {
    const cluster = begin()
    cluster.broker.append(0, batch(0n, 1, { partitionLeaderEpoch: 3 }))
    cluster.follower.follow(0, log().reader)
    await cluster.runtime.pass(10)
    expect(polls(cluster).map(({ request }) => request.partitions[0]?.lastFetchedEpoch)).toEqual([-1, 3])
    expect(polls(cluster)[0]?.request.partitions[0]?.currentLeaderEpoch).toBe(4)
  })
})

describe('joining', () => {
  test('cuts a running long poll short instead of waiting behind it', async () => {
    const cluster = begin()
    const { broker, follower, runtime, connection } = cluster
    follower.follow(0, log().reader)
    await runtime.pass(100)
    broker.append(1, batch(0n))
    const { events, reader } = log()
    follower.follow(1, reader)
    await runtime.pass(10)
    expect(events).toEqual(['started', 'records 0', 'caught up'])
    expect(connection.resets).toEqual([{ node: node.id, channel: 'poll' }])
    expect(follower.lastErrorAt(0)).toBeUndefined()
    expect(polls(cluster).at(-1)?.request.partitions).toHaveLength(2)
  })

  test('twice is a fault of the caller', () => {
    const { follower } = begin()
    follower.follow(0, log().reader)
    expect(() => follower.follow(0, log().reader)).toThrow('followed already')
  })
})

describe('reading to an end', () => {
  test('asks for the end at the call, with the leader epoch, and waits until it was read', async () => {
    const { broker, connection, follower, runtime } = begin()
    broker.append(0, batch(0n))
    follower.follow(0, log().reader)
    await runtime.pass(10)
    connection.next('ListOffsets', offset(2n))
    const calledAt = runtime.monotonicNow()
    const read = watched(follower.readToEnd(0, { deadline: calledAt + 3_000 }))
    await runtime.pass(50)
    expect(read.now().state).toBe('pending')
    expect(connection.of('ListOffsets').at(-1)?.request.partitions).toEqual([
      { partition: 0, currentLeaderEpoch: 4, at: 'latest' },
    ])
    broker.append(0, batch(1n))
    await runtime.pass(0)
    expect(read.now().value).toEqual({ end: 2n, askedAt: calledAt })
  })

  test('takes the end of a first read that has yet to ask for it, however often that fails', async () => {
    const { broker, connection, follower, runtime } = begin()
    broker.append(0, batch(0n))
    connection.next('ListOffsets', offset(0n), unreachable, offset(0n), offset(5n))
    const { events, reader } = log()
    follower.follow(0, reader)
    const calledAt = runtime.monotonicNow()
    const read = watched(follower.readToEnd(0, { deadline: calledAt + 3_000 }))
    await runtime.pass(50)
    expect(read.now().state).toBe('pending')
    expect(connection.of('ListOffsets').map(({ request }) => request.partitions[0]?.at)).toEqual([
      'earliest',
      'latest',
      'earliest',
      'latest',
    ])
    expect(events).not.toContain('caught up')
    broker.append(0, batch(1n, 4))
    await runtime.pass(0)
    expect(read.now().value?.end).toBe(5n)
    expect(read.now().value?.askedAt).toBeGreaterThan(calledAt)
  })

  test('asks for its own where the first read has asked already, and waits for the first read too', async () => {
    const { broker, connection, follower, runtime } = begin()
    broker.append(0, batch(0n))
    let answerFirst: () => void = () => undefined
    const first = new Promise<void>((resolve) => {
      answerFirst = resolve
    })
    connection.next('ListOffsets', offset(0n), async ({ request }) => {
      await first
      return { partitions: request.partitions.map(({ partition }) => listed(partition, 5n)) }
    })
    follower.follow(0, log().reader)
    await runtime.pass(10)
    connection.next('ListOffsets', offset(1n))
    const read = watched(follower.readToEnd(0, { deadline: runtime.monotonicNow() + 3_000 }))
    answerFirst()
    await runtime.pass(50)
    expect(connection.of('ListOffsets')).toHaveLength(3)
    expect(read.now().state).toBe('pending')
    broker.append(0, batch(1n, 4))
    await runtime.pass(0)
    expect(read.now().value?.end).toBe(1n)
  })

  test('below what was read is not believed: asked again until a log that was cut back shows, or the leader of now answers', async () => {
    const cluster = begin()
    const { broker, connection, follower, runtime } = cluster
    broker.append(0, batch(0n, 4))
    follower.follow(0, log().reader)
    await runtime.pass(10)
    connection.next('ListOffsets', offset(2n), offset(3n))
    const read = watched(follower.readToEnd(0, shortly(cluster)))
    await runtime.pass(500)
    expect(read.now().value).toMatchObject({ end: 4n })
    connection.always('ListOffsets', offset(2n))
    const unread = watched(follower.readToEnd(0, shortly(cluster)))
    await runtime.pass(3_500)
    expect(unread.now().error).toMatchObject({ code: 'TRANSPORT' })
    expect(String(unread.now().error)).toMatch('ListOffsets answered 2, below what was read')
  })

  test.each([78, 74, 75, 6, 5])('is answered %d: asked again, and no end is made up', async (errorCode) => {
    const cluster = begin()
    const { broker, connection, follower, runtime } = cluster
    broker.append(0, batch(0n))
    follower.follow(0, log().reader)
    await runtime.pass(10)
    const before = connection.of('Metadata').length
    connection.next('ListOffsets', offset(-1n, errorCode), offset(1n))
    const read = watched(follower.readToEnd(0, shortly(cluster)))
    await runtime.pass(500)
    expect(read.now().value).toMatchObject({ end: 1n })
    expect(follower.lastErrorAt(0)).toBeDefined()
    expect(connection.of('Metadata').length - before).toBe(errorCode === 78 ? 0 : 1)
  })

  test('that nobody can name is an error at the deadline (I12)', async () => {
    const cluster = begin()
    const { connection, follower, runtime } = cluster
    follower.follow(0, log().reader)
    await runtime.pass(10)
    connection.always('ListOffsets', unreachable)
    const read = watched(follower.readToEnd(0, shortly(cluster)))
    await runtime.pass(3_500)
    expect(read.now().error).toMatchObject({ code: 'TRANSPORT', retriable: true })
    follower.close()
  })

  test('that is not reached is an error at the deadline', async () => {
    const cluster = begin()
    const { connection, follower, runtime } = cluster
    follower.follow(0, log().reader)
    await runtime.pass(10)
    connection.next('ListOffsets', offset(9n))
    const read = watched(follower.readToEnd(0, shortly(cluster)))
    await runtime.pass(3_500)
    expect(read.now().error).toMatchObject({ code: 'TRANSPORT' })
    expect(String(read.now().error)).toContain('at 9')
  })

  test('ends when the signal aborts: while the end is awaited, and when that was while it was asked for', async () => {
    const cluster = begin()
    const { connection, follower, runtime } = cluster
    follower.follow(0, log().reader)
    await runtime.pass(10)
    const abort = new AbortController()
    const reason = new Error('enough')
    connection.next('ListOffsets', offset(9n), async () => {
      await new Promise<void>((resolve) => runtime.setTimer(100, resolve))
      return { partitions: [{ partition: 0, errorCode: 0, offset: 9n, leaderEpoch: 4 }] }
    })
    const waiting = watched(follower.readToEnd(0, { ...shortly(cluster), signal: abort.signal }))
    await runtime.pass(1)
    const asking = watched(follower.readToEnd(0, { ...shortly(cluster), signal: abort.signal }))
    await runtime.pass(1)
    abort.abort(reason)
    await runtime.pass(100)
    expect(waiting.now().error).toBe(reason)
    expect(asking.now().error).toBe(reason)
  })

  test('without the right to read is UNAUTHORIZED, from ListOffsets or from Fetch', async () => {
    const cluster = begin()
    const { broker, connection, follower, runtime } = cluster
    follower.follow(0, log().reader)
    await runtime.pass(10)
    connection.next('ListOffsets', offset(-1n, 29))
    await expect(follower.readToEnd(0, shortly(cluster))).rejects.toMatchObject({ code: 'UNAUTHORIZED' })
    broker.errors.set(0, 29)
    connection.next('ListOffsets', offset(5n))
    const read = watched(follower.readToEnd(0, shortly(cluster, 20_000)))
    await runtime.pass(longPollMs + 1_000)
    expect(read.now().error).toMatchObject({ code: 'UNAUTHORIZED', resource: `topic '${topic}'` })
    follower.close()
  })
})

describe('a partition in error', () => {
  test.each([6, 74, 75, 3, 5, 56])(
    '%d: leaves the fetch set, finds its leader, and goes on where it was',
    async (code) => {
      const cluster = begin()
      const { broker, connection, follower, runtime } = cluster
      broker.append(0, batch(0n))
      const [first, second] = [log(), log()]
      follower.follow(0, first.reader)
      follower.follow(1, second.reader)
      await runtime.pass(10)
      broker.errors.set(0, code)
      connection.always('Metadata', ({ request }) => metadataOf(request.topics, otherNode))
      broker.append(1, batch(0n))
      await runtime.pass(0)
      broker.errors.delete(0)
      await runtime.pass(2_000)
      broker.append(0, batch(1n))
      await runtime.pass(10)
      expect(first.events).toEqual(['started', 'records 0', 'caught up', 'records 1'])
      expect(follower.lastErrorAt(0)).toBeDefined()
      expect(follower.lastErrorAt(1)).toBeUndefined()
      expect(polls(cluster).at(-1)?.node).toEqual(otherNode)
    },
  )

  test('that stays in error is asked for ever more rarely, and the others are not disturbed', async () => {
    const cluster = begin()
    const { broker, follower, runtime } = cluster
    const healthy = log()
    broker.errors.set(0, 6)
    follower.follow(0, log().reader)
    follower.follow(1, healthy.reader)
    await runtime.pass(20_000)
    const before = polls(cluster).length
    await runtime.pass(10_000)
    expect(polls(cluster).length - before).toBeLessThan(40)
    broker.append(1, batch(0n))
    await runtime.pass(1_100)
    expect(healthy.events).toContain('records 0')
  })

  test('without a leader waits for Metadata to name one', async () => {
    const cluster = begin()
    const { broker, connection, follower, runtime } = cluster
    const nobody: Node = { id: -1, host: '', port: -1 }
    connection.always('Metadata', ({ request }) => metadataOf(request.topics, nobody))
    broker.append(0, batch(0n))
    const { events, reader } = log()
    follower.follow(0, reader)
    await runtime.pass(5_000)
    expect(events).toEqual(['started'])
    expect(connection.of('Metadata').length).toBeLessThan(20)
    connection.always('Metadata', ({ request }) => metadataOf(request.topics))
    await runtime.pass(1_100)
    expect(events).toEqual(['started', 'records 0', 'caught up'])
  })

  test('is not asked in a busy loop when the whole answer carries the error', async () => {
    const cluster = begin()
    const { connection, follower, runtime } = cluster
    connection.always('Fetch', { errorCode: -1, partitions: [] })
    follower.follow(0, log().reader)
    await runtime.pass(5_000)
    expect(polls(cluster).length).toBeLessThan(30)
    expect(follower.lastErrorAt(0)).toBeDefined()
    follower.close()
  })

  test.each([['lost', lost] as const, ['unreachable', unreachable] as const])(
    'because its broker is gone (%s) is noted as an error and found again',
    async (_name, failing) => {
      const cluster = begin()
      const { broker, connection, follower, runtime } = cluster
      connection.next('Fetch', failing)
      broker.append(0, batch(0n))
      const { events, reader } = log()
      follower.follow(0, reader)
      await runtime.pass(2_000)
      expect(events).toEqual(['started', 'records 0', 'caught up'])
      expect(follower.lastErrorAt(0)).toBeDefined()
    },
  )
})

describe('reading again from earliest', () => {
  test('of an offset out of range, where the log still has what was read, reads again', async () => {
    const cluster = begin()
    const { broker, connection, follower, runtime } = cluster
    broker.append(0, batch(0n, 5))
    const { events, reader } = log()
    follower.follow(0, reader)
    await runtime.pass(10)
    connection.next('Fetch', { errorCode: 0, partitions: [fetched(0, [], 1)] })
    await runtime.pass(longPollMs + 1_000)
    expect(events.slice(3)).toEqual(['started', 'records 0,1,2,3,4', 'caught up'])
  })

  test('keeps the instant of the last answer: a partition that answered was heard', async () => {
    const cluster = begin()
    const { broker, connection, follower, runtime } = cluster
    broker.append(0, batch(0n, 5))
    expect(follower.lastAnswerAt(0)).toBeUndefined()
    follower.follow(0, log().reader)
    expect(follower.lastAnswerAt(0)).toBeUndefined()
    await runtime.pass(10)
    const heardAt = follower.lastAnswerAt(0) ?? 0
    expect(heardAt).toBeGreaterThan(0)
    connection.next('Fetch', { errorCode: 0, partitions: [fetched(0, [], 1)] })
    connection.always('ListOffsets', 'silent')
    await runtime.pass(longPollMs + 500)
    expect(polledFrom(cluster), 'it was asked again').toBe(5n)
    expect(follower.lastAnswerAt(0)).toBe(heardAt + longPollMs)
  })

  test('keeps waits for an end waiting until it is caught up', async () => {
    const cluster = begin()
    const { broker, connection, follower, runtime } = cluster
    broker.append(0, batch(0n, 5))
    follower.follow(0, log().reader)
    await runtime.pass(10)
    connection.next('ListOffsets', offset(6n))
    const read = watched(follower.readToEnd(0, shortly(cluster, 20_000)))
    connection.next('Fetch', { errorCode: 0, partitions: [fetched(0, [], 1)] })
    await runtime.pass(longPollMs + 100)
    expect(read.now().state).toBe('pending')
    broker.append(0, batch(5n))
    await runtime.pass(1_000)
    expect(read.now().state).toBe('fulfilled')
  })

  test('follows a silence in which tombstones may have been cleaned away', async () => {
    const { broker, follower, runtime } = begin()
    broker.append(0, batch(0n))
    const { events, reader } = log()
    follower.follow(0, reader)
    await runtime.pass(10)
    runtime.leap(longestSilenceMs + 1)
    broker.append(0, batch(1n))
    await runtime.pass(longPollMs + 2_000)
    expect(events.slice(3)).toEqual(['started', 'records 0,1', 'caught up'])
  })

  test('does not follow a quiet log, however short the silence that may be', async () => {
    const { broker, follower, runtime } = begin(1_000)
    broker.append(0, batch(0n))
    const { events, reader } = log()
    follower.follow(0, reader)
    await runtime.pass(60_000)
    expect(events).toEqual(['started', 'records 0', 'caught up'])
  })
})

describe('closing', () => {
  test('rejects those who wait for an end, and stops asking', async () => {
    const cluster = begin()
    const { connection, follower, runtime } = cluster
    follower.follow(0, log().reader)
    await runtime.pass(10)
    connection.next('ListOffsets', offset(9n))
    const read = watched(follower.readToEnd(0, shortly(cluster)))
    await runtime.pass(1)
    follower.close()
    connection.close()
    await runtime.pass(60_000)
    expect(read.now().error).toMatchObject({ code: 'CLOSED' })
    expect(connection.underWay).toBe(0)
    expect(runtime.pendingTimers).toBe(0)
  })

  test('while a leader is looked for ends that too', async () => {
    const cluster = begin()
    const { connection, follower, runtime } = cluster
    connection.always('Metadata', unreachable)
    follower.follow(0, log().reader)
    await runtime.pass(500)
    follower.close()
    const before = connection.of('Metadata').length
    await runtime.pass(10_000)
    expect(connection.of('Metadata').length - before).toBeLessThanOrEqual(1)
    expect(runtime.pendingTimers).toBe(0)
  })
})

describe('a topic that is no longer what was read', () => {
  const shownAs = (values: Partial<MetadataTopic>): Step<'Metadata'> => {
    return ({ request }) => ({
      ...metadataOf([]),
      topics: request.topics.map((name) => ({ ...topicOf(name), ...values })),
    })
  }
  const first = { topicId: 'first' }

  async function following(partitions = [0, 1]): Promise<World & { broker: Broker; follower: Follower; logs: Log[] }> {
    const cluster = begin(longestSilenceMs, first)
    cluster.connection.always('Metadata', shownAs(first))
    for (const partition of partitions) cluster.broker.append(partition, batch(0n, 5))
    const logs = partitions.map((partition) => {
      const made = log()
      cluster.follower.follow(partition, made.reader)
      return made
    })
    await cluster.runtime.pass(10)
    for (const { events } of logs) expect(events.splice(0)).toEqual(['started', 'records 0,1,2,3,4', 'caught up'])
    return { ...cluster, logs }
  }

  test.each([
    { what: 'that was made again', now: { topicId: 'second' }, told: 'its topic id is second, was first' },
    {
      what: 'that gained partitions',
      now: { ...topicOf(topic, 1, 0, 5), ...first },
      told: 'its partitions is 5, was 4',
    },
    { what: 'that is gone', now: topicOf(topic, 1, 3), told: 'its existence is missing, was present' },
  ])(
    '$what is told to every reader and every wait within 13 s, without any error of a partition',
    async ({ now, told }) => {
      const cluster = await following()
      const { connection, follower, runtime, logs } = cluster
      connection.next('ListOffsets', offset(6n))
      const unfinished = watched(follower.readToEnd(0, shortly(cluster, 60_000)))
      connection.always('Metadata', shownAs(now))
      await runtime.pass(13_000)
      for (const { events } of logs) expect(events).toEqual([`changed: ${told}`])
      expect(unfinished.now()).toMatchObject({ state: 'rejected', error: { code: 'TOPIC', topic } })
      await expect(follower.readToEnd(1, shortly(cluster))).rejects.toMatchObject({ code: 'TOPIC' })
      const requests = connection.seen.length
      await runtime.pass(30_000)
      expect(connection.seen.length, 'nothing is asked any more').toBe(requests)
    },
  )

  test.each([
    { what: 'an id from before', now: { topicId: 'zeroth' } },
    { what: 'absence', now: topicOf(topic, 1, 3) },
  ])('is not concluded from one answer of $what', async ({ now }) => {
    const { connection, runtime, logs } = await following()
    connection.next('Metadata', shownAs(now))
    await runtime.pass(60_000)
    for (const { events } of logs) expect(events).toEqual([])
  })

  test.each([
    { what: 'fewer partitions, which are an old answer', now: { ...topicOf(topic, 1, 0, 3), ...first } },
    { what: 'no topic id', now: topicOf(topic) },
    { what: 'a refusal', now: topicOf(topic, 1, 29) },
  ])('is not concluded from $what', async ({ now }) => {
    const { connection, runtime, logs } = await following()
    connection.always('Metadata', shownAs(now))
    await runtime.pass(60_000)
    for (const { events } of logs) expect(events).toEqual([])
  })

  test('is compared when a partition is placed again, so that nothing of the new one is read', async () => {
    const { connection, broker, runtime, logs } = await following([0])
    connection.always('Metadata', shownAs({ topicId: 'second' }))
    broker.errors.set(0, 3)
    connection.next('Fetch', { errorCode: 0, partitions: [fetched(0, [], 3)] })
    await runtime.pass(longPollMs + 10)
    broker.errors.clear()
    broker.logs.set(0, [batch(0n, 9)])
    await runtime.pass(3_500)
    expect(logs[0]?.events).toEqual(['changed: its topic id is second, was first'])
  })

  test.each([
    { what: 'an end below what was read', answer: fetched(0, [], 1), log: [batch(0n, 2)], end: 2 },
    {
      what: 'a diverging epoch, even where the log has grown again',
      answer: { ...fetched(0, []), divergingEpoch: { epoch: 3, endOffset: 1n } },
      log: [batch(0n, 9)],
      end: 1,
    },
  ])('is told by $what', async ({ answer, log: shorter, end }) => {
    const cluster = await following()
    const { broker, connection, follower, runtime, logs } = cluster
    connection.next('Fetch', () => {
      broker.logs.set(0, shorter)
      return { errorCode: 0, partitions: [answer] }
    })
    await runtime.pass(longPollMs + 1_000)
    const [own, other] = logs
    expect(own?.events.filter((event) => event !== 'started')).toEqual([`changed: its end is ${end}, was at least 5`])
    expect(other?.events, 'the other partitions end too').toEqual([`changed: its end is ${end}, was at least 5`])
    await expect(follower.readToEnd(0, shortly(cluster))).rejects.toMatchObject({ code: 'TOPIC', setting: 'end' })
  })
})

/** The coordination topic: made once where that is allowed, never changed, refused by name and value. */
import { describe, expect, test } from 'vitest'
import type { TopicWish } from '../../src/cluster/topic.js'
import { ensureTopic } from '../../src/cluster/topic.js'
import { lost, unreachable } from '../support/scripted-connection.js'
import type { World } from './support.js'
import { metadataOf, topicOf, watched, world } from './support.js'

const topic = 'states'
const wish: TopicWish = { topic, create: true, partitions: 4, partitionsAreFixed: false, replicationFactor: undefined }
const good: readonly (readonly [string, string | null])[] = [
  ['cleanup.policy', 'compact'],
  ['message.timestamp.type', 'LogAppendTime'],
  ['compression.type', 'uncompressed'],
  ['delete.retention.ms', '60000'],
]

function configs(...changes: (readonly [string, string | null])[]) {
  return { errorCode: 0, errorMessage: null, configs: new Map([...good, ...changes]) }
}

const absent = (name: string) => ({ ...metadataOf([]), topics: [topicOf(name, 1, 3)] })

function ensure({ dependencies, runtime }: World, changes: Partial<TopicWish> = {}, ms = 5_000, signal?: AbortSignal) {
  const deadline = runtime.monotonicNow() + ms
  const bound = signal === undefined ? { deadline } : { deadline, signal }
  return watched(ensureTopic(dependencies, { ...wish, ...changes }, bound))
}

describe('a cluster that cannot be reached', () => {
  test('is told with what was in the way, and nothing is sent after the deadline', async () => {
    const cluster = world()
    const { runtime } = cluster
    const started = runtime.monotonicNow()
    const sentAt: number[] = []
    cluster.connection.always('Metadata', () => {
      sentAt.push(runtime.monotonicNow() - started)
      return unreachable
    })
    const ensured = ensure(cluster, {}, 3_000)
    await runtime.pass(4_000)
    expect(ensured.now().error).toMatchObject({ code: 'TRANSPORT', retriable: true, cause: { kind: 'unreachable' } })
    expect(sentAt.length).toBeGreaterThan(1)
    expect(Math.max(...sentAt)).toBeLessThan(3_000)
  })
})

describe('a topic that exists', () => {
  test('and fits is taken as it is, and nothing is made', async () => {
    const cluster = world()
    cluster.connection.always('DescribeConfigs', configs())
    const ensured = ensure(cluster)
    await cluster.runtime.pass(1)
    expect(ensured.now().value).toMatchObject({ partitions: 4, deleteRetentionMs: 60_000, warnings: [] })
    expect(cluster.connection.of('CreateTopics')).toEqual([])
  })

  test.each([
    ['cleanup.policy', 'delete', 'compact'],
    ['cleanup.policy', 'compact,delete', 'compact'],
    ['unclean.leader.election.enable', 'true', 'false'],
    ['compression.type', 'zstd', 'uncompressed'],
    ['min.insync.replicas', '2', 'at most the 1 replicas it has'],
  ])('with %s = %s is refused', async (setting, found, wanted) => {
    const cluster = world()
    cluster.connection.always('DescribeConfigs', configs([setting, found]))
    const ensured = ensure(cluster)
    await cluster.runtime.pass(1)
    expect(ensured.now().error).toMatchObject({ code: 'TOPIC', topic, setting, found, wanted })
    for (const word of [topic, setting, found, wanted]) expect(String(ensured.now().error)).toContain(word)
  })

  test('with another number of partitions is refused where that number was given', async () => {
    const cluster = world()
    cluster.connection.always('DescribeConfigs', configs())
    const ensured = ensure(cluster, { partitions: 16, partitionsAreFixed: true })
    await cluster.runtime.pass(1)
    expect(ensured.now().error).toMatchObject({ code: 'TOPIC', setting: 'partitions', found: '4', wanted: '16' })
    const taken = ensure(cluster, { partitions: 16 })
    await cluster.runtime.pass(1)
    expect(taken.now().value).toMatchObject({ partitions: 4 })
  })

  test.each([
    ['message.timestamp.type', 'CreateTime'],
    ['compression.type', 'producer'],
  ])('with %s = %s works, with a warning', async (setting, found) => {
    const cluster = world()
    cluster.connection.always('DescribeConfigs', configs([setting, found]))
    const ensured = ensure(cluster)
    await cluster.runtime.pass(1)
    expect(ensured.now().value?.warnings).toEqual([expect.stringContaining(`${setting} = ${found}`)])
  })

  test('whose settings may not be read (29) is taken, with a warning', async () => {
    const cluster = world()
    cluster.connection.always('DescribeConfigs', { errorCode: 29, errorMessage: null, configs: new Map() })
    const ensured = ensure(cluster)
    await cluster.runtime.pass(1)
    expect(ensured.now().value).toMatchObject({ partitions: 4, deleteRetentionMs: undefined })
    expect(ensured.now().value?.warnings).toHaveLength(1)
  })

  test('that may not be described is UNAUTHORIZED', async () => {
    const cluster = world()
    cluster.connection.always('Metadata', { ...metadataOf([]), topics: [topicOf(topic, 1, 29)] })
    const ensured = ensure(cluster)
    await cluster.runtime.pass(1)
    expect(ensured.now().error).toMatchObject({ code: 'UNAUTHORIZED', resource: `topic '${topic}'` })
  })
})

describe('a topic that is missing', () => {
  /** Missing until it is made. */
  function missing(brokers = 3): World {
    const cluster = world()
    let isMade = false
    cluster.connection.always('DescribeConfigs', configs())
    cluster.connection.always('Metadata', ({ request }) => ({
      ...(isMade || request.topics.length === 0 ? metadataOf(request.topics) : absent(topic)),
      brokers: Array.from({ length: brokers }, (_, id) => ({ id: id + 1, host: 'h', port: 1 })),
    }))
    cluster.connection.always('CreateTopics', () => {
      isMade = true
      return { errorCode: 0, errorMessage: null }
    })
    return cluster
  }

  test.each([
    [1, undefined, 1, '1'],
    [2, undefined, 2, '1'],
    [5, undefined, 3, '2'],
    [5, 5, 5, '2'],
  ])(
    'is made: %d brokers, wish %s, replication %d, min.insync.replicas %s',
    async (brokers, wished, factor, inSync) => {
      const cluster = missing(brokers)
      const ensured = ensure(cluster, { replicationFactor: wished })
      await cluster.runtime.pass(500)
      expect(ensured.now().state).toBe('fulfilled')
      expect(cluster.connection.of('CreateTopics')).toHaveLength(1)
      const { request } = cluster.connection.of('CreateTopics')[0] ?? {}
      expect(request).toMatchObject({ topic, partitions: 4, replicationFactor: factor })
      expect(Object.fromEntries(request?.configs ?? [])).toMatchObject({
        'cleanup.policy': 'compact',
        'message.timestamp.type': 'LogAppendTime',
        'min.insync.replicas': inSync,
        'unclean.leader.election.enable': 'false',
      })
    },
  )

  test('is not made where that is forbidden: TOPIC', async () => {
    const cluster = missing()
    const ensured = ensure(cluster, { create: false })
    await cluster.runtime.pass(500)
    expect(ensured.now().error).toMatchObject({ code: 'TOPIC', topic, setting: 'existence' })
    expect(cluster.connection.of('CreateTopics')).toEqual([])
  })

  test('and made by somebody else meanwhile (36) is taken', async () => {
    const cluster = missing()
    cluster.connection.next('CreateTopics', { errorCode: 36, errorMessage: 'exists' })
    cluster.connection.next('Metadata', absent(topic), metadataOf([]), absent(topic), metadataOf([topic]))
    const ensured = ensure(cluster)
    await cluster.runtime.pass(500)
    expect(ensured.now().state).toBe('fulfilled')
    expect(cluster.connection.of('CreateTopics')).toHaveLength(1)
  })

  test('whose making was not answered is looked for before it is made again', async () => {
    const cluster = missing()
    cluster.connection.next('CreateTopics', lost)
    const ensured = ensure(cluster)
    await cluster.runtime.pass(500)
    expect(ensured.now().state).toBe('fulfilled')
  })

  test('is waited for until it has leaders', async () => {
    const cluster = missing()
    let looks = 0
    cluster.connection.always('Metadata', ({ request }) => {
      if (request.topics.length === 0) return metadataOf([])
      looks += 1
      if (looks === 1) return absent(topic)
      return { ...metadataOf([]), topics: [topicOf(topic, looks < 4 ? -1 : 1)] }
    })
    const ensured = ensure(cluster)
    await cluster.runtime.pass(1_000)
    expect(ensured.now().state).toBe('fulfilled')
    expect(looks).toBe(4)
  })

  test.each([
    [29, 'UNAUTHORIZED'],
    [31, 'UNAUTHORIZED'],
    [38, 'TOPIC'],
    [44, 'TOPIC'],
  ])('and may not be made (%d) is %s', async (errorCode, code) => {
    const cluster = missing()
    cluster.connection.next('CreateTopics', { errorCode, errorMessage: 'no' })
    const ensured = ensure(cluster)
    await cluster.runtime.pass(500)
    expect(ensured.now().error).toMatchObject({ code })
  })
})

describe('a cluster that does not answer', () => {
  test('is TRANSPORT at the deadline', async () => {
    const cluster = world()
    cluster.connection.always('Metadata', unreachable)
    const ensured = ensure(cluster)
    await cluster.runtime.pass(6_000)
    expect(ensured.now().error).toMatchObject({ code: 'TRANSPORT', retriable: true })
    expect(cluster.runtime.pendingTimers).toBe(0)
  })

  test('is given up when the signal aborts', async () => {
    const cluster = world()
    cluster.connection.always('Metadata', unreachable)
    const abort = new AbortController()
    const ensured = ensure(cluster, {}, 60_000, abort.signal)
    await cluster.runtime.pass(300)
    const reason = new Error('enough')
    abort.abort(reason)
    await cluster.runtime.pass(0)
    expect(ensured.now().error).toBe(reason)
  })

  test.each([
    ['authentication', 'UNAUTHORIZED'],
    ['unsupported', 'UNSUPPORTED'],
  ] as const)('for good (%s) is %s at once', async (fails, code) => {
    const cluster = world()
    cluster.connection.always('Metadata', { fails, written: false })
    const ensured = ensure(cluster)
    await cluster.runtime.pass(1)
    expect(ensured.now().error).toMatchObject({ code })
  })
})

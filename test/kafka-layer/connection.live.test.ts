/**
 * Every API once, and the whole path of a transaction, on a real broker through the real sockets.
 */
import { setTimeout as pause } from 'node:timers/promises'
import { Kafka, logLevel } from 'kafkajs'
import { afterAll, beforeAll, expect, test, vi } from 'vitest'
import type {
  ApiName,
  ApiRequest,
  ApiResponse,
  Channel,
  ClusterConnection,
  Node,
  RequestOptions,
} from '../../src/cluster/connection.js'
import { openKafkaConnection } from '../../src/kafka/connection.js'
import { systemRuntime } from '../../src/runtime.js'
import { describeWithKafka, freshName } from '../kafka/suites.js'

/** Coordinators that are still starting: 14, 15 and 16; and 51, a transaction whose markers are still being written. */
const notYet = [14, 15, 16, 51]

const atTransactionCoordinator: readonly ApiName[] = [
  'InitProducerId',
  'AddPartitionsToTxn',
  'AddOffsetsToTxn',
  'EndTxn',
  'DescribeTransactions',
]

describeWithKafka('the connection seam on a broker', { nodes: 1, transactionVersion: 2 }, (cluster) => {
  const topic = freshName('seam')
  const role = freshName('role')
  const group = freshName('group')
  const complaints: string[] = []
  let connection: ClusterConnection
  /** Who answers what: the leader of partition 0 unless a coordinator does. */
  let leader: Node
  let transactionCoordinator: Node
  let groupCoordinator: Node

  function nodeFor(api: ApiName): Node {
    if (api === 'TxnOffsetCommit') return groupCoordinator
    return atTransactionCoordinator.includes(api) ? transactionCoordinator : leader
  }

  function send<A extends ApiName>(
    request: ApiRequest<A> & { readonly api: A },
    channel: Channel = 'work',
    options: Partial<RequestOptions> = {},
  ): Promise<ApiResponse<A>> {
    return connection.request<A>(nodeFor(request.api), channel, request, {
      deadline: systemRuntime.monotonicNow() + 10_000,
      ...options,
    })
  }

  /** Asks again while `codeOf` the answer says that the broker is not ready yet. */
  async function ready<Answer>(ask: () => Promise<Answer>, codeOf: (answer: Answer) => number): Promise<Answer> {
    for (;;) {
      const answer = await ask()
      if (!notYet.includes(codeOf(answer))) return answer
      await pause(5)
    }
  }

  const errorCode = (answer: { readonly errorCode: number }): number => answer.errorCode
  const firstError = (answer: ApiResponse<'AddPartitionsToTxn'>): number =>
    answer.topics[0]?.partitions[0]?.errorCode ?? 0

  async function mint(): Promise<{ transactionalId: string; producerId: bigint; producerEpoch: number }> {
    const find: ApiRequest<'FindCoordinator'> = { api: 'FindCoordinator', keyType: 'transaction', key: role }
    transactionCoordinator = (await ready(() => send(find), errorCode)).node
    const pair = { producerId: -1n, producerEpoch: -1, transactionTimeoutMs: 30_000 }
    const minted = await ready(() => send({ api: 'InitProducerId', transactionalId: role, ...pair }, 'mint'), errorCode)
    expect(minted.errorCode).toBe(0)
    return { transactionalId: role, producerId: minted.producerId, producerEpoch: minted.producerEpoch }
  }

  async function highWatermark(): Promise<bigint> {
    const partitions = [{ partition: 0, currentLeaderEpoch: -1, at: 'latest' as const }]
    const [answer] = (await send({ api: 'ListOffsets', topic, partitions })).partitions
    expect(answer).toMatchObject({ partition: 0, errorCode: 0 })
    return answer?.offset ?? -1n
  }

  function fetch(offset: bigint, lastFetchedEpoch = -1): Promise<ApiResponse<'Fetch'>> {
    const limits = { maxWaitMs: 5000, minBytes: 1, maxBytes: 1_000_000, partitionMaxBytes: 1_000_000 }
    const partitions = [{ partition: 0, currentLeaderEpoch: -1, offset, lastFetchedEpoch }]
    return send({ api: 'Fetch', topic, ...limits, partitions }, 'poll')
  }

  beforeAll(async () => {
    const kafka = new Kafka({
      brokers: [...cluster().bootstrap],
      clientId: 'seam-test',
      // Values that would end every request at once if anything obeyed them.
      requestTimeout: 0,
      logLevel: logLevel.WARN,
      logCreator: () => (entry) => complaints.push(entry.log.message),
    })
    connection = openKafkaConnection({ kafka, runtime: systemRuntime })
    const deadline = systemRuntime.monotonicNow() + 30_000
    const metadata = await connection.request('seed', 'work', { api: 'Metadata', topics: [] }, { deadline })
    expect(metadata.topics).toEqual([])
    expect(metadata.clusterId).not.toBeNull()
    const [first] = metadata.brokers
    if (first === undefined) throw new Error('the cluster has no broker')
    leader = first
    const created = await send({
      api: 'CreateTopics',
      topic,
      partitions: 2,
      replicationFactor: 1,
      configs: new Map([['message.timestamp.type', 'LogAppendTime']]),
      timeoutMs: 10_000,
    })
    expect(created.errorCode).toBe(0)
    await vi.waitFor(async () => {
      const [found] = (await send({ api: 'Metadata', topics: [topic] })).topics
      const leaderId = found?.partitions.find(({ partition }) => partition === 0)?.leaderId
      leader = metadata.brokers.find(({ id }) => id === leaderId) ?? raise(`no leader of ${topic} yet`)
    })
  })

  afterAll(() => {
    connection.close()
    expect(complaints).toEqual([])
  })

  test('ApiVersions says which versions and which features there are', async () => {
    const answer = await send({ api: 'ApiVersions' })
    expect(answer.errorCode).toBe(0)
    expect(answer.apis).toContainEqual(expect.objectContaining({ apiKey: 65, minVersion: 0 }))
    expect(answer.features.get('metadata.version')).toBeGreaterThan(0)
  })

  test('Metadata answers the topic asked for with its leader, and a missing one with a code and without creating it', async () => {
    const missing = freshName('missing')
    for (let round = 0; round < 2; round += 1) {
      const answer = await send({ api: 'Metadata', topics: [topic, missing] })
      expect(answer.brokers).toContainEqual(leader)
      const found = answer.topics.find((it) => it.topic === topic)
      expect(found?.errorCode).toBe(0)
      expect(found?.partitions.map(({ partition }) => partition).sort()).toEqual([0, 1])
      expect(found?.partitions.find(({ partition }) => partition === 0)).toMatchObject({
        errorCode: 0,
        leaderId: leader.id,
        replicas: [leader.id],
        inSyncReplicas: [leader.id],
      })
      expect(answer.topics.find((it) => it.topic === missing)).toMatchObject({ errorCode: 3, partitions: [] })
    }
  })

  test('CreateTopics tells of a topic that exists, DescribeConfigs of its settings', async () => {
    const request = { api: 'CreateTopics', topic, partitions: 1, replicationFactor: 1, timeoutMs: 10_000 } as const
    expect((await send({ ...request, configs: new Map() })).errorCode).toBe(36)
    const described = await send({ api: 'DescribeConfigs', topic })
    expect(described.errorCode).toBe(0)
    expect(described.configs.get('message.timestamp.type')).toBe('LogAppendTime')
    expect(described.configs.get('cleanup.policy')).toBe('delete')
  })

  test('a transaction with records and offsets, from its mint to what readers see', async () => {
    const identity = await mint()
    const start = await highWatermark()

    const add: ApiRequest<'AddPartitionsToTxn'> = {
      api: 'AddPartitionsToTxn',
      ...identity,
      topics: [{ topic, partitions: [0] }],
    }
    const added = await ready(() => send(add), firstError)
    expect(added).toEqual({ topics: [{ topic, partitions: [{ partition: 0, errorCode: 0 }] }] })

    const batch = {
      producerId: identity.producerId,
      producerEpoch: identity.producerEpoch,
      baseSequence: 0,
      transactional: true,
      records: [
        { key: Buffer.from('k'), value: Buffer.from('v'), headers: [['h', null]] as const, timestamp: 5n },
        { key: null, value: null, headers: [['h', Buffer.from('x')]] as const, timestamp: 4n },
      ],
    }
    const produce: ApiRequest<'Produce'> = {
      api: 'Produce',
      transactionalId: role,
      timeoutMs: 5000,
      topics: [{ topic, partitions: [{ partition: 0, batch }] }],
    }
    const noErrors = { errorCode: 0, errorMessage: null, recordErrors: [] }
    for (const _ of ['first', 'again']) {
      // The same bytes again are answered with the same offset (I9).
      expect(await send(produce)).toEqual({
        topics: [{ topic, partitions: [{ partition: 0, baseOffset: start, ...noErrors }] }],
      })
    }

    expect((await send({ api: 'AddOffsetsToTxn', ...identity, groupId: group })).errorCode).toBe(0)
    const find: ApiRequest<'FindCoordinator'> = { api: 'FindCoordinator', keyType: 'group', key: group }
    const found = await ready(() => send(find), errorCode)
    expect(found.errorCode).toBe(0)
    groupCoordinator = found.node
    const commit: ApiRequest<'TxnOffsetCommit'> = {
      api: 'TxnOffsetCommit',
      ...identity,
      groupId: group,
      topics: [{ topic, partitions: [{ partition: 1, offset: 7n, metadata: null }] }],
    }
    const committed = await ready(
      () => send(commit),
      (answer) => answer.topics[0]?.partitions[0]?.errorCode ?? 0,
    )
    expect(committed).toEqual({ topics: [{ topic, partitions: [{ partition: 1, errorCode: 0 }] }] })

    const unknown = freshName('unknown')
    const look = await send({ api: 'DescribeTransactions', transactionalIds: [role, unknown] })
    // 16 where another broker of a larger cluster coordinates it.
    expect([105, 16]).toContain(look.transactions.find(({ transactionalId }) => transactionalId === unknown)?.errorCode)
    const ongoing = look.transactions.find(({ transactionalId }) => transactionalId === role)
    expect(ongoing).toMatchObject({ errorCode: 0, state: 'Ongoing', timeoutMs: 30_000, ...identity })
    expect(ongoing?.topics).toContainEqual({ topic, partitions: [0] })

    expect((await send({ api: 'EndTxn', ...identity, committed: true })).errorCode).toBe(0)
    const batches = (await fetch(start)).partitions[0]?.batches ?? []
    expect(batches[0]).toMatchObject({
      baseOffset: start,
      lastOffset: start + 1n,
      producerId: identity.producerId,
      producerEpoch: identity.producerEpoch,
      transactional: true,
      logAppendTime: true,
      control: undefined,
    })
    expect(batches[0]?.maxTimestamp).toBeGreaterThan(1_700_000_000_000n)
    const text = (value: Uint8Array | null): string | null => (value === null ? null : Buffer.from(value).toString())
    expect(
      batches[0]?.records.map(({ offset, key, value, headers }) => [
        offset,
        text(key),
        text(value),
        headers.map(([name, content]) => [name, text(content)]),
      ]),
    ).toEqual([
      [start, 'k', 'v', [['h', null]]],
      [start + 1n, null, null, [['h', 'x']]],
    ])
    const [marker] = batches[1] === undefined ? ((await fetch(start + 2n)).partitions[0]?.batches ?? []) : [batches[1]]
    expect(marker).toMatchObject({ control: 'commit', records: [], lastOffset: start + 2n, ...pairOf(identity) })

    const admin = new Kafka({ brokers: [...cluster().bootstrap], logLevel: logLevel.NOTHING }).admin()
    await admin.connect()
    const offsets = await admin.fetchOffsets({ groupId: group, topics: [topic] })
    await admin.disconnect()
    expect(offsets[0]?.partitions).toContainEqual(expect.objectContaining({ partition: 1, offset: '7' }))
  })

  test('the epoch stays through transactions, an abort is seen as one, and an old pair is refused with 90', async () => {
    const identity = await mint()
    const add: ApiRequest<'AddPartitionsToTxn'> = {
      api: 'AddPartitionsToTxn',
      ...identity,
      topics: [{ topic, partitions: [0] }],
    }
    const start = await highWatermark()
    for (const [index, committed] of [false, true].entries()) {
      expect(firstError(await ready(() => send(add), firstError))).toBe(0)
      const records = [{ key: null, value: Buffer.from('x'), headers: [], timestamp: 0n }]
      const batch = { ...pairOf(identity), baseSequence: index, transactional: true, records }
      const topics = [{ topic, partitions: [{ partition: 0, batch }] }]
      const produced = await send({ api: 'Produce', transactionalId: role, timeoutMs: 5000, topics })
      expect(produced.topics[0]?.partitions[0]?.errorCode).toBe(0)
      expect((await send({ api: 'EndTxn', ...identity, committed })).errorCode).toBe(0)
    }
    const outcomes: string[] = []
    for (let offset = start; outcomes.length < 2; ) {
      const answer = await fetch(offset)
      for (const { control, lastOffset } of answer.partitions[0]?.batches ?? []) {
        if (control !== undefined) outcomes.push(control)
        offset = lastOffset + 1n
      }
    }
    expect(outcomes).toEqual(['abort', 'commit'])

    const expected: ApiRequest<'InitProducerId'> = { api: 'InitProducerId', ...identity, transactionTimeoutMs: 30_000 }
    const sealed = await ready(() => send(expected, 'mint'), errorCode)
    expect(sealed).toEqual({
      errorCode: 0,
      producerId: identity.producerId,
      producerEpoch: identity.producerEpoch + 1,
    })
    expect(firstError(await send(add))).toBe(90)
    expect((await send({ api: 'EndTxn', ...identity, committed: true })).errorCode).toBe(90)
    await mint()
    expect((await send(expected, 'mint')).errorCode).toBe(90)
  })

  test('a mint is refused while it would wait, and goes out in the tick of a look', async () => {
    const look: ApiRequest<'DescribeTransactions'> = { api: 'DescribeTransactions', transactionalIds: [role] }
    const plain: ApiRequest<'InitProducerId'> = {
      api: 'InitProducerId',
      transactionalId: role,
      producerId: -1n,
      producerEpoch: -1,
      transactionTimeoutMs: 30_000,
    }
    await mint()
    const before = await send(look, 'mint')
    const looking = send(look, 'mint')
    await expect(send(plain, 'mint', { onlyIfIdle: true })).rejects.toMatchObject({
      kind: 'not-idle',
    })
    const after = await looking
    expect(after.transactions[0]?.producerEpoch).toBe(before.transactions[0]?.producerEpoch)
    const minted = await send(plain, 'mint', { onlyIfIdle: true })
    expect(minted).toEqual({
      errorCode: 0,
      producerId: after.transactions[0]?.producerId,
      producerEpoch: (after.transactions[0]?.producerEpoch ?? 0) + 1,
    })
  })

  test('a Fetch waits for records without delaying the other channels', async () => {
    const end = await highWatermark()
    const waiting = fetch(end)
    await send({ api: 'ApiVersions' })
    const records = [{ key: null, value: Buffer.from('plain'), headers: [], timestamp: 0n }]
    const batch = { producerId: -1n, producerEpoch: -1, baseSequence: -1, transactional: false, records }
    const topics = [{ topic, partitions: [{ partition: 0, batch }] }]
    await send({ api: 'Produce', transactionalId: null, timeoutMs: 5000, topics })
    const [partition] = (await waiting).partitions
    expect(partition?.batches).toMatchObject([
      { baseOffset: end, transactional: false, producerId: -1n, producerEpoch: -1 },
    ])
  })

  test('a Fetch behind the end of the log is told so by its code', async () => {
    const [partition] = (await fetch(1_000_000n)).partitions
    expect(partition).toMatchObject({ errorCode: 1, batches: [] })
  })

  test('a Fetch from beyond the end of the epoch read last is told where the log was cut back', async () => {
    const end = await highWatermark()
    const [partition] = (await fetch(end + 5n, 0)).partitions
    expect(partition).toMatchObject({ errorCode: 0, divergingEpoch: { epoch: 0, endOffset: end }, batches: [] })
  })
})

function pairOf(identity: { producerId: bigint; producerEpoch: number }): {
  producerId: bigint
  producerEpoch: number
} {
  return { producerId: identity.producerId, producerEpoch: identity.producerEpoch }
}

function raise(message: string): never {
  throw new Error(message)
}

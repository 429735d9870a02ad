/** Produce until answered: by leader, byte for byte, and never a word more than the answers allow. */
import { describe, expect, test } from 'vitest'
import type { PartitionBatch, ProduceOutcome } from '../../src/cluster/produce.js'
import { produceUntilAnswered } from '../../src/cluster/produce.js'
import { lost, unreachable } from '../support/scripted-connection.js'
import type { World } from './support.js'
import {
  metadataOf,
  node,
  otherNode,
  produceAnswer,
  record,
  requestTimeoutMs,
  topicOf,
  watched,
  world,
} from './support.js'

const plain = (topic: string, partition = 0): PartitionBatch => ({
  topic,
  partition,
  batch: { producerId: -1n, producerEpoch: -1, baseSequence: -1, transactional: false, records: [record('a')] },
})

function produce(
  { dependencies, runtime }: World,
  batches: readonly PartitionBatch[],
  bound: { deadline?: number; answersUntil?: number; signal?: AbortSignal } = {},
) {
  const deadline = bound.deadline ?? runtime.monotonicNow() + 20_000
  return watched(produceUntilAnswered(dependencies, null, batches, { ...bound, deadline }))
}

const kindsOf = (outcomes: readonly ProduceOutcome[] | undefined): string[] =>
  (outcomes ?? []).map((outcome) => outcome.kind)

describe('producing', () => {
  test('sends one request to each leader, all of them at once', async () => {
    const cluster = world()
    cluster.connection.always('Metadata', ({ request }) => {
      const [topic] = request.topics
      return metadataOf(request.topics, topic === 'here' ? node : otherNode)
    })
    cluster.connection.always('Produce', produceAnswer(0))
    const batches = [plain('here', 0), plain('there', 1), plain('here', 2)]
    const produced = produce(cluster, batches)
    await cluster.runtime.pass(1)
    expect(kindsOf(produced.now().value)).toEqual(['appended', 'appended', 'appended'])
    expect(cluster.connection.of('Produce').map((seen) => seen.node)).toEqual([node, otherNode])
  })

  test.each([6, 3, 5, 74, 19, 20, 7, 2, 56])(
    'answered %d finds the leader again and repeats the same batch',
    async (code) => {
      const cluster = world()
      cluster.connection.next('Metadata', metadataOf(['jobs'], node), metadataOf(['jobs'], otherNode))
      cluster.connection.next('Produce', produceAnswer(code), produceAnswer(0, 8n))
      const produced = produce(cluster, [plain('jobs')])
      await cluster.runtime.pass(200)
      expect(produced.now().value).toEqual([{ kind: 'appended', baseOffset: 8n }])
      expect(cluster.connection.of('Produce').map((seen) => seen.node)).toEqual([node, otherNode])
      const batches = cluster.connection.of('Produce').map(({ request }) => request.topics[0]?.partitions[0]?.batch)
      expect(batches[0]).toBe(batches[1])
    },
  )

  test('repeats only what was not answered', async () => {
    const cluster = world()
    cluster.connection.next(
      'Produce',
      ({ request }) => ({
        topics: produceAnswer(0)({ request } as never).topics.map(({ topic, partitions }) => ({
          topic,
          partitions: partitions.map((one) => (one.partition === 1 ? { ...one, errorCode: 6 } : one)),
        })),
      }),
      produceAnswer(0),
    )
    const produced = produce(cluster, [plain('jobs', 0), plain('jobs', 1)])
    await cluster.runtime.pass(200)
    expect(kindsOf(produced.now().value)).toEqual(['appended', 'appended'])
    expect(
      cluster.connection.of('Produce')[1]?.request.topics[0]?.partitions.map(({ partition }) => partition),
    ).toEqual([1])
  })

  test('to a partition without a leader waits for one, and ends at its bound with nothing written', async () => {
    const cluster = world()
    cluster.connection.always('Metadata', ({ request }) => ({
      ...metadataOf(request.topics),
      topics: request.topics.map((topic) => topicOf(topic, -1)),
    }))
    const produced = produce(cluster, [plain('jobs')], { deadline: cluster.runtime.monotonicNow() + 2_000 })
    await cluster.runtime.pass(2_100)
    expect(produced.now().value).toMatchObject([{ kind: 'unanswered', mayBeAppended: false }])
    expect(cluster.connection.of('Produce')).toEqual([])
    expect(cluster.connection.of('Metadata').length).toBeLessThan(12)
  })

  test('without an answer says at its bound that it may be appended', async () => {
    const cluster = world()
    cluster.connection.always('Produce', 'silent')
    const produced = produce(cluster, [plain('jobs')], { deadline: cluster.runtime.monotonicNow() + 2_500 })
    await cluster.runtime.pass(3_000)
    expect(produced.now().value).toMatchObject([{ kind: 'unanswered', mayBeAppended: true }])
  })

  test('waits past its bound for what was sent before it, and sends nothing more', async () => {
    const cluster = world()
    const { runtime } = cluster
    cluster.connection.next('Produce', async (seen) => {
      await new Promise<void>((resolve) => runtime.setTimer(500, resolve))
      return produceAnswer(0, 3n)(seen)
    })
    const deadline = runtime.monotonicNow() + 100
    const produced = produce(cluster, [plain('jobs')], { deadline, answersUntil: deadline + 5_000 })
    await runtime.pass(600)
    expect(produced.now().value).toEqual([{ kind: 'appended', baseOffset: 3n }])
    cluster.connection.next('Produce', lost)
    const again = produce(cluster, [plain('jobs')], {
      deadline: runtime.monotonicNow() + 5,
      answersUntil: runtime.monotonicNow() + 5_000,
    })
    await runtime.pass(100)
    expect(again.now().value).toMatchObject([{ kind: 'unanswered', mayBeAppended: true }])
    expect(cluster.connection.of('Produce')).toHaveLength(2)
  })

  test('stops when its signal aborts, with the outcome as it stands', async () => {
    const cluster = world()
    cluster.connection.always('Produce', unreachable)
    const abort = new AbortController()
    const produced = produce(cluster, [plain('jobs')], { signal: abort.signal })
    await cluster.runtime.pass(100)
    abort.abort()
    await cluster.runtime.pass(1_100)
    expect(produced.now().value).toMatchObject([{ kind: 'unanswered', mayBeAppended: false }])
    expect(cluster.runtime.pendingTimers).toBe(0)
  })

  test('tells the broker to wait no longer for its replicas than the request waits for the broker', async () => {
    const cluster = world()
    cluster.connection.always('Produce', produceAnswer(0))
    produce(cluster, [plain('jobs')])
    produce(cluster, [plain('jobs')], { deadline: cluster.runtime.monotonicNow() + 300 })
    await cluster.runtime.pass(1)
    const waits = cluster.connection
      .of('Produce')
      .map(({ request, options, at }) => [request.timeoutMs, options.deadline - at])
    expect(waits).toEqual([
      [requestTimeoutMs, requestTimeoutMs],
      [300, 300],
    ])
  })

  test.each([
    [29, 'UNAUTHORIZED'],
    [45, 'TRANSPORT'],
    [9_999, 'TRANSPORT'],
  ])('answered %d is final: %s', async (code, expected) => {
    const cluster = world()
    cluster.connection.always('Produce', produceAnswer(code))
    const produced = produce(cluster, [plain('jobs')])
    await cluster.runtime.pass(1)
    expect(produced.now().value).toMatchObject([{ kind: 'fatal', error: { code: expected } }])
  })

  test('over a connection that can never be had rejects at once', async () => {
    const cluster = world()
    cluster.connection.always('Produce', { fails: 'authentication', written: false })
    const produced = produce(cluster, [plain('jobs')])
    await cluster.runtime.pass(1)
    expect(produced.now().error).toMatchObject({ code: 'UNAUTHORIZED' })
  })
})

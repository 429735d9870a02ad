/**
 * `send` under concurrency on a real broker: many callers, some of them wrong, share transactions; each gets its own answer, and the
 * raw log agrees with all of them.
 */
import { Kafka, logLevel } from 'kafkajs'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { headerText, type RawRecord, readCommittedLog } from '../../examples/demo/raw-log.js'
import {
  CoordinationClient,
  type GuardedRecord,
  isCoordinationError,
  type Leadership,
  type RecordPosition,
} from '../../src/index.js'
import { describeWithKafka, freshName } from '../kafka/suites.js'
import { tell } from '../support/form.js'
import { makeTopics } from '../support/topics.js'

const calls = 10_000
const concurrency = 64
const smallestLimit = 4_000

interface Call {
  readonly id: string
  readonly record: GuardedRecord
  /** What it must be answered: undefined = its offsets. */
  readonly expected: { readonly code: string; readonly kafkaCode?: number } | undefined
  outcome?: { readonly positions: readonly RecordPosition[] } | { readonly error: unknown }
}

describeWithKafka('send from many callers', { nodes: 1, transactionVersion: 2 }, (cluster) => {
  const topics = {
    plain: freshName('plain'),
    compacted: freshName('compacted'),
    narrow: freshName('narrow'),
    missing: freshName('missing'),
  }
  let kafka: Kafka
  let client: CoordinationClient
  let leadership: Leadership

  beforeAll(async () => {
    kafka = new Kafka({ brokers: [...cluster().bootstrap], logLevel: logLevel.NOTHING })
    await makeTopics(cluster().bootstrap, [
      { topic: topics.plain, numPartitions: 3 },
      {
        topic: topics.compacted,
        numPartitions: 2,
        configEntries: [{ name: 'cleanup.policy', value: 'compact' }],
      },
      {
        topic: topics.narrow,
        numPartitions: 1,
        configEntries: [{ name: 'max.message.bytes', value: String(smallestLimit) }],
      },
    ])
    client = new CoordinationClient({ kafka, topic: freshName('coordination'), memberId: 'sender' })
    leadership = await client.acquire(freshName('send'))
  })

  afterAll(async () => {
    await client?.close()
  })

  test(`${calls} calls at concurrency ${concurrency}, some invalid`, { timeout: 180_000 }, async () => {
    const all = Array.from({ length: calls }, (_, index) => callAt(index, topics))
    const startedAt = performance.now()
    await inParallel(all, async (call) => {
      try {
        call.outcome = { positions: await leadership.send(call.record) }
      } catch (error) {
        call.outcome = { error }
      }
    })
    const tookMs = performance.now() - startedAt

    const refused = all.filter(({ expected }) => expected !== undefined)
    for (const { id, expected, outcome } of refused) {
      const error = outcome !== undefined && 'error' in outcome ? outcome.error : 'no error'
      expect(isCoordinationError(error), `${id}: ${String(error)}`).toBe(true)
      expect(error, id).toMatchObject(expected ?? {})
    }

    const log = await readAll(cluster().bootstrap, [topics.plain, topics.compacted, topics.narrow])
    const visible = new Map<string, RawRecord[]>()
    for (const record of log.filter(({ outcome }) => outcome === 'committed')) {
      const id = String(record.value).split(':')[0] ?? ''
      visible.set(id, [...(visible.get(id) ?? []), record])
    }
    for (const { id } of refused) expect(visible.has(id), `${id} was rejected`).toBe(false)

    const accepted = all.filter(({ expected }) => expected === undefined)
    const lastOffsets = new Map<string, bigint>()
    for (const { id, record, outcome } of accepted) {
      if (outcome === undefined || 'error' in outcome) throw new Error(`${id} was rejected`, { cause: outcome?.error })
      const found = visible.get(id) ?? []
      expect(found.length, id).toBe(record.messages.length)
      for (const [index, { topic, partition, offset }] of outcome.positions.entries()) {
        const at = found.find((one) => one.topic === topic && one.partition === partition && one.offset === offset)
        expect(String(at?.value), `${id} at ${topic}-${partition}@${offset}`).toBe(
          String(record.messages[index]?.value),
        )
        // Calls are listed in the order in which they were made, and so are their offsets in each partition.
        const place = `${topic}-${partition}`
        expect(offset > (lastOffsets.get(place) ?? -1n), `${id} at ${place}@${offset}`).toBe(true)
        lastOffsets.set(place, offset)
      }
    }
    expect(visible.size, 'nothing else is visible').toBe(accepted.length)
    expect(await existingTopics(kafka), 'asking for a topic does not make it').not.toContain(topics.missing)
    const tokens = new Set(log.map((record) => headerText(record, 'mandate-token')))
    expect(tokens).toEqual(new Set([leadership.token.toString()]))

    tell(
      `${calls} sends at concurrency ${concurrency}, ${refused.length} of them refused: ${tookMs.toFixed(0)} ms, ` +
        `${((accepted.length / tookMs) * 1_000).toFixed(0)} a second`,
    )
    await leadership.renew()
  })

  test('callers beyond maxQueuedBytes wait, and keep their order', async () => {
    const narrow = new CoordinationClient({
      kafka,
      topic: freshName('coordination'),
      memberId: 'narrow',
      maxQueuedBytes: 2_000,
    })
    try {
      const led = await narrow.acquire(freshName('narrow'))
      const sends = Array.from({ length: 300 }, (_, index) =>
        led.send({ topic: topics.plain, messages: [{ partition: 2, value: `q${index}:${'v'.repeat(200)}` }] }),
      )
      const offsets = (await Promise.all(sends)).map(([position]) => position?.offset ?? -1n)
      expect(offsets).toEqual([...new Set(offsets)].sort((a, b) => Number(a - b)))
      const values = (await readAll(cluster().bootstrap, [topics.plain]))
        .filter(({ outcome, value }) => outcome === 'committed' && String(value).startsWith('q'))
        .map(({ value }) => String(value).split(':')[0])
      expect(values).toEqual(sends.map((_, index) => `q${index}`))
    } finally {
      await narrow.close()
    }
  })

  test('a call with several messages is all or nothing: one bad message rejects all of it', async () => {
    const bad: GuardedRecord = {
      topic: topics.compacted,
      messages: [
        { key: 'half', value: 'half-good:' },
        { value: 'half-bad:', partition: 1 },
      ],
    }
    const good: GuardedRecord = { topic: topics.plain, messages: [{ key: 'k', value: 'neighbour:' }] }
    const [refusal, neighbour] = await Promise.allSettled([leadership.send(bad), leadership.send(good)])
    expect(refusal).toMatchObject({ status: 'rejected', reason: { code: 'REFUSED', topic: topics.compacted } })
    expect(neighbour.status).toBe('fulfilled')
    const values = (await readAll(cluster().bootstrap, [topics.plain, topics.compacted]))
      .filter(({ outcome }) => outcome === 'committed')
      .map(({ value }) => String(value))
    expect(values.filter((value) => value.startsWith('half-'))).toEqual([])
    expect(values.filter((value) => value === 'neighbour:')).toHaveLength(1)
  })

  test('messages of one call without key and partition share a partition, those of many calls spread', async () => {
    const sends = await Promise.all(
      Array.from({ length: 30 }, () =>
        leadership.send({ topic: topics.plain, messages: [{ value: 'a' }, { value: 'b' }] }),
      ),
    )
    for (const positions of sends) expect(new Set(positions.map(({ partition }) => partition)).size).toBe(1)
    expect(new Set(sends.flatMap((positions) => positions.map(({ partition }) => partition)))).toEqual(
      new Set([0, 1, 2]),
    )
  })
})

/** Mostly good calls to three topics; every now and then one of each kind of bad ones. */
function callAt(index: number, topics: Readonly<Record<'plain' | 'compacted' | 'narrow' | 'missing', string>>): Call {
  const id = `c${index}`
  const value = `${id}:${'v'.repeat(100)}`
  const refused = { code: 'REFUSED' }
  switch (index % 200) {
    case 7:
      return call(id, { topic: topics.plain, messages: [{ value, partition: 3 }] }, { ...refused, kafkaCode: 3 })
    case 41:
      return call(id, { topic: topics.compacted, messages: [{ value }] }, { ...refused, kafkaCode: 87 })
    case 77: {
      const large = `${id}:${'x'.repeat(smallestLimit)}`
      return call(id, { topic: topics.narrow, messages: [{ value: large }] }, { ...refused, kafkaCode: 10 })
    }
    case 113:
      return call(id, { topic: topics.missing, messages: [{ value }] }, { ...refused, kafkaCode: 3 })
    case 151: {
      const record = { topic: topics.plain, messages: [{ value, colour: 'red' }] }
      return call(id, record, { code: 'CONFIG' })
    }
    case 20:
    case 120:
      return call(id, { topic: topics.narrow, messages: [{ value }] }, undefined)
    case 50:
    case 150: {
      const messages = [0, 1, 2].map((part) => ({ key: `${id}-${part}`, value: `${value}${part}` }))
      return call(id, { topic: topics.plain, messages }, undefined)
    }
    default:
      return index % 3 === 0
        ? call(id, { topic: topics.compacted, messages: [{ key: id, value }] }, undefined)
        : call(id, { topic: topics.plain, messages: [{ key: `k${index % 50}`, value }] }, undefined)
  }
}

function call(id: string, record: GuardedRecord, expected: Call['expected']): Call {
  return { id, record, expected }
}

async function inParallel(all: readonly Call[], run: (call: Call) => Promise<void>): Promise<void> {
  const left = all.values()
  await Promise.all(
    Array.from({ length: concurrency }, async () => {
      for (const next of left) await run(next)
    }),
  )
}

async function existingTopics(kafka: Kafka): Promise<readonly string[]> {
  const admin = kafka.admin()
  await admin.connect()
  try {
    return await admin.listTopics()
  } finally {
    await admin.disconnect()
  }
}

async function readAll(bootstrap: readonly string[], topics: readonly string[]): Promise<readonly RawRecord[]> {
  const logs = await Promise.all(topics.map((topic) => readCommittedLog(bootstrap, topic)))
  return logs.flat()
}

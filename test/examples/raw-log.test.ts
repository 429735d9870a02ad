/**
 * The demo's raw reader, on what stock kafkajs producers write: it is what other tests judge the library by, so it is checked
 * against outcomes that are known without it.
 */
import { Kafka, logLevel } from 'kafkajs'
import { expect, test } from 'vitest'
import { headerText, readCommittedLog } from '../../examples/demo/raw-log.js'
import { describeWithKafka, freshName } from '../kafka/suites.js'
import { makeTopics } from '../support/topics.js'

describeWithKafka('the raw log reader', { nodes: 1, transactionVersion: 2 }, (cluster) => {
  test('tells committed, aborted, open and plain records apart', async () => {
    const kafka = new Kafka({ brokers: [...cluster().bootstrap], logLevel: logLevel.NOTHING })
    const topic = freshName('raw-log')
    await makeTopics(cluster().bootstrap, [{ topic, numPartitions: 2, replicationFactor: 1 }])
    const plain = kafka.producer()
    const guarded = kafka.producer({ transactionalId: freshName('raw-log'), maxInFlightRequests: 1, idempotent: true })
    const other = kafka.producer({ transactionalId: freshName('raw-log'), maxInFlightRequests: 1, idempotent: true })
    await Promise.all([plain.connect(), guarded.connect(), other.connect()])
    const left = await other.transaction()
    const send = { topic, partition: 1 }
    try {
      await plain.send({ topic, messages: [{ partition: 1, key: null, value: 'plain', headers: { a: ['1', '2'] } }] })
      await left.send({ topic, messages: [{ ...send, value: 'left open' }] })
      const committed = await guarded.transaction()
      await committed.send({ topic, messages: [{ ...send, key: 'k', value: 'first', timestamp: '1700000000000' }] })
      await committed.send({ topic, messages: [{ ...send, value: null }] })
      await committed.commit()
      const aborted = await guarded.transaction()
      await aborted.send({ topic, messages: [{ ...send, value: 'aborted' }] })
      await aborted.abort()
      const again = await guarded.transaction()
      await again.send({ topic, messages: [{ ...send, value: 'second' }] })
      await again.commit()

      const records = await readCommittedLog(cluster().bootstrap, topic, { settleMs: 300 })

      expect(records.map(({ value, outcome }) => [value?.toString() ?? null, outcome])).toEqual([
        ['plain', 'plain'],
        ['left open', 'open'],
        ['first', 'committed'],
        [null, 'committed'],
        ['aborted', 'aborted'],
        ['second', 'committed'],
      ])
      const [first, , second] = records
      expect(first).toMatchObject({ topic, partition: 1, offset: 0n, key: null, producerId: -1n, transactional: false })
      expect(first === undefined ? undefined : headerText(first, 'a')).toBe('2')
      expect(first?.headers).toHaveLength(2)
      expect(second).toMatchObject({ timestamp: 1700000000000n, key: Buffer.from('k'), transactional: true })
      const offsets = records.map(({ offset }) => offset)
      expect(offsets).toEqual([...offsets].sort((a, b) => Number(a - b)))
      // A marker takes an offset too: one between the first commit and the abort, one between the abort and the second commit.
      expect(offsets).toEqual([0n, 1n, 2n, 3n, 5n, 7n])
    } finally {
      await left.abort()
      await Promise.all([plain.disconnect(), guarded.disconnect(), other.disconnect()])
    }
  })

  test('reads more than one answer holds, and an empty topic', async () => {
    const kafka = new Kafka({ brokers: [...cluster().bootstrap], logLevel: logLevel.NOTHING })
    const topic = freshName('raw-log')
    const producer = kafka.producer()
    await producer.connect()
    try {
      await makeTopics(cluster().bootstrap, [{ topic, numPartitions: 1, replicationFactor: 1 }])
      expect(await readCommittedLog(cluster().bootstrap, topic)).toEqual([])
      const value = Buffer.alloc(500_000)
      for (let batch = 0; batch < 20; batch += 1) await producer.send({ topic, messages: [{ value }] })
      const records = await readCommittedLog(cluster().bootstrap, topic)
      expect(records.map(({ offset }) => offset)).toEqual(Array.from({ length: 20 }, (_, index) => BigInt(index)))
      expect(records.every((record) => record.value?.equals(value))).toBe(true)
    } finally {
      await producer.disconnect()
    }
  })

  test('says which topic it could not find', async () => {
    const topic = freshName('raw-log-absent')
    await expect(readCommittedLog(cluster().bootstrap, topic)).rejects.toThrow(topic)
  })
})

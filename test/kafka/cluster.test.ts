import { Kafka, logLevel } from 'kafkajs'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { WireConnection, WireWriter } from '../support/wire.js'
import { type KafkaCluster, startCluster } from './cluster.js'
import { brokersAvailability, kafkaAvailability, namedBrokers } from './requirements.js'
import { describeWithBrokers, describeWithKafka, freshName, sharedCluster } from './suites.js'

/** The finalized level of `transaction.version` by ApiVersions v3: 0 where it is not listed. */
async function transactionVersion(address: string): Promise<number> {
  const connection = await WireConnection.open(address)
  const body = new WireWriter().compactString('test').compactString('1').tags().toBuffer()
  const answer = await connection.request('ApiVersions', 3, body)
  expect(answer.int16()).toBe(0)
  answer.compactArray((reader) => {
    reader.bytes(6)
    reader.tags()
  })
  answer.int32()
  let level = 0
  for (let left = answer.unsignedVarint(); left > 0; left -= 1) {
    const tag = answer.unsignedVarint()
    const size = answer.unsignedVarint()
    if (tag !== 2) {
      answer.bytes(size)
      continue
    }
    answer.compactArray((reader) => {
      const feature = reader.compactString()
      const maximum = reader.int16()
      reader.int16()
      reader.tags()
      if (feature === 'transaction.version') level = maximum
    })
  }
  connection.close()
  return level
}

describe('what a machine offers', () => {
  test('KAFKA_BROKERS names a cluster before KAFKA_BOOTSTRAP_SERVERS does', () => {
    expect(namedBrokers({ KAFKA_BROKERS: 'a:1, b:2', KAFKA_BOOTSTRAP_SERVERS: 'c:3' })).toEqual(['a:1', 'b:2'])
    expect(namedBrokers({ KAFKA_BROKERS: '', KAFKA_BOOTSTRAP_SERVERS: 'c:3' })).toEqual(['c:3'])
    expect(namedBrokers({ KAFKA_BROKERS: ' ,' })).toBeUndefined()
  })

  test('what is missing is named', () => {
    const nothing = { PATH: '/nonexistent' }
    expect(brokersAvailability(nothing)).toMatchObject({
      missing: expect.stringContaining('no java, no javac, no mvn'),
    })
    expect(kafkaAvailability(nothing)).toMatchObject({ missing: expect.stringContaining('KAFKA_BROKERS') })
    expect(kafkaAvailability({ ...nothing, KAFKA_BROKERS: 'a:1' })).toEqual({ available: true })
  })

  test('a Kafka before 4.0 cannot have transaction version 2', async () => {
    await expect(startCluster({ nodes: 1, transactionVersion: 2, kafkaVersion: '3.9.1' })).rejects.toThrow(
      'Kafka 3.9.1 has no transaction.version 2',
    )
  })
})

describeWithKafka('a shared cluster', { nodes: 1, transactionVersion: 2 }, (cluster) => {
  test('is the same one for everybody who asks', async () => {
    const again = await sharedCluster({ transactionVersion: 2, nodes: 1 })
    expect(again.bootstrap).toEqual(cluster().bootstrap)
  })

  test('carries a transaction of kafkajs to a consumer group', async () => {
    const kafka = new Kafka({ brokers: [...cluster().bootstrap], logLevel: logLevel.NOTHING })
    const topic = freshName('harness')
    const admin = kafka.admin()
    await admin.connect()
    expect(await admin.createTopics({ topics: [{ topic, numPartitions: 1 }], waitForLeaders: true })).toBe(true)
    const producer = kafka.producer({ transactionalId: freshName('harness'), maxInFlightRequests: 1, idempotent: true })
    await producer.connect()
    const transaction = await producer.transaction()
    await transaction.send({ topic, messages: [{ value: 'one' }] })
    await transaction.commit()
    const consumer = kafka.consumer({ groupId: freshName('harness') })
    await consumer.connect()
    await consumer.subscribe({ topic, fromBeginning: true })
    const consumed = await new Promise<string | undefined>((resolve) => {
      void consumer.run({ eachMessage: async ({ message }) => resolve(message.value?.toString()) })
    })
    expect(consumed).toBe('one')
    await consumer.disconnect()
    await producer.disconnect()
    await admin.disconnect()
  })
})

describeWithBrokers('one node', () => {
  let cluster: KafkaCluster
  beforeAll(async () => {
    const overrides = {
      'message.max.bytes': '4242424',
      'broker.session.timeout.ms': '2000',
      'broker.heartbeat.interval.ms': '300',
    }
    cluster = await startCluster({ nodes: 1, transactionVersion: 0, overrides, saslUsers: { alice: 'secret' } })
  })
  afterAll(() => cluster?.stop())

  test('runs the transaction version and the settings that were asked for', async () => {
    expect(await transactionVersion(cluster.bootstrap[0] ?? '')).toBe(0)
    const connection = await WireConnection.open(cluster.bootstrap[0] ?? '')
    const body = new WireWriter()
      .array([0], (writer) =>
        writer
          .int8(4)
          .string('1')
          .array(['message.max.bytes'], (names, name) => names.string(name)),
      )
      .boolean(false)
    const answer = await connection.request('DescribeConfigs', 1, body.toBuffer())
    answer.int32()
    const values = answer.array((reader) => {
      expect(reader.int16()).toBe(0)
      reader.string()
      reader.int8()
      reader.string()
      return reader.array((config) => {
        const entry = [config.string(), config.string()]
        config.bytes(3)
        config.array(() => {})
        return entry
      })
    })
    expect(values).toEqual([[['message.max.bytes', '4242424']]])
    connection.close()
  })

  test('takes the named users on the SASL listener, and nobody else', async () => {
    const client = (password: string): Kafka =>
      new Kafka({
        brokers: [`127.0.0.1:${cluster.nodes[0]?.saslPort}`],
        sasl: { mechanism: 'plain', username: 'alice', password },
        logLevel: logLevel.NOTHING,
        retry: { retries: 0 },
      })
    const admin = client('secret').admin()
    await admin.connect()
    expect((await admin.describeCluster()).brokers.map(({ port }) => port)).toEqual([cluster.nodes[0]?.saslPort])
    await admin.disconnect()
    await expect(client('guess').admin().connect()).rejects.toThrow('authentication')
  })

  test('is silent while paused and answers what it was asked meanwhile when resumed', async () => {
    const node = cluster.nodes[0]
    expect(node).toBeDefined()
    if (node === undefined) return
    const connection = await WireConnection.open(`127.0.0.1:${node.port}`)
    await node.pause()
    let answered = false
    const answer = connection.request('ApiVersions', 0, Buffer.alloc(0)).then((reader) => {
      answered = true
      return reader.int16()
    })
    const accepted = await WireConnection.open(`127.0.0.1:${node.port}`)
    expect(answered).toBe(false)
    await node.resume()
    expect(await answer).toBe(0)
    accepted.close()
    connection.close()
  })

  test('comes back on its port with its data after a kill', async () => {
    const node = cluster.nodes[0]
    expect(node).toBeDefined()
    if (node === undefined) return
    const kafka = new Kafka({ brokers: [...cluster.bootstrap], logLevel: logLevel.NOTHING })
    const topic = freshName('kept')
    const admin = kafka.admin()
    await admin.connect()
    await admin.createTopics({ topics: [{ topic, numPartitions: 3 }] })
    await admin.disconnect()
    const before = node.pid
    await node.kill()
    await expect(WireConnection.open(`127.0.0.1:${node.port}`)).rejects.toThrow('ECONNREFUSED')
    await expect(node.pause()).rejects.toThrow('Broker 1 is not running')
    await node.start()
    expect(node.pid).not.toBe(before)
    await admin.connect()
    expect((await admin.fetchTopicOffsets(topic)).length).toBe(3)
    await admin.disconnect()
  })

  test('a start that fails says why, by the log, and leaves nothing running', async () => {
    const failed = startCluster({ nodes: 1, transactionVersion: 2, overrides: { 'process.roles': 'poet' } })
    await expect(failed).rejects.toThrow(/Broker 1 did not get ready[\s\S]*poet/)
  })
})

describeWithKafka('three nodes', { nodes: 3, transactionVersion: 2 }, (cluster) => {
  test('each has its port and its transaction version is 2', async () => {
    expect(new Set(cluster().bootstrap).size).toBe(3)
    for (const address of cluster().bootstrap) expect(await transactionVersion(address)).toBe(2)
  })
})

describeWithKafka('three nodes of a purpose', { nodes: 3, transactionVersion: 2, purpose: 'harness' }, (cluster) => {
  test('are not those of others, and one can be stopped and started from a test file', async () => {
    const others = await sharedCluster({ nodes: 3, transactionVersion: 2 })
    expect(others.bootstrap).not.toEqual(cluster().bootstrap)
    const node = cluster().nodes[1]
    expect(node).toBeDefined()
    if (node === undefined) return
    const before = node.pid
    await node.stop()
    await expect(WireConnection.open(`127.0.0.1:${node.port}`)).rejects.toThrow('ECONNREFUSED')
    await expect(node.resume()).rejects.toThrow('Broker 2 is not running')
    await node.start()
    expect(node.pid).not.toBe(before)
    expect(await transactionVersion(`127.0.0.1:${node.port}`)).toBe(2)
  })
})

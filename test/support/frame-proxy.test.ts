import { type Admin, Kafka, logLevel, type Producer } from 'kafkajs'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { describeWithKafka, freshName } from '../kafka/suites.js'
import { redirectAddresses } from './frame-addresses.js'
import { type FrameProxy, startFrameProxy } from './frame-proxy.js'
import { apiKeys, WireConnection, WireReader, WireWriter } from './wire.js'

/** The end offset of partition 0, asked of the broker itself. */
async function endOffset(broker: string, topic: string): Promise<bigint> {
  const connection = await WireConnection.open(broker)
  const body = new WireWriter()
    .int32(-1)
    .int8(0)
    .array([topic], (writer) => writer.string(topic).array([0], (partition) => partition.int32(0).int32(-1).int64(-1n)))
  const answer = await connection.request('ListOffsets', 4, body.toBuffer())
  answer.int32()
  const offsets = answer.array((reader) => {
    reader.string()
    return reader.array((partition) => {
      partition.int32()
      expect(partition.int16()).toBe(0)
      partition.int64()
      return partition.int64()
    })
  })
  connection.close()
  return offsets[0]?.[0] ?? -1n
}

describe('redirected addresses', () => {
  const redirect = async ({ host, port }: { host: string; port: number }): Promise<{ host: string; port: number }> => ({
    host: `via-${host}`,
    port: port + 1,
  })

  test('Metadata v1: every broker, and nothing else', async () => {
    const metadata = (brokers: readonly (readonly [number, string, number])[]): Buffer =>
      new WireWriter()
        .array(brokers, (writer, [id, host, port]) => writer.int32(id).string(host).int32(port).string(null))
        .int32(1)
        .array(['topic'], (writer, topic) => writer.int16(0).string(topic))
        .toBuffer()
    const told = await redirectAddresses(
      apiKeys.Metadata,
      1,
      metadata([
        [1, 'a', 10],
        [2, 'b', 20],
      ]),
      redirect,
    )
    expect(told).toEqual(
      metadata([
        [1, 'via-a', 11],
        [2, 'via-b', 21],
      ]),
    )
  })

  test('Metadata v9: tagged fields stay', async () => {
    const metadata = (host: string, port: number): Buffer =>
      new WireWriter()
        .int32(0)
        .compactArray([host], (writer) =>
          writer.int32(7).compactString(host).int32(port).compactString('rack').unsignedVarint(1).unsignedVarint(9),
        )
        .unsignedVarint(2)
        .bytes(Buffer.from('xy'))
        .compactString('cluster')
        .tags()
        .toBuffer()
    expect(await redirectAddresses(apiKeys.Metadata, 9, metadata('a', 10), redirect)).toEqual(metadata('via-a', 11))
  })

  test.each([0, 1, 2, 3, 4])('FindCoordinator v%i', async (version) => {
    const answer = (host: string, port: number): Buffer => {
      const writer = new WireWriter()
      if (version >= 1) writer.int32(0)
      if (version === 4) {
        writer.compactArray([host], (each) =>
          each.compactString('role').int32(1).compactString(host).int32(port).int16(0).compactString(null).tags(),
        )
        return writer.tags().toBuffer()
      }
      writer.int16(0)
      if (version === 3) return writer.compactString(null).int32(1).compactString(host).int32(port).tags().toBuffer()
      if (version >= 1) writer.string(null)
      return writer.int32(1).string(host).int32(port).toBuffer()
    }
    const told = await redirectAddresses(apiKeys.FindCoordinator, version, answer('a', 10), redirect)
    expect(told).toEqual(answer('via-a', 11))
    const none = answer('', -1)
    expect(await redirectAddresses(apiKeys.FindCoordinator, version, none, redirect)).toEqual(none)
  })

  test('a version that it does not know is refused', async () => {
    await expect(redirectAddresses(apiKeys.Metadata, 13, Buffer.alloc(0), redirect)).rejects.toThrow(
      'cannot redirect addresses in version 13 of API 3',
    )
  })
})

describeWithKafka('a proxy before three brokers', { nodes: 3, transactionVersion: 2 }, (cluster) => {
  test('every connection of kafkajs goes through it, to each broker', async () => {
    const proxy = await startFrameProxy(cluster().bootstrap.slice(0, 1))
    const kafka = new Kafka({ brokers: [...proxy.bootstrap], logLevel: logLevel.NOTHING })
    const admin = kafka.admin()
    await admin.connect()
    const topic = freshName('spread')
    await admin.createTopics({ topics: [{ topic, numPartitions: 3, replicationFactor: 1 }], waitForLeaders: true })
    const { brokers } = await admin.describeCluster()
    const ports = brokers.map(({ host, port }) => `${host}:${port}`)
    expect([...ports].sort()).toEqual([...proxy.bootstrap].sort())
    expect(ports.filter((address) => cluster().bootstrap.includes(address))).toEqual([])
    const producer = kafka.producer({ transactionalId: freshName('spread'), idempotent: true, maxInFlightRequests: 1 })
    await producer.connect()
    const transaction = await producer.transaction()
    await transaction.send({ topic, messages: [0, 1, 2].map((partition) => ({ partition, value: 'x' })) })
    await transaction.commit()
    expect(proxy.count('Produce')).toBe(3)
    expect(proxy.count('EndTxn')).toBe(1)
    await producer.disconnect()
    await admin.disconnect()
    await proxy.close()
  })
})

describeWithKafka('a proxy before one broker', { nodes: 1, transactionVersion: 2 }, (cluster) => {
  let proxy: FrameProxy
  let kafka: Kafka
  let admin: Admin
  let producer: Producer
  let topic: string
  const broker = (): string => cluster().bootstrap[0] ?? ''
  const send = async (value: string): Promise<string | undefined> =>
    (await producer.send({ topic, messages: [{ value }], acks: -1 }))[0]?.baseOffset

  beforeEach(async () => {
    proxy = await startFrameProxy(cluster().bootstrap)
    kafka = new Kafka({
      brokers: [...proxy.bootstrap],
      logLevel: logLevel.NOTHING,
      requestTimeout: 500,
      retry: { initialRetryTime: 20, maxRetryTime: 20, retries: 3 },
    })
    admin = kafka.admin()
    await admin.connect()
    topic = freshName('proxied')
    await admin.createTopics({ topics: [{ topic, numPartitions: 1 }], waitForLeaders: true })
    producer = kafka.producer({ retry: { retries: 0 } })
    await producer.connect()
    expect(await send('first')).toBe('0')
  })

  afterEach(async () => {
    await producer.disconnect()
    await admin.disconnect()
    await proxy.close()
  })

  test('drop: the broker never gets the request', async () => {
    const rule = proxy.rule({ api: 'Produce', when: (request) => request.mentions(topic) }, { do: 'drop' })
    await expect(send('lost')).rejects.toThrow()
    await expect((await rule.hit()).answered).rejects.toThrow('dropped the request')
    expect(await endOffset(broker(), topic)).toBe(1n)
    expect(await send('next')).toBe('1')
  })

  test('dropAnswer: the broker applies what the client sees fail', async () => {
    const rule = proxy.rule({ api: 'Produce' }, { do: 'dropAnswer' })
    await expect(send('applied')).rejects.toThrow()
    const answer = new WireReader(await (await rule.hit()).answered)
    expect(answer.remaining).toBeGreaterThan(0)
    expect(await endOffset(broker(), topic)).toBe(2n)
  })

  test('hold: the request arrives when released, long after its client gave up and closed', async () => {
    const rule = proxy.rule({ api: 'Produce' }, { do: 'hold' })
    await expect(send('held')).rejects.toThrow()
    await producer.disconnect()
    expect(await endOffset(broker(), topic)).toBe(1n)
    const held = await rule.hit()
    held.release()
    await held.answered
    expect(await endOffset(broker(), topic)).toBe(2n)
  })

  test('hold: a cut does not lose what is held', async () => {
    const rule = proxy.rule({ api: 'Produce' }, { do: 'hold' })
    const failed = expect(send('held')).rejects.toThrow()
    const held = await rule.hit()
    proxy.cut()
    await failed
    await producer.connect()
    expect(await send('overtaking')).toBe('1')
    rule.release()
    await held.answered
    expect(await endOffset(broker(), topic)).toBe(3n)
  })

  test('delay and delayAnswer: the answer comes late, and is the broker’s', async () => {
    for (const fault of [
      { do: 'delay', ms: 150 },
      { do: 'delayAnswer', ms: 150 },
    ] as const) {
      proxy.rule({ api: 'Produce' }, fault)
      const sent = performance.now()
      expect(await send('late')).toBe(fault.do === 'delay' ? '1' : '2')
      expect(performance.now() - sent).toBeGreaterThanOrEqual(149)
    }
  })

  test('holdAnswer: the broker has applied it while the client waits', async () => {
    const rule = proxy.rule({ api: 'Produce' }, { do: 'holdAnswer' })
    const sending = send('waiting')
    await (await rule.hit()).answered
    expect(await endOffset(broker(), topic)).toBe(2n)
    rule.release()
    expect(await sending).toBe('1')
  })

  test('cut and cutAnswer: the connection ends before, or after, the broker had the request', async () => {
    proxy.rule({ api: 'Produce' }, { do: 'cut' })
    await expect(send('before')).rejects.toThrow()
    expect(await endOffset(broker(), topic)).toBe(1n)
    await producer.connect()
    proxy.rule({ api: 'Produce' }, { do: 'cutAnswer' })
    await expect(send('after')).rejects.toThrow()
    expect(await endOffset(broker(), topic)).toBe(2n)
  })

  test('rewriteAnswer: the client gets another answer', async () => {
    const notLeader = 6
    proxy.rule(
      { api: 'Produce' },
      {
        do: 'rewriteAnswer',
        rewrite: (body) => {
          const forged = Buffer.from(body)
          // Array length, the topic, array length and the partition come before the code.
          forged.writeInt16BE(notLeader, 4 + 2 + topic.length + 4 + 4)
          return forged
        },
      },
    )
    await expect(send('refused')).rejects.toThrow('not the leader')
    expect(await endOffset(broker(), topic)).toBe(2n)
  })

  test('rules count: some pass first, some are treated, and the first rule that matches is the only one', async () => {
    const first = proxy.rule({ api: 'Produce', skip: 1, times: 2 }, { do: 'drop' })
    const second = proxy.rule({ api: 'Produce', skip: 1 }, { do: 'drop' })
    expect(await send('passes')).toBe('1')
    await expect(send('dropped')).rejects.toThrow()
    await expect(send('dropped')).rejects.toThrow()
    expect(first.treated.length).toBe(2)
    await expect(send('dropped by the second')).rejects.toThrow()
    expect(second.treated.length).toBe(1)
    const removed = proxy.rule({ api: 'Produce' }, { do: 'drop' })
    removed.remove()
    expect(await send('passes')).toBe('2')
    expect(proxy.count('Produce')).toBe(6)
  })

  test('seen resolves with the n-th request from now on', async () => {
    const second = proxy.seen('Produce', 2)
    await send('one')
    await send('two')
    const request = await second
    expect(request).toMatchObject({ api: 'Produce', broker: broker() })
    expect(request.mentions('two')).toBe(true)
  })

  test('silence towards the broker: what was sent meanwhile arrives when it is lifted', async () => {
    const silence = proxy.silence('toBroker')
    const seen = proxy.seen('Produce')
    await expect(send('silent')).rejects.toThrow()
    expect(await endOffset(broker(), topic)).toBe(1n)
    silence.lift()
    await (await seen).answered
    expect(await endOffset(broker(), topic)).toBe(2n)
  })

  test('silence towards the client: the broker applies what the client sees time out', async () => {
    const silence = proxy.silence('toClient', broker())
    const seen = proxy.seen('Produce')
    await expect(send('silent')).rejects.toThrow()
    await (await seen).answered
    expect(await endOffset(broker(), topic)).toBe(2n)
    silence.lift()
    expect(await send('again')).toBe('2')
  })

  test('a block ends connections and refuses new ones until it is lifted', async () => {
    const block = proxy.block()
    await expect(send('blocked')).rejects.toThrow()
    await expect(producer.connect()).rejects.toThrow()
    block.lift()
    await producer.connect()
    expect(await send('open')).toBe('1')
  })

  test('whoever waits on a closed proxy is told', async () => {
    const other = await startFrameProxy(cluster().bootstrap)
    const waiting = expect(other.seen('EndTxn')).rejects.toThrow('The proxy is closed')
    const rule = expect(other.rule({}, { do: 'drop' }).hit()).rejects.toThrow('The proxy is closed')
    await other.close()
    await waiting
    await rule
  })
})

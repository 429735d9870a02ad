/**
 * The coordination topic on a real broker: made with the right settings and in no other way than by asking for it, or refused for
 * what is wrong with it.
 */
import { setTimeout as delay } from 'node:timers/promises'
import { ConfigResourceTypes, Kafka, logLevel } from 'kafkajs'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type ClientOptions, CoordinationClient, rolePartition } from '../../src/index.js'
import { describeWithKafka, freshName } from '../kafka/suites.js'
import { startFrameProxy } from '../support/frame-proxy.js'
import { makeTopics } from '../support/topics.js'
import { WireConnection, WireWriter } from '../support/wire.js'

describeWithKafka('the coordination topic', { nodes: 1, transactionVersion: 2 }, (cluster) => {
  let kafka: Kafka
  let admin: ReturnType<Kafka['admin']>
  const clients: CoordinationClient[] = []

  beforeAll(async () => {
    kafka = new Kafka({ brokers: [...cluster().bootstrap], logLevel: logLevel.NOTHING })
    admin = kafka.admin()
    await admin.connect()
  })

  afterAll(async () => {
    await Promise.all(clients.map((client) => client.close()))
    await admin?.disconnect()
  })

  function clientOf(options: Partial<ClientOptions>): CoordinationClient {
    const client = new CoordinationClient({ kafka, ...options })
    clients.push(client)
    return client
  }

  async function settingsOf(topic: string): Promise<Readonly<Record<string, string>>> {
    const { resources } = await admin.describeConfigs({
      includeSynonyms: false,
      resources: [{ type: ConfigResourceTypes.TOPIC, name: topic }],
    })
    const entries = resources.flatMap(({ configEntries }) => configEntries)
    return Object.fromEntries(entries.map(({ configName, configValue }) => [configName, configValue]))
  }

  async function existing(topic: string): Promise<boolean> {
    return (await admin.listTopics()).includes(topic)
  }

  async function make(settings: Readonly<Record<string, string>>, partitions: number = 1): Promise<string> {
    const topic = freshName('coordination')
    const configEntries = Object.entries(settings).map(([name, value]) => ({ name, value }))
    await makeTopics(cluster().bootstrap, [{ topic, numPartitions: partitions, configEntries }])
    return topic
  }

  test('is made by the first acquire, with the settings that keep it safe and short', async () => {
    const topic = freshName('coordination')
    const leadership = await clientOf({ topic }).acquire('role')
    expect(leadership.term).toBeGreaterThanOrEqual(0n)
    expect(await settingsOf(topic)).toMatchObject({
      'cleanup.policy': 'compact',
      'compression.type': 'uncompressed',
      'message.timestamp.type': 'LogAppendTime',
      'min.insync.replicas': '1',
      'unclean.leader.election.enable': 'false',
      'segment.bytes': '16777216',
      'segment.ms': '600000',
      'max.compaction.lag.ms': '3600000',
      'min.cleanable.dirty.ratio': '0.1',
      'delete.retention.ms': '86400000',
    })
    const { topics } = await admin.fetchTopicMetadata({ topics: [topic] })
    const partitions = topics[0]?.partitions ?? []
    expect(partitions).toHaveLength(16)
    expect(partitions.every(({ replicas }) => replicas.length === 1)).toBe(true)
    const ends = await admin.fetchTopicOffsets(topic)
    expect(
      ends.filter(({ high }) => high !== '0').map(({ partition }) => partition),
      'everything of the role is in its partition',
    ).toEqual([rolePartition('role', 16)])
  })

  test('is made with as many partitions as are asked for', async () => {
    const topic = freshName('coordination')
    await clientOf({ topic, partitions: 3, replicationFactor: 1 }).acquire('role')
    const { topics } = await admin.fetchTopicMetadata({ topics: [topic] })
    expect(topics[0]?.partitions).toHaveLength(3)
  })

  test('is made once when many clients come at the same time', async () => {
    const topic = freshName('coordination')
    const leaderships = await Promise.all(
      Array.from({ length: 8 }, (_, index) => clientOf({ topic, memberId: `m${index}` }).acquire(`role-${index}`)),
    )
    await Promise.all(leaderships.map((leadership) => leadership.renew()))
    const { topics } = await admin.fetchTopicMetadata({ topics: [topic] })
    expect(topics[0]?.partitions).toHaveLength(16)
  })

  test('is not made where createTopic is false', async () => {
    const topic = freshName('coordination')
    const client = clientOf({ topic, createTopic: false })
    const refusal = { code: 'TOPIC', topic, setting: 'existence', found: 'missing', wanted: 'present' }
    await expect(client.acquire('role')).rejects.toMatchObject(refusal)
    await expect(client.tryAcquire('role')).rejects.toMatchObject(refusal)
    await expect(client.describe('role')).rejects.toMatchObject(refusal)
    await expect(client.lead('role', async () => undefined)).rejects.toMatchObject(refusal)
    expect(await existing(topic)).toBe(false)
  })

  test('is never made by a Metadata request, although this broker would make a topic that is asked for', async () => {
    const topic = freshName('coordination')
    const proxy = await startFrameProxy(cluster().bootstrap)
    try {
      const through = new Kafka({ brokers: [...proxy.bootstrap], logLevel: logLevel.NOTHING })
      const rule = proxy.rule({ api: 'CreateTopics' }, { do: 'hold' })
      const client = new CoordinationClient({ kafka: through, topic })
      const abort = new AbortController()
      const acquired = client.acquire('role', { signal: abort.signal })
      acquired.catch(() => undefined)
      await rule.hit()
      expect(proxy.count('Metadata')).toBeGreaterThan(0)
      expect(await existing(topic)).toBe(false)
      // A Metadata request that allows it, as a plain client sends, does make a topic on this broker.
      const control = freshName('made-by-metadata')
      await askForTopic(cluster().bootstrap, control)
      while (!(await existing(control))) await delay(20)
      expect(await existing(topic)).toBe(false)

      abort.abort(new Error('seen enough'))
      await expect(acquired).rejects.toBe(abort.signal.reason)
      await client.close({ timeoutMs: 1 })
    } finally {
      await proxy.close()
    }
  })

  test('that somebody made rightly is taken as it is', async () => {
    const topic = await make({ 'cleanup.policy': 'compact' }, 5)
    const warnings: string[] = []
    const warn = (_fields: object, message: string): void => {
      warnings.push(message)
    }
    const ignore = (): void => undefined
    const client = clientOf({ topic, logger: { debug: ignore, info: ignore, warn, error: ignore } })
    await (await client.acquire('role')).renew()
    expect(warnings.filter((message) => message.includes(topic) && message.includes('LogAppendTime'))).toHaveLength(1)
    expect((await settingsOf(topic))['message.timestamp.type'], 'nothing was changed').toBe('CreateTime')
  })

  describe.each([
    { setting: 'cleanup.policy', found: 'delete', wanted: 'compact' },
    { setting: 'cleanup.policy', found: 'compact,delete', wanted: 'compact' },
    { setting: 'unclean.leader.election.enable', found: 'true', wanted: 'false' },
    { setting: 'compression.type', found: 'zstd', wanted: 'uncompressed' },
    { setting: 'min.insync.replicas', found: '2', wanted: 'at most the 1 replicas it has' },
  ])('with $setting = $found', ({ setting, found, wanted }) => {
    test('is refused, naming topic, setting, value found and value wanted', async () => {
      const topic = await make({ 'cleanup.policy': 'compact', [setting]: found })
      const client = clientOf({ topic })
      for (const call of ['acquire', 'tryAcquire', 'describe'] as const) {
        const error = await client[call]('role').catch((reason: unknown) => reason)
        expect(error).toMatchObject({ code: 'TOPIC', topic, setting, found, wanted })
        for (const part of [topic, setting, found, wanted]) expect(String(error)).toContain(part)
      }
      const ends = await admin.fetchTopicOffsets(topic)
      expect(ends.map(({ high }) => high)).toEqual(['0'])
    })
  })

  test('with another number of partitions than asked for is refused, and taken where none is', async () => {
    const topic = await make({ 'cleanup.policy': 'compact' }, 4)
    const refusal = { code: 'TOPIC', topic, setting: 'partitions', found: '4', wanted: '16' }
    await expect(clientOf({ topic, partitions: 16 }).acquire('role')).rejects.toMatchObject(refusal)
    await (await clientOf({ topic }).acquire('role')).renew()
  })

  test('that the broker refuses to make is a TOPIC error with its reason', async () => {
    const topic = freshName('coordination')
    const client = clientOf({ topic, replicationFactor: 3 })
    const error = await client.acquire('role').catch((reason: unknown) => reason)
    expect(error).toMatchObject({ code: 'TOPIC', topic })
    expect(String(error)).toMatch(/replication 3/)
    expect(await existing(topic)).toBe(false)
  })

  test('cannot be written to as a guarded record', async () => {
    const topic = freshName('coordination')
    const leadership = await clientOf({ topic }).acquire('role')
    await expect(leadership.send({ topic, messages: [{ value: 'forged' }] })).rejects.toMatchObject({ code: 'CONFIG' })
    await leadership.renew()
  })
})

describeWithKafka('the coordination topic on three brokers', { nodes: 3, transactionVersion: 2 }, (cluster) => {
  test('has three replicas, of which two must have each record', async () => {
    const topic = freshName('coordination')
    const kafka = new Kafka({ brokers: [...cluster().bootstrap], logLevel: logLevel.NOTHING })
    const client = new CoordinationClient({ kafka, topic })
    const admin = kafka.admin()
    try {
      await (await client.acquire('role')).renew()
      await admin.connect()
      const { topics } = await admin.fetchTopicMetadata({ topics: [topic] })
      const partitions = topics[0]?.partitions ?? []
      expect(partitions.map(({ replicas }) => replicas.length)).toEqual(Array.from({ length: 16 }, () => 3))
      const { resources } = await admin.describeConfigs({
        includeSynonyms: false,
        resources: [{ type: ConfigResourceTypes.TOPIC, name: topic, configNames: ['min.insync.replicas'] }],
      })
      expect(resources[0]?.configEntries).toMatchObject([{ configName: 'min.insync.replicas', configValue: '2' }])
    } finally {
      await Promise.all([client.close(), admin.disconnect()])
    }
  })
})

/** Metadata v4 that allows the broker to make the topic. */
async function askForTopic([broker]: readonly string[], topic: string): Promise<void> {
  const connection = await WireConnection.open(broker ?? '')
  const body = new WireWriter().array([topic], (writer, name) => writer.string(name)).boolean(true)
  await connection.request('Metadata', 4, body.toBuffer())
  connection.close()
}

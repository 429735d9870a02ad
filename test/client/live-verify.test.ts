/**
 * `verify` on real brokers: what a healthy cluster gives, and each finding staged and told. The healthy clusters are the control of all
 * others; where a finding can be mended, it is, and must be gone.
 *
 * Clocks that step and brokers that are too old cannot be staged here: `verify.test.ts` has those.
 */
import { setTimeout as delay } from 'node:timers/promises'
import { AclOperationTypes, AclPermissionTypes, AclResourceTypes, Kafka, logLevel, ResourcePatternTypes } from 'kafkajs'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import type { ClientOptions, VerifyFinding } from '../../src/index.js'
import { CoordinationClient, parseRole, rolePartition } from '../../src/index.js'
import { systemRuntime } from '../../src/runtime.js'
import {
  HandWriter,
  leaseRecord,
  makeTopic,
  registrationKey,
  registrationRecord,
  writePlainly,
} from '../core/hand-writer.js'
import { mintUntil } from '../core/mints.js'
import type { KafkaCluster } from '../kafka/cluster.js'
import { startCluster } from '../kafka/cluster.js'
import { describeWithBrokers, describeWithKafka, freshName } from '../kafka/suites.js'
import { isLongForm, tell, testWhere } from '../support/form.js'
import { startFrameProxy } from '../support/frame-proxy.js'
import { HandMade, pairOf, untilIdle } from '../support/hand-made.js'
import { kinds } from '../support/kinds.js'
import { lookAt } from '../support/look.js'

const undo: (() => Promise<unknown>)[] = []
afterEach(async () => {
  for (const step of undo.splice(0).reverse()) await step()
})

interface Credentials {
  readonly username: string
  readonly password: string
}

function openClient(
  bootstrap: readonly string[],
  options: Omit<ClientOptions, 'kafka'>,
  credentials?: Credentials,
): CoordinationClient {
  const sasl = credentials === undefined ? {} : { sasl: { mechanism: 'plain' as const, ...credentials } }
  const kafka = new Kafka({ brokers: [...bootstrap], logLevel: logLevel.NOTHING, ...sasl })
  const client = new CoordinationClient({ kafka, ...options })
  undo.push(() => client.close({ timeoutMs: 3_000 }))
  return client
}

function kafkaOf(bootstrap: readonly string[]): Kafka {
  return new Kafka({ brokers: [...bootstrap], logLevel: logLevel.NOTHING })
}

async function alterTopic(
  bootstrap: readonly string[],
  topic: string,
  settings: Record<string, string>,
): Promise<void> {
  const admin = kafkaOf(bootstrap).admin()
  await admin.connect()
  const configEntries = Object.entries(settings).map(([name, value]) => ({ name, value }))
  await admin.alterConfigs({ validateOnly: false, resources: [{ type: 2, name: topic, configEntries }] })
  await admin.disconnect()
}

/** `severity code`, each once. */
const namesOf = (findings: readonly VerifyFinding[]): readonly string[] =>
  [...new Set(findings.map(({ severity, code }) => `${severity} ${code}`))].sort()
const errorsOf = (findings: readonly VerifyFinding[]): readonly VerifyFinding[] =>
  findings.filter(({ severity }) => severity === 'error')
const ofCode = (findings: readonly VerifyFinding[], code: VerifyFinding['code']): readonly VerifyFinding[] =>
  findings.filter((finding) => finding.code === code)

/** What one broker cannot have: replication; and what the harness does not have: an authorizer. */
const warningsOfOneBroker = ['warning topic-replication', 'warning transaction-log', 'warning write-held-widely']

describe.each(kinds())('$name', ({ name, kind }) => {
  const infos = kind.transactionVersion === 2 ? [] : ['info transaction-version']

  describeWithKafka('verify', kind, (cluster) => {
    const clientOf = (options: Partial<ClientOptions>): CoordinationClient =>
      openClient(cluster().bootstrap, { memberId: 'checker', ...options })

    test('finds no error and nothing unexpected in a healthy cluster, and changes nothing', async () => {
      const { bootstrap } = cluster()
      const topic = freshName('coordination')
      const role = freshName('role')
      const client = clientOf({ topic })
      const early = await client.verify()
      expect(namesOf(early)).toEqual([
        'info topic-missing',
        ...infos,
        ...warningsOfOneBroker.filter((one) => one === 'warning transaction-log'),
      ])
      const leadership = await client.acquire(role)
      const before = await lookAt(bootstrap, role)
      const startedAt = performance.now()
      const findings = await client.verify()
      tell(`${name}: a check of a small cluster took ${(performance.now() - startedAt).toFixed(0)} ms`)
      expect(namesOf(findings)).toEqual([...infos, ...warningsOfOneBroker])
      const { producerId, producerEpoch } = before
      expect(await lookAt(bootstrap, role)).toMatchObject({ producerId, producerEpoch })
      await leadership.renew()
      await leadership.resign()
      expect(namesOf(await client.verify())).toEqual([...infos, ...warningsOfOneBroker])
      expect(JSON.parse(JSON.stringify(findings))).toEqual(findings)
    })

    test('does not make the topic, and calls it an error where nobody may', async () => {
      const topic = freshName('coordination')
      const client = clientOf({ topic, createTopic: false })
      for (let round = 0; round < 2; round++) {
        expect(errorsOf(await client.verify())).toMatchObject([{ code: 'topic-missing', topic }])
      }
    })

    test('tells each setting of the topic that is not as wanted, until it is', async () => {
      const { bootstrap } = cluster()
      const bad = {
        'cleanup.policy': 'delete',
        'unclean.leader.election.enable': 'true',
        'compression.type': 'lz4',
        'message.timestamp.type': 'CreateTime',
        'max.message.bytes': '100000',
        'delete.retention.ms': '1000',
        'segment.ms': '604800000',
        'segment.bytes': '1073741824',
        'max.compaction.lag.ms': '9223372036854775807',
        'min.insync.replicas': '2',
      }
      const topic = await makeTopic(kafkaOf(bootstrap), bad)
      const client = clientOf({ topic, partitions: 4 })
      const findings = await client.verify()
      const settings = ofCode(findings, 'topic-setting').map(({ severity, found }) => `${severity} ${found}`)
      expect(settings.sort()).toEqual(
        [
          'error cleanup.policy = delete',
          'error unclean.leader.election.enable = true',
          'error compression.type = lz4',
          'warning message.timestamp.type = CreateTime',
          'warning max.message.bytes = 100000',
          'warning delete.retention.ms = 1000',
          'info segment.ms = 604800000',
          'info segment.bytes = 1073741824',
          'info max.compaction.lag.ms = 9223372036854775807',
        ].sort(),
      )
      expect(ofCode(findings, 'topic-replication')).toContainEqual(
        expect.objectContaining({ severity: 'error', found: 'min.insync.replicas = 2 of 1 replicas', topic }),
      )
      expect(ofCode(findings, 'partition-count')).toMatchObject([{ severity: 'error', found: '1 partitions', topic }])
      await alterTopic(bootstrap, topic, {
        'cleanup.policy': 'compact',
        'message.timestamp.type': 'LogAppendTime',
        'compression.type': 'uncompressed',
        'segment.ms': '600000',
        'segment.bytes': '16777216',
        'max.compaction.lag.ms': '3600000',
      })
      expect(namesOf(await clientOf({ topic }).verify())).toEqual([...infos, ...warningsOfOneBroker])
    })

    test('tells a record of a role outside its partition, and none in it', async () => {
      const { bootstrap } = cluster()
      const topic = await makeTopic(kafkaOf(bootstrap), tidy, 2)
      const inPartition = (partition: number): string => {
        for (;;) {
          const role = freshName('role')
          if (rolePartition(parseRole(role), 2) === partition) return role
        }
      }
      const [right, wrong] = [inPartition(0), inPartition(1)]
      await writePlainly(bootstrap, topic, [registrationRecord(right, 'a')])
      expect(errorsOf(await clientOf({ topic }).verify())).toEqual([])
      const offset = await writePlainly(bootstrap, topic, [
        registrationRecord(wrong, 'a'),
        registrationRecord(wrong, 'b'),
      ])
      const errors = errorsOf(await clientOf({ topic }).verify())
      expect(errors).toMatchObject([{ code: 'partition-count', role: wrong, topic, partition: 0 }])
      expect(errors[0]?.found).toContain(`2 records, the first at offset ${offset},`)
    })

    test('counts foreign and unreadable records, with the first offset of each', async () => {
      const { bootstrap } = cluster()
      const topic = await makeTopic(kafkaOf(bootstrap), tidy)
      const role = freshName('role')
      const leader = await HandWriter.open(bootstrap, role)
      const mallory = await HandWriter.open(bootstrap, freshName('mallory'))
      undo.push(async () => {
        leader.close()
        mallory.close()
      })
      await leader.transaction(topic, [[leaseRecord(role, leader.pair, { lengthMs: 60_000n })]])
      const client = clientOf({ topic })
      const codes = ['foreign-record', 'unreadable-record']
      expect((await client.verify()).filter(({ code }) => codes.includes(code))).toEqual([])
      const badKeys = await writePlainly(bootstrap, topic, [
        { key: 'no key of ours', value: 'v' },
        { key: 'nor this', value: 'v' },
      ])
      const outside = await writePlainly(bootstrap, topic, [leaseRecord(role, leader.pair)])
      const badValue = await writePlainly(bootstrap, topic, [
        { key: registrationKey(role, 'broken'), value: 'no registration' },
      ])
      const [forged] = await mallory.transaction(topic, [[leaseRecord(role, mallory.pair)]])
      await mallory.transaction(topic, [[leaseRecord(role, mallory.pair)]])
      const told = (await client.verify()).filter(({ code }) => codes.includes(code))
      expect(told.map(({ code, severity, found }) => [code, severity, found.split(':')[0]])).toEqual([
        ['unreadable-record', 'warning', `2 records, the first at offset ${badKeys}`],
        ['unreadable-record', 'warning', `a record, the first at offset ${badValue}`],
        ['foreign-record', 'warning', `2 records, the first at offset ${outside}`],
      ])
      expect(Number(forged)).toBeGreaterThan(Number(outside))
    })

    test('tells of registrations that nobody acts on, and of none that is young', async () => {
      const { bootstrap } = cluster()
      const topic = await makeTopic(kafkaOf(bootstrap), tidy)
      const role = freshName('role')
      await writePlainly(bootstrap, topic, [registrationRecord(role, 'dead')])
      const lease = { leaseMs: 300, renewIntervalMs: 100, staggerMs: 50 }
      await delay(1_100)
      expect(ofCode(await clientOf({ topic }).verify(), 'dead-registration')).toEqual([])
      const [finding] = ofCode(await clientOf({ topic, ...lease }).verify(), 'dead-registration')
      expect(finding).toMatchObject({ severity: 'warning', role, topic })
      expect(finding?.found).toContain('1 registered (dead), the first at offset 0')
      // It is swept by whoever leads next.
      const leader = clientOf({ topic, memberId: 'leader', ...lease })
      await leader.acquire(role)
      expect(ofCode(await clientOf({ topic, ...lease }).verify(), 'dead-registration')).toEqual([])
    })

    test('tells of a lease below 15 s, of a timeout that the brokers refuse, and of clocks apart', async () => {
      const topic = freshName('coordination')
      const role = freshName('role')
      const slow = { ...systemRuntime, wallNow: () => Date.now() - 60_000 }
      const client = clientOf({ topic, runtime: slow, leaseMs: 14_999, transactionTimeoutMs: 1_000_000 })
      const short = { leaseMs: 10_000, transactionTimeoutMs: 20_000 }
      await client.acquire(role, short)
      const findings = await client.verify()
      expect(ofCode(findings, 'short-lease').map(({ found }) => found)).toEqual([
        'checker leads with 10000 ms',
        'leaseMs = 14999',
      ])
      expect(errorsOf(findings)).toMatchObject([{ code: 'transaction-timeout' }])
      const clocks = ofCode(findings, 'clock').map(({ found }) => found.replace(/\d+ ms/, 'N ms'))
      expect(clocks).toEqual([
        "the broker's clock is at least N ms ahead of this process's",
        "the clock of checker is N ms behind the broker's",
      ])
      const calm = await clientOf({ topic, leaseMs: 15_000 }).verify()
      expect(ofCode(calm, 'short-lease').map(({ role: of }) => of)).toEqual([role])
      expect(errorsOf(calm)).toEqual([])
    })

    testWhere(isLongForm, 'tells of a role near the end of its epochs', { timeout: 120_000 }, async () => {
      const { bootstrap } = cluster()
      const topic = await makeTopic(kafkaOf(bootstrap), tidy)
      const role = freshName('role')
      await writePlainly(bootstrap, topic, [registrationRecord(role, 'a')])
      await mintUntil(bootstrap[0] ?? '', role, 30_000)
      expect(ofCode(await clientOf({ topic }).verify(), 'epoch-near-exhaustion')).toEqual([])
      await mintUntil(bootstrap[0] ?? '', role, 30_001)
      const told = ofCode(await clientOf({ topic }).verify(), 'epoch-near-exhaustion')
      expect(told).toMatchObject([{ severity: 'info', role }])
    })

    test('goes on where one question is not answered, and is in time', async () => {
      const topic = await makeTopic(kafkaOf(cluster().bootstrap), tidy)
      await writePlainly(cluster().bootstrap, topic, [registrationRecord(freshName('role'), 'a')])
      const proxy = await startFrameProxy(cluster().bootstrap)
      undo.push(() => proxy.close())
      const client = openClient(proxy.bootstrap, { topic, memberId: 'checker', requestTimeoutMs: 1_000 })
      expect(ofCode(await client.verify(), 'not-checked')).toEqual([])
      for (const api of ['DescribeProducers', 'ListTransactions', 'Fetch'] as const) {
        proxy.rule({ api }, { do: 'dropAnswer' })
        const startedAt = performance.now()
        const findings = await client.verify({ timeoutMs: 3_000 })
        expect(performance.now() - startedAt).toBeLessThan(3_000)
        expect({ api, count: ofCode(findings, 'not-checked').length }).toEqual({ api, count: 1 })
        expect(namesOf(findings)).toContain('warning transaction-log')
      }
      // Of what any broker may answer, one that is silent costs its time and no more.
      proxy.rule({ api: 'DescribeAcls' }, { do: 'dropAnswer' })
      expect(ofCode(await client.verify({ timeoutMs: 5_000 }), 'not-checked')).toEqual([])
    })

    test('rejects only where nothing answers, with the reason of its signal, and once closed', async () => {
      const proxy = await startFrameProxy(cluster().bootstrap)
      undo.push(() => proxy.close())
      const block = proxy.block()
      const client = openClient(proxy.bootstrap, { memberId: 'checker', requestTimeoutMs: 300 })
      const startedAt = performance.now()
      await expect(client.verify()).rejects.toMatchObject({ code: 'TRANSPORT', retriable: true })
      expect(performance.now() - startedAt).toBeLessThan(1_500)
      const reason = new Error('no longer')
      await expect(client.verify({ signal: AbortSignal.abort(reason) })).rejects.toBe(reason)
      await expect(client.verify({ timeoutMs: -1 })).rejects.toMatchObject({ code: 'CONFIG' })
      block.lift()
      await client.close()
      await expect(client.verify()).rejects.toMatchObject({ code: 'CLOSED' })
    })
  })
})

/** A topic made as the library makes it. */
const tidy = {
  'segment.ms': '600000',
  'segment.bytes': '16777216',
  'max.compaction.lag.ms': '3600000',
  'compression.type': 'uncompressed',
}

const [threeBrokers] = kinds({ nodes: 3, purpose: 'verify' })
describe.each(threeBrokers === undefined ? [] : [threeBrokers])('$name', ({ kind }) => {
  describeWithKafka('verify', kind, (cluster) => {
    test('finds nothing but the open door in a healthy cluster, and which broker is silent', {
      timeout: 90_000,
    }, async () => {
      const { bootstrap, nodes } = cluster()
      const topic = freshName('coordination')
      const options = { topic, memberId: 'checker', requestTimeoutMs: 1_500 }
      const client = openClient(bootstrap, options)
      await client.acquire(freshName('role'))
      const infos = kind.transactionVersion === 2 ? [] : ['info transaction-version']
      const calm = [...infos, 'warning write-held-widely']
      expect(namesOf(await client.verify())).toEqual(calm)
      const silent = nodes[2]
      if (silent === undefined) throw new Error('three nodes were asked for')
      await silent.pause()
      const startedAt = performance.now()
      const findings = await openClient(bootstrap.slice(0, 2), options).verify()
      const tookMs = performance.now() - startedAt
      await silent.resume()
      expect(tookMs).toBeLessThan(4_500)
      expect(ofCode(findings, 'broker-unreachable')).toMatchObject([{ severity: 'error', broker: silent.id }])
      expect(ofCode(findings, 'not-checked').length).toBeGreaterThan(0)
      while (namesOf(await client.verify()).join() !== calm.join()) await delay(200)
    })
  })
})

describeWithBrokers('verify on a cluster of its own', () => {
  let own: KafkaCluster
  const users = { nobody: 'n', reader: 'r', observer: 'o', member: 'm' }
  const topic = '__coordination_state'
  const role = freshName('role')

  beforeAll(async () => {
    own = await startCluster({
      nodes: 1,
      transactionVersion: 2,
      saslUsers: users,
      overrides: {
        'authorizer.class.name': 'org.apache.kafka.metadata.authorizer.StandardAuthorizer',
        'super.users': 'User:ANONYMOUS',
        // So that a transaction can be left open that no coordinator knows of.
        'transaction.partition.verification.enable': 'false',
        'transactional.id.expiration.ms': '2000',
      },
    })
  }, 120_000)
  afterAll(() => own.stop())

  const as = (username: keyof typeof users): CoordinationClient => {
    const [node] = own.nodes
    return openClient(
      [`127.0.0.1:${node?.saslPort}`],
      { memberId: username, createTopic: false },
      { username, password: users[username] },
    )
  }

  async function allow(
    user: string,
    operation: AclOperationTypes,
    resourceType: AclResourceTypes,
    resourceName: string,
  ): Promise<void> {
    const admin = kafkaOf(own.bootstrap).admin()
    await admin.connect()
    const resourcePatternType = ResourcePatternTypes.LITERAL
    const permissionType = AclPermissionTypes.ALLOW
    const acl = {
      resourceType,
      resourceName,
      resourcePatternType,
      principal: user,
      host: '*',
      operation,
      permissionType,
    }
    await admin.createAcls({ acl: [acl] })
    await admin.disconnect()
  }

  test('tells what the principal lacks, by operation and resource', async () => {
    const leader = openClient(own.bootstrap, { memberId: 'leader' })
    await leader.acquire(role)
    const { TOPIC, TRANSACTIONAL_ID } = AclResourceTypes
    const { READ, WRITE, DESCRIBE } = AclOperationTypes
    await allow('User:reader', READ, TOPIC, topic)
    await allow('User:observer', READ, TOPIC, topic)
    await allow('User:observer', DESCRIBE, TRANSACTIONAL_ID, role)
    for (const operation of [READ, WRITE]) await allow('User:member', operation, TOPIC, topic)
    await allow('User:member', WRITE, TRANSACTIONAL_ID, role)
    const missing = async (user: keyof typeof users): Promise<readonly string[]> =>
      ofCode(await as(user).verify(), 'permission-missing').map(({ severity, wanted }) => `${severity} ${wanted}`)
    expect(await missing('nobody')).toEqual([`error READ on Topic '${topic}', and WRITE to lead`])
    expect(await missing('reader')).toEqual([
      `warning WRITE on Topic '${topic}'`,
      `warning DESCRIBE on TransactionalId '${role}'`,
    ])
    expect(await missing('observer')).toEqual([
      `warning WRITE on Topic '${topic}'`,
      `warning WRITE on TransactionalId '${role}'`,
    ])
    const findings = await as('member').verify()
    expect(ofCode(findings, 'permission-missing')).toEqual([])
    expect(errorsOf(findings)).toEqual([])
    expect(
      ofCode(findings, 'not-checked')
        .map(({ remedy }) => remedy)
        .sort(),
    ).toEqual(
      [
        'grant DescribeConfigs on the cluster to this principal, or check as one that has it',
        'grant Describe on the cluster to this principal, or check as one that has it',
        `grant DescribeConfigs on topic '${topic}' to this principal, or check as one that has it`,
        "grant Describe on topic '__transaction_state' to this principal, or check as one that has it",
      ].sort(),
    )
    await leader.close()
  })

  test('tells who may write to the topic, and warns where everybody may', async () => {
    const client = openClient(own.bootstrap, { memberId: 'checker' })
    expect(ofCode(await client.verify(), 'write-held-widely')).toMatchObject([
      { severity: 'info', found: 'User:member may write' },
    ])
    await allow('User:*', AclOperationTypes.WRITE, AclResourceTypes.TOPIC, '*')
    expect(ofCode(await client.verify(), 'write-held-widely')).toMatchObject([
      { severity: 'warning', found: 'User:* may write' },
    ])
  })

  test('tells of wrong credentials', async () => {
    const [node] = own.nodes
    const address = [`127.0.0.1:${node?.saslPort}`]
    const client = openClient(address, { memberId: 'stranger' }, { username: 'nobody', password: 'wrong' })
    await expect(client.verify()).rejects.toMatchObject({ code: 'UNAUTHORIZED' })
  })

  test('tells of an id that was not used for long', async () => {
    const idle = freshName('role')
    const client = openClient(own.bootstrap, { memberId: 'leader' })
    await (await client.acquire(idle)).resign()
    const told = async (): Promise<readonly (string | undefined)[]> =>
      ofCode(await client.verify(), 'id-near-expiry').map((finding) => finding.role)
    expect(await told()).not.toContain(idle)
    await delay(1_700)
    expect(await told()).toContain(idle)
  })

  test('tells of a transaction that no coordinator will end', async () => {
    const hanging = await makeTopic(kafkaOf(own.bootstrap), { ...tidy, 'message.timestamp.type': 'CreateTime' })
    const client = openClient(own.bootstrap, { memberId: 'checker', topic: hanging })
    const id = freshName('hanging')
    const wire = await HandMade.open(own.bootstrap, id)
    undo.push(async () => wire.close())
    const { errorCode, ...pair } = await untilIdle(() => wire.mint())
    expect(errorCode).toBe(0)
    const record = registrationRecord(freshName('role'), 'a')
    const timestamp = BigInt(Date.now() - 3_600_000)
    const produced = await untilIdle(() => wire.produce(pair, hanging, [record], { timestamp }))
    expect(produced.errorCode).toBe(0)
    const [finding] = ofCode(await client.verify(), 'hanging-transaction')
    expect(finding).toMatchObject({ severity: 'error', topic: hanging, partition: 0 })
    expect(finding?.remedy).toContain(`--start-offset ${produced.baseOffset}`)
    // What `kafka-transactions.sh abort` sends.
    expect(await wire.writeMarker(pair, hanging, false)).toBe(0)
    expect(ofCode(await client.verify(), 'hanging-transaction')).toEqual([])
  })

  test('tells of a wedged role, and of none that is just being finished', { timeout: 60_000 }, async () => {
    const wedged = await makeTopic(kafkaOf(own.bootstrap), tidy)
    const lease = { leaseMs: 3_000, renewIntervalMs: 1_000, staggerMs: 500 }
    const leader = openClient(own.bootstrap, { memberId: 'leader', topic: wedged, ...lease })
    const checker = openClient(own.bootstrap, { memberId: 'checker', topic: wedged })
    const mine = freshName('role')
    const leadership = await leader.acquire(mine)
    expect(ofCode(await checker.verify(), 'hanging-transaction')).toEqual([])
    const pair = { ...pairOf(leadership.token.toString()), producerEpoch: 32_767 }
    const forger = await HandMade.open(own.bootstrap, 'none')
    undo.push(async () => forger.close())
    for (;;) {
      const forged = await forger.produce(pair, wedged, [leaseRecord(mine, nobodysPair, {})], { transactional: false })
      if (forged.errorCode === 0) break
    }
    let told: readonly VerifyFinding[] = []
    while (told.length === 0) told = ofCode(await checker.verify(), 'hanging-transaction')
    expect(told).toMatchObject([{ severity: 'error', role: mine }])
    expect(told[0]?.found).toMatch(/^PrepareAbort|^PrepareCommit/)
    expect(told[0]?.found).toContain(`${wedged}-0`)
  })
})

/** A token that was minted by nobody, for a lease that nobody will count. */
const nobodysPair = { producerId: 1n, producerEpoch: 1 }

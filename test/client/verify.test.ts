/**
 * What a check makes of facts, without a broker: a table of facts and findings, each beside the facts that give none; and how its
 * questions and its reading end when a cluster misbehaves.
 */
import { describe, expect, test } from 'vitest'
import { sentVersions } from '../../src/client/connect.js'
import type { BrokerFacts, TopicCheck } from '../../src/client/verify-cluster.js'
import {
  judgeBrokers,
  judgeProducers,
  judgeRoleRights,
  judgeTopic,
  judgeTopicRights,
  judgeTransactionLog,
  judgeTransactions,
} from '../../src/client/verify-cluster.js'
import type { VerifyFinding } from '../../src/client/verify-finding.js'
import { notChecked, orderedFindings } from '../../src/client/verify-finding.js'
import type { LogContext, RoleLook } from '../../src/client/verify-log.js'
import { LogReading } from '../../src/client/verify-log.js'
import type { FetchedBatch, MetadataTopic, TransactionDescription } from '../../src/cluster/connection.js'
import type { SettledRecord } from '../../src/cluster/markers.js'
import type { PartitionScan } from '../../src/cluster/scan.js'
import { scanPartition } from '../../src/cluster/scan.js'
import type { Asked } from '../../src/cluster/survey.js'
import { Survey } from '../../src/cluster/survey.js'
import { leasePolicy } from '../../src/election/policy.js'
import { parseRole, rolePartition } from '../../src/index.js'
import { node, otherNode, requestTimeoutMs, watched, world } from '../cluster/support.js'
import { leaseRecord, registrationRecord } from '../core/hand-writer.js'
import type { HandMadeRecord } from '../support/hand-made.js'
import type { Step } from '../support/scripted-connection.js'
import { lost, unreachable } from '../support/scripted-connection.js'

const answered = <T>(value: T): Asked<T> => ({ kind: 'answered', value })
const forbidden: Asked<never> = {
  kind: 'forbidden',
  operation: 'DescribeConfigs',
  resource: 'the cluster',
  reason: 'DescribeConfigs answered CLUSTER_AUTHORIZATION_FAILED (31)',
}
const silent: Asked<never> = { kind: 'unanswered', reason: 'timeout' }
const told = (findings: readonly VerifyFinding[]): readonly string[] =>
  findings.map(({ severity, code, found }) => `${severity} ${code}: ${found}`)

describe('brokers', () => {
  const ranges = sentVersions.map(({ apiKey, version }) => ({ apiKey, minVersion: version, maxVersion: version }))
  const broker = (changes: {
    readonly without?: string
    readonly level?: number
    readonly settings?: BrokerFacts['settings']
    readonly versions?: BrokerFacts['versions']
    readonly id?: number
  }): BrokerFacts => {
    const missing = sentVersions.find(({ api }) => api === changes.without)
    const apis = ranges.filter(({ apiKey }) => apiKey !== missing?.apiKey)
    const features = new Map([['transaction.version', changes.level ?? 2]])
    return {
      node: { ...node, id: changes.id ?? 1 },
      versions: changes.versions ?? answered({ errorCode: 0, apis, features }),
      settings: changes.settings ?? answered(new Map([['transaction.max.timeout.ms', '900000']])),
    }
  }

  test.each<[string, readonly BrokerFacts[], readonly string[]]>([
    ['as wanted', [broker({}), broker({ id: 2 })], []],
    [
      'one silent',
      [broker({}), broker({ id: 2, versions: silent, settings: silent })],
      ['error broker-unreachable: no answer from one:9092: timeout'],
    ],
    ['without a request', [broker({ without: 'EndTxn' })], ['error api-unsupported: EndTxn is served not at all']],
    [
      "without a check's request",
      [broker({ without: 'DescribeProducers' })],
      ['info api-unsupported: DescribeProducers is served not at all'],
    ],
    ['on version 0', [broker({ level: 0 })], ['info transaction-version: transaction.version = 0']],
    ['on version 1', [broker({ level: 1 })], ['info transaction-version: transaction.version = 1']],
    [
      'whose longest transaction just suffices',
      [broker({ settings: answered(new Map([['transaction.max.timeout.ms', '30000']])) })],
      [],
    ],
    [
      'whose longest transaction is too short',
      [broker({ settings: answered(new Map([['transaction.max.timeout.ms', '29999']])) })],
      ['error transaction-timeout: transaction.max.timeout.ms = 29999'],
    ],
    [
      'whose settings may not be read, told once',
      [broker({ settings: forbidden }), broker({ id: 2, settings: forbidden })],
      [
        "info not-checked: the brokers' settings could not be looked at: DescribeConfigs answered CLUSTER_AUTHORIZATION_FAILED (31)",
      ],
    ],
  ])('%s', (_, brokers, expected) => {
    expect(told(judgeBrokers(brokers, sentVersions, 30_000))).toEqual(expected)
  })

  test('that serve only other versions', () => {
    const versions = answered({
      errorCode: 0,
      apis: ranges.map((range) => (range.apiKey === 26 ? { apiKey: 26, minVersion: 5, maxVersion: 6 } : range)),
      features: new Map([['transaction.version', 2]]),
    })
    const findings = judgeBrokers([broker({ versions })], sentVersions, 30_000)
    expect(findings).toMatchObject([{ found: 'EndTxn is served in versions 5 to 6', wanted: 'EndTxn in version 4' }])
  })

  test('are asked for each API once', () => {
    const keys = sentVersions.map(({ apiKey }) => apiKey)
    expect(new Set(keys).size).toBe(keys.length)
    expect(sentVersions.find(({ api }) => api === 'DescribeConfigs')?.isForChecks).toBe(false)
  })
})

const settings = {
  'cleanup.policy': 'compact',
  'unclean.leader.election.enable': 'false',
  'compression.type': 'uncompressed',
  'message.timestamp.type': 'LogAppendTime',
  'max.message.bytes': '1048588',
  'delete.retention.ms': '86400000',
  'segment.ms': '600000',
  'segment.bytes': '16777216',
  'max.compaction.lag.ms': '3600000',
  'min.insync.replicas': '2',
}

function topicOf(replicas: number, changes: Partial<MetadataTopic['partitions'][number]> = {}): MetadataTopic {
  const nodes = Array.from({ length: replicas }, (_, index) => index + 1)
  const partition = { errorCode: 0, partition: 0, leaderId: 1, leaderEpoch: 1, replicas: nodes, inSyncReplicas: nodes }
  return { errorCode: 0, topic: 't', partitions: [{ ...partition, ...changes }] }
}

function checkOf(topic: Asked<MetadataTopic>, changes: Record<string, string> = {}, brokerCount = 3): TopicCheck {
  return { name: 't', topic, settings: answered(new Map(Object.entries({ ...settings, ...changes }))), brokerCount }
}

describe('topics', () => {
  const wanted = { create: true, partitions: 16, partitionsAreFixed: false }
  const three = answered(topicOf(3))

  test.each<[string, TopicCheck, readonly string[]]>([
    ['as wanted', checkOf(three), []],
    [
      'replication 1',
      checkOf(answered(topicOf(1)), { 'min.insync.replicas': '1' }),
      ['warning topic-replication: replication 1'],
    ],
    [
      'replication 2',
      checkOf(answered(topicOf(2)), { 'min.insync.replicas': '1' }),
      ['warning topic-replication: replication 2'],
    ],
    [
      'min ISR above the replicas',
      checkOf(three, { 'min.insync.replicas': '4' }),
      ['error topic-replication: min.insync.replicas = 4 of 3 replicas'],
    ],
    [
      'min ISR of all',
      checkOf(three, { 'min.insync.replicas': '3' }),
      ['warning topic-replication: min.insync.replicas = 3 of 3 replicas'],
    ],
    [
      'min ISR 1 of 3',
      checkOf(three, { 'min.insync.replicas': '1' }),
      ['warning topic-replication: min.insync.replicas = 1 of 3 replicas'],
    ],
    [
      'a replica behind',
      checkOf(answered(topicOf(3, { inSyncReplicas: [1, 2] }))),
      ['warning partition-unavailable: 2 of 3 replicas in sync'],
    ],
    [
      'too few in sync',
      checkOf(answered(topicOf(3, { inSyncReplicas: [1] }))),
      ['error partition-unavailable: 1 of 3 replicas in sync'],
    ],
    [
      'no leader',
      checkOf(answered(topicOf(3, { leaderId: -1, inSyncReplicas: [1, 2] }))),
      ['error partition-unavailable: no leader, 2 of 3 replicas in sync'],
    ],
    [
      'compact and delete',
      checkOf(three, { 'cleanup.policy': 'compact,delete' }),
      ['error topic-setting: cleanup.policy = compact,delete'],
    ],
    [
      'producers compress',
      checkOf(three, { 'compression.type': 'producer' }),
      ['warning topic-setting: compression.type = producer'],
    ],
    ['gzip', checkOf(three, { 'compression.type': 'gzip' }), []],
    [
      'missing',
      checkOf({ kind: 'absent', reason: 'no' }),
      ['info topic-missing: the coordination topic does not exist'],
    ],
    ['silent', checkOf(silent), ['info not-checked: the coordination topic could not be looked at: timeout']],
  ])('%s', (_, check, expected) => {
    expect(told(judgeTopic(check, wanted))).toEqual(expected)
  })

  test('where the settings may not be read', () => {
    const findings = judgeTopic({ ...checkOf(three), settings: forbidden }, wanted)
    expect(told(findings)).toEqual([
      "info not-checked: the coordination topic's settings could not be looked at: DescribeConfigs answered CLUSTER_AUTHORIZATION_FAILED (31)",
    ])
    expect(findings[0]?.remedy).toContain('grant DescribeConfigs on the cluster')
  })

  test('the log of the transactions', () => {
    expect(judgeTransactionLog(checkOf(three))).toEqual([])
    expect(told(judgeTransactionLog(checkOf({ kind: 'absent', reason: 'no' })))).toEqual([
      'info transaction-log: t does not exist yet',
    ])
    const unclean = judgeTransactionLog(checkOf(three, { 'unclean.leader.election.enable': 'true' }))
    expect(told(unclean)).toEqual(['error transaction-log: unclean.leader.election.enable = true'])
    const weak = judgeTransactionLog(checkOf(answered(topicOf(2)), { 'min.insync.replicas': '2' }))
    expect(told(weak)).toEqual([
      'warning transaction-log: replication 2',
      'warning transaction-log: min.insync.replicas = 2 of 2 replicas',
    ])
  })
})

describe('permissions', () => {
  const mayDo = (...bits: readonly number[]): MetadataTopic => ({
    ...topicOf(3),
    authorizedOperations: bits.reduce((all, bit) => all | (1 << bit), 0),
  })
  const allow = (principal: string, operation: number, isAllowed = true) => ({ principal, operation, isAllowed })
  const members = answered([allow('User:m', 4)])
  const byName = 'info write-held-widely: User:m may write'

  test.each<[string, MetadataTopic, Parameters<typeof judgeTopicRights>[1], readonly string[]]>([
    ['a member', mayDo(3, 4, 8), members, [byName]],
    [
      'an observer',
      mayDo(3, 8),
      members,
      ["warning permission-missing: this principal may not WRITE topic 't'", byName],
    ],
    ['a writer', mayDo(4, 8), members, ["error permission-missing: this principal may not READ topic 't'", byName]],
    ['a cluster that does not say', topicOf(3), members, [byName]],
    [
      'nobody by name',
      mayDo(3, 4),
      answered([allow('User:m', 3)]),
      ['info write-held-widely: no ACL names a writer: super users alone may write, or everybody'],
    ],
    [
      'no authorizer',
      mayDo(3, 4),
      { kind: 'absent', reason: 'SECURITY_DISABLED' },
      ['warning write-held-widely: the cluster has no authorizer: everybody may write'],
    ],
    [
      'writers, readers and who is refused',
      mayDo(3, 4),
      answered([allow('User:b', 4), allow('User:a', 2), allow('User:c', 3), allow('User:*', 4, false)]),
      ['info write-held-widely: User:a, User:b may write'],
    ],
    [
      'everybody',
      mayDo(3, 4),
      answered([allow('User:b', 4), allow('User:*', 2)]),
      ['warning write-held-widely: User:* may write'],
    ],
  ])('%s', (_, topic, acls, expected) => {
    expect(told(judgeTopicRights(topic, acls))).toEqual(expected)
  })

  test('of ids', () => {
    const yes = answered(true)
    expect(judgeRoleRights([{ role: 'r', describe: answered({}), write: yes }])).toEqual([])
    expect(judgeRoleRights([{ role: 'r', describe: { kind: 'absent', reason: 'no' }, write: yes }])).toEqual([])
    expect(told(judgeRoleRights([{ role: 'r', describe: forbidden, write: forbidden }]))).toEqual([
      "warning permission-missing: this principal may not DESCRIBE the transactional id 'r'",
    ])
    expect(told(judgeRoleRights([{ role: 'r', describe: answered({}), write: answered(false) }]))).toEqual([
      "warning permission-missing: this principal may not WRITE the transactional id 'r'",
    ])
    expect(told(judgeRoleRights([{ role: 'r', describe: silent, write: silent }]))).toEqual([
      "info not-checked: the coordinator of role 'r' could not be looked at: timeout",
    ])
  })
})

describe('transactions', () => {
  const now = 1_000_000_000n
  const transactionOf = (state: string, ageMs: number): TransactionDescription => ({
    errorCode: 0,
    transactionalId: 'r',
    state,
    timeoutMs: 30_000,
    startTimeMs: now - BigInt(ageMs),
    producerId: 1n,
    producerEpoch: 1,
    topics: [{ topic: 't', partitions: [0, 1] }],
  })

  test.each<[string, string, number, boolean, readonly string[]]>([
    ['young', 'Ongoing', 60_000, true, []],
    ['past its timeout', 'Ongoing', 60_001, false, ['error hanging-transaction: Ongoing since 60 s, with t-0, t-1']],
    ['being finished', 'PrepareCommit', 600_000, false, []],
    ['stuck', 'PrepareAbort', 7_000, true, ['error hanging-transaction: PrepareAbort since 7 s, with t-0, t-1']],
  ])('%s', (_, state, ageMs, isStuck, expected) => {
    expect(told(judgeTransactions([{ transaction: transactionOf(state, ageMs), isStuck }], now))).toEqual(expected)
  })

  test('that no coordinator knows of', () => {
    const producer = (transactionStart: bigint, ageMs: number) => ({
      producerId: 4n,
      producerEpoch: 2,
      lastTimestamp: now - BigInt(ageMs),
      transactionStart,
    })
    const judged = (start: bigint, ageMs: number, longestMs?: number): readonly string[] =>
      told(judgeProducers('t', answered(new Map([[3, [producer(start, ageMs)]]])), longestMs, now))
    expect(judged(-1n, 10_000_000)).toEqual([])
    expect(judged(7n, 930_000)).toEqual([])
    expect(judged(7n, 930_001)).toEqual([
      'error hanging-transaction: producer 4:2 left a transaction open at offset 7, 930 s ago',
    ])
    expect(judged(7n, 40_001, 10_000)).toHaveLength(1)
    expect(judged(7n, 40_000, 10_000)).toHaveLength(0)
  })
})

describe('records', () => {
  const policy = leasePolicy({ leaseMs: 30_000 })
  const role = 'orders'
  const pair = { producerId: 7n, producerEpoch: 3 }
  const now = Date.now()
  const look: RoleLook = { found: true, ...pair, sentAt: 100 }

  const settledRecord = (
    offset: bigint,
    { key, value, headers = [] }: HandMadeRecord,
    changes: Partial<SettledRecord> = {},
  ): SettledRecord => ({
    offset,
    key: bytesOf(key),
    value: bytesOf(value),
    headers,
    transactional: false,
    producerId: -1n,
    producerEpoch: -1,
    receivedAt: 1,
    leaderEpoch: 1,
    appendTime: BigInt(now),
    ...changes,
  })
  const lease = (offset: bigint, changes: Partial<SettledRecord> = {}, lengthMs = 30_000n): SettledRecord =>
    settledRecord(offset, leaseRecord(role, pair, { lengthMs }), { transactional: true, ...pair, ...changes })
  const scan = (changes: Partial<PartitionScan> = {}): PartitionScan => ({
    partition: 0,
    firstOffset: 0n,
    end: 9n,
    problem: undefined,
    undecodable: [],
    widestStepBack: undefined,
    newestAppendTime: BigInt(now),
    ...changes,
  })
  const judged = (
    records: readonly SettledRecord[],
    changes: Partial<LogContext> = {},
    scans: readonly PartitionScan[] = [scan()],
    partitions = 1,
  ): readonly string[] => {
    const reading = new LogReading(partitions)
    reading.take(0, records, 100n)
    const context = { topic: 't', now, policy, looks: new Map([[role, look]]), idExpirationMs: undefined, ...changes }
    return told(reading.findings(scans, context))
  }

  test('of a healthy role', () => {
    expect(judged([settledRecord(0n, registrationRecord(role, 'hand')), lease(1n), lease(3n)])).toEqual([])
  })

  test('in a partition that is not theirs', () => {
    const place = rolePartition(parseRole(role), 64)
    expect(place).not.toBe(0)
    expect(judged([lease(4n), lease(6n)], {}, [scan()], 64)).toEqual([
      `error partition-count: 2 records, the first at offset 4, of a role whose place is partition ${place} of 64`,
    ])
  })

  test('of a producer id that a look refutes, and of none without a look', () => {
    const forged = settledRecord(5n, leaseRecord(role, { producerId: 9n, producerEpoch: 0 }), {
      transactional: true,
      producerId: 9n,
      producerEpoch: 0,
    })
    expect(judged([lease(1n), forged])).toEqual([
      'warning foreign-record: a record, the first at offset 5: producer id 9, where a look shows 7',
    ])
    expect(judged([lease(1n), forged], { looks: new Map() })).toEqual([])
  })

  test('that waited three leases without anybody acting', () => {
    const registered = (ageMs: number): SettledRecord =>
      settledRecord(0n, registrationRecord(role, 'm'), { appendTime: BigInt(now - ageMs) })
    const patienceMs = 3 * policy.leaseMs + policy.staggerMs
    expect(judged([registered(patienceMs)])).toEqual([])
    expect(judged([registered(patienceMs + 1)])).toEqual([
      'warning dead-registration: 1 registered (m), the first at offset 0, and nobody leads since 95 s',
    ])
    // Somebody leads, or it cannot be told.
    expect(judged([registered(10_000_000), lease(1n)])).toEqual([])
    expect(judged([{ ...registered(10_000_000), appendTime: undefined }])).toEqual([])
    // A lease of which nobody can tell whether it counts.
    expect(judged([registered(10_000_000), lease(1n)], { looks: new Map() })).toEqual([])
    // The last holder's own, after it crashed alone.
    const crashed = lease(1n, { appendTime: BigInt(now - 10_000_000) })
    const own = settledRecord(0n, registrationRecord(role, 'hand'), { appendTime: BigInt(now - 10_000_000) })
    const findings = judged([own, crashed])
    expect(findings.filter((line) => line.includes('dead-registration'))).toEqual([
      'info dead-registration: 1 registered (hand), the first at offset 0, and nobody leads since 9970 s',
    ])
  })

  test('of ids near their ends', () => {
    const epoch = (producerEpoch: number): readonly string[] =>
      judged([lease(1n)], { looks: new Map([[role, { ...look, producerEpoch }]]) })
    expect(epoch(30_000)).toEqual([])
    expect(epoch(30_001)).toEqual(['info epoch-near-exhaustion: producer id 7 is in epoch 30001 of 32767'])
    const unused = (ageMs: number): readonly string[] =>
      judged([lease(1n, { appendTime: BigInt(now - ageMs) })], { idExpirationMs: 100_000 }).filter((line) =>
        line.includes('id-near-expiry'),
      )
    expect(unused(75_000)).toEqual([])
    expect(unused(75_001)).toEqual(['info id-near-expiry: unused since 75 s'])
  })

  test('and clocks', () => {
    expect(judged([], {}, [scan({ widestStepBack: { offset: 3n, ms: 1_000 } })])).toEqual([])
    expect(judged([], {}, [scan({ widestStepBack: { offset: 3n, ms: 1_001 } })])).toEqual([
      'warning clock: append times went back by 1001 ms at offset 3',
    ])
    expect(judged([], {}, [scan({ newestAppendTime: BigInt(now + 10_000) })])).toEqual([])
    expect(judged([], {}, [scan({ newestAppendTime: BigInt(now + 10_001) })])).toEqual([
      "warning clock: the broker's clock is at least 10001 ms ahead of this process's",
    ])
    const skewed = judged([lease(1n, { appendTime: BigInt(now - 60_000) })])
    expect(skewed.map((line) => line.replace(/\d+ ms/, 'N ms'))).toEqual([
      "warning clock: the clock of hand is N ms ahead of the broker's",
    ])
    const behind = judged([lease(1n, { appendTime: BigInt(now + 60_000) })])
    expect(behind.map((line) => line.replace(/\d+ ms/, 'N ms'))).toEqual([
      "warning clock: the clock of hand is N ms behind the broker's",
    ])
  })

  test('and leases below 15 s', () => {
    expect(judged([lease(1n, {}, 14_999n)])).toEqual(['info short-lease: hand leads with 14999 ms'])
    expect(judged([], { policy: leasePolicy({ leaseMs: 14_999 }) })).toEqual(['info short-lease: leaseMs = 14999'])
  })

  test('and partitions that could not be read', () => {
    expect(
      judged([], {}, [scan({ problem: 'Fetch answered X (1)', undecodable: [{ offset: 2n, reason: 'lz4' }] })]),
    ).toEqual([
      'info not-checked: the rest of the partition could not be looked at: Fetch answered X (1)',
      'warning unreadable-record: a batch, the first at offset 2: lz4',
    ])
  })
})

describe('findings', () => {
  const finding = (severity: VerifyFinding['severity'], code: VerifyFinding['code'], found = ''): VerifyFinding => ({
    code,
    severity,
    found,
    wanted: '',
    remedy: '',
  })

  test('come worst first, and no more than twenty of one kind', () => {
    const many = Array.from({ length: 25 }, (_, index) => finding('info', 'short-lease', String(index)))
    const ordered = orderedFindings([...many, finding('warning', 'clock'), finding('error', 'topic-setting')])
    expect(ordered.map(({ code }) => code)).toEqual([
      'topic-setting',
      'clock',
      ...Array.from({ length: 20 }, () => 'short-lease'),
    ])
    expect(ordered.at(-1)?.found).toBe('19; and 5 more like it')
    expect(orderedFindings(many.slice(0, 20))).toEqual(many.slice(0, 20))
  })

  test('say what would have let a question be answered', () => {
    expect(notChecked('x', { kind: 'unsupported', reason: 'old' }).remedy).toBe('upgrade the brokers')
    expect(notChecked('x', { kind: 'unanswered', reason: 'late' }, { broker: 3 })).toMatchObject({ broker: 3 })
  })
})

describe('questions', () => {
  const setUp = () => {
    const { runtime, connection, dependencies } = world()
    connection.always('FindCoordinators', ({ request }) => ({
      coordinators: request.keys.map((key) => ({ key, errorCode: 0, node })),
    }))
    const survey = new Survey({ ...dependencies })
    return { runtime, connection, survey, dependencies, bound: { deadline: runtime.monotonicNow() + 10_000 } }
  }
  const configs = (errorCode: number) => ({ errorCode, errorMessage: null, configs: new Map([['a', 'b']]) })

  test.each<[string, readonly Step<'DescribeBrokerConfigs'>[], Asked<unknown>['kind'], number]>([
    ['answered', [configs(0)], 'answered', 1],
    ['refused for want of a permission', [configs(31)], 'forbidden', 1],
    ['refused for good', [configs(42)], 'refused', 1],
    ['of an old broker', [{ fails: 'unsupported', written: false }], 'unsupported', 1],
    ['of a broker that is away: not again', [unreachable], 'unanswered', 1],
    ['cut off by the channel: again', [lost, configs(0)], 'answered', 2],
    ['busy: again', [configs(14), configs(0)], 'answered', 2],
  ])('%s', async (_, steps, kind, sendings) => {
    const { runtime, connection, survey, bound } = setUp()
    connection.next('DescribeBrokerConfigs', ...steps)
    const asked = watched(survey.brokerSettings(node, bound))
    await runtime.pass(1_000)
    expect(asked.now().value).toMatchObject({ kind })
    expect(connection.of('DescribeBrokerConfigs')).toHaveLength(sendings)
  })

  test('end at their bound while the request goes on, for others share its channel', async () => {
    const { runtime, connection, survey } = setUp()
    connection.next('DescribeBrokerConfigs', 'silent')
    const deadline = runtime.monotonicNow() + 100
    const bound = { deadline, answersUntil: Number.POSITIVE_INFINITY }
    const asked = watched(survey.brokerSettings(otherNode, bound))
    await runtime.pass(100)
    expect(asked.now().value).toMatchObject({ kind: 'unanswered' })
    expect(connection.resets).toEqual([])
    await runtime.pass(requestTimeoutMs)
    expect(connection.resets).toEqual([{ node: otherNode.id, channel: 'work' }])
  })

  test('end with the reason of a signal', async () => {
    const { runtime, connection, survey, bound } = setUp()
    connection.next('DescribeBrokerConfigs', 'silent')
    const controller = new AbortController()
    const asked = watched(survey.brokerSettings(node, { ...bound, signal: controller.signal }))
    await runtime.pass(10)
    const reason = new Error('enough')
    controller.abort(reason)
    await runtime.pass(0)
    expect(asked.now().error).toBe(reason)
  })

  test.each<[string, number, Asked<boolean>]>([
    ['refused for its producer id', 49, { kind: 'answered', value: true }],
    ['fenced', 90, { kind: 'answered', value: true }],
    ['not allowed', 53, { kind: 'answered', value: false }],
  ])('a write that nobody can have begun, %s', async (_, errorCode, expected) => {
    const { runtime, connection, survey, bound } = setUp()
    connection.next('EndTxn', { errorCode })
    const asked = watched(survey.mayWriteUnder('r', bound))
    await runtime.pass(0)
    expect(asked.now().value).toEqual(expected)
    // Of a producer id that no coordinator hands out, so nothing can be ended by it.
    const [sent] = connection.of('EndTxn')
    expect(sent?.request).toMatchObject({ producerId: 2n ** 63n - 1n, committed: false })
  })

  test('of ids: each has its own answer', async () => {
    const { runtime, connection, survey, bound } = setUp()
    const rest = { state: '', timeoutMs: 0, startTimeMs: -1n, producerId: 1n, producerEpoch: 1, topics: [] }
    connection.next('DescribeTransactions', {
      transactions: [
        { errorCode: 0, transactionalId: 'a', ...rest },
        { errorCode: 53, transactionalId: 'b', ...rest },
        { errorCode: 105, transactionalId: 'c', ...rest },
      ],
    })
    const asked = watched(survey.transactions(['a', 'b', 'c', 'd'], bound))
    await runtime.pass(0)
    const kindsOf = [...(asked.now().value ?? [])].map(([id, { kind }]) => `${id} ${kind}`)
    expect(kindsOf).toEqual(['a answered', 'b forbidden', 'c absent', 'd unanswered'])
  })

  const batch = (baseOffset: bigint, maxTimestamp: bigint): FetchedBatch => ({
    baseOffset,
    lastOffset: baseOffset,
    partitionLeaderEpoch: 1,
    producerId: -1n,
    producerEpoch: -1,
    transactional: false,
    logAppendTime: true,
    maxTimestamp,
    control: undefined,
    records: [{ offset: baseOffset, key: null, value: null, headers: [] }],
  })
  const fetched = (batches: readonly FetchedBatch[], errorCode = 0) => ({
    errorCode: 0,
    partitions: [{ partition: 0, errorCode, highWatermark: 3n, logStartOffset: 0n, batches }],
  })
  const offsets = (offset: bigint) => ({ partitions: [{ partition: 0, errorCode: 0, offset, leaderEpoch: 1 }] })

  test('a reading leaves out what lies before its start, was aborted, or is open', async () => {
    const { runtime, connection, dependencies, bound } = setUp()
    const pair = { producerId: 7n, producerEpoch: 1, transactional: true }
    const batches: FetchedBatch[] = [
      batch(0n, 5n),
      { ...batch(1n, 5n), ...pair },
      { ...batch(2n, 5n), ...pair, control: 'abort', records: [] },
      batch(3n, 5n),
      { ...batch(4n, 5n), ...pair },
    ]
    connection.next('ListOffsets', offsets(1n), offsets(5n)).next('Fetch', fetched(batches))
    const taken: [bigint[], bigint][] = []
    const place = { topic: 't', partition: 0, leader: node }
    const scanned = watched(
      scanPartition(
        dependencies,
        place,
        (records, settledBelow) => taken.push([records.map(({ offset }) => offset), settledBelow]),
        bound,
      ),
    )
    await runtime.pass(0)
    expect(scanned.now().value).toMatchObject({ firstOffset: 1n, end: 5n, problem: undefined })
    expect(taken).toEqual([[[3n], 4n]])
  })

  test.each<[string, readonly Step<'Fetch'>[], number, Partial<PartitionScan>]>([
    [
      'to its end, however many steps it takes',
      [fetched([batch(0n, 500n)]), lost, fetched([batch(1n, 300n), batch(2n, 400n)])],
      3,
      { problem: undefined, end: 3n, newestAppendTime: 500n, widestStepBack: { offset: 1n, ms: 200 } },
    ],
    [
      'whose time ends, with what it read so far',
      [fetched([batch(0n, 500n)]), 'silent'],
      1,
      { problem: 'it was not answered in time', end: 3n, newestAppendTime: 500n },
    ],
    ['that gives nothing', [fetched([])], 0, { problem: 'nothing was read at offset 0' }],
    ['that may not be read', [fetched([], 29)], 0, { problem: 'Fetch answered TOPIC_AUTHORIZATION_FAILED (29)' }],
    ['of a broker that goes', [fetched([batch(0n, 500n)]), unreachable], 1, { problem: 'unreachable by script' }],
  ])('a reading %s', async (_, steps, count, expected) => {
    const { runtime, connection, dependencies } = setUp()
    const soon = { deadline: runtime.monotonicNow() + 900, answersUntil: Number.POSITIVE_INFINITY }
    connection.next('ListOffsets', offsets(0n), offsets(3n)).next('Fetch', ...steps)
    const taken: SettledRecord[] = []
    const place = { topic: 't', partition: 0, leader: node }
    const scanned = watched(scanPartition(dependencies, place, (records) => taken.push(...records), soon))
    await runtime.pass(1_000)
    expect(scanned.now().value).toMatchObject(expected)
    expect(taken).toHaveLength(count)
  })
})

function bytesOf(value: Uint8Array | string | null): Uint8Array | null {
  return typeof value === 'string' ? new TextEncoder().encode(value) : value
}

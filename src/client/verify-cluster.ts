/**
 * What a check makes of a cluster: its brokers, settings, permissions and transactions.
 *
 * Pure: facts in, findings out. It must not ask anything, nor judge records: `verify-log.ts` does.
 */
import type {
  AclBinding,
  ActiveProducer,
  ApiResponse,
  MetadataTopic,
  Node,
  TransactionDescription,
} from '../cluster/connection.js'
import type { Asked } from '../cluster/survey.js'
import type { VerifyFinding, VerifySeverity } from './verify-finding.js'
import { notChecked } from './verify-finding.js'

/** A request that the library sends, in the one version that it sends. */
export interface PinnedVersion {
  readonly api: string
  readonly apiKey: number
  readonly version: number
  /** Sent by a check and by nothing else. */
  readonly isForChecks: boolean
}

export interface BrokerFacts {
  readonly node: Node
  readonly versions: Asked<ApiResponse<'ApiVersions'>>
  readonly settings: Asked<Settings>
}

type Settings = ReadonlyMap<string, string | null>

/** What is known of a topic: `topic` has an error code where it may not be described or does not exist. */
export interface TopicCheck {
  readonly name: string
  readonly topic: Asked<MetadataTopic>
  readonly settings: Asked<Settings>
  readonly brokerCount: number
}

/** What the client was told to want of the coordination topic. */
export interface TopicWanted {
  readonly create: boolean
  readonly partitions: number
  readonly partitionsAreFixed: boolean
}

/** Longer than a coordinator waits by default between two looks for transactions that are past their timeout (10 s). */
export const timeoutSlackMs = 30_000
const defaultLongestTransactionMs = 900_000
const largestBatchBytes = 950_000

/** Kafka's numbers of the operations that matter here. */
export const operations = { all: 2, read: 3, write: 4, describe: 8, describeConfigs: 10 } as const

export function judgeBrokers(
  brokers: readonly BrokerFacts[],
  pins: readonly PinnedVersion[],
  transactionTimeoutMs: number,
): readonly VerifyFinding[] {
  const findings = brokers.flatMap(({ node, versions, settings }) =>
    versions.kind === 'answered'
      ? [
          ...judgeVersions(node, versions.value, pins),
          ...(settings.kind === 'answered' ? judgeBrokerSettings(node, settings.value, transactionTimeoutMs) : []),
        ]
      : [unreachable(node, versions.reason)],
  )
  // One permission is missing at all brokers or at none.
  const unread = brokers.find(({ versions, settings }) => versions.kind === 'answered' && settings.kind !== 'answered')
  if (unread !== undefined && unread.settings.kind !== 'answered') {
    findings.push(notChecked("the brokers' settings", unread.settings))
  }
  return [...findings, ...judgeTransactionVersion(brokers)]
}

function unreachable(node: Node, reason: string): VerifyFinding {
  return {
    code: 'broker-unreachable',
    severity: 'error',
    found: `no answer from ${node.host}:${node.port}: ${reason}`,
    wanted: 'an answer from every broker that the cluster names',
    remedy: 'see that the broker runs, and that this process can reach the address that it advertises',
    broker: node.id,
  }
}

function judgeVersions(
  node: Node,
  { apis }: ApiResponse<'ApiVersions'>,
  pins: readonly PinnedVersion[],
): readonly VerifyFinding[] {
  return pins.flatMap(({ api, apiKey, version, isForChecks }): readonly VerifyFinding[] => {
    const range = apis.find((candidate) => candidate.apiKey === apiKey)
    if (range !== undefined && range.minVersion <= version && version <= range.maxVersion) return []
    const served = range === undefined ? 'not at all' : `in versions ${range.minVersion} to ${range.maxVersion}`
    return [
      {
        code: 'api-unsupported',
        severity: isForChecks ? 'info' : 'error',
        found: `${api} is served ${served}`,
        wanted: `${api} in version ${version}`,
        remedy: isForChecks
          ? 'nothing: only this check sends it'
          : 'run Kafka 3.9 to 4.4, and nothing between that speaks less',
        broker: node.id,
      },
    ]
  })
}

function judgeBrokerSettings(node: Node, settings: Settings, transactionTimeoutMs: number): readonly VerifyFinding[] {
  const longest = numberOf(settings, 'transaction.max.timeout.ms')
  if (longest === undefined || longest >= transactionTimeoutMs) return []
  return [
    {
      code: 'transaction-timeout',
      severity: 'error',
      found: `transaction.max.timeout.ms = ${longest}`,
      wanted: `at least ${transactionTimeoutMs}, the client's transactionTimeoutMs`,
      remedy: 'raise it on every broker, or lower transactionTimeoutMs or leaseMs',
      broker: node.id,
    },
  ]
}

function judgeTransactionVersion(brokers: readonly BrokerFacts[]): readonly VerifyFinding[] {
  const levels = brokers.flatMap(({ versions }) =>
    versions.kind === 'answered' ? [versions.value.features.get('transaction.version') ?? 0] : [],
  )
  const lowest = Math.min(...levels)
  if (levels.length === 0 || lowest >= 2) return []
  return [
    {
      code: 'transaction-version',
      severity: 'info',
      found: `transaction.version = ${[...new Set(levels)].sort().join(' and ')}`,
      wanted: 'transaction.version = 2 (Kafka 4.0 and newer)',
      remedy:
        'the library works with either; to protect other producers too: kafka-features.sh upgrade --feature transaction.version=2',
    },
  ]
}

/** The coordination topic by its settings and partitions. */
export function judgeTopic(check: TopicCheck, wanted: TopicWanted): readonly VerifyFinding[] {
  const { name, topic, settings } = check
  if (topic.kind === 'absent') return [missing(name, wanted)]
  if (topic.kind === 'forbidden') return [forbiddenTopic(name, topic.reason)]
  if (topic.kind !== 'answered') return [notChecked('the coordination topic', topic, { topic: name })]
  const { partitions } = topic.value
  const findings: VerifyFinding[] = []
  if (wanted.partitionsAreFixed && partitions.length !== wanted.partitions) {
    findings.push({
      code: 'partition-count',
      severity: 'error',
      found: `${partitions.length} partitions`,
      wanted: `${wanted.partitions}, as the client's partitions option says`,
      remedy: 'leave the option out, or name another topic; never change the count of this one',
      topic: name,
    })
  }
  findings.push(...judgeReplication(check, topic.value, 'topic-replication'))
  if (settings.kind !== 'answered') {
    return [...findings, notChecked("the coordination topic's settings", settings, { topic: name })]
  }
  return [...findings, ...judgeTopicSettings(name, settings.value)]
}

function missing(topic: string, { create, partitions }: TopicWanted): VerifyFinding {
  return {
    code: 'topic-missing',
    severity: create ? 'info' : 'error',
    found: 'the coordination topic does not exist',
    wanted: `a topic of ${partitions} partitions with cleanup.policy=compact`,
    remedy: create ? 'nothing: the first call that needs it makes it' : 'make it, or set createTopic to true',
    topic,
  }
}

function forbiddenTopic(topic: string, reason: string): VerifyFinding {
  return {
    code: 'permission-missing',
    severity: 'error',
    found: `Describe on topic '${topic}' is not allowed: ${reason}`,
    wanted: `READ on Topic '${topic}', and WRITE to lead`,
    remedy: 'grant them to this principal; where they are granted, the topic does not exist',
    topic,
  }
}

interface SettingRule {
  readonly setting: string
  readonly isFine: (value: string) => boolean
  readonly severity: VerifySeverity
  readonly wanted: string
  readonly because: string
}

const hourMs = 3_600_000
const dayMs = 24 * hourMs
const atMost = (most: number) => (value: string) => Number(value) <= most
const atLeast = (least: number) => (value: string) => Number(value) >= least
const oneOf =
  (...values: readonly string[]) =>
  (value: string) =>
    values.includes(value)

const topicRules: readonly SettingRule[] = [
  {
    setting: 'cleanup.policy',
    isFine: oneOf('compact'),
    severity: 'error',
    wanted: 'compact',
    because: 'leases and registrations would be deleted while they count',
  },
  {
    setting: 'unclean.leader.election.enable',
    isFine: oneOf('false'),
    severity: 'error',
    wanted: 'false',
    because: 'a lost tail of the log takes back what was acknowledged',
  },
  {
    setting: 'compression.type',
    isFine: oneOf('uncompressed', 'producer', 'gzip'),
    severity: 'error',
    wanted: 'uncompressed',
    because: 'batches could not be read',
  },
  {
    setting: 'compression.type',
    isFine: (value) => value !== 'producer',
    severity: 'warning',
    wanted: 'uncompressed',
    because: 'what a port compresses with snappy, lz4 or zstd cannot be read',
  },
  {
    setting: 'message.timestamp.type',
    isFine: oneOf('LogAppendTime'),
    severity: 'warning',
    wanted: 'LogAppendTime',
    because: 'a process that starts after a crash waits a whole lease',
  },
  {
    setting: 'max.message.bytes',
    isFine: atLeast(largestBatchBytes),
    severity: 'warning',
    wanted: `at least ${largestBatchBytes}`,
    because: 'batches up to that size are made',
  },
  {
    setting: 'delete.retention.ms',
    isFine: atLeast(hourMs),
    severity: 'warning',
    wanted: `at least ${hourMs}`,
    because: 'a member that is cut off for a quarter of it reads everything again',
  },
  {
    setting: 'segment.ms',
    isFine: atMost(dayMs),
    severity: 'info',
    wanted: '600000',
    because: 'what is not rolled is not cleaned, and a starting process reads all of it',
  },
  {
    setting: 'segment.bytes',
    isFine: atMost(128 * 1024 * 1024),
    severity: 'info',
    wanted: '16777216',
    because: 'what is not rolled is not cleaned, and a starting process reads all of it',
  },
  {
    setting: 'max.compaction.lag.ms',
    isFine: atMost(dayMs),
    severity: 'info',
    wanted: '3600000',
    because: 'the log may go uncleaned for long, and a starting process reads all of it',
  },
]

function judgeTopicSettings(topic: string, settings: Settings): readonly VerifyFinding[] {
  return topicRules.flatMap(({ setting, isFine, severity, wanted, because }): readonly VerifyFinding[] => {
    const value = settings.get(setting)
    if (value === undefined || value === null || isFine(value)) return []
    return [
      {
        code: 'topic-setting',
        severity,
        found: `${setting} = ${value}`,
        wanted: `${setting} = ${wanted}`,
        remedy: `change the setting: ${because}`,
        topic,
      },
    ]
  })
}

/** Where the coordinators keep epochs and transactions. */
export function judgeTransactionLog(check: TopicCheck): readonly VerifyFinding[] {
  const { name, topic, settings } = check
  if (topic.kind === 'absent') {
    return [
      {
        code: 'transaction-log',
        severity: 'info',
        found: `${name} does not exist yet`,
        wanted: 'replication 3 and min.insync.replicas 2',
        remedy: 'set transaction.state.log.replication.factor and transaction.state.log.min.isr before its first use',
        topic: name,
      },
    ]
  }
  if (topic.kind !== 'answered') return [notChecked('the transaction log', topic, { topic: name })]
  const findings = judgeReplication(check, topic.value, 'transaction-log')
  if (settings.kind !== 'answered') {
    return [...findings, notChecked("the transaction log's settings", settings, { topic: name })]
  }
  const unclean = settings.value.get('unclean.leader.election.enable')
  if (unclean !== 'true') return findings
  return [
    ...findings,
    {
      code: 'transaction-log',
      severity: 'error',
      found: 'unclean.leader.election.enable = true',
      wanted: 'unclean.leader.election.enable = false',
      remedy: 'change the setting: a lost tail takes epochs back, and with them the fence',
      topic: name,
    },
  ]
}

function judgeReplication(
  { name, settings, brokerCount }: TopicCheck,
  { partitions }: MetadataTopic,
  code: 'topic-replication' | 'transaction-log',
): readonly VerifyFinding[] {
  const findings: VerifyFinding[] = []
  const tell = (severity: VerifySeverity, found: string, wanted: string, remedy: string): void => {
    findings.push({ code, severity, found, wanted, remedy, topic: name })
  }
  const replicas = Math.min(...partitions.map((partition) => partition.replicas.length))
  const minimum = settings.kind === 'answered' ? numberOf(settings.value, 'min.insync.replicas') : undefined
  if (replicas < 3) {
    const consequence = replicas === 1 ? 'every stop of its broker stops the roles' : 'a stop of one broker risks them'
    const means = brokerCount < 3 ? 'run at least three brokers and' : ''
    tell('warning', `replication ${replicas}`, 'replication 3', `${means} raise it: ${consequence}`.trim())
  }
  if (minimum !== undefined && minimum > replicas) {
    const remedy = `lower it: nothing can be written`
    tell('error', `min.insync.replicas = ${minimum} of ${replicas} replicas`, 'one less than the replicas', remedy)
  } else if (minimum !== undefined && replicas >= 3 && minimum < 2) {
    const remedy = 'raise it: what one broker alone acknowledged is lost with its disk'
    tell('warning', `min.insync.replicas = ${minimum} of ${replicas} replicas`, 'min.insync.replicas = 2', remedy)
  } else if (minimum !== undefined && replicas > 1 && minimum === replicas) {
    const remedy = 'lower it: the stop of one broker stops all writes'
    tell('warning', `min.insync.replicas = ${minimum} of ${replicas} replicas`, 'one less than the replicas', remedy)
  }
  // What never can be met is told once, not for each partition.
  const attainable = minimum !== undefined && minimum <= replicas ? minimum : undefined
  return [...findings, ...judgeAvailability(name, partitions, attainable)]
}

function judgeAvailability(
  topic: string,
  partitions: MetadataTopic['partitions'],
  minimum: number | undefined,
): readonly VerifyFinding[] {
  return partitions.flatMap(({ partition, leaderId, replicas, inSyncReplicas }): readonly VerifyFinding[] => {
    const inSync = `${inSyncReplicas.length} of ${replicas.length} replicas in sync`
    const cannotWrite = leaderId < 0 || (minimum !== undefined && inSyncReplicas.length < minimum)
    if (!cannotWrite && inSyncReplicas.length >= replicas.length) return []
    return [
      {
        code: 'partition-unavailable',
        severity: cannotWrite ? 'error' : 'warning',
        found: leaderId < 0 ? `no leader, ${inSync}` : inSync,
        wanted: 'a leader and every replica in sync',
        remedy: 'bring the missing brokers back, or move the replicas',
        topic,
        partition,
      },
    ]
  })
}

/** What this principal may do with the topic, and who else may write to it. */
export function judgeTopicRights(topic: MetadataTopic, acls: Asked<readonly AclBinding[]>): readonly VerifyFinding[] {
  return [...judgeOwnRights(topic), ...judgeWriters(topic.topic, acls)]
}

function judgeOwnRights({ topic, authorizedOperations }: MetadataTopic): readonly VerifyFinding[] {
  if (authorizedOperations === undefined) return []
  const may = (operation: number): boolean => (authorizedOperations & (1 << operation)) !== 0
  const findings: VerifyFinding[] = []
  const tell = (operation: string, severity: VerifySeverity, remedy: string): void => {
    findings.push({
      code: 'permission-missing',
      severity,
      found: `this principal may not ${operation} topic '${topic}'`,
      wanted: `${operation} on Topic '${topic}'`,
      remedy,
      topic,
    })
  }
  if (!may(operations.read)) tell('READ', 'error', 'grant it: nothing can be followed without it')
  if (!may(operations.write)) {
    tell('WRITE', 'warning', 'grant it if this principal is to lead; one that only looks on needs none')
  }
  return findings
}

function judgeWriters(topic: string, acls: Asked<readonly AclBinding[]>): readonly VerifyFinding[] {
  if (acls.kind === 'absent') {
    return [writers('warning', topic, 'the cluster has no authorizer: everybody may write', 'configure an authorizer')]
  }
  if (acls.kind !== 'answered') return [notChecked(`who may write to topic '${topic}'`, acls, { topic })]
  const writing = acls.value.filter(
    ({ operation, isAllowed }) => isAllowed && (operation === operations.write || operation === operations.all),
  )
  const principals = [...new Set(writing.map(({ principal }) => principal))].sort()
  if (principals.length === 0) {
    const found = 'no ACL names a writer: super users alone may write, or everybody'
    return [writers('info', topic, found, 'see that allow.everyone.if.no.acl.found is not true on the brokers')]
  }
  const everybody = principals.find((principal) => principal.endsWith(':*'))
  if (everybody !== undefined) {
    return [writers('warning', topic, `${everybody} may write`, 'remove that ACL and grant WRITE to members only')]
  }
  return [writers('info', topic, `${principals.join(', ')} may write`, 'see that all of them are members')]
}

function writers(severity: VerifySeverity, topic: string, found: string, remedy: string): VerifyFinding {
  return {
    code: 'write-held-widely',
    severity,
    found,
    wanted: 'WRITE on the coordination topic for members only',
    remedy: `${remedy}: whoever may write there can wedge every role`,
    topic,
  }
}

/** What this principal may do with the ids of roles, by role. */
export function judgeRoleRights(
  rights: readonly { readonly role: string; readonly describe: Asked<unknown>; readonly write: Asked<boolean> }[],
): readonly VerifyFinding[] {
  return rights.flatMap(({ role, describe, write }): readonly VerifyFinding[] => {
    const missing = (operation: 'DESCRIBE' | 'WRITE', severity: VerifySeverity, remedy: string): VerifyFinding => ({
      code: 'permission-missing',
      severity,
      found: `this principal may not ${operation} the transactional id '${role}'`,
      wanted: `${operation} on TransactionalId '${role}'`,
      remedy,
      role,
    })
    if (describe.kind === 'forbidden') {
      return [missing('DESCRIBE', 'warning', 'grant it, or WRITE to lead: nobody can tell without it who leads')]
    }
    if (write.kind === 'answered' && !write.value) {
      return [missing('WRITE', 'warning', 'grant it if this principal is to lead; one that only looks on needs none')]
    }
    const unasked = [describe, write].find(({ kind }) => kind !== 'answered' && kind !== 'absent')
    if (unasked === undefined || unasked.kind === 'answered') return []
    return [notChecked(`the coordinator of role '${role}'`, unasked, { role })]
  })
}

/** Transactions that did not end in their time. `now` is this process's wall clock. */
export function judgeTransactions(
  transactions: readonly { readonly transaction: TransactionDescription; readonly isStuck: boolean }[],
  now: bigint,
): readonly VerifyFinding[] {
  return transactions.flatMap(({ transaction, isStuck }): readonly VerifyFinding[] => {
    const { transactionalId, state, timeoutMs, startTimeMs, topics } = transaction
    const ageMs = Number(now - startTimeMs)
    const partitions = topics.flatMap(({ topic, partitions: of }) => of.map((partition) => `${topic}-${partition}`))
    const isFinishing = state.startsWith('Prepare')
    if (isFinishing ? !isStuck : startTimeMs < 0n || ageMs <= timeoutMs + timeoutSlackMs) return []
    return [
      {
        code: 'hanging-transaction',
        severity: 'error',
        found: `${state} since ${Math.round(ageMs / 1_000)} s, with ${partitions.join(', ') || 'no partition'}`,
        wanted: `an end within its timeout of ${timeoutMs} ms`,
        remedy: isFinishing
          ? 'its markers cannot be written: bring those partitions back, else follow the runbook of WEDGED'
          : 'see the log of its coordinator, which should have aborted it',
        role: transactionalId,
      },
    ]
  })
}

/** Open transactions of partitions that no coordinator will end any more. `now` is this process's wall clock. */
export function judgeProducers(
  topic: string,
  producers: Asked<ReadonlyMap<number, readonly ActiveProducer[]>>,
  longestTransactionMs: number | undefined,
  now: bigint,
): readonly VerifyFinding[] {
  if (producers.kind !== 'answered') return [notChecked('open transactions of the topic', producers, { topic })]
  const limitMs = (longestTransactionMs ?? defaultLongestTransactionMs) + timeoutSlackMs
  return [...producers.value].flatMap(([partition, those]) =>
    those.flatMap(({ producerId, producerEpoch, lastTimestamp, transactionStart }): readonly VerifyFinding[] => {
      const ageMs = Number(now - lastTimestamp)
      if (transactionStart < 0n || ageMs <= limitMs) return []
      return [
        {
          code: 'hanging-transaction',
          severity: 'error',
          found: `producer ${producerId}:${producerEpoch} left a transaction open at offset ${transactionStart}, ${Math.round(ageMs / 1_000)} s ago`,
          wanted: `an end within the longest timeout of ${limitMs - timeoutSlackMs} ms`,
          remedy: `compaction and committed readers stop there: kafka-transactions.sh abort --topic ${topic} --partition ${partition} --start-offset ${transactionStart}`,
          topic,
          partition,
        },
      ]
    }),
  )
}

/** The setting as a number; undefined where there is none. */
export function numberOf(settings: Settings, name: string): number | undefined {
  const value = Number(settings.get(name) ?? Number.NaN)
  return Number.isFinite(value) ? value : undefined
}

/**
 * Checks a cluster for what the library needs of it: asks every broker what it can, reads the coordination topic once, and has both judged.
 *
 * What cannot be asked becomes a finding. It must not change anything: it makes no topic, mints nothing and writes nothing. It reads beside
 * the client's own log, so that it works where no member could.
 */
import type { ApiResponse, MetadataTopic, Node, TransactionDescription } from '../cluster/connection.js'
import { dispositionOf, kafkaErrorName, refusalError } from '../cluster/error-table.js'
import type { PartitionScan } from '../cluster/scan.js'
import { scanPartition } from '../cluster/scan.js'
import type { Bound } from '../cluster/schedule.js'
import { pause } from '../cluster/schedule.js'
import type { Asked } from '../cluster/survey.js'
import { Survey } from '../cluster/survey.js'
import { coordinationError } from '../errors.js'
import { sentVersions } from './connect.js'
import { wallNow } from './coordination-records.js'
import type { Services } from './services.js'
import type { BrokerFacts, TopicCheck } from './verify-cluster.js'
import {
  judgeBrokers,
  judgeProducers,
  judgeRoleRights,
  judgeTopic,
  judgeTopicRights,
  judgeTransactionLog,
  judgeTransactions,
  numberOf,
  operations,
} from './verify-cluster.js'
import type { VerifyFinding } from './verify-finding.js'
import { notChecked, orderedFindings } from './verify-finding.js'
import type { RoleLook } from './verify-log.js'
import { LogReading } from './verify-log.js'

const transactionLog = '__transaction_state'
/** Roles share their permissions as a rule, and each costs a request. */
const mostRolesAskedForRights = 50
/** A transaction that is a moment old is under way and no more. */
const youngestTransactionMs = 5_000
/** A transaction that is being finished for as long as this, and stands as it stood, is stuck. */
const finishingMs = 2_000

/** What the cluster is like, worst first; empty where all is as wanted. */
export async function verifyCluster(services: Services, bound: Bound): Promise<readonly VerifyFinding[]> {
  const { runtime, settings, connection, coordinators } = services
  const { requestTimeoutMs, topic } = settings
  const survey = new Survey({ connection, coordinators, runtime, requestTimeoutMs })
  const totalMs = bound.deadline - runtime.monotonicNow()
  // What was found is told in time, even where the rest was not.
  const within = (share: number): Bound => ({ ...bound, deadline: bound.deadline - totalMs * (1 - share) })

  const metadata = await survey.metadata([topic, transactionLog], within(0.9))
  if (metadata.kind !== 'answered') {
    if (metadata.kind === 'forbidden') throw unauthorized(metadata)
    throw coordinationError('TRANSPORT', `No broker could be asked: ${metadata.reason}`, { retriable: true })
  }
  const { brokers } = metadata.value
  const coordination = topicIn(metadata.value, topic)
  const [facts, topicCheck, logCheck, rights, log, unfinished] = await Promise.all([
    brokerFacts(survey, brokers, within(0.7)),
    topicFacts(survey, coordination, topic, brokers.length, within(0.7)),
    topicFacts(survey, topicIn(metadata.value, transactionLog), transactionLog, brokers.length, within(0.7)),
    topicRights(survey, coordination, within(0.7)),
    readLog(services, coordination, brokers, within(0.6)),
    unfinishedTransactions(survey, brokers, within(0.7)),
  ])
  const producers = await openTransactions(survey, coordination, brokers, facts, services, within(0.8))
  const roles = await roleFacts(services, survey, log, facts, within(0.9))
  const own = new Set<string>(log.reading.roles)
  const hanging = await hangingTransactions(services, survey, unfinished.ids, own, within(0.9))
  return orderedFindings([
    ...judgeBrokers(facts, sentVersions, settings.policy.transactionTimeoutMs),
    ...judgeTopic(topicCheck, {
      create: settings.createTopic,
      partitions: settings.partitions,
      partitionsAreFixed: settings.partitionsAreFixed,
    }),
    ...judgeTransactionLog(logCheck),
    ...rights,
    ...unfinished.findings,
    ...producers,
    ...hanging,
    ...roles,
  ])
}

function unauthorized(asked: Extract<Asked<unknown>, { kind: 'forbidden' }>): Error {
  const { operation, resource, reason } = asked
  return coordinationError('UNAUTHORIZED', `${operation} on ${resource}: ${reason}`, { operation, resource })
}

/** The topic as the cluster's answer has it. */
function topicIn({ topics }: ApiResponse<'Metadata'>, name: string): Asked<MetadataTopic> {
  const topic = topics.find((candidate) => candidate.topic === name)
  if (topic === undefined) return { kind: 'unanswered', reason: 'the answer did not name it' }
  const disposition = dispositionOf('Metadata', topic.errorCode)
  if (disposition === 'ok') return { kind: 'answered', value: topic }
  const reason = `Metadata answered ${kafkaErrorName(topic.errorCode)}`
  if (disposition === 'absent') return { kind: 'absent', reason }
  const attempted = { operation: 'Describe', resource: `topic '${name}'` }
  const isForbidden = refusalError('Metadata', topic.errorCode, attempted).code === 'UNAUTHORIZED'
  return isForbidden ? { kind: 'forbidden', ...attempted, reason } : { kind: 'unanswered', reason }
}

async function brokerFacts(survey: Survey, brokers: readonly Node[], bound: Bound): Promise<readonly BrokerFacts[]> {
  return await Promise.all(
    brokers.map(async (node) => {
      const versions = await survey.apiVersions(node, bound)
      const settings = versions.kind === 'answered' ? await survey.brokerSettings(node, bound) : versions
      return { node, versions, settings }
    }),
  )
}

async function topicFacts(
  survey: Survey,
  topic: Asked<MetadataTopic>,
  name: string,
  brokerCount: number,
  bound: Bound,
): Promise<TopicCheck> {
  const settings = topic.kind === 'answered' ? await survey.topicSettings(name, bound) : topic
  return { name, topic, settings, brokerCount }
}

async function topicRights(
  survey: Survey,
  topic: Asked<MetadataTopic>,
  bound: Bound,
): Promise<readonly VerifyFinding[]> {
  if (topic.kind !== 'answered') return []
  return judgeTopicRights(topic.value, await survey.acls(topic.value.topic, bound))
}

interface Log {
  readonly reading: LogReading
  readonly scans: readonly PartitionScan[]
}

async function readLog(
  { connection, runtime, settings }: Services,
  topic: Asked<MetadataTopic>,
  brokers: readonly Node[],
  bound: Bound,
): Promise<Log> {
  const { requestTimeoutMs } = settings
  const partitions = topic.kind === 'answered' && mayRead(topic.value) ? topic.value.partitions : []
  const reading = new LogReading(Math.max(1, partitions.length))
  const scans = await Promise.all(
    [...byLeader(partitions, brokers)].flatMap(async ([leader, those]) => {
      const done: PartitionScan[] = []
      // One after the other, for they share a socket with whatever this client leads.
      for (const partition of those) {
        const place = { topic: settings.topic, partition, leader }
        const scan = await scanPartition(
          { connection, runtime, requestTimeoutMs },
          place,
          (records, settledBelow) => reading.take(partition, records, settledBelow),
          bound,
        )
        done.push(scan)
      }
      return done
    }),
  )
  return { reading, scans: scans.flat() }
}

function mayRead({ authorizedOperations }: MetadataTopic): boolean {
  return authorizedOperations === undefined || (authorizedOperations & (1 << operations.read)) !== 0
}

function byLeader(
  partitions: MetadataTopic['partitions'],
  brokers: readonly Node[],
): ReadonlyMap<Node, readonly number[]> {
  const led = new Map<Node, number[]>()
  for (const { partition, leaderId } of partitions) {
    const leader = brokers.find(({ id }) => id === leaderId)
    if (leader !== undefined) led.set(leader, [...(led.get(leader) ?? []), partition])
  }
  return led
}

/** Open transactions of the topic that no coordinator will end. */
async function openTransactions(
  survey: Survey,
  topic: Asked<MetadataTopic>,
  brokers: readonly Node[],
  facts: readonly BrokerFacts[],
  { runtime }: Services,
  bound: Bound,
): Promise<readonly VerifyFinding[]> {
  if (topic.kind !== 'answered' || !mayRead(topic.value)) return []
  const { topic: name, partitions } = topic.value
  const longestMs = settingOf(facts, 'transaction.max.timeout.ms')
  const judged = [...byLeader(partitions, brokers)].map(async ([leader, those]) => {
    const producers = await survey.producers(leader, name, those, bound)
    return judgeProducers(name, producers, longestMs, wallNow(runtime))
  })
  return (await Promise.all(judged)).flat()
}

/** The greatest value of a setting among the brokers that told theirs. */
function settingOf(facts: readonly BrokerFacts[], name: string): number | undefined {
  const values = facts.flatMap(({ settings }) => {
    const value = settings.kind === 'answered' ? numberOf(settings.value, name) : undefined
    return value === undefined ? [] : [value]
  })
  return values.length === 0 ? undefined : Math.max(...values)
}

async function unfinishedTransactions(
  survey: Survey,
  brokers: readonly Node[],
  bound: Bound,
): Promise<{ readonly ids: readonly string[]; readonly findings: readonly VerifyFinding[] }> {
  const listed = await Promise.all(
    brokers.map((node) => survey.unfinishedTransactions(node, youngestTransactionMs, bound)),
  )
  return {
    ids: listed.flatMap((asked) => (asked.kind === 'answered' ? asked.value : [])),
    findings: listed.flatMap((asked, index) => {
      const broker = brokers[index]?.id
      if (asked.kind === 'answered' || broker === undefined) return []
      return [notChecked('the transactions of a coordinator', asked, { broker })]
    }),
  }
}

/** Transactions of roles, or with the coordination topic; what else hangs in the cluster is somebody else's. */
async function hangingTransactions(
  { runtime, settings }: Services,
  survey: Survey,
  ids: readonly string[],
  roles: ReadonlySet<string>,
  bound: Bound,
): Promise<readonly VerifyFinding[]> {
  const describe = async (those: readonly string[]): Promise<readonly TransactionDescription[]> =>
    [...(await survey.transactions(those, bound)).values()].flatMap((asked) =>
      asked.kind === 'answered' ? [asked.value] : [],
    )
  const first = (await describe(ids)).filter(
    ({ transactionalId, topics }) => roles.has(transactionalId) || topics.some(({ topic }) => topic === settings.topic),
  )
  const finishing = first.filter(({ state }) => state.startsWith('Prepare'))
  if (finishing.length > 0) await pause(runtime, finishingMs, bound)
  const second = new Map(
    (await describe(finishing.map(({ transactionalId }) => transactionalId))).map((transaction) => [
      transaction.transactionalId,
      transaction,
    ]),
  )
  return judgeTransactions(
    first.map((transaction) => ({
      transaction,
      isStuck: isSame(transaction, second.get(transaction.transactionalId)),
    })),
    wallNow(runtime),
  )
}

function isSame(before: TransactionDescription, after: TransactionDescription | undefined): boolean {
  return (
    after?.state === before.state &&
    after.producerId === before.producerId &&
    after.producerEpoch === before.producerEpoch &&
    after.startTimeMs === before.startTimeMs
  )
}

async function roleFacts(
  { runtime, settings }: Services,
  survey: Survey,
  { reading, scans }: Log,
  facts: readonly BrokerFacts[],
  bound: Bound,
): Promise<readonly VerifyFinding[]> {
  const { roles } = reading
  const sentAt = runtime.monotonicNow()
  const described = await survey.transactions(roles, bound)
  const looks = new Map<string, RoleLook>()
  for (const [role, asked] of described) {
    if (asked.kind === 'answered') {
      const { producerId, producerEpoch } = asked.value
      looks.set(role, { found: true, producerId, producerEpoch, sentAt })
    } else if (asked.kind === 'absent') {
      looks.set(role, { found: false, producerId: -1n, producerEpoch: -1, sentAt })
    }
  }
  const rights = await Promise.all(
    roles.slice(0, mostRolesAskedForRights).map(async (role) => {
      const describe: Asked<unknown> = described.get(role) ?? { kind: 'unanswered', reason: 'it was not asked' }
      // Its coordinator gives no answer, or there is nothing to tell beyond what it said.
      const mayAsk = describe.kind === 'answered' || describe.kind === 'absent'
      return { role, describe, write: mayAsk ? await survey.mayWriteUnder(role, bound) : describe }
    }),
  )
  return [
    ...judgeRoleRights(rights),
    ...reading.findings(scans, {
      topic: settings.topic,
      now: runtime.wallNow(),
      policy: settings.policy,
      looks,
      idExpirationMs: settingOf(facts, 'transactional.id.expiration.ms'),
    }),
  ]
}

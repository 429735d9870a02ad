/**
 * What each Kafka error code means to each request: the one table. No other file compares codes.
 *
 * It says what to do next, not what it means for a term: the flow that asked gives `fenced` its meaning (a lost race, done, or
 * a loss).
 */
import type { CoordinationError } from '../errors.js'
import { coordinationError } from '../errors.js'
import type { ApiName } from './connection.js'

/** What a flow does about an answer. */
export type Disposition =
  /** Done. */
  | 'ok'
  /** The token is not the newest epoch of its transactional id. */
  | 'fenced'
  /** Send the same request again on the schedule of `concurrentTransactionsDelayMs`. */
  | 'retry-now'
  /** A plain mint met an unfinished transaction: look again on the same schedule (I10). */
  | 'look-again'
  /** Send the same request again after a growing back-off. */
  | 'retry-later'
  /** Forget the leader or coordinator, find it again, then send the same request. */
  | 'find-again'
  /** This record or partition alone is at fault. */
  | 'refuse'
  /** Another part of the same request is at fault, and this one was not tried. */
  | 'not-attempted'
  /** 48 after a good AddPartitionsToTxn: one more AddPartitionsToTxn tells whether this is a fence. */
  | 'ask-again'
  /** The thing asked for does not exist. */
  | 'absent'
  /** What was read so far no longer stands: read from the earliest offset. */
  | 're-read'
  /** No repetition helps. */
  | 'fatal'

interface CodeRow {
  readonly name: string
  readonly disposition: Disposition
  readonly byApi?: { readonly [A in ApiName]?: Disposition }
}

const later = (name: string): CodeRow => ({ name, disposition: 'retry-later' })
const find = (name: string): CodeRow => ({ name, disposition: 'find-again' })
const fatal = (name: string): CodeRow => ({ name, disposition: 'fatal' })
const refuse = (name: string): CodeRow => ({ name, disposition: 'fatal', byApi: { Produce: 'refuse' } })

const table: ReadonlyMap<number, CodeRow> = new Map<number, CodeRow>([
  [-1, later('UNKNOWN_SERVER_ERROR')],
  [0, { name: 'NONE', disposition: 'ok' }],
  [1, { name: 'OFFSET_OUT_OF_RANGE', disposition: 'fatal', byApi: { Fetch: 're-read' } }],
  [2, later('CORRUPT_MESSAGE')],
  [
    3,
    {
      name: 'UNKNOWN_TOPIC_OR_PARTITION',
      disposition: 'find-again',
      byApi: { Metadata: 'absent', AddPartitionsToTxn: 'refuse', DescribeConfigs: 'absent', TxnOffsetCommit: 'refuse' },
    },
  ],
  [4, fatal('INVALID_FETCH_SIZE')],
  [5, find('LEADER_NOT_AVAILABLE')],
  [6, find('NOT_LEADER_OR_FOLLOWER')],
  [7, later('REQUEST_TIMED_OUT')],
  [8, find('BROKER_NOT_AVAILABLE')],
  [9, find('REPLICA_NOT_AVAILABLE')],
  [10, refuse('MESSAGE_TOO_LARGE')],
  [11, later('STALE_CONTROLLER_EPOCH')],
  [12, { name: 'OFFSET_METADATA_TOO_LARGE', disposition: 'fatal', byApi: { TxnOffsetCommit: 'refuse' } }],
  [13, find('NETWORK_EXCEPTION')],
  [14, later('COORDINATOR_LOAD_IN_PROGRESS')],
  [15, find('COORDINATOR_NOT_AVAILABLE')],
  [16, find('NOT_COORDINATOR')],
  [17, refuse('INVALID_TOPIC_EXCEPTION')],
  [18, refuse('RECORD_LIST_TOO_LARGE')],
  [19, later('NOT_ENOUGH_REPLICAS')],
  [20, later('NOT_ENOUGH_REPLICAS_AFTER_APPEND')],
  [21, fatal('INVALID_REQUIRED_ACKS')],
  [22, fatal('ILLEGAL_GENERATION')],
  [23, fatal('INCONSISTENT_GROUP_PROTOCOL')],
  [
    24,
    { name: 'INVALID_GROUP_ID', disposition: 'fatal', byApi: { TxnOffsetCommit: 'refuse', AddOffsetsToTxn: 'refuse' } },
  ],
  [25, fatal('UNKNOWN_MEMBER_ID')],
  [26, fatal('INVALID_SESSION_TIMEOUT')],
  [27, later('REBALANCE_IN_PROGRESS')],
  [28, { name: 'INVALID_COMMIT_OFFSET_SIZE', disposition: 'fatal', byApi: { TxnOffsetCommit: 'refuse' } }],
  [
    29,
    {
      name: 'TOPIC_AUTHORIZATION_FAILED',
      disposition: 'fatal',
      byApi: { AddPartitionsToTxn: 'refuse', TxnOffsetCommit: 'refuse' },
    },
  ],
  [
    30,
    {
      name: 'GROUP_AUTHORIZATION_FAILED',
      disposition: 'fatal',
      byApi: { TxnOffsetCommit: 'refuse', AddOffsetsToTxn: 'refuse' },
    },
  ],
  [31, fatal('CLUSTER_AUTHORIZATION_FAILED')],
  [32, refuse('INVALID_TIMESTAMP')],
  [33, fatal('UNSUPPORTED_SASL_MECHANISM')],
  [34, fatal('ILLEGAL_SASL_STATE')],
  [35, fatal('UNSUPPORTED_VERSION')],
  [36, { name: 'TOPIC_ALREADY_EXISTS', disposition: 'fatal', byApi: { CreateTopics: 'ok' } }],
  [37, fatal('INVALID_PARTITIONS')],
  [38, fatal('INVALID_REPLICATION_FACTOR')],
  [39, fatal('INVALID_REPLICA_ASSIGNMENT')],
  [40, fatal('INVALID_CONFIG')],
  [41, find('NOT_CONTROLLER')],
  [42, fatal('INVALID_REQUEST')],
  [43, fatal('UNSUPPORTED_FOR_MESSAGE_FORMAT')],
  [44, { name: 'POLICY_VIOLATION', disposition: 'fatal', byApi: { Produce: 'refuse' } }],
  [45, fatal('OUT_OF_ORDER_SEQUENCE_NUMBER')],
  // To Produce too: the offsets of the first copy are unknown. A broker answers a recent duplicate with 0 and its offset.
  [46, fatal('DUPLICATE_SEQUENCE_NUMBER')],
  [47, { name: 'INVALID_PRODUCER_EPOCH', disposition: 'fenced' }],
  [
    48,
    { name: 'INVALID_TXN_STATE', disposition: 'fatal', byApi: { Produce: 'ask-again', TxnOffsetCommit: 'ask-again' } },
  ],
  [49, { name: 'INVALID_PRODUCER_ID_MAPPING', disposition: 'fenced' }],
  [50, fatal('INVALID_TRANSACTION_TIMEOUT')],
  [51, { name: 'CONCURRENT_TRANSACTIONS', disposition: 'retry-now' }],
  [52, find('TRANSACTION_COORDINATOR_FENCED')],
  [53, fatal('TRANSACTIONAL_ID_AUTHORIZATION_FAILED')],
  [54, { name: 'SECURITY_DISABLED', disposition: 'fatal', byApi: { DescribeAcls: 'absent' } }],
  [55, { name: 'OPERATION_NOT_ATTEMPTED', disposition: 'fatal', byApi: { AddPartitionsToTxn: 'not-attempted' } }],
  [56, find('KAFKA_STORAGE_ERROR')],
  [57, fatal('LOG_DIR_NOT_FOUND')],
  [58, fatal('SASL_AUTHENTICATION_FAILED')],
  [59, { name: 'UNKNOWN_PRODUCER_ID', disposition: 'fatal', byApi: { Produce: 'ask-again' } }],
  [60, later('REASSIGNMENT_IN_PROGRESS')],
  [61, fatal('DELEGATION_TOKEN_AUTH_DISABLED')],
  [62, fatal('DELEGATION_TOKEN_NOT_FOUND')],
  [63, fatal('DELEGATION_TOKEN_OWNER_MISMATCH')],
  [64, fatal('DELEGATION_TOKEN_REQUEST_NOT_ALLOWED')],
  [65, fatal('DELEGATION_TOKEN_AUTHORIZATION_FAILED')],
  [66, fatal('DELEGATION_TOKEN_EXPIRED')],
  [67, fatal('INVALID_PRINCIPAL_TYPE')],
  [68, fatal('NON_EMPTY_GROUP')],
  [69, fatal('GROUP_ID_NOT_FOUND')],
  [70, later('FETCH_SESSION_ID_NOT_FOUND')],
  [71, later('INVALID_FETCH_SESSION_EPOCH')],
  [72, find('LISTENER_NOT_FOUND')],
  [73, fatal('TOPIC_DELETION_DISABLED')],
  [74, find('FENCED_LEADER_EPOCH')],
  [75, find('UNKNOWN_LEADER_EPOCH')],
  [76, refuse('UNSUPPORTED_COMPRESSION_TYPE')],
  [77, later('STALE_BROKER_EPOCH')],
  [78, later('OFFSET_NOT_AVAILABLE')],
  [79, fatal('MEMBER_ID_REQUIRED')],
  [80, find('PREFERRED_LEADER_NOT_AVAILABLE')],
  [81, fatal('GROUP_MAX_SIZE_REACHED')],
  [82, fatal('FENCED_INSTANCE_ID')],
  [83, find('ELIGIBLE_LEADERS_NOT_AVAILABLE')],
  [84, fatal('ELECTION_NOT_NEEDED')],
  [85, fatal('NO_REASSIGNMENT_IN_PROGRESS')],
  [86, fatal('GROUP_SUBSCRIBED_TO_TOPIC')],
  [87, refuse('INVALID_RECORD')],
  [88, later('UNSTABLE_OFFSET_COMMIT')],
  [89, later('THROTTLING_QUOTA_EXCEEDED')],
  [90, { name: 'PRODUCER_FENCED', disposition: 'fenced' }],
  [91, fatal('RESOURCE_NOT_FOUND')],
  [92, fatal('DUPLICATE_RESOURCE')],
  [93, fatal('UNACCEPTABLE_CREDENTIAL')],
  [94, fatal('INCONSISTENT_VOTER_SET')],
  [95, fatal('INVALID_UPDATE_VERSION')],
  [96, fatal('FEATURE_UPDATE_FAILED')],
  [97, fatal('PRINCIPAL_DESERIALIZATION_FAILURE')],
  [98, fatal('SNAPSHOT_NOT_FOUND')],
  [99, fatal('POSITION_OUT_OF_RANGE')],
  [100, find('UNKNOWN_TOPIC_ID')],
  [101, fatal('DUPLICATE_BROKER_REGISTRATION')],
  [102, fatal('BROKER_ID_NOT_REGISTERED')],
  [103, find('INCONSISTENT_TOPIC_ID')],
  [104, fatal('INCONSISTENT_CLUSTER_ID')],
  [105, { name: 'TRANSACTIONAL_ID_NOT_FOUND', disposition: 'fatal', byApi: { DescribeTransactions: 'absent' } }],
  [106, later('FETCH_SESSION_TOPIC_ID_ERROR')],
  [107, fatal('INELIGIBLE_REPLICA')],
  [108, find('NEW_LEADER_ELECTED')],
  [109, fatal('OFFSET_MOVED_TO_TIERED_STORAGE')],
  [110, fatal('FENCED_MEMBER_EPOCH')],
  [111, fatal('UNRELEASED_INSTANCE_ID')],
  [112, fatal('UNSUPPORTED_ASSIGNOR')],
  [113, fatal('STALE_MEMBER_EPOCH')],
  [114, fatal('MISMATCHED_ENDPOINT_TYPE')],
  [115, fatal('UNSUPPORTED_ENDPOINT_TYPE')],
  [116, fatal('UNKNOWN_CONTROLLER_ID')],
  [117, fatal('UNKNOWN_SUBSCRIPTION_ID')],
  [118, fatal('TELEMETRY_TOO_LARGE')],
  [119, fatal('INVALID_REGISTRATION')],
  [120, { name: 'TRANSACTION_ABORTABLE', disposition: 'ask-again' }],
  [121, fatal('INVALID_RECORD_STATE')],
  [122, fatal('SHARE_SESSION_NOT_FOUND')],
  [123, fatal('INVALID_SHARE_SESSION_EPOCH')],
  [124, fatal('FENCED_STATE_EPOCH')],
  [125, fatal('INVALID_VOTER_KEY')],
  [126, fatal('DUPLICATE_VOTER')],
  [127, fatal('VOTER_NOT_FOUND')],
  [128, fatal('INVALID_REGULAR_EXPRESSION')],
  [129, later('REBOOTSTRAP_REQUIRED')],
  [130, fatal('STREAMS_INVALID_TOPOLOGY')],
  [131, fatal('STREAMS_INVALID_TOPOLOGY_EPOCH')],
  [132, fatal('STREAMS_TOPOLOGY_FENCED')],
  [133, fatal('SHARE_SESSION_LIMIT_REACHED')],
  [134, fatal('GROUP_DELETION_FAILED')],
  [135, fatal('STREAMS_TOPOLOGY_DESCRIPTION_UPDATE_FAILED')],
  [136, fatal('CONTROLLER_ID_NOT_REGISTERED')],
])

/** Every code in the table, for the test that compares it with kafka-clients' own list. */
export function knownKafkaCodes(): readonly { readonly code: number; readonly name: string }[] {
  return [...table].map(([code, { name }]) => ({ code, name }))
}

/** Kafka's name of a code with the number, such as `PRODUCER_FENCED (90)`. */
export function kafkaErrorName(code: number): string {
  return `${table.get(code)?.name ?? 'unknown Kafka error'} (${code})`
}

/** What to do about `code` in an answer to `api`. A code that is not in the table is `fatal`. */
export function dispositionOf(api: ApiName, code: number): Disposition {
  const row = table.get(code)
  return row?.byApi?.[api] ?? row?.disposition ?? 'fatal'
}

/** A resource and the operation on it, for an `UNAUTHORIZED` message. */
export interface Attempted {
  readonly operation: string
  readonly resource: string
}

const authorizationCodes: ReadonlySet<number> = new Set([29, 30, 31, 53, 58])

/** The error a caller sees for an answer that no repetition helps. */
export function refusalError(api: ApiName, code: number, attempted: Attempted): CoordinationError {
  const answer = `${api} answered ${kafkaErrorName(code)}`
  if (authorizationCodes.has(code)) {
    return coordinationError(
      'UNAUTHORIZED',
      `${attempted.operation} on ${attempted.resource} is not allowed: ${answer}; grant it to this client's principal`,
      { ...attempted, kafkaCode: code },
    )
  }
  if (code === 35) {
    return coordinationError('UNSUPPORTED', `The broker does not support what ${attempted.resource} needs: ${answer}`, {
      wanted: `${api} for ${attempted.resource}`,
    })
  }
  if (code === 50) {
    return coordinationError(
      'CONFIG',
      `transactionTimeoutMs of ${attempted.resource} is above the broker's transaction.max.timeout.ms: ${answer}; lower transactionTimeoutMs or leaseMs`,
      { option: 'transactionTimeoutMs' },
    )
  }
  return coordinationError('TRANSPORT', `${attempted.operation} on ${attempted.resource} failed: ${answer}`, {
    retriable: false,
    kafkaCode: code,
  })
}

/**
 * The seam between this library and a Kafka cluster: one request to one broker, with a deadline.
 *
 * Interface and data only. It says what a request means, never how it travels: `src/kafka` implements it on sockets, and a
 * cluster in memory can implement it on virtual time. No file above it may know which one it talks to, and nothing here
 * may retry, cache or interpret an answer: error codes are handed up as the numbers the broker sent.
 */

/** A broker's address, as Metadata and FindCoordinator answer it. */
export interface Node {
  readonly id: number
  readonly host: string
  readonly port: number
}

/**
 * A connection of its own to each broker, made at first use:
 * - `poll` carries the long-poll Fetch and nothing else,
 * - `work` carries everything that is not named here,
 * - `mint` carries looks, mints and seals, one request in flight (I10).
 */
export type Channel = 'poll' | 'work' | 'mint'

/** A record header: its key and its value. */
export type RecordHeader = readonly [key: string, value: Uint8Array | null]

/** One record to be produced. `timestamp` is milliseconds since 1970. */
export interface ProducedRecord {
  readonly key: Uint8Array | null
  readonly value: Uint8Array | null
  readonly headers: readonly RecordHeader[]
  readonly timestamp: bigint
}

/**
 * The records for one partition in one Produce. Encoding it is a function of this value alone, so the same value sent again
 * is the same bytes (I9). A plain batch has producer id -1, epoch -1 and sequence -1.
 */
export interface ProducedBatch {
  readonly producerId: bigint
  readonly producerEpoch: number
  readonly baseSequence: number
  readonly transactional: boolean
  readonly records: readonly ProducedRecord[]
}

/** One record as a Fetch brought it. */
export interface FetchedRecord {
  readonly offset: bigint
  readonly key: Uint8Array | null
  readonly value: Uint8Array | null
  readonly headers: readonly RecordHeader[]
}

/** One record batch as a Fetch brought it; compaction may have emptied it. */
export interface FetchedBatch {
  readonly baseOffset: bigint
  /** Base offset + last offset delta: the position behind this batch is one more. */
  readonly lastOffset: bigint
  readonly partitionLeaderEpoch: number
  readonly producerId: bigint
  readonly producerEpoch: number
  readonly transactional: boolean
  /** The timestamp-type bit: true when the broker stamped `maxTimestamp` at append. */
  readonly logAppendTime: boolean
  readonly maxTimestamp: bigint
  /** What a control batch decides; undefined for a batch of data. */
  readonly control: 'commit' | 'abort' | 'other' | undefined
  /** Empty for a control batch, and for one whose records cannot be read (then `undecodable` says why). */
  readonly records: readonly FetchedRecord[]
  readonly undecodable?: string
}

/** The range of versions of one API, by API key, that a broker speaks. */
export interface ApiRange {
  readonly apiKey: number
  readonly minVersion: number
  readonly maxVersion: number
}

export interface MetadataPartition {
  readonly errorCode: number
  readonly partition: number
  /** -1 when there is none. */
  readonly leaderId: number
  readonly leaderEpoch: number
  readonly replicas: readonly number[]
  readonly inSyncReplicas: readonly number[]
}

export interface MetadataTopic {
  readonly errorCode: number
  readonly topic: string
  /** Tells a topic from an earlier one of the same name (KIP-516); absent where the cluster does not say. */
  readonly topicId?: string
  readonly partitions: readonly MetadataPartition[]
  /** A bit for each operation, by Kafka's number of it, that this principal may do; absent unless it was asked for. */
  readonly authorizedOperations?: number
}

export interface TopicPartitions {
  readonly topic: string
  readonly partitions: readonly number[]
}

export interface PartitionError {
  readonly partition: number
  readonly errorCode: number
}

export interface TopicErrors {
  readonly topic: string
  readonly partitions: readonly PartitionError[]
}

/** What a transaction coordinator knows of one transactional id. */
export interface TransactionDescription {
  readonly errorCode: number
  readonly transactionalId: string
  /** Kafka's words: Empty, Ongoing, PrepareCommit, PrepareAbort, CompleteCommit, CompleteAbort, Dead, PrepareEpochFence. */
  readonly state: string
  readonly timeoutMs: number
  /** -1 when no transaction was begun since the last mint. */
  readonly startTimeMs: bigint
  readonly producerId: bigint
  readonly producerEpoch: number
  readonly topics: readonly TopicPartitions[]
}

/** A producer that a partition's leader knows. */
export interface ActiveProducer {
  readonly producerId: bigint
  readonly producerEpoch: number
  /** Milliseconds since 1970, by the timestamps of its last batch. */
  readonly lastTimestamp: bigint
  /** First offset of its open transaction; -1 when none is open. */
  readonly transactionStart: bigint
}

/** Who may, or may not, do an operation. */
export interface AclBinding {
  readonly principal: string
  /** Kafka's number of the operation. */
  readonly operation: number
  readonly isAllowed: boolean
}

interface TransactionIdentity {
  readonly transactionalId: string
  readonly producerId: bigint
  readonly producerEpoch: number
}

/**
 * Every request this library sends and what is answered, by Kafka's API name. The version of each is fixed by the
 * implementation and never bumps a producer epoch (I4): EndTxn <= 4, AddPartitionsToTxn <= 3, AddOffsetsToTxn <= 3,
 * Produce <= 11, TxnOffsetCommit <= 4.
 */
export interface ApiTable {
  ApiVersions: {
    request: { readonly api: 'ApiVersions' }
    response: {
      readonly errorCode: number
      readonly apis: readonly ApiRange[]
      /** Finalized feature levels, such as `transaction.version`; a feature that is absent has level 0. */
      readonly features: ReadonlyMap<string, number>
    }
  }
  /** Never creates a topic. No topics = brokers only. */
  Metadata: {
    request: {
      readonly api: 'Metadata'
      readonly topics: readonly string[]
      readonly withAuthorizedOperations?: boolean
    }
    response: {
      readonly brokers: readonly Node[]
      readonly clusterId: string | null
      readonly controllerId: number
      readonly topics: readonly MetadataTopic[]
    }
  }
  FindCoordinator: {
    request: { readonly api: 'FindCoordinator'; readonly keyType: 'group' | 'transaction'; readonly key: string }
    response: { readonly errorCode: number; readonly errorMessage: string | null; readonly node: Node }
  }
  /** The coordinators of many keys. A key that the broker left out is missing. */
  FindCoordinators: {
    request: {
      readonly api: 'FindCoordinators'
      readonly keyType: 'group' | 'transaction'
      readonly keys: readonly string[]
    }
    response: {
      readonly coordinators: readonly { readonly key: string; readonly errorCode: number; readonly node: Node }[]
    }
  }
  /** Producer id and epoch -1 = a plain mint; a pair = compare-and-swap (I3). */
  InitProducerId: {
    request: TransactionIdentity & { readonly api: 'InitProducerId'; readonly transactionTimeoutMs: number }
    response: { readonly errorCode: number; readonly producerId: bigint; readonly producerEpoch: number }
  }
  AddPartitionsToTxn: {
    request: TransactionIdentity & { readonly api: 'AddPartitionsToTxn'; readonly topics: readonly TopicPartitions[] }
    response: { readonly topics: readonly TopicErrors[] }
  }
  AddOffsetsToTxn: {
    request: TransactionIdentity & { readonly api: 'AddOffsetsToTxn'; readonly groupId: string }
    response: { readonly errorCode: number }
  }
  /** Always acks = all. `timeoutMs` is how long the broker may wait for its replicas. */
  Produce: {
    request: {
      readonly api: 'Produce'
      readonly transactionalId: string | null
      readonly timeoutMs: number
      readonly topics: readonly {
        readonly topic: string
        readonly partitions: readonly { readonly partition: number; readonly batch: ProducedBatch }[]
      }[]
    }
    response: {
      readonly topics: readonly {
        readonly topic: string
        readonly partitions: readonly {
          readonly partition: number
          readonly errorCode: number
          readonly baseOffset: bigint
          readonly errorMessage: string | null
          /** Indexes within the batch of the records that made the broker refuse it. */
          readonly recordErrors: readonly { readonly batchIndex: number; readonly message: string | null }[]
        }[]
      }[]
    }
  }
  EndTxn: {
    request: TransactionIdentity & { readonly api: 'EndTxn'; readonly committed: boolean }
    response: { readonly errorCode: number }
  }
  TxnOffsetCommit: {
    request: TransactionIdentity & {
      readonly api: 'TxnOffsetCommit'
      readonly groupId: string
      readonly topics: readonly {
        readonly topic: string
        readonly partitions: readonly {
          readonly partition: number
          readonly offset: bigint
          readonly metadata: string | null
        }[]
      }[]
    }
    response: { readonly topics: readonly TopicErrors[] }
  }
  /** Isolation 0 (read_uncommitted), sessionless. */
  Fetch: {
    request: {
      readonly api: 'Fetch'
      readonly maxWaitMs: number
      readonly minBytes: number
      readonly maxBytes: number
      readonly partitionMaxBytes: number
      readonly topic: string
      readonly partitions: readonly {
        readonly partition: number
        readonly currentLeaderEpoch: number
        readonly offset: bigint
        /** Epoch of the last batch read, or -1: lets the leader detect a log that was cut back (KIP-595). */
        readonly lastFetchedEpoch: number
      }[]
    }
    response: {
      readonly errorCode: number
      readonly partitions: readonly {
        readonly partition: number
        readonly errorCode: number
        readonly highWatermark: bigint
        readonly logStartOffset: bigint
        /** Set when the log was cut back below the offset asked for. */
        readonly divergingEpoch?: { readonly epoch: number; readonly endOffset: bigint }
        readonly batches: readonly FetchedBatch[]
      }[]
    }
  }
  /** Isolation 0: `latest` is the high watermark. */
  ListOffsets: {
    request: {
      readonly api: 'ListOffsets'
      readonly topic: string
      readonly partitions: readonly {
        readonly partition: number
        readonly currentLeaderEpoch: number
        readonly at: 'earliest' | 'latest'
      }[]
    }
    response: {
      readonly partitions: readonly {
        readonly partition: number
        readonly errorCode: number
        readonly offset: bigint
        readonly leaderEpoch: number
      }[]
    }
  }
  DescribeTransactions: {
    request: { readonly api: 'DescribeTransactions'; readonly transactionalIds: readonly string[] }
    response: { readonly transactions: readonly TransactionDescription[] }
  }
  CreateTopics: {
    request: {
      readonly api: 'CreateTopics'
      readonly topic: string
      readonly partitions: number
      readonly replicationFactor: number
      readonly configs: ReadonlyMap<string, string>
      readonly timeoutMs: number
    }
    response: { readonly errorCode: number; readonly errorMessage: string | null }
  }
  DescribeConfigs: {
    request: { readonly api: 'DescribeConfigs'; readonly topic: string }
    response: {
      readonly errorCode: number
      readonly errorMessage: string | null
      readonly configs: ReadonlyMap<string, string | null>
    }
  }
  /** The configuration of the broker that is asked, which must be the one named. */
  DescribeBrokerConfigs: {
    request: { readonly api: 'DescribeBrokerConfigs'; readonly broker: number }
    response: ApiTable['DescribeConfigs']['response']
  }
  /** Transactions that the broker coordinates; those of ids that the principal may not describe are left out. */
  ListTransactions: {
    request: {
      readonly api: 'ListTransactions'
      readonly states: readonly string[]
      /** Only those begun longer ago than this, by the broker's clock. */
      readonly longerThanMs: number
    }
    response: {
      readonly errorCode: number
      readonly transactions: readonly {
        readonly transactionalId: string
        readonly producerId: bigint
        readonly state: string
      }[]
    }
  }
  /** The producers that each partition's leader knows. */
  DescribeProducers: {
    request: { readonly api: 'DescribeProducers'; readonly topic: string; readonly partitions: readonly number[] }
    response: {
      readonly partitions: readonly {
        readonly partition: number
        readonly errorCode: number
        readonly producers: readonly ActiveProducer[]
      }[]
    }
  }
  /** The ACLs that apply to a topic, those of patterns included. */
  DescribeAcls: {
    request: { readonly api: 'DescribeAcls'; readonly topic: string }
    response: {
      readonly errorCode: number
      readonly errorMessage: string | null
      readonly bindings: readonly AclBinding[]
    }
  }
}

export type ApiName = keyof ApiTable
export type ApiRequest<A extends ApiName> = ApiTable[A]['request']
export type ApiResponse<A extends ApiName> = ApiTable[A]['response']

export interface RequestOptions {
  /** Monotonic instant (ms, of the runtime) by which the request settles, dialling included. */
  readonly deadline: number
  /**
   * On `mint` only: refuse with `not-idle`, in the same tick and with nothing written, when the channel is not connected, has
   * a request in flight, or is due for SASL re-authentication (I10).
   */
  readonly onlyIfIdle?: boolean
}

/** Why a request has no answer. */
export type RequestFailureKind =
  /** The deadline passed. The channel was reset before this was thrown. */
  | 'timeout'
  /** The connection closed, or was reset, while the request was under way. */
  | 'closed'
  /** No connection could be made: refused, unknown host, TLS. */
  | 'unreachable'
  /** The broker refused the credentials. */
  | 'authentication'
  /** `onlyIfIdle` was asked and the channel was not idle. */
  | 'not-idle'
  /** The broker does not speak the version that is needed. */
  | 'unsupported'
  /** The answer could not be decoded. */
  | 'malformed'

/**
 * A request without an answer. `written` is false only when it is certain that no byte of it left this process, so only then
 * may the caller conclude that nothing was applied (I9).
 */
export class RequestFailure extends Error {
  override readonly name = 'RequestFailure'
  readonly kind: RequestFailureKind
  readonly written: boolean

  constructor(kind: RequestFailureKind, message: string, options: { written: boolean; cause?: unknown }) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause })
    this.kind = kind
    this.written = options.written
  }
}

/**
 * A way to send requests to the brokers of one cluster.
 *
 * - Requests of one channel to one node are answered in the order they were sent; concurrent first use opens one connection.
 * - A request that times out resets its channel before it rejects, so that no request waits in a dead socket.
 * - A broken channel is dialled afresh by the next request.
 * - Every rejection is a `RequestFailure`.
 */
export interface ClusterConnection {
  /** `seed` = any broker of the list the user gave, the next one after each failure. Only with channel `work`. */
  request<A extends ApiName>(
    node: Node | 'seed',
    channel: Channel,
    request: ApiRequest<A> & { readonly api: A },
    options: RequestOptions,
  ): Promise<ApiResponse<A>>
  /** Closes the channel; requests under way reject with `closed` in this tick. The next request dials afresh. */
  reset(node: Node, channel: Channel): void
  /** Closes everything. Requests under way, and all later ones, reject with `closed`. */
  close(): void
}

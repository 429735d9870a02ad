/**
 * The coordination topic: made when it is missing and that is allowed, and its facts checked.
 *
 * A Metadata request never makes it. It must not change an existing topic: what does not fit is refused, naming topic, setting, value
 * found and value wanted.
 */
import { coordinationError } from '../errors.js'
import type { Runtime } from '../runtime.js'
import type { ClusterConnection, MetadataTopic } from './connection.js'
import { RequestFailure } from './connection.js'
import { throwIfHopeless } from './coordinator.js'
import { dispositionOf, kafkaErrorName, refusalError } from './error-table.js'
import type { Metadata } from './metadata.js'
import type { Bound } from './schedule.js'
import { backoffMs, isPast, pause, requestDeadline } from './schedule.js'

/** What is wanted of the topic. */
export interface TopicWish {
  readonly topic: string
  readonly create: boolean
  /** Partitions to create it with; an existing topic must have as many where `partitionsAreFixed`. */
  readonly partitions: number
  readonly partitionsAreFixed: boolean
  /** Undefined = 3, or as many as there are brokers. */
  readonly replicationFactor: number | undefined
}

/** What was found. */
export interface TopicFacts {
  readonly partitions: number
  /** Undefined where the cluster does not say. */
  readonly topicId: string | undefined
  /** How long a compacted tombstone can still be read, in ms; undefined where the settings may not be read. */
  readonly deleteRetentionMs: number | undefined
  /** What works, but less well than it could. */
  readonly warnings: readonly string[]
}

/** What finding and making the topic needs. */
export interface TopicDependencies {
  readonly connection: ClusterConnection
  readonly metadata: Metadata
  readonly runtime: Runtime
  readonly requestTimeoutMs: number
}

const readableCompression: ReadonlySet<string> = new Set(['producer', 'uncompressed', 'gzip'])

/**
 * Small segments that roll soon and are cleaned within the hour keep what a starting process replays to the last hour of renewals
 * and one record per key; `uncompressed` lets every port's producer be read by every other, whatever codec it prefers.
 */
function settingsFor(replicationFactor: number): ReadonlyMap<string, string> {
  return new Map([
    ['cleanup.policy', 'compact'],
    ['compression.type', 'uncompressed'],
    ['message.timestamp.type', 'LogAppendTime'],
    ['min.insync.replicas', replicationFactor >= 3 ? '2' : '1'],
    ['unclean.leader.election.enable', 'false'],
    ['segment.bytes', String(16 * 1024 * 1024)],
    ['segment.ms', '600000'],
    ['max.compaction.lag.ms', '3600000'],
    ['min.cleanable.dirty.ratio', '0.1'],
    ['delete.retention.ms', '86400000'],
  ])
}

/**
 * Finds the topic, or makes it, and checks it.
 *
 * @throws `TOPIC` when it is missing or does not fit; `UNAUTHORIZED`, `UNSUPPORTED`; `TRANSPORT` at the deadline.
 */
export async function ensureTopic(dependencies: TopicDependencies, wish: TopicWish, bound: Bound): Promise<TopicFacts> {
  const found = await findOrCreate(dependencies, wish, bound)
  const partitions = found.partitions.length
  if (wish.partitionsAreFixed && partitions !== wish.partitions) {
    throw misfit(wish.topic, 'partitions', String(partitions), String(wish.partitions))
  }
  const configs = await readSettings(dependencies, wish.topic, bound)
  if (configs === undefined) {
    return {
      partitions,
      topicId: found.topicId,
      deleteRetentionMs: undefined,
      warnings: [`The settings of topic '${wish.topic}' could not be read: no DESCRIBE_CONFIGS`],
    }
  }
  const replicas = Math.min(...found.partitions.map((partition) => partition.replicas.length))
  refuseMisfits(wish.topic, configs, replicas)
  const retention = Number(configs.get('delete.retention.ms') ?? Number.NaN)
  return {
    partitions,
    topicId: found.topicId,
    deleteRetentionMs: Number.isFinite(retention) ? retention : undefined,
    warnings: warningsOf(wish.topic, configs),
  }
}

function refuseMisfits(topic: string, configs: ReadonlyMap<string, string | null>, replicas: number): void {
  const policy = configs.get('cleanup.policy') ?? ''
  if (policy !== 'compact') throw misfit(topic, 'cleanup.policy', policy, 'compact')
  const unclean = configs.get('unclean.leader.election.enable') ?? 'false'
  if (unclean !== 'false') throw misfit(topic, 'unclean.leader.election.enable', unclean, 'false')
  const compression = configs.get('compression.type') ?? 'producer'
  if (!readableCompression.has(compression)) throw misfit(topic, 'compression.type', compression, 'uncompressed')
  const inSync = configs.get('min.insync.replicas') ?? '1'
  if (Number(inSync) > replicas)
    throw misfit(topic, 'min.insync.replicas', inSync, `at most the ${replicas} replicas it has`)
}

function warningsOf(topic: string, configs: ReadonlyMap<string, string | null>): readonly string[] {
  const wanted: readonly (readonly [string, string, string])[] = [
    ['message.timestamp.type', 'LogAppendTime', 'a process that starts after a crash waits a whole lease'],
    ['compression.type', 'uncompressed', 'a port that compresses with snappy, lz4 or zstd cannot be read'],
  ]
  return wanted.flatMap(([setting, value, consequence]) => {
    const found = configs.get(setting)
    if (found === undefined || found === value) return []
    return [`Topic '${topic}' has ${setting} = ${found ?? 'null'}, better ${value}: ${consequence}`]
  })
}

function misfit(topic: string, setting: string, found: string, wanted: string): Error {
  return coordinationError(
    'TOPIC',
    `Topic '${topic}' has ${setting} = ${found}, wanted ${wanted}; change the topic or name another with the topic option`,
    { topic, setting, found, wanted },
  )
}

/** Repeats `attempt` until it gives something, for as long as its failures may pass. */
async function untilDone<T>(
  { runtime, requestTimeoutMs }: TopicDependencies,
  what: { operation: string; resource: string },
  bound: Bound,
  attempt: (deadline: number) => Promise<{ readonly done: T } | { readonly again: string }>,
): Promise<T> {
  let problem = 'no broker answered'
  let cause: unknown
  for (let count = 0; ; count++) {
    bound.signal?.throwIfAborted()
    // Not one more attempt after the pause: it would only say that it came too late, in place of what was in the way.
    if (count > 0 && isPast(runtime, bound)) {
      throw coordinationError(
        'TRANSPORT',
        `${what.operation} on ${what.resource} failed: ${problem}`,
        { retriable: true },
        { cause },
      )
    }
    try {
      const result = await attempt(requestDeadline(runtime, requestTimeoutMs, bound))
      if ('done' in result) return result.done
      problem = result.again
      cause = undefined
    } catch (error) {
      if (!(error instanceof RequestFailure)) throw error
      throwIfHopeless(error, what)
      problem = error.message
      cause = error
    }
    await pause(runtime, backoffMs(runtime, count), bound)
  }
}

async function findOrCreate(dependencies: TopicDependencies, wish: TopicWish, bound: Bound): Promise<MetadataTopic> {
  const { connection, metadata } = dependencies
  const describe = { operation: 'Describe', resource: `topic '${wish.topic}'` }
  let asked = false
  return await untilDone<MetadataTopic>(dependencies, describe, bound, async (deadline) => {
    const look = await metadata.look(wish.topic, { deadline })
    if (look.kind === 'found') {
      const leaderless = look.topic.partitions.filter(({ leaderId }) => leaderId < 0)
      if (asked && leaderless.length > 0) return { again: `${leaderless.length} partitions have no leader yet` }
      return { done: look.topic }
    }
    if (look.kind === 'refused') {
      if (dispositionOf('Metadata', look.errorCode) === 'fatal')
        throw refusalError('Metadata', look.errorCode, describe)
      return { again: `Metadata answered ${kafkaErrorName(look.errorCode)}` }
    }
    if (asked) return { again: 'the topic was made and is not known everywhere yet' }
    if (!wish.create) {
      throw coordinationError(
        'TOPIC',
        `Topic '${wish.topic}' does not exist and createTopic is false; make it with ${wish.partitions} partitions and cleanup.policy=compact`,
        { topic: wish.topic, setting: 'existence', found: 'missing', wanted: 'present' },
      )
    }
    const { brokers } = await connection.request('seed', 'work', { api: 'Metadata', topics: [] }, { deadline })
    const replicationFactor = wish.replicationFactor ?? Math.min(3, Math.max(1, brokers.length))
    const created = await connection.request(
      'seed',
      'work',
      {
        api: 'CreateTopics',
        topic: wish.topic,
        partitions: wish.partitions,
        replicationFactor,
        configs: settingsFor(replicationFactor),
        timeoutMs: dependencies.requestTimeoutMs,
      },
      { deadline },
    )
    const disposition = dispositionOf('CreateTopics', created.errorCode)
    if (disposition === 'fatal') {
      const refusal = refusalError('CreateTopics', created.errorCode, {
        operation: 'Create',
        resource: `topic '${wish.topic}'`,
      })
      if (refusal.code === 'UNAUTHORIZED') throw refusal
      throw coordinationError(
        'TOPIC',
        `Topic '${wish.topic}' could not be made with ${wish.partitions} partitions and replication ${replicationFactor}: ${created.errorMessage ?? refusal.message}`,
        { topic: wish.topic },
        { cause: refusal },
      )
    }
    if (disposition === 'ok') asked = true
    return {
      again:
        disposition === 'ok'
          ? 'the topic was made just now'
          : `CreateTopics answered ${kafkaErrorName(created.errorCode)}`,
    }
  })
}

/** Undefined when this principal may not read the settings. */
async function readSettings(
  dependencies: TopicDependencies,
  topic: string,
  bound: Bound,
): Promise<ReadonlyMap<string, string | null> | undefined> {
  const attempted = { operation: 'DescribeConfigs', resource: `topic '${topic}'` }
  return await untilDone<ReadonlyMap<string, string | null> | undefined>(
    dependencies,
    attempted,
    bound,
    async (deadline) => {
      const described = await dependencies.connection.request(
        'seed',
        'work',
        { api: 'DescribeConfigs', topic },
        { deadline },
      )
      const disposition = dispositionOf('DescribeConfigs', described.errorCode)
      if (disposition === 'ok') return { done: described.configs }
      if (disposition !== 'fatal') return { again: `DescribeConfigs answered ${kafkaErrorName(described.errorCode)}` }
      const refusal = refusalError('DescribeConfigs', described.errorCode, attempted)
      if (refusal.code === 'UNAUTHORIZED') return { done: undefined }
      throw refusal
    },
  )
}

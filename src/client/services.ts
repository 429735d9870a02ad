/**
 * What a client's parts share: the cluster behind the seam, the log, the settings.
 *
 * Made once per client, and only here. It must not know roles.
 */
import type { ClusterConnection } from '../cluster/connection.js'
import { RequestFailure } from '../cluster/connection.js'
import { Coordinators } from '../cluster/coordinator.js'
import { transactionVersionOf } from '../cluster/features.js'
import { Follower, longPollMs } from '../cluster/follower.js'
import { Metadata } from '../cluster/metadata.js'
import type { ProducerPair } from '../cluster/mint.js'
import { Minting } from '../cluster/mint.js'
import type { Bound } from '../cluster/schedule.js'
import { ensureTopic } from '../cluster/topic.js'
import type { TransactionDependencies } from '../cluster/transaction.js'
import { coordinationError } from '../errors.js'
import type { Role } from '../format/names.js'
import type { FencingToken } from '../format/token.js'
import { withSignal } from '../linked-signal.js'
import type { Runtime } from '../runtime.js'
import { ClockWatch } from './clock-watch.js'
import { CoordinationLog } from './coordination-log.js'
import type { Diagnostics } from './diagnostics.js'
import { HealthBook } from './health.js'
import type { Settings } from './options.js'

/** The parts that work before the coordination topic was found. */
export interface Services {
  readonly settings: Settings
  readonly runtime: Runtime
  readonly diagnostics: Diagnostics
  readonly connection: ClusterConnection
  readonly metadata: Metadata
  readonly coordinators: Coordinators
  readonly minting: Minting
  readonly clockWatch: ClockWatch
  readonly health: HealthBook
  readonly transactions: TransactionDependencies
  /** Pairs that this process minted and whose handles ended other than by resigning, by role (I9). */
  readonly endedTokens: Map<Role, readonly FencingToken[]>
  /** The pair that this process minted last for a role, while no lease came of it: no stranger's, wherever a look shows it. */
  readonly unusedMints: Map<Role, ProducerPair>
  /** The log of the coordination topic, found, made and checked at first use. */
  log(bound: Bound): Promise<CoordinationLog>
  /** The cluster's `transaction.version`, asked for until the bound ends. */
  transactionVersion(bound: Bound): Promise<number>
  close(): void
}

const defaultLongestSilenceMs = 15 * 60_000

export function openServices(settings: Settings, cluster: ClusterConnection, diagnostics: Diagnostics): Services {
  const connection = untilClosed(cluster, (nodeId) => {
    // Each role and partition would else find out for itself that its broker is dead, one request timeout after the other.
    metadata.forgetNode(nodeId)
    coordinators.forgetNode(nodeId)
  })
  const { runtime, requestTimeoutMs, topic } = settings
  const metadata = new Metadata(connection, runtime)
  const coordinators = new Coordinators(connection, runtime, requestTimeoutMs)
  let follower: Follower | undefined
  let opening: Promise<CoordinationLog> | undefined

  async function openLog(bound: Bound): Promise<CoordinationLog> {
    const facts = await ensureTopic(
      { connection, metadata, runtime, requestTimeoutMs },
      {
        topic,
        create: settings.createTopic,
        partitions: settings.partitions,
        partitionsAreFixed: settings.partitionsAreFixed,
        replicationFactor: settings.replicationFactor,
      },
      bound,
    )
    for (const warning of facts.warnings) diagnostics.warn({ topic }, warning)
    const longestSilenceMs =
      facts.deleteRetentionMs === undefined ? defaultLongestSilenceMs : Math.max(1_000, facts.deleteRetentionMs / 4)
    const identity = { partitionCount: facts.partitions, topicId: facts.topicId }
    follower = new Follower({ connection, metadata, runtime, topic, identity, requestTimeoutMs, longestSilenceMs })
    return new CoordinationLog(follower, facts.partitions, runtime, diagnostics)
  }

  return {
    settings,
    runtime,
    diagnostics,
    connection,
    metadata,
    coordinators,
    minting: new Minting(connection, coordinators, runtime),
    clockWatch: new ClockWatch(runtime),
    health: new HealthBook(runtime, longPollMs + requestTimeoutMs),
    transactions: { connection, metadata, runtime, requestTimeoutMs, coordinators },
    endedTokens: new Map(),
    unusedMints: new Map(),
    log(bound) {
      // Shared by every caller, so one caller's signal must not end it for the others.
      opening ??= openLog({ deadline: runtime.monotonicNow() + 2 * requestTimeoutMs }).catch((error: unknown) => {
        opening = undefined
        throw error
      })
      return withSignal(opening, bound.signal)
    },
    transactionVersion: (bound) => transactionVersionOf(connection, runtime, requestTimeoutMs, bound),
    close() {
      follower?.close()
      connection.close()
    },
  }
}

/**
 * `cluster` until it is closed; afterwards every request is `CLOSED`, which no flow repeats, so that none outlives its client.
 * `onSilence` is told of each node that cannot be reached or did not answer in time, before the request rejects.
 */
function untilClosed(cluster: ClusterConnection, onSilence: (nodeId: number) => void): ClusterConnection {
  let isClosed = false
  return {
    request(node, channel, request, options) {
      if (isClosed) return Promise.reject(coordinationError('CLOSED', 'The client is closed; make a new one', {}))
      return cluster.request(node, channel, request, options).catch((error: unknown) => {
        const isSilent = error instanceof RequestFailure && (error.kind === 'timeout' || error.kind === 'unreachable')
        if (isSilent && node !== 'seed') onSilence(node.id)
        throw error
      })
    },
    reset: (node, channel) => cluster.reset(node, channel),
    close() {
      isClosed = true
      cluster.close()
    },
  }
}

/** Remembers that a token of this process no longer leads, the newest 16 a role. */
export function rememberEndedToken(services: Services, role: Role, token: FencingToken): void {
  const known = services.endedTokens.get(role) ?? []
  services.endedTokens.set(role, [...known, token].slice(-16))
}

/**
 * The coordination topic as this process knows it: one fold per followed partition, and who wants to hear of changes.
 *
 * It ties the follower, which moves bytes, to the election's fold, which gives them meaning. It must not decide anything about a
 * role: it keeps states and says when they changed.
 */
import type { EndReached, Follower, PartitionReader } from '../cluster/follower.js'
import type { SettledRecord } from '../cluster/markers.js'
import type { LookAnswer } from '../cluster/mint.js'
import type { Bound } from '../cluster/schedule.js'
import { readRecord } from '../election/record.js'
import type { Finding, RoleState } from '../election/role-state.js'
import {
  applyLook,
  applyRecord,
  emptyRoleState,
  forgetBelow,
  nameProducer,
  withKnownReceipts,
} from '../election/role-state.js'
import type { CoordinationError } from '../errors.js'
import type { Role } from '../format/names.js'
import { rolePartition } from '../format/partition.js'
import { withSignal } from '../linked-signal.js'
import type { Runtime } from '../runtime.js'
import type { Diagnostics } from './diagnostics.js'

interface PartitionFold {
  roles: Map<Role, RoleState>
  /** What was known before the read under way began; undefined when no read is. */
  before: ReadonlyMap<Role, RoleState> | undefined
  /** Monotonic instant at which the partition was first read to its end by the latest read from earliest. */
  liveSince: number | undefined
  /** Leases that were watched as they came before the latest read from earliest, and since when the log was watched then. */
  watched: ReadonlyMap<Role, { readonly offset: bigint; readonly since: number }>
}

interface Listener {
  readonly changed: () => void
  /** Nothing more can be said of any role; `error` is `TOPIC`. */
  readonly topicChanged: (error: CoordinationError) => void
}

/** Who wants to hear of every role. */
export interface LogListener {
  /** Records of the role were folded, or its state became unknown or known. */
  changed(role: Role): void
  topicChanged(error: CoordinationError): void
}

/** The states of the roles of one coordination topic. */
export class CoordinationLog {
  readonly partitions: number
  readonly #follower: Follower
  readonly #runtime: Runtime
  readonly #diagnostics: Diagnostics
  readonly #folds = new Map<number, PartitionFold>()
  readonly #listeners = new Map<Role, Set<Listener>>()
  readonly #listenersToAll = new Set<LogListener>()
  #topicChange: CoordinationError | undefined

  constructor(follower: Follower, partitions: number, runtime: Runtime, diagnostics: Diagnostics) {
    this.#follower = follower
    this.partitions = partitions
    this.#runtime = runtime
    this.#diagnostics = diagnostics
  }

  /**
   * The role's state, empty where no record of it was read. Undefined = unknown: its partition is being read from the start, or the
   * topic is no longer the one that was read.
   */
  stateOf(role: Role): RoleState | undefined {
    if (this.#topicChange !== undefined) return undefined
    const fold = this.#folds.get(this.partitionOf(role))
    if (fold === undefined || fold.before !== undefined) return undefined
    return fold.roles.get(role) ?? emptyRoleState(role)
  }

  /** The partition that holds everything about the role. */
  partitionOf(role: Role): number {
    return rolePartition(role, this.partitions)
  }

  /** Monotonic instant since which the role's records were watched as they came; undefined before. */
  liveSince(role: Role): number | undefined {
    const fold = this.#folds.get(this.partitionOf(role))
    const watched = fold?.watched.get(role)
    return watched !== undefined && watched.offset === fold?.roles.get(role)?.lease?.offset
      ? watched.since
      : fold?.liveSince
  }

  /** Monotonic instant of the last error of the role's partition. */
  lastErrorAt(role: Role): number | undefined {
    return this.#follower.lastErrorAt(this.partitionOf(role))
  }

  /** Monotonic instant of the last good answer of the role's partition. */
  lastAnswerAt(role: Role): number | undefined {
    return this.#follower.lastAnswerAt(this.partitionOf(role))
  }

  /** @throws `TOPIC` once the topic is no longer the one that was read. */
  throwIfTopicChanged(): void {
    if (this.#topicChange !== undefined) throw this.#topicChange
  }

  /** Follows the role's partition, asks for its end now, and resolves when that was read. */
  async readToEnd(role: Role, bound: Bound): Promise<EndReached> {
    this.throwIfTopicChanged()
    return await this.#readToEnd(this.partitionOf(role), bound)
  }

  /** Follows the partitions of the roles, or all (undefined), asks for their ends now, and resolves when all were read. */
  async readAllToEnd(roles: Iterable<Role> | undefined, { signal, ...bound }: Bound): Promise<void> {
    this.throwIfTopicChanged()
    const partitions =
      roles === undefined
        ? Array.from({ length: this.partitions }, (_, partition) => partition)
        : new Set([...roles].map((role) => this.partitionOf(role)))
    // One listener on the caller's signal, not one a partition.
    await withSignal(Promise.all([...partitions].map((partition) => this.#readToEnd(partition, bound))), signal)
  }

  /** The roles of which the followed partitions hold anything. */
  knownRoles(): readonly Role[] {
    return [...this.#folds.values()].flatMap(({ roles, before }) => [...(before ?? roles).keys()])
  }

  async #readToEnd(partition: number, bound: Bound): Promise<EndReached> {
    if (!this.#folds.has(partition)) {
      const fold: PartitionFold = { roles: new Map(), before: undefined, liveSince: undefined, watched: new Map() }
      this.#folds.set(partition, fold)
      this.#follower.follow(partition, this.#reader(partition, fold))
    }
    return await this.#follower.readToEnd(partition, bound)
  }

  /** Calls `changed` in the tick in which records of the role were folded, or its state became unknown or known. */
  listen(role: Role, listener: Listener): () => void {
    const listeners = this.#listeners.get(role) ?? new Set()
    this.#listeners.set(role, listeners.add(listener))
    return () => {
      listeners.delete(listener)
      if (listeners.size === 0) this.#listeners.delete(role)
    }
  }

  /** Calls `listener` as `listen` does, for every role of the followed partitions. */
  listenToAll(listener: LogListener): () => void {
    this.#listenersToAll.add(listener)
    return () => {
      this.#listenersToAll.delete(listener)
    }
  }

  /** Says that `producerId` is the role's own, because this process minted it. */
  nameProducer(role: Role, producerId: bigint): void {
    this.#update(role, (state) => nameProducer(state, producerId))
  }

  /** Takes what a look showed into the role's state (I7). */
  applyLook(role: Role, look: LookAnswer): void {
    const fold = this.#folds.get(this.partitionOf(role))
    this.#update(role, (state) => {
      const { state: next, findings } = applyLook(state, look)
      if (fold?.before === undefined) for (const finding of findings) this.#tell(this.partitionOf(role), finding)
      return next
    })
  }

  #update(role: Role, change: (state: RoleState) => RoleState): void {
    const fold = this.#folds.get(this.partitionOf(role))
    if (fold === undefined) return
    const before = fold.roles.get(role) ?? emptyRoleState(role)
    const after = change(before)
    if (after === before) return
    fold.roles.set(role, after)
    if (fold.before === undefined) this.#notify(role)
  }

  /** The leases among `known` whose receipt tells their age. */
  #watchedOf(known: ReadonlyMap<Role, RoleState>): PartitionFold['watched'] {
    const watched = new Map<Role, { readonly offset: bigint; readonly since: number }>()
    for (const [role, { lease }] of known) {
      const since = this.liveSince(role)
      if (lease !== undefined && since !== undefined && lease.receivedAt > since) {
        watched.set(role, { offset: lease.offset, since })
      }
    }
    return watched
  }

  #reader(partition: number, fold: PartitionFold): PartitionReader {
    return {
      started: () => {
        const known = fold.before ?? fold.roles
        // A read that was broken off has watched nothing.
        if (fold.liveSince !== undefined) fold.watched = this.#watchedOf(known)
        fold.before = known
        fold.roles = new Map()
        fold.liveSince = undefined
        for (const [role, { named }] of known) fold.roles.set(role, emptyRoleState(role, { named }))
        this.#diagnostics.tell('reread', { partition, state: 'started' })
        this.#notifyAll(partition, known.keys())
      },
      records: (records, settledBelow) => this.#fold(partition, fold, records, settledBelow),
      caughtUp: () => {
        const known = fold.before
        fold.before = undefined
        fold.liveSince = this.#runtime.monotonicNow()
        for (const [role, state] of fold.roles) {
          const earlier = known?.get(role)
          if (earlier !== undefined) fold.roles.set(role, withKnownReceipts(state, earlier))
        }
        this.#diagnostics.tell('reread', { partition, state: 'caught-up' })
        this.#notifyAll(partition, known?.keys())
      },
      topicChanged: (error) => {
        if (this.#topicChange === undefined)
          for (const listener of [...this.#listenersToAll]) listener.topicChanged(error)
        this.#topicChange = error
        for (const [role, listeners] of this.#listeners) {
          if (this.partitionOf(role) !== partition) continue
          for (const listener of [...listeners]) listener.topicChanged(error)
        }
      },
      undecodable: (offset, reason) =>
        this.#diagnostics.tell('unreadable-record', { partition, offset: offset.toString(), reason }),
    }
  }

  #fold(partition: number, fold: PartitionFold, records: readonly SettledRecord[], settledBelow: bigint): void {
    const touched = new Set<Role>()
    for (const record of records) {
      const read = readRecord(record)
      if (read.kind === 'unreadable-key') {
        this.#tell(partition, { kind: 'unreadable-record', role: undefined, offset: read.offset, reason: read.reason })
        continue
      }
      const before = fold.roles.get(read.role) ?? emptyRoleState(read.role)
      const { state, finding } = applyRecord(before, read)
      if (finding !== undefined) this.#tell(partition, finding)
      fold.roles.set(read.role, state)
      touched.add(read.role)
    }
    for (const role of touched) {
      const state = fold.roles.get(role)
      if (state !== undefined) fold.roles.set(role, forgetBelow(state, settledBelow))
    }
    if (fold.before !== undefined) return
    for (const role of touched) this.#notify(role)
  }

  #tell(partition: number, { kind, role, offset, reason }: Finding): void {
    this.#diagnostics.tell(kind, {
      ...(role === undefined ? {} : { role }),
      partition,
      offset: offset.toString(),
      reason,
    })
  }

  #notify(role: Role): void {
    for (const listener of [...(this.#listeners.get(role) ?? [])]) listener.changed()
    for (const listener of [...this.#listenersToAll]) listener.changed(role)
  }

  /** Tells of every role that the partition holds, or held before it was read again, or of which somebody waits to hear. */
  #notifyAll(partition: number, held: Iterable<Role> = []): void {
    const roles = new Set(held)
    for (const role of this.#folds.get(partition)?.roles.keys() ?? []) roles.add(role)
    for (const role of this.#listeners.keys()) if (this.partitionOf(role) === partition) roles.add(role)
    for (const role of roles) this.#notify(role)
  }
}

/**
 * Follows partitions of the coordination topic: one long-poll Fetch per broker over all followed partitions it leads, markers resolved,
 * and reads to a proven end.
 *
 * Ends come from ListOffsets, never from a Fetch's high watermark, which may go back after a leader move (I12). Offsets, and so terms,
 * mean something only within one life of the topic: one that was made again, gained partitions or lost records ends the follower.
 * It hands records on and must not know what they mean.
 */
import type { CoordinationError } from '../errors.js'
import { coordinationError } from '../errors.js'
import type { Runtime } from '../runtime.js'
import { sleep } from '../runtime.js'
import type { ApiResponse, ClusterConnection, Node } from './connection.js'
import { RequestFailure } from './connection.js'
import { throwIfHopeless } from './coordinator.js'
import { dispositionOf, kafkaErrorName, refusalError } from './error-table.js'
import type { OpenTransactions, SettledRecord } from './markers.js'
import { oldestOpenOffset, settleBatch } from './markers.js'
import type { Metadata, PartitionLeader, TopicIdentity } from './metadata.js'
import type { Bound, Waiting } from './schedule.js'
import { backoffMs, isPast, pause, requestDeadline, waitWithin } from './schedule.js'
import type { TopicChange } from './topic-watch.js'
import { TopicWatch } from './topic-watch.js'

/** What a followed partition tells its reader, synchronously and in log order. */
export interface PartitionReader {
  /** A read from the earliest offset begins: what was known is in doubt until `caughtUp`. */
  started(): void
  /** Records in the order in which they settled; nothing below `settledBelow` can still settle. */
  records(records: readonly SettledRecord[], settledBelow: bigint): void
  /** The read that `started` began has reached an end that was asked for after it began. */
  caughtUp(): void
  /** The topic is no longer the one that was read, so nothing of it is followed any more; `error` is `TOPIC`. */
  topicChanged(error: CoordinationError): void
  /** Bytes of a batch could not be read. */
  undecodable(offset: bigint, reason: string): void
}

/** A proof that the partition was read to an end. */
export interface EndReached {
  readonly end: bigint
  /** Monotonic instant at which the ListOffsets that named the end was sent. */
  readonly askedAt: number
}

interface EndWaiter {
  /** Undefined where the end of the read from earliest is meant, whatever it will be. */
  readonly end: EndReached | undefined
  readonly wait: Waiting<EndReached>
}

/** A read from the earliest offset, until it has reached the end that was asked for on its way. */
interface ReadFromEarliest {
  readonly startedAt: number
  /** Monotonic instant at which its end was asked for. */
  endAskedAt: number | undefined
  end: bigint | undefined
}

interface Followed {
  readonly partition: number
  readonly reader: PartitionReader
  /** The broker whose poll the partition is in; undefined while it is looked for. */
  leader: PartitionLeader | undefined
  /** The next offset to be read; undefined while a read from earliest looks for its first. */
  position: bigint | undefined
  /** Where the log was read to before the current read from earliest began. */
  readBefore: bigint | undefined
  /** The read from earliest that is under way; undefined once it has caught up. */
  reading: ReadFromEarliest | undefined
  lastFetchedEpoch: number
  open: OpenTransactions
  lastAnswerAt: number
  lastErrorAt: number | undefined
  lastError: string | undefined
  attempts: number
  assigning: boolean
  waiters: EndWaiter[]
}

interface Target {
  readonly followed: Followed
  readonly position: bigint
  readonly leaderEpoch: number
}

interface Poll {
  readonly node: Node
  /** Partition -> offset asked for in the Fetch under way; undefined between two. */
  asked: ReadonlyMap<number, bigint> | undefined
}

export interface FollowerOptions {
  readonly connection: ClusterConnection
  readonly metadata: Metadata
  readonly runtime: Runtime
  readonly topic: string
  /** The topic as it was when it was checked. */
  readonly identity: TopicIdentity
  readonly requestTimeoutMs: number
  /** A partition whose last answer is older than this may have missed tombstones and is read again. */
  readonly longestSilenceMs: number
}

/** A quiet partition is answered this often. */
export const longPollMs = 5_000
const fetchBytes = 4 * 1024 * 1024
const partitionFetchBytes = 1024 * 1024

/** The partitions of one topic that a client follows. */
export class Follower {
  readonly #options: FollowerOptions
  readonly #watch: TopicWatch
  readonly #followed = new Map<number, Followed>()
  readonly #polls = new Map<number, Poll>()
  readonly #closed = new AbortController()
  #rotation = 0

  constructor(options: FollowerOptions) {
    this.#options = options
    this.#watch = new TopicWatch(options, (change) => this.#stopForChange(change))
  }

  /** Follows a partition until the follower closes. */
  follow(partition: number, reader: PartitionReader): void {
    if (this.#followed.has(partition)) throw new Error(`partition ${partition} is followed already`)
    const followed: Followed = {
      partition,
      reader,
      leader: undefined,
      position: undefined,
      readBefore: undefined,
      reading: this.#readFromEarliest(),
      lastFetchedEpoch: -1,
      open: new Map(),
      lastAnswerAt: this.#options.runtime.monotonicNow(),
      lastErrorAt: undefined,
      lastError: undefined,
      attempts: 0,
      assigning: false,
      waiters: [],
    }
    this.#followed.set(partition, followed)
    reader.started()
    this.#watch.start()
    this.#assign(followed)
  }

  /** Monotonic instant of the partition's last error, if it ever gave one. */
  lastErrorAt(partition: number): number | undefined {
    return this.#followed.get(partition)?.lastErrorAt
  }

  /** Monotonic instant of the partition's last good answer, if it ever gave one. */
  lastAnswerAt(partition: number): number | undefined {
    const followed = this.#followed.get(partition)
    // It has none while it is read from earliest again.
    const hasAnswered = followed !== undefined && (followed.position ?? followed.readBefore) !== undefined
    return hasAnswered ? followed.lastAnswerAt : undefined
  }

  /**
   * Asks for the partition's end now and resolves when it has been read, with the read from earliest complete. Rejects with the
   * signal's reason, with `TOPIC` once the topic is no longer the one that was read, or with `TRANSPORT` at the deadline: an
   * unreachable end is an error (I12).
   */
  async readToEnd(partition: number, bound: Bound): Promise<EndReached> {
    this.#closed.signal.throwIfAborted()
    const followed = this.#followed.get(partition)
    if (followed === undefined) throw new Error(`partition ${partition} is not followed`)
    const { runtime } = this.#options
    // A read from earliest that has not asked for its end yet asks for one that will do.
    if (followed.reading !== undefined && followed.reading.endAskedAt === undefined) {
      return await this.#reached(followed, undefined, bound)
    }
    for (let attempt = 0; ; attempt++) {
      bound.signal?.throwIfAborted()
      this.#closed.signal.throwIfAborted()
      const askedAt = runtime.monotonicNow()
      const readBefore = followed.position
      const end = await this.#offsetOf(followed, 'latest', bound)
      // A lower end than what was read means a log that was cut back, or a broker that does not know yet that it leads no more.
      if (end !== undefined && (readBefore === undefined || end >= readBefore)) {
        this.#closed.signal.throwIfAborted()
        return await this.#reached(followed, { end, askedAt }, bound)
      }
      if (end !== undefined) this.#noteError(followed, `ListOffsets answered ${end}, below what was read`)
      await pause(runtime, backoffMs(runtime, attempt), bound)
      if (isPast(runtime, bound)) throw this.#unreached(followed, undefined)
    }
  }

  /** Stops following; waits for an end reject with `CLOSED`. */
  close(): void {
    this.#stop(coordinationError('CLOSED', 'The client is closed', {}))
  }

  #stop(error: CoordinationError): readonly Followed[] {
    if (this.#closed.signal.aborted) return []
    this.#closed.abort(error)
    this.#watch.stop()
    const stopped = [...this.#followed.values()]
    this.#followed.clear()
    for (const followed of stopped) failWaiters(followed, error)
    return stopped
  }

  /** Offsets no longer mean what they did, so nothing may be concluded from the log any more. */
  #stopForChange({ setting, found, wanted }: TopicChange): void {
    const { topic } = this.#options
    const error = coordinationError(
      'TOPIC',
      `Topic '${topic}' changed while it was followed: its ${setting} is ${found}, was ${wanted}; places of roles and terms may begin again, so stop every member, mend the topic or name a new one, and make new clients`,
      { topic, setting, found, wanted },
    )
    for (const { reader } of this.#stop(error)) reader.topicChanged(error)
  }

  /** Finds the partition's leader and position, then hands it to that broker's poll; goes on until it has. */
  #assign(followed: Followed): void {
    followed.leader = undefined
    if (followed.assigning) return
    followed.assigning = true
    void this.#place(followed)
  }

  async #place(followed: Followed): Promise<void> {
    const { runtime } = this.#options
    while (!this.#closed.signal.aborted) {
      try {
        if (followed.attempts > 0) await sleep(runtime, backoffMs(runtime, followed.attempts), this.#closed.signal)
        followed.attempts += 1
        const placed = await this.#tryToPlace(followed)
        if (placed) return
      } catch (error) {
        failWaiters(followed, error)
      }
    }
  }

  async #tryToPlace(followed: Followed): Promise<boolean> {
    const leader = await this.#leaderOf(followed, this.#soon())
    if (!this.#watch.isSame()) {
      this.#options.metadata.forget(this.#options.topic, followed.partition)
      return false
    }
    if (leader === undefined) return false
    if (followed.position === undefined) {
      const reading = this.#readFromEarliest()
      followed.reading = reading
      const earliest = await this.#offsetOf(followed, 'earliest', this.#soon())
      if (earliest === undefined) return false
      reading.endAskedAt = this.#options.runtime.monotonicNow()
      const latest = await this.#offsetOf(followed, 'latest', this.#soon())
      if (latest === undefined) return false
      if (followed.readBefore !== undefined && latest < followed.readBefore) {
        this.#stopForChange({ setting: 'end', found: String(latest), wanted: `at least ${followed.readBefore}` })
        return true
      }
      reading.end = latest
      followed.readBefore = undefined
      followed.position = earliest
      followed.lastFetchedEpoch = -1
      followed.open = new Map()
      this.#noteProgress(followed)
    }
    if (this.#closed.signal.aborted) return true
    followed.leader = leader
    // Before the join, whose Fetch may fail in this very tick and have the partition assigned again.
    followed.assigning = false
    this.#join(leader.node, followed)
    return true
  }

  #readFromEarliest(): ReadFromEarliest {
    return { startedAt: this.#options.runtime.monotonicNow(), endAskedAt: undefined, end: undefined }
  }

  /** The bound of one request of our own. */
  #soon(): Bound {
    return { deadline: this.#options.runtime.monotonicNow() + this.#options.requestTimeoutMs }
  }

  async #leaderOf(followed: Followed, bound: Bound): Promise<PartitionLeader | undefined> {
    const { metadata, topic } = this.#options
    try {
      const leader = await metadata.leaderOf(topic, followed.partition, { deadline: bound.deadline })
      if (leader === undefined) followed.lastError = 'the partition has no leader'
      return leader
    } catch (error) {
      this.#noteFailure(followed, error)
      return undefined
    }
  }

  /** Asks the leader for an offset once. Of a failure, which is noted and has the leader forgotten, nothing comes. */
  async #offsetOf(followed: Followed, at: 'earliest' | 'latest', bound: Bound): Promise<bigint | undefined> {
    const { connection, metadata, runtime, topic, requestTimeoutMs } = this.#options
    const { partition } = followed
    const deadline = requestDeadline(runtime, requestTimeoutMs, bound)
    const leader = await this.#leaderOf(followed, { deadline })
    if (leader === undefined) return undefined
    try {
      const answer = await connection.request(
        leader.node,
        'work',
        { api: 'ListOffsets', topic, partitions: [{ partition, currentLeaderEpoch: leader.leaderEpoch, at }] },
        { deadline },
      )
      const found = answer.partitions.find((candidate) => candidate.partition === partition)
      const disposition = found === undefined ? 'retry-later' : dispositionOf('ListOffsets', found.errorCode)
      if (found !== undefined && disposition === 'ok' && found.offset >= 0n) return found.offset
      if (found !== undefined && disposition === 'fatal') throw this.#refusal('ListOffsets', found.errorCode)
      this.#noteError(followed, `ListOffsets answered ${kafkaErrorName(found?.errorCode ?? -1)}`)
      if (disposition === 'find-again') metadata.forget(topic, partition)
    } catch (error) {
      this.#noteFailure(followed, error)
    }
    return undefined
  }

  #refusal(api: 'ListOffsets' | 'Fetch', errorCode: number): CoordinationError {
    return refusalError(api, errorCode, { operation: 'Read', resource: `topic '${this.#options.topic}'` })
  }

  #noteFailure(followed: Followed, error: unknown): void {
    if (!(error instanceof RequestFailure)) throw error
    const { metadata, topic } = this.#options
    this.#noteError(followed, error.message)
    metadata.forget(topic, followed.partition)
    throwIfHopeless(error, { operation: 'Read', resource: `topic '${topic}'` })
  }

  #noteError(followed: Followed, message: string): void {
    followed.lastErrorAt = this.#options.runtime.monotonicNow()
    followed.lastError = message
  }

  async #reached(followed: Followed, end: EndReached | undefined, bound: Bound): Promise<EndReached> {
    if (end !== undefined && hasReached(followed, end.end)) return end
    const wait = waitWithin<EndReached>(this.#options.runtime, bound, () => this.#unreached(followed, end))
    const waiter: EndWaiter = { end, wait }
    followed.waiters.push(waiter)
    try {
      return await wait.ended
    } finally {
      followed.waiters = followed.waiters.filter((other) => other !== waiter)
    }
  }

  #unreached({ partition, position, lastError }: Followed, end: EndReached | undefined): CoordinationError {
    const name = `${this.#options.topic}-${partition}`
    const why = lastError === undefined ? '' : `; its last error was: ${lastError}`
    const message =
      end === undefined
        ? `The end of ${name} could not be asked for in time${why}`
        : `${name} was not read to its end at ${end.end} in time (position ${position ?? 'unknown'})${why}`
    return coordinationError('TRANSPORT', message, { retriable: true })
  }

  /** Adds the partition to its leader's poll. A long poll under way without it is cut short, or its first records would wait for that. */
  #join(node: Node, followed: Followed): void {
    const poll = this.#polls.get(node.id)
    if (poll === undefined) {
      const started: Poll = { node, asked: undefined }
      this.#polls.set(node.id, started)
      void this.#run(started)
    } else if (poll.asked !== undefined && poll.asked.get(followed.partition) !== followed.position) {
      this.#options.connection.reset(node, 'poll')
    }
  }

  async #run(poll: Poll): Promise<void> {
    while (!this.#closed.signal.aborted) {
      const targets = this.#targetsOf(poll.node)
      if (targets.length === 0) break
      const asked = new Map<number, bigint>()
      for (const { followed, position } of targets) asked.set(followed.partition, position)
      poll.asked = asked
      try {
        const response = await this.#fetch(poll.node, targets)
        poll.asked = undefined
        if (!this.#closed.signal.aborted) this.#take(response, asked)
      } catch (error) {
        poll.asked = undefined
        if (this.#closed.signal.aborted) break
        const wasCut = error instanceof RequestFailure && error.kind === 'closed' && this.#missing(poll.node, asked)
        if (wasCut) continue
        for (const { followed } of targets) this.#lose(followed, error)
      }
    }
    this.#polls.delete(poll.node.id)
  }

  #fetch(node: Node, targets: readonly Target[]): Promise<ApiResponse<'Fetch'>> {
    const { connection, runtime, topic, requestTimeoutMs, longestSilenceMs } = this.#options
    // A quiet log is answered often enough not to be taken for one that was not heard.
    const maxWaitMs = Math.min(longPollMs, Math.floor(longestSilenceMs / 2))
    return connection.request(
      node,
      'poll',
      {
        api: 'Fetch',
        maxWaitMs,
        minBytes: 1,
        maxBytes: fetchBytes,
        partitionMaxBytes: partitionFetchBytes,
        topic,
        partitions: targets.map(({ followed, position, leaderEpoch }) => ({
          partition: followed.partition,
          currentLeaderEpoch: leaderEpoch,
          offset: position,
          lastFetchedEpoch: followed.lastFetchedEpoch,
        })),
      },
      { deadline: runtime.monotonicNow() + maxWaitMs + requestTimeoutMs },
    )
  }

  /** Takes the partition out of its poll and looks for its leader again. */
  #lose(followed: Followed, error: unknown): void {
    try {
      this.#noteFailure(followed, error)
    } catch (hopeless) {
      failWaiters(followed, hopeless)
    }
    this.#assign(followed)
  }

  /** Whether the broker leads a followed partition that the Fetch under way did not ask for, so that the cut was our own. */
  #missing(node: Node, asked: ReadonlyMap<number, bigint>): boolean {
    return this.#targetsOf(node).some(({ followed, position }) => asked.get(followed.partition) !== position)
  }

  #targetsOf(node: Node): readonly Target[] {
    const targets = [...this.#followed.values()].flatMap((followed) => {
      const { leader, position } = followed
      if (leader?.node.id !== node.id || position === undefined) return []
      return [{ followed, position, leaderEpoch: leader.leaderEpoch }]
    })
    this.#rotation = targets.length === 0 ? 0 : (this.#rotation + 1) % targets.length
    return [...targets.slice(this.#rotation), ...targets.slice(0, this.#rotation)]
  }

  #take(response: ApiResponse<'Fetch'>, asked: ReadonlyMap<number, bigint>): void {
    const { metadata, runtime, topic, longestSilenceMs } = this.#options
    const now = runtime.monotonicNow()
    const answers =
      response.errorCode === 0
        ? response.partitions
        : [...asked.keys()].map((partition) => ({ partition, errorCode: response.errorCode, batches: [] }))
    for (const answer of answers) {
      const followed = this.#followed.get(answer.partition)
      if (followed === undefined || followed.position !== asked.get(answer.partition)) continue
      const disposition = dispositionOf('Fetch', answer.errorCode)
      if ('divergingEpoch' in answer && answer.divergingEpoch !== undefined) {
        // Only what every in-sync replica had was ever read, so records are lost, even where the log has grown past them again.
        const { endOffset } = answer.divergingEpoch
        this.#stopForChange({
          setting: 'end',
          found: String(endOffset),
          wanted: `at least ${followed.position ?? endOffset}`,
        })
        return
      }
      if (disposition === 're-read') {
        this.#readAgain(followed)
      } else if (disposition !== 'ok') {
        followed.lastErrorAt = now
        metadata.forget(topic, answer.partition)
        if (disposition === 'fatal') {
          failWaiters(followed, this.#refusal('Fetch', answer.errorCode))
        }
        this.#assign(followed)
      } else if (now - followed.lastAnswerAt > longestSilenceMs && followed.reading === undefined) {
        this.#readAgain(followed)
      } else {
        followed.lastAnswerAt = now
        followed.attempts = 0
        followed.lastError = undefined
        this.#apply(followed, answer.batches, now)
      }
    }
  }

  #apply(followed: Followed, batches: ApiResponse<'Fetch'>['partitions'][number]['batches'], now: number): void {
    if (batches.length === 0 || followed.position === undefined) return
    const settled: SettledRecord[] = []
    let position = followed.position
    for (const batch of batches) {
      if (batch.lastOffset < position) continue
      if (batch.undecodable !== undefined) followed.reader.undecodable(batch.baseOffset, batch.undecodable)
      for (const record of settleBatch(followed.open, batch, now)) settled.push(record)
      position = batch.lastOffset + 1n
      followed.lastFetchedEpoch = batch.partitionLeaderEpoch
    }
    followed.position = position
    if (settled.length > 0) followed.reader.records(settled, oldestOpenOffset(followed.open) ?? position)
    this.#noteProgress(followed)
  }

  #noteProgress(followed: Followed): void {
    const { runtime, longestSilenceMs } = this.#options
    const { position, reading } = followed
    if (position === undefined) return
    let caughtUp: EndReached | undefined
    if (reading?.end !== undefined && reading.endAskedAt !== undefined && position >= reading.end) {
      const now = runtime.monotonicNow()
      followed.lastAnswerAt = now
      // A read that took this long may itself have missed a tombstone that was cleaned away behind it.
      if (now - reading.startedAt > longestSilenceMs) {
        this.#readAgain(followed)
        return
      }
      followed.reading = undefined
      caughtUp = { end: reading.end, askedAt: reading.endAskedAt }
      followed.reader.caughtUp()
    }
    for (const { end = caughtUp, wait } of [...followed.waiters]) {
      if (end !== undefined && hasReached(followed, end.end)) wait.resolve(end)
    }
  }

  #readAgain(followed: Followed): void {
    this.#options.metadata.forget(this.#options.topic, followed.partition)
    followed.readBefore = followed.position
    followed.position = undefined
    followed.reading = this.#readFromEarliest()
    followed.reader.started()
    this.#assign(followed)
  }
}

function hasReached({ position, reading }: Followed, end: bigint): boolean {
  return position !== undefined && reading === undefined && position >= end
}

function failWaiters({ waiters }: Followed, error: unknown): void {
  for (const { wait } of waiters) wait.reject(error)
}

/**
 * Whether a topic is still the one that was read: neither missing, nor made again, nor given partitions.
 *
 * Offsets, and so terms, mean something only within one life of a topic. It compares by the looks that others make, and by one of its
 * own every so often; a change is believed once it has stood. It must not decide what a change ends.
 */
import { isCoordinationError } from '../errors.js'
import type { Runtime, Timer } from '../runtime.js'
import { RequestFailure } from './connection.js'
import type { Metadata, TopicIdentity } from './metadata.js'

/** A fact of the topic that is not what it was. */
export interface TopicChange {
  readonly setting: string
  readonly found: string
  readonly wanted: string
}

export interface TopicWatchOptions {
  readonly metadata: Metadata
  readonly runtime: Runtime
  readonly topic: string
  /** What the topic was when it was first checked. */
  readonly identity: TopicIdentity
  readonly requestTimeoutMs: number
}

/** How often the topic is looked at, where nobody else does. */
const checkMs = 10_000
/** How long a change has to stand: a broker that lags behind may answer from before. */
const confirmedAfterMs = 2_000

/** Watches one topic from `start` to `stop`. */
export class TopicWatch {
  readonly #options: TopicWatchOptions
  readonly #changed: (change: TopicChange) => void
  #timer: Timer | undefined
  #isStopped = false
  /** Monotonic instant since which every look at the topic has found it changed. */
  #changedSince: number | undefined

  /** `changed` is called at most once, and ends the watch. */
  constructor(options: TopicWatchOptions, changed: (change: TopicChange) => void) {
    this.#options = options
    this.#changed = changed
  }

  /** Begins to look; again does nothing. */
  start(): void {
    if (!this.#isStopped) this.#timer ??= this.#checkIn(checkMs)
  }

  stop(): void {
    this.#isStopped = true
    this.#timer?.cancel()
  }

  /** Whether the topic is the one that was checked, by the latest look that anybody made. Tells of a change that has stood. */
  isSame(): boolean {
    const { metadata, runtime, topic, identity } = this.#options
    const found = metadata.identityOf(topic)
    const change = found === undefined ? undefined : changeOf(identity, found)
    if (change === undefined) {
      this.#changedSince = undefined
      return true
    }
    const now = runtime.monotonicNow()
    this.#changedSince ??= now
    if (now - this.#changedSince >= confirmedAfterMs && !this.#isStopped) {
      this.stop()
      this.#changed(change)
    }
    return false
  }

  #checkIn(delayMs: number): Timer {
    return this.#options.runtime.setTimer(delayMs, () => void this.#check())
  }

  async #check(): Promise<void> {
    const { metadata, runtime, topic, requestTimeoutMs } = this.#options
    try {
      await metadata.look(topic, { deadline: runtime.monotonicNow() + requestTimeoutMs })
    } catch (error) {
      // A cluster that does not answer says nothing of the topic; the partitions' own errors are told elsewhere.
      if (!(error instanceof RequestFailure) && !isCoordinationError(error)) throw error
    }
    const isSame = this.isSame()
    if (!this.#isStopped) this.#timer = this.#checkIn(isSame ? checkMs : confirmedAfterMs)
  }
}

/** Fewer partitions than before, or no topic id, is a broker that does not know yet. */
function changeOf(known: TopicIdentity, found: TopicIdentity | 'absent'): TopicChange | undefined {
  if (found === 'absent') return { setting: 'existence', found: 'missing', wanted: 'present' }
  const { topicId, partitionCount } = found
  if (known.topicId !== undefined && topicId !== undefined && topicId !== known.topicId) {
    return { setting: 'topic id', found: topicId, wanted: known.topicId }
  }
  if (partitionCount > known.partitionCount) {
    return { setting: 'partitions', found: String(partitionCount), wanted: String(known.partitionCount) }
  }
  return undefined
}

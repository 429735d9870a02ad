/**
 * How long a challenger holds back for a stranger: a pair at the coordinator that the log does not explain, so somebody minted
 * just now.
 *
 * The stranger gets the time to write its lease, as long as it could write it; one that mints for ever without a lease does
 * not block the role for ever. It must not be asked about a look that `judgeLook` explained; such a look ends the memory.
 */
import type { HeaderPair } from './lease-entry.js'
import type { Look } from './look.js'

/** What a challenger remembers of the looks that showed a stranger. Forget it when a look shows none. */
export interface StrangerMemory {
  /** Monotonic ms of the first answer that showed any stranger. */
  readonly since: number
  /** -1 and -1 when the coordinator did not know the id. */
  readonly pair: HeaderPair
  /** Monotonic ms of the answer with which the unbroken stand of this pair began. */
  readonly stoodSince: number
  /** Whether the latest look came at least one second after that; it counts once the log was read again. */
  readonly stoodLongEnough: boolean
}

/** `mint` in this tick, or `wait` until that monotonic instant (or a new record of the role) and look again. */
export interface StrangerJudgement {
  readonly verdict: 'mint' | 'wait'
  readonly until: number
  readonly memory: StrangerMemory
}

/** How long a pair must stand. */
const standMs = 1000

/**
 * What to do about `look`, asked in the tick of its answer.
 *
 * `mint` when the same pair was in two earlier looks at least 1 s apart, the log was read to its end after each, neither
 * partition nor coordinator gave an error since, and the pair is still there; or one lease length after the later of the slot and
 * the first stranger.
 */
export function judgeStranger(
  memory: StrangerMemory | undefined,
  look: Look,
  context: {
    /** Monotonic ms. */
    readonly now: number
    /** Monotonic ms of the last error that the partition or the coordinator gave this process. */
    readonly lastErrorAt: number | undefined
    /** Monotonic ms from which the challenger may challenge. */
    readonly slot: number
    readonly leaseMs: number
    /** Whether the log was read to an end that was asked for after the answer of the look *before* this one. */
    readonly readToEndSinceLastLook: boolean
  },
): StrangerJudgement {
  const { now, lastErrorAt, readToEndSinceLastLook } = context
  const pair: HeaderPair = look.found
    ? { producerId: look.producerId, producerEpoch: look.producerEpoch }
    : { producerId: -1n, producerEpoch: -1 }
  const since = memory?.since ?? look.answeredAt
  const giveUpAt = Math.max(context.slot, since) + context.leaseMs
  const verdict = now >= giveUpAt ? 'mint' : 'wait'

  const unbroken =
    memory !== undefined &&
    memory.pair.producerId === pair.producerId &&
    memory.pair.producerEpoch === pair.producerEpoch &&
    (lastErrorAt === undefined || lastErrorAt < memory.stoodSince)
  // A first look that no read followed proves nothing about what its writer managed to write.
  if (!unbroken || (!readToEndSinceLastLook && !memory.stoodLongEnough)) {
    const fresh: StrangerMemory = { since, pair, stoodSince: look.answeredAt, stoodLongEnough: false }
    return { verdict, until: Math.min(look.answeredAt + standMs, giveUpAt), memory: fresh }
  }
  if (readToEndSinceLastLook && memory.stoodLongEnough) return { verdict: 'mint', until: now, memory }
  const stoodLongEnough = look.sentAt - memory.stoodSince >= standMs
  const until = stoodLongEnough ? now : Math.min(memory.stoodSince + standMs, giveUpAt)
  return { verdict, until, memory: { ...memory, stoodLongEnough } }
}

/**
 * What a role's lease key holds after the records that count: a lease with its term, a tombstone, or a value that nobody
 * can read; and how the next such record changes it.
 *
 * Terms are made here and nowhere else. Whether a record counts at all (I7) is decided by `role-state.ts` before it comes here.
 */
import type { Incarnation } from '../format/headers.js'
import type { MemberId } from '../format/names.js'
import type { FencingToken } from '../format/token.js'
import { longestLeaseMs } from './policy.js'
import { type Receipt, seenAt } from './receipt.js'
import type { LeaseRead } from './record.js'

/** The pair of a batch header, which the broker checked. */
export interface HeaderPair {
  readonly producerId: bigint
  readonly producerEpoch: number
}

interface EntryBase extends Receipt {
  readonly header: HeaderPair
  /** Undefined for what another port wrote. */
  readonly incarnation: Incarnation | undefined
  /**
   * Offset of the last counted record of another token, a tombstone or an unreadable value, before this run of one token; -1
   * when none was seen. No term of this token lies at or below it.
   */
  readonly floor: bigint
}

/** A lease that counts. */
export interface CountedLease extends EntryBase {
  readonly kind: 'lease'
  readonly member: MemberId
  readonly token: FencingToken
  /** Offset of the first committed lease record of the token, as far as it is known: see `termExact`. */
  readonly term: bigint
  /** False where `term` is only the smallest offset at which the token was seen; the true one is not above it. */
  readonly termExact: boolean
  /** Smallest offset at which this token was seen since the floor. */
  readonly firstSeen: bigint
  readonly grantedAt: bigint
  readonly deadline: bigint
  /** `deadline - grantedAt`, the holder's own setting, within 0 and 15 minutes. */
  readonly lengthMs: number
}

/** A tombstone of the lease that counts: the role was given up. */
export interface CountedTombstone extends EntryBase {
  readonly kind: 'tombstone'
}

/** A lease that counts by its batch header but cannot be read (I12: never taken for a vacancy). */
export interface UnreadableLease extends EntryBase {
  readonly kind: 'unreadable'
  readonly reason: string
}

/** The newest record under a role's lease key that counts. */
export type LeaseEntry = CountedLease | CountedTombstone | UnreadableLease

/** The entry after `read`, a record that counts and lies above `previous`. */
export function nextEntry(previous: LeaseEntry | undefined, read: LeaseRead): LeaseEntry {
  const { offset, receivedAt, leaderEpoch, appendTime } = read.receipt
  const header: HeaderPair = { producerId: read.writer.producerId, producerEpoch: read.writer.producerEpoch }
  const { incarnation } = read
  if (read.kind !== 'lease') {
    const floor = previous?.offset ?? -1n
    const base: EntryBase = { offset, receivedAt, leaderEpoch, appendTime, header, incarnation, floor }
    return read.kind === 'lease-tombstone'
      ? { ...base, kind: 'tombstone' }
      : { ...base, kind: 'unreadable', reason: read.reason }
  }
  const { member, token, grantedAt, deadline } = read.lease
  const run = previous?.kind === 'lease' && previous.token.equals(token) ? previous : undefined
  const floor = run === undefined ? (previous?.offset ?? -1n) : run.floor
  const firstSeen = run?.firstSeen ?? offset
  const { term, termExact } = termOf(read, run, floor, firstSeen)
  return {
    kind: 'lease',
    offset,
    receivedAt,
    leaderEpoch,
    appendTime,
    header,
    incarnation,
    floor,
    member,
    token,
    term,
    termExact,
    firstSeen,
    grantedAt,
    deadline,
    lengthMs: clampedLength(deadline - grantedAt),
  }
}

/**
 * `later`, folded on its own, as it stands above `earlier`: a run of the same token goes on, and a term that does not lie above
 * `earlier` is not believed.
 */
export function stackedOn(earlier: LeaseEntry | undefined, later: LeaseEntry): LeaseEntry {
  if (earlier === undefined) return later
  if (later.kind !== 'lease') return { ...later, floor: higherOffset(earlier.offset, later.floor) }
  if (earlier.kind === 'lease' && earlier.token.equals(later.token) && later.floor <= earlier.offset) {
    const fits = later.term > earlier.floor && later.term <= earlier.firstSeen
    const known = !earlier.termExact && later.termExact && fits ? later : earlier
    return {
      ...later,
      floor: earlier.floor,
      firstSeen: earlier.firstSeen,
      term: known.term,
      termExact: known.termExact,
    }
  }
  const floor = higherOffset(earlier.offset, later.floor)
  const firstSeen = later.firstSeen > floor ? later.firstSeen : later.offset
  const believed = later.term > floor
  return {
    ...later,
    floor,
    firstSeen,
    term: believed ? later.term : firstSeen,
    termExact: believed && later.termExact,
  }
}

/** Monotonic ms at which the lease runs out, as far as this process can tell; undefined for a tombstone or nothing. */
export function expiryOf(
  entry: LeaseEntry | undefined,
  ownRegistration: Receipt | undefined,
  ownLeaseMs: number,
): number | undefined {
  if (entry?.kind === 'lease') return seenAt(entry, ownRegistration) + entry.lengthMs
  // Its own length is not known, so ours stands in, from a receipt that nobody can dispute.
  if (entry?.kind === 'unreadable') return entry.receivedAt + ownLeaseMs
  return undefined
}

function termOf(
  read: Extract<LeaseRead, { kind: 'lease' }>,
  run: CountedLease | undefined,
  floor: bigint,
  firstSeen: bigint,
): { readonly term: bigint; readonly termExact: boolean } {
  if (run?.termExact) return { term: run.term, termExact: true }
  const header = read.termHeader
  if (header !== undefined && header > floor && header <= firstSeen) return { term: header, termExact: true }
  // The first record of a token of ours carries no term: it is its own offset. Other ports never carry one.
  const isFirst = run === undefined && header === undefined && read.incarnation !== undefined
  return { term: firstSeen, termExact: isFirst }
}

function clampedLength(length: bigint): number {
  if (length <= 0n) return 0
  return length >= BigInt(longestLeaseMs) ? longestLeaseMs : Number(length)
}

/** The greater of two offsets; `Math.max` takes no bigint. */
export function higherOffset(a: bigint, b: bigint): bigint {
  return a < b ? b : a
}

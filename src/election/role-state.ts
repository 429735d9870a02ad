/**
 * The state of one role as the log tells it: who is registered, what its lease key holds, and what could not be believed.
 *
 * A pure fold. Records come in the order in which they *settle*, which may differ from their offsets; per key the highest
 * offset wins, tombstones included. A state is never changed; a renewal costs the same whatever the role's size.
 *
 * A lease counts only if I7 holds. Whether a producer id is the role's own is not in the log, so an id new to the role makes
 * a *candidate* until a look or an own mint names it. It must not know a clock: receipts are given with the records.
 */
import type { Incarnation } from '../format/headers.js'
import type { MemberId, Role } from '../format/names.js'
import { higherOffset, type LeaseEntry, nextEntry, stackedOn } from './lease-entry.js'
import type { Receipt } from './receipt.js'
import type { LeaseRead, ReadRecord, RegistrationRead } from './record.js'

/** A live registration. */
export interface RegistrationEntry extends Receipt {
  readonly member: MemberId
  readonly registeredAt: bigint
  /** Undefined where another port registered. */
  readonly incarnation: Incarnation | undefined
}

/** A registration key without a readable value, remembered while an older record of it may still settle. */
export interface Removal {
  readonly member: MemberId
  readonly offset: bigint
  readonly older: Removal | undefined
}

/** What was written under the lease key by a producer id that nobody has named yet. */
export interface Candidate {
  readonly producerId: bigint
  /** Monotonic ms at which its first record was received: a look sent later decides. */
  readonly firstReceivedAt: number
  /** What the lease key would hold if only this producer id counted. */
  readonly entry: LeaseEntry
  /** A later look showed another id. Ids never come back, so this one stays foreign. */
  readonly refuted: boolean
}

/** Never changed: every function below returns a new one or the same. */
export interface RoleState {
  readonly role: Role
  /** The newest record under the lease key that counts. */
  readonly lease: LeaseEntry | undefined
  /** In offset order. */
  readonly registrations: readonly RegistrationEntry[]
  /** The newest first. */
  readonly removals: Removal | undefined
  /** Producer ids that looks and own mints have named as this role's. */
  readonly named: ReadonlySet<bigint>
  /** In order of their newest offsets, at most 8. */
  readonly candidates: readonly Candidate[]
  /** The highest offset of a record under the lease key that does not count; -1 when there was none. */
  readonly uncountedOffset: bigint
}

/** Something in the log that should not be there. It changed nothing but its own key. */
export interface Finding {
  readonly kind: 'foreign-record' | 'unreadable-record'
  /** Undefined where the key could not be read. */
  readonly role: Role | undefined
  readonly offset: bigint
  readonly reason: string
}

export interface Applied {
  readonly state: RoleState
  readonly finding?: Finding
}

/** Whoever may write to the topic can invent producer ids; no more than this many are remembered at a time. */
const mostCandidates = 8
/** A producer id serves for thousands of terms, so an older one than these writes no more. */
const mostNamed = 64

/** A role of which nothing was read. `named` carries the known producer ids over into a re-read. */
export function emptyRoleState(role: Role, options: { readonly named?: Iterable<bigint> } = {}): RoleState {
  return {
    role,
    lease: undefined,
    registrations: [],
    removals: undefined,
    named: new Set(options.named),
    candidates: [],
    uncountedOffset: -1n,
  }
}

/** The state after one more settled record of this role. A record applied before changes nothing. */
export function applyRecord(state: RoleState, read: ReadRecord): Applied {
  if (read.kind === 'unreadable-key') return { state, finding: unreadable(undefined, read.offset, read.reason) }
  if (read.role !== state.role)
    throw new Error(`A record of role ${read.role} was applied to the state of ${state.role}`)
  switch (read.kind) {
    case 'registration':
    case 'registration-tombstone':
    case 'unreadable-registration':
      return applyRegistration(state, read)
    case 'lease':
    case 'lease-tombstone':
    case 'unreadable-lease':
      return applyLease(state, read)
  }
}

/** Forgets removals below `offset`, the oldest at which a record can still settle. */
export function forgetBelow(state: RoleState, offset: bigint): RoleState {
  const removals = removalsFrom(state.removals, offset)
  return removals === state.removals ? state : { ...state, removals }
}

/** Whether a look could change what the lease key holds. */
export function wantsLook(state: RoleState): boolean {
  return state.candidates.some((candidate) => !candidate.refuted && candidate.entry.offset > offsetOf(state.lease))
}

/** The state once `producerId` is known to be the role's: by a look, or because this process minted it. */
export function nameProducer(state: RoleState, producerId: bigint): RoleState {
  if (state.named.has(producerId)) return state
  const named = new Set(state.named).add(producerId)
  for (const oldest of named) {
    if (named.size <= mostNamed) break
    named.delete(oldest)
  }
  const candidate = state.candidates.find((one) => one.producerId === producerId)
  const candidates = state.candidates.filter((one) => one !== candidate)
  const isNewest = candidate !== undefined && candidate.entry.offset > offsetOf(state.lease)
  const lease = isNewest ? stackedOn(state.lease, candidate.entry) : state.lease
  return { ...state, named, candidates, lease }
}

/**
 * The state after a look at the role: names its producer id, and refutes every other candidate whose first record was
 * received before the look was sent. The findings are the candidates that were refuted now and lie above the beginning of the
 * counted lease's token; those below it may be of the role's earlier ids, which never come back. None where the coordinator no longer
 * knows the role: then they are what an expired id left behind. And the lease, where it counts from now and cannot be read.
 */
export function applyLook(
  state: RoleState,
  look: { readonly found: boolean; readonly producerId: bigint; readonly sentAt: number },
): { readonly state: RoleState; readonly findings: readonly Finding[] } {
  const named = look.found && look.producerId >= 0n ? nameProducer(state, look.producerId) : state
  const { lease } = named
  const unread =
    lease !== state.lease && lease?.kind === 'unreadable' ? [unreadable(state.role, lease.offset, lease.reason)] : []
  const refuted = named.candidates.filter((one) => !one.refuted && one.firstReceivedAt <= look.sentAt)
  if (refuted.length === 0) return { state: named, findings: unread }
  const candidates = named.candidates.map((one) => (refuted.includes(one) ? { ...one, refuted: true } : one))
  const above = look.found ? refuted.filter((one) => one.entry.offset > beginningOf(lease)) : []
  const findings = above.map((one) =>
    foreign(state.role, one.entry.offset, `producer id ${one.producerId}, where a look shows ${look.producerId}`),
  )
  return { state: { ...named, candidates }, findings: [...unread, ...findings] }
}

/**
 * `fresh`, read from the start of the log again, with the receipts that `known` has for the same offsets: reading a record a
 * second time makes it no younger.
 */
export function withKnownReceipts(fresh: RoleState, known: RoleState): RoleState {
  const instants = new Map<bigint, number>()
  for (const entry of receiptsOf(known)) instants.set(entry.offset, entry.receivedAt)
  const dated = <Entry extends Receipt>(entry: Entry): Entry => {
    const receivedAt = instants.get(entry.offset)
    return receivedAt === undefined || receivedAt >= entry.receivedAt ? entry : { ...entry, receivedAt }
  }
  return {
    ...fresh,
    lease: fresh.lease === undefined ? undefined : dated(fresh.lease),
    registrations: fresh.registrations.map(dated),
    candidates: fresh.candidates.map((candidate) => ({ ...candidate, entry: dated(candidate.entry) })),
  }
}

/** The live registration of `member`, whichever incarnation wrote it. */
export function registrationOf(state: RoleState, member: MemberId): RegistrationEntry | undefined {
  return state.registrations.find((entry) => entry.member === member)
}

function receiptsOf(state: RoleState): readonly Receipt[] {
  const entries: Receipt[] = [...state.registrations, ...state.candidates.map((candidate) => candidate.entry)]
  if (state.lease !== undefined) entries.push(state.lease)
  return entries
}

function applyRegistration(state: RoleState, read: RegistrationRead): Applied {
  const { member, receipt } = read
  const { offset } = receipt
  const present = registrationOf(state, member)
  const finding =
    read.kind === 'unreadable-registration' ? { finding: unreadable(state.role, offset, read.reason) } : {}
  if (read.kind !== 'registration') {
    const removals = withRemoval(state.removals, member, offset)
    const gone = present !== undefined && present.offset < offset
    const registrations = gone ? state.registrations.filter((entry) => entry !== present) : state.registrations
    return { state: { ...state, removals, registrations }, ...finding }
  }
  if ((present !== undefined && present.offset >= offset) || isRemovedAbove(state.removals, member, offset)) {
    return { state }
  }
  const { receivedAt, leaderEpoch, appendTime } = receipt
  const { registeredAt, incarnation } = read
  const entry: RegistrationEntry = { offset, receivedAt, leaderEpoch, appendTime, member, registeredAt, incarnation }
  const others = state.registrations.filter((one) => one !== present)
  const place = others.findLastIndex((one) => one.offset < offset) + 1
  return { state: { ...state, registrations: others.toSpliced(place, 0, entry) } }
}

function applyLease(state: RoleState, read: LeaseRead): Applied {
  const { offset, receivedAt } = read.receipt
  const { transactional, producerId } = read.writer
  const refuse = (reason: string): Applied => {
    const uncountedOffset = higherOffset(offset, state.uncountedOffset)
    return { state: { ...state, uncountedOffset }, finding: foreign(state.role, offset, reason) }
  }
  if (!transactional) return refuse('a lease record outside a transaction')
  if (producerId < 0n) return refuse(`a lease record of producer id ${producerId}`)
  const isNamed = state.named.has(producerId)
  // A role's transactions follow one another, and so do their markers: this one was applied before.
  if (isNamed && offset <= offsetOf(state.lease)) return { state }
  const mismatch = mismatchOf(state.lease, read)
  if (mismatch !== undefined) return refuse(mismatch)
  if (isNamed) {
    const next: RoleState = { ...state, lease: nextEntry(state.lease, read) }
    return read.kind === 'unreadable-lease'
      ? { state: next, finding: unreadable(state.role, offset, read.reason) }
      : { state: next }
  }

  const known = state.candidates.find((candidate) => candidate.producerId === producerId)
  if (known !== undefined && known.entry.offset >= offset) return { state }
  const refuted = known?.refuted ?? false
  const candidate: Candidate = {
    producerId,
    firstReceivedAt: known?.firstReceivedAt ?? receivedAt,
    entry: nextEntry(known?.entry, read),
    refuted,
  }
  const others = state.candidates.filter((one) => one !== known)
  const place = others.findLastIndex((one) => one.entry.offset < offset) + 1
  const candidates = others.toSpliced(place, 0, candidate).slice(-mostCandidates)
  const uncountedOffset = higherOffset(offset, state.uncountedOffset)
  const applied: Applied = { state: { ...state, candidates, uncountedOffset } }
  if (!refuted) return applied
  return { ...applied, finding: foreign(state.role, offset, `producer id ${producerId} is not this role's`) }
}

/** Why a record cannot be this role's lease even if its producer id is the role's; undefined when it can (I7). */
function mismatchOf(counted: LeaseEntry | undefined, read: LeaseRead): string | undefined {
  const { producerId, producerEpoch } = read.writer
  if (read.kind === 'lease') {
    const { token } = read.lease
    if (token.producerId !== producerId) {
      // Another port's id rotated while its lease keeps the minted pair. Where no lease is known the claim has nothing to
      // agree with, and the named id alone decides.
      if (counted === undefined || (counted.kind === 'lease' && counted.token.equals(token))) return undefined
      return `a lease that claims ${token}, written by producer id ${producerId}`
    }
    if (producerEpoch < token.producerEpoch) return `a lease that claims ${token}, written by epoch ${producerEpoch}`
    return undefined
  }
  if (counted?.kind === 'lease' && counted.token.producerId === producerId) {
    if (producerEpoch < counted.token.producerEpoch) {
      return `a ${read.kind} of epoch ${producerEpoch} after the lease of ${counted.token}`
    }
  }
  return undefined
}

function offsetOf(entry: LeaseEntry | undefined): bigint {
  return entry?.offset ?? -1n
}

/** Where the token of the counted lease began; its own offset where another port's id may have rotated under it. */
function beginningOf(entry: LeaseEntry | undefined): bigint {
  const isOneId = entry?.kind === 'lease' && entry.token.producerId === entry.header.producerId
  return isOneId ? entry.term : offsetOf(entry)
}

// Newest first, so that a record in offset order costs one step whatever is remembered.
function withRemoval(removals: Removal | undefined, member: MemberId, offset: bigint): Removal {
  const newer: Removal[] = []
  let older = removals
  while (older !== undefined && older.offset > offset) {
    newer.push(older)
    older = older.older
  }
  let list: Removal = older?.offset === offset ? older : { member, offset, older }
  for (const removal of newer.toReversed()) list = { ...removal, older: list }
  return list
}

function isRemovedAbove(removals: Removal | undefined, member: MemberId, offset: bigint): boolean {
  for (let one = removals; one !== undefined && one.offset > offset; one = one.older) {
    if (one.member === member) return true
  }
  return false
}

function removalsFrom(removals: Removal | undefined, offset: bigint): Removal | undefined {
  const kept: Removal[] = []
  let one = removals
  while (one !== undefined && one.offset >= offset) {
    kept.push(one)
    one = one.older
  }
  if (one === undefined) return removals
  let list: Removal | undefined
  for (const removal of kept.toReversed()) list = { ...removal, older: list }
  return list
}

function foreign(role: Role, offset: bigint, reason: string): Finding {
  return { kind: 'foreign-record', role, offset, reason }
}

function unreadable(role: Role | undefined, offset: bigint, reason: string): Finding {
  return { kind: 'unreadable-record', role, offset, reason }
}

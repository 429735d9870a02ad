/**
 * Who may challenge for a role, and when: the rules of succession, evaluated for one member.
 *
 * Decides when to challenge and nothing else; whether a write counts is the broker's decision (I1, I6). Pure: `now` and all
 * receipts are monotonic ms of this process, so that no other clock can move a slot.
 */
import { compareIncarnations, type Incarnation } from '../format/headers.js'
import type { MemberId } from '../format/names.js'
import type { FencingToken } from '../format/token.js'
import { leaseholder, registrant } from './incarnations.js'
import { type CountedLease, expiryOf } from './lease-entry.js'
import type { LeasePolicy } from './policy.js'
import { type Receipt, seenAt } from './receipt.js'
import { type RegistrationEntry, type RoleState, registrationOf } from './role-state.js'

/** The member for whom the rules are evaluated. */
export interface Self {
  readonly memberId: MemberId
  readonly incarnation: Incarnation
  /** The first registration of this incarnation ever seen in the log. */
  readonly ownRegistration: Receipt | undefined
  /** The token of the handle that leads, if one does. */
  readonly token: FencingToken | undefined
  /** Pairs that this process minted for the role and whose handles ended other than by resigning (I9). */
  readonly endedTokens: readonly FencingToken[]
}

/** What made a greater incarnation of the own id known. */
export interface Superseding {
  readonly source: 'registration' | 'lease'
  readonly offset: bigint
  readonly incarnation: Incarnation
}

/**
 * What to do now. `reregister` stands beside it: the own registration was seen and is gone, so write it again.
 *
 * - `register`: no registration of this incarnation was seen yet; write one and wait until the follower passed it.
 * - `hold`: the own lease is live.
 * - `superseded`: a later process uses this member id; stop for good.
 * - `challenge`: look, and mint if the look allows it. `slot` is the instant from which this was so.
 * - `wait`: until that instant, at which the answer changes for an unchanged state; undefined while the state is not known.
 */
export type Evaluation = { readonly reregister: boolean } & (
  | { readonly decision: 'register' }
  | { readonly decision: 'hold' }
  | { readonly decision: 'superseded'; readonly by: Superseding }
  | { readonly decision: 'challenge'; readonly by: 'slot' | 'predecessor' | 'ended-token'; readonly slot: number }
  | { readonly decision: 'wait'; readonly until: number | undefined }
)

/** A member that waits for the role. */
export interface RosterEntry {
  readonly memberId: MemberId
  readonly offset: bigint
  /** Place in the queue: index in offset order after the holder is taken out. */
  readonly rank: number
  readonly registration: RegistrationEntry
}

/** A member with the instant from which it may challenge, as this process counts it. */
export interface Slot extends RosterEntry {
  readonly slot: number
}

/**
 * The registration of the lease's member, if it is of the incarnation that wrote the lease; a later incarnation of the same id
 * is no holder and waits like the others. Where the lease carries no incarnation: registered before its term.
 */
export function holderOf(state: RoleState): RegistrationEntry | undefined {
  const { lease } = state
  if (lease?.kind !== 'lease') return undefined
  const registration = registrationOf(state, lease.member)
  if (registration === undefined) return undefined
  return wroteLease(registration, lease) ? registration : undefined
}

/** The live registrations without the holder's, in offset order. */
export function roster(state: RoleState): readonly RosterEntry[] {
  const holder = holderOf(state)
  return state.registrations
    .filter((registration) => registration !== holder)
    .map((registration, rank) => ({ memberId: registration.member, offset: registration.offset, rank, registration }))
}

/**
 * The slots of the roster: `max(anchor, seenAt(registration), the slot before + stagger)`, the anchor being the expiry of the
 * lease or the receipt of its tombstone. They never fall with the rank.
 */
export function slots(state: RoleState, ownRegistration: Receipt | undefined, policy: LeasePolicy): readonly Slot[] {
  const anchor = anchorOf(state, ownRegistration, policy)
  let before = Number.NEGATIVE_INFINITY
  return roster(state).map((entry) => {
    const slot = Math.max(anchor, seenAt(entry.registration, ownRegistration), before + policy.staggerMs)
    before = slot
    return { ...entry, slot }
  })
}

/** What member `self` does at monotonic instant `now`. An undefined `state` is one that is being read again. */
export function evaluate(state: RoleState | undefined, self: Self, now: number, policy: LeasePolicy): Evaluation {
  if (state === undefined) return { decision: 'wait', until: undefined, reregister: false }
  const { ownRegistration } = self
  const present = registrationOf(state, self.memberId)
  const isPresent = present !== undefined && isSame(registrant(present), self.incarnation)
  const reregister = ownRegistration !== undefined && !isPresent

  const by = supersededBy(state, self)
  if (by !== undefined) return { decision: 'superseded', by, reregister: false }
  if (ownRegistration === undefined) return { decision: 'register', reregister: false }

  const { lease } = state
  const expiry = expiryOf(lease, ownRegistration, policy.leaseMs)
  if (lease?.kind === 'lease' && expiry !== undefined && now < expiry) {
    if (self.token?.equals(lease.token)) return { decision: 'hold', reregister }
    const slot = Math.max(seenAt(lease, ownRegistration), ownRegistration.receivedAt)
    // The greater incarnations are ruled out above, so another one of this id is the predecessor.
    if (lease.member === self.memberId && !isSame(leaseholder(lease), self.incarnation)) {
      return { decision: 'challenge', by: 'predecessor', slot, reregister }
    }
    if (self.endedTokens.some((token) => token.equals(lease.token))) {
      return { decision: 'challenge', by: 'ended-token', slot, reregister }
    }
  }
  const slot = ownSlot(state, self, ownRegistration, isPresent, policy)
  if (now >= slot) return { decision: 'challenge', by: 'slot', slot, reregister }
  return { decision: 'wait', until: slot, reregister }
}

/** The newest sign in the state that a greater incarnation uses the id of `self`. */
export function supersededBy(state: RoleState, self: Pick<Self, 'memberId' | 'incarnation'>): Superseding | undefined {
  const registration = registrationOf(state, self.memberId)
  if (registration !== undefined) {
    const incarnation = registrant(registration)
    if (compareIncarnations(incarnation, self.incarnation) > 0) {
      return { source: 'registration', offset: registration.offset, incarnation }
    }
  }
  const { lease } = state
  if (lease?.kind !== 'lease' || lease.member !== self.memberId) return undefined
  const incarnation = leaseholder(lease)
  if (compareIncarnations(incarnation, self.incarnation) <= 0) return undefined
  return { source: 'lease', offset: lease.offset, incarnation }
}

function ownSlot(
  state: RoleState,
  self: Self,
  ownRegistration: Receipt,
  isPresent: boolean,
  policy: LeasePolicy,
): number {
  const anchor = anchorOf(state, ownRegistration, policy)
  const ownSeenAt = ownRegistration.receivedAt
  const queue = slots(state, ownRegistration, policy)
  const own = isPresent ? queue.find((entry) => entry.memberId === self.memberId) : undefined
  // Swept, overwritten, or holder of an expired lease: behind the last one, never left out.
  const last = queue.at(-1)
  const behindLast = Math.max(anchor, ownSeenAt, last === undefined ? anchor : last.slot + policy.staggerMs)
  return Math.min(own?.slot ?? behindLast, latestSlot(state, ownRegistration, policy))
}

/** The instant from which the member of this registration may challenge whoever stands in front of it: one lease length is the most it waits. */
export function latestSlot(state: RoleState, ownRegistration: Receipt, policy: LeasePolicy): number {
  const longestWaitMs = state.lease?.kind === 'lease' ? state.lease.lengthMs : policy.leaseMs
  return Math.max(anchorOf(state, ownRegistration, policy), ownRegistration.receivedAt) + longestWaitMs
}

/** How much later than the end of the last term, or the own registration, a slot came because of the members in front. In ms. */
export function staggeredMs(state: RoleState, ownRegistration: Receipt, slot: number, policy: LeasePolicy): number {
  return slot - Math.max(anchorOf(state, ownRegistration, policy), ownRegistration.receivedAt)
}

function anchorOf(state: RoleState, ownRegistration: Receipt | undefined, policy: LeasePolicy): number {
  const { lease } = state
  if (lease?.kind === 'tombstone') return seenAt(lease, ownRegistration)
  return expiryOf(lease, ownRegistration, policy.leaseMs) ?? Number.NEGATIVE_INFINITY
}

function wroteLease(registration: RegistrationEntry, lease: CountedLease): boolean {
  if (lease.incarnation === undefined) return registration.offset < lease.term
  return registration.incarnation !== undefined && isSame(registration.incarnation, lease.incarnation)
}

function isSame(a: Incarnation, b: Incarnation): boolean {
  return compareIncarnations(a, b) === 0
}

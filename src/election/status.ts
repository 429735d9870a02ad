/**
 * What any process can say of a role: who holds it, since which term, and who waits.
 *
 * A view for people and programs that look on. Nothing may be fenced by it: between reading and acting it ages. It must not say
 * `vacant` without a read that reached its end (I12), nor `held` of a lease whose age nobody can tell.
 */
import { type WithJson, withJson } from '../format/json.js'
import type { MemberId, Role } from '../format/names.js'
import type { FencingToken } from '../format/token.js'
import type { Authority } from './authority.js'
import { ageIsProven, type Receipt, seenAt } from './receipt.js'
import { type RoleState, wantsLook } from './role-state.js'
import { roster } from './succession.js'

/**
 * - `vacant`: nobody holds the role.
 * - `held`: a lease is live.
 * - `expired`: the last holder's lease has run out and nobody took over yet.
 * - `unproven`: a lease was there when reading began, and nothing tells how old it is; a renewal, or one lease length, settles it.
 * - `unreadable`: the lease cannot be decoded.
 * - `unknown`: the log is being read again, or it holds a lease of which only a look can tell whether it is the role's.
 */
export type LeadershipState = 'vacant' | 'held' | 'expired' | 'unproven' | 'unreadable' | 'unknown'

/** A member that waits, in order of rank. */
export interface WaitingMember {
  readonly memberId: MemberId
  readonly offset: bigint
  readonly rank: number
}

interface StatusFields {
  readonly role: Role
  readonly state: LeadershipState
  /** The member that the lease names. */
  readonly holder?: MemberId
  readonly token?: FencingToken
  readonly term?: bigint
  /** False where `term` is only the smallest offset at which the token was seen, and where there is no term. */
  readonly termExact: boolean
  /** Whether the holder's token is the newest one, by the last look. */
  readonly authority: Authority
  /** `authority` is `current`. */
  readonly current: boolean
  /** Times by the holder's wall clock, in ms since 1970. `expiresInMs` is counted on the observer's own clock; undefined while unproven. */
  readonly lease?: { readonly grantedAt: bigint; readonly deadline: bigint; readonly expiresInMs?: number }
  readonly roster: readonly WaitingMember[]
  /** The observer's wall clock, in ms since 1970. */
  readonly observedAt: number
}

/** The state of a role as one observer saw it. Prints as JSON, 64-bit numbers as text. */
export type LeadershipStatus = WithJson<StatusFields>

/** What an observer adds to the state. */
export interface StatusContext {
  readonly role: Role
  /** Monotonic ms. */
  readonly now: number
  /** Wall clock, ms since 1970. */
  readonly observedAt: number
  /** The first registration of this process's incarnation for the role, if it has one. */
  readonly ownRegistration: Receipt | undefined
  /** Monotonic ms at which the partition was first read to its end; undefined until then. Only what came later was watched live. */
  readonly liveSince: number | undefined
  readonly authority: Authority
}

/** The status of the role; an undefined `state` is one that is being read again. */
export function leadershipStatus(state: RoleState | undefined, context: StatusContext): LeadershipStatus {
  const { role, observedAt } = context
  const lease = state?.lease
  if (state === undefined || lease?.kind !== 'lease') {
    return withJson<StatusFields>({
      role,
      state: withoutLease(state),
      termExact: false,
      authority: 'unknown',
      current: false,
      roster: state === undefined ? [] : waiting(state),
      observedAt,
    })
  }
  const { now, ownRegistration, liveSince, authority } = context
  const isDated = (liveSince !== undefined && lease.receivedAt > liveSince) || ageIsProven(lease, ownRegistration)
  const remainingMs = seenAt(lease, ownRegistration) + lease.lengthMs - now
  const isUnproven = remainingMs > 0 && !isDated
  const { grantedAt, deadline } = lease
  return withJson<StatusFields>({
    role,
    state: remainingMs <= 0 ? 'expired' : isUnproven ? 'unproven' : 'held',
    holder: lease.member,
    token: lease.token,
    term: lease.term,
    termExact: lease.termExact,
    authority,
    current: authority === 'current',
    lease: isUnproven ? { grantedAt, deadline } : { grantedAt, deadline, expiresInMs: Math.max(0, remainingMs) },
    roster: waiting(state),
    observedAt,
  })
}

/** Whether there is anything to say of the role: somebody waits, or something is under its lease key. */
export function holdsAnything(state: RoleState): boolean {
  if (state.registrations.length > 0 || wantsLook(state)) return true
  return state.lease !== undefined && state.lease.kind !== 'tombstone'
}

function withoutLease(state: RoleState | undefined): LeadershipState {
  if (state === undefined) return 'unknown'
  if (state.lease?.kind === 'unreadable') return 'unreadable'
  return state.lease === undefined && wantsLook(state) ? 'unknown' : 'vacant'
}

function waiting(state: RoleState): readonly WaitingMember[] {
  return roster(state).map(({ memberId, offset, rank }) => ({ memberId, offset, rank }))
}

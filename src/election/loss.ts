/**
 * What the log says to a leader about its own term.
 *
 * It is one of several ways to learn of a loss, and never the deciding one: a leader that has seen nothing here may be fenced
 * all the same (I1). It must not send anything; `look` and `renew` ask the caller to.
 */
import type { Incarnation } from '../format/headers.js'
import type { MemberId } from '../format/names.js'
import type { FencingToken } from '../format/token.js'
import type { RoleState } from './role-state.js'
import { type Superseding, supersededBy } from './succession.js'

/** The term that this process holds. */
export interface HeldTerm {
  readonly token: FencingToken
  /** Offset of the newest lease record of this term whose commit was confirmed. */
  readonly lastLeaseOffset: bigint
  readonly memberId: MemberId
  readonly incarnation: Incarnation
}

/** Who leads after a loss. */
export interface Successor {
  readonly member: MemberId
  readonly token: FencingToken
  readonly term: bigint
}

/**
 * - `superseded`: a greater incarnation of the own id is at work.
 * - `fenced`: a counted record of a later mint stands above the own last lease.
 * - `look`: a record under a producer id that no look has named stands there; look, apply it, ask again.
 * - `renew`: something else was written under the role's lease key; renew at once and let the broker decide.
 */
export type LossSeen =
  | { readonly kind: 'superseded'; readonly by: Superseding }
  | { readonly kind: 'fenced'; readonly successor: Successor | undefined }
  | { readonly kind: 'look' }
  | { readonly kind: 'renew' }

/** What stands above the own last lease, or undefined while nothing does. The own producer id must have been named. */
export function lossSeen(state: RoleState, held: HeldTerm): LossSeen | undefined {
  const by = supersededBy(state, held)
  if (by !== undefined) return { kind: 'superseded', by }
  const { lease } = state
  let ownOffset = held.lastLeaseOffset
  let isDisturbed = false
  if (lease !== undefined && lease.offset > held.lastLeaseOffset) {
    const isOwnId = lease.header.producerId === held.token.producerId
    if (!isOwnId || lease.header.producerEpoch > held.token.producerEpoch) {
      const { kind } = lease
      return {
        kind: 'fenced',
        successor: kind === 'lease' ? { member: lease.member, token: lease.token, term: lease.term } : undefined,
      }
    }
    // A renewal may be read here before its answer is: it covers what lies below it.
    if (lease.kind === 'lease' && lease.token.equals(held.token)) ownOffset = lease.offset
    else isDisturbed = true
  }
  if (state.candidates.some((candidate) => !candidate.refuted && candidate.entry.offset > held.lastLeaseOffset)) {
    return { kind: 'look' }
  }
  return isDisturbed || state.uncountedOffset > ownOffset ? { kind: 'renew' } : undefined
}

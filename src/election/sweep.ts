/**
 * Whose registrations a winner removes with its first lease: roster hygiene without heartbeats.
 *
 * A swept member that was only slow registers again, so sweeping costs it its place and never its part in the role. It must
 * not sweep on the word of silence that was the winner's own: see `lastErrorAt`.
 */
import type { MemberId } from '../format/names.js'
import { expiryOf } from './lease-entry.js'
import type { LeasePolicy } from './policy.js'
import type { RoleState } from './role-state.js'
import { holderOf, type Self, slots } from './succession.js'

/** What a sweep is judged by. */
export interface SweepContext {
  /** Monotonic ms. */
  readonly now: number
  readonly policy: LeasePolicy
  /** Whether the winner challenged at its slot; who takes back its own role sweeps nobody. */
  readonly wonBySlot: boolean
  /** Monotonic ms of the last error that the partition or the coordinator gave this process. */
  readonly lastErrorAt: number | undefined
}

/**
 * The members whose registrations are removed, judged on the state after the winner's read (I5): the holder of an expired
 * lease, and each whose slot lies more than one stagger back, as does the own last error.
 */
export function sweepOf(
  state: RoleState,
  self: Pick<Self, 'memberId' | 'ownRegistration'>,
  context: SweepContext,
): readonly MemberId[] {
  const { now, policy, wonBySlot, lastErrorAt } = context
  if (!wonBySlot) return []
  const swept: MemberId[] = []
  const holder = holderOf(state)
  const expiry = expiryOf(state.lease, self.ownRegistration, policy.leaseMs)
  if (holder !== undefined && expiry !== undefined && now >= expiry) swept.push(holder.member)
  const long = now - policy.staggerMs
  if (lastErrorAt === undefined || lastErrorAt < long) {
    for (const entry of slots(state, self.ownRegistration, policy)) {
      if (entry.slot < long) swept.push(entry.memberId)
    }
  }
  return swept.filter((member) => member !== self.memberId)
}

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
import { holderOf, latestSlot, type Self, type Slot, slots } from './succession.js'

/**
 * How much later than this process another may be back from an outage that both had: a request that has to time out first (5 s by
 * default), the longest back-off, and the requests of its return.
 */
const longestReturnMs = 10_000

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
 * The members whose registrations are removed, judged on the state after the winner's read (I5): the holder of an expired lease; and, where
 * the own last error lies long enough back for the others to have come back as well, each whose slot lies more than one stagger
 * back, and everybody in front of a winner that could not wait for its turn.
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
  if (lastErrorAt === undefined || lastErrorAt < now - Math.max(policy.staggerMs, longestReturnMs)) {
    const queue = slots(state, self.ownRegistration, policy)
    const passedBy = passedByWaitingLongest(queue, state, self, context)
    for (const [rank, entry] of queue.entries()) {
      if (entry.slot < long || rank < passedBy) swept.push(entry.memberId)
    }
  }
  return swept.filter((member) => member !== self.memberId)
}

/**
 * How many members from the first a winner passed by because it had waited a whole length. They have waited as long, so the living among
 * them challenge in the same instant; without this, dead ones would cost each successor a length, a few less each time.
 */
function passedByWaitingLongest(
  queue: readonly Slot[],
  state: RoleState,
  { memberId, ownRegistration }: Pick<Self, 'memberId' | 'ownRegistration'>,
  { now, policy }: SweepContext,
): number {
  if (ownRegistration === undefined || now < latestSlot(state, ownRegistration, policy)) return 0
  const own = queue.find((entry) => entry.memberId === memberId)
  if (own === undefined) return queue.length
  return now < own.slot ? own.rank : 0
}

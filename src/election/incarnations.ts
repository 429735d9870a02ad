/**
 * Which of two process lives of one member id is the later one (rule 5 of `succession.ts`).
 *
 * Records of other ports carry no incarnation; one is made up for them from the offset, so that any two can be ordered. It
 * must not order records of different members, which have nothing to do with each other.
 */
import type { Incarnation } from '../format/headers.js'
import type { CountedLease } from './lease-entry.js'
import type { RegistrationEntry } from './role-state.js'

const unnamed = new Uint8Array(16)

/** The incarnation that registered; without the header, born at the record's offset. */
export function registrant(entry: RegistrationEntry): Incarnation {
  return entry.incarnation ?? { id: unnamed, birth: entry.offset, registeredAt: entry.registeredAt }
}

/** The incarnation that holds the lease; without the header, born at its term. */
export function leaseholder(lease: CountedLease): Incarnation {
  return lease.incarnation ?? { id: unnamed, birth: lease.term, registeredAt: lease.grantedAt }
}

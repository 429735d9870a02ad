/**
 * The records of the coordination topic that this member writes: registrations, leases and their tombstones, with their headers.
 *
 * It must not decide when one is written.
 */
import type { ProducedRecord } from '../cluster/connection.js'
import type { Incarnation } from '../format/headers.js'
import { encodeIncarnation, encodeTerm, incarnationHeader, termHeader } from '../format/headers.js'
import { encodeKey } from '../format/key.js'
import { encodeLease } from '../format/lease.js'
import type { MemberId, Role } from '../format/names.js'
import { encodeRegistration } from '../format/registration.js'
import type { FencingToken } from '../format/token.js'
import type { Runtime } from '../runtime.js'

/** Who writes, and as which process life. */
export interface Author {
  readonly role: Role
  readonly memberId: MemberId
  readonly incarnation: Incarnation
}

export function registrationRecord({ role, memberId, incarnation }: Author, runtime: Runtime): ProducedRecord {
  const registeredAt = wallNow(runtime)
  return {
    key: encodeKey({ kind: 'registration', role, member: memberId }),
    value: encodeRegistration({ member: memberId, registeredAt }),
    headers: [[incarnationHeader, encodeIncarnation(incarnation)]],
    timestamp: registeredAt,
  }
}

export function registrationTombstone(role: Role, member: MemberId, runtime: Runtime): ProducedRecord {
  return {
    key: encodeKey({ kind: 'registration', role, member }),
    value: null,
    headers: [],
    timestamp: wallNow(runtime),
  }
}

/** A lease from now. `term` is undefined in the first one, whose offset is the term. */
export function leaseRecord(
  { role, memberId, incarnation }: Author,
  {
    token,
    term,
    leaseMs,
  }: { readonly token: FencingToken; readonly term: bigint | undefined; readonly leaseMs: number },
  runtime: Runtime,
): ProducedRecord {
  const grantedAt = wallNow(runtime)
  return {
    key: encodeKey({ kind: 'lease', role }),
    value: encodeLease({ member: memberId, token, grantedAt, deadline: grantedAt + BigInt(leaseMs) }),
    headers: [
      [incarnationHeader, encodeIncarnation(incarnation)],
      ...(term === undefined ? [] : [[termHeader, encodeTerm(term)] as const]),
    ],
    timestamp: grantedAt,
  }
}

/** `incarnation` is that of the holder who resigns; an operator who deposes is none. */
export function leaseTombstone(role: Role, incarnation: Incarnation | undefined, runtime: Runtime): ProducedRecord {
  return {
    key: encodeKey({ kind: 'lease', role }),
    value: null,
    headers: incarnation === undefined ? [] : [[incarnationHeader, encodeIncarnation(incarnation)]],
    timestamp: wallNow(runtime),
  }
}

/** Milliseconds since 1970 on the wall clock. */
export function wallNow(runtime: Runtime): bigint {
  return BigInt(Math.trunc(runtime.wallNow()))
}

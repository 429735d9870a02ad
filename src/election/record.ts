/**
 * Turns one settled record of the coordination topic into what it says, or into why it cannot be read.
 *
 * Total: no bytes make it throw. It decides nothing about whether a lease counts (I7) and keeps no state; the fold of
 * `role-state.ts` does both.
 */
import { isCoordinationError } from '../errors.js'
import {
  decodeIncarnation,
  decodeTerm,
  headerValue,
  type Incarnation,
  incarnationHeader,
  termHeader,
} from '../format/headers.js'
import { decodeKey } from '../format/key.js'
import { decodeLease, type Lease } from '../format/lease.js'
import type { MemberId, Role } from '../format/names.js'
import { decodeRegistration } from '../format/registration.js'
import { isTombstone } from '../format/tombstone.js'
import type { Receipt } from './receipt.js'

/**
 * A record that is settled: written outside a transaction, or its transaction's commit marker was seen.
 */
export interface LogRecord extends Receipt {
  readonly key: Uint8Array | null
  readonly value: Uint8Array | null
  readonly headers: readonly (readonly [key: string, value: Uint8Array | null])[]
  readonly transactional: boolean
  /** Of the batch header; -1 when the producer had none. */
  readonly producerId: bigint
  readonly producerEpoch: number
}

/** The batch header's word on who wrote a record. The broker checked it, unlike anything in the record. */
export interface Writer {
  readonly transactional: boolean
  readonly producerId: bigint
  readonly producerEpoch: number
}

interface RegistrationKeyed {
  readonly role: Role
  readonly member: MemberId
  readonly receipt: Receipt
}

interface LeaseKeyed {
  readonly role: Role
  readonly receipt: Receipt
  readonly writer: Writer
  /** Undefined for other ports' records, and where the header is malformed. */
  readonly incarnation: Incarnation | undefined
}

export type RegistrationRead = RegistrationKeyed &
  (
    | {
        readonly kind: 'registration'
        readonly registeredAt: bigint
        readonly incarnation: Incarnation | undefined
      }
    | { readonly kind: 'registration-tombstone' }
    | { readonly kind: 'unreadable-registration'; readonly reason: string }
  )

export type LeaseRead = LeaseKeyed &
  (
    | { readonly kind: 'lease'; readonly lease: Lease; readonly termHeader: bigint | undefined }
    | { readonly kind: 'lease-tombstone' }
    | { readonly kind: 'unreadable-lease'; readonly reason: string }
  )

/** What a record says. */
export type ReadRecord =
  | RegistrationRead
  | LeaseRead
  | { readonly kind: 'unreadable-key'; readonly offset: bigint; readonly reason: string }

/** What `record` says. Never throws. */
export function readRecord(record: LogRecord): ReadRecord {
  if (record.key === null) return unreadableKey(record.offset, 'the record has no key')
  const key = readable(decodeKey, record.key)
  if (key.reason !== undefined) return unreadableKey(record.offset, key.reason)
  const { offset, receivedAt, leaderEpoch, appendTime } = record
  const receipt: Receipt = { offset, receivedAt, leaderEpoch, appendTime }
  const incarnation = decodeIncarnation(headerValue(record.headers, incarnationHeader))
  const { role } = key.value
  if (key.value.kind === 'registration') {
    const { member } = key.value
    if (isTombstone(record.value)) return { kind: 'registration-tombstone', role, member, receipt }
    const registration = readable(decodeRegistration, record.value)
    if (registration.reason !== undefined) {
      return { kind: 'unreadable-registration', role, member, receipt, reason: registration.reason }
    }
    const { registeredAt } = registration.value
    return { kind: 'registration', role, member, receipt, registeredAt, incarnation }
  }
  const { transactional, producerId, producerEpoch } = record
  const writer: Writer = { transactional, producerId, producerEpoch }
  if (isTombstone(record.value)) return { kind: 'lease-tombstone', role, receipt, writer, incarnation }
  const lease = readable(decodeLease, record.value)
  if (lease.reason !== undefined) {
    return { kind: 'unreadable-lease', role, receipt, writer, incarnation, reason: lease.reason }
  }
  const termHeaderValue = decodeTerm(headerValue(record.headers, termHeader))
  return { kind: 'lease', role, receipt, writer, incarnation, lease: lease.value, termHeader: termHeaderValue }
}

function unreadableKey(offset: bigint, reason: string): ReadRecord {
  return { kind: 'unreadable-key', offset, reason }
}

type Readable<T> = { readonly value: T; readonly reason?: undefined } | { readonly reason: string }

function readable<T>(decode: (bytes: Uint8Array) => T, bytes: Uint8Array): Readable<T> {
  try {
    return { value: decode(bytes) }
  } catch (error) {
    if (isCoordinationError(error, 'FORMAT')) return { reason: error.message }
    throw error
  }
}

/**
 * The value of a registration: `version i16 = 0 | member string | registered_at i64 ms`, frozen.
 *
 * The record's offset, not `registered_at`, is the member's place in the queue. The member named here may differ from the
 * one in the key; then the key counts, and that is the caller's to know.
 */
import { byteReader, byteWriter, expectEnd, readInt64, writeInt16, writeInt64, writeString } from './bytes.js'
import { type MemberId, memberBytes, readMember } from './names.js'
import { formatVersion, readVersion } from './version.js'

/** By what a member joins the queue for a role. */
export interface Registration {
  readonly member: MemberId
  /** Milliseconds since 1970 by the member's wall clock; any int64 is legal and none is trusted. */
  readonly registeredAt: bigint
}

/** The bytes of a registration. Throws `CONFIG` for a name never parsed or a time outside int64. */
export function encodeRegistration(registration: Registration): Uint8Array {
  const member = memberBytes(registration.member)
  const writer = byteWriter(12 + member.byteLength)
  writeInt16(writer, formatVersion)
  writeString(writer, member)
  writeInt64(writer, 'registeredAt', registration.registeredAt)
  return writer.bytes
}

/**
 * The registration that `bytes` hold. Ask `isTombstone` first.
 *
 * @throws `FORMAT` for anything else, with one of the parts `registration.version`, `.member`, `.registered_at`, `.end`.
 */
export function decodeRegistration(bytes: Uint8Array): Registration {
  const reader = byteReader('registration', bytes)
  readVersion(reader)
  const member = readMember(reader, 'member')
  const registeredAt = readInt64(reader, 'registered_at')
  expectEnd(reader)
  return { member, registeredAt }
}

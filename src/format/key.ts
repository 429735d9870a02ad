/**
 * The key of a coordination record: which role it is about, and whether it registers a member or holds the lease.
 *
 * `version i16 = 0 | kind i16 (0 registration, 1 lease) | role string | member string ("" for a lease)`, frozen. It must not
 * choose a partition: that goes by the role alone (see `rolePartition`), so that both kinds of one role share one.
 */
import { byteReader, byteWriter, expectEnd, formatError, readInt16, writeInt16, writeString } from './bytes.js'
import { type MemberId, memberBytes, type Role, readMember, readRole, roleBytes } from './names.js'
import { formatVersion, readVersion } from './version.js'

/** What a record on the coordination topic is about. */
export type CoordinationKey =
  | { readonly kind: 'registration'; readonly role: Role; readonly member: MemberId }
  | { readonly kind: 'lease'; readonly role: Role }

const registrationKind = 0
const leaseKind = 1
const noMember = new Uint8Array(0)

/** The bytes of a key. Throws `CONFIG` for a name that was never parsed. */
export function encodeKey(key: CoordinationKey): Uint8Array {
  const role = roleBytes(key.role)
  const member = key.kind === 'registration' ? memberBytes(key.member) : noMember
  const writer = byteWriter(8 + role.byteLength + member.byteLength)
  writeInt16(writer, formatVersion)
  writeInt16(writer, key.kind === 'registration' ? registrationKind : leaseKind)
  writeString(writer, role)
  writeString(writer, member)
  return writer.bytes
}

/**
 * The key that `bytes` hold.
 *
 * @throws `FORMAT` for anything else, with one of the parts `key.version`, `key.kind`, `key.role`, `key.member`, `key.end`.
 */
export function decodeKey(bytes: Uint8Array): CoordinationKey {
  const reader = byteReader('key', bytes)
  readVersion(reader)
  const kind = readInt16(reader, 'kind')
  if (kind !== registrationKind && kind !== leaseKind) {
    throw formatError(reader, 'kind', reader.offset - 2, `unknown kind ${kind}`)
  }
  const role = readRole(reader, 'role')
  if (kind === registrationKind) {
    const member = readMember(reader, 'member')
    expectEnd(reader)
    return { kind: 'registration', role, member }
  }
  const start = reader.offset
  const size = readInt16(reader, 'member')
  if (size < 0) throw formatError(reader, 'member', start, `negative length ${size}`)
  if (size > 0) throw formatError(reader, 'member', start, 'a lease key names a member, it must be empty')
  expectEnd(reader)
  return { kind: 'lease', role }
}

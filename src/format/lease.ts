/**
 * The value of a lease: `version i16 = 0 | member string | producer_id i64 | producer_epoch i16 | granted_at i64 ms |
 * deadline i64 ms`, frozen.
 *
 * A lease says who leads and until when the others hold back: liveness only. That a write counts is decided by the broker
 * (I1), never by anything in this record. The member named here may differ from who wrote it; whether a lease counts at all
 * is the fold's question (I7).
 */
import { coordinationError } from '../errors.js'
import {
  byteReader,
  byteWriter,
  expectEnd,
  formatError,
  readInt16,
  readInt64,
  writeInt16,
  writeInt64,
  writeString,
} from './bytes.js'
import { type MemberId, memberBytes, readMember } from './names.js'
import { FencingToken } from './token.js'
import { formatVersion, readVersion } from './version.js'

/** Who holds a role, and until when the others hold back. */
export interface Lease {
  readonly member: MemberId
  readonly token: FencingToken
  /** Milliseconds since 1970 by the holder's wall clock; moves at each renewal. Any int64 is legal. */
  readonly grantedAt: bigint
  /** Milliseconds since 1970; `deadline - grantedAt` is the holder's lease length. May lie before `grantedAt`. */
  readonly deadline: bigint
}

/** The bytes of a lease. Throws `CONFIG` for a name never parsed, a time outside int64, or `FencingToken.NO_EPOCH`. */
export function encodeLease(lease: Lease): Uint8Array {
  const { token } = lease
  if (token.producerId < 0n || token.producerEpoch < 0) {
    throw coordinationError('CONFIG', `token ${token} was never minted, so no lease can carry it; give a minted one`, {
      option: 'token',
    })
  }
  const member = memberBytes(lease.member)
  const writer = byteWriter(30 + member.byteLength)
  writeInt16(writer, formatVersion)
  writeString(writer, member)
  writeInt64(writer, 'producerId', token.producerId)
  writeInt16(writer, token.producerEpoch)
  writeInt64(writer, 'grantedAt', lease.grantedAt)
  writeInt64(writer, 'deadline', lease.deadline)
  return writer.bytes
}

/**
 * The lease that `bytes` hold. Ask `isTombstone` first.
 *
 * @throws `FORMAT` for anything else, with one of the parts `lease.version`, `.member`, `.producer_id`, `.producer_epoch`,
 * `.granted_at`, `.deadline`, `.end`.
 */
export function decodeLease(bytes: Uint8Array): Lease {
  const reader = byteReader('lease', bytes)
  readVersion(reader)
  const member = readMember(reader, 'member')
  const producerId = readInt64(reader, 'producer_id')
  if (producerId < 0n) {
    throw formatError(reader, 'producer_id', reader.offset - 8, `negative producer id ${producerId}`)
  }
  const producerEpoch = readInt16(reader, 'producer_epoch')
  if (producerEpoch < 0) {
    throw formatError(reader, 'producer_epoch', reader.offset - 2, `negative producer epoch ${producerEpoch}`)
  }
  const grantedAt = readInt64(reader, 'granted_at')
  const deadline = readInt64(reader, 'deadline')
  expectEnd(reader)
  return { member, token: FencingToken.of(producerId, producerEpoch), grantedAt, deadline }
}

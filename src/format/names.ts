/**
 * The names of roles and members: 1 to 249 bytes of well-formed UTF-8, taken as they are.
 *
 * The only file that makes a `Role` or a `MemberId`; everything behind it trusts the type. It must not normalise, trim or
 * change case: two byte sequences are two names, in every port of this format (NFC and NFD of one word are two roles).
 * NUL, blanks and a byte order mark are legal.
 */
import { coordinationError } from '../errors.js'
import { type ByteReader, formatError, isWellFormed, readBytes, readInt16, utf8, utf8Text } from './bytes.js'

declare const roleBrand: unique symbol
declare const memberBrand: unique symbol

/** The name of what one member leads at a time. It is the `transactional.id` of the role's guarded writes, verbatim. */
export type Role = string & { readonly [roleBrand]: true }

/** The name by which a contender is known. */
export type MemberId = string & { readonly [memberBrand]: true }

/** The greatest length of a name, in bytes of UTF-8. */
export const maxNameBytes: number = 249

/**
 * `text` as the name of a role.
 *
 * @throws `CONFIG` for an empty name, one above 249 bytes of UTF-8, or one with a lone surrogate.
 */
export function parseRole(text: string): Role {
  checkedName('role', text)
  return text as Role
}

/**
 * `text` as the name of a member.
 *
 * @throws `CONFIG` for an empty name, one above 249 bytes of UTF-8, or one with a lone surrogate.
 */
export function parseMemberId(text: string): MemberId {
  checkedName('memberId', text)
  return text as MemberId
}

/** The bytes of a role's name. Throws `CONFIG` for a text that was never parsed. */
export function roleBytes(role: Role): Uint8Array {
  return checkedName('role', role)
}

/** The bytes of a member's name. Throws `CONFIG` for a text that was never parsed. */
export function memberBytes(member: MemberId): Uint8Array {
  return checkedName('memberId', member)
}

/** The role that `bytes` name, or undefined where they name none. */
export function roleOfBytes(bytes: Uint8Array): Role | undefined {
  return nameOfBytes(bytes) as Role | undefined
}

/** The member that `bytes` name, or undefined where they name none. */
export function memberOfBytes(bytes: Uint8Array): MemberId | undefined {
  return nameOfBytes(bytes) as MemberId | undefined
}

/** Reads a string that is the name of a role. Throws `FORMAT`. */
export function readRole(reader: ByteReader, field: string): Role {
  return readName(reader, field) as Role
}

/** Reads a string that is the name of a member. Throws `FORMAT`. */
export function readMember(reader: ByteReader, field: string): MemberId {
  return readName(reader, field) as MemberId
}

function nameOfBytes(bytes: Uint8Array): string | undefined {
  if (bytes.byteLength === 0 || bytes.byteLength > maxNameBytes) return undefined
  return utf8Text(bytes)
}

function checkedName(option: 'role' | 'memberId', text: unknown): Uint8Array {
  const thing = option === 'role' ? 'role name' : 'member id'
  const refuse = (why: string): Error =>
    coordinationError('CONFIG', `${thing} ${why}; use 1 to ${maxNameBytes} bytes of well-formed text`, { option })
  if (typeof text !== 'string') {
    throw refuse(`must be a string and is ${text === null || text === undefined ? text : `of type ${typeof text}`}`)
  }
  if (!isWellFormed(text)) throw refuse(`${shown(text)} has a lone surrogate, which UTF-8 cannot hold`)
  const bytes = utf8(text)
  if (bytes.byteLength === 0) throw refuse('"" is 0 bytes long')
  if (bytes.byteLength > maxNameBytes) throw refuse(`${shown(text)} is ${bytes.byteLength} bytes long`)
  return bytes
}

/** The text as a message shows it; a long one is cut, since it may be of any size. */
function shown(text: string): string {
  return text.length <= 256 ? JSON.stringify(text) : `${JSON.stringify(text.slice(0, 256))}...`
}

function readName(reader: ByteReader, field: string): string {
  const start = reader.offset
  const size = readInt16(reader, field)
  if (size < 0) throw formatError(reader, field, start, `negative length ${size}`)
  if (size === 0) throw formatError(reader, field, start, 'empty name')
  if (size > maxNameBytes) {
    throw formatError(reader, field, start, `overlong name of ${size} bytes, at most ${maxNameBytes} are allowed`)
  }
  const text = utf8Text(readBytes(reader, field, size))
  if (text === undefined) throw formatError(reader, field, start + 2, 'invalid UTF-8')
  return text
}

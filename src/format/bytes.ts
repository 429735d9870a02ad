/**
 * Bounded cursors over bytes: big-endian signed integers and strings (int16 byte length + UTF-8), read and written.
 *
 * Reading is total: bytes that end too soon, or that are refused by a reader, throw `FORMAT` with the part of the record and
 * the byte offset at which it was found. No file but this one may index into record bytes. It must not know what a key, a
 * registration or a lease is. It uses nothing of Node, so that the format runs wherever a `Uint8Array` does.
 */
import { type CoordinationErrorOf, coordinationError } from '../errors.js'

/** The smallest and the greatest signed 64-bit integer. */
export const minInt64: bigint = -(2n ** 63n)
export const maxInt64: bigint = 2n ** 63n - 1n
/** The greatest signed 16-bit integer. */
export const maxInt16: number = 2 ** 15 - 1

const encoder = new TextEncoder()
// A byte order mark is part of a name, so it is kept (`ignoreBOM`); TextDecoder drops it by default.
const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })
const loneSurrogate = /\p{Surrogate}/u

/** Whether `text` has an encoding in UTF-8, which a lone surrogate has not. */
export function isWellFormed(text: string): boolean {
  return !loneSurrogate.test(text)
}

/** `text` in UTF-8. A lone surrogate turns into U+FFFD: ask `isWellFormed` first. */
export function utf8(text: string): Uint8Array {
  return encoder.encode(text)
}

/** The text of `bytes`, or undefined where they are not UTF-8. Overlong forms and surrogates are not UTF-8. */
export function utf8Text(bytes: Uint8Array): string | undefined {
  try {
    return decoder.decode(bytes)
  } catch {
    return undefined
  }
}

/** Where a reader stands in the bytes of one thing, such as a `lease`; `offset` moves on as fields are read. */
export interface ByteReader {
  readonly thing: string
  readonly bytes: Uint8Array
  readonly view: DataView
  offset: number
}

/** A reader at the start of `bytes`; `thing` is the first word of the parts that its errors name. */
export function byteReader(thing: string, bytes: Uint8Array): ByteReader {
  return { thing, bytes, view: new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength), offset: 0 }
}

/** The `FORMAT` error for a field of the reader's thing that was refused at `offset`. */
export function formatError(
  reader: ByteReader,
  field: string,
  offset: number,
  why: string,
): CoordinationErrorOf<'FORMAT'> {
  const part = `${reader.thing}.${field}`
  return coordinationError(
    'FORMAT',
    `${part} at byte ${offset} of ${reader.bytes.byteLength}: ${why}; the record is skipped, look for who wrote it`,
    { part, offset },
  )
}

function advance(reader: ByteReader, field: string, size: number): number {
  const start = reader.offset
  if (size > reader.bytes.byteLength - start) {
    throw formatError(reader, field, start, `truncated, ${size} bytes are needed`)
  }
  reader.offset = start + size
  return start
}

/** Reads a signed 16-bit integer. Throws `FORMAT`. */
export function readInt16(reader: ByteReader, field: string): number {
  return reader.view.getInt16(advance(reader, field, 2))
}

/** Reads a signed 64-bit integer. Throws `FORMAT`. */
export function readInt64(reader: ByteReader, field: string): bigint {
  return reader.view.getBigInt64(advance(reader, field, 8))
}

/** Reads the `size` next bytes as a view of the same memory. Throws `FORMAT`. */
export function readBytes(reader: ByteReader, field: string, size: number): Uint8Array {
  const start = advance(reader, field, size)
  return reader.bytes.subarray(start, start + size)
}

/** Refuses bytes behind the last field. Throws `FORMAT`. */
export function expectEnd(reader: ByteReader): void {
  const left = reader.bytes.byteLength - reader.offset
  if (left > 0) throw formatError(reader, 'end', reader.offset, `trailing bytes, ${left} of them`)
}

/** Bytes of a size known beforehand that are filled from the front. */
export interface ByteWriter {
  readonly bytes: Uint8Array
  readonly view: DataView
  offset: number
}

/** A writer over `size` fresh bytes. */
export function byteWriter(size: number): ByteWriter {
  const bytes = new Uint8Array(size)
  return { bytes, view: new DataView(bytes.buffer), offset: 0 }
}

/** Writes a signed 16-bit integer, which the caller has checked to be one. */
export function writeInt16(writer: ByteWriter, value: number): void {
  writer.view.setInt16(writer.offset, value)
  writer.offset += 2
}

/** Writes a signed 64-bit integer. Throws `CONFIG` naming `field` for one outside the range, which would wrap silently. */
export function writeInt64(writer: ByteWriter, field: string, value: bigint): void {
  if (value < minInt64 || value > maxInt64) {
    throw coordinationError('CONFIG', `${field} ${value} does not fit a signed 64-bit integer; give a smaller one`, {
      option: field,
    })
  }
  writer.view.setBigInt64(writer.offset, value)
  writer.offset += 8
}

/** Writes bytes as they are. */
export function writeBytes(writer: ByteWriter, bytes: Uint8Array): void {
  writer.bytes.set(bytes, writer.offset)
  writer.offset += bytes.byteLength
}

/** Writes a string: its length in bytes as int16, then its UTF-8. */
export function writeString(writer: ByteWriter, text: Uint8Array): void {
  writeInt16(writer, text.byteLength)
  writeBytes(writer, text)
}

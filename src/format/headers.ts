/**
 * Record headers that this library adds beside the frozen format: which incarnation wrote a record, and of which term it is.
 *
 * Other ports neither write nor read them, and whoever may write to the topic can forge them, so every reading here is total:
 * a header that is missing or odd is undefined, never an error. Nothing about safety may rest on one. Of a header that
 * occurs twice the last one is taken, as Kafka's `Headers.lastHeader` does.
 */
import { byteReader, byteWriter, maxInt64, readBytes, readInt64, utf8, writeBytes, writeInt64 } from './bytes.js'

/** One record header: its key and its value. */
export type Header = readonly [key: string, value: Uint8Array | null]

/** On registrations and leases: 16 random bytes, i64 birth, i64 registered_at. */
export const incarnationHeader: string = 'mandate-incarnation'
/** On renewals and guarded records: the term as decimal text. */
export const termHeader: string = 'mandate-term'
/** On guarded records: the name of the role. */
export const roleHeader: string = 'mandate-role'
/** On guarded records: the token as `producerId:producerEpoch`. */
export const tokenHeader: string = 'mandate-token'

const incarnationBytes = 32
const idBytes = 16
const decimal = /^(0|[1-9]\d{0,18})$/

/** One process life of a member. The three fields are the same in every record that it writes. */
export interface Incarnation {
  /** 16 random bytes. */
  readonly id: Uint8Array
  /** The end of the role's partition that this incarnation had read when it first registered. */
  readonly birth: bigint
  /** `registered_at` of its first registration, in milliseconds since 1970. */
  readonly registeredAt: bigint
}

/** The value of the last header named `name`, or undefined where there is none. */
export function headerValue(headers: readonly Header[], name: string): Uint8Array | null | undefined {
  for (let index = headers.length - 1; index >= 0; index--) {
    const header = headers[index]
    if (header?.[0] === name) return header[1]
  }
  return undefined
}

/** The value of `incarnationHeader`. Throws `CONFIG` for a number outside int64. */
export function encodeIncarnation(incarnation: Incarnation): Uint8Array {
  if (incarnation.id.byteLength !== idBytes) {
    throw new Error(`An incarnation's id has ${idBytes} bytes, this one ${incarnation.id.byteLength}`)
  }
  const writer = byteWriter(incarnationBytes)
  writeBytes(writer, incarnation.id)
  writeInt64(writer, 'birth', incarnation.birth)
  writeInt64(writer, 'registeredAt', incarnation.registeredAt)
  return writer.bytes
}

/** The incarnation that a header's value holds, or undefined where it holds none. The bytes are copied. */
export function decodeIncarnation(value: Uint8Array | null | undefined): Incarnation | undefined {
  if (value === null || value === undefined || value.byteLength !== incarnationBytes) return undefined
  const reader = byteReader('incarnation', value)
  // Copied: the value is a view into a whole Fetch answer, which a kept view would keep alive.
  const id = readBytes(reader, 'id', idBytes).slice()
  return { id, birth: readInt64(reader, 'birth'), registeredAt: readInt64(reader, 'registered_at') }
}

/**
 * Below, at or above 0 as `a` is the earlier, the same or the later incarnation of one member: by birth, then `registeredAt`,
 * then the bytes of the id, unsigned.
 */
export function compareIncarnations(a: Incarnation, b: Incarnation): number {
  if (a.birth !== b.birth) return a.birth < b.birth ? -1 : 1
  if (a.registeredAt !== b.registeredAt) return a.registeredAt < b.registeredAt ? -1 : 1
  for (let index = 0; index < idBytes; index++) {
    const difference = (a.id[index] ?? 0) - (b.id[index] ?? 0)
    if (difference !== 0) return Math.sign(difference)
  }
  return 0
}

/** The value of `termHeader`: the term as decimal text. A term is an offset, so never negative. */
export function encodeTerm(term: bigint): Uint8Array {
  if (term < 0n || term > maxInt64) throw new Error(`A term is an offset in 0..${maxInt64}, ${term} is none`)
  return utf8(term.toString())
}

/**
 * The term that a header's value holds, or undefined where it holds none: digits only, no leading zero but in `0`, and
 * within int64.
 */
export function decodeTerm(value: Uint8Array | null | undefined): bigint | undefined {
  if (value === null || value === undefined || value.byteLength === 0 || value.byteLength > 19) return undefined
  const text = String.fromCharCode(...value)
  if (!decimal.test(text)) return undefined
  const term = BigInt(text)
  return term <= maxInt64 ? term : undefined
}

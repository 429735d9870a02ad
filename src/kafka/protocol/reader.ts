/**
 * Reads Kafka's wire types from a buffer, front to back.
 *
 * It checks every length against the bytes that are there and throws `MalformedError` otherwise; it knows no message. A read
 * of a corrupted buffer must end in that error or in a value, never in a value from outside the buffer. All decoders of this
 * folder and the record batches rest on it.
 */

/** The bytes are not what the protocol says they are. */
export class MalformedError extends Error {
  override readonly name = 'MalformedError'
}

/** A place in a buffer that moves forward with each read. */
export class Reader {
  readonly #buffer: Buffer
  readonly #end: number
  #offset: number

  constructor(buffer: Buffer, offset = 0, end: number = buffer.length) {
    this.#buffer = buffer
    this.#offset = offset
    this.#end = end
  }

  get offset(): number {
    return this.#offset
  }

  get remaining(): number {
    return this.#end - this.#offset
  }

  int8(): number {
    return this.#buffer.readInt8(this.#take(1))
  }

  int16(): number {
    return this.#buffer.readInt16BE(this.#take(2))
  }

  int32(): number {
    return this.#buffer.readInt32BE(this.#take(4))
  }

  int64(): bigint {
    return this.#buffer.readBigInt64BE(this.#take(8))
  }

  boolean(): boolean {
    return this.int8() !== 0
  }

  /** An unsigned varint of at most 32 bits. */
  unsignedVarint(): number {
    let value = 0
    for (let shift = 0; shift < 35; shift += 7) {
      const byte = this.#byte()
      value |= (byte & 0x7f) << shift
      if ((byte & 0x80) === 0) return value >>> 0
    }
    throw new MalformedError(`a varint at ${this.#offset} is longer than 5 bytes`)
  }

  /** A zigzag varint of at most 32 bits, as records use for lengths. */
  varint(): number {
    const value = this.unsignedVarint()
    return (value >>> 1) ^ -(value & 1)
  }

  /** A zigzag varint of at most 64 bits, skipped: record timestamps, which nothing here reads. */
  skipVarlong(): void {
    for (let length = 0; length < 10; length += 1) {
      if ((this.#byte() & 0x80) === 0) return
    }
    throw new MalformedError(`a varlong at ${this.#offset} is longer than 10 bytes`)
  }

  /** The next `length` bytes as a view of the buffer, not a copy. */
  view(length: number): Buffer {
    const start = this.#take(length)
    return this.#buffer.subarray(start, start + length)
  }

  skip(length: number): void {
    this.#take(length)
  }

  /** `length` bytes of UTF-8. */
  utf8(length: number): string {
    const start = this.#take(length)
    return this.#buffer.toString('utf8', start, start + length)
  }

  compactString(): string {
    const text = this.compactNullableString()
    if (text === null) throw new MalformedError(`a string at ${this.#offset} is null where the protocol forbids it`)
    return text
  }

  compactNullableString(): string | null {
    const length = this.unsignedVarint()
    return length === 0 ? null : this.utf8(length - 1)
  }

  /** Bytes as a view of the buffer. */
  compactNullableBytes(): Buffer | null {
    const length = this.unsignedVarint()
    return length === 0 ? null : this.view(length - 1)
  }

  /** An array whose elements `read` reads; null is read as empty. */
  compactArray<Element>(read: (reader: this) => Element): Element[] {
    const count = this.unsignedVarint() - 1
    if (count > this.remaining) throw new MalformedError(`an array of ${count} elements at ${this.#offset} cannot fit`)
    const elements: Element[] = []
    for (let index = 0; index < count; index += 1) elements.push(read(this))
    return elements
  }

  /** Reads a section of tagged fields; `field` gets those it knows by tag, each on a reader of its own bytes. */
  taggedFields(field?: (tag: number, reader: Reader) => void): void {
    const count = this.unsignedVarint()
    for (let index = 0; index < count; index += 1) {
      const tag = this.unsignedVarint()
      const length = this.unsignedVarint()
      const start = this.#take(length)
      field?.(tag, new Reader(this.#buffer, start, start + length))
    }
  }

  /** Throws unless everything was read. */
  expectEnd(): void {
    if (this.remaining !== 0) throw new MalformedError(`${this.remaining} bytes are left over`)
  }

  #byte(): number {
    const at = this.#offset
    const byte = this.#buffer[at]
    if (byte === undefined || at >= this.#end) throw new MalformedError(`a byte was expected at ${at}, none is there`)
    this.#offset = at + 1
    return byte
  }

  #take(length: number): number {
    const start = this.#offset
    if (length < 0 || length > this.#end - start) {
      throw new MalformedError(`${length} bytes were expected at ${start}, ${this.#end - start} are there`)
    }
    this.#offset = start + length
    return start
  }
}

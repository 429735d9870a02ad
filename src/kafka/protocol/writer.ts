/**
 * Writes Kafka's wire types into a buffer that grows.
 *
 * It knows no message, and what it writes depends on its calls alone. A number outside its field's range throws a
 * `RangeError`: that is a caller's fault, never an answer's.
 */

/** A buffer that is written front to back. */
export class Writer {
  #buffer: Buffer
  #length = 0

  constructor(capacity = 256) {
    this.#buffer = Buffer.allocUnsafe(capacity)
  }

  get length(): number {
    return this.#length
  }

  /** What was written, as a view: nothing may be written after it. */
  bytes(): Buffer {
    return this.#buffer.subarray(0, this.#length)
  }

  int8(value: number): this {
    const at = this.#grow(1)
    this.#buffer.writeInt8(value, at)
    return this
  }

  int16(value: number): this {
    const at = this.#grow(2)
    this.#buffer.writeInt16BE(value, at)
    return this
  }

  int32(value: number): this {
    const at = this.#grow(4)
    this.#buffer.writeInt32BE(value, at)
    return this
  }

  /** Overwrites the four bytes at `at`, which must have been written already. */
  int32At(at: number, value: number): this {
    this.#buffer.writeInt32BE(value, at)
    return this
  }

  int64(value: bigint): this {
    const at = this.#grow(8)
    this.#buffer.writeBigInt64BE(value, at)
    return this
  }

  boolean(value: boolean): this {
    return this.int8(value ? 1 : 0)
  }

  unsignedVarint(value: number): this {
    let rest = value >>> 0
    let at = this.#grow(5)
    while (rest > 0x7f) {
      this.#buffer[at++] = (rest & 0x7f) | 0x80
      rest >>>= 7
    }
    this.#buffer[at++] = rest
    this.#length = at
    return this
  }

  /** A zigzag varint of 32 bits. */
  varint(value: number): this {
    return this.unsignedVarint((value << 1) ^ (value >> 31))
  }

  /** A zigzag varint of 64 bits. */
  varlong(value: bigint): this {
    let rest = BigInt.asUintN(64, (value << 1n) ^ (value >> 63n))
    let at = this.#grow(10)
    while (rest > 0x7fn) {
      this.#buffer[at++] = Number(rest & 0x7fn) | 0x80
      rest >>= 7n
    }
    this.#buffer[at++] = Number(rest)
    this.#length = at
    return this
  }

  raw(bytes: Uint8Array): this {
    const at = this.#grow(bytes.length)
    this.#buffer.set(bytes, at)
    return this
  }

  /** A non-compact nullable string, as the request header has it. */
  nullableString(text: string | null): this {
    if (text === null) return this.int16(-1)
    const bytes = Buffer.from(text, 'utf8')
    return this.int16(bytes.length).raw(bytes)
  }

  compactNullableString(text: string | null): this {
    return text === null ? this.unsignedVarint(0) : this.compactString(text)
  }

  compactString(text: string): this {
    const bytes = Buffer.from(text, 'utf8')
    return this.unsignedVarint(bytes.length + 1).raw(bytes)
  }

  compactArray<Element>(elements: readonly Element[], write: (writer: this, element: Element) => void): this {
    this.unsignedVarint(elements.length + 1)
    for (const element of elements) write(this, element)
    return this
  }

  /** A section of tagged fields without any. */
  noTaggedFields(): this {
    return this.unsignedVarint(0)
  }

  #grow(length: number): number {
    const at = this.#length
    const needed = at + length
    if (needed > this.#buffer.length) {
      const larger = Buffer.allocUnsafe(Math.max(needed, this.#buffer.length * 2))
      this.#buffer.copy(larger, 0, 0, at)
      this.#buffer = larger
    }
    this.#length = needed
    return at
  }
}

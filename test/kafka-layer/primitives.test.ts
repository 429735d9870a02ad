import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { MalformedError, Reader } from '../../src/kafka/protocol/reader.js'
import { Writer } from '../../src/kafka/protocol/writer.js'
import { WireWriter } from '../support/wire.js'

const int32 = fc.integer({ min: -(2 ** 31), max: 2 ** 31 - 1 })
const unsigned32 = fc.integer({ min: 0, max: 2 ** 32 - 1 })
const int64 = fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n })

describe('wire types', () => {
  test('numbers and texts come back as they were written', () => {
    fc.assert(
      fc.property(
        int32,
        unsigned32,
        int32,
        int64,
        fc.string({ unit: 'grapheme' }),
        (fixed, unsigned, zigzag, long, text) => {
          const writer = new Writer(1).int32(fixed).unsignedVarint(unsigned).varint(zigzag).int64(long)
          writer.varlong(long).compactString(text).compactNullableString(null).boolean(true)
          const reader = new Reader(writer.bytes())
          expect(reader.int32()).toBe(fixed)
          expect(reader.unsignedVarint()).toBe(unsigned)
          expect(reader.varint()).toBe(zigzag)
          expect(reader.int64()).toBe(long)
          reader.skipVarlong()
          expect(reader.compactString()).toBe(text)
          expect(reader.compactNullableString()).toBeNull()
          expect(reader.boolean()).toBe(true)
          expect(reader.remaining).toBe(0)
        },
      ),
    )
  })

  test.each([
    [0n, '00'],
    [-1n, '01'],
    [1n, '02'],
    [-64n, '7f'],
    [64n, '8001'],
    [2n ** 63n - 1n, 'feffffffffffffffff01'],
    [-(2n ** 63n), 'ffffffffffffffffff01'],
  ])('varlong %s is %s', (value, bytes) => {
    expect(new Writer().varlong(value).bytes().toString('hex')).toBe(bytes)
  })

  test.each([
    [300, 'ac02'],
    [2 ** 32 - 1, 'ffffffff0f'],
  ])('unsigned varint %s is %s', (value, bytes) => {
    expect(new Writer().unsignedVarint(value).bytes().toString('hex')).toBe(bytes)
  })

  test('tagged fields are passed over, known and unknown, of any size', () => {
    const bytes = new WireWriter()
      .unsignedVarint(3)
      .unsignedVarint(0)
      .unsignedVarint(4)
      .int32(42)
      .unsignedVarint(7)
      .unsignedVarint(0)
      .unsignedVarint(300)
      .unsignedVarint(200)
      .bytes(Buffer.alloc(200))
      .int8(9)
      .toBuffer()
    const reader = new Reader(bytes)
    const seen: number[] = []
    reader.taggedFields((tag, field) => {
      seen.push(tag)
      if (tag === 0) expect(field.int32()).toBe(42)
      if (tag === 7) expect(() => field.int8()).toThrow(MalformedError)
    })
    expect(seen).toEqual([0, 7, 300])
    expect(reader.int8()).toBe(9)
  })

  test.each<[string, string, (reader: Reader) => unknown]>([
    ['a number that is cut off', '0001', (reader) => reader.int32()],
    ['a text longer than the bytes', '0561', (reader) => reader.compactString()],
    ['a null text', '00', (reader) => reader.compactString()],
    ['an endless varint', 'ffffffffffff', (reader) => reader.unsignedVarint()],
    ['an endless varlong', 'ffffffffffffffffffffff', (reader) => reader.skipVarlong()],
    ['an array longer than the bytes', 'ffffffff0f', (reader) => reader.compactArray((element) => element.int8())],
    ['a tagged field longer than the bytes', '01000a', (reader) => reader.taggedFields()],
    ['bytes behind the end', '00', (reader) => reader.expectEnd()],
    ['a negative length', '', (reader) => reader.view(-1)],
  ])('%s is malformed', (_, bytes, read) => {
    expect(() => read(new Reader(Buffer.from(bytes, 'hex')))).toThrow(MalformedError)
  })

  test('a reader of a part does not read beyond it', () => {
    const reader = new Reader(Buffer.from('0102', 'hex'), 0, 1)
    expect(reader.int8()).toBe(1)
    expect(() => reader.int8()).toThrow(MalformedError)
    expect(() => reader.unsignedVarint()).toThrow(MalformedError)
  })

  test('a number outside its field is refused', () => {
    expect(() => new Writer().int16(40_000)).toThrow(RangeError)
    expect(() => new Writer().int64(2n ** 63n)).toThrow(RangeError)
  })
})

/** Our record headers: total readings, the last duplicate, the order of incarnations. */
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  compareIncarnations,
  decodeIncarnation,
  decodeTerm,
  encodeIncarnation,
  encodeTerm,
  type Header,
  headerValue,
  type Incarnation,
} from '../../src/format/headers.js'

const int64 = fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n })
const incarnations: fc.Arbitrary<Incarnation> = fc.record(
  { id: fc.uint8Array({ minLength: 16, maxLength: 16 }), birth: int64, registeredAt: int64 },
  { noNullPrototype: true },
)

describe('headerValue', () => {
  const one = Uint8Array.of(1)
  const two = Uint8Array.of(2)
  const headers: Header[] = [
    ['a', one],
    ['b', null],
    ['a', two],
    ['A', one],
  ]

  it('takes the last of a name, exactly as it is written', () => {
    expect(headerValue(headers, 'a')).toBe(two)
    expect(headerValue(headers, 'b')).toBeNull()
    expect(headerValue(headers, 'c')).toBeUndefined()
    expect(headerValue([], 'a')).toBeUndefined()
  })
})

describe('an incarnation', () => {
  it('reads back as it was written', () => {
    fc.assert(
      fc.property(incarnations, (incarnation) => {
        const bytes = encodeIncarnation(incarnation)
        expect(bytes.byteLength).toBe(32)
        expect(decodeIncarnation(bytes)).toStrictEqual({ ...incarnation, id: Uint8Array.from(incarnation.id) })
      }),
    )
  })

  it('is read from exactly 32 bytes, and from nothing else', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 70 }), (bytes) => {
        expect(decodeIncarnation(bytes) !== undefined).toBe(bytes.length === 32)
      }),
    )
    expect(decodeIncarnation(null)).toBeUndefined()
    expect(decodeIncarnation(undefined)).toBeUndefined()
    expect(decodeIncarnation(new Uint8Array(32))).toStrictEqual({ id: new Uint8Array(16), birth: 0n, registeredAt: 0n })
  })

  it('keeps no memory of the answer that it came in', () => {
    const memory = new Uint8Array(1000)
    const incarnation = decodeIncarnation(memory.subarray(100, 132))
    expect(incarnation?.id.buffer.byteLength).toBe(16)
  })

  it('is not written with an id of another length', () => {
    expect(() => encodeIncarnation({ id: new Uint8Array(15), birth: 0n, registeredAt: 0n })).toThrow('has 16 bytes')
  })
})

describe('the order of incarnations', () => {
  const of = (birth: bigint, registeredAt: bigint, first: number): Incarnation => {
    const id = new Uint8Array(16)
    id[0] = first
    return { id, birth, registeredAt }
  }

  it.each([
    ['birth first', of(1n, 9n, 9), of(2n, 0n, 0)],
    ['then the time of registration', of(1n, -1n, 9), of(1n, 0n, 0)],
    ['then the bytes, unsigned', of(1n, 1n, 0x7f), of(1n, 1n, 0x80)],
  ])('%s', (_what, earlier, later) => {
    expect(compareIncarnations(earlier, later)).toBe(-1)
    expect(compareIncarnations(later, earlier)).toBe(1)
    expect(compareIncarnations(later, later)).toBe(0)
  })

  it('is total', () => {
    const close = fc.record({
      id: fc.constantFrom(0, 1, 255).map((byte) => new Uint8Array(16).fill(byte)),
      birth: fc.constantFrom(0n, 1n),
      registeredAt: fc.constantFrom(-1n, 0n),
    })
    fc.assert(
      fc.property(close, close, close, (a, b, c) => {
        expect(compareIncarnations(b, a)).toBe(0 - compareIncarnations(a, b))
        const same = String(encodeIncarnation(a)) === String(encodeIncarnation(b))
        expect(compareIncarnations(a, b) === 0).toBe(same)
        if (compareIncarnations(a, b) <= 0 && compareIncarnations(b, c) <= 0) {
          expect(compareIncarnations(a, c)).toBeLessThanOrEqual(0)
        }
      }),
      { numRuns: 1000 },
    )
  })
})

describe('a term', () => {
  it('reads back as it was written', () => {
    fc.assert(
      fc.property(fc.bigInt({ min: 0n, max: 2n ** 63n - 1n }), (term) => {
        expect(decodeTerm(encodeTerm(term))).toBe(term)
        expect(new TextDecoder().decode(encodeTerm(term))).toBe(`${term}`)
      }),
    )
  })

  it('is read from its one text only', () => {
    fc.assert(
      fc.property(fc.stringMatching(/^[-+ 0-9a.]{0,21}$/), (text) => {
        const term = decodeTerm(new TextEncoder().encode(text))
        if (term !== undefined) expect(`${term}`).toBe(text)
      }),
      { numRuns: 1000 },
    )
  })

  it('is never an error, whatever the bytes', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 40 }), (bytes) => {
        expect(['bigint', 'undefined']).toContain(typeof decodeTerm(bytes))
      }),
    )
    expect(decodeTerm(null)).toBeUndefined()
    expect(decodeTerm(undefined)).toBeUndefined()
  })

  it.each([-1n, 2n ** 63n])('is an offset, so %s is not written', (term) => {
    expect(() => encodeTerm(term)).toThrow(`${term} is none`)
  })
})

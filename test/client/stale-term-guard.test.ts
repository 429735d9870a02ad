/** `StaleTermGuard`: per role, in each shape in which consumers hand out headers. */
import fc from 'fast-check'
import type { IHeaders } from 'kafkajs'
import { describe, expect, it } from 'vitest'
import { type ConsumedHeaders, StaleTermGuard } from '../../src/client/stale-term-guard.js'
import { parseRole } from '../../src/format/names.js'
import { stampHeaders } from '../../src/format/stamp.js'
import { FencingToken } from '../../src/format/token.js'

function pairs(role: string, term: bigint): readonly (readonly [string, Uint8Array])[] {
  return stampHeaders({ role: parseRole(role), term, token: FencingToken.of(term, 0) })
}

/** As kafkajs's consumer gives them; that its type fits is checked where the shapes are listed. */
function kafkajsHeaders(role: string, term: bigint): Record<string, Buffer> {
  return Object.fromEntries(pairs(role, term).map(([key, value]) => [key, Buffer.from(value)]))
}

function textHeaders(role: string, term: bigint): Record<string, string> {
  return { 'mandate-role': role, 'mandate-term': `${term}`, 'mandate-token': `${term}:0` }
}

describe.each<[string, (role: string, term: bigint) => ConsumedHeaders]>([
  ['pairs', pairs],
  ['buffers by name', (role, term): IHeaders => kafkajsHeaders(role, term)],
  ['text by name', textHeaders],
  ['lists by name', (role, term) => mapValues(kafkajsHeaders(role, term), (value) => [value])],
])('with headers as %s', (_shape, headers) => {
  it('drops what an older term sent, and admits the same term again', () => {
    const guard = new StaleTermGuard()
    const terms = [5n, 5n, 9n, 5n, 8n, 9n, 10n]
    expect(terms.map((term) => guard.admit(headers('a', term)))).toStrictEqual([
      'admitted',
      'admitted',
      'admitted',
      'stale',
      'stale',
      'admitted',
      'admitted',
    ])
  })

  it('judges each role by its own terms', () => {
    const guard = new StaleTermGuard()
    expect(guard.admit(headers('a', 100n))).toBe('admitted')
    expect(guard.admit(headers('b', 5n))).toBe('admitted')
    expect(guard.admit(headers('b', 4n))).toBe('stale')
    expect(guard.admit(headers('a', 99n))).toBe('stale')
  })

  it('compares terms as numbers, above 2^53 too', () => {
    const guard = new StaleTermGuard()
    expect(guard.admit(headers('a', 9n))).toBe('admitted')
    expect(guard.admit(headers('a', 10n))).toBe('admitted')
    expect(guard.admit(headers('a', 2n ** 53n + 1n))).toBe('admitted')
    expect(guard.admit(headers('a', 2n ** 53n))).toBe('stale')
  })
})

describe('what carries no stamp', () => {
  const stamped = kafkajsHeaders('a', 5n)

  it.each<[string, ConsumedHeaders | null | undefined]>([
    ['no headers', undefined],
    ['null for headers', null],
    ['an empty object', {}],
    ['an empty list', []],
    ['other headers', { trace: 'x' }],
    ['no role', { ...stamped, 'mandate-role': undefined }],
    ['no term', { ...stamped, 'mandate-term': undefined }],
    ['no token', { ...stamped, 'mandate-token': undefined }],
    ['an odd term', { ...stamped, 'mandate-term': '5.0' }],
    ['a term above int64', { ...stamped, 'mandate-term': `${2n ** 63n}` }],
    ['an odd token', { ...stamped, 'mandate-token': '4242' }],
    ['a role that is no name', { ...stamped, 'mandate-role': Buffer.from([0xff]) }],
    ['an empty list of terms', { ...stamped, 'mandate-term': [] }],
    ['a value of another type', { ...stamped, 'mandate-term': 5 as unknown as string }],
    ['names inherited only', Object.create(stamped) as ConsumedHeaders],
  ])('is unstamped and remembered as nothing: %s', (_what, headers) => {
    const guard = new StaleTermGuard()
    expect(guard.admit(headers)).toBe('unstamped')
    expect(guard.admit(kafkajsHeaders('a', 0n))).toBe('admitted')
  })

  it('does not change what is remembered', () => {
    const guard = new StaleTermGuard()
    expect(guard.admit(stamped)).toBe('admitted')
    expect(guard.admit({ ...stamped, 'mandate-term': '4x' })).toBe('unstamped')
    expect(guard.admit(kafkajsHeaders('a', 4n))).toBe('stale')
  })
})

describe('several values of one name', () => {
  it('count by their last, as in the record', () => {
    const guard = new StaleTermGuard()
    expect(guard.admit(kafkajsHeaders('a', 5n))).toBe('admitted')
    expect(guard.admit({ ...kafkajsHeaders('a', 5n), 'mandate-term': ['9', '4'] })).toBe('stale')
    expect(guard.admit({ ...kafkajsHeaders('a', 5n), 'mandate-term': ['4', Buffer.from('6')] })).toBe('admitted')
    expect(guard.admit([...pairs('a', 4n), ...pairs('a', 6n)])).toBe('admitted')
    expect(guard.admit([...pairs('a', 7n), ...pairs('a', 5n)])).toBe('stale')
  })
})

describe('any sequence', () => {
  it('admits, per role, exactly what is not below the greatest term before it', () => {
    const record = fc.record({ role: fc.constantFrom('a', 'b'), term: fc.bigInt({ min: 0n, max: 6n }) })
    fc.assert(
      fc.property(fc.array(record, { maxLength: 30 }), (records) => {
        const guard = new StaleTermGuard()
        records.forEach(({ role, term }, index) => {
          const before = records.slice(0, index).filter((other) => other.role === role)
          const stale = before.some((other) => other.term > term)
          expect(guard.admit(kafkajsHeaders(role, term))).toBe(stale ? 'stale' : 'admitted')
        })
      }),
    )
  })
})

function mapValues<T, U>(record: Record<string, T>, map: (value: T) => U): Record<string, U> {
  return Object.fromEntries(Object.entries(record).map(([key, value]) => [key, map(value)]))
}

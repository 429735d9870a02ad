/** `withJson`: 64-bit numbers as text at any depth, nothing enumerable added, nothing of the caller's changed. */
import { describe, expect, expectTypeOf, it } from 'vitest'
import { withJson } from '../../src/format/json.js'
import { parseRole } from '../../src/format/names.js'
import { FencingToken } from '../../src/format/token.js'

const status = {
  role: parseRole('controller'),
  term: 2n ** 53n + 1n,
  token: FencingToken.of(4242n, 7),
  holder: undefined,
  exact: true,
  lease: { grantedAt: -1n, nested: { deadline: 2n ** 63n - 1n } },
  roster: [{ memberId: 'a', offset: 0n }, null, 5n],
}

describe('withJson', () => {
  it('prints 64-bit numbers and tokens as text, at any depth', () => {
    expect(JSON.parse(JSON.stringify(withJson(status)))).toStrictEqual({
      role: 'controller',
      term: '9007199254740993',
      token: '4242:7',
      exact: true,
      lease: { grantedAt: '-1', nested: { deadline: '9223372036854775807' } },
      roster: [{ memberId: 'a', offset: '0' }, null, '5'],
    })
  })

  it('makes every part print by itself', () => {
    const value = withJson(status)
    expect(JSON.stringify(value.lease)).toBe('{"grantedAt":"-1","nested":{"deadline":"9223372036854775807"}}')
    expect(JSON.stringify(value.lease.nested)).toBe('{"deadline":"9223372036854775807"}')
    expect(JSON.stringify(value.roster)).toBe('[{"memberId":"a","offset":"0"},null,"5"]')
    expect(JSON.stringify({ placed: withJson([{ offset: 7n }]) })).toBe('{"placed":[{"offset":"7"}]}')
  })

  it('shows nothing more than the value has', () => {
    const value = withJson(status)
    expect(value).toStrictEqual(status)
    expect(Object.keys(value)).toStrictEqual(Object.keys(status))
    expect(Object.keys(value.roster)).toStrictEqual(['0', '1', '2'])
  })

  it('is frozen down to the last part, and leaves what it was given alone', () => {
    const value = withJson(status)
    expect([value, value.lease, value.lease.nested, value.roster, value.roster[0]].map(Object.isFrozen)).toStrictEqual([
      true,
      true,
      true,
      true,
      true,
    ])
    expect([status, status.lease, status.roster].map(Object.isFrozen)).toStrictEqual([false, false, false])
    expect(Object.hasOwn(status, 'toJSON')).toBe(false)
  })

  it('keeps what prints by itself as it is', () => {
    const value = withJson(status)
    expect(value.token).toBe(status.token)
    expect(withJson({ at: new Date(0) }).toJSON()).toStrictEqual({ at: '1970-01-01T00:00:00.000Z' })
    expect(withJson(value)).toBe(value)
  })

  it('keeps a field whose name is special to objects', () => {
    const value = withJson(JSON.parse('{"__proto__":{"a":1},"constructor":2}') as object)
    expect(JSON.stringify(value)).toBe('{"__proto__":{"a":1},"constructor":2}')
  })

  it('tells its types', () => {
    expectTypeOf(withJson(status).toJSON().term).toEqualTypeOf<string>()
    expectTypeOf(withJson(status).toJSON().token).toEqualTypeOf<string>()
    expectTypeOf(withJson(status).toJSON().exact).toEqualTypeOf<boolean>()
    expectTypeOf(withJson(status).toJSON().lease.grantedAt).toEqualTypeOf<string>()
    expect(withJson(status).toJSON().term).toBe('9007199254740993')
  })
})

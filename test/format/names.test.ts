/** What names a role or a member, and how a refusal reads. */
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { isCoordinationError } from '../../src/errors.js'
import { memberBytes, memberOfBytes, parseMemberId, parseRole, roleBytes, roleOfBytes } from '../../src/format/names.js'

function refusal(call: () => unknown): { option: string | undefined; message: string } {
  try {
    call()
  } catch (error) {
    if (isCoordinationError(error, 'CONFIG')) return { option: error.option, message: error.message }
    throw error
  }
  throw new Error('nothing was refused')
}

describe.each([
  ['role name', 'role', parseRole],
  ['member id', 'memberId', parseMemberId],
] as const)('a %s', (thing, option, parse) => {
  it.each(['a', ' ', '\0', '\ufeff', '\uffff', 'é', 'e\u0301', '😀', 'n'.repeat(249), '漢'.repeat(83)])(
    'may be %j, unchanged',
    (text) => {
      expect(parse(text)).toBe(text)
    },
  )

  it.each([
    ['', `${thing} "" is 0 bytes long; use 1 to 249 bytes of well-formed text`],
    [
      '\ud83d',
      `${thing} "\\ud83d" has a lone surrogate, which UTF-8 cannot hold; use 1 to 249 bytes of well-formed text`,
    ],
    [
      'a\ude00b',
      `${thing} "a\\ude00b" has a lone surrogate, which UTF-8 cannot hold; use 1 to 249 bytes of well-formed text`,
    ],
    ['n'.repeat(250), `${thing} "${'n'.repeat(250)}" is 250 bytes long; use 1 to 249 bytes of well-formed text`],
    ['漢'.repeat(84), `${thing} "${'漢'.repeat(84)}" is 252 bytes long; use 1 to 249 bytes of well-formed text`],
    ['n'.repeat(9000), `${thing} "${'n'.repeat(256)}"... is 9000 bytes long; use 1 to 249 bytes of well-formed text`],
  ])('may not be %j', (text, message) => {
    expect(refusal(() => parse(text))).toStrictEqual({ option, message })
  })

  it.each([
    [undefined, 'undefined'],
    [null, 'null'],
    [7, 'of type number'],
    [{}, 'of type object'],
  ])('may not be %j, which is no text', (value, what) => {
    // As a plain JavaScript caller can: the types forbid it.
    const text = value as unknown as string
    expect(refusal(() => parse(text)).message).toContain(`${thing} must be a string and is ${what}`)
  })

  it('keeps two normal forms apart', () => {
    expect(parse('é')).not.toBe(parse('e\u0301'))
  })
})

describe('the bytes of a name', () => {
  it('read back as the name they came from', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary', minLength: 1, maxLength: 60 }), (text) => {
        expect(roleOfBytes(roleBytes(parseRole(text)))).toBe(text)
        expect(memberOfBytes(memberBytes(parseMemberId(text)))).toBe(text)
      }),
    )
  })

  it('read as a name that can be parsed and written again, or as none', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 300 }), (bytes) => {
        const role = roleOfBytes(bytes)
        expect(memberOfBytes(bytes)).toBe(role)
        if (role !== undefined) expect([...roleBytes(parseRole(role))]).toStrictEqual([...bytes])
      }),
    )
  })

  it.each([
    ['no bytes', []],
    ['250 bytes', Array<number>(250).fill(0x6e)],
    ['a surrogate', [0xed, 0xa0, 0xbd]],
    ['an overlong form', [0xc0, 0x80]],
  ])('name nothing: %s', (_what, bytes) => {
    expect(roleOfBytes(Uint8Array.from(bytes))).toBeUndefined()
  })
})

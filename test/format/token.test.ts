/** The fencing token: what makes one, its text, its equality, and an order that is total. */
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { FencingToken, tokenOfText } from '../../src/format/token.js'

const maxInt64 = 2n ** 63n - 1n

describe('FencingToken.of', () => {
  it.each<[bigint, number]>([
    [0n, 0],
    [4242n, 7],
    [maxInt64, 32767],
  ])('takes %s:%d', (producerId, producerEpoch) => {
    const token = FencingToken.of(producerId, producerEpoch)
    expect([token.producerId, token.producerEpoch]).toStrictEqual([producerId, producerEpoch])
  })

  it.each<[bigint, number, string]>([
    [-1n, 0, 'producerId'],
    [maxInt64 + 1n, 0, 'producerId'],
    [0n, -1, 'producerEpoch'],
    [0n, 32768, 'producerEpoch'],
    [0n, 1.5, 'producerEpoch'],
    [0n, Number.NaN, 'producerEpoch'],
    [-1n, -1, 'producerId'],
    [4242 as unknown as bigint, 0, 'producerId'],
    [0n, '7' as unknown as number, 'producerEpoch'],
  ])('refuses %s:%s', (producerId, producerEpoch, option) => {
    let thrown: unknown
    try {
      FencingToken.of(producerId, producerEpoch)
    } catch (error) {
      thrown = error
    }
    expect(thrown).toMatchObject({ code: 'CONFIG', option })
  })

  it('takes a negative zero for zero', () => {
    expect(Object.is(FencingToken.of(0n, -0).producerEpoch, 0)).toBe(true)
  })
})

describe('a token', () => {
  it('cannot be changed', () => {
    const token = FencingToken.of(4242n, 7)
    expect(Reflect.set(token, 'producerEpoch', 8)).toBe(false)
    expect(Reflect.set(token, 'other', 8)).toBe(false)
    expect(token.toString()).toBe('4242:7')
  })

  it('prints as its text, in JSON too', () => {
    expect(`${FencingToken.of(4242n, 7)}`).toBe('4242:7')
    expect(JSON.stringify({ token: FencingToken.of(maxInt64, 0) })).toBe('{"token":"9223372036854775807:0"}')
  })

  it('is the token of its text', () => {
    fc.assert(
      fc.property(fc.bigInt({ min: 0n, max: maxInt64 }), fc.integer({ min: 0, max: 32767 }), (id, epoch) => {
        const token = FencingToken.of(id, epoch)
        expect(FencingToken.parse(token.toString()).equals(token)).toBe(true)
        expect(FencingToken.parse(`${id}:${epoch}`)).toStrictEqual(token)
      }),
    )
  })
})

describe('the text of a token', () => {
  it.each([
    '',
    '4242',
    '4242:',
    ':7',
    '4242:7:',
    '04242:7',
    '4242:07',
    '+4242:7',
    '4242:-0',
    '-1:-1',
    ' 4242:7',
    '4242:7\n',
  ])('is not %j', (text) => {
    expect(tokenOfText(text)).toBeUndefined()
    let thrown: unknown
    try {
      FencingToken.parse(text)
    } catch (error) {
      thrown = error
    }
    expect(thrown).toMatchObject({
      code: 'CONFIG',
      option: 'token',
      message: `token ${JSON.stringify(text)} must read like 4242:7, producer id and epoch`,
    })
  })

  it('is of one form: any other text is refused, never guessed at', () => {
    fc.assert(
      fc.property(fc.stringMatching(/^[-+ 0-9]{0,4}:[-+ 0-9]{0,4}$/), (text) => {
        const token = tokenOfText(text)
        if (token !== undefined) expect(token.toString()).toBe(text)
      }),
      { numRuns: 1000 },
    )
  })
})

describe('FencingToken.NO_EPOCH', () => {
  it('ranks below every minted token and equals none', () => {
    const lowest = FencingToken.of(0n, 0)
    expect(FencingToken.compare(FencingToken.NO_EPOCH, lowest)).toBe(-1)
    expect(lowest.supersedes(FencingToken.NO_EPOCH)).toBe(true)
    expect(FencingToken.NO_EPOCH.supersedes(lowest)).toBe(false)
    expect(FencingToken.NO_EPOCH.equals(lowest)).toBe(false)
    expect(FencingToken.NO_EPOCH.equals(FencingToken.NO_EPOCH)).toBe(true)
  })

  it('prints, but nothing parses to it', () => {
    expect(FencingToken.NO_EPOCH.toString()).toBe('-1:-1')
    expect(() => FencingToken.parse('-1:-1')).toThrow('must read like 4242:7')
  })
})

describe('the order of tokens', () => {
  const some = fc
    .tuple(fc.bigInt({ min: 0n, max: 3n }), fc.integer({ min: 0, max: 3 }))
    .map(([producerId, producerEpoch]) => FencingToken.of(producerId, producerEpoch))

  it('is total: antisymmetric, transitive, 0 exactly for equal pairs', () => {
    fc.assert(
      fc.property(some, some, some, (a, b, c) => {
        const ab = FencingToken.compare(a, b)
        expect(FencingToken.compare(b, a)).toBe(0 - ab)
        expect(ab === 0).toBe(a.equals(b))
        expect(a.supersedes(b)).toBe(ab === 1)
        if (ab <= 0 && FencingToken.compare(b, c) <= 0) expect(FencingToken.compare(a, c)).toBeLessThanOrEqual(0)
      }),
      { numRuns: 1000 },
    )
  })
})

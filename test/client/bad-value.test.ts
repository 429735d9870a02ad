/** How a refused value is told: what it is, without what it holds. */
import { describe, expect, test } from 'vitest'
import { badValue, unknownName } from '../../src/client/bad-value.js'

describe('a refusal', () => {
  test.each([
    ['30s', '"30s"'],
    ['x'.repeat(61), `"${'x'.repeat(60)}"...`],
    [[], 'an empty list'],
    [['secret'], 'a list'],
    [{ password: 'secret' }, 'an object'],
    [() => 'secret', 'a function'],
    [-1, '-1'],
    [Number.NaN, 'NaN'],
    [null, 'null'],
    [undefined, 'undefined'],
  ])('shows %j as %s', (value, shown) => {
    const error = badValue('leaseMs', value, 'a number')
    expect(error.message).toBe(`leaseMs is ${shown}, wanted a number`)
    expect(error).toMatchObject({ code: 'CONFIG', option: 'leaseMs' })
  })

  test('of a name says which names there are', () => {
    const error = unknownName('leaseMS', 'the options', new Set(['leaseMs', 'signal']))
    expect(error.message).toBe('leaseMS of the options is not known; there may be leaseMs, signal')
    expect(error).toMatchObject({ code: 'CONFIG', option: 'leaseMS' })
  })
})

import { describe, expect, it } from 'vitest'
import { leasePolicy, longestLeaseMs, renewsWithMargin } from '../../src/election/policy.js'
import { isCoordinationError } from '../../src/errors.js'

function refusal(options: Parameters<typeof leasePolicy>[0]): { readonly option: unknown; readonly message: string } {
  try {
    leasePolicy(options)
  } catch (error) {
    if (isCoordinationError(error, 'CONFIG')) return { option: error.option, message: error.message }
    throw error
  }
  throw new Error(`${JSON.stringify(options)} was accepted`)
}

describe('leasePolicy', () => {
  it('has the defaults 30 s, a third, a sixth and the lease', () => {
    expect(leasePolicy({})).toEqual({
      leaseMs: 30_000,
      renewIntervalMs: 10_000,
      staggerMs: 5_000,
      transactionTimeoutMs: 30_000,
    })
  })

  it('derives what is not given from the lease that is, in whole milliseconds', () => {
    expect(leasePolicy({ leaseMs: 1000 })).toEqual({
      leaseMs: 1000,
      renewIntervalMs: 333,
      staggerMs: 166,
      transactionTimeoutMs: 1000,
    })
  })

  it('accepts the limits themselves', () => {
    expect(leasePolicy({ leaseMs: longestLeaseMs }).leaseMs).toBe(900_000)
    expect(leasePolicy({ leaseMs: 2, renewIntervalMs: 1, staggerMs: 2, transactionTimeoutMs: 2 })).toEqual({
      leaseMs: 2,
      renewIntervalMs: 1,
      staggerMs: 2,
      transactionTimeoutMs: 2,
    })
  })

  it.each([
    [{ leaseMs: 0 }, 'leaseMs', '0', '1 to 900000'],
    [{ leaseMs: -1 }, 'leaseMs', '-1', '1 to 900000'],
    [{ leaseMs: Number.NaN }, 'leaseMs', 'NaN', '1 to 900000'],
    [{ leaseMs: Number.POSITIVE_INFINITY }, 'leaseMs', 'Infinity', '1 to 900000'],
    [{ leaseMs: 1.5 }, 'leaseMs', '1.5', '1 to 900000'],
    [{ leaseMs: 900_001 }, 'leaseMs', '900001', '1 to 900000'],
    [{ renewIntervalMs: 30_000 }, 'renewIntervalMs', '30000', 'below leaseMs (30000)'],
    [{ leaseMs: 3000, renewIntervalMs: 10_000 }, 'renewIntervalMs', '10000', 'below leaseMs (3000)'],
    [{ staggerMs: 30_001 }, 'staggerMs', '30001', 'not be above leaseMs (30000)'],
    [{ transactionTimeoutMs: 29_999 }, 'transactionTimeoutMs', '29999', 'not be below leaseMs (30000)'],
    [{ transactionTimeoutMs: 2 ** 31 }, 'transactionTimeoutMs', '2147483648', '1 to 2147483647'],
  ])('refuses %j, naming option, value and limit', (options, option, value, limit) => {
    const refused = refusal(options)
    expect(refused.option).toBe(option)
    expect(refused.message).toContain(`${option} is ${value},`)
    expect(refused.message).toContain(limit)
  })

  it('refuses a value of another type from a plain JavaScript caller', () => {
    expect(refusal(JSON.parse('{"leaseMs":"30000"}')).option).toBe('leaseMs')
  })
})

describe('renewsWithMargin', () => {
  it.each([
    [3000, 1000, true],
    [3000, 1001, false],
    [1000, 333, true],
    [1000, 334, false],
  ])('lease %d renewed each %d: %s', (leaseMs, renewIntervalMs, expected) => {
    expect(renewsWithMargin(leasePolicy({ leaseMs, renewIntervalMs }))).toBe(expected)
  })
})

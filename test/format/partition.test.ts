/** `rolePartition` against Kafka's published hashes and an oracle of its own. */
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { isCoordinationError } from '../../src/errors.js'
import { rolePartition } from '../../src/format/partition.js'
import { murmur2 } from './murmur2.js'

const utf8 = (text: string): Uint8Array => new TextEncoder().encode(text)

describe('the oracle', () => {
  // The first seven are those of Kafka's own UtilsTest.
  it.each([
    ['21', -973932308],
    ['foobar', -790332482],
    ['a-little-bit-long-string', -985981536],
    ['a-little-bit-longer-string', -1486304829],
    ['lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8', -58897971],
    ['abc', 479470107],
    ['é', 186971271],
    ['漢字', 1024270057],
    ['😀', 131881617],
    ['role/é漢😀', 178277256],
  ])('hashes %s as Kafka does', (text, hash) => {
    expect(murmur2(utf8(text))).toBe(hash)
  })
})

describe('rolePartition', () => {
  it.each([
    ['controller', 16, 12],
    ['dispatcher', 16, 10],
    ['role-a', 16, 10],
    ['role-b', 16, 12],
    // Cutting the sign gives 16; an absolute value would give 32 and a signed remainder -32.
    ['foobar', 50, 16],
  ])('puts %s of %i partitions on %i', (role, partitions, partition) => {
    expect(rolePartition(role, partitions)).toBe(partition)
  })

  it('agrees with the oracle for any name', () => {
    const names = fc.string({ unit: 'binary', minLength: 1, maxLength: 60 })
    fc.assert(
      fc.property(names, fc.integer({ min: 1, max: 2 ** 31 - 1 }), (role, partitions) => {
        expect(rolePartition(role, partitions)).toBe((murmur2(utf8(role)) & 0x7fffffff) % partitions)
      }),
      { numRuns: 1000 },
    )
  })

  it.each([0, -1, 1.5, Number.NaN, Number.POSITIVE_INFINITY])('refuses %d partitions', (partitions) => {
    expect(() => rolePartition('controller', partitions)).toThrow(`partitions ${partitions} must be a positive integer`)
  })

  it.each(['', '\ud83d', 'r'.repeat(250)])('refuses what names no role: %j', (role) => {
    expect(caught(() => rolePartition(role, 16))).toBe(true)
  })
})

function caught(call: () => unknown): boolean {
  try {
    call()
    return false
  } catch (error) {
    return isCoordinationError(error, 'CONFIG') && error.option === 'role'
  }
}

import { describe, expect, it } from 'vitest'
import { ageIsProven, seenAt } from '../../src/election/receipt.js'
import { receipt } from './support.js'

const own = receipt(100, 50_000, { appendTime: 1_000_000 })

describe('seenAt', () => {
  it.each([
    ['an hour older under the same leader', receipt(10, 49_990, { appendTime: 1_000_000 - 3_600_000 }), -3_550_000],
    ['4 s older', receipt(99, 49_990, { appendTime: 996_000 }), 46_000],
    ['the own registration itself', own, 50_000],
  ])('is the proven age for a record %s', (_name, record, expected) => {
    expect(ageIsProven(record, own)).toBe(true)
    expect(seenAt(record, own)).toBe(expected)
  })

  it('is never later than the receipt, whatever the append times say', () => {
    // A leader whose clock went back between the record and the own registration.
    expect(seenAt(receipt(10, 49_990, { appendTime: 1_060_000 }), own)).toBe(49_990)
  })

  it.each([
    ['another leader wrote it', receipt(10, 49_990, { appendTime: 996_000, leaderEpoch: 2 })],
    ['its batch is CreateTime', receipt(10, 49_990)],
    ['it came after the own registration, so it was watched live', receipt(101, 60_000, { appendTime: 940_000 })],
  ])('is the receipt where %s', (_name, record) => {
    expect(ageIsProven(record, own)).toBe(false)
    expect(seenAt(record, own)).toBe(record.receivedAt)
  })

  it('is the receipt without a registration, and where the registration is CreateTime or of an unknown leader', () => {
    const record = receipt(10, 49_990, { appendTime: 996_000 })
    expect(seenAt(record, undefined)).toBe(49_990)
    expect(seenAt(record, receipt(100, 50_000))).toBe(49_990)
    const unknown = receipt(10, 49_990, { appendTime: 996_000, leaderEpoch: -1 })
    expect(seenAt(unknown, receipt(100, 50_000, { appendTime: 1_000_000, leaderEpoch: -1 }))).toBe(49_990)
  })
})

import { describe, expect, it } from 'vitest'
import { sweepOf } from '../../src/election/sweep.js'
import {
  fold,
  id,
  incarnation,
  lease,
  leaseTombstone,
  policy,
  receipt,
  registration,
  unreadableLease,
} from './support.js'

// Holder a crashed: expiry 40 s. Slots: b 40 s, c 45 s, d 50 s, e 55 s. Member d wins.
const a = incarnation('a', 1)
const records = [
  registration(1, 'a', { of: a, at: 1000 }),
  registration(2, 'b', { at: 1000 }),
  registration(3, 'c', { at: 1000 }),
  registration(4, 'd', { at: 1000 }),
  registration(5, 'e', { at: 1000 }),
]
const leaseOfA = lease(10, { member: 'a', of: a, at: 10_000 })
const winner = { memberId: id('d'), ownRegistration: receipt(4, 1000) }
const bySlot = { policy, wonBySlot: true, lastErrorAt: undefined }

describe('sweepOf', () => {
  it.each([
    [50_010, ['a', 'b', 'c']],
    [50_000, ['a', 'b']],
    [45_000, ['a']],
    [40_000, ['a']],
    [39_999, []],
    [60_001, ['a', 'b', 'c', 'e']],
  ])('at %d: the holder and those whose slot lies more than one stagger back', (now, expected) => {
    expect(sweepOf(fold([...records, leaseOfA]), winner, { ...bySlot, now })).toEqual(expected)
  })

  it('sweeps nobody for a winner that took its role back', () => {
    expect(sweepOf(fold([...records, leaseOfA]), winner, { ...bySlot, wonBySlot: false, now: 60_000 })).toEqual([])
  })

  it.each([
    [60_000, 70_000, ['a']],
    [60_000, 70_001, ['a', 'b', 'c', 'e']],
    [70_000, 70_001, ['a']],
  ])('an own error at %d, judged at %d: an outage does not sweep the living', (lastErrorAt, now, expected) => {
    expect(sweepOf(fold([...records, leaseOfA]), winner, { ...bySlot, lastErrorAt, now })).toEqual(expected)
  })

  it('goes by the stagger where that is longer than it takes to come back', () => {
    const patient = { ...bySlot, policy: { ...policy, staggerMs: 12_000 }, lastErrorAt: 60_000 }
    expect(sweepOf(fold([...records, leaseOfA]), winner, { ...patient, now: 72_000 })).toEqual(['a'])
    expect(sweepOf(fold([...records, leaseOfA]), winner, { ...patient, now: 72_001 })).toEqual(['a', 'b', 'c'])
  })

  it('never sweeps a later incarnation of the holder before its own slot', () => {
    const returned = registration(12, 'a', { of: incarnation('a2', 11), at: 49_000 })
    const swept = sweepOf(fold([...records, leaseOfA, returned]), winner, { ...bySlot, now: 50_010 })
    expect(swept).toEqual(['b', 'c'])
  })

  it('sweeps no holder whose lease is live again, as when a rival won in between', () => {
    const rival = lease(20, { member: 'c', token: '100:2', at: 50_000 })
    expect(sweepOf(fold([...records, leaseOfA, rival]), winner, { ...bySlot, now: 50_010 })).toEqual([])
  })

  it('after a resignation counts from the tombstone, and members registered 5 ms ago are safe', () => {
    const state = fold([...records.slice(1), registration(6, 'f', { at: 99_990 }), leaseTombstone(11, { at: 60_000 })])
    expect(sweepOf(state, winner, { ...bySlot, now: 99_995 })).toEqual(['b', 'c', 'e'])
  })

  describe('of a winner behind a crowd', () => {
    // Slots: 40 s and then one every 5 s; the member behind twelve has 100 s, and goes at 70 s, a length after the expiry.
    const crowd = Array.from({ length: 12 }, (_, index) => `c${index}`)
    const queue = [
      registration(1, 'a', { of: a, at: 1000 }),
      ...crowd.map((name, index) => registration(2 + index, name, { at: 1000 })),
      registration(20, 'last', { at: 1000 }),
      registration(21, 'behind', { at: 1000 }),
    ]
    const last = { memberId: id('last'), ownRegistration: receipt(20, 1000) }

    it('that waited a whole length: everybody in front of it and nobody behind', () => {
      expect(sweepOf(fold([...queue, leaseOfA]), last, { ...bySlot, now: 70_010 })).toEqual(['a', ...crowd])
    })

    it('that had an error a moment ago: nobody but the holder', () => {
      const swept = sweepOf(fold([...queue, leaseOfA]), last, { ...bySlot, now: 70_010, lastErrorAt: 65_020 })
      expect(swept).toEqual(['a'])
    })

    it('a millisecond before its length was over: only those whose slot lies back', () => {
      const swept = sweepOf(fold([...queue, leaseOfA]), last, { ...bySlot, now: 69_999 })
      expect(swept).toEqual(['a', ...crowd.slice(0, 5)])
    })

    it('that was swept itself, and so stands behind the last one: all of them', () => {
      const without = queue.filter((record) => record !== queue[13])
      const swept = sweepOf(fold([...without, leaseOfA]), last, { ...bySlot, now: 70_010 })
      expect(swept).toEqual(['a', ...crowd, 'behind'])
    })
  })

  it('with an unreadable lease sweeps no holder', () => {
    const state = fold([...records.slice(0, 1), leaseOfA, unreadableLease(11, { header: '100:0', at: 20_000 })])
    expect(sweepOf(state, winner, { ...bySlot, now: 50_001 })).toEqual([])
  })

  it('never sweeps the winner itself', () => {
    expect(sweepOf(fold([...records, leaseOfA]), winner, { ...bySlot, now: 900_000 })).toEqual(['a', 'b', 'c', 'e'])
  })
})

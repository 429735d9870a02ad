import { describe, expect, it } from 'vitest'
import { leasePolicy } from '../../src/election/policy.js'
import type { Receipt } from '../../src/election/receipt.js'
import { evaluate, holderOf, roster, slots, staggeredMs } from '../../src/election/succession.js'
import {
  fold,
  id,
  incarnation,
  lease,
  leaseTombstone,
  policy,
  receipt,
  registration,
  registrationTombstone,
  self,
  token,
  unreadableLease,
} from './support.js'

// Lease 30 s, stagger 5 s. One incarnation of each member, born where it registered.
const a = incarnation('a', 1)
const b = incarnation('b', 2)
const c = incarnation('c', 3)
const regA = registration(1, 'a', { of: a, at: 1000 })
const regB = registration(2, 'b', { of: b, at: 2000 })
const regC = registration(3, 'c', { of: c, at: 3000 })
const selfA = self('a', a, receipt(1, 1000))
const selfB = self('b', b, receipt(2, 2000))
const selfC = self('c', c, receipt(3, 3000))
const leaseOfA = lease(10, { member: 'a', of: a, token: '100:5', at: 10_000 })

const waitUntil = (until: number, reregister = false) => ({ decision: 'wait', until, reregister })
const challenge = (by: string, slot: number, reregister = false) => ({ decision: 'challenge', by, slot, reregister })

describe('rule 1: register', () => {
  it('comes first, however free the role', () => {
    expect(evaluate(fold([]), self('a', a, undefined), 0, policy)).toEqual({ decision: 'register', reregister: false })
    const expired = fold([regB, lease(10, { member: 'b', of: b, at: 0 })])
    expect(evaluate(expired, self('a', a, undefined), 99_000, policy).decision).toBe('register')
  })

  it('comes before a take-back: a restarted holder registers first', () => {
    const old = incarnation('x', 0)
    const state = fold([registration(1, 'a', { of: old }), lease(2, { member: 'a', of: old })])
    expect(evaluate(state, self('a', incarnation('y', 3), undefined), 1, policy).decision).toBe('register')
  })

  it('is not repeated for one that was swept: reregister stands beside the decision', () => {
    const swept = fold([regA, regB, leaseTombstone(4, { at: 4000 }), registrationTombstone(5, 'b')])
    // Slot of a member behind the last one: a has its slot at 4 s, so 9 s.
    expect(evaluate(swept, selfB, 8999, policy)).toEqual(waitUntil(9000, true))
    expect(evaluate(swept, selfB, 9000, policy)).toEqual(challenge('slot', 9000, true))
  })

  it('is not repeated for one overwritten by a smaller incarnation either', () => {
    const older = incarnation('z', 0)
    const state = fold([regB, registration(7, 'b', { of: older, at: 7000 })])
    // The zombie's registration stands before it in its own queue: slot 7 s, so it waits until 12 s.
    expect(evaluate(state, selfB, 7500, policy)).toEqual(waitUntil(12_000, true))
  })
})

describe('rule 2: live leases', () => {
  it('of my handle: hold, until it expires', () => {
    const state = fold([regA, regB, leaseOfA])
    const holder = self('a', a, receipt(1, 1000), { token: token('100:5') })
    expect(evaluate(state, holder, 39_999, policy)).toEqual({ decision: 'hold', reregister: false })
    expect(evaluate(state, holder, 40_000, policy).decision).not.toBe('hold')
  })

  it('of my predecessor: challenge at once, since I registered', () => {
    const a2 = incarnation('a2', 11)
    const state = fold([regA, regB, leaseOfA, registration(12, 'a', { of: a2, at: 15_000 })])
    expect(evaluate(state, self('a', a2, receipt(12, 15_000)), 15_000, policy)).toEqual(
      challenge('predecessor', 15_000),
    )
  })

  it('of a predecessor that another port wrote: its term lies before my birth', () => {
    const a2 = incarnation('a2', 11)
    const ports = lease(10, { member: 'a', token: '100:5', at: 10_000 })
    const state = fold([registration(1, 'a'), ports, registration(12, 'a', { of: a2, at: 15_000 })])
    expect(evaluate(state, self('a', a2, receipt(12, 15_000)), 15_000, policy)).toEqual(
      challenge('predecessor', 15_000),
    )
  })

  it('of a token that this process minted and lost otherwise than by resigning: challenge at once', () => {
    const state = fold([regA, regB, leaseOfA])
    const ended = self('a', a, receipt(1, 1000), { endedTokens: [token('100:5')] })
    expect(evaluate(state, ended, 12_000, policy)).toEqual(challenge('ended-token', 10_000))
    expect(evaluate(state, self('a', a, receipt(1, 1000)), 12_000, policy)).toEqual(waitUntil(45_000))
  })

  it('give no privilege once expired', () => {
    const a2 = incarnation('a2', 11)
    const state = fold([regA, regB, regC, leaseOfA, registration(12, 'a', { of: a2, at: 15_000 })])
    // a2 is no holder: behind b (40 s) and c (45 s).
    expect(evaluate(state, self('a', a2, receipt(12, 15_000)), 40_000, policy)).toEqual(waitUntil(50_000))
    const ended = self('a', a, receipt(1, 1000), { endedTokens: [token('100:5')] })
    expect(evaluate(fold([regA, regB, leaseOfA]), ended, 40_000, policy)).toEqual(waitUntil(45_000))
  })

  it('of others: wait for the slot', () => {
    const state = fold([regA, regB, regC, leaseOfA])
    expect(evaluate(state, selfB, 39_999, policy)).toEqual(waitUntil(40_000))
    expect(evaluate(state, selfB, 40_000, policy)).toEqual(challenge('slot', 40_000))
    expect(evaluate(state, selfC, 40_000, policy)).toEqual(waitUntil(45_000))
  })
})

describe('what of a wait is due to the members in front', () => {
  it('is counted from the end of the last term', () => {
    const state = fold([regA, regB, regC, leaseOfA])
    expect(staggeredMs(state, selfB.ownRegistration as Receipt, 40_000, policy)).toBe(0)
    expect(staggeredMs(state, selfC.ownRegistration as Receipt, 45_000, policy)).toBe(5_000)
  })

  it('is counted from the own registration where that came later, or where nobody ever led', () => {
    const late = receipt(20, 44_000)
    expect(staggeredMs(fold([regA, leaseOfA]), late, 44_000, policy)).toBe(0)
    expect(staggeredMs(fold([regA, regB]), selfB.ownRegistration as Receipt, 6_000, policy)).toBe(4_000)
  })
})

describe('rule 3: slots', () => {
  const slotsOf = (...args: Parameters<typeof slots>) => slots(...args).map((entry) => [entry.memberId, entry.slot])

  it('of a free role start with the registrations', () => {
    expect(slotsOf(fold([regA, regB, regC]), undefined, policy)).toEqual([
      ['a', 1000],
      ['b', 6000],
      ['c', 11_000],
    ])
  })

  it('are never before the own registration was seen', () => {
    const late = registration(3, 'c', { of: c, at: 60_000 })
    expect(slotsOf(fold([regA, regB, late]), undefined, policy).at(-1)).toEqual(['c', 60_000])
  })

  it('after a resignation start with the tombstone: rank 0 at once', () => {
    const state = fold([regB, regC, leaseOfA, leaseTombstone(11, { header: '100:6', at: 20_000 })])
    expect(slotsOf(state, undefined, policy)).toEqual([
      ['b', 20_000],
      ['c', 25_000],
    ])
    expect(evaluate(state, selfB, 20_000, policy)).toEqual(challenge('slot', 20_000))
  })

  it('of a crashed holder start with the expiry, the holder taken out', () => {
    const state = fold([regA, regB, regC, leaseOfA])
    expect(slotsOf(state, undefined, policy)).toEqual([
      ['b', 40_000],
      ['c', 45_000],
    ])
  })

  it('use the length that the holder set, and the stagger that is mine', () => {
    const short = lease(10, { member: 'a', of: a, lengthMs: 3000, at: 10_000 })
    const mine = leasePolicy({ leaseMs: 6000, staggerMs: 500 })
    expect(slotsOf(fold([regA, regB, regC, short]), undefined, mine)).toEqual([
      ['b', 13_000],
      ['c', 13_500],
    ])
  })

  it('of an unreadable lease start one own length after its receipt, nobody taken out', () => {
    const state = fold([regA, regB, leaseOfA, unreadableLease(12, { header: '100:5', at: 20_000 })])
    expect(slotsOf(state, undefined, policy)).toEqual([
      ['a', 50_000],
      ['b', 55_000],
    ])
  })

  it('count a proven age: corpses and old leases cost a late starter nothing', () => {
    // All written under one leader, an hour before the own registration by the leader's clock.
    const stamped = { at: 100_000, appendTime: 0 }
    const own = receipt(50, 100_000, { appendTime: 3_600_000 })
    const of = incarnation('z', 49)
    const records = [
      registration(1, 'a', { of: a, ...stamped }),
      registration(2, 'b', { of: b, ...stamped }),
      lease(10, { member: 'a', of: a, ...stamped }),
      registration(50, 'z', { of, at: 100_000, appendTime: 3_600_000 }),
    ]
    expect(evaluate(fold(records), self('z', of, own), 100_000, policy)).toEqual(challenge('slot', 100_000))
  })

  it('without a proof count from the receipt', () => {
    const of = incarnation('z', 49)
    const records = [
      registration(1, 'a', { of: a, at: 100_000, appendTime: 0, leaderEpoch: 2 }),
      lease(10, { member: 'a', of: a, at: 100_000, appendTime: 0, leaderEpoch: 2 }),
      registration(50, 'z', { of, at: 100_000, appendTime: 3_600_000 }),
    ]
    const own = receipt(50, 100_000, { appendTime: 3_600_000 })
    expect(evaluate(fold(records), self('z', of, own), 100_000, policy)).toEqual(waitUntil(130_000))
  })

  it('of mine come one lease length after the anchor at the latest, however many corpses stand in front', () => {
    const corpses = Array.from({ length: 20 }, (_, index) => registration(20 + index, `corpse-${index}`, { at: 0 }))
    const of = incarnation('z', 49)
    const last = registration(50, 'z', { of, at: 12_000 })
    const own = receipt(50, 12_000)
    expect(evaluate(fold([regA, leaseOfA, ...corpses, last]), self('z', of, own), 12_000, policy)).toEqual(
      waitUntil(70_000),
    )
    expect(evaluate(fold([...corpses, last]), self('z', of, own), 12_000, policy)).toEqual(waitUntil(42_000))
    // The length is the holder's while there is a lease, else the own.
    const short = lease(10, { member: 'a', of: a, lengthMs: 3000, at: 10_000 })
    expect(evaluate(fold([regA, short, ...corpses, last]), self('z', of, own), 12_000, policy)).toEqual(
      waitUntil(16_000),
    )
  })

  it('of a holder whose lease expired in an outage: behind the last, and alone at once', () => {
    const alone = fold([regA, leaseOfA])
    expect(evaluate(alone, selfA, 40_000, policy)).toEqual(challenge('slot', 40_000))
    expect(evaluate(fold([regA, regB, leaseOfA]), selfA, 40_000, policy)).toEqual(waitUntil(45_000))
  })

  it('of a lone member that crashed and comes back with its id after the expiry: at once', () => {
    const a2 = incarnation('a2', 11)
    const state = fold([regA, leaseOfA, registration(12, 'a', { of: a2, at: 41_000 })])
    expect(evaluate(state, self('a', a2, receipt(12, 41_000)), 41_000, policy)).toEqual(challenge('slot', 41_000))
  })
})

describe('the holder', () => {
  it('is the member of the lease while its registration is of the incarnation that wrote it', () => {
    expect(holderOf(fold([regA, regB, leaseOfA]))?.offset).toBe(1n)
    const later = registration(12, 'a', { of: incarnation('a2', 11) })
    expect(holderOf(fold([regA, regB, leaseOfA, later]))).toBeUndefined()
    expect(holderOf(fold([regB, leaseOfA]))).toBeUndefined()
  })

  it('of another port registered below the term', () => {
    const ports = lease(10, { member: 'a', token: '100:5' })
    expect(holderOf(fold([registration(1, 'a'), ports]))?.offset).toBe(1n)
    expect(holderOf(fold([ports, registration(11, 'a')]))).toBeUndefined()
    const renewed = lease(20, { member: 'a', token: '100:5', header: '100:6' })
    expect(holderOf(fold([ports, registration(11, 'a'), renewed]))).toBeUndefined()
  })

  it('registered by another port did not write a lease of ours', () => {
    expect(holderOf(fold([registration(1, 'a'), leaseOfA]))).toBeUndefined()
  })

  it('is nobody after a tombstone or an unreadable value', () => {
    expect(holderOf(fold([regA, leaseOfA, leaseTombstone(11, { header: '100:5' })]))).toBeUndefined()
    expect(holderOf(fold([regA, leaseOfA, unreadableLease(11, { header: '100:5' })]))).toBeUndefined()
  })

  it('is taken out of the roster before ranks are given', () => {
    expect(roster(fold([regB, regA, regC, leaseOfA])).map((entry) => [entry.memberId, entry.rank])).toEqual([
      ['b', 0],
      ['c', 1],
    ])
  })
})

describe('rule 5: superseded', () => {
  const later = incarnation('later', 30)

  it('by a registration of a greater incarnation', () => {
    const state = fold([regA, registration(31, 'a', { of: later })])
    expect(evaluate(state, selfA, 0, policy)).toEqual({
      decision: 'superseded',
      by: { source: 'registration', offset: 31n, incarnation: later },
      reregister: false,
    })
  })

  it('by a counted lease of a greater incarnation, live or expired', () => {
    const state = fold([regA, lease(31, { member: 'a', of: later, at: 0 })])
    expect(evaluate(state, selfA, 10, policy)).toMatchObject({ decision: 'superseded', by: { source: 'lease' } })
    expect(evaluate(state, selfA, 99_000, policy).decision).toBe('superseded')
  })

  it('never by my own registration or lease, however often it is read or sent again', () => {
    const again = registration(40, 'a', { of: a, at: 1500 })
    expect(evaluate(fold([regA, again]), selfA, 2000, policy)).toEqual(challenge('slot', 1500))
    // The follower delivers the record before the produce was answered.
    expect(evaluate(fold([regA]), self('a', a, undefined), 2000, policy).decision).toBe('register')
  })

  it('never by a smaller one, not even where its record is newer: two processes do not both stop', () => {
    const older = incarnation('older', 0)
    const state = fold([registration(31, 'a', { of: later }), lease(35, { member: 'a', of: older, at: 0 })])
    expect(evaluate(state, self('a', later, receipt(31, 0)), 1, policy)).toMatchObject({ by: 'predecessor' })
    expect(evaluate(state, self('a', older, receipt(5, 0)), 1, policy).decision).toBe('superseded')
  })

  it('orders by birth, then by the first registration, then by the bytes', () => {
    const elder = { ...incarnation('n', 30), registeredAt: 5n }
    const younger = { ...incarnation('m', 30), registeredAt: 6n }
    const twin = { ...incarnation('o', 30), registeredAt: 5n }
    const decision = (mine: typeof elder, other: typeof elder) =>
      evaluate(fold([registration(31, 'a', { of: other })]), self('a', mine, receipt(30, 0)), 0, policy).decision
    expect(decision(elder, younger)).toBe('superseded')
    expect(decision(younger, elder)).not.toBe('superseded')
    expect(decision(elder, twin)).toBe('superseded')
    expect(decision(twin, elder)).not.toBe('superseded')
  })

  it('by another port with my id: born at its offset, for a lease at its term', () => {
    expect(evaluate(fold([regA, registration(31, 'a')]), selfA, 0, policy).decision).toBe('superseded')
    // The port registers nothing, since the roster has its id; its lease tells.
    expect(evaluate(fold([regA, lease(31, { member: 'a' })]), selfA, 0, policy).decision).toBe('superseded')
    expect(evaluate(fold([regA, lease(0, { member: 'a', at: 0 })]), selfA, 1000, policy)).toMatchObject({
      by: 'predecessor',
    })
  })

  it('is told before anything else, an own live lease included', () => {
    const state = fold([leaseOfA, registration(31, 'a', { of: later })])
    const holder = self('a', a, undefined, { token: token('100:5') })
    expect(evaluate(state, holder, 10_001, policy).decision).toBe('superseded')
  })

  it('is nobody else by the registration of another member', () => {
    expect(evaluate(fold([regA, registration(31, 'b', { of: later })]), selfA, 1000, policy).decision).toBe('challenge')
  })
})

describe('a state that is being read again', () => {
  it('gives wait without an instant', () => {
    expect(evaluate(undefined, selfA, 5, policy)).toEqual({ decision: 'wait', until: undefined, reregister: false })
  })
})

describe('schedules', () => {
  it('a clock of the broker that jumps during watched renewals moves no slot', () => {
    const own = receipt(2, 2000, { appendTime: 1_000_000 })
    const member = self('b', b, own)
    const renewed = (appendTime: number) =>
      fold([regA, regB, lease(20, { member: 'a', of: a, at: 60_000, appendTime }), regC])
    for (const jump of [-3_600_000, -60_000, 0, 60_000, 3_600_000]) {
      expect(evaluate(renewed(1_058_000 + jump), member, 60_001, policy)).toEqual(waitUntil(90_000))
    }
  })

  it("deadlines by a wall clock that is hours off change nothing: the holder's length counts", () => {
    const shifted = lease(10, { member: 'a', of: a, at: 10_000 })
    if (shifted.kind !== 'lease') throw new Error('not a lease')
    const offset = 86_400_000n
    const { grantedAt, deadline } = shifted.lease
    const record = {
      ...shifted,
      lease: { ...shifted.lease, grantedAt: grantedAt - offset, deadline: deadline - offset },
    }
    expect(evaluate(fold([regA, regB, record]), selfB, 11_000, policy)).toEqual(waitUntil(40_000))
  })

  it('a foreign tombstone or lease of another transactional id ends no wait', () => {
    const foreign = [
      leaseTombstone(11, { header: '300:0', at: 12_000 }),
      lease(12, { member: 'b', of: b, token: '300:1', at: 13_000 }),
    ]
    expect(evaluate(fold([regA, regB, leaseOfA, ...foreign]), selfB, 14_000, policy)).toEqual(waitUntil(40_000))
  })

  it('after a full outage slots are long past and all may look, none sooner than its slot', () => {
    const state = fold([regA, regB, regC, leaseOfA])
    expect(evaluate(state, selfB, 200_000, policy)).toEqual(challenge('slot', 40_000))
    expect(evaluate(state, selfC, 200_000, policy)).toEqual(challenge('slot', 45_000))
  })

  it('a member id that nobody registered is behind everybody and still not left out', () => {
    const lost = self(id('d'), incarnation('d', 4), receipt(4, 3500))
    expect(evaluate(fold([regA, regB, regC]), lost, 3500, policy)).toEqual(waitUntil(16_000, true))
  })
})

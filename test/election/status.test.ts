import { describe, expect, it } from 'vitest'
import type { ReadRecord } from '../../src/election/record.js'
import type { RoleState } from '../../src/election/role-state.js'
import { leadershipStatus, type StatusContext } from '../../src/election/status.js'
import {
  fold,
  incarnation,
  lease,
  leaseTombstone,
  receipt,
  registration,
  role,
  token,
  unreadableLease,
} from './support.js'

const a = incarnation('a', 1)
const members = [registration(1, 'a', { of: a }), registration(2, 'b'), registration(3, 'c')]
const leaseOfA = (at: number) => lease(10, { member: 'a', token: '4242:7', of: a, at, appendTime: 500 })
const folded = (records: readonly ReadRecord[]): RoleState => fold(records, [100n, 4242n])

const context: StatusContext = {
  role,
  now: 20_000,
  observedAt: 1_700_000_000_123,
  ownRegistration: undefined,
  liveSince: 5000,
  authority: 'unknown',
}

describe('leadershipStatus', () => {
  it('shows a lease that was watched live', () => {
    const status = leadershipStatus(folded([...members, leaseOfA(10_000)]), { ...context, authority: 'current' })
    expect(status).toEqual({
      role: 'controller',
      state: 'held',
      holder: 'a',
      token: token('4242:7'),
      term: 10n,
      termExact: true,
      authority: 'current',
      current: true,
      lease: { grantedAt: 1_700_000_000_000n, deadline: 1_700_000_030_000n, expiresInMs: 20_000 },
      roster: [
        { memberId: 'b', offset: 2n, rank: 0 },
        { memberId: 'c', offset: 3n, rank: 1 },
      ],
      observedAt: 1_700_000_000_123,
    })
  })

  it('prints as JSON with 64-bit numbers as text', () => {
    const status = leadershipStatus(folded([...members, leaseOfA(10_000)]), { ...context, authority: 'current' })
    expect(JSON.parse(JSON.stringify(status))).toMatchObject({
      token: '4242:7',
      term: '10',
      lease: { grantedAt: '1700000000000', deadline: '1700000030000', expiresInMs: 20_000 },
      roster: [
        { memberId: 'b', offset: '2', rank: 0 },
        { memberId: 'c', offset: '3', rank: 1 },
      ],
    })
  })

  it.each([
    ['held to its last millisecond', 39_999, 'held'],
    ['expired then', 40_000, 'expired'],
  ])('is %s', (_name, now, expected) => {
    const status = leadershipStatus(folded([...members, leaseOfA(10_000)]), { ...context, now })
    expect(status.state).toBe(expected)
    expect(status.lease?.expiresInMs).toBe(expected === 'held' ? 1 : 0)
    expect(status.holder).toBe('a')
  })

  it('is unproven for a lease of before the first read, until a length has passed or a renewal came', () => {
    const atStart = folded([...members, leaseOfA(4000)])
    const status = leadershipStatus(atStart, context)
    expect(status.state).toBe('unproven')
    expect(status.lease).toEqual({ grantedAt: 1_700_000_000_000n, deadline: 1_700_000_030_000n })
    expect(leadershipStatus(atStart, { ...context, now: 34_000 }).state).toBe('expired')
    expect(leadershipStatus(atStart, { ...context, liveSince: undefined }).state).toBe('unproven')
    expect(leadershipStatus(folded([...members, leaseOfA(5000)]), context).state).toBe('unproven')
    expect(leadershipStatus(folded([...members, leaseOfA(5001)]), context).state).toBe('held')
  })

  it('dates such a lease by the own registration where that proves its age', () => {
    const atStart = folded([...members, leaseOfA(4000)])
    const held = { ...context, ownRegistration: receipt(20, 4100, { appendTime: 10_500 }) }
    // Written 10 s before the registration: seen at -5.9 s, so it runs out at 24.1 s.
    expect(leadershipStatus(atStart, held)).toMatchObject({ state: 'held', lease: { expiresInMs: 4100 } })
    expect(leadershipStatus(atStart, { ...held, now: 24_100 }).state).toBe('expired')
    const dead = { ...context, ownRegistration: receipt(20, 4100, { appendTime: 3_600_000 }) }
    expect(leadershipStatus(atStart, dead).state).toBe('expired')
  })

  it.each<[string, readonly ReadRecord[], string]>([
    ['nothing was ever written', [], 'vacant'],
    ['the lease was given up', [leaseOfA(10_000), leaseTombstone(11, { header: '4242:8' })], 'vacant'],
    ['the lease cannot be read', [leaseOfA(10_000), unreadableLease(11, { header: '4242:7' })], 'unreadable'],
    ['only a look can tell whose lease it is', [lease(10, { token: '300:0' })], 'unknown'],
    ['a lease is forged beside a vacancy', [lease(10, { transactional: false })], 'vacant'],
  ])('without a holder where %s', (_name, records, expected) => {
    const status = leadershipStatus(folded([...members, ...records]), { ...context, authority: 'current' })
    expect(status).toMatchObject({ state: expected, termExact: false, authority: 'unknown', current: false })
    expect(status.holder).toBeUndefined()
    expect(status.lease).toBeUndefined()
    expect(status.roster.map((entry) => entry.memberId)).toEqual(['a', 'b', 'c'])
  })

  it('is unknown while the log is read again', () => {
    expect(leadershipStatus(undefined, context)).toEqual({
      role: 'controller',
      state: 'unknown',
      termExact: false,
      authority: 'unknown',
      current: false,
      roster: [],
      observedAt: 1_700_000_000_123,
    })
  })

  it('is current only by an authority that says so', () => {
    const state = folded([leaseOfA(10_000)])
    expect(leadershipStatus(state, { ...context, authority: 'superseded' })).toMatchObject({
      authority: 'superseded',
      current: false,
    })
  })
})

import { describe, expect, it } from 'vitest'
import { type HeldTerm, lossSeen } from '../../src/election/loss.js'
import type { ReadRecord } from '../../src/election/record.js'
import { applyLook, nameProducer } from '../../src/election/role-state.js'
import {
  fold,
  foldOn,
  id,
  incarnation,
  lease,
  leaseTombstone,
  registration,
  token,
  unreadableLease,
} from './support.js'

const a = incarnation('a', 1)
const b = incarnation('b', 2)
const mine = lease(10, { member: 'a', token: '100:5', of: a })
const held: HeldTerm = { token: token('100:5'), lastLeaseOffset: 10n, memberId: id('a'), incarnation: a }

const quiet: readonly [string, readonly ReadRecord[]][] = [
  ['my own lease alone', [mine]],
  ['my renewal, read before its answer came', [mine, lease(20, { member: 'a', token: '100:5', of: a, term: 10 })]],
  ['old tombstones and leases below mine, as a re-read brings them', [leaseTombstone(5, { header: '100:4' }), mine]],
  ['a forged record below mine', [lease(5, { token: '300:0' }), mine]],
  ['registrations of others', [mine, registration(20, 'b', { of: b })]],
  [
    'a forged record that my renewal has already covered',
    [mine, lease(15, { token: '100:5', transactional: false }), lease(20, { member: 'a', token: '100:5', of: a })],
  ],
]

describe('lossSeen', () => {
  it.each(quiet)('is undefined for %s', (_name, records) => {
    expect(lossSeen(fold(records), held)).toBeUndefined()
  })

  it('is fenced by a lease of a higher epoch, and names the successor', () => {
    expect(lossSeen(fold([mine, lease(20, { member: 'b', token: '100:7', of: b })]), held)).toEqual({
      kind: 'fenced',
      successor: { member: 'b', token: token('100:7'), term: 20n },
    })
  })

  it.each([
    ['a tombstone of a higher epoch', leaseTombstone(20, { header: '100:7' })],
    ['an unreadable value of a higher epoch', unreadableLease(20, { header: '100:7' })],
    ['a tombstone under another named id', leaseTombstone(20, { header: '200:0' })],
  ])('is fenced without a successor by %s', (_name, record) => {
    expect(lossSeen(fold([mine, record]), held)).toEqual({ kind: 'fenced', successor: undefined })
  })

  it('is fenced by a lease under another id once that id is named; before, it asks for a look', () => {
    const state = fold([mine, lease(20, { member: 'b', token: '300:0', of: b })])
    expect(lossSeen(state, held)).toEqual({ kind: 'look' })
    expect(lossSeen(nameProducer(state, 300n), held)).toMatchObject({ kind: 'fenced', successor: { term: 20n } })
  })

  it('asks for a renewal once the look refuted that id, and for no second look', () => {
    const state = fold([mine, lease(20, { member: 'b', token: '300:0', of: b, at: 5 })])
    const looked = applyLook(state, { found: true, producerId: 100n, sentAt: 6 }).state
    expect(lossSeen(looked, held)).toEqual({ kind: 'renew' })
    const again = foldOn(looked, [lease(30, { token: '300:0', at: 7 })])
    expect(lossSeen(again, { ...held, lastLeaseOffset: 25n })).toEqual({ kind: 'renew' })
    expect(lossSeen(again, { ...held, lastLeaseOffset: 31n })).toBeUndefined()
  })

  it.each([
    ['a plain record', lease(20, { token: '100:9', transactional: false })],
    ['a plain tombstone', leaseTombstone(20, { header: '100:9', transactional: false })],
    ['a claim its header does not bear out', lease(20, { token: '100:9', header: '100:8' })],
    ['a tombstone under my own pair, which only user code can have written', leaseTombstone(20, { header: '100:5' })],
    ['an unreadable value under my own pair', unreadableLease(20, { header: '100:5' })],
  ])('asks for a renewal after %s', (_name, record) => {
    expect(lossSeen(fold([mine, record]), held)).toEqual({ kind: 'renew' })
  })

  it('is superseded by a greater incarnation, of a registration or a lease', () => {
    const later = incarnation('a2', 15)
    expect(lossSeen(fold([mine, registration(16, 'a', { of: later })]), held)).toMatchObject({
      kind: 'superseded',
      by: { source: 'registration', offset: 16n },
    })
    expect(lossSeen(fold([mine, lease(20, { member: 'a', token: '100:7', of: later })]), held)).toMatchObject({
      kind: 'superseded',
      by: { source: 'lease', offset: 20n },
    })
  })

  it('is fenced, not superseded, by a smaller incarnation of the id', () => {
    const older = incarnation('a0', 0)
    expect(lossSeen(fold([mine, lease(20, { member: 'a', token: '100:7', of: older })]), held)?.kind).toBe('fenced')
  })
})

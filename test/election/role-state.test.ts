import { describe, expect, it } from 'vitest'
import { readRecord } from '../../src/election/record.js'
import {
  applyLook,
  applyRecord,
  emptyRoleState,
  forgetBelow,
  nameProducer,
  registrationOf,
  wantsLook,
  withKnownReceipts,
} from '../../src/election/role-state.js'
import { parseRole } from '../../src/format/names.js'
import {
  entryOf,
  fold,
  foldOn,
  id,
  incarnation,
  type LeaseOptions,
  lease,
  leaseTombstone,
  logRecord,
  registration,
  registrationTombstone,
  role,
  unreadableLease,
  unreadableRegistration,
} from './support.js'

const members = (state: ReturnType<typeof fold>): readonly string[] => state.registrations.map((entry) => entry.member)

describe('registrations', () => {
  it('stand in offset order, the newest record of a key counting', () => {
    const state = fold([registration(1, 'a'), registration(2, 'b'), registration(3, 'c'), registration(4, 'a')])
    expect(members(state)).toEqual(['b', 'c', 'a'])
    expect(registrationOf(state, id('a'))?.offset).toBe(4n)
  })

  it('keep the highest offset when an older record settles late', () => {
    const state = fold([registration(9, 'a'), registration(2, 'b'), registration(3, 'a')])
    expect(state.registrations.map((entry) => [entry.member, entry.offset])).toEqual([
      ['b', 2n],
      ['a', 9n],
    ])
  })

  it.each([
    ['in order', [registration(3, 'a'), registrationTombstone(7, 'a')], []],
    ['with the registration settling after it', [registrationTombstone(7, 'a'), registration(3, 'a')], []],
    ['and come back above it', [registrationTombstone(7, 'a'), registration(8, 'a')], ['a']],
    [
      'and stay when the tombstone of an older one settles late',
      [registration(8, 'a'), registrationTombstone(7, 'a')],
      ['a'],
    ],
  ])('end by a tombstone %s', (_name, records, expected) => {
    expect(members(fold(records))).toEqual(expected)
  })

  it('keep the receipt of their first reading when a record comes twice', () => {
    const state = fold([registration(1, 'a', { at: 100 }), registration(1, 'a', { at: 9000 })])
    expect(registrationOf(state, id('a'))?.receivedAt).toBe(100)
  })

  it('whose value cannot be read are reported and gone, the others stand', () => {
    const before = fold([registration(1, 'a'), registration(2, 'b')])
    const applied = applyRecord(before, unreadableRegistration(3, 'a'))
    expect(members(applied.state)).toEqual(['b'])
    expect(applied.finding).toMatchObject({ kind: 'unreadable-record', role: 'controller', offset: 3n })
  })

  it('remember tombstones until nothing below them can settle', () => {
    const state = fold([registrationTombstone(7, 'a'), registrationTombstone(9, 'b')])
    const kept = forgetBelow(state, 7n)
    expect(members(foldOn(kept, [registration(3, 'a')]))).toEqual([])
    const forgotten = forgetBelow(state, 8n)
    expect(members(foldOn(forgotten, [registration(3, 'a'), registration(4, 'b')]))).toEqual(['a'])
    expect(forgetBelow(forgotten, 8n)).toBe(forgotten)
    expect(forgetBelow(state, 10n).removals).toBeUndefined()
  })
})

describe('an unreadable key', () => {
  it('is reported and changes nothing', () => {
    const state = fold([registration(1, 'a')])
    const applied = applyRecord(state, readRecord(logRecord(2, { key: new Uint8Array([1]) })))
    expect(applied.state).toBe(state)
    expect(applied.finding).toMatchObject({ kind: 'unreadable-record', role: undefined, offset: 2n })
  })

  it('of another role is a broken invariant', () => {
    const other = emptyRoleState(parseRole('other'))
    expect(() => applyRecord(other, registration(1, 'a'))).toThrow('controller')
  })
})

describe('what counts as a lease (I7)', () => {
  const counted = lease(10, { token: '100:5' })

  it.each<[string, LeaseOptions]>([
    ['the claimed pair in the header', { token: '100:6' }],
    ['a header epoch above the claim, as other ports have', { token: '100:5', header: '100:9' }],
    ['a named id under the same claim, as after a rotation', { token: '100:5', header: '200:0' }],
    ['a new claim under another named id', { token: '200:0' }],
  ])('counts with %s', (_name, options) => {
    const applied = applyRecord(fold([counted]), lease(20, options))
    expect(applied.finding).toBeUndefined()
    expect(entryOf(applied.state, 'lease').offset).toBe(20n)
  })

  it.each<[string, LeaseOptions]>([
    ['written outside a transaction, even with the right pair', { token: '100:5', transactional: false }],
    ['of a header epoch below the claim', { token: '100:6', header: '100:5' }],
    ['that claims another pair than its header, and not the last one', { token: '100:6', header: '200:0' }],
    ['with its own matching pair but not transactional', { token: '300:0', transactional: false }],
  ])('does not count a lease %s', (_name, options) => {
    const before = fold([counted])
    const applied = applyRecord(before, lease(20, options))
    expect(applied.finding).toMatchObject({ kind: 'foreign-record', role: 'controller', offset: 20n })
    expect(entryOf(applied.state, 'lease').offset).toBe(10n)
    expect(applied.state.uncountedOffset).toBe(20n)
    expect(wantsLook(applied.state)).toBe(false)
  })

  it('does not count a producer id of -1 in a transaction', () => {
    const record = lease(20)
    if (record.kind !== 'lease') throw new Error('not a lease')
    const writer = { transactional: true, producerId: -1n, producerEpoch: -1 }
    const applied = applyRecord(fold([counted]), { ...record, writer })
    expect(applied.finding?.kind).toBe('foreign-record')
    expect(entryOf(applied.state, 'lease').offset).toBe(10n)
  })

  it.each<[string, LeaseOptions, 'tombstone' | 'lease']>([
    ['under the id of the lease, same epoch', { header: '100:5' }, 'tombstone'],
    ['under the id of the lease, epoch above (sealed)', { header: '100:6' }, 'tombstone'],
    ['under the id of the lease, epoch below', { header: '100:4' }, 'lease'],
    ['under another named id', { header: '200:0' }, 'tombstone'],
    ['under an id nobody named', { header: '300:0' }, 'lease'],
    ['outside a transaction', { header: '100:5', transactional: false }, 'lease'],
  ])('a tombstone %s leaves a %3$s', (_name, options, expected) => {
    expect(fold([counted, leaseTombstone(20, options)]).lease?.kind).toBe(expected)
  })

  it('an unreadable value of a named id is unreadable, never vacant (I12), and of an unnamed one nothing', () => {
    expect(entryOf(fold([counted, unreadableLease(20, { header: '100:5' })]), 'unreadable')).toMatchObject({
      offset: 20n,
      reason: expect.stringContaining('lease'),
    })
    expect(entryOf(fold([counted, unreadableLease(20, { header: '300:5' })]), 'lease').offset).toBe(10n)
  })

  it('shows what the holder wrote', () => {
    const of = incarnation('a', 3)
    const at = { at: 77, leaderEpoch: 4, appendTime: 1234 }
    const state = fold([lease(10, { token: '100:5', header: '100:7', lengthMs: 12_000, of, ...at })])
    expect(entryOf(state, 'lease')).toMatchObject({
      member: 'node-1',
      lengthMs: 12_000,
      grantedAt: 1_700_000_000_000n,
      deadline: 1_700_000_012_000n,
      header: { producerId: 100n, producerEpoch: 7 },
      offset: 10n,
      receivedAt: 77,
      leaderEpoch: 4,
      appendTime: 1234n,
      incarnation: of,
    })
  })

  it.each([
    [-5000, 0],
    [0, 0],
    [900_000, 900_000],
    [900_001, 900_000],
  ])('takes a length of %d ms for %d', (lengthMs, expected) => {
    expect(entryOf(fold([lease(1, { lengthMs })]), 'lease').lengthMs).toBe(expected)
  })
})

describe('candidates', () => {
  const look = (producerId: bigint, sentAt: number) => ({ found: true, producerId, sentAt })

  it('are the first lease of an empty state, until an own mint or a look names them', () => {
    const state = fold([lease(10, { token: '100:5' })], [])
    expect(state.lease).toBeUndefined()
    expect(wantsLook(state)).toBe(true)
    const named = nameProducer(state, 100n)
    expect(entryOf(named, 'lease').offset).toBe(10n)
    expect(wantsLook(named)).toBe(false)
  })

  it('are the first tombstone and the first unreadable value of an empty state', () => {
    expect(nameProducer(fold([leaseTombstone(10)], []), 100n).lease?.kind).toBe('tombstone')
    expect(nameProducer(fold([unreadableLease(10)], []), 100n).lease?.kind).toBe('unreadable')
  })

  it('count afterwards without a further look, in a re-read too', () => {
    const named = nameProducer(fold([lease(10)], []), 100n)
    const again = foldOn(emptyRoleState(role, { named: named.named }), [lease(10)])
    expect(again.lease?.offset).toBe(10n)
  })

  it('bring their newest record, with the term of their first', () => {
    const state = fold([lease(10, { token: '100:5' }), lease(20, { token: '100:5' })], [])
    expect(entryOf(nameProducer(state, 100n), 'lease')).toMatchObject({ offset: 20n, term: 10n, termExact: false })
  })

  it('do not displace a counted lease that is newer', () => {
    const state = fold([lease(10, { token: '300:0' }), lease(20, { token: '100:5' })], [100n])
    expect(wantsLook(state)).toBe(false)
    expect(entryOf(nameProducer(state, 300n), 'lease').offset).toBe(20n)
  })

  it('are refuted by a look that was sent after they came and shows another id, for good and with a finding', () => {
    const forged = fold([lease(10, { token: '100:5' }), lease(20, { token: '300:9', at: 1000 })])
    const early = applyLook(forged, look(100n, 999))
    expect(early.findings).toEqual([])
    expect(wantsLook(early.state)).toBe(true)
    const late = applyLook(forged, look(100n, 1000))
    expect(late.findings).toMatchObject([{ kind: 'foreign-record', offset: 20n }])
    expect(wantsLook(late.state)).toBe(false)
    const next = applyRecord(late.state, lease(30, { token: '300:9', at: 2000 }))
    expect(next.finding).toMatchObject({ kind: 'foreign-record', offset: 30n })
    expect(wantsLook(next.state)).toBe(false)
    expect(entryOf(next.state, 'lease').offset).toBe(10n)
  })

  it("are judged by their first record: an id that a look did not show then is never the role's", () => {
    const records = [lease(10), lease(20, { token: '300:9', at: 1000 }), lease(30, { token: '300:9', at: 5000 })]
    expect(wantsLook(applyLook(fold(records), look(100n, 3000)).state)).toBe(false)
  })

  it('stay refuted when the holder renews above them', () => {
    const forged = fold([lease(10, { token: '100:5' }), lease(20, { token: '300:9', at: 1000 })])
    const refuted = applyLook(forged, look(100n, 1500)).state
    const after = foldOn(refuted, [lease(30, { token: '100:5' }), lease(40, { token: '300:9', at: 9000 })])
    expect(wantsLook(after)).toBe(false)
    expect(entryOf(after, 'lease').offset).toBe(30n)
  })

  it("between a counted lease and its token's beginning are a finding, for ids never come back", () => {
    const records = [lease(10, { token: '100:5' }), lease(20, { token: '300:9' }), lease(30, { token: '100:5' })]
    const looked = applyLook(fold(records, []), look(100n, 5000))
    expect(entryOf(looked.state, 'lease')).toMatchObject({ offset: 30n, term: 10n })
    expect(looked.findings).toMatchObject([{ kind: 'foreign-record', offset: 20n }])
  })

  it('that cannot be read are a finding once they count, by their own id or by a look', () => {
    const unread = { kind: 'unreadable-record', offset: 10n }
    expect(applyRecord(emptyRoleState(role, { named: [100n] }), unreadableLease(10)).finding).toMatchObject(unread)
    const candidate = applyRecord(emptyRoleState(role), unreadableLease(10))
    expect(candidate.finding).toBeUndefined()
    expect(applyLook(candidate.state, look(100n, 5000)).findings).toMatchObject([unread])
    expect(applyLook(candidate.state, look(200n, 5000)).findings).toMatchObject([{ kind: 'foreign-record' }])
  })

  it('of the role earlier ids, below the counted lease, are no finding', () => {
    const state = fold([lease(10, { token: '300:0' }), lease(20, { token: '100:5' })], [])
    const looked = applyLook(state, look(100n, 5))
    expect(entryOf(looked.state, 'lease').offset).toBe(20n)
    expect(looked.findings).toEqual([])
  })

  it('of an expired id end without a finding', () => {
    const left = fold([lease(10, { at: 5 })], [])
    const gone = applyLook(left, { found: false, producerId: -1n, sentAt: 6 })
    expect(gone.findings).toEqual([])
    expect(gone.state.lease).toBeUndefined()
    expect(wantsLook(gone.state)).toBe(false)
  })

  it('of a rotated id count once the look names the new id, the claim standing for itself', () => {
    // Another port's leader after 32,766 commits: the lease still claims the minted pair.
    const state = applyLook(fold([lease(10, { token: '100:5', header: '200:3' })], []), look(200n, 50)).state
    expect(entryOf(state, 'lease')).toMatchObject({ offset: 10n, header: { producerId: 200n, producerEpoch: 3 } })
    const live = fold([lease(10, { token: '100:5' }), lease(20, { token: '100:5', header: '200:3' })], [100n])
    expect(entryOf(live, 'lease').offset).toBe(10n)
    expect(wantsLook(live)).toBe(true)
    expect(entryOf(applyLook(live, look(200n, 50)).state, 'lease')).toMatchObject({ offset: 20n, term: 10n })
  })

  it('are bounded to 8 producer ids, the oldest dropped', () => {
    const forged = Array.from({ length: 12 }, (_, index) => lease(100 + index, { token: `${1000 + index}:0` }))
    const state = fold([lease(10), ...forged])
    expect(state.candidates.map((candidate) => candidate.producerId)).toEqual([
      1004n,
      1005n,
      1006n,
      1007n,
      1008n,
      1009n,
      1010n,
      1011n,
    ])
    expect(entryOf(state, 'lease').offset).toBe(10n)
  })
})

describe('withKnownReceipts', () => {
  it('keeps the instants of offsets that were known, and takes new ones as they are', () => {
    const known = fold([registration(1, 'a', { at: 100 }), lease(2, { at: 200 })])
    const fresh = fold([registration(1, 'a', { at: 9000 }), lease(2, { at: 9000 }), registration(3, 'b', { at: 9000 })])
    const state = withKnownReceipts(fresh, known)
    expect(entryOf(state, 'lease').receivedAt).toBe(200)
    expect(state.registrations.map((entry) => entry.receivedAt)).toEqual([100, 9000])
  })

  it('does not date a newer record of the same key back', () => {
    const state = withKnownReceipts(fold([lease(5, { at: 9000 })]), fold([lease(2, { at: 200 })]))
    expect(entryOf(state, 'lease').receivedAt).toBe(9000)
  })
})

import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { ReadRecord } from '../../src/election/record.js'
import { applyRecord, type RoleState } from '../../src/election/role-state.js'
import { type Evaluation, evaluate, type Self, slots } from '../../src/election/succession.js'
import { sweepOf } from '../../src/election/sweep.js'
import {
  entryOf,
  fold,
  id,
  incarnation,
  lease,
  leaseTombstone,
  policy,
  receipt,
  registration,
  registrationTombstone,
  token,
  unreadableLease,
} from './support.js'

const names = ['a', 'b', 'c', 'd'] as const
const name = fc.constantFrom(...names)
const instant = fc.integer({ min: 0, max: 120_000 })

/** What one record of a generated log is, before it has an offset. */
type Draft = (offset: number, at: number) => ReadRecord

const registrationDraft = fc
  .record({ name, isOurs: fc.boolean() })
  .map<Draft>(
    (draft) => (offset, at) =>
      registration(offset, draft.name, draft.isOurs ? { of: incarnation(draft.name, offset), at } : { at }),
  )
const registrationTombstoneDraft = name.map<Draft>((who) => (offset, at) => registrationTombstone(offset, who, { at }))
const leaseDraft = fc
  .record({
    name,
    epoch: fc.integer({ min: 0, max: 3 }),
    isOurs: fc.boolean(),
    lengthMs: fc.integer({ min: 0, max: 60_000 }),
  })
  .map<Draft>((draft) => (offset, at) => {
    const options = { member: draft.name, token: `100:${draft.epoch}`, lengthMs: draft.lengthMs, at }
    return lease(offset, draft.isOurs ? { ...options, of: incarnation(draft.name, offset) } : options)
  })
const leaseTombstoneDraft = fc.constant<Draft>((offset, at) => leaseTombstone(offset, { header: '100:3', at }))
const unreadableDraft = fc.constant<Draft>((offset, at) => unreadableLease(offset, { header: '100:3', at }))

const drafts = fc.array(
  fc.oneof(
    { arbitrary: registrationDraft, weight: 4 },
    registrationTombstoneDraft,
    { arbitrary: leaseDraft, weight: 2 },
    leaseTombstoneDraft,
    unreadableDraft,
  ),
  { maxLength: 12 },
)

/** A log whose records are received in offset order, and a member that looks at it. */
const scene = fc
  .record({
    drafts,
    steps: fc.array(fc.integer({ min: 0, max: 8000 }), { minLength: 12, maxLength: 12 }),
    name,
    birth: fc.integer({ min: 0, max: 12 }),
    ownAt: instant,
    token: fc.option(fc.integer({ min: 0, max: 3 })),
    ended: fc.array(fc.integer({ min: 0, max: 3 }), { maxLength: 2 }),
    now: instant,
  })
  .map(({ drafts: all, steps, birth, ownAt, now, ...who }) => {
    let at = 0
    const records = all.map((draft, index) => {
      at += steps[index] ?? 0
      return draft(index + 1, at)
    })
    const self: Self = {
      memberId: id(who.name),
      incarnation: incarnation(who.name, birth),
      ownRegistration: receipt(birth, ownAt),
      token: who.token === null ? undefined : token(`100:${who.token}`),
      endedTokens: who.ended.map((epoch) => token(`100:${epoch}`)),
    }
    return { records, state: fold(records), self, now }
  })

/** Instants at which an answer could change: each receipt, with lengths and staggers added, and a grid. */
function instantsBetween(state: RoleState, self: Self, from: number, to: number): readonly number[] {
  const receipts = [
    self.ownRegistration?.receivedAt ?? 0,
    state.lease?.receivedAt ?? 0,
    ...state.registrations.map((entry) => entry.receivedAt),
  ]
  const lengthMs = state.lease?.kind === 'lease' ? state.lease.lengthMs : policy.leaseMs
  const edges = receipts.flatMap((at) => [
    at,
    at + lengthMs,
    ...[1, 2, 3, 4].map((rank) => at + lengthMs + rank * 5000),
  ])
  const grid = Array.from({ length: 20 }, (_, index) => from + ((to - from) * index) / 20)
  return [from, to - 0.5, ...grid, ...edges.flatMap((at) => [at - 0.5, at, at + 0.5])].filter(
    (at) => at >= from && at < to,
  )
}

describe('evaluate', () => {
  it('waits until the earliest instant at which its answer changes', () => {
    let waits = 0
    fc.assert(
      fc.property(scene, ({ state, self, now }) => {
        const answer = evaluate(state, self, now, policy)
        if (answer.decision !== 'wait') return
        waits++
        const { until } = answer
        if (until === undefined) throw new Error('A known state gave no instant')
        expect(until).toBeGreaterThan(now)
        for (const at of instantsBetween(state, self, now, until)) {
          expect(evaluate(state, self, at, policy)).toEqual(answer)
        }
        expect(evaluate(state, self, until, policy).decision).toBe('challenge')
      }),
      { numRuns: 3000 },
    )
    expect(waits).toBeGreaterThan(200)
  })

  it('reads no clock: moving every instant by the same time moves the answer by that time', () => {
    const moved = (answer: Evaluation, by: number): Evaluation => {
      if (answer.decision === 'wait' && answer.until !== undefined) return { ...answer, until: answer.until + by }
      return answer.decision === 'challenge' ? { ...answer, slot: answer.slot + by } : answer
    }
    fc.assert(
      fc.property(scene, fc.integer({ min: -1_000_000, max: 1_000_000 }), ({ records, state, self, now }, by) => {
        const later = fold(
          records.map((record) =>
            record.kind === 'unreadable-key'
              ? record
              : { ...record, receipt: { ...record.receipt, receivedAt: record.receipt.receivedAt + by } },
          ),
        )
        const own = self.ownRegistration
        if (own === undefined) throw new Error('Every scene has a registration')
        const movedSelf = { ...self, ownRegistration: { ...own, receivedAt: own.receivedAt + by } }
        expect(evaluate(later, movedSelf, now + by, policy)).toEqual(moved(evaluate(state, self, now, policy), by))
      }),
    )
  })

  it('lets everybody challenge one lease length after expiry and the own registration at the latest', () => {
    fc.assert(
      fc.property(scene, ({ state, self }) => {
        const own = self.ownRegistration?.receivedAt ?? 0
        const lengthMs = state.lease?.kind === 'lease' ? state.lease.lengthMs : policy.leaseMs
        const anchor = state.lease === undefined ? own : state.lease.receivedAt + Math.max(lengthMs, policy.leaseMs)
        const latest = Math.max(anchor, own) + lengthMs
        expect(['challenge', 'superseded']).toContain(evaluate(state, self, latest, policy).decision)
      }),
    )
  })
})

describe('slots', () => {
  it('never fall with the rank, keep the stagger, and never precede what they rest on', () => {
    fc.assert(
      fc.property(scene, ({ state, self }) => {
        const queue = slots(state, self.ownRegistration, policy)
        for (const [index, entry] of queue.entries()) {
          const before = queue[index - 1]
          if (before !== undefined) {
            expect(entry.slot).toBeGreaterThanOrEqual(before.slot + policy.staggerMs)
            expect(entry.offset).toBeGreaterThan(before.offset)
          }
          expect(entry.rank).toBe(index)
          expect(entry.slot).toBeGreaterThanOrEqual(entry.registration.receivedAt)
          if (state.lease?.kind === 'lease') {
            expect(entry.slot).toBeGreaterThanOrEqual(state.lease.receivedAt + state.lease.lengthMs)
          }
        }
      }),
    )
  })

  it('come no sooner when the lease is received later', () => {
    fc.assert(
      fc.property(scene, fc.integer({ min: 0, max: 50_000 }), ({ state, self }, delay) => {
        if (state.lease === undefined) return
        const later = { ...state, lease: { ...state.lease, receivedAt: state.lease.receivedAt + delay } }
        const before = slots(state, self.ownRegistration, policy)
        for (const [index, entry] of slots(later, self.ownRegistration, policy).entries()) {
          expect(entry.slot).toBeGreaterThanOrEqual(before[index]?.slot ?? Number.NaN)
        }
      }),
    )
  })
})

describe('sweepOf', () => {
  it('spares the winner and everybody whose slot is not more than a stagger back', () => {
    fc.assert(
      fc.property(scene, ({ state, self, now }) => {
        const swept = sweepOf(state, self, { now, policy, wonBySlot: true, lastErrorAt: undefined })
        expect(swept).not.toContain(self.memberId)
        const young = slots(state, self.ownRegistration, policy).filter((entry) => entry.slot >= now - policy.staggerMs)
        for (const entry of young) expect(swept).not.toContain(entry.memberId)
      }),
    )
  })
})

describe('the fold', () => {
  const plain = fc.oneof(
    registrationDraft,
    registrationTombstoneDraft,
    fc.constant<Draft>((offset, at) => lease(offset, { transactional: false, at })),
  )
  /** The role's own transactions: leases under rising epochs, tombstones, and sweeps. */
  const own = fc.record({ what: fc.constantFrom('renewal', 'take-over', 'tombstone', 'sweep'), name })
  const foreign = fc.constantFrom('300', '301')

  const log = fc.array(
    fc.oneof(
      plain.map((draft) => ({ stream: 'plain', draft })),
      own.map((draft) => ({ stream: 'own', draft })),
      foreign.map((producer) => ({ stream: producer, draft: producer })),
    ),
    { maxLength: 24 },
  )

  /** The records of each stream in the order in which they settle. */
  function streamsOf(entries: typeof log extends fc.Arbitrary<infer T> ? T : never): ReadonlyMap<string, ReadRecord[]> {
    const streams = new Map<string, ReadRecord[]>()
    let epoch = 0
    for (const [index, { stream, draft }] of entries.entries()) {
      const offset = index + 1
      const at = offset * 100
      let record: ReadRecord
      if (typeof draft === 'function') record = draft(offset, at)
      else if (typeof draft === 'string') record = lease(offset, { token: `${draft}:0`, at })
      else {
        if (draft.what === 'take-over') epoch++
        const pair = `100:${epoch}`
        if (draft.what === 'sweep') record = registrationTombstone(offset, draft.name, { at })
        else if (draft.what === 'tombstone') record = leaseTombstone(offset, { header: pair, at })
        else record = lease(offset, { member: draft.name, token: pair, at, of: incarnation(draft.name, 0) })
      }
      streams.set(stream, [...(streams.get(stream) ?? []), record])
    }
    return streams
  }

  it('gives the same state whatever order transactions settle in, and when records come twice', () => {
    fc.assert(
      fc.property(log, fc.infiniteStream(fc.nat()), (entries, picks) => {
        const streams = streamsOf(entries)
        const offsetOf = (record: ReadRecord): bigint =>
          record.kind === 'unreadable-key' ? record.offset : record.receipt.offset
        const inOrder = [...streams.values()].flat().sort((x, y) => (offsetOf(x) < offsetOf(y) ? -1 : 1))
        const left = [...streams.values()].map((records) => [...records])
        const settled: ReadRecord[] = []
        while (settled.length < inOrder.length) {
          const open = left.filter((records) => records.length > 0)
          const next = open[(picks.next().value ?? 0) % open.length]?.shift()
          if (next === undefined) throw new Error('A stream ran dry')
          settled.push(next)
        }
        const expected = fold(inOrder, [100n])
        expect(fold(settled, [100n])).toEqual(expected)
        expect(fold([...settled, ...settled], [100n])).toEqual(expected)
      }),
      { numRuns: 1000 },
    )
  })

  it('never changes a state that it was given', () => {
    fc.assert(
      fc.property(scene, ({ records }) => {
        let state = fold([])
        for (const record of records) {
          const before = { ...state, registrations: [...state.registrations], candidates: [...state.candidates] }
          const after = applyRecord(state, record).state
          expect(state).toEqual(before)
          state = after
        }
      }),
    )
  })
})

describe('terms', () => {
  // What the role's own transactions write, with the true term of each lease: some producers are of other ports.
  const turn = fc.record({
    renewals: fc.integer({ min: 0, max: 4 }),
    isOurs: fc.boolean(),
    resigns: fc.boolean(),
    producer: fc.constantFrom('100', '200'),
  })

  it('strictly rise over tokens and tombstones, for a reader from the start and for late ones', () => {
    fc.assert(
      fc.property(fc.array(turn, { minLength: 1, maxLength: 8 }), fc.nat(40), (turns, start) => {
        const records: { readonly record: ReadRecord; readonly term: number; readonly isOurs: boolean }[] = []
        let offset = 10
        for (const [index, one] of turns.entries()) {
          const term = offset
          const pair = `${one.producer}:${index}`
          const of = one.isOurs ? { of: incarnation('a', 1) } : {}
          records.push({ record: lease(offset++, { token: pair, ...of }), term, isOurs: one.isOurs })
          for (let renewal = 0; renewal < one.renewals; renewal++) {
            const header = one.isOurs ? { term } : {}
            records.push({ record: lease(offset++, { token: pair, ...of, ...header }), term, isOurs: one.isOurs })
          }
          if (one.resigns) records.push({ record: leaseTombstone(offset++, { header: pair }), term: -1, isOurs: true })
        }
        // A late reader finds the rest of a compacted log: any suffix of what was written under the one key.
        const read = records.slice(Math.min(start, records.length - 1))
        let state = fold([])
        let last: { readonly token: string; readonly term: bigint } | undefined
        for (const { record, term, isOurs } of read) {
          state = applyRecord(state, record).state
          if (state.lease?.kind !== 'lease') continue
          const counted = entryOf(state, 'lease')
          if (counted.termExact) expect(counted.term).toBe(BigInt(term))
          expect(counted.term).toBeGreaterThanOrEqual(BigInt(term))
          expect(counted.termExact).toBe(isOurs)
          if (last !== undefined && last.token !== counted.token.toString()) {
            expect(counted.term).toBeGreaterThan(last.term)
          }
          last = { token: counted.token.toString(), term: counted.term }
        }
      }),
      { numRuns: 500 },
    )
  })
})

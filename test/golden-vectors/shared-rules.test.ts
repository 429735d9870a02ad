/**
 * The library against the vectors of the shared rules, by the word of the parity table: where it says `equal` the library gives
 * what each vector says; where it says `differs` the library is seen to give something else on the vector that the row names.
 *
 * The staging of a rule is what its vectors leave open (who wrote the lease, whether this process registered); it is given here by
 * hand for each rule, and no rule may be left out.
 */
import { describe, expect, it } from 'vitest'
import { type DecisionOutcome, ourDecision, ourFold, type Staging, usualStaging } from './ours.js'
import { type Parity, readParity } from './parity.js'
import { type DecisionVector, type FoldVector, vectorsOf } from './vectors.js'

const parity = readParity()
const folds = vectorsOf<FoldVector>('folds')
const decisions = vectorsOf<DecisionVector>('decisions')
const rules = [...new Set([...folds, ...decisions].map((vector) => vector.rule))]

const stagings: Readonly<Record<string, Partial<Staging>>> = {
  register: { registered: 'not-yet', leaseOf: 'predecessor' },
  'register-again': { registered: 'gone', leaseOf: 'self' },
  'restarted-member': { registered: 'not-yet' },
  hold: { leaseOf: 'self' },
  'own-live-lease': { leaseOf: 'predecessor' },
  'own-id-other-token': {},
  'own-token-other-name': {},
  'slot-after-lease': {},
  'holder-not-registered': {},
  'names-as-bytes': {},
  'expired-own-lease': { leaseOf: 'self' },
  'late-registration': {},
  'far-rank': {},
  'deadline-before-grant': {},
  'long-lease': {},
  'wall-clock': { leaseRead: 'now' },
  'vacant-first': {},
  'vacant-rank': {},
  'after-resignation': { resigned: true },
}

function ours(vector: DecisionVector): DecisionOutcome {
  const staging = stagings[vector.rule]
  if (staging === undefined) throw new Error(`No staging is known for the rule ${vector.rule}`)
  return ourDecision(vector, { ...usualStaging, ...staging })
}

const isEqual = ({ rule }: { readonly rule: string }): boolean => parity.get(rule)?.ours === 'equal'

describe('the parity table', () => {
  it('has one row for each rule that vectors have, and no other', () => {
    expect([...parity.keys()].sort()).toStrictEqual(rules.toSorted())
  })

  it('knows of each rule what its decisions leave open', () => {
    expect(Object.keys(stagings).sort()).toStrictEqual([...new Set(decisions.map(({ rule }) => rule))].sort())
  })

  it('calls each rule equal that is, and no other', () => {
    const differing = new Set([
      ...folds.filter((vector) => !sameFold(vector)).map(({ rule }) => rule),
      ...decisions.filter((vector) => !sameDecision(vector)).map(({ rule }) => rule),
    ])
    const said = rules.filter((rule) => parity.get(rule)?.ours === 'differs')
    expect([...differing].sort()).toStrictEqual(said.toSorted())
  })

  it('holds enough vectors', () => {
    expect(folds.length).toBeGreaterThanOrEqual(40)
    expect(decisions.length).toBeGreaterThanOrEqual(60)
    for (const rule of rules) {
      expect([rule, [...folds, ...decisions].filter((one) => one.rule === rule).length]).not.toEqual([rule, 1])
    }
  })
})

function sameFold(vector: FoldVector): boolean {
  return JSON.stringify(ourFold(vector)) === JSON.stringify({ lease: vector.lease, roster: vector.roster })
}

function sameDecision(vector: DecisionVector): boolean {
  const outcome = ours(vector)
  return outcome.decision === vector.decision && outcome.instant === vector.instant
}

describe('folds of the rules that are equal', () => {
  it.each(folds.filter(isEqual))('$rule: $id', (vector) => {
    expect(ourFold(vector)).toStrictEqual({ lease: vector.lease, roster: vector.roster })
  })
})

describe('decisions of the rules that are equal', () => {
  it.each(decisions.filter(isEqual))('$rule: $id', (vector) => {
    expect(ours(vector)).toStrictEqual({ decision: vector.decision, instant: vector.instant })
  })
})

/** What the library decides on the vector that a row names. Written by hand, next to what the vector says. */
const shown: Readonly<Record<string, DecisionOutcome>> = {
  // Shared: register.
  'decisions/swept-while-leading': { decision: 'hold', instant: '1700000030000' },
  // Shared: challenge, in the place of before the restart.
  'decisions/restarted-challenges-in-old-place': { decision: 'register', instant: null },
  // Shared: challenge at once.
  'decisions/later-epoch': { decision: 'superseded' },
  // Shared: wait for the slot after the other member's lease.
  'decisions/token-in-anothers-name': { decision: 'hold', instant: '1700000030000' },
  // Shared: challenge at the deadline, 1700000030000. Ours: behind the two others.
  'decisions/own-token-at-the-deadline': { decision: 'wait', instant: '1700000040000' },
  // Shared: challenge since 1700000035000. Ours: one stagger behind who came at 1700000050000.
  'decisions/behind-one-who-came-late': { decision: 'wait', instant: '1700000055000' },
  // Shared: wait until 1700000080000, ten staggers. Ours: one length.
  'decisions/rank-10-after-a-length': { decision: 'challenge', instant: '1700000060000' },
  // Shared: challenge since 1700000000000, the deadline. Ours: a length of 0 from the grant.
  'decisions/between-deadline-and-grant': { decision: 'wait', instant: '1700000030000' },
  // Shared: wait until 1700001200000. Ours: 15 minutes.
  'decisions/sixteen-of-twenty-minutes': { decision: 'challenge', instant: '1700000900000' },
  // Shared: challenge since the deadline, a year ago. Ours: a length from reading it, now.
  'decisions/clock-a-year-ahead': { decision: 'wait', instant: '1731536060000' },
  // Shared: wait until 1700000065000, a stagger after the own registration. Ours: a stagger behind the first is long past.
  'decisions/second-at-its-registration': { decision: 'challenge', instant: '1700000060000' },
  // Shared: challenge since long. Ours: a stagger behind rank 0, which goes now, at 1700000030000.
  'decisions/second-registered-long-ago': { decision: 'wait', instant: '1700000035000' },
}

describe('a rule that differs is seen to', () => {
  const differing = [...parity].flatMap(([rule, row]: [string, Parity]) =>
    row.ours === 'differs' ? [{ rule, vector: row.shown }] : [],
  )

  it.each(differing.filter(({ vector }) => vector.startsWith('decisions/')))('$rule: $vector', ({ rule, vector }) => {
    const found = decisions.find(({ id }) => `decisions/${id}` === vector)
    if (found?.rule !== rule) throw new Error(`${vector} is no vector of ${rule}`)
    const expected = shown[vector]
    if (expected === undefined) throw new Error(`What the library does with ${vector} is not written down`)
    expect(ours(found)).toStrictEqual(expected)
    expect(expected.decision).not.toBe(found.decision)
  })

  it('holder-registered-again: folds/holder-joined-again', () => {
    expect(parity.get('holder-registered-again')).toStrictEqual({
      ours: 'differs',
      shown: 'folds/holder-joined-again',
    })
    const vector = folds.find(({ id }) => id === 'holder-joined-again')
    if (vector === undefined) throw new Error('There is such a vector')
    expect(vector.roster.map(({ member, rank }) => [member, rank])).toEqual([
      ['b', 0],
      ['c', 1],
      ['a', null],
    ])
    expect(ourFold(vector).roster.map(({ member, rank }) => [member, rank])).toEqual([
      ['b', 0],
      ['c', 1],
      ['a', 2],
    ])
  })

  it('and nothing is written down of other vectors', () => {
    const named = differing.map(({ vector }) => vector).filter((vector) => vector.startsWith('decisions/'))
    expect(Object.keys(shown).sort()).toStrictEqual(named.sort())
  })
})

import { describe, expect, it } from 'vitest'
import type { ReadRecord } from '../../src/election/record.js'
import { nameProducer } from '../../src/election/role-state.js'
import { entryOf, fold, incarnation, lease, leaseTombstone, unreadableLease } from './support.js'

const of = incarnation('a', 3)
const ours = { token: '100:5', of }

const terms: readonly [name: string, records: readonly ReadRecord[], term: bigint, exact: boolean][] = [
  ['our first record: its own offset', [lease(10, ours)], 10n, true],
  ['our renewal, read from the start', [lease(10, ours), lease(20, { ...ours, term: 10 })], 10n, true],
  ['our renewal alone, the first compacted away', [lease(20, { ...ours, term: 10 })], 10n, true],
  ['a header that is the offset itself', [lease(20, { ...ours, term: 20 })], 20n, true],
  ['a header above the offset: not believed', [lease(20, { ...ours, term: 21 })], 20n, false],
  [
    'a header above the smallest offset seen: not believed',
    [lease(10, { token: '100:5' }), lease(20, { ...ours, term: 15 })],
    10n,
    false,
  ],
  [
    'a header at the last offset of another token: not believed',
    [lease(15, { token: '100:4', of }), lease(20, { ...ours, term: 15 })],
    20n,
    false,
  ],
  [
    'a header just above the last offset of another token',
    [lease(15, { token: '100:4', of }), lease(20, { ...ours, term: 16 })],
    16n,
    true,
  ],
  [
    'a header below a tombstone: not believed',
    [lease(10, { token: '100:4', of }), leaseTombstone(15, { header: '100:5' }), lease(20, { ...ours, term: 12 })],
    20n,
    false,
  ],
  ['a term of 2^62 in a forged header', [lease(20, { ...ours, term: 2 ** 62 })], 20n, false],
  [
    'another port: the smallest offset seen',
    [lease(10, { token: '100:5' }), lease(20, { token: '100:5', header: '100:6' })],
    10n,
    false,
  ],
  [
    'another port after a tombstone: seen since that',
    [
      lease(10, { token: '100:5' }),
      leaseTombstone(15, { header: '100:6' }),
      lease(20, { token: '100:5', header: '100:7' }),
    ],
    20n,
    false,
  ],
  [
    'another port after an unreadable value: seen since that',
    [
      lease(10, { token: '100:5' }),
      unreadableLease(15, { header: '100:6' }),
      lease(20, { token: '100:5', header: '100:7' }),
    ],
    20n,
    false,
  ],
  [
    'a pair issued again after the state log was lost: not the old offset',
    [lease(10, { token: '100:0', of }), lease(30, { token: '200:0', of }), lease(50, { token: '100:0', of })],
    50n,
    true,
  ],
  [
    'a foreign lease in between changes nothing',
    [lease(10, ours), lease(15, { token: '100:9', of, transactional: false }), lease(20, { ...ours, term: 10 })],
    10n,
    true,
  ],
  [
    'a known term is kept when a later header says otherwise',
    [lease(10, ours), lease(20, { ...ours, term: 4 })],
    10n,
    true,
  ],
  [
    'ids that fall: terms rise all the same',
    [lease(10, { token: '200:1', of }), lease(20, { token: '100:0', of })],
    20n,
    true,
  ],
]

describe('the term', () => {
  it.each(terms)('of %s', (_name, records, term, termExact) => {
    expect(entryOf(fold(records), 'lease')).toMatchObject({ term, termExact })
  })

  it('of a candidate that is named late lies above the counted lease below it', () => {
    const records = [lease(15, { token: '100:4', of }), lease(20, { token: '300:0', of, term: 12 })]
    const state = nameProducer(fold(records, [100n]), 300n)
    expect(entryOf(state, 'lease')).toMatchObject({ offset: 20n, term: 20n, termExact: false })
  })

  it('of a candidate that is named late is exact where its header may be believed', () => {
    const records = [lease(15, { token: '100:4', of }), lease(20, { token: '300:0', of, term: 17 })]
    const state = nameProducer(fold(records, [100n]), 300n)
    expect(entryOf(state, 'lease')).toMatchObject({ offset: 20n, term: 17n, termExact: true })
  })

  it('of a candidate that was there before another token counts from above that', () => {
    const records = [lease(12, { token: '300:0' }), lease(15, { token: '100:4', of }), lease(20, { token: '300:0' })]
    const state = nameProducer(fold(records, [100n]), 300n)
    expect(entryOf(state, 'lease')).toMatchObject({ offset: 20n, term: 20n, termExact: false })
  })

  it('of a pair that was left for another and claimed again does not go on', () => {
    const records = [
      lease(10, { token: '100:5' }),
      lease(20, { token: '300:0' }),
      lease(30, { token: '100:5', header: '300:1' }),
    ]
    const state = nameProducer(fold(records, [100n]), 300n)
    expect(entryOf(state, 'lease')).toMatchObject({ offset: 30n, term: 30n, termExact: false })
  })
})

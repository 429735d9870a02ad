import { describe, expect, it } from 'vitest'
import { type Authority, authorityOf } from '../../src/election/authority.js'
import type { Look } from '../../src/election/look.js'
import type { ReadRecord } from '../../src/election/record.js'
import { fold, incarnation, lease, leaseTombstone, token, unreadableLease } from './support.js'

const of = incarnation('a', 1)
const ours = [lease(10, { token: '100:5', of, at: 100 })]
const port = [lease(10, { token: '100:5', header: '100:8', at: 100 })]
const takenOver = [...ours, lease(20, { token: '100:7', of: incarnation('b', 2), at: 200 })]
const resigned = [...ours, leaseTombstone(20, { header: '100:6', of, at: 200 })]
const otherId = [...ours, lease(20, { token: '200:0', of, at: 200 })]

function look(pair: string, state: string): Look {
  const { producerId, producerEpoch } = token(pair)
  return { state, producerId, producerEpoch, found: true, sentAt: 1000, answeredAt: 1001 }
}

const table: readonly [string, string, readonly ReadRecord[], string, string, number, Authority][] = [
  ['our healthy leader', '100:5', ours, '100:5', 'CompleteCommit', 2, 'current'],
  ['our leader in a transaction', '100:5', ours, '100:5', 'Ongoing', 2, 'current'],
  ['our leader, fenced by a mint', '100:5', ours, '100:6', 'Empty', 2, 'superseded'],
  ['our leader, sealed', '100:5', ours, '100:6', 'Empty', 2, 'superseded'],
  ['our leader, aborted by the broker', '100:5', ours, '100:6', 'CompleteAbort', 2, 'superseded'],
  ['our leader, another id', '100:5', ours, '200:0', 'Empty', 2, 'superseded'],
  ["a port's healthy leader on version 2", '100:5', port, '100:9', 'CompleteCommit', 2, 'current'],
  ["a port's leader in its next transaction", '100:5', port, '100:9', 'Ongoing', 2, 'current'],
  ["a port's leader between produce and commit", '100:5', port, '100:8', 'Ongoing', 2, 'current'],
  ["a port's leader with other commits since, or fenced", '100:5', port, '100:10', 'CompleteCommit', 2, 'unknown'],
  ["a port's leader whose id rotated, or fenced", '100:5', port, '200:0', 'CompleteCommit', 2, 'unknown'],
  ["a port's lease, and a mint nobody used", '100:5', port, '100:9', 'Empty', 2, 'unknown'],
  [
    "a port's leader below version 2",
    '100:5',
    [lease(10, { token: '100:5' })],
    '100:5',
    'CompleteCommit',
    1,
    'current',
  ],
  [
    "a port's leader below version 2, fenced",
    '100:5',
    [lease(10, { token: '100:5' })],
    '100:6',
    'Empty',
    1,
    'superseded',
  ],
  ['an old token after a take-over', '100:5', takenOver, '100:7', 'CompleteCommit', 2, 'superseded'],
  ['the new token after a take-over', '100:7', takenOver, '100:7', 'CompleteCommit', 2, 'current'],
  ['an old token after a resignation', '100:5', resigned, '100:6', 'CompleteCommit', 2, 'superseded'],
  ['the sealed pair after a resignation', '100:6', resigned, '100:6', 'CompleteCommit', 2, 'unknown'],
  ['an old token under an id that is gone', '100:5', otherId, '200:0', 'CompleteCommit', 2, 'superseded'],
  ['an old token of a greater id', '300:5', otherId, '200:0', 'CompleteCommit', 2, 'superseded'],
  ['a token that was never minted', '100:99', ours, '100:5', 'CompleteCommit', 2, 'unknown'],
  ['a mint that has not led yet', '100:6', ours, '100:6', 'Empty', 2, 'unknown'],
  ['a mint that has not led yet, version 0', '100:6', ours, '100:6', 'Empty', 0, 'unknown'],
  ['a token that was never minted, version 0', '100:99', ours, '100:5', 'CompleteCommit', 0, 'unknown'],
  ['an old token with an empty log, version 0', '100:3', [], '100:5', 'CompleteCommit', 0, 'superseded'],
  ['a token whose commits the log does not show, version 2', '100:3', [], '100:4', 'CompleteCommit', 2, 'unknown'],
  [
    'a token beside a lease nobody can read',
    '100:5',
    [unreadableLease(10, { header: '100:8', at: 100 })],
    '100:9',
    'CompleteCommit',
    2,
    'unknown',
  ],
]

describe('authorityOf', () => {
  it.each(table)('%s', (_name, asked, records, pair, state, transactionVersion, expected) => {
    expect(authorityOf(token(asked), fold(records), look(pair, state), transactionVersion)).toBe(expected)
  })

  it('never calls a leader superseded by a look that was sent before its lease was read', () => {
    const early: Look = { ...look('100:5', 'CompleteCommit'), sentAt: 199 }
    expect(authorityOf(token('100:7'), fold(takenOver), early, 2)).toBe('unknown')
    expect(authorityOf(token('100:7'), fold(takenOver), { ...early, sentAt: 200 }, 2)).toBe('superseded')
    expect(authorityOf(token('300:0'), fold(otherId), { ...early, sentAt: 199 }, 2)).toBe('unknown')
    expect(authorityOf(token('300:0'), fold(otherId), { ...early, sentAt: 200 }, 2)).toBe('superseded')
  })

  it('calls every token of a role superseded that the coordinator has forgotten', () => {
    expect(authorityOf(token('100:5'), fold(ours), { ...look('0:0', 'Dead'), found: false }, 2)).toBe('superseded')
  })
})

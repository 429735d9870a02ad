import { describe, expect, it } from 'vitest'
import { isOwnAbort, judgeLook, type Look, type LookVerdict, looksFresh } from '../../src/election/look.js'
import type { ReadRecord } from '../../src/election/record.js'
import { fold, incarnation, lease, leaseTombstone, token, unreadableLease } from './support.js'

const of = incarnation('a', 1)
const ours = [lease(10, { token: '100:5', of, at: 0 })]
// Of a client on transaction version 2: minted 100:5, its commits raised the header to 8.
const port = [lease(10, { token: '100:5', header: '100:8', at: 0 })]
const resigned = [...ours, leaseTombstone(20, { header: '100:6', of })]
const resignedPort = [...port, leaseTombstone(20, { header: '100:9' })]
const nothing: readonly ReadRecord[] = []

function look(pair: string, state: string): Look {
  const { producerId, producerEpoch } = token(pair)
  return { state, producerId, producerEpoch, found: true, sentAt: 0, answeredAt: 1 }
}

function judged(records: readonly ReadRecord[], seen: Look, transactionVersion: number, now = 50_000): LookVerdict {
  return judgeLook(fold(records), seen, { transactionVersion, now, ownRegistration: undefined, leaseMs: 30_000 })
}

const table: readonly [string, readonly ReadRecord[], string, string, number, LookVerdict][] = [
  ['our lease, equal', ours, '100:5', 'CompleteCommit', 2, 'mint'],
  ['our lease, equal, holder dead inside a transaction', ours, '100:5', 'Ongoing', 2, 'mint'],
  ['our lease, one above and idle: somebody minted', ours, '100:6', 'Empty', 2, 'stranger'],
  ['our lease, one above and committing: a rival', ours, '100:6', 'CompleteCommit', 2, 'stranger'],
  ["our lease, one above: the broker's own abort", ours, '100:6', 'CompleteAbort', 2, 'mint'],
  ['our lease, two above after an abort', ours, '100:7', 'CompleteAbort', 2, 'stranger'],
  ['our lease, below', ours, '100:4', 'CompleteCommit', 2, 'stranger'],
  ['our lease, another id', ours, '200:0', 'Empty', 2, 'stranger'],
  ['our lease, being aborted', ours, '100:5', 'PrepareAbort', 2, 'look-again'],
  ['our lease, being committed by a rival', ours, '100:7', 'PrepareCommit', 2, 'look-again'],
  ['our lease, being fenced', ours, '100:5', 'PrepareEpochFence', 2, 'look-again'],
  ["a port's lease on version 2, its header", port, '100:8', 'Ongoing', 2, 'mint'],
  ["a port's lease on version 2, own commit", port, '100:9', 'CompleteCommit', 2, 'mint'],
  ["a port's lease on version 2, died in its next transaction", port, '100:9', 'Ongoing', 2, 'mint'],
  ["a port's lease on version 2, minted and not used", port, '100:9', 'Empty', 2, 'stranger'],
  ["a port's lease on version 2, aborted one above", port, '100:9', 'CompleteAbort', 2, 'mint'],
  ["a port's lease on version 2, aborted two above", port, '100:10', 'CompleteAbort', 2, 'mint'],
  ["a port's lease on version 2, aborted three above", port, '100:11', 'CompleteAbort', 2, 'stranger'],
  ["a port's lease on version 2, two above", port, '100:10', 'CompleteCommit', 2, 'stranger'],
  ["a port's lease on version 2, the claim", port, '100:5', 'CompleteCommit', 2, 'stranger'],
  ["a port's lease on version 0, the claim", [lease(10, { token: '100:5' })], '100:5', 'CompleteCommit', 0, 'mint'],
  ["a port's lease on version 0, one above", [lease(10, { token: '100:5' })], '100:6', 'CompleteCommit', 0, 'stranger'],
  ['our tombstone, the sealed pair', resigned, '100:6', 'CompleteCommit', 2, 'mint'],
  ['our tombstone, a rival minted', resigned, '100:7', 'Empty', 2, 'stranger'],
  ['our tombstone, a rival committed', resigned, '100:8', 'CompleteCommit', 2, 'stranger'],
  ["a port's tombstone, its own commit", resignedPort, '100:10', 'CompleteCommit', 2, 'mint'],
  ["a port's tombstone, a rival minted", resignedPort, '100:10', 'Empty', 2, 'stranger'],
  ['an unreadable lease, its header', [unreadableLease(10, { header: '100:8' })], '100:8', 'CompleteCommit', 2, 'mint'],
  ['an unreadable lease, own commit', [unreadableLease(10, { header: '100:8' })], '100:9', 'CompleteCommit', 2, 'mint'],
  ['nothing known, resigned long ago', nothing, '100:5', 'CompleteCommit', 2, 'mint'],
  ['nothing known, aborted long ago', nothing, '100:5', 'CompleteAbort', 2, 'mint'],
  ['nothing known, minted and not used', nothing, '100:5', 'Empty', 2, 'stranger'],
  ['nothing known, a first lease under way', nothing, '100:5', 'Ongoing', 2, 'stranger'],
  ['nothing known, a first lease being committed', nothing, '100:5', 'PrepareCommit', 2, 'look-again'],
]

describe('judgeLook', () => {
  it.each(table)('%s', (_name, records, pair, state, transactionVersion, expected) => {
    expect(judged(records, look(pair, state), transactionVersion)).toBe(expected)
  })

  it('with an id unknown to the coordinator: mint unless a lease is live', () => {
    const unknown: Look = { ...look('0:0', 'Dead'), found: false, producerId: -1n, producerEpoch: -1 }
    expect(judged(nothing, unknown, 2)).toBe('mint')
    expect(judged(resigned, unknown, 2)).toBe('mint')
    expect(judged(ours, unknown, 2, 29_999)).toBe('stranger')
    expect(judged(ours, unknown, 2, 30_000)).toBe('mint')
  })
})

describe('isOwnAbort', () => {
  it.each([
    ['100:6', 'CompleteAbort', true],
    ['100:7', 'CompleteAbort', false],
    ['100:5', 'CompleteAbort', false],
    ['200:6', 'CompleteAbort', false],
    ['100:6', 'Empty', false],
    ['100:6', 'PrepareAbort', false],
  ])('of 100:5 in %s %s: %s', (pair, state, expected) => {
    expect(isOwnAbort(look(pair, state), token('100:5'))).toBe(expected)
  })

  it('is none where the id is not known', () => {
    expect(isOwnAbort({ ...look('100:6', 'CompleteAbort'), found: false }, token('100:5'))).toBe(false)
  })
})

describe('looksFresh (I10)', () => {
  it.each([
    // A near broker: 250 ms and 500 ms.
    [249, 499, 1, 30_000, true],
    [250, 499, 1, 30_000, false],
    [249, 500, 1, 30_000, false],
    // Round trips of 300 ms: 600 ms and 1,500 ms, so such a role still finds a leader.
    [599, 1499, 300, 30_000, true],
    [600, 1499, 300, 30_000, false],
    [599, 1500, 300, 30_000, false],
    // Never more than a third of the lease.
    [199, 199, 300, 600, true],
    [200, 100, 300, 600, false],
    [100, 200, 300, 600, false],
  ])('look %d ms, end %d ms, fastest %d ms, lease %d ms: %s', (lookMs, endMs, fastest, leaseMs, expected) => {
    expect(looksFresh({ lookMs, endMs }, fastest, leaseMs)).toBe(expected)
  })
})

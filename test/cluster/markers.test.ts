/** Commit and abort markers resolved by hand: what settles, what is dropped, what hangs. */
import { describe, expect, test } from 'vitest'
import type { FetchedBatch } from '../../src/cluster/connection.js'
import type { OpenTransactions } from '../../src/cluster/markers.js'
import { oldestOpenOffset, settleBatch } from '../../src/cluster/markers.js'

const P = 4_000n

function data(at: bigint, epoch: number, count = 1, producerId = P): FetchedBatch {
  const records = Array.from({ length: count }, (_, index) => ({
    offset: at + BigInt(index),
    key: null,
    value: null,
    headers: [],
  }))
  return {
    baseOffset: at,
    lastOffset: at + BigInt(Math.max(count, 1) - 1),
    partitionLeaderEpoch: 7,
    producerId,
    producerEpoch: epoch,
    transactional: true,
    logAppendTime: true,
    maxTimestamp: 1_700_000_000_000n + at,
    control: undefined,
    records,
  }
}

const plain = (at: bigint, count = 1): FetchedBatch => ({ ...data(at, -1, count, -1n), transactional: false })

function marker(at: bigint, control: 'commit' | 'abort' | 'other', epoch: number, producerId = P): FetchedBatch {
  return { ...data(at, epoch, 0, producerId), control }
}

/** Runs a log; gives the offsets settled by each batch. */
function run(...batches: FetchedBatch[]): { settledBy: bigint[][]; open: OpenTransactions } {
  const open: OpenTransactions = new Map()
  const settledBy = batches.map((batch) => settleBatch(open, batch, 0).map(({ offset }) => offset))
  return { settledBy, open }
}

describe('a marker', () => {
  test('of a commit settles the open batches of its epoch, in offset order', () => {
    expect(run(data(0n, 5, 2), data(2n, 5), marker(3n, 'commit', 5)).settledBy).toEqual([[], [], [0n, 1n, 2n]])
  })

  test('of a commit settles batches of the epoch before it, as a client does that rises at each commit', () => {
    expect(run(data(0n, 5), marker(1n, 'commit', 6)).settledBy).toEqual([[], [0n]])
  })

  test('of a commit drops what hangs from two epochs before', () => {
    const { settledBy, open } = run(data(0n, 4), data(1n, 6), marker(2n, 'commit', 6))
    expect(settledBy).toEqual([[], [], [1n]])
    expect(oldestOpenOffset(open)).toBeUndefined()
  })

  test('of an abort drops every batch up to its epoch', () => {
    const { settledBy, open } = run(data(0n, 4), data(1n, 5), data(2n, 6), marker(3n, 'abort', 6))
    expect(settledBy.flat()).toEqual([])
    expect(open.size).toBe(0)
  })

  test('leaves batches of later epochs open', () => {
    const { settledBy, open } = run(data(0n, 5), data(1n, 7), marker(2n, 'abort', 6), marker(3n, 'commit', 7))
    expect(settledBy).toEqual([[], [], [], [1n]])
    expect(open.size).toBe(0)
    const left = run(data(0n, 5), data(1n, 7), marker(2n, 'commit', 5))
    expect(left.settledBy.at(-1)).toEqual([0n])
    expect(oldestOpenOffset(left.open)).toBe(1n)
  })

  test('without open batches settles nothing: compaction left it, or it came twice', () => {
    const { settledBy } = run(
      marker(0n, 'commit', 5),
      marker(1n, 'abort', 5),
      data(2n, 5),
      marker(3n, 'commit', 5),
      marker(4n, 'commit', 5),
    )
    expect(settledBy).toEqual([[], [], [], [2n], []])
  })

  test('is of its own producer id only', () => {
    const { settledBy, open } = run(data(0n, 5), data(1n, 5, 1, 9n), marker(2n, 'commit', 5, 9n))
    expect(settledBy).toEqual([[], [], [1n]])
    expect(oldestOpenOffset(open)).toBe(0n)
  })

  test('of another kind decides nothing', () => {
    const { settledBy } = run(data(0n, 5), marker(1n, 'other', 5), marker(2n, 'commit', 5))
    expect(settledBy).toEqual([[], [], [0n]])
  })
})

describe('a batch', () => {
  test('outside a transaction settles at once, also while others are open', () => {
    expect(run(data(0n, 5), plain(1n, 2)).settledBy).toEqual([[], [1n, 2n]])
  })

  test('with the transactional bit and no producer id was never in a transaction, so no marker will come', () => {
    expect(run(data(0n, -1, 1, -1n)).settledBy).toEqual([[0n]])
  })

  test('that compaction emptied holds nothing open', () => {
    expect(oldestOpenOffset(run(data(0n, 5, 0)).open)).toBeUndefined()
  })

  test("settles with its own header's facts and its own receipt, not its marker's", () => {
    const open: OpenTransactions = new Map()
    settleBatch(open, data(3n, 5), 100)
    const [record] = settleBatch(open, { ...marker(4n, 'commit', 6), partitionLeaderEpoch: 8 }, 900)
    expect(record).toMatchObject({
      offset: 3n,
      receivedAt: 100,
      leaderEpoch: 7,
      producerId: P,
      producerEpoch: 5,
      transactional: true,
      appendTime: 1_700_000_000_003n,
    })
  })

  test('has an append time only where the broker stamped it', () => {
    const [record] = settleBatch(new Map(), { ...plain(0n), logAppendTime: false }, 0)
    expect(record?.appendTime).toBeUndefined()
  })
})

test('the oldest open offset is the lowest over all producer ids', () => {
  const { open } = run(data(5n, 1, 1, 1n), data(6n, 1, 1, 2n), data(7n, 1, 1, 1n))
  expect(oldestOpenOffset(open)).toBe(5n)
  settleBatch(open, marker(8n, 'abort', 1, 1n), 0)
  expect(oldestOpenOffset(open)).toBe(6n)
})

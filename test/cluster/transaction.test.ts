/** Transactions under one token: the order of I11, the doubt of I9, and what each answer makes of the epoch. */
import { describe, expect, test } from 'vitest'
import type { PartitionRecords, ProducerEpoch, TransactionFailure } from '../../src/cluster/transaction.js'
import { producerEpoch, Transaction } from '../../src/cluster/transaction.js'
import { lost, unreachable } from '../support/scripted-connection.js'
import type { World } from './support.js'
import {
  addAnswer,
  offsetCommitAnswer,
  pair,
  produceAnswer,
  record,
  requestTimeoutMs,
  role,
  watched,
  world,
} from './support.js'

const bound = { deadline: 31_000 }
const entry: PartitionRecords = { topic: 'jobs', partition: 1, records: [record('a'), record('b')] }
const offsets = {
  consumerGroupId: 'g',
  topics: [{ topic: 'jobs', partitions: [{ partition: 0, offset: 5n, metadata: null }] }],
}

function begin(): World & { epoch: ProducerEpoch; transaction: Transaction } {
  const cluster = world()
  const epoch = producerEpoch(role, pair)
  return { ...cluster, epoch, transaction: new Transaction(cluster.dependencies, epoch) }
}

function reasonOf(error: unknown): unknown {
  return (error as TransactionFailure).reason
}

async function failed(promise: Promise<unknown>): Promise<unknown> {
  return await promise.then(
    () => {
      throw new Error('it succeeded')
    },
    (error: unknown) => error,
  )
}

const sequencesOf = ({ connection }: World): number[] =>
  connection.of('Produce').map(({ request }) => request.topics[0]?.partitions[0]?.batch.baseSequence ?? -1)

describe('the order of requests (I11)', () => {
  test('nothing is produced before its partition was enlisted with 0, and EndTxn comes last', async () => {
    const { connection, transaction } = begin()
    connection.next('AddPartitionsToTxn', addAnswer(0)).next('Produce', produceAnswer(0, 100n))
    connection.next('EndTxn', { errorCode: 0 })
    expect(await transaction.send([entry], bound)).toEqual([[100n, 101n]])
    await transaction.end(true, bound)
    expect(connection.order).toEqual(['AddPartitionsToTxn', 'Produce', 'EndTxn'])
    expect(connection.of('EndTxn')[0]?.request).toMatchObject({ ...pair, transactionalId: role, committed: true })
  })

  test('while AddPartitionsToTxn is answered 51 it is sent again at 0, 1, 1, 2, 5, 10, 20, 20 ms, and nothing else', async () => {
    const { connection, runtime, transaction } = begin()
    connection.next('AddPartitionsToTxn', ...Array.from({ length: 8 }, () => addAnswer(51)), addAnswer(0))
    connection.next('Produce', produceAnswer(0))
    const sent = watched(transaction.send([entry], bound))
    await runtime.pass(100)
    expect(sent.now().state).toBe('fulfilled')
    const at = connection.of('AddPartitionsToTxn').map((seen) => seen.at)
    expect(at.slice(1).map((instant, index) => instant - (at[index] ?? 0))).toEqual([0, 1, 1, 2, 5, 10, 20, 20])
    expect(connection.order.lastIndexOf('AddPartitionsToTxn')).toBeLessThan(connection.order.indexOf('Produce'))
  })

  test('a partition is enlisted once, and its instant is that before the first sending', async () => {
    const { connection, runtime, transaction } = begin()
    connection
      .next('AddPartitionsToTxn', addAnswer(51), addAnswer(51), addAnswer(0))
      .always('Produce', produceAnswer(0))
    const startedAt = runtime.monotonicNow()
    const sent = watched(transaction.send([entry], bound))
    await runtime.pass(10)
    await transaction.send([entry], bound)
    expect(sent.now().state).toBe('fulfilled')
    expect(connection.of('AddPartitionsToTxn')).toHaveLength(3)
    expect(transaction.enlistedAt('jobs', 1)).toBe(startedAt)
    expect(sequencesOf({ connection } as World)).toEqual([0, 2])
  })

  test('TxnOffsetCommit goes out only after AddOffsetsToTxn answered 0', async () => {
    const { connection, runtime, transaction, epoch } = begin()
    connection.next('AddOffsetsToTxn', { errorCode: 51 }, { errorCode: 0 })
    connection.next('TxnOffsetCommit', offsetCommitAnswer(0)).next('EndTxn', { errorCode: 0 })
    const sent = watched(transaction.sendOffsets(offsets, bound))
    await runtime.pass(5)
    expect(sent.now().state).toBe('fulfilled')
    await transaction.end(true, bound)
    expect(connection.order).toEqual(['AddOffsetsToTxn', 'AddOffsetsToTxn', 'TxnOffsetCommit', 'EndTxn'])
    expect(epoch.taint).toBeUndefined()
  })

  test('an AddOffsetsToTxn that was refused is followed by no TxnOffsetCommit', async () => {
    const { connection, transaction } = begin()
    connection.next('AddOffsetsToTxn', { errorCode: 30 })
    expect(await failed(transaction.sendOffsets(offsets, bound))).toMatchObject({ cause: { code: 'UNAUTHORIZED' } })
    expect(connection.of('TxnOffsetCommit')).toEqual([])
  })

  test('a transaction that sent nothing ends without a request', async () => {
    const { connection, transaction } = begin()
    await transaction.end(true, bound)
    await transaction.end(false, bound)
    expect(connection.seen).toEqual([])
  })

  test('a tainted epoch begins no transaction', () => {
    const { dependencies, epoch } = begin()
    epoch.taint = 'an answer was lost'
    expect(() => new Transaction(dependencies, epoch)).toThrow('tainted')
  })
})

describe('AddPartitionsToTxn', () => {
  test('names the partitions at fault and not those that were not attempted (55)', async () => {
    const { connection, transaction, epoch } = begin()
    connection.next('AddPartitionsToTxn', {
      topics: [
        { topic: 'jobs', partitions: [{ partition: 1, errorCode: 55 }] },
        {
          topic: 'gone',
          partitions: [
            { partition: 0, errorCode: 3 },
            { partition: 2, errorCode: 29 },
          ],
        },
      ],
    })
    connection.next('EndTxn', { errorCode: 48 })
    const gone = (partition: number): PartitionRecords => ({ topic: 'gone', partition, records: [record('x')] })
    const error = await failed(transaction.send([entry, gone(0), gone(2)], bound))
    expect(reasonOf(error)).toMatchObject({
      kind: 'refused',
      refusals: [
        { topic: 'gone', partition: 0, kafkaCode: 3 },
        { topic: 'gone', partition: 2, kafkaCode: 29 },
      ],
    })
    expect(connection.of('Produce')).toEqual([])
    expect(transaction.enlistedAt('jobs', 1)).toBeUndefined()
    // The broker began nothing, so 48 to the abort is what is to be expected.
    await transaction.end(false, bound)
    expect(epoch.taint).toBeUndefined()
  })

  test.each([47, 49, 90])('answered %d is a refused token', async (errorCode) => {
    const { connection, transaction } = begin()
    connection.next('AddPartitionsToTxn', addAnswer(errorCode))
    expect(reasonOf(await failed(transaction.send([entry], bound)))).toEqual({ kind: 'fenced' })
    expect(connection.of('Produce')).toEqual([])
  })

  test('whose answer was lost is sent again and taints nothing', async () => {
    const { connection, runtime, transaction, epoch } = begin()
    connection.next('AddPartitionsToTxn', lost, addAnswer(0)).next('Produce', produceAnswer(0))
    const sent = watched(transaction.send([entry], bound))
    await runtime.pass(100)
    expect(sent.now().state).toBe('fulfilled')
    expect(epoch.taint).toBeUndefined()
  })

  test('that never left this process leaves nothing to end', async () => {
    const { connection, runtime, transaction } = begin()
    connection.always('AddPartitionsToTxn', unreachable)
    const sent = watched(transaction.send([entry], { deadline: runtime.monotonicNow() + 300 }))
    await runtime.pass(400)
    expect(reasonOf(sent.now().error)).toEqual({ kind: 'failed' })
    await transaction.end(false, bound)
    expect(connection.of('EndTxn')).toEqual([])
  })

  test('is not sent at all after the bound', async () => {
    const { connection, runtime, transaction } = begin()
    const error = await failed(transaction.send([entry], { deadline: runtime.monotonicNow() }))
    expect(reasonOf(error)).toEqual({ kind: 'failed' })
    expect(connection.order).toEqual([])
  })
})

describe('Produce (I9)', () => {
  test('without an answer is sent again byte for byte, and answered late it is success without taint', async () => {
    const { connection, runtime, transaction, epoch } = begin()
    connection.next('AddPartitionsToTxn', addAnswer(0)).next('Produce', lost, 'silent', produceAnswer(0, 40n))
    const sent = watched(transaction.send([entry], bound))
    await runtime.pass(2 * requestTimeoutMs)
    expect(sent.now()).toEqual({ state: 'fulfilled', value: [[40n, 41n]] })
    const batches = connection.of('Produce').map(({ request }) => request.topics[0]?.partitions[0]?.batch)
    expect(batches).toHaveLength(3)
    expect(new Set(batches).size).toBe(1)
    expect(epoch.taint).toBeUndefined()
  })

  test('never answered taints the epoch, and its sequence numbers are not given to others', async () => {
    const { connection, runtime, transaction, epoch } = begin()
    connection.next('AddPartitionsToTxn', addAnswer(0)).always('Produce', 'silent')
    const sent = watched(transaction.send([entry], { deadline: runtime.monotonicNow() + 1_500 }))
    await runtime.pass(2_000)
    expect(reasonOf(sent.now().error)).toEqual({ kind: 'failed' })
    expect(epoch.taint).toContain('never answered')
    expect(epoch.sequences.get('jobs-1')).toBe(2)
  })

  test('that was never written frees its numbers and taints nothing', async () => {
    const { connection, runtime, transaction, epoch } = begin()
    connection.next('AddPartitionsToTxn', addAnswer(0)).always('Produce', unreachable)
    const sent = watched(transaction.send([entry], { deadline: runtime.monotonicNow() + 500 }))
    await runtime.pass(600)
    expect(reasonOf(sent.now().error)).toEqual({ kind: 'failed' })
    expect(epoch.taint).toBeUndefined()
    expect(epoch.sequences.get('jobs-1')).toBe(0)
  })

  test('is not written after the bound, so that a late send costs its transaction and not the term', async () => {
    const { connection, runtime, transaction, epoch } = begin()
    const shortly = { deadline: runtime.monotonicNow() + 500 }
    connection.next('AddPartitionsToTxn', addAnswer(0)).next('Produce', produceAnswer(0))
    await transaction.send([entry], shortly)
    runtime.leap(600)
    const sent = watched(transaction.send([entry], shortly))
    await runtime.pass(100)
    expect(reasonOf(sent.now().error)).toEqual({ kind: 'failed' })
    expect(connection.of('Produce')).toHaveLength(1)
    expect(connection.resets).toEqual([])
    expect(epoch.taint).toBeUndefined()
    expect(epoch.sequences.get('jobs-1')).toBe(2)
  })

  test('refused frees its numbers for other bytes and names the records at fault', async () => {
    const { connection, transaction, epoch } = begin()
    connection.next('AddPartitionsToTxn', addAnswer(0)).next('Produce', produceAnswer(87, -1n, [1]), produceAnswer(0))
    const error = await failed(transaction.send([entry], bound))
    expect(reasonOf(error)).toMatchObject({ kind: 'refused', refusals: [{ kafkaCode: 87, recordIndexes: [1] }] })
    expect(epoch.taint).toBeUndefined()
    await transaction.send([entry], bound)
    expect(sequencesOf({ connection } as World)).toEqual([0, 0])
  })

  test('refused after a lost answer is doubt: the epoch is tainted', async () => {
    const { connection, runtime, transaction, epoch } = begin()
    connection.next('AddPartitionsToTxn', addAnswer(0)).next('Produce', lost, produceAnswer(10))
    const sent = watched(transaction.send([entry], bound))
    await runtime.pass(500)
    expect(reasonOf(sent.now().error)).toMatchObject({ kind: 'refused' })
    expect(epoch.taint).toContain('lost')
  })

  test('answered with a duplicate of unknown offset (46) is no success', async () => {
    const { connection, transaction, epoch } = begin()
    connection.next('AddPartitionsToTxn', addAnswer(0)).next('Produce', produceAnswer(46))
    expect(reasonOf(await failed(transaction.send([entry], bound)))).toEqual({ kind: 'failed' })
    expect(epoch.taint).toBeDefined()
  })

  test.each([47, 49, 90])('answered %d is a refused token', async (errorCode) => {
    const { connection, transaction } = begin()
    connection.next('AddPartitionsToTxn', addAnswer(0)).next('Produce', produceAnswer(errorCode))
    expect(reasonOf(await failed(transaction.send([entry], bound)))).toEqual({ kind: 'fenced' })
  })

  test('answered 48 asks by one AddPartitionsToTxn: 90 is a refused token', async () => {
    const { connection, transaction } = begin()
    connection.next('AddPartitionsToTxn', addAnswer(0), addAnswer(90)).next('Produce', produceAnswer(48))
    expect(reasonOf(await failed(transaction.send([entry], bound)))).toEqual({ kind: 'fenced' })
    expect(connection.order).toEqual(['AddPartitionsToTxn', 'Produce', 'AddPartitionsToTxn'])
  })

  test('answered 48 with a good AddPartitionsToTxn after it is sent once more, the same bytes', async () => {
    const { connection, transaction, epoch } = begin()
    connection.always('AddPartitionsToTxn', addAnswer(0)).next('Produce', produceAnswer(48), produceAnswer(0, 9n))
    expect(await transaction.send([entry], bound)).toEqual([[9n, 10n]])
    const batches = connection.of('Produce').map(({ request }) => request.topics[0]?.partitions[0]?.batch)
    expect(new Set(batches).size).toBe(1)
    expect(epoch.taint).toBeUndefined()
  })

  test('answered 48 twice ends the transaction with doubt', async () => {
    const { connection, transaction, epoch } = begin()
    connection.always('AddPartitionsToTxn', addAnswer(0)).always('Produce', produceAnswer(48))
    expect(reasonOf(await failed(transaction.send([entry], bound)))).toEqual({ kind: 'failed' })
    expect(connection.of('Produce')).toHaveLength(2)
    expect(epoch.taint).toBeDefined()
  })

  test('unanswered beside one that was answered 48 taints, though the question about 48 is cut short', async () => {
    const { connection, runtime, transaction, epoch } = begin()
    const other = { topic: 'jobs', partition: 2, records: [record('c')] }
    connection.always('AddPartitionsToTxn', addAnswer(0))
    // One leader, one request: partition 1 is answered 48, partition 2 is left out for ever.
    connection.always('Produce', ({ request }) => ({
      topics: produceAnswer(48)({ request } as never).topics.map(({ topic, partitions }) => ({
        topic,
        partitions: partitions.filter(({ partition }) => partition === 1),
      })),
    }))
    const sent = watched(transaction.send([entry, other], { deadline: runtime.monotonicNow() + 800 }))
    await runtime.pass(1_500)
    expect(reasonOf(sent.now().error)).toEqual({ kind: 'failed' })
    expect(epoch.taint).toBeDefined()
  })

  test('goes in one request to each leader, with all its partitions', async () => {
    const { connection, transaction } = begin()
    connection.next('AddPartitionsToTxn', addAnswer(0)).next('Produce', produceAnswer(0))
    const at = (partition: number): PartitionRecords => ({ topic: 'jobs', partition, records: [record('x')] })
    await transaction.send([at(0), at(1), at(3)], bound)
    expect(connection.of('Produce')).toHaveLength(1)
    expect(connection.of('Produce')[0]?.request.topics[0]?.partitions.map(({ partition }) => partition)).toEqual([
      0, 1, 3,
    ])
  })

  test('splits what is too long for one batch, in order, with sequences that go on', async () => {
    const { connection, transaction } = begin()
    let base = 0n
    connection.next('AddPartitionsToTxn', addAnswer(0)).always('Produce', (seen) => {
      const answer = produceAnswer(0, base)(seen)
      base += BigInt(seen.request.topics[0]?.partitions[0]?.batch.records.length ?? 0)
      return answer
    })
    const records = Array.from({ length: 5 }, (_, index) => record(String(index).repeat(400_000)))
    expect(await transaction.send([{ ...entry, records }], bound)).toEqual([[0n, 1n, 2n, 3n, 4n]])
    expect(sequencesOf({ connection } as World)).toEqual([0, 2, 4])
  })
})

describe('EndTxn (I9)', () => {
  async function sent(): Promise<ReturnType<typeof begin>> {
    const begun = begin()
    begun.connection.next('AddPartitionsToTxn', addAnswer(0)).next('Produce', produceAnswer(0))
    await begun.transaction.send([entry], bound)
    return begun
  }

  test('answered at the second sending is done, and taints the epoch', async () => {
    const { connection, runtime, transaction, epoch } = await sent()
    connection.next('EndTxn', lost, { errorCode: 0 })
    const ended = watched(transaction.end(true, bound))
    await runtime.pass(500)
    expect(ended.now().state).toBe('fulfilled')
    expect(epoch.taint).toContain('lost')
  })

  test('never answered leaves a commit unknown, never failed', async () => {
    const { connection, runtime, transaction, epoch } = await sent()
    connection.always('EndTxn', 'silent')
    const ended = watched(transaction.end(true, { deadline: runtime.monotonicNow() + 2_500 }))
    await runtime.pass(3_000)
    expect(reasonOf(ended.now().error)).toEqual({ kind: 'commit-unknown' })
    expect(epoch.taint).toBeDefined()
  })

  test.each([47, 90, 49, 48])('lost and then answered %d leaves a commit unknown', async (errorCode) => {
    const { connection, runtime, transaction, epoch } = await sent()
    connection.next('EndTxn', lost, { errorCode })
    const ended = watched(transaction.end(true, bound))
    await runtime.pass(500)
    expect(reasonOf(ended.now().error)).toEqual({ kind: 'commit-unknown' })
    expect(epoch.taint).toBeDefined()
  })

  test.each([15, 16])(
    'answered %d and then 90 leaves a commit unknown: the first may have been kept',
    async (errorCode) => {
      const { connection, runtime, transaction } = await sent()
      connection.next('EndTxn', { errorCode }, { errorCode: 90 })
      const ended = watched(transaction.end(true, bound))
      await runtime.pass(500)
      expect(reasonOf(ended.now().error)).toEqual({ kind: 'commit-unknown' })
    },
  )

  test.each(['authentication', 'unsupported'] as const)(
    'lost, with a connection that can then never be had (%s), leaves a commit unknown and taints',
    async (fails) => {
      const { connection, runtime, transaction, epoch } = await sent()
      connection.next('EndTxn', lost).always('EndTxn', { fails, written: false })
      const ended = watched(transaction.end(true, bound))
      await runtime.pass(500)
      expect(reasonOf(ended.now().error)).toEqual({ kind: 'commit-unknown' })
      expect(epoch.taint).toBeDefined()
    },
  )

  test('lost, with a coordinator that may then not be looked up, leaves a commit unknown and taints', async () => {
    const { connection, runtime, transaction, epoch } = await sent()
    connection.next('EndTxn', lost)
    connection.always('FindCoordinator', { errorCode: 53, errorMessage: null, node: { id: -1, host: '', port: -1 } })
    const ended = watched(transaction.end(true, bound))
    await runtime.pass(500)
    expect(reasonOf(ended.now().error)).toEqual({ kind: 'commit-unknown' })
    expect(epoch.taint).toBeDefined()
  })

  test.each([47, 90, 49])('answered %d at first is certain: a refused token', async (errorCode) => {
    const { connection, transaction } = await sent()
    connection.next('EndTxn', { errorCode })
    expect(reasonOf(await failed(transaction.end(true, bound)))).toEqual({ kind: 'fenced' })
  })

  test('that never left this process is no unknown commit', async () => {
    const { connection, runtime, transaction, epoch } = await sent()
    connection.always('EndTxn', unreachable)
    const ended = watched(transaction.end(true, { deadline: runtime.monotonicNow() + 500 }))
    await runtime.pass(600)
    expect(reasonOf(ended.now().error)).toEqual({ kind: 'failed' })
    expect(epoch.taint).toBeUndefined()
  })

  test('of an abort that was answered 48 means that something else ended it: tainted, and not repeated', async () => {
    const { connection, transaction, epoch } = await sent()
    connection.next('EndTxn', { errorCode: 48 })
    await transaction.end(false, bound)
    expect(epoch.taint).toContain('(48)')
    expect(connection.of('EndTxn')).toHaveLength(1)
  })

  test('of an abort with nothing but offsets that was answered 48 taints too', async () => {
    const { connection, transaction, epoch } = begin()
    connection.next('AddOffsetsToTxn', { errorCode: 0 }).next('TxnOffsetCommit', offsetCommitAnswer(0))
    connection.next('EndTxn', { errorCode: 48 })
    await transaction.sendOffsets(offsets, bound)
    await transaction.end(false, bound)
    expect(epoch.taint).toContain('(48)')
  })

  test('is repeated on 51, and found again on 16', async () => {
    const { connection, runtime, transaction, epoch } = await sent()
    const found = connection.of('FindCoordinator').length
    connection.next('EndTxn', { errorCode: 51 }, { errorCode: 16 }, { errorCode: 51 }, { errorCode: 0 })
    const ended = watched(transaction.end(true, bound))
    await runtime.pass(500)
    expect(ended.now().state).toBe('fulfilled')
    expect(connection.of('EndTxn')).toHaveLength(4)
    expect(connection.of('FindCoordinator')).toHaveLength(found + 1)
    expect(epoch.taint).toBeUndefined()
  })
})

describe('TxnOffsetCommit (I9)', () => {
  test.each([
    ['answered at the second sending', [lost, offsetCommitAnswer(0)], 'fulfilled'],
    ['never answered', ['silent', 'silent', 'silent', 'silent'], 'rejected'],
    [
      'lost, with a connection that can then never be had',
      [lost, { fails: 'authentication', written: false }],
      'rejected',
    ],
  ] as const)('%s taints the epoch', async (_name, steps, state) => {
    const { connection, runtime, transaction, epoch } = begin()
    connection.next('AddOffsetsToTxn', { errorCode: 0 }).next('TxnOffsetCommit', ...steps)
    const committed = watched(transaction.sendOffsets(offsets, { deadline: runtime.monotonicNow() + 2_500 }))
    await runtime.pass(3_000)
    expect(committed.now().state).toBe(state)
    expect(epoch.taint).toContain('TxnOffsetCommit')
  })

  test('refused for a partition names it', async () => {
    const { connection, transaction, epoch } = begin()
    connection.next('AddOffsetsToTxn', { errorCode: 0 }).next('TxnOffsetCommit', offsetCommitAnswer(12))
    const error = await failed(transaction.sendOffsets(offsets, bound))
    expect(reasonOf(error)).toMatchObject({
      kind: 'refused',
      refusals: [{ topic: 'jobs', partition: 0, kafkaCode: 12 }],
    })
    expect(epoch.taint).toBeUndefined()
  })

  test('answered 90 is a refused token', async () => {
    const { connection, transaction } = begin()
    connection.next('AddOffsetsToTxn', { errorCode: 0 }).next('TxnOffsetCommit', offsetCommitAnswer(90))
    expect(reasonOf(await failed(transaction.sendOffsets(offsets, bound)))).toEqual({ kind: 'fenced' })
  })

  test('goes to the coordinator of the group, which is found by the group', async () => {
    const { connection, transaction } = begin()
    connection.next('AddOffsetsToTxn', { errorCode: 0 }).next('TxnOffsetCommit', offsetCommitAnswer(0))
    await transaction.sendOffsets(offsets, bound)
    expect(connection.of('FindCoordinator').map(({ request }) => [request.keyType, request.key])).toEqual([
      ['transaction', role],
      ['group', 'g'],
    ])
  })
})

/**
 * Requests whose answer is lost, and requests that are lost and arrive late: what the caller is told is what the log holds, an epoch in
 * doubt begins no further transaction (I9), and `lead` leads again without waiting for a lease to run out.
 */

import { Kafka, logLevel } from 'kafkajs'
import { beforeAll, describe, expect, test } from 'vitest'
import { type RawRecord, readCommittedLog } from '../../examples/demo/raw-log.js'
import { CoordinationClient, type Leadership } from '../../src/index.js'
import { guardedTopic, oneRecord } from '../client/programs/live.js'
import { describeWithKafka, freshName } from '../kafka/suites.js'
import { aborted as hasAborted } from '../support/aborted.js'
import { roleInLog, tokensInOrder } from '../support/coordination-topic.js'
import { isLongForm, tell } from '../support/form.js'
import { type RequestMatch, startFrameProxy } from '../support/frame-proxy.js'
import { HandMade, type HandMadeRecord, type Pair, untilIdle } from '../support/hand-made.js'
import { kinds } from '../support/kinds.js'
import { additionsUnder, expectTruth, Leader, outcomesOf, recorded, told } from './doubt.js'

/** Long: whoever had to wait for a lease to run out fails by its test's timeout. */
const leaseMs = 60_000
const shortLeaseMs = 2_000
const requestTimeoutMs = 400
/** Ten times the aim: a second from the end of a term. */
const longestWithoutLeaderMs = 10 * 1_000

/** What the faulty operation is, with the request of it that goes astray. */
interface Operation {
  readonly name: string
  readonly match: RequestMatch
  /** Whether the epoch is in doubt afterwards, so that the term ends. */
  readonly taints: boolean
  run(leadership: Leadership, topic: string, group: string): Promise<unknown>
}

const aborted = new Error('of the callback')

const operations: readonly Operation[] = [
  {
    name: 'AddPartitionsToTxn',
    match: { api: 'AddPartitionsToTxn' },
    taints: false,
    run: (leadership, topic) => leadership.send(oneRecord(topic, 'doubtful')),
  },
  {
    name: 'Produce',
    match: { api: 'Produce' },
    taints: false,
    run: (leadership, topic) => leadership.send(oneRecord(topic, 'doubtful')),
  },
  {
    name: 'EndTxn, a commit',
    match: { api: 'EndTxn' },
    taints: true,
    run: (leadership, topic) => leadership.send(oneRecord(topic, 'doubtful')),
  },
  {
    name: 'EndTxn, an abort',
    match: { api: 'EndTxn' },
    taints: true,
    run: (leadership, topic) =>
      leadership.transact(async (transaction) => {
        await transaction.send(oneRecord(topic, 'doubtful'))
        throw aborted
      }),
  },
  {
    name: 'AddOffsetsToTxn',
    match: { api: 'AddOffsetsToTxn' },
    taints: false,
    run: (leadership, topic, group) => sendWithOffsets(leadership, topic, group),
  },
  {
    name: 'TxnOffsetCommit',
    match: { api: 'TxnOffsetCommit' },
    taints: true,
    run: (leadership, topic, group) => sendWithOffsets(leadership, topic, group),
  },
]

async function sendWithOffsets(leadership: Leadership, topic: string, group: string): Promise<void> {
  await leadership.transact(async (transaction) => {
    await transaction.send(oneRecord(topic, 'doubtful'))
    await transaction.sendOffsets({
      consumerGroupId: group,
      topics: [{ topic, partitions: [{ partition: 0, offset: 7n }] }],
    })
  })
}

async function committedOffset(bootstrap: readonly string[], groupId: string, topic: string): Promise<string> {
  const admin = new Kafka({ brokers: [...bootstrap], logLevel: logLevel.NOTHING }).admin()
  await admin.connect()
  try {
    const [found] = await admin.fetchOffsets({ groupId, topics: [topic] })
    return found?.partitions.find(({ partition }) => partition === 0)?.offset ?? '-1'
  } finally {
    await admin.disconnect()
  }
}

describe.each(kinds())('$name', ({ kind }) => {
  describeWithKafka('an outcome in doubt', kind, (cluster) => {
    const topic = freshName('coordination')

    beforeAll(async () => {
      const kafka = new Kafka({ brokers: [...cluster().bootstrap], logLevel: logLevel.NOTHING })
      const client = new CoordinationClient({ kafka, topic, partitions: 1 })
      await client.describe('any')
      await client.close()
    })

    // The long form loses them in every way.
    const answerFaults = isLongForm ? (['dropAnswer', 'cutAnswer'] as const) : (['dropAnswer'] as const)
    const endlessFaults = isLongForm ? (['dropAnswer', 'drop'] as const) : (['dropAnswer'] as const)

    describe.each(answerFaults)('applied, but the answer is lost (%s)', (fault) => {
      test.concurrent.each(operations)('$name', async ({ name, match, taints, run }) => {
        const { bootstrap } = cluster()
        const [role, group] = [freshName('doubt'), freshName('group')]
        const guarded = await guardedTopic(bootstrap)
        const proxy = await startFrameProxy(bootstrap)
        const requests = recorded(proxy)
        const leader = new Leader({
          bootstrap: proxy.bootstrap,
          topic,
          role,
          memberId: 'leader',
          leaseMs,
          requestTimeoutMs,
        })
        try {
          const first = await leader.term(1)
          const rule = proxy.rule(match, { do: fault })
          const outcome = await told(run(first, guarded, group))
          expect(rule.treated.length).toBe(1)
          const additions = additionsUnder(requests, first.token.toString()).length
          if (taints) expect(first.signal.reason).toMatchObject({ code: 'TERM_ENDED' })

          const next = await (await leader.current()).send(oneRecord(guarded, 'next'))
          expect(next.length).toBe(1)
          if (name === 'EndTxn, an abort') expect(outcome).toEqual({ told: 'failed', error: aborted })
          else expect(outcome.error).toBeUndefined()
          const log = await readCommittedLog(bootstrap, guarded)
          expectTruth(log, 'doubtful', outcome.told)
          expectTruth(log, 'next', 'done')
          if (name === 'TxnOffsetCommit' || name === 'AddOffsetsToTxn') {
            expect(await committedOffset(bootstrap, group, guarded)).toBe('7')
          }
          expectTerms(name, leader, taints ? 2 : 1)
          if (taints) expect(additionsUnder(requests, first.token.toString()).length).toBe(additions)
          await expectOneAfterAnother(bootstrap, role, leader)
        } finally {
          await leader.close()
          await proxy.close()
        }
      })
    })

    describe.each(['commits', 'aborts'] as const)('lost, and delivered inside a later transaction that %s', (then) => {
      test.concurrent.each(operations)('$name', async ({ name, match, taints, run }) => {
        const { bootstrap } = cluster()
        const [role, group] = [freshName('late'), freshName('group')]
        const guarded = await guardedTopic(bootstrap)
        const proxy = await startFrameProxy(bootstrap)
        const requests = recorded(proxy)
        const leader = new Leader({
          bootstrap: proxy.bootstrap,
          topic,
          role,
          memberId: 'leader',
          leaseMs,
          requestTimeoutMs,
        })
        try {
          const first = await leader.term(1)
          const rule = proxy.rule(match, { do: 'hold' })
          const outcome = await told(run(first, guarded, group))
          const [held] = rule.treated
          expect(held).toBeDefined()
          const additions = additionsUnder(requests, first.token.toString()).length
          if (taints) expect(first.signal.reason).toMatchObject({ code: 'TERM_ENDED' })

          const later = await told(
            (await leader.current()).transact(async (transaction) => {
              await transaction.send(oneRecord(guarded, 'before'))
              held?.release()
              await held?.answered
              await transaction.send(oneRecord(guarded, 'after'))
              if (then === 'aborts') throw aborted
            }),
          )
          await (await leader.current()).send(oneRecord(guarded, 'last'))

          expect(later.told).toBe(then === 'commits' ? 'done' : 'failed')
          if (name === 'EndTxn, an abort') expect(outcome).toEqual({ told: 'failed', error: aborted })
          else expect(outcome.error).toBeUndefined()
          const log = await readCommittedLog(bootstrap, guarded)
          expectTruth(log, 'doubtful', outcome.told)
          expectTruth(log, 'before', later.told)
          expectTruth(log, 'after', later.told)
          expectTruth(log, 'last', 'done')
          if (name === 'TxnOffsetCommit' || name === 'AddOffsetsToTxn') {
            expect(await committedOffset(bootstrap, group, guarded)).toBe('7')
          }
          expectTerms(name, leader, taints ? 2 : 1)
          if (taints) expect(additionsUnder(requests, first.token.toString()).length).toBe(additions)
          await expectOneAfterAnother(bootstrap, role, leader)
        } finally {
          await leader.close()
          await proxy.close()
        }
      })
    })

    describe.each(endlessFaults)('never answered until the lease runs out (%s)', (fault) => {
      test.concurrent.each(operations)('$name', async ({ name, match, run }) => {
        const { bootstrap } = cluster()
        const [role, group] = [freshName('never'), freshName('group')]
        const guarded = await guardedTopic(bootstrap)
        const proxy = await startFrameProxy(bootstrap)
        const requests = recorded(proxy)
        const leader = new Leader({
          bootstrap: proxy.bootstrap,
          topic,
          role,
          memberId: 'leader',
          leaseMs: shortLeaseMs,
          requestTimeoutMs,
        })
        try {
          const first = await leader.term(1)
          const rule = proxy.rule({ ...match, times: Number.POSITIVE_INFINITY }, { do: fault })
          first.signal.addEventListener('abort', () => rule.remove())
          const outcome = await told(run(first, guarded, group))
          if (!first.signal.aborted) {
            await hasAborted(first.signal)
          }
          const atEnd = additionsUnder(requests, first.token.toString()).length
          expect(rule.treated.length).toBeGreaterThan(1)
          expect(['TERM_ENDED', 'LEASE_EXPIRED']).toContain(first.signal.reason.code)

          await (await leader.current()).send(oneRecord(guarded, 'next'))
          if (name === 'EndTxn, a commit') expect(outcome.told).toBe('unknown')
          else expect(outcome.told).toBe('failed')
          const log = await readCommittedLog(bootstrap, guarded)
          expectTruth(log, 'doubtful', outcome.told)
          expectTruth(log, 'next', 'done')
          expect(await committedOffset(bootstrap, group, guarded)).toBe('-1')
          expectTerms(`${name}, never`, leader, 2)
          expect(additionsUnder(requests, first.token.toString()).length).toBe(atEnd)
          await expectOneAfterAnother(bootstrap, role, leader)
        } finally {
          await leader.close()
          await proxy.close()
        }
      })
    })

    describe('is what these checks would see in a client that goes on under the same epoch', () => {
      async function byHand(act: (producer: HandMade, pair: Pair, guarded: string) => Promise<void>): Promise<{
        readonly log: readonly RawRecord[]
        readonly outcomes: (value: string) => readonly string[]
      }> {
        const { bootstrap } = cluster()
        const guarded = await guardedTopic(bootstrap)
        const producer = await HandMade.open(bootstrap, freshName('by-hand'))
        try {
          const { errorCode, ...pair } = await untilIdle(() => producer.mint())
          expect(errorCode).toBe(0)
          await act(producer, pair, guarded)
        } finally {
          producer.close()
        }
        const log = await readCommittedLog(bootstrap, guarded)
        return { log, outcomes: (value) => outcomesOf(log, value) }
      }

      const record = (value: string): readonly HandMadeRecord[] => [{ key: 'k', value }]
      const good = async (ask: () => Promise<number | { readonly errorCode: number }>): Promise<void> => {
        const answer = await untilIdle(ask)
        expect(typeof answer === 'number' ? answer : answer.errorCode).toBe(0)
      }

      test.concurrent('a sequence number that carries other bytes: reported done, and not there', async () => {
        const { log, outcomes } = await byHand(async (producer, pair, guarded) => {
          await good(() => producer.addPartition(pair, guarded))
          await good(() => producer.produce(pair, guarded, record('unanswered'), { baseSequence: 0 }))
          await good(() => producer.endTransaction(pair, false))
          await good(() => producer.addPartition(pair, guarded))
          await good(() => producer.produce(pair, guarded, record('doubtful'), { baseSequence: 0 }))
          await good(() => producer.endTransaction(pair, true))
        })
        expect(outcomes('doubtful')).toEqual([])
        expect(() => expectTruth(log, 'doubtful', 'done')).toThrow()
      })

      test.concurrent('a Produce of an aborted transaction that arrives in the next: reported failed, and there', async () => {
        const { log, outcomes } = await byHand(async (producer, pair, guarded) => {
          await good(() => producer.addPartition(pair, guarded))
          await good(() => producer.endTransaction(pair, false))
          await good(() => producer.addPartition(pair, guarded))
          await good(() => producer.produce(pair, guarded, record('doubtful'), { baseSequence: 0 }))
          await good(() => producer.endTransaction(pair, true))
        })
        expect(outcomes('doubtful')).toEqual(['committed'])
        expect(() => expectTruth(log, 'doubtful', 'failed')).toThrow()
      })

      test.concurrent.each([
        { late: true, own: false, there: 'before', gone: 'after' },
        { late: false, own: true, there: 'after', gone: 'before' },
      ])('an EndTxn that arrives in the next transaction (commit: $late): half of it is there', async (halves) => {
        const { late, own, there, gone } = halves
        const { log, outcomes } = await byHand(async (producer, pair, guarded) => {
          await good(() => producer.addPartition(pair, guarded))
          await good(() => producer.produce(pair, guarded, record('doubtful'), { baseSequence: 0 }))
          await good(() => producer.endTransaction(pair, late))
          await good(() => producer.addPartition(pair, guarded))
          await good(() => producer.produce(pair, guarded, record('before'), { baseSequence: 1 }))
          await good(() => producer.endTransaction(pair, late))
          await good(() => producer.addPartition(pair, guarded))
          await good(() => producer.produce(pair, guarded, record('after'), { baseSequence: 2 }))
          await good(() => producer.endTransaction(pair, own))
        })
        expect(outcomes(there)).toEqual(['committed'])
        expect(outcomes(gone)).toEqual(['aborted'])
        // Its end said the same of both.
        expect(() => {
          expectTruth(log, 'before', own ? 'done' : 'failed')
          expectTruth(log, 'after', own ? 'done' : 'failed')
        }).toThrow()
      })
    })

    /** That many terms came, each soon after the one before. */
    function expectTerms(name: string, leader: Leader, count: number): void {
      const gaps = leader.gaps.map((gap) => `${gap.toFixed(0)} ms`).join(', ')
      tell(
        `${kind.transactionVersion}: ${name}: ${leader.terms.length - 1} terms ended; nobody led for ${gaps || 'no time'}`,
      )
      expect(leader.terms.length).toBe(count)
      for (const gap of leader.gaps) expect(gap).toBeLessThan(longestWithoutLeaderMs)
    }

    /** The log shows the terms that were led, in order, and no other. */
    async function expectOneAfterAnother(bootstrap: readonly string[], role: string, leader: Leader): Promise<void> {
      const led = leader.terms.map(({ leadership }) => ({
        token: leadership.token.toString(),
        term: leadership.term,
      }))
      expect(tokensInOrder(await roleInLog(bootstrap, topic, role))).toEqual(led)
    }
  })
})

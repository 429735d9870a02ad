/**
 * Mints and seals whose answer is lost, or that are lost and arrive late: the role is led soon, no token is handed out twice, and what
 * arrives late costs at most one needless end of a term, never a write.
 */
import { Kafka, logLevel } from 'kafkajs'
import { beforeAll, describe, expect, test } from 'vitest'
import { readCommittedLog } from '../../examples/demo/raw-log.js'
import { CoordinationClient } from '../../src/index.js'
import { guardedTopic, oneRecord } from '../client/programs/live.js'
import { describeWithKafka, freshName } from '../kafka/suites.js'
import { registeredMembers, roleInLog } from '../support/coordination-topic.js'
import { tell } from '../support/form.js'
import { startFrameProxy } from '../support/frame-proxy.js'
import { pairIn } from '../support/hand-made.js'
import { kinds } from '../support/kinds.js'
import { lookAt } from '../support/look.js'
import { expectTruth, Leader, recorded, told, untilSettled, untilWaiting } from './doubt.js'

const leaseMs = 60_000
const requestTimeoutMs = 400
/** Ten times the aims: three seconds from the timeout of a plain mint, and one from the end of a term. */
const longestAfterMintMs = 10 * 3_000
const longestWithoutLeaderMs = 10 * 1_000

describe.each(kinds())('$name', ({ kind }) => {
  describeWithKafka('a mint in doubt', kind, (cluster) => {
    const topic = freshName('coordination')
    const mintsPerTerm = 2
    const settings = { topic, leaseMs, requestTimeoutMs }

    beforeAll(async () => {
      const kafka = new Kafka({ brokers: [...cluster().bootstrap], logLevel: logLevel.NOTHING })
      const client = new CoordinationClient({ kafka, topic, partitions: 1 })
      // A fresh broker has no producer ids yet and refuses the first mint; here the first mint has to be applied.
      await client.acquire(freshName('warm'))
      await client.close()
    })

    test.concurrent.each(['dropAnswer', 'cutAnswer', 'drop', 'cut'] as const)('the first: %s', async (fault) => {
      const { bootstrap } = cluster()
      const role = freshName('mint')
      const proxy = await startFrameProxy(bootstrap)
      const rule = proxy.rule({ api: 'InitProducerId' }, { do: fault })
      const leader = new Leader({ bootstrap: proxy.bootstrap, role, memberId: 'leader', ...settings })
      try {
        await rule.hit()
        const lostAt = performance.now()
        const leadership = await leader.term(1)
        const waitedMs = performance.now() - lostAt - (fault.startsWith('cut') ? 0 : requestTimeoutMs)
        tell(`${kind.transactionVersion}: first mint, ${fault}: led ${waitedMs.toFixed(0)} ms after its timeout`)
        expect(waitedMs).toBeLessThan(longestAfterMintMs)
        await leadership.renew()
        // Counted by the coordinator: the lost one where it was applied, and those of the term.
        const applied = fault === 'dropAnswer' || fault === 'cutAnswer' ? 1 : 0
        expect((await lookAt(bootstrap, role)).producerEpoch).toBe(applied + mintsPerTerm - 1)
        expect(leader.terms.length).toBe(1)
      } finally {
        await leader.close()
        await proxy.close()
      }
    })

    test.concurrent.each(['no transaction', 'a transaction'] as const)(
      'the first, lost and delivered to its own later term in %s: ends it, and writes nothing',
      async (during) => {
        const { bootstrap } = cluster()
        const role = freshName('mint')
        const guarded = await guardedTopic(bootstrap)
        const proxy = await startFrameProxy(bootstrap)
        const rule = proxy.rule({ api: 'InitProducerId' }, { do: 'hold' })
        const leader = new Leader({ bootstrap: proxy.bootstrap, role, memberId: 'leader', ...settings })
        try {
          const first = await leader.term(1)
          const [held] = rule.treated
          const release = async (): Promise<void> => {
            held?.release()
            await held?.answered
          }
          if (during === 'no transaction') {
            await untilSettled(bootstrap, role)
            await release()
          }
          const later = await told(
            first.transact(async (transaction) => {
              await transaction.send(oneRecord(guarded, 'before'))
              if (during === 'a transaction') await release()
              await transaction.send(oneRecord(guarded, 'after'))
            }),
          )
          expect(later.told).toBe('failed')
          expect(later.error).toMatchObject({ code: 'FENCED' })
          const second = await leader.term(2)
          tell(
            `${kind.transactionVersion}: first mint, late in ${during}: 1 term ended; nobody led for ${leader.gaps[0]?.toFixed(0)} ms`,
          )
          expect(leader.gaps[0]).toBeLessThan(longestAfterMintMs)
          expect(second.term).toBeGreaterThan(first.term)
          await second.send(oneRecord(guarded, 'last'))
          const log = await readCommittedLog(bootstrap, guarded)
          expectTruth(log, 'before', 'failed')
          expectTruth(log, 'after', 'failed')
          expectTruth(log, 'last', 'done')
          expect(leader.terms.length).toBe(2)
        } finally {
          await leader.close()
          await proxy.close()
        }
      },
    )

    test.concurrent.each(['dropAnswer', 'cutAnswer', 'drop', 'cut'] as const)('the second: %s', async (fault) => {
      const { bootstrap } = cluster()
      const role = freshName('mint')
      const proxy = await startFrameProxy(bootstrap)
      const rule = proxy.rule({ api: 'InitProducerId', skip: 1 }, { do: fault })
      const leader = new Leader({ bootstrap: proxy.bootstrap, role, memberId: 'leader', ...settings })
      try {
        const leadership = await leader.term(1)
        expect(rule.treated.length).toBe(1)
        // Said again it is answered the same: a compare-and-swap is done once.
        expect(leadership.token.producerEpoch).toBe(1)
        await leadership.renew()
        expect((await lookAt(bootstrap, role)).producerEpoch).toBe(1)
      } finally {
        await leader.close()
        await proxy.close()
      }
    })

    test.concurrent.each([
      { during: 'no transaction', ends: false },
      { during: 'a transaction', ends: true },
    ])('the second, lost and delivered to its own term in $during', async ({ during, ends }) => {
      const { bootstrap } = cluster()
      const role = freshName('mint')
      const guarded = await guardedTopic(bootstrap)
      const proxy = await startFrameProxy(bootstrap)
      const rule = proxy.rule({ api: 'InitProducerId', skip: 1 }, { do: 'hold' })
      const leader = new Leader({ bootstrap: proxy.bootstrap, role, memberId: 'leader', ...settings })
      try {
        const first = await leader.term(1)
        const [held] = rule.treated
        const release = async (): Promise<void> => {
          held?.release()
          await held?.answered
        }
        if (during === 'no transaction') {
          await untilSettled(bootstrap, role)
          await release()
        }
        const later = await told(
          first.transact(async (transaction) => {
            await transaction.send(oneRecord(guarded, 'before'))
            if (during === 'a transaction') await release()
            await transaction.send(oneRecord(guarded, 'after'))
          }),
        )
        // The broker compares the pair between transactions only: over an open one, any expected pair of the producer id aborts it.
        expect(later.told).toBe(ends ? 'failed' : 'done')
        await (await leader.current()).send(oneRecord(guarded, 'last'))
        const log = await readCommittedLog(bootstrap, guarded)
        expectTruth(log, 'before', later.told)
        expectTruth(log, 'after', later.told)
        expectTruth(log, 'last', 'done')
        tell(
          `second mint, late in ${during}: ${leader.terms.length - 1} terms ended; nobody led for ${leader.gaps.map((gap) => gap.toFixed(0)).join()} ms`,
        )
        expect(leader.terms.length).toBe(ends ? 2 : 1)
        for (const gap of leader.gaps) expect(gap).toBeLessThan(longestAfterMintMs)
      } finally {
        await leader.close()
        await proxy.close()
      }
    })

    test.concurrent('the second, lost and delivered within the first lease transaction: contends again', async () => {
      const { bootstrap } = cluster()
      const role = freshName('mint')
      const proxy = await startFrameProxy(bootstrap)
      const mint = proxy.rule({ api: 'InitProducerId', skip: 1 }, { do: 'hold' })
      const commit = proxy.rule({ api: 'EndTxn' }, { do: 'hold' })
      const leader = new Leader({ bootstrap: proxy.bootstrap, role, memberId: 'leader', ...settings })
      try {
        await commit.hit()
        const [held] = mint.treated
        held?.release()
        await held?.answered
        commit.release()
        const leadership = await leader.term(1)
        await leadership.renew()
        const { leases } = await roleInLog(bootstrap, topic, role)
        expect(new Set(leases.map(({ token }) => token))).toEqual(new Set([leadership.token.toString()]))
      } finally {
        await leader.close()
        await proxy.close()
      }
    })

    test.concurrent.each(['dropAnswer', 'cutAnswer', 'drop', 'cut'] as const)('the seal: %s', async (fault) => {
      const { bootstrap } = cluster()
      const role = freshName('seal')
      const proxy = await startFrameProxy(bootstrap)
      const kafka = new Kafka({ brokers: [...proxy.bootstrap], logLevel: logLevel.NOTHING })
      const holder = new CoordinationClient({ kafka, memberId: 'holder', partitions: 1, ...settings })
      let standby: Leader | undefined
      try {
        const leadership = await holder.acquire(role)
        standby = new Leader({ bootstrap, role, memberId: 'standby', ...settings })
        await untilWaiting(holder, role)
        const rule = proxy.rule({ api: 'InitProducerId' }, { do: fault })
        expect(await leadership.resign()).toBe('resigned')
        const resignedAt = performance.now()
        expect(rule.treated.length).toBe(1)
        const successor = await standby.term(1)
        tell(
          `${kind.transactionVersion}: seal, ${fault}: led ${(performance.now() - resignedAt).toFixed(0)} ms after resign()`,
        )
        expect(performance.now() - resignedAt).toBeLessThan(longestWithoutLeaderMs)
        // The seal counts once, however often it was said.
        expect(successor.token.producerEpoch).toBe(mintsPerTerm + mintsPerTerm)
        await successor.renew()
        expect(registeredMembers(await roleInLog(bootstrap, topic, role))).toEqual(['standby'])
      } finally {
        await standby?.close()
        await holder.close()
        await proxy.close()
      }
    })

    test.concurrent.each([
      { during: 'no transaction', ends: false },
      { during: 'a transaction', ends: true },
    ])('the seal, lost and delivered to the successor in $during', async ({ during, ends }) => {
      const { bootstrap } = cluster()
      const role = freshName('seal')
      const guarded = await guardedTopic(bootstrap)
      const proxy = await startFrameProxy(bootstrap)
      const kafka = new Kafka({ brokers: [...proxy.bootstrap], logLevel: logLevel.NOTHING })
      const holder = new CoordinationClient({ kafka, memberId: 'holder', partitions: 1, ...settings })
      let standby: Leader | undefined
      try {
        const leadership = await holder.acquire(role)
        standby = new Leader({ bootstrap, role, memberId: 'standby', ...settings })
        await untilWaiting(holder, role)
        const rule = proxy.rule({ api: 'InitProducerId' }, { do: 'hold' })
        expect(await leadership.resign()).toBe('resigned')
        const successor = await standby.term(1)
        const [held] = rule.treated
        const release = async (): Promise<void> => {
          held?.release()
          await held?.answered
        }
        if (during === 'no transaction') {
          await untilSettled(bootstrap, role)
          await release()
        }
        const later = await told(
          successor.transact(async (transaction) => {
            await transaction.send(oneRecord(guarded, 'before'))
            if (during === 'a transaction') await release()
            await transaction.send(oneRecord(guarded, 'after'))
          }),
        )
        expect(later.told).toBe(ends ? 'failed' : 'done')
        await (await standby.current()).send(oneRecord(guarded, 'last'))
        const log = await readCommittedLog(bootstrap, guarded)
        expectTruth(log, 'before', later.told)
        expectTruth(log, 'after', later.told)
        expectTruth(log, 'last', 'done')
        const gaps = standby.gaps.map((gap) => gap.toFixed(0)).join()
        tell(
          `${kind.transactionVersion}: seal, late in ${during}: ${standby.terms.length - 1} terms ended; nobody led for ${gaps} ms`,
        )
        expect(standby.terms.length).toBe(ends ? 2 : 1)
        for (const gap of standby.gaps) expect(gap).toBeLessThan(longestAfterMintMs)
      } finally {
        await standby?.close()
        await holder.close()
        await proxy.close()
      }
    })

    test.concurrent('the seal, over a transaction that a late AddPartitionsToTxn opened', async () => {
      const { bootstrap } = cluster()
      const role = freshName('seal')
      const guarded = await guardedTopic(bootstrap)
      const proxy = await startFrameProxy(bootstrap)
      const kafka = new Kafka({ brokers: [...proxy.bootstrap], logLevel: logLevel.NOTHING })
      const holder = new CoordinationClient({ kafka, memberId: 'holder', partitions: 1, ...settings })
      try {
        const leadership = await holder.acquire(role)
        const rule = proxy.rule({ api: 'AddPartitionsToTxn' }, { do: 'hold' })
        await leadership.send(oneRecord(guarded, 'done'))
        const [held] = rule.treated
        await untilSettled(bootstrap, role)
        held?.release()
        await held?.answered
        expect((await lookAt(bootstrap, role)).state).toBe('Ongoing')
        expect(await leadership.resign()).toBe('resigned')
        expectTruth(await readCommittedLog(bootstrap, guarded), 'done', 'done')
        expect((await holder.describe(role)).state).toBe('vacant')
      } finally {
        await holder.close()
        await proxy.close()
      }
    })

    test.concurrent('the seal, never answered: the lease runs out, and nobody is told that it was resigned', async () => {
      const { bootstrap } = cluster()
      const role = freshName('seal')
      const proxy = await startFrameProxy(bootstrap)
      const kafka = new Kafka({ brokers: [...proxy.bootstrap], logLevel: logLevel.NOTHING })
      const short = { ...settings, leaseMs: 2_000 }
      const holder = new CoordinationClient({ kafka, memberId: 'holder', partitions: 1, ...short })
      try {
        const leadership = await holder.acquire(role)
        const rule = proxy.rule(
          {
            api: 'InitProducerId',
            when: (request) => pairIn(request)?.producerId !== -1n,
            times: Number.POSITIVE_INFINITY,
          },
          { do: 'dropAnswer' },
        )
        expect(await leadership.resign()).toBe('already-ended')
        expect(leadership.signal.reason).toMatchObject({ code: 'LEASE_EXPIRED' })
        expect(rule.treated.length).toBeGreaterThan(1)
        // Applied the first time: the token was dead all along.
        expect((await lookAt(bootstrap, role)).producerEpoch).toBe(mintsPerTerm)
      } finally {
        await holder.close()
        await proxy.close()
      }
    })

    test.concurrent('each plain mint follows a look of its own, however often it is refused or lost', async () => {
      const { bootstrap } = cluster()
      const role = freshName('mint')
      const proxy = await startFrameProxy(bootstrap)
      const requests = recorded(proxy)
      proxy.rule({ api: 'InitProducerId', times: 2 }, { do: 'cut' })
      const leader = new Leader({ bootstrap: proxy.bootstrap, role, memberId: 'leader', ...settings })
      try {
        await leader.term(1)
        const relevant = requests.filter(
          (request) =>
            request.api === 'DescribeTransactions' ||
            (request.api === 'InitProducerId' && pairIn(request)?.producerId === -1n),
        )
        const mints = relevant.flatMap(({ api }, index) => (api === 'InitProducerId' ? [relevant[index - 1]?.api] : []))
        expect(mints).toEqual(['DescribeTransactions', 'DescribeTransactions', 'DescribeTransactions'])
      } finally {
        await leader.close()
        await proxy.close()
      }
    })
  })
})

/**
 * A leader made of Kafka's Java producer, whose epoch rises with each transaction: once deposed it can neither write nor take over the
 * token of its successor, because an acquire mints twice (I3).
 */
import { Kafka, logLevel } from 'kafkajs'
import { afterEach, beforeAll, describe, expect, test } from 'vitest'
import { readCommittedLog } from '../../examples/demo/raw-log.js'
import { CoordinationClient } from '../../src/index.js'
import { guardedTopic, oneRecord } from '../client/programs/live.js'
import { JavaMember } from '../interop/java-member.js'
import { describeWithKafka, freshName } from '../kafka/suites.js'
import { HandMade, pairOf, untilIdle } from '../support/hand-made.js'
import { kinds, knowsTransactionVersion2 } from '../support/kinds.js'
import { lookAt } from '../support/look.js'
import { outcomesOf, untilSettled } from './doubt.js'

const leaseMs = 1_000
const ours = { partitions: 1, leaseMs: 60_000 }
const fencedCodes = [47, 90]

describe.each(kinds())('$name', ({ kind }) => {
  describeWithKafka('a deposed Java leader', kind, (cluster) => {
    const topic = freshName('coordination')
    const running = new Set<JavaMember>()

    beforeAll(async () => {
      const client = clientOf('maker')
      await client.describe('any')
      await client.close()
    })

    afterEach(async () => {
      await Promise.all([...running].map((member) => member.discard()))
      running.clear()
    })

    function clientOf(memberId: string): CoordinationClient {
      const kafka = new Kafka({ brokers: [...cluster().bootstrap], logLevel: logLevel.NOTHING })
      return new CoordinationClient({ kafka, memberId, topic, ...ours })
    }

    /** A Java member that leads: registered, a lease committed, a guarded record written. */
    async function javaLeader(role: string, guarded: string): Promise<JavaMember> {
      const java = await JavaMember.start({ bootstrap: cluster().bootstrap, role, memberId: 'java' })
      running.add(java)
      await java.call({ do: 'init' })
      await java.call({ do: 'register', topic })
      await java.call({ do: 'begin' })
      await java.call({ do: 'lease', topic, leaseMs })
      await java.call({ do: 'send', topic: guarded, key: 'k', value: 'of java' })
      await java.call({ do: 'commit' })
      return java
    }

    test.each(['commit', 'abort'] as const)('is refused for good when its successor ended with an %s', async (last) => {
      const { bootstrap } = cluster()
      const role = freshName('java')
      const guarded = await guardedTopic(bootstrap)
      const java = await javaLeader(role, guarded)
      const oldPair = pairOf(String(await java.call({ do: 'token' })))
      const client = clientOf('ours')
      const byHand = await HandMade.open(bootstrap, role)
      try {
        const leadership = await client.acquire(role)
        if (last === 'abort') {
          const failing = leadership.transact(async (transaction) => {
            await transaction.send(oneRecord(guarded, 'aborted'))
            throw new Error('of the callback')
          })
          await expect(failing).rejects.toThrow('of the callback')
        }
        await untilSettled(bootstrap, role)
        const stands = await lookAt(bootstrap, role)
        expect(stands.state).toBe(last === 'commit' ? 'CompleteCommit' : 'CompleteAbort')
        expect(stands.producerEpoch).toBe(leadership.token.producerEpoch)

        // By hand, as a client of transaction version 2 ends what it had begun.
        for (const committed of knowsTransactionVersion2 ? [true, false] : []) {
          const { errorCode } = await untilIdle(() => byHand.endTransaction(oldPair, committed, 5))
          expect(fencedCodes).toContain(errorCode)
        }
        // And as the producer does it by itself.
        await java.call({ do: 'begin' })
        const sent = await java.failureOf({ do: 'send', topic: guarded, key: 'k', value: 'stale' })
        expect(sent.name).toMatch(/InvalidProducerEpoch|ProducerFenced/)
        await java.ask({ do: 'abort' })
        const again = await java.ask({ do: 'begin' })
        if (again.error === undefined) {
          await java.failureOf({ do: 'send', topic: guarded, key: 'k', value: 'stale, again' })
          await java.failureOf({ do: 'commit' })
        }
        expect(await java.call({ do: 'token' })).not.toBe(leadership.token.toString())

        await leadership.send(oneRecord(guarded, 'of ours'))
        await leadership.renew()
        expect(leadership.signal.aborted).toBe(false)
        const log = await readCommittedLog(bootstrap, guarded)
        const visible = log.filter(({ outcome }) => outcome === 'committed').map(({ value }) => String(value))
        expect(visible).toEqual(['of java', 'of ours'])
        await java.end()
        running.delete(java)
      } finally {
        byHand.close()
        await client.close()
      }
    })

    const handed = knowsTransactionVersion2 ? ['is handed'] : []
    test.each(handed)('by hand %s the token of a successor that minted once', async () => {
      const { bootstrap } = cluster()
      const [role, guarded] = [freshName('by-hand'), await guardedTopic(bootstrap)]
      const [deposed, successor] = [await HandMade.open(bootstrap, role), await HandMade.open(bootstrap, role)]
      try {
        const old = await untilIdle(() => deposed.mint())
        const token = await untilIdle(() => successor.mint())
        expect(await untilIdle(() => successor.addPartition(token, guarded))).toBe(0)
        expect((await untilIdle(() => successor.endTransaction(token, false))).errorCode).toBe(0)
        expect(await untilIdle(() => deposed.endTransaction(old, false, 5))).toEqual(token)
      } finally {
        deposed.close()
        successor.close()
      }
    })

    if (kind.transactionVersion === 2) {
      test('would be handed the token of a successor that minted once, and its write would be there', async () => {
        const { bootstrap } = cluster()
        const role = freshName('java')
        const guarded = await guardedTopic(bootstrap)
        const java = await javaLeader(role, guarded)
        const successor = await HandMade.open(bootstrap, role)
        try {
          const { errorCode, ...token } = await untilIdle(() => successor.mint())
          expect(errorCode).toBe(0)
          expect(await untilIdle(() => successor.addPartition(token, guarded))).toBe(0)
          expect((await untilIdle(() => successor.endTransaction(token, false))).errorCode).toBe(0)
          await untilSettled(bootstrap, role)

          await java.call({ do: 'begin' })
          await java.failureOf({ do: 'send', topic: guarded, key: 'k', value: 'stale' })
          await java.call({ do: 'abort' })
          expect(pairOf(String(await java.call({ do: 'token' })))).toEqual(token)
          await java.call({ do: 'begin' })
          await java.call({ do: 'send', topic: guarded, key: 'k', value: 'under the token of another' })
          await java.call({ do: 'commit' })
          // The one that minted it is the one that is refused.
          expect(fencedCodes).toContain(await untilIdle(() => successor.addPartition(token, guarded)))
          const log = await readCommittedLog(bootstrap, guarded)
          expect(outcomesOf(log, 'under the token of another')).toEqual(['committed'])
          await java.end()
          running.delete(java)
        } finally {
          successor.close()
        }
      })
    }

    test('that leads is described as such, and deposes nobody by leading again', async () => {
      const { bootstrap } = cluster()
      const role = freshName('java')
      const guarded = await guardedTopic(bootstrap)
      const java = await javaLeader(role, guarded)
      const client = clientOf('ours')
      try {
        const described = await client.describe(role)
        expect(described.holder).toBe('java')
        expect(described.authority).not.toBe('superseded')
        const leadership = await client.acquire(role)
        expect(await client.checkToken(role, leadership.token)).toBe('current')
        // It mints again, as one that was told of nothing does: ours is fenced, at once and with the reason.
        const successor = await JavaMember.start({ bootstrap, role, memberId: 'java' })
        running.add(successor)
        await successor.call({ do: 'init' })
        await successor.call({ do: 'begin' })
        await successor.call({ do: 'lease', topic, leaseMs })
        await successor.call({ do: 'commit' })
        await expect(leadership.send(oneRecord(guarded, 'stale'))).rejects.toMatchObject({
          code: 'FENCED',
          reason: 'takeover',
          successor: { member: 'java' },
        })
        const log = await readCommittedLog(bootstrap, guarded)
        expect(outcomesOf(log, 'stale')).not.toContain('committed')
        await Promise.all([java.end(), successor.end()])
        running.clear()
      } finally {
        await client.close()
      }
    })
  })
})

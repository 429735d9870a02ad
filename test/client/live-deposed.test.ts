import { expect, test } from 'vitest'
import { describeWithKafka, freshName } from '../kafka/suites.js'
import type { ChildEvent } from '../support/child.js'
import { tell } from '../support/form.js'
import { type FrameProxy, type Rule, startFrameProxy } from '../support/frame-proxy.js'
import { lookAt, mintByHand } from '../support/look.js'
import {
  committedRecords,
  discardMembersAfterEach,
  guardedTopic,
  Member,
  oneRecord,
  type TermText,
  valuesOf,
} from './programs/live.js'
import type { Command } from './programs/member.js'

/** A lease that outlives every test here, so that its holder is alive and well when it is deposed. */
const lease = { leaseMs: 20_000, renewIntervalMs: 10_000, staggerMs: 1_000 }
/** Clocks decide when a member challenges: this one's runs so fast that a living leader's lease has run out for it. */
const hasty = { ...lease, clockRate: 15, requestTimeoutMs: 60_000 }
/** Ten times what a leader should need to see in its long poll that it has a successor. */
const longestMs = 10 * 100

/** Keeps the log from a member: what it learns then it learns from the broker's answers to its requests. */
function blindfold(proxy: FrameProxy): Rule {
  return proxy.rule({ api: 'Fetch', times: Number.POSITIVE_INFINITY }, { do: 'holdAnswer' })
}

describeWithKafka('a deposed leader', { nodes: 1, transactionVersion: 2 }, (cluster) => {
  discardMembersAfterEach()

  function expectFenced(error: unknown, deposed: TermText, successor: TermText): void {
    expect(error).toMatchObject({
      code: 'FENCED',
      reason: 'takeover',
      role: deposed.role,
      member: deposed.memberId,
      token: deposed.token,
      term: deposed.term,
      successor: { member: successor.memberId, token: successor.token, term: successor.term },
    })
  }

  /** Seals the topic with a record of the successor, so that a stale write could only come behind it. */
  async function expectOnly(values: readonly string[], topic: string, successor: Member, role: string): Promise<void> {
    await successor.call({ do: 'send', role, record: oneRecord(topic, 'of the successor') })
    expect(valuesOf(await committedRecords(cluster().bootstrap, topic))).toEqual([...values, 'of the successor'])
  }

  async function expectStillLeading(successor: TermText): Promise<void> {
    const { producerId, producerEpoch } = await lookAt(cluster().bootstrap, successor.role)
    expect(`${producerId}:${producerEpoch}`).toBe(successor.token)
  }

  test('that does nothing is told by the log, once and soon, and writes no more', async () => {
    const { bootstrap } = cluster()
    const role = freshName('deposed')
    const topic = await guardedTopic(bootstrap)
    const leader = await Member.start({ brokers: bootstrap, memberId: 'leader', ...lease })
    const rival = await Member.start({ brokers: bootstrap, memberId: 'rival', ...hasty })
    const deposed = await leader.acquire(role)
    await leader.call({ do: 'send', role, record: oneRecord(topic, 'of the leader') })
    const successor = await rival.acquire(role)

    const over = await leader.child.next('over')
    tell(`the signal aborted ${(Number(over.at) - successor.at).toFixed(1)} ms after the successor led`)
    expect(Number(over.at) - successor.at).toBeLessThan(longestMs)
    expectFenced(over.error, deposed, successor)
    expect(over.remainingMs).toBe(0)

    const calls: readonly Command[] = [
      { do: 'send', role, record: oneRecord(topic, 'sent after the take-over') },
      { do: 'transact', role, steps: [{ do: 'send', record: oneRecord(topic, 'in a transaction after it') }] },
      { do: 'transact', role, steps: [] },
      { do: 'renew', role },
    ]
    for (const call of calls) expectFenced(await leader.failureOf(call), deposed, successor)
    expect(await leader.call({ do: 'remainingMs', role })).toBe(0)
    expect(await leader.call({ do: 'resign', role })).toBe('already-ended')

    await expectOnly(['of the leader'], topic, rival, role)
    await expectStillLeading(successor)
    expect(await rival.call({ do: 'describe', role })).toMatchObject({ holder: 'rival', roster: [] })
    await leader.end()
    expect(leader.said('over').length).toBe(1)
    expect(leader.said('lost').length).toBe(1)
    await rival.end()
  })

  const firstCalls: readonly (readonly [name: string, command: (role: string, topic: string) => Command])[] = [
    ['send', (role, topic) => ({ do: 'send', role, record: oneRecord(topic, 'stale') })],
    [
      'transact',
      (role, topic) => ({ do: 'transact', role, steps: [{ do: 'send', record: oneRecord(topic, 'stale') }] }),
    ],
    ['an empty transact', (role) => ({ do: 'transact', role, steps: [] })],
    ['renew', (role) => ({ do: 'renew', role })],
  ]

  test.each(firstCalls)('that has not seen it in the log is refused by the broker at its first %s', async (_, call) => {
    const { bootstrap } = cluster()
    const role = freshName('deposed')
    const topic = await guardedTopic(bootstrap)
    const proxy = await startFrameProxy(bootstrap)
    try {
      const leader = await Member.start({ brokers: proxy.bootstrap, memberId: 'leader', ...lease })
      const rival = await Member.start({ brokers: bootstrap, memberId: 'rival', ...hasty })
      const deposed = await leader.acquire(role)
      await leader.call({ do: 'send', role, record: oneRecord(topic, 'of the leader') })
      const blind = blindfold(proxy)
      const successor = await rival.acquire(role)

      const refused = proxy.seen('AddPartitionsToTxn')
      const failing = leader.failureOf(call(role, topic))
      await (await refused).answered
      expect(leader.said('over')).toEqual([])
      // It may look for the reason now, and finds it in the log.
      blind.remove()
      blind.release()
      expectFenced(await failing, deposed, successor)

      expect(leader.said('over').length).toBe(1)
      await expectOnly(['of the leader'], topic, rival, role)
      await expectStillLeading(successor)
      await leader.end()
      expect(leader.said('over').length).toBe(1)
      await rival.end()
    } finally {
      await proxy.close()
    }
  })

  test('that was in a transaction can neither add to it nor commit it', async () => {
    const { bootstrap } = cluster()
    const topic = await guardedTopic(bootstrap)
    for (const late of ['add', 'commit'] as const) {
      const role = freshName('deposed')
      const proxy = await startFrameProxy(bootstrap)
      try {
        const leader = await Member.start({ brokers: proxy.bootstrap, memberId: 'leader', ...lease })
        const rival = await Member.start({ brokers: bootstrap, memberId: 'rival', ...hasty })
        const deposed = await leader.acquire(role)
        const blind = blindfold(proxy)
        const failing = leader.failureOf({
          do: 'transact',
          role,
          steps: [
            { do: 'send', record: oneRecord(topic, `before, ${late}`) },
            { do: 'hold', name: 'until deposed' },
            ...(late === 'add' ? [{ do: 'send', record: oneRecord(topic, 'after') } as const] : []),
          ],
        })
        await leader.child.next('holding')
        const successor = await rival.acquire(role)
        // A commit enlists the lease first where a renewal is nearly due.
        const next = (['Produce', 'EndTxn', 'AddPartitionsToTxn'] as const).map((api) => proxy.seen(api))
        await leader.call({ do: 'go', name: 'until deposed' })
        await (await Promise.race(next)).answered
        blind.remove()
        blind.release()
        expectFenced(await failing, deposed, successor)
        expect(leader.said('over').length).toBe(1)
        await expectStillLeading(successor)
        await leader.end()
        await rival.end()
      } finally {
        await proxy.close()
      }
    }
    expect(await committedRecords(bootstrap, topic)).toEqual([])
  })

  test.each(['AddPartitionsToTxn', 'Produce', 'EndTxn'] as const)(
    'is refused what the network held back: %s',
    async (api) => {
      const { bootstrap } = cluster()
      const role = freshName('deposed')
      const topic = await guardedTopic(bootstrap)
      const proxy = await startFrameProxy(bootstrap)
      try {
        const leader = await Member.start({ brokers: proxy.bootstrap, memberId: 'leader', ...lease })
        const rival = await Member.start({ brokers: bootstrap, memberId: 'rival', ...hasty })
        const deposed = await leader.acquire(role)
        const held = proxy.rule({ api }, { do: 'hold' })
        const failing = leader.failureOf({ do: 'send', role, record: oneRecord(topic, 'held back') })
        const request = await held.hit()
        const successor = await rival.acquire(role)
        await rival.call({ do: 'send', role, record: oneRecord(topic, 'of the successor') })
        request.release()
        await request.answered
        expectFenced(await failing, deposed, successor)
        await expectOnly(['of the successor'], topic, rival, role)
        await expectStillLeading(successor)
        await leader.end()
        expect(leader.said('over').length).toBe(1)
        await rival.end()
      } finally {
        await proxy.close()
      }
    },
  )

  test('that cannot read the log is told within a second, without the reason', async () => {
    const { bootstrap } = cluster()
    const role = freshName('deposed')
    const proxy = await startFrameProxy(bootstrap)
    try {
      const leader = await Member.start({ brokers: proxy.bootstrap, memberId: 'leader', ...lease })
      const rival = await Member.start({ brokers: bootstrap, memberId: 'rival', ...hasty })
      const deposed = await leader.acquire(role)
      const blind = blindfold(proxy)
      await rival.acquire(role)
      const { startedAt, at, error } = await leader.ask({ do: 'renew', role })
      tell(`fenced in ${(at - startedAt).toFixed(0)} ms with an unreadable log`)
      expect(at - startedAt).toBeLessThan(10 * 1_000)
      expect(error).toMatchObject({ code: 'FENCED', reason: 'unknown', token: deposed.token })
      expect(error).not.toHaveProperty('successor')
      blind.remove()
      blind.release()
      await leader.end()
      expect(leader.said('over').length).toBe(1)
      await rival.end()
    } finally {
      await proxy.close()
    }
  })

  test('by somebody who only minted is told so, and can lead again with a greater term', async () => {
    const { bootstrap } = cluster()
    const role = freshName('deposed')
    const topic = await guardedTopic(bootstrap)
    const leader = await Member.start({ brokers: bootstrap, memberId: 'leader', ...lease })
    const { token, term } = await leader.acquire(role)
    await mintByHand(bootstrap, role)
    const error = await leader.failureOf({ do: 'send', role, record: oneRecord(topic, 'stale') })
    expect(error).toMatchObject({ code: 'FENCED', reason: 'external-mint', token, term })
    expect(error).not.toHaveProperty('successor')
    const again = await leader.acquire(role, 2 * lease.leaseMs + longestMs)
    expect(BigInt(again.term)).toBeGreaterThan(BigInt(term))
    await leader.call({ do: 'send', role, record: oneRecord(topic, 'of the next term') })
    expect(valuesOf(await committedRecords(bootstrap, topic))).toEqual(['of the next term'])
    await leader.end()
    const overs: readonly ChildEvent[] = leader.said('over')
    expect(overs.map(({ token: ended }) => ended)).toEqual([token, again.token])
  })
})

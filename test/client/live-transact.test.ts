import { Kafka, logLevel } from 'kafkajs'
import { expect, test } from 'vitest'
import { readCommittedLog } from '../../examples/demo/raw-log.js'
import type { GuardedOffsets, GuardedRecord } from '../../src/index.js'
import { describeWithKafka, freshName } from '../kafka/suites.js'
import { tell } from '../support/form.js'
import { startFrameProxy } from '../support/frame-proxy.js'
import {
  committedRecords,
  discardMembersAfterEach,
  guardedTopic,
  Member,
  oneRecord,
  valuesOf,
} from './programs/live.js'
import type { Step } from './programs/member.js'

/** The offset that a group has committed for partition 0 of the topic; -1 where it has none. */
async function groupOffset(bootstrap: readonly string[], groupId: string, topic: string): Promise<string | undefined> {
  const admin = new Kafka({ brokers: [...bootstrap], logLevel: logLevel.NOTHING }).admin()
  await admin.connect()
  try {
    const [found] = await admin.fetchOffsets({ groupId, topics: [topic] })
    return found?.partitions.find(({ partition }) => partition === 0)?.offset
  } finally {
    await admin.disconnect()
  }
}

const offsetsOf = (consumerGroupId: string, topic: string, offset: string): GuardedOffsets => ({
  consumerGroupId,
  topics: [{ topic, partitions: [{ partition: 0, offset }] }],
})

describeWithKafka('a guarded transaction', { nodes: 1, transactionVersion: 2 }, (cluster) => {
  discardMembersAfterEach()

  test('writes all of its records or none, to several partitions, and answers with their places', async () => {
    const { bootstrap } = cluster()
    const role = freshName('transact')
    const topic = await guardedTopic(bootstrap, 3)
    const leader = await Member.start({ brokers: bootstrap, memberId: 'leader' })
    await leader.acquire(role)
    const to = (partition: number, value: string): Step => ({
      do: 'send',
      record: { topic, messages: [{ partition, value }] },
    })
    expect(
      await leader.call({ do: 'transact', role, steps: [to(0, 'a'), to(1, 'b'), to(2, 'c'), to(0, 'd')] }),
    ).toEqual([
      [{ topic, partition: 0, offset: '0' }],
      [{ topic, partition: 1, offset: '0' }],
      [{ topic, partition: 2, offset: '0' }],
      [{ topic, partition: 0, offset: '1' }],
    ])
    const failing = await leader.failureOf({
      do: 'transact',
      role,
      steps: [to(0, 'x'), to(1, 'y'), { do: 'throw', message: 'of the callback' }],
    })
    expect(failing).toEqual({ name: 'RangeError', message: 'of the callback' })
    const log = await readCommittedLog(bootstrap, topic)
    expect(log.map(({ partition, value, outcome }) => [partition, String(value), outcome])).toEqual([
      [0, 'a', 'committed'],
      [0, 'd', 'committed'],
      [0, 'x', 'aborted'],
      [1, 'b', 'committed'],
      [1, 'y', 'aborted'],
      [2, 'c', 'committed'],
    ])
    await leader.end()
  })

  test('whose callback throws before it sends asks nothing of the broker', async () => {
    const { bootstrap } = cluster()
    const role = freshName('transact')
    const topic = await guardedTopic(bootstrap)
    const proxy = await startFrameProxy(bootstrap)
    try {
      const leader = await Member.start({ brokers: proxy.bootstrap, memberId: 'leader' })
      const { token } = await leader.acquire(role)
      const counts = (): readonly number[] =>
        (['AddPartitionsToTxn', 'AddOffsetsToTxn', 'Produce', 'EndTxn'] as const).map((api) => proxy.count(api))
      const before = counts()
      const steps: readonly Step[] = [{ do: 'throw', message: 'too early' }]
      expect(await leader.failureOf({ do: 'transact', role, steps })).toEqual({
        name: 'RangeError',
        message: 'too early',
      })
      expect(counts()).toEqual(before)
      await leader.call({ do: 'transact', role, steps: [{ do: 'send', record: oneRecord(topic, 'next') }] })
      expect(valuesOf(await committedRecords(bootstrap, topic))).toEqual(['next'])
      expect(await leader.call({ do: 'checkToken', role, token })).toBe('current')
      await leader.end()
    } finally {
      await proxy.close()
    }
  })

  test('that sends nothing commits the lease, so its success means that the broker checked the token', async () => {
    const { bootstrap } = cluster()
    const role = freshName('transact')
    const leader = await Member.start({ brokers: bootstrap, memberId: 'leader' })
    await leader.acquire(role)
    expect(leader.said('renewed').length).toBe(0)
    const before = (await leader.call({ do: 'describe', role })) as { lease: { deadline: string } }
    expect(await leader.call({ do: 'transact', role, steps: [] })).toEqual([])
    expect(leader.said('renewed').length).toBe(1)
    const after = (await leader.call({ do: 'describe', role })) as { lease: { deadline: string } }
    expect(BigInt(after.lease.deadline)).toBeGreaterThan(BigInt(before.lease.deadline))
    await leader.end()
  })

  test('whose budget passes is aborted so that the lease can be renewed, and the term goes on', async () => {
    const { bootstrap } = cluster()
    const role = freshName('transact')
    const topic = await guardedTopic(bootstrap)
    const lease = { leaseMs: 3_000, renewIntervalMs: 1_000, staggerMs: 500 }
    const leader = await Member.start({ brokers: bootstrap, memberId: 'leader', ...lease })
    const standby = await Member.start({ brokers: bootstrap, memberId: 'standby', ...lease })
    const { token, term } = await leader.acquire(role)
    const waiting = standby.acquire(role)
    for (const [value, timeoutMs] of [
      ['slow', undefined],
      ['timed', 300],
    ] as const) {
      const renewals = leader.said('renewed').length
      const { startedAt, at, error } = await leader.ask({
        do: 'transact',
        role,
        steps: [
          { do: 'send', record: oneRecord(topic, value) },
          { do: 'hold', name: value },
          { do: 'send', caught: true, record: oneRecord(topic, `${value}, too late`) },
        ],
        ...(timeoutMs === undefined ? {} : { timeoutMs }),
      })
      expect(error).toMatchObject({ code: 'TRANSACTION_ABORTED', role })
      tell(`aborted ${(at - startedAt).toFixed(0)} ms after its start (timeoutMs ${timeoutMs ?? 'not given'})`)
      // Own deadline - (lease - renewal interval) / 3, and no timer is early.
      expect(at - startedAt).toBeGreaterThanOrEqual(timeoutMs ?? lease.leaseMs / 3)
      expect(at - startedAt).toBeLessThan(timeoutMs === undefined ? lease.leaseMs : 10 * timeoutMs)
      if (leader.said('renewed').length === renewals)
        await leader.child.nextWhere(isRenewalAfter(at), 10_000, 'renewal')
      await leader.call({ do: 'go', name: value })
      expect(await leader.failureOf({ do: 'sendLate', record: oneRecord(topic, 'later') })).toMatchObject({
        code: 'TRANSACTION_ABORTED',
      })
      await leader.call({ do: 'send', role, record: oneRecord(topic, `after ${value}`) })
    }
    expect(valuesOf(await committedRecords(bootstrap, topic))).toEqual(['after slow', 'after timed'])
    expect(await standby.call({ do: 'describe', role })).toMatchObject({ token, term, authority: 'current' })
    expect(leader.said('over')).toEqual([])
    await leader.call({ do: 'resign', role })
    await waiting
    await leader.end()
    await standby.end()
  })

  test('refuses every call of its leadership from within, and of itself after its end', async () => {
    const { bootstrap } = cluster()
    const role = freshName('transact')
    const topic = await guardedTopic(bootstrap)
    const leader = await Member.start({ brokers: bootstrap, memberId: 'leader' })
    await leader.acquire(role)
    const results = await leader.call({
      do: 'transact',
      role,
      steps: [
        { do: 'send', record: oneRecord(topic, 'inside') },
        { do: 'sendOutside', caught: true, record: oneRecord(topic, 'outside') },
        { do: 'nest', caught: true },
        { do: 'renew', caught: true },
        { do: 'resign', caught: true },
      ],
    })
    const refused = { code: 'TRANSACTION_ABORTED', role }
    expect(results).toMatchObject([[{ topic, offset: '0' }], refused, refused, refused, refused])
    expect(await leader.failureOf({ do: 'sendLate', record: oneRecord(topic, 'late') })).toMatchObject(refused)
    expect(valuesOf(await committedRecords(bootstrap, topic))).toEqual(['inside'])
    await leader.call({ do: 'renew', role })
    await leader.end()
  })

  test('with a send that failed is not committed, even if the callback does not look', async () => {
    const { bootstrap } = cluster()
    const role = freshName('transact')
    const topic = await guardedTopic(bootstrap)
    const missing = freshName('missing')
    const leader = await Member.start({ brokers: bootstrap, memberId: 'leader' })
    await leader.acquire(role)
    const group = freshName('group')
    const badSteps: readonly (readonly [step: Step, code: string])[] = [
      [{ do: 'send', caught: true, record: oneRecord(missing, 'to no topic') }, 'REFUSED'],
      [{ do: 'send', caught: true, record: { topic, messages: [{ partition: 7, value: 'x' }] } }, 'REFUSED'],
      [{ do: 'send', caught: true, record: { topic, messages: [] } }, 'CONFIG'],
      [{ do: 'sendOffsets', caught: true, offsets: offsetsOf(group, missing, '1') }, 'REFUSED'],
      [{ do: 'sendOffsets', caught: true, offsets: offsetsOf(group, topic, 'one') }, 'CONFIG'],
    ]
    for (const [step, code] of badSteps) {
      const steps: readonly Step[] = [
        { do: 'send', record: oneRecord(topic, 'before') },
        step,
        { do: 'send', caught: true, record: oneRecord(topic, 'after') },
      ]
      expect(await leader.failureOf({ do: 'transact', role, steps }), JSON.stringify(step)).toMatchObject({ code })
    }
    expect(await committedRecords(bootstrap, topic)).toEqual([])
    await leader.call({ do: 'send', role, record: oneRecord(topic, 'next') })
    expect(valuesOf(await committedRecords(bootstrap, topic))).toEqual(['next'])
    await leader.end()
  })

  test('is committed with what its callback did not wait for, or not at all', async () => {
    const { bootstrap } = cluster()
    const role = freshName('transact')
    const topic = await guardedTopic(bootstrap)
    const leader = await Member.start({ brokers: bootstrap, memberId: 'leader' })
    await leader.acquire(role)
    const unawaited = (...records: readonly GuardedRecord[]): readonly Step[] =>
      records.map((one) => ({ do: 'sendUnawaited', record: one }))
    const good = unawaited(oneRecord(topic, 'first'), oneRecord(topic, 'second'))
    expect(await leader.call({ do: 'transact', role, steps: good })).toEqual([null, null])
    const bad = [
      [{ topic, messages: [] }, 'CONFIG'],
      [{ topic, messages: [{ partition: 7, value: 'x' }] }, 'REFUSED'],
    ] as const
    for (const [one, code] of bad) {
      const steps = unawaited(oneRecord(topic, 'third'), one)
      expect(await leader.failureOf({ do: 'transact', role, steps })).toMatchObject({ code })
    }
    expect(valuesOf(await committedRecords(bootstrap, topic))).toEqual(['first', 'second'])
    await leader.end()
  })

  test("commits a group's offsets with its records, and aborts them with it", async () => {
    const { bootstrap } = cluster()
    const role = freshName('transact')
    const topic = await guardedTopic(bootstrap)
    const group = freshName('group')
    const leader = await Member.start({ brokers: bootstrap, memberId: 'leader' })
    await leader.acquire(role)
    const steps = (value: string, offset: string): readonly Step[] => [
      { do: 'send', record: oneRecord(topic, value) },
      { do: 'sendOffsets', offsets: offsetsOf(group, topic, offset) },
    ]
    await leader.call({ do: 'transact', role, steps: steps('first', '1') })
    expect(await groupOffset(bootstrap, group, topic)).toBe('1')
    const failing: readonly Step[] = [...steps('second', '2'), { do: 'throw', message: 'after the offsets' }]
    expect(await leader.failureOf({ do: 'transact', role, steps: failing })).toMatchObject({ name: 'RangeError' })
    expect(await groupOffset(bootstrap, group, topic)).toBe('1')
    await leader.call({ do: 'transact', role, steps: [{ do: 'sendOffsets', offsets: offsetsOf(group, topic, '3') }] })
    expect(await groupOffset(bootstrap, group, topic)).toBe('3')
    expect(valuesOf(await committedRecords(bootstrap, topic))).toEqual(['first'])
    await leader.end()
  })
})

function isRenewalAfter(at: number): (event: { event: string; at?: unknown }) => boolean {
  return ({ event, at: renewedAt }) => event === 'renewed' && Number(renewedAt) > at
}

import { expect, test } from 'vitest'
import { readCommittedLog } from '../../examples/demo/raw-log.js'
import { decodeKey } from '../../src/index.js'
import { describeWithKafka, freshName } from '../kafka/suites.js'
import { tell } from '../support/form.js'
import { type FrameProxy, startFrameProxy } from '../support/frame-proxy.js'
import { lookAt } from '../support/look.js'
import {
  coordinationTopic,
  discardMembersAfterEach,
  guardedTopic,
  Member,
  monotonicNow,
  neighbourOf,
  oneRecord,
  partitionOfRole,
  seenWaiting,
} from './programs/live.js'

/** Long enough for everything that is to happen between a crash and the take-over; the transaction outlives it by far. */
const lease = { leaseMs: 6_000, renewIntervalMs: 1_000, staggerMs: 500, transactionTimeoutMs: 60_000 }
/** Ten times what an answer, or a take-over past its rule's instant, should take. */
const longestMs = 10 * 100

/** Where in its transaction a leader dies, and what becomes of its record. */
const deaths = [
  { at: 'AddPartitionsToTxn', fault: 'dropAnswer', record: [], lease: [] },
  { at: 'Produce', fault: 'dropAnswer', record: ['aborted'], lease: [] },
  { at: 'EndTxn', fault: 'drop', record: ['aborted'], lease: ['aborted'] },
] as const

type Death = (typeof deaths)[number]

describeWithKafka('a leader killed in mid-transaction', { nodes: 1, transactionVersion: 2 }, (cluster) => {
  discardMembersAfterEach()

  /** Brings a leader to the point in its transaction, a renewal in it, and kills it there. */
  async function die(leader: Member, proxy: FrameProxy, role: string, topic: string, death: Death): Promise<void> {
    const ofTheTransaction = {
      api: death.at,
      when: (request: { mentions(text: string): boolean }) => request.mentions(topic),
    }
    const early = death.at === 'EndTxn' ? undefined : proxy.rule(ofTheTransaction, { do: death.fault })
    leader.child.send({
      id: 0,
      do: 'transact',
      role,
      steps: [
        { do: 'send', record: oneRecord(topic, death.at) },
        { do: 'hold', name: 'sent' },
        // A commit now carries the lease, so that the transaction is open on the roles' own partition too.
        { do: 'wait', ms: lease.renewIntervalMs },
      ],
    })
    if (early !== undefined) {
      await (await early.hit()).answered
    } else {
      await leader.child.next('holding')
      const late = proxy.rule({ api: death.at }, { do: death.fault })
      await leader.call({ do: 'go', name: 'sent' })
      await late.hit()
    }
    await leader.kill()
  }

  test('holds up no other role of its partition, and its own until its lease runs out', {
    timeout: 120_000,
  }, async () => {
    const { bootstrap } = cluster()
    const topic = await guardedTopic(bootstrap, deaths.length)
    const held = freshName('crash')
    const free = neighbourOf(held)
    const standby = await Member.start({ brokers: bootstrap, memberId: 'standby', ...lease })
    const neighbour = await Member.start({ brokers: bootstrap, memberId: 'neighbour', ...lease })
    const holder = await neighbour.acquire(held)
    const proxy = await startFrameProxy(bootstrap)
    try {
      const crashes = await Promise.all(
        deaths.map(async (death, index) => {
          const role = neighbourOf(held)
          const leader = await Member.start({ brokers: proxy.bootstrap, memberId: `leader-${index}`, ...lease })
          return { death, role, leader, topic: await guardedTopic(bootstrap), term: await leader.acquire(role) }
        }),
      )
      const takeOvers = crashes.map(({ role }) => standby.acquire(role, 60_000))
      for (const { role, leader } of crashes) {
        await leader.child.next('renewed')
        await seenWaiting(leader, role, 'standby')
      }
      for (const { leader, role, topic: own, death } of crashes) await die(leader, proxy, role, own, death)
      const states = async (): Promise<readonly string[]> =>
        await Promise.all(crashes.map(async ({ role }) => (await lookAt(bootstrap, role)).state))
      expect(await states()).toEqual(deaths.map(() => 'Ongoing'))

      // A process that starts now reads the partition below and above the open transactions.
      const latecomer = await Member.start({ brokers: bootstrap, memberId: 'latecomer', ...lease })
      const vacant = await latecomer.ask({ do: 'describe', role: free })
      expect(vacant.value).toMatchObject({ role: free, state: 'vacant', current: false, roster: [] })
      const described = await latecomer.ask({ do: 'describe', role: held })
      expect(described.value).toMatchObject({ holder: 'neighbour', token: holder.token, authority: 'current' })
      for (const { role, term } of crashes) {
        expect(await latecomer.call({ do: 'describe', role })).toMatchObject({
          holder: term.memberId,
          token: term.token,
          term: term.term,
          authority: 'current',
          roster: [{ memberId: 'standby', rank: 0 }],
        })
      }
      const acquired = await latecomer.ask({ do: 'acquire', role: free })
      expect(acquired.value).toMatchObject({ role: free, memberId: 'latecomer' })
      await latecomer.call({ do: 'send', role: free, record: oneRecord(topic, 'of a role that was free') })
      const handedOver = latecomer.acquire(held)
      await seenWaiting(neighbour, held, 'latecomer')
      await neighbour.call({ do: 'renew', role: held })
      const resigned = await neighbour.ask({ do: 'resign', role: held })
      expect(resigned.value).toBe('resigned')
      const second = await handedOver
      // All that while the transactions of the dead leaders were open.
      expect(await states()).toEqual(deaths.map(() => 'Ongoing'))
      const took = {
        'describe of a free role': vacant.at - vacant.startedAt,
        'describe of a held role': described.at - described.startedAt,
        acquire: acquired.at - acquired.startedAt,
        'hand-over': second.at - resigned.startedAt,
      }
      for (const [what, ms] of Object.entries(took)) {
        tell(`${what} beside open transactions: ${ms.toFixed(1)} ms`)
        expect(ms, what).toBeLessThan(longestMs)
      }

      for (const [index, { death, role, leader, topic: own, term }] of crashes.entries()) {
        const next = await takeOvers[index]
        if (next === undefined) throw new Error('no take-over')
        const last = leader.said('renewed').at(-1)
        const late = next.at - (Number(last?.at) + Number(last?.remainingMs))
        tell(`killed at ${death.at}: taken over ${late.toFixed(1)} ms after its last lease had run out`)
        expect(late).toBeGreaterThan(0)
        expect(late).toBeLessThan(longestMs)
        expect(BigInt(next.term)).toBeGreaterThan(BigInt(term.term))
        await standby.call({ do: 'send', role, record: oneRecord(own, 'of the successor') })
        const outcomes = (await readCommittedLog(bootstrap, own)).map(({ value, outcome }) => [String(value), outcome])
        expect(outcomes).toEqual([
          ...death.record.map((outcome) => [death.at, outcome]),
          ['of the successor', 'committed'],
        ])
        const leases = (await readCommittedLog(bootstrap, coordinationTopic)).filter(
          ({ partition, key, producerId, producerEpoch, outcome }) =>
            partition === partitionOfRole(role) &&
            key !== null &&
            decodeKey(key).role === role &&
            `${producerId}:${producerEpoch}` === term.token &&
            outcome !== 'committed',
        )
        expect(leases.map(({ outcome }) => outcome)).toEqual(death.lease)
      }
      expect(neighbour.said('over').length + latecomer.said('over').length).toBe(1)
      for (const member of [standby, neighbour, latecomer]) await member.end()
    } finally {
      await proxy.close()
    }
  })
})

describeWithKafka('a leader killed before it knows of its commit', { nodes: 1, transactionVersion: 2 }, (cluster) => {
  discardMembersAfterEach()

  test('has written, and holds the role for the lease it committed', async () => {
    const { bootstrap } = cluster()
    const role = freshName('crash')
    const topic = await guardedTopic(bootstrap)
    const proxy = await startFrameProxy(bootstrap)
    try {
      const leader = await Member.start({ brokers: proxy.bootstrap, memberId: 'leader', ...lease })
      const standby = await Member.start({ brokers: bootstrap, memberId: 'standby', ...lease })
      await leader.acquire(role)
      const takeOver = standby.acquire(role)
      leader.child.send({
        id: 0,
        do: 'transact',
        role,
        steps: [
          { do: 'send', record: oneRecord(topic, 'committed unheard') },
          { do: 'hold', name: 'sent' },
          { do: 'wait', ms: lease.renewIntervalMs },
        ],
      })
      await leader.child.next('holding')
      const ended = proxy.rule({ api: 'EndTxn' }, { do: 'dropAnswer' })
      const enlisted = proxy.seen('AddPartitionsToTxn').then(() => monotonicNow())
      await leader.call({ do: 'go', name: 'sent' })
      const leaseSentAt = await enlisted
      await (await ended.hit()).answered
      await leader.kill()
      const next = await takeOver
      const late = next.at - leaseSentAt - lease.leaseMs
      tell(`killed at EndTxn, applied: taken over ${late.toFixed(1)} ms after a lease since it was sent`)
      expect(late).toBeGreaterThan(0)
      expect(late).toBeLessThan(longestMs)
      const outcomes = (await readCommittedLog(bootstrap, topic)).map(({ value, outcome }) => [String(value), outcome])
      expect(outcomes).toEqual([['committed unheard', 'committed']])
      await standby.end()
    } finally {
      await proxy.close()
    }
  })
})

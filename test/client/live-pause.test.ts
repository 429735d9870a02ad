import { expect, test } from 'vitest'
import { headerText, type RawRecord, readCommittedLog } from '../../examples/demo/raw-log.js'
import { describeWithKafka, freshName } from '../kafka/suites.js'
import type { ChildEvent } from '../support/child.js'
import { rounds, tell } from '../support/form.js'
import { startFrameProxy } from '../support/frame-proxy.js'
import { lookAt } from '../support/look.js'
import {
  discardMembersAfterEach,
  guardedTopic,
  Member,
  monotonicNow,
  oneRecord,
  seenWaiting,
  type TermText,
  valuesOf,
} from './programs/live.js'
import type { MemberFailure } from './programs/member.js'

const lease = { leaseMs: 3_000, renewIntervalMs: 500, staggerMs: 250 }

/** How a term ends for a process that slept through its lease. */
const lostBySleeping = ['FENCED', 'LEASE_EXPIRED']

const codeOf = (event: ChildEvent): string => (event.error as MemberFailure).code ?? ''

/** Committed records that lie behind a record of a later term: what a paused leader must never bring about. */
function staleRecords(records: readonly RawRecord[]): readonly RawRecord[] {
  let newest = -1n
  return records.filter((written) => {
    if (written.outcome !== 'committed') return false
    const term = BigInt(headerText(written, 'mandate-term') ?? '-1')
    if (term < newest) return true
    newest = term
    return false
  })
}

describeWithKafka('a stopped process', { nodes: 1, transactionVersion: 2 }, (cluster) => {
  discardMembersAfterEach()

  async function pairOf(role: string): Promise<{ readonly id: bigint; readonly epoch: number; readonly text: string }> {
    const { producerId, producerEpoch } = await lookAt(cluster().bootstrap, role)
    return { id: producerId, epoch: producerEpoch, text: `${producerId}:${producerEpoch}` }
  }

  /** Resolves when `by` sees `member` in the queue for the role, while the holder leads on. */
  async function seenBehind(leading: TermText, member: Member, by: Member): Promise<void> {
    const { role, memberId: holder, token } = leading
    await seenWaiting(by, role, member.memberId, (status) =>
      expect(status).toMatchObject({ holder, token, authority: 'current' }),
    )
    expect((await pairOf(leading.role)).text).toBe(leading.token)
  }

  test('that woke before its first write writes nothing and deposes nobody', {
    timeout: rounds(120_000, 300_000),
  }, async () => {
    const times = rounds(5, 20)
    const { bootstrap } = cluster()
    const role = freshName('paused')
    const topic = await guardedTopic(bootstrap)
    const members = [
      await Member.start({ brokers: bootstrap, memberId: 'a', ...lease }),
      await Member.start({ brokers: bootstrap, memberId: 'b', ...lease }),
    ]
    let [asleep, awake] = members as [Member, Member]
    let leading = await asleep.acquire(role)
    let standby = awake.acquire(role)
    await seenBehind(leading, awake, asleep)
    const codes: string[] = []
    let pair = await pairOf(role)
    for (let round = 0; round < times; round++) {
      const slept = leading
      asleep.child.stop()
      leading = await standby
      await awake.call({ do: 'send', role, record: oneRecord(topic, `${round}`) })
      const minted = await pairOf(role)
      // A take-over of a holder without an open transaction is two mints.
      expect({ id: minted.id, epoch: minted.epoch }).toEqual({ id: pair.id, epoch: pair.epoch + 2 })
      expect(minted.text).toBe(leading.token)

      // The command lies in its input when it wakes.
      const stale = asleep.failureOf({ do: 'send', role, record: oneRecord(topic, `stale ${round}`) })
      const staleWork = asleep.failureOf({
        do: 'transact',
        role,
        steps: [{ do: 'send', record: oneRecord(topic, `stale ${round}`) }],
      })
      const staleRenewal = asleep.failureOf({ do: 'renew', role })
      asleep.child.continue()
      for (const error of [await stale, await staleWork, await staleRenewal]) {
        expect(lostBySleeping).toContain(error.code)
        expect(error).toMatchObject({ token: slept.token, term: slept.term })
        codes.push(String(error.code))
      }
      const over = await asleep.child.next('over')
      expect(over).toMatchObject({ token: slept.token, term: slept.term, remainingMs: 0 })

      standby = asleep.acquire(role)
      await seenBehind(leading, asleep, awake)
      expect(BigInt(leading.term)).toBeGreaterThan(BigInt(slept.term))
      pair = minted
      ;[asleep, awake] = [awake, asleep]
    }
    tell(`${times} leaders stopped before their first write: ${count(codes)}`)
    const written = await readCommittedLog(bootstrap, topic)
    expect(valuesOf(written.filter(({ outcome }) => outcome === 'committed'))).toEqual(
      Array.from({ length: times }, (_, round) => `${round}`),
    )
    await asleep.call({ do: 'resign', role })
    await standby
    for (const member of members) await member.end()
    // Each term ended once: those slept through, the one resigned, and the last one, which was closed.
    expect(members.flatMap((member) => member.said('over')).length).toBe(times + 2)
  })

  test('that woke in mid-writing commits nothing more and deposes nobody', {
    timeout: rounds(120_000, 300_000),
  }, async () => {
    const times = rounds(5, 20)
    const { bootstrap } = cluster()
    const role = freshName('paused')
    const topic = await guardedTopic(bootstrap)
    const members = [
      await Member.start({ brokers: bootstrap, memberId: 'a', ...lease }),
      await Member.start({ brokers: bootstrap, memberId: 'b', ...lease }),
    ]
    let [asleep, awake] = members as [Member, Member]
    const leads = members.map((member) => ({ member, settled: undefined as Promise<unknown> | undefined }))
    for (const entry of leads) {
      entry.settled = entry.member.call({ do: 'lead', role, writeTo: topic }, rounds(110_000, 290_000))
      if (entry.member === asleep) await asleep.child.next('leading')
    }
    let leading = asleep.said('leading')[0] as ChildEvent & TermText
    await seenBehind(leading, awake, asleep)
    const wokenAt: { readonly member: Member; readonly term: string; readonly at: number }[] = []
    const mints: number[] = []
    let pair = await pairOf(role)
    for (let round = 0; round < times; round++) {
      const slept = leading
      for (let seen = 0; seen < 10; seen++) await asleep.child.next('wrote')
      asleep.child.stop()
      leading = (await awake.child.next('leading')) as ChildEvent & TermText
      for (let seen = 0; seen < 10; seen++) await awake.child.next('wrote')
      const minted = await pairOf(role)
      expect(minted.text).toBe(leading.token)
      mints.push(minted.id === pair.id ? minted.epoch - pair.epoch : Number.NaN)

      wokenAt.push({ member: asleep, term: slept.term, at: monotonicNow() })
      asleep.child.continue()
      const over = await asleep.child.next('over')
      expect(lostBySleeping).toContain(codeOf(over))
      expect(over).toMatchObject({ token: slept.token, term: slept.term, remainingMs: 0 })
      await seenBehind(leading, asleep, awake)
      pair = minted
      ;[asleep, awake] = [awake, asleep]
    }
    for (const { member } of leads) await member.call({ do: 'abort', role, reason: 'enough' })
    for (const { settled } of leads) await settled
    for (const member of members) await member.end()

    const log = await readCommittedLog(bootstrap, topic)
    const committed = new Map(
      log.filter(({ outcome }) => outcome === 'committed').map((written) => [String(written.value), written]),
    )
    expect(staleRecords(log)).toEqual([])
    const wrote = members.flatMap((member) => member.said('wrote'))
    for (const { value, offset } of wrote) {
      expect(String(committed.get(String(value))?.offset), `offset of ${value}`).toBe(offset)
    }
    const refused = members.flatMap((member) => member.said('refused'))
    for (const event of refused) {
      if (codeOf(event) !== 'COMMIT_UNKNOWN')
        expect(committed.has(String(event.value)), String(event.value)).toBe(false)
    }
    // Everything that a woken process began after waking, under the term it had slept through, was refused by name.
    let tried = 0
    for (const { member, term, at } of wokenAt) {
      const begunAwake = (event: ChildEvent): boolean => event.term === term && Number(event.startedAt) > at
      expect(member.said('wrote').filter(begunAwake)).toEqual([])
      const refusals = member.said('refused').filter(begunAwake)
      expect(refusals.length).toBeGreaterThan(0)
      for (const refusal of refusals) expect(lostBySleeping).toContain(codeOf(refusal))
      tried += refusals.length
    }
    tell(
      `${times} leaders stopped in mid-writing: ${committed.size} records committed, 0 stale, ${tried} writes refused after waking ` +
        `(${count(refused.map(codeOf))}); mints a take-over: ${count(mints.map(String))}`,
    )
  })

  test('that woke with a commit unanswered cannot tell its outcome, and its lease has run out', async () => {
    const { bootstrap } = cluster()
    const role = freshName('paused')
    const topic = await guardedTopic(bootstrap)
    const proxy = await startFrameProxy(bootstrap)
    try {
      const setup = { brokers: proxy.bootstrap, memberId: 'asleep', requestTimeoutMs: 500, ...lease }
      const asleep = await Member.start(setup)
      const awake = await Member.start({ brokers: bootstrap, memberId: 'awake', ...lease })
      const { token, term } = await asleep.acquire(role)
      const takeOver = awake.acquire(role)
      const unanswered = proxy.rule({ api: 'EndTxn', times: Number.POSITIVE_INFINITY }, { do: 'dropAnswer' })
      const failing = asleep.failureOf({ do: 'send', role, record: oneRecord(topic, 'committed unheard') })
      const request = await unanswered.hit()
      asleep.child.stop()
      await request.answered
      const next = await takeOver
      asleep.child.continue()
      expect(await failing).toMatchObject({ code: 'COMMIT_UNKNOWN', role })
      const over = await asleep.child.next('over')
      expect(over).toMatchObject({ token, term, error: { code: 'LEASE_EXPIRED' } })
      const stale = oneRecord(topic, 'stale')
      expect(await asleep.failureOf({ do: 'send', role, record: stale })).toMatchObject({
        code: 'LEASE_EXPIRED',
        token,
      })
      await awake.call({ do: 'send', role, record: oneRecord(topic, 'of the successor') })
      const log = await readCommittedLog(bootstrap, topic)
      expect(log.map(({ value, outcome }) => [String(value), outcome])).toEqual([
        ['committed unheard', 'committed'],
        ['of the successor', 'committed'],
      ])
      expect((await pairOf(role)).text).toBe(next.token)
      await asleep.end()
      await awake.end()
    } finally {
      await proxy.close()
    }
  })

  test('that waited for the role reads again before it challenges', { timeout: rounds(120_000, 300_000) }, async () => {
    const times = rounds(3, 20)
    const { bootstrap } = cluster()
    const role = freshName('paused')
    let members: readonly [Member, Member, Member] = [
      await Member.start({ brokers: bootstrap, memberId: 'a', ...lease }),
      await Member.start({ brokers: bootstrap, memberId: 'b', ...lease }),
      await Member.start({ brokers: bootstrap, memberId: 'c', ...lease }),
    ]
    const leads: Promise<unknown>[] = []
    leads.push(members[0].call({ do: 'lead', role }, rounds(110_000, 290_000)))
    let leading = (await members[0].child.next('leading')) as ChildEvent & TermText
    for (const member of members.slice(1)) {
      leads.push(member.call({ do: 'lead', role }, rounds(110_000, 290_000)))
      await seenBehind(leading, member, members[0])
    }
    for (let round = 0; round < times; round++) {
      // The first in the queue sleeps while the leader falls asleep and the second takes over.
      const [leader, first, second] = members
      first.child.stop()
      leader.child.stop()
      leading = (await second.child.next('leading')) as ChildEvent & TermText
      const minted = await pairOf(role)
      expect(minted.text).toBe(leading.token)
      first.child.continue()
      await seenBehind(leading, first, first)
      leader.child.continue()
      await leader.child.next('over')
      await seenBehind(leading, leader, leader)
      await seenBehind(leading, first, second)
      members = [second, first, leader]
      // The one that was swept while it slept may have registered behind the woken leader.
      const { roster } = (await second.call({ do: 'describe', role })) as { roster: readonly { memberId: string }[] }
      if (roster[0]?.memberId === leader.memberId) members = [second, leader, first]
    }
    tell(`${times} stopped standbys deposed nobody when they woke`)
    for (const member of members) await member.call({ do: 'abort', role, reason: 'enough' })
    await Promise.all(leads)
    for (const member of members) await member.end()
  })
})

describeWithKafka('a blocked event loop', { nodes: 1, transactionVersion: 2 }, (cluster) => {
  discardMembersAfterEach()

  test('finds no time left, no write accepted and its signal aborted as soon as it runs again', async () => {
    const { bootstrap } = cluster()
    const role = freshName('blocked')
    const topic = await guardedTopic(bootstrap)
    const blocked = await Member.start({ brokers: bootstrap, memberId: 'blocked', ...lease })
    const standby = await Member.start({ brokers: bootstrap, memberId: 'standby', ...lease })
    const { token, term } = await blocked.acquire(role)
    const takeOver = standby.acquire(role)
    await blocked.child.next('renewed')
    const seen = await blocked.call({ do: 'block', role, ms: 3 * lease.leaseMs, record: oneRecord(topic, 'stale') })
    const { before, ...after } = seen as { before: number; errors: readonly MemberFailure[] }
    expect(before).toBeGreaterThan(0)
    const expired = { code: 'LEASE_EXPIRED', token, term }
    expect(after).toMatchObject({ after: 0, errors: [expired, expired, expired], signalledNextTurn: true })
    const resigned = await blocked.ask({ do: 'resign', role })
    expect(resigned.value).toBe('already-ended')
    tell(`resign after the loss took ${(resigned.at - resigned.startedAt).toFixed(1)} ms`)
    expect(resigned.at - resigned.startedAt).toBeLessThan(10 * 100)

    const next = await takeOver
    expect(BigInt(next.term)).toBeGreaterThan(BigInt(term))
    await standby.call({ do: 'send', role, record: oneRecord(topic, 'of the successor') })
    const log = await readCommittedLog(bootstrap, topic)
    expect(valuesOf(log)).toEqual(['of the successor'])
    const { producerId, producerEpoch } = await lookAt(bootstrap, role)
    expect(`${producerId}:${producerEpoch}`).toBe(next.token)
    await blocked.end()
    expect(blocked.said('over').length).toBe(1)
    await standby.end()
  })
})

/** `3 x FENCED, 2 x LEASE_EXPIRED`. */
function count(words: readonly string[]): string {
  const counts = new Map<string, number>()
  for (const word of words) counts.set(word, (counts.get(word) ?? 0) + 1)
  return [...counts].map(([word, times]) => `${times} x ${word}`).join(', ')
}

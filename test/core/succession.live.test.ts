/**
 * Who leads next, on real brokers: by the offsets of the registrations, a restarted member last, a restarted holder at once, the later of
 * two processes with one id, and past a crowd of dead registrations after one lease length at most.
 *
 * What happened is read from the coordination topic's raw log, not from what the members say.
 */
import { afterEach, describe, expect, test } from 'vitest'
import { discardMembersAfterEach, Member, monotonicNow, partitionOfRole } from '../client/programs/live.js'
import { JavaMember } from '../interop/java-member.js'
import { describeWithKafka, freshName } from '../kafka/suites.js'
import { Child } from '../support/child.js'
import { type RoleInLog, registeredMembers, roleInLog, tokensInOrder } from '../support/coordination-topic.js'
import { tell } from '../support/form.js'
import { kinds } from '../support/kinds.js'
import { lookAt } from '../support/look.js'
import type { CrowdSetup } from './programs/crowd.js'

/** Nobody gets a turn because something ran out. */
const longLease = { leaseMs: 60_000, renewIntervalMs: 1_000, staggerMs: 1_000 }
const shortLease = { leaseMs: 3_000, renewIntervalMs: 1_000, staggerMs: 500 }
/** Ten times the aim for what happens "at once". */
const atOnceMs = 10 * 100

const suites = kinds()

/** The members in the order in which they led, from their committed leases. */
function leadersInOrder({ leases }: RoleInLog): readonly string[] {
  const leaders: string[] = []
  let last: string | undefined
  for (const { token, member } of leases) {
    if (token === undefined || member === undefined || token === last) continue
    last = token
    leaders.push(member)
  }
  return leaders
}

/** Resolves when exactly these members wait, in this order. */
async function untilQueue(by: Member, role: string, queue: readonly string[]): Promise<void> {
  for (;;) {
    const { roster } = (await by.call({ do: 'describe', role })) as { roster: readonly { memberId: string }[] }
    if (roster.map(({ memberId }) => memberId).join() === queue.join()) return
  }
}

describe.each(suites)('succession: $name', ({ name, kind }) => {
  describeWithKafka('the next leader', kind, (cluster) => {
    const topic = freshName('coordination')
    const crowds: Child[] = []
    discardMembersAfterEach()
    afterEach(async () => {
      for (const crowd of crowds.splice(0)) await crowd.kill()
    })

    const member = (memberId: string, lease: object): Promise<Member> =>
      Member.start({ brokers: cluster().bootstrap, topic, memberId, ...lease })
    const read = (role: string): Promise<RoleInLog> => roleInLog(cluster().bootstrap, topic, role)

    test('is the lowest offset in the queue; a restarted member is last in it', async () => {
      const role = freshName('order')
      const [d, b, c, a] = await Promise.all(['d', 'b', 'c', 'a'].map((id) => member(id, shortLease)))
      if (d === undefined || b === undefined || c === undefined || a === undefined) throw new Error('no members')
      await d.acquire(role)
      const bWaits = b.ask({ do: 'acquire', role }).catch(() => undefined)
      await untilQueue(d, role, ['b'])
      const cLeads = c.acquire(role)
      await untilQueue(d, role, ['b', 'c'])
      const aLeads = a.acquire(role)
      await untilQueue(d, role, ['b', 'c', 'a'])

      await b.kill()
      await bWaits
      const again = await member('b', shortLease)
      const bLeads = again.acquire(role)
      await untilQueue(d, role, ['c', 'a', 'b'])
      const { registrations } = await read(role)
      const joined = registrations.filter(({ isTombstone }) => !isTombstone).map((registration) => registration.member)
      expect(joined, 'had b kept its first place, the order would be another').toEqual(['d', 'b', 'c', 'a', 'b'])

      expect(await d.call({ do: 'resign', role })).toBe('resigned')
      await cLeads
      await c.kill()
      await aLeads
      const returned = await member('c', shortLease)
      const cLeadsAgain = returned.acquire(role)
      await untilQueue(a, role, ['b', 'c'])
      expect(await a.call({ do: 'resign', role })).toBe('resigned')
      await bLeads
      expect(await again.call({ do: 'resign', role })).toBe('resigned')
      await cLeadsAgain

      const log = await read(role)
      expect(leadersInOrder(log)).toEqual(['d', 'c', 'a', 'b', 'c'])
      const terms = tokensInOrder(log).map(({ term }) => term)
      expect(terms).toEqual([...terms].sort((one, other) => (one < other ? -1 : 1)))
      for (const last of [d, a, again, returned]) await last.end()
    })

    test('is the restarted holder with its id, at once, in front of whoever waits', async () => {
      const role = freshName('restart')
      const [holder, waiting] = [await member('holder', longLease), await member('waiting', longLease)]
      const before = await holder.acquire(role)
      const waits = waiting.ask({ do: 'acquire', role }, 60_000)
      waits.catch(() => undefined)
      await untilQueue(holder, role, ['waiting'])
      await holder.kill()

      // The control: the lease is live, and it stops whoever is not its holder.
      const stranger = await member('stranger', longLease)
      expect(await stranger.call({ do: 'tryAcquire', role })).toBeNull()
      const restarted = await member('holder', longLease)
      const startedAt = monotonicNow()
      const after = await restarted.acquire(role)
      const tookMs = after.at - startedAt
      tell(
        `${name}: a restarted holder leads again after ${tookMs.toFixed(0)} ms of a lease of ${longLease.leaseMs} ms`,
      )
      expect(tookMs).toBeLessThan(atOnceMs)
      expect(BigInt(after.term)).toBeGreaterThan(BigInt(before.term))
      expect(leadersInOrder(await read(role))).toEqual(['holder', 'holder'])
      await untilQueue(restarted, role, ['waiting'])
      for (const last of [stranger, restarted, waiting]) await last.end()
      expect(registeredMembers(await read(role)), 'nobody is left').toEqual([])
    })

    test('is the later of two live processes with one id: the earlier ends with SUPERSEDED, and that is all', async () => {
      const role = freshName('twins')
      const [earlier, later] = [await member('twin', longLease), await member('twin', longLease)]
      const earlierLeads = earlier.ask({ do: 'lead', role })
      await earlier.child.next('leading')
      const laterLeads = later.ask({ do: 'lead', role })
      const leading = await later.child.next('leading')
      expect((await earlierLeads).error).toMatchObject({ code: 'SUPERSEDED', role })
      expect((await earlier.child.next('over')).error).toMatchObject({ code: 'SUPERSEDED' })
      for (let renewals = 0; renewals < 3; renewals += 1) await later.child.next('renewed')
      expect(tokensInOrder(await read(role))).toHaveLength(2)
      const look = await lookAt(cluster().bootstrap, role)
      expect(`${look.producerId}:${look.producerEpoch}`, 'nobody minted after it').toBe(leading.token)

      // The control: a process that does not take SUPERSEDED for an end is seen in the same log.
      const insists = earlier.ask({ do: 'lead', role })
      await earlier.child.next('leading')
      expect((await laterLeads).error).toMatchObject({ code: 'SUPERSEDED' })
      expect(tokensInOrder(await read(role))).toHaveLength(3)
      await Promise.all([earlier.end(), later.end()])
      expect((await insists).error).toBeUndefined()
    })

    test('is the later of two processes with one id that wait', async () => {
      const role = freshName('waiting-twins')
      const holder = await member('holder', longLease)
      await holder.acquire(role)
      const [earlier, later] = [await member('twin', longLease), await member('twin', longLease)]
      const earlierWaits = earlier.failureOf({ do: 'acquire', role })
      await untilQueue(holder, role, ['twin'])
      const laterLeads = later.acquire(role)
      expect(await earlierWaits).toMatchObject({ code: 'SUPERSEDED', role })
      await untilQueue(holder, role, ['twin'])
      expect(await holder.call({ do: 'resign', role })).toBe('resigned')
      await laterLeads
      expect(leadersInOrder(await read(role))).toEqual(['holder', 'twin'])
      for (const last of [earlier, later, holder]) await last.end()
    })

    test('is a Java member with the id of a live one, which ends with SUPERSEDED', async () => {
      const { bootstrap } = cluster()
      const role = freshName('java-twin')
      const ours = await member('twin', longLease)
      const leads = ours.ask({ do: 'lead', role })
      await ours.child.next('leading')
      const java = await JavaMember.start({ bootstrap, role, memberId: 'twin' })
      try {
        // Other ports register only where the roster lacks their id, so its lease is all that it writes.
        const renewal = async (): Promise<void> => {
          await java.call({ do: 'begin' })
          await java.call({ do: 'lease', topic, partition: partitionOfRole(role), leaseMs: longLease.leaseMs })
          await java.call({ do: 'commit' })
        }
        await java.call({ do: 'init' })
        await renewal()
        expect((await leads).error).toMatchObject({ code: 'SUPERSEDED', role })
        // Nobody mints any more: a fenced Java producer could not commit again.
        for (let renewals = 0; renewals < 3; renewals += 1) await renewal()
        expect(leadersInOrder(await read(role)).slice(0, 2)).toEqual(['twin', 'twin'])
        await ours.end()
        await renewal()
      } finally {
        await java.discard()
      }
    })

    test('waits one lease length at most behind 50 dead members, and sweeps them', { timeout: 120_000 }, async () => {
      const role = freshName('crowd')
      const count = 50
      const holder = await member('holder', shortLease)
      await holder.acquire(role)
      const setup: CrowdSetup = { brokers: cluster().bootstrap, topic, role, count, ...shortLease }
      const crowd = Child.start('test/core/programs/crowd.js', { arguments: [JSON.stringify(setup)] })
      crowds.push(crowd)
      await crowd.next('waiting', 60_000)
      const survivor = await member('survivor', shortLease)
      const leads = survivor.acquire(role, 60_000)
      await expect.poll(async () => registeredMembers(await read(role)).includes('survivor')).toBe(true)

      await Promise.all([crowd.kill(), holder.kill()])
      const diedAt = monotonicNow()
      const { at } = await leads
      const waitedMs = at - diedAt
      const inTurnMs = count * shortLease.staggerMs
      tell(`${name}: led ${waitedMs.toFixed(0)} ms after ${count} members in front had died; in turn: ${inTurnMs} ms`)
      // What is left of the dead holder's lease, one length, and the flow.
      expect(waitedMs).toBeLessThan(2 * shortLease.leaseMs + atOnceMs)
      expect(registeredMembers(await read(role)), 'swept').toEqual(['survivor'])

      // Nobody stands between it and its successor any more.
      const successor = await member('successor', shortLease)
      const succeeds = successor.acquire(role)
      await untilQueue(survivor, role, ['successor'])
      const resigned = await survivor.ask({ do: 'resign', role })
      expect(resigned.value).toBe('resigned')
      expect((await succeeds).at - resigned.startedAt).toBeLessThan(atOnceMs)
      for (const last of [survivor, successor]) await last.end()
    })
  })
})

/**
 * `lead` in two processes while every broker is away: afterwards one of them works again, in no process do two works of the role run at
 * once, and of the guarded writes of both none of an older term comes after one of a newer.
 */
import { setTimeout as delay } from 'node:timers/promises'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { headerText } from '../../examples/demo/raw-log.js'
import { committedRecords, discardMembersAfterEach, guardedTopic, Member, valuesOf } from '../client/programs/live.js'
import { type KafkaCluster, startCluster } from '../kafka/cluster.js'
import { describeWithBrokers, freshName } from '../kafka/suites.js'
import { isLongForm, tell } from '../support/form.js'
import { kinds } from '../support/kinds.js'

const timing = { leaseMs: 3_000, renewIntervalMs: 1_000, staggerMs: 500, requestTimeoutMs: 2_000 }
const outagesMs = isLongForm ? [5_000, 30_000, 90_000] : [5_000]
/** From the first broker that answers again until somebody works: elections of the brokers, back-offs, a lease, and a busy machine. */
const longestReturnMs = 30_000

describe.each(kinds())('$name', ({ name, kind }) => {
  describeWithBrokers('all brokers away', () => {
    let cluster: KafkaCluster
    discardMembersAfterEach()
    beforeAll(async () => {
      cluster = await startCluster(kind)
    })
    afterAll(async () => {
      await cluster?.stop()
    })

    test.each(outagesMs)('for %d ms: one of two processes works again', { timeout: 240_000 }, async (outageMs) => {
      const { bootstrap, nodes } = cluster
      const role = freshName('outage')
      const topic = freshName('coordination')
      const commands = await guardedTopic(bootstrap)
      const members = await Promise.all(
        ['one', 'two'].map((memberId) => Member.start({ brokers: bootstrap, topic, memberId, ...timing })),
      )
      const leads = members.map((member) => member.call({ do: 'lead', role, writeTo: commands }, 240_000))
      const works = (): number => members.reduce((sum, member) => sum + member.said('leading').length, 0)
      await Promise.race(members.map((member) => member.child.next('wrote')))
      const before = works()
      await Promise.all(nodes.map((node) => node.kill()))
      // Every lease has run out by then, and both processes have met nothing but silence.
      await delay(outageMs)
      await Promise.all(nodes.map((node) => node.start()))
      const backAt = performance.now()
      const lateWrites = members.map((member) => member.said('wrote').length)
      while (members.every((member, index) => member.said('wrote').length === lateWrites[index])) {
        expect(performance.now() - backAt).toBeLessThan(longestReturnMs)
        await delay(20)
      }
      tell(
        `${name}: brokers away for ${outageMs} ms, guarded writes again ${(performance.now() - backAt).toFixed(0)} ms after their return`,
      )
      await Promise.all(members.map((member) => member.call({ do: 'abort', role, reason: 'enough' })))
      await Promise.all(leads)

      expect(works()).toBeGreaterThan(before)
      for (const member of members) {
        expect(member.said('leading').filter(({ worksRunning }) => worksRunning !== 1)).toEqual([])
        await member.end()
      }
      const committed = await committedRecords(bootstrap, commands)
      const terms = committed.map((record) => BigInt(headerText(record, 'mandate-term') ?? -1))
      expect(terms).toEqual([...terms].sort((a, b) => (a < b ? -1 : a > b ? 1 : 0)))
      expect(new Set(terms).size).toBeGreaterThan(1)
      const acknowledged = members.flatMap((member) => member.said('wrote').map(({ value }) => String(value)))
      expect(valuesOf(committed)).toEqual(expect.arrayContaining(acknowledged))
      expect(new Set(valuesOf(committed)).size, 'nothing twice').toBe(committed.length)
    })
  })
})

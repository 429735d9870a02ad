/**
 * Members that come back, on real brokers: alone after their lease ran out, all together after an outage, without their registrations,
 * and with requests of an earlier process of the same id still on their way.
 */

import { setTimeout as delay } from 'node:timers/promises'
import { Kafka, logLevel } from 'kafkajs'
import { afterEach, describe, expect, test } from 'vitest'
import {
  type ClientOptions,
  CoordinationClient,
  encodeKey,
  type Leadership,
  parseMemberId,
  parseRole,
} from '../../src/index.js'
import { discardMembersAfterEach, Member, partitionOfRole } from '../client/programs/live.js'
import { describeWithKafka, freshName } from '../kafka/suites.js'
import { aborted } from '../support/aborted.js'
import { registeredMembers, roleInLog, tokensInOrder } from '../support/coordination-topic.js'
import { tell } from '../support/form.js'
import { type FrameProxy, startFrameProxy } from '../support/frame-proxy.js'
import { kinds } from '../support/kinds.js'

const leaseMs = 3_000
const staggerMs = 500
const timing = { leaseMs, renewIntervalMs: 1_000, staggerMs }
/** Nobody gets a turn because this ran out. */
const longLease = { leaseMs: 60_000, renewIntervalMs: 20_000, staggerMs }
/** What requests may need on a busy machine. */
const slackMs = 5_000

describe.each(kinds())('after an outage: $name', ({ name, kind }) => {
  describeWithKafka('the members of a role', kind, (cluster) => {
    const topic = freshName('coordination')
    const undo: (() => Promise<unknown>)[] = []
    discardMembersAfterEach()
    afterEach(async () => {
      for (const step of undo.splice(0).reverse()) await step()
    })

    function clientOf(
      memberId: string,
      options: Partial<ClientOptions> = timing,
      bootstrap = cluster().bootstrap,
    ): CoordinationClient {
      const kafka = new Kafka({ brokers: [...bootstrap], logLevel: logLevel.NOTHING })
      const client = new CoordinationClient({ kafka, topic, memberId, ...options })
      undo.push(() => client.close({ timeoutMs: 3_000 }))
      return client
    }

    async function proxied(): Promise<FrameProxy> {
      const proxy = await startFrameProxy(cluster().bootstrap)
      undo.push(() => proxy.close())
      return proxy
    }

    async function untilQueue(by: CoordinationClient, role: string, queue: readonly string[]): Promise<void> {
      for (;;) {
        const { roster } = await by.describe(role, { timeoutMs: 30_000 })
        if (roster.map(({ memberId }) => String(memberId)).join() === queue.join()) return
        await delay(10)
      }
    }

    test('are led again by a lone member that crashed and comes back with its id after its lease ran out', async () => {
      const role = freshName('lone')
      const start = (): Promise<Member> =>
        Member.start({ brokers: cluster().bootstrap, topic, memberId: 'lone', ...timing })
      const first = await start()
      const before = await first.acquire(role)
      await first.kill()
      const onlooker = clientOf('onlooker')
      while ((await onlooker.describe(role)).state !== 'expired') await delay(50)
      const second = await start()
      const after = await second.acquire(role, leaseMs + slackMs)
      expect(BigInt(after.term)).toBeGreaterThan(BigInt(before.term))
      await second.end()
    })

    test('are led again by a lone member that was cut off for longer than its lease', async () => {
      const role = freshName('cut-off')
      const proxy = await proxied()
      const client = clientOf('lone', { ...timing, requestTimeoutMs: 1_000 }, proxy.bootstrap)
      const leadership = await client.acquire(role)
      const block = proxy.block()
      await aborted(leadership.signal)
      expect(leadership.signal.reason).toMatchObject({ code: expect.stringMatching(/^(LEASE_EXPIRED|TERM_ENDED)$/) })
      const again = client.acquire(role)
      await delay(staggerMs)
      block.lift()
      expect((await again).term).toBeGreaterThan(leadership.term)
    })

    test('stay in the queue when all of them were cut off for a lease and more than two staggers', async () => {
      const role = freshName('outage')
      const proxy = await proxied()
      const options = { ...timing, requestTimeoutMs: 1_000 }
      const ids = ['a', 'b', 'c', 'd']
      const [a, ...standbys] = ids.map((id) => clientOf(id, options, proxy.bootstrap))
      const onlooker = clientOf('onlooker')
      if (a === undefined) throw new Error('no members')
      const first = await a.acquire(role)
      const waits: Promise<Leadership>[] = []
      for (const [index, standby] of standbys.entries()) {
        waits.push(standby.acquire(role))
        await untilQueue(onlooker, role, ids.slice(1, index + 2))
      }
      const before = await roleInLog(cluster().bootstrap, topic, role)
      const block = proxy.block()
      // An outage, and not an event, is what is waited for.
      await delay(leaseMs + 5 * staggerMs)
      block.lift()
      const next = await Promise.race(waits)
      expect(next.term).toBeGreaterThan(first.term)
      // Every slot is long past, so all of them challenge; the look that each makes keeps them from minting over each other.
      expect(next.token.producerId).toBe(first.token.producerId)
      const mints = next.token.producerEpoch - first.token.producerEpoch
      tell(`${name}: ${standbys.length} standbys back from an outage minted ${mints} times for one term`)
      expect(mints).toBeLessThanOrEqual(2 + standbys.length)
      const after = await roleInLog(cluster().bootstrap, topic, role)
      const swept = after.registrations
        .slice(before.registrations.length)
        .filter(({ isTombstone }) => isTombstone)
        .map(({ member }) => member)
      expect(
        swept.filter((member) => member !== 'a'),
        'no standby lost its place',
      ).toEqual([])
      expect(registeredMembers(after)).toEqual(expect.arrayContaining(['b', 'c', 'd']))
      for (const wait of waits) wait.catch(() => undefined)
    })

    test('go on when somebody has deleted all their registrations', async () => {
      const role = freshName('deleted')
      const ids = ['holder', 'first', 'second']
      const [holder, first, second] = ids.map((id) => clientOf(id, longLease))
      if (holder === undefined || first === undefined || second === undefined) throw new Error('no members')
      const leadership = await holder.acquire(role)
      const firstLeads = first.acquire(role)
      await untilQueue(holder, role, ['first'])
      const secondLeads = second.acquire(role)
      await untilQueue(holder, role, ['first', 'second'])

      const producer = new Kafka({ brokers: [...cluster().bootstrap], logLevel: logLevel.NOTHING }).producer()
      await producer.connect()
      const messages = ids.map((id) => ({
        partition: partitionOfRole(role),
        key: Buffer.from(encodeKey({ kind: 'registration', role: parseRole(role), member: parseMemberId(id) })),
        value: null,
      }))
      await producer.send({ topic, messages })
      await producer.disconnect()
      // Whoever waits registers again, in whichever order.
      for (;;) {
        const { roster } = await holder.describe(role, { timeoutMs: 30_000 })
        const waiting = roster.map(({ memberId }) => String(memberId))
        if (waiting.includes('first') && waiting.includes('second')) break
        await delay(10)
      }
      expect(await leadership.resign()).toBe('resigned')
      const next = await Promise.race([firstLeads, secondLeads])
      expect(await next.resign()).toBe('resigned')
      await Promise.all([firstLeads, secondLeads])
      expect(tokensInOrder(await roleInLog(cluster().bootstrap, topic, role))).toHaveLength(3)
    })

    test.each(['hold', 'holdAnswer'] as const)(
      'with one id: a lease of the earlier that arrives late (%s) stops the earlier and not the later',
      async (fault) => {
        const role = freshName('late-lease')
        const proxy = await proxied()
        const earlier = clientOf('twin', longLease, proxy.bootstrap)
        const later = clientOf('twin', longLease)
        const rule = proxy.rule({ api: 'EndTxn' }, { do: fault })
        const earlierEnds = earlier.acquire(role).then(
          (leadership) => leadership.renew(),
          (error: unknown) => Promise.reject(error),
        )
        earlierEnds.catch(() => undefined)
        await rule.hit()
        const laterLeads = later.acquire(role)
        await expect
          .poll(async () => (await roleInLog(cluster().bootstrap, topic, role)).registrations.length, {
            timeout: 20_000,
          })
          .toBe(2)
        rule.release()
        const leadership = await laterLeads
        await expect(earlierEnds).rejects.toMatchObject({
          code: expect.stringMatching(/^(SUPERSEDED|FENCED|TERM_ENDED)$/),
        })
        await leadership.renew()
        expect((await later.describe(role, { timeoutMs: 30_000 })).token).toEqual(leadership.token)
      },
    )

    test('with one id: a registration of the earlier that arrives late does not stop the later', async () => {
      const role = freshName('late-registration')
      const proxy = await proxied()
      const earlier = clientOf('twin', { ...longLease, requestTimeoutMs: 20_000 }, proxy.bootstrap)
      const later = clientOf('twin', longLease)
      const rule = proxy.rule({ api: 'Produce' }, { do: 'hold' })
      const earlierEnds = earlier.acquire(role)
      earlierEnds.catch(() => undefined)
      await rule.hit()
      const leadership = await later.acquire(role)
      rule.release()
      await expect(earlierEnds).rejects.toMatchObject({ code: 'SUPERSEDED' })
      await leadership.renew()
      const { registrations } = await roleInLog(cluster().bootstrap, topic, role)
      expect(registrations.filter(({ member }) => member === 'twin').length, 'both registered').toBeGreaterThan(1)
      expect(leadership.signal.aborted).toBe(false)
    })
  })
})

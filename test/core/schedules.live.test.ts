/**
 * Schedules that broke earlier designs, staged on a real broker with a network that misbehaves, a stopped process and requests made by
 * hand. Each test says what must come of it now.
 */
import { setTimeout as delay } from 'node:timers/promises'
import { Kafka, logLevel } from 'kafkajs'
import { beforeAll, describe, expect, test } from 'vitest'
import { readCommittedLog } from '../../examples/demo/raw-log.js'
import {
  type ClientOptions,
  CoordinationClient,
  encodeKey,
  encodeLease,
  FencingToken,
  type Leadership,
  parseMemberId,
  parseRole,
} from '../../src/index.js'
import { discardMembersAfterEach, guardedTopic, Member, oneRecord } from '../client/programs/live.js'
import { describeWithKafka, freshName } from '../kafka/suites.js'
import { registeredMembers, roleInLog } from '../support/coordination-topic.js'
import { isLongForm, rounds, tell } from '../support/form.js'
import { type FrameProxy, type ProxiedRequest, startFrameProxy } from '../support/frame-proxy.js'
import { HandMade, type Pair, untilIdle } from '../support/hand-made.js'
import { kinds } from '../support/kinds.js'
import { lookAt } from '../support/look.js'
import { outcomesOf, untilSettled } from './doubt.js'

/** Long: nobody here gets a turn because a lease ran out, unless the test says so. */
const leaseMs = 60_000
const requestTimeoutMs = 500

describe.each(kinds())('$name', ({ kind }) => {
  describeWithKafka('schedules that broke earlier designs', kind, (cluster) => {
    const topic = freshName('coordination')
    discardMembersAfterEach()

    beforeAll(async () => {
      const client = clientOf('maker')
      await client.acquire(freshName('warm'))
      await client.close()
    })

    function clientOf(
      memberId: string,
      options: Partial<ClientOptions> = {},
      bootstrap: readonly string[] = cluster().bootstrap,
    ): CoordinationClient {
      const kafka = new Kafka({ brokers: [...bootstrap], logLevel: logLevel.NOTHING })
      return new CoordinationClient({ kafka, memberId, topic, partitions: 1, leaseMs, requestTimeoutMs, ...options })
    }

    async function untilWaiting(by: CoordinationClient, role: string, members: readonly string[]): Promise<void> {
      for (;;) {
        const { roster } = await by.describe(role)
        if (roster.map(({ memberId }) => String(memberId)).join() === members.join()) return
      }
    }

    async function expectLeads(leadership: Leadership): Promise<void> {
      await leadership.renew()
      const { producerId, producerEpoch } = await lookAt(cluster().bootstrap, leadership.role)
      expect(`${producerId}:${producerEpoch}`).toBe(leadership.token.toString())
    }

    test('3: a process that was stopped between resign() and its seal mints nothing over its successor', async () => {
      const { bootstrap } = cluster()
      const role = freshName('seal')
      const guarded = await guardedTopic(bootstrap)
      const proxy = await startFrameProxy(bootstrap)
      const standby = clientOf('standby')
      try {
        const holder = await Member.start({ brokers: proxy.bootstrap, memberId: 'holder', topic, leaseMs: 2_000 })
        await holder.acquire(role)
        const mints = proxy.count('InitProducerId')
        const commit = proxy.rule({ api: 'EndTxn', times: Number.POSITIVE_INFINITY }, { do: 'holdAnswer' })
        const sending = holder.ask({ do: 'send', role, record: oneRecord(guarded, 'applied') })
        await (await commit.hit()).answered
        const resigning = holder.call({ do: 'resign', role })
        // The resignation waits for the send; both are in the process when it is stopped.
        await holder.call({ do: 'remainingMs', role })
        holder.child.stop()
        const successor = await standby.acquire(role)
        commit.remove()
        commit.release()
        holder.child.continue()
        expect(await resigning).toBe('already-ended')
        const { error } = await sending
        if (error !== undefined) expect(error.code).toBe('COMMIT_UNKNOWN')
        expect(outcomesOf(await readCommittedLog(bootstrap, guarded), 'applied')).toEqual(['committed'])
        expect(proxy.count('InitProducerId')).toBe(mints)
        await expectLeads(successor)
        expect((await standby.describe(role)).token).toEqual(successor.token)
        await holder.end()
      } finally {
        await standby.close()
        await proxy.close()
      }
    })

    test('9: a standby that was stopped while the role changed hands wakes up and mints nothing', async () => {
      const { bootstrap } = cluster()
      const count = rounds(2, 20)
      for (let round = 1; round <= count; round += 1) {
        const role = freshName('woken')
        const proxy = await startFrameProxy(bootstrap)
        const [holder, second] = [clientOf('holder'), clientOf('second', { staggerMs: 300 })]
        try {
          const held = await holder.acquire(role)
          const sleeper = await Member.start({
            brokers: proxy.bootstrap,
            memberId: 'sleeper',
            topic,
            leaseMs,
            staggerMs: 300,
          })
          const waking = sleeper.acquire(role)
          await untilWaiting(holder, role, ['sleeper'])
          const acquired = second.acquire(role)
          await untilWaiting(holder, role, ['sleeper', 'second'])
          sleeper.child.stop()
          // The tombstone goes into its socket, and lies there.
          expect(await held.resign()).toBe('resigned')
          const leadership = await acquired
          sleeper.child.continue()
          expect(await sleeper.call({ do: 'describe', role })).toMatchObject({ holder: 'second' })
          await expectLeads(leadership)
          expect(proxy.count('InitProducerId'), 'it minted nothing').toBe(0)
          // It is awake, and would: in its turn it does.
          expect(await leadership.resign()).toBe('resigned')
          const { term } = await waking
          expect(BigInt(term)).toBeGreaterThan(leadership.term)
          expect(proxy.count('InitProducerId')).toBe(2)
          await sleeper.end()
        } finally {
          await Promise.all([holder.close(), second.close()])
          await proxy.close()
        }
      }
      tell(`9: ${count} standbys woke up behind a change of hands; none deposed`)
    })

    test.concurrent('5: a registration that is read before its Produce is answered is no other process', async () => {
      const { bootstrap } = cluster()
      const role = freshName('registration')
      const proxy = await startFrameProxy(bootstrap)
      const client = clientOf('only', { requestTimeoutMs: 20_000 }, proxy.bootstrap)
      try {
        const rule = proxy.rule({ api: 'Produce' }, { do: 'holdAnswer' })
        const followed = fetched(proxy, role)
        const acquired = client.acquire(role)
        await followed
        rule.release()
        await expectLeads(await acquired)
      } finally {
        await client.close()
        await proxy.close()
      }
    })

    test.concurrent('5: a registration whose answer was lost is written twice by one incarnation', async () => {
      const { bootstrap } = cluster()
      const role = freshName('registration')
      const proxy = await startFrameProxy(bootstrap)
      const client = clientOf('only', {}, proxy.bootstrap)
      try {
        proxy.rule({ api: 'Produce' }, { do: 'dropAnswer' })
        await expectLeads(await client.acquire(role))
        const { registrations } = await roleInLog(bootstrap, topic, role)
        const incarnations = registrations.map(({ raw }) =>
          raw.headers.map(([, value]) => value?.toString('hex')).join(),
        )
        expect(incarnations.length).toBe(2)
        expect(new Set(incarnations).size).toBe(1)
      } finally {
        await client.close()
        await proxy.close()
      }
    })

    test.concurrent.each(['registration', 'tombstone'] as const)(
      '5: a late %s of an earlier process supersedes nobody: the later one registers again, and leads in its turn',
      async (late) => {
        const { bootstrap } = cluster()
        const role = freshName('zombie')
        const proxy = await startFrameProxy(bootstrap)
        const [holder, earlier, later] = [clientOf('holder'), clientOf('same', {}, proxy.bootstrap), clientOf('same')]
        try {
          const held = await holder.acquire(role)
          const rule = proxy.rule({ api: 'Produce', skip: late === 'registration' ? 0 : 1 }, { do: 'hold' })
          earlier.acquire(role).catch(() => undefined)
          await untilWaiting(holder, role, ['same'])
          await earlier.close()
          const request = await rule.hit()
          const acquired = later.acquire(role)
          await untilWaiting(later, role, ['same'])
          const before = (await roleInLog(bootstrap, topic, role)).registrations.length
          request.release()
          await request.answered
          // The late one, and the registration that answers it.
          for (;;) {
            const { registrations } = await roleInLog(bootstrap, topic, role)
            if (registrations.length === before + 2) break
            expect(registrations.length).toBeLessThan(before + 2)
          }
          expect(await held.resign()).toBe('resigned')
          await expectLeads(await acquired)
          expect(registeredMembers(await roleInLog(bootstrap, topic, role))).toEqual(['same'])
        } finally {
          await Promise.all([holder.close(), earlier.close(), later.close()])
          await proxy.close()
        }
      },
    )

    test.concurrent('10: a callback that begins just before a renewal is due and hangs costs its transaction, not the lease', async () => {
      const { bootstrap } = cluster()
      const role = freshName('hang')
      const guarded = await guardedTopic(bootstrap)
      const client = clientOf('leader', { leaseMs: 3_000, renewIntervalMs: 1_000 })
      const hang = new AbortController()
      try {
        const leadership = await client.acquire(role)
        await leadership.renew()
        await delay(900)
        const startedAt = performance.now()
        const hanging = leadership.transact(async (transaction) => {
          await transaction.send(oneRecord(guarded, 'hangs'))
          await delay(20_000, undefined, { signal: hang.signal }).catch(() => undefined)
        })
        await expect(hanging).rejects.toMatchObject({ code: 'TRANSACTION_ABORTED' })
        tell(
          `10: aborted after ${(performance.now() - startedAt).toFixed(0)} ms with ${leadership.remainingMs().toFixed(0)} ms left`,
        )
        await leadership.renew()
        await leadership.send(oneRecord(guarded, 'after'))
        expect(leadership.signal.aborted).toBe(false)
        const log = await readCommittedLog(bootstrap, guarded)
        expect(log.map(({ value, outcome }) => [String(value), outcome])).toEqual([
          ['hangs', 'aborted'],
          ['after', 'committed'],
        ])
      } finally {
        hang.abort()
        await client.close()
      }
    })

    test.concurrent.each([
      { above: 0, counts: true },
      { above: 2, counts: false },
    ])(
      '14: a lease left open is committed by a marker $above epochs above it: counts = $counts',
      async ({ above, counts }) => {
        const { bootstrap } = cluster()
        const role = freshName('hanging')
        const producer = await HandMade.open(bootstrap, role)
        const client = clientOf('observer')
        try {
          const { errorCode, ...pair } = await untilIdle(() => producer.mint())
          expect(errorCode).toBe(0)
          expect(await untilIdle(() => producer.addPartition(pair, topic))).toBe(0)
          expect((await producer.produce(pair, topic, [leaseOf(role, pair)])).errorCode).toBe(0)
          const marker = { ...pair, producerEpoch: pair.producerEpoch + above }
          expect(await producer.writeMarker(marker, topic, true)).toBe(0)
          const { state, holder } = await client.describe(role)
          if (counts) expect({ state, holder }).toEqual({ state: 'unproven', holder: 'hand' })
          else expect({ state, holder }).toEqual({ state: 'vacant', holder: undefined })
        } finally {
          producer.close()
          await client.close()
        }
      },
    )

    const slowRoles = isLongForm || kind.transactionVersion === 2 ? ['a role'] : []
    test.concurrent.each(slowRoles)(
      '18: where each request takes 300 ms %s is led all the same, and handed over',
      async () => {
        const { bootstrap } = cluster()
        const role = freshName('slow')
        const guarded = await guardedTopic(bootstrap)
        const proxy = await startFrameProxy(bootstrap)
        const slowness = proxy.rule(
          { times: Number.POSITIVE_INFINITY, when: ({ api }) => api !== 'Fetch' },
          { do: 'delay', ms: 300 },
        )
        const slow = { leaseMs: 15_000, requestTimeoutMs: 5_000 }
        const [first, second] = [clientOf('first', slow, proxy.bootstrap), clientOf('second', slow, proxy.bootstrap)]
        try {
          const startedAt = performance.now()
          const leadership = await first.acquire(role)
          const ledAt = performance.now()
          await leadership.send(oneRecord(guarded, 'slow'))
          const acquired = second.acquire(role)
          await untilWaiting(first, role, ['second'])
          const resignsAt = performance.now()
          expect(await leadership.resign()).toBe('resigned')
          const next = await acquired
          tell(
            `18: led after ${(ledAt - startedAt).toFixed(0)} ms, handed over in ${(performance.now() - resignsAt).toFixed(0)} ms`,
          )
          slowness.remove()
          expect(next.term).toBeGreaterThan(leadership.term)
          expect(outcomesOf(await readCommittedLog(bootstrap, guarded), 'slow')).toEqual(['committed'])
        } finally {
          await Promise.all([first.close(), second.close()])
          await proxy.close()
        }
      },
    )

    test.concurrent('18: a look that is answered late lets nobody mint by the end of the log from before', async () => {
      const { bootstrap } = cluster()
      const role = freshName('stale-end')
      const proxy = await startFrameProxy(bootstrap)
      const [late, prompt] = [clientOf('late', { requestTimeoutMs: 20_000 }, proxy.bootstrap), clientOf('prompt')]
      try {
        const rule = proxy.rule({ api: 'DescribeTransactions' }, { do: 'holdAnswer' })
        // The log tells it nothing meanwhile.
        const acquired = late.acquire(role)
        const look = await rule.hit()
        await look.answered
        const blind = proxy.rule({ api: 'Fetch', times: Number.POSITIVE_INFINITY }, { do: 'holdAnswer' })
        const leadership = await prompt.acquire(role, { staggerMs: 100 })
        // Until look and end are both too old (I10); sooner, what it may cost is one needless take-over.
        await delay(1_000)
        look.release()
        blind.remove()
        blind.release()
        await untilWaiting(late, role, ['late'])
        await expectLeads(leadership)
        expect(proxy.count('InitProducerId')).toBe(0)
        expect(await leadership.resign()).toBe('resigned')
        await expectLeads(await acquired)
        expect(proxy.count('InitProducerId')).toBe(2)
      } finally {
        await Promise.all([late.close(), prompt.close()])
        await proxy.close()
      }
    })

    test.concurrent('19: a mint waits for no other request of its process', async () => {
      const { bootstrap } = cluster()
      const [led, wanted] = [freshName('led'), freshName('wanted')]
      const guarded = await guardedTopic(bootstrap)
      const proxy = await startFrameProxy(bootstrap)
      const [holder, client] = [clientOf('holder'), clientOf('busy', { requestTimeoutMs: 20_000 }, proxy.bootstrap)]
      try {
        // Looks are slow, so that one of 400 ms is not too old, and there is time to block the other socket.
        proxy.rule({ api: 'DescribeTransactions', times: Number.POSITIVE_INFINITY }, { do: 'delay', ms: 400 })
        const held = await holder.acquire(wanted)
        const leadership = await client.acquire(led)
        const acquired = client.acquire(wanted)
        await untilWaiting(holder, wanted, ['busy'])
        await untilSettled(bootstrap, led)
        const [looked, minted] = [proxy.seen('DescribeTransactions'), proxy.seen('InitProducerId')]
        const block = proxy.rule({ api: 'Produce' }, { do: 'hold' })
        expect(await held.resign()).toBe('resigned')
        await looked
        const sending = leadership.send(oneRecord(guarded, 'held up'))
        await block.hit()
        await (await minted).answered
        expect(outcomesOf(await readCommittedLog(bootstrap, guarded), 'held up'), 'it was minted meanwhile').toEqual([])
        block.release()
        await sending
        await expectLeads(await acquired)
      } finally {
        await Promise.all([holder.close(), client.close()])
        await proxy.close()
      }
    })
  })
})

/** Resolves when a Fetch has brought the proxy's client a record that names the role. */
function fetched(proxy: FrameProxy, role: string): Promise<void> {
  return new Promise((resolve) => {
    const watch = (request: ProxiedRequest): boolean => {
      if (request.api === 'Fetch') {
        request.answered.then(
          (body) => body.includes(role) && resolve(),
          () => undefined,
        )
      }
      return false
    }
    proxy.rule({ when: watch, times: Number.POSITIVE_INFINITY }, { do: 'drop' })
  })
}

/** A lease as a member without our headers writes it: an hour long, under the pair. */
function leaseOf(
  role: string,
  { producerId, producerEpoch }: Pair,
): { readonly key: Uint8Array; readonly value: Uint8Array } {
  const now = BigInt(Date.now())
  return {
    key: encodeKey({ kind: 'lease', role: parseRole(role) }),
    value: encodeLease({
      member: parseMemberId('hand'),
      token: FencingToken.of(producerId, producerEpoch),
      grantedAt: now,
      deadline: now + 600_000n,
    }),
  }
}

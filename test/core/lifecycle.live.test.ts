/**
 * Ends of every kind at every step, on real brokers: `acquire` aborted or its client closed, `resign` and `close` of a leader whose requests
 * are held up or lost, `tryAcquire` that does not come through. What is left in the log makes nobody wait, the process ends by
 * itself, and the user's log shows no error for an answer that was to be expected.
 */
import { setTimeout as delay } from 'node:timers/promises'
import { Kafka, type LogEntry, logLevel } from 'kafkajs'
import { beforeAll, describe, expect, test } from 'vitest'
import { type ClientOptions, CoordinationClient } from '../../src/index.js'
import { discardMembersAfterEach, guardedTopic, Member, monotonicNow, oneRecord } from '../client/programs/live.js'
import { describeWithKafka, freshName } from '../kafka/suites.js'
import { registeredMembers, roleInLog } from '../support/coordination-topic.js'
import { isLongForm, rounds, tell } from '../support/form.js'
import { type Fault, type RequestMatch, startFrameProxy } from '../support/frame-proxy.js'
import { kinds } from '../support/kinds.js'
import { lookAt, mintByHand } from '../support/look.js'

const leaseMs = 8_000
const timing = { leaseMs, renewIntervalMs: 4_000, staggerMs: 500, requestTimeoutMs: 1_500 }
/** What a successor may need for its own requests on a busy machine. */
const slackMs = 3_000
/** Ten times the aim for an end that waits for nobody. */
const promptMs = 10 * 200

interface Step {
  readonly name: string
  readonly match: RequestMatch
  /** The topic is not there yet. */
  readonly newTopic?: true
  /** It may have minted by then. */
  readonly mints?: true
}

const stepsOfAcquire: readonly Step[] = [
  { name: 'Metadata', match: { api: 'Metadata' } },
  { name: 'CreateTopics', match: { api: 'CreateTopics' }, newTopic: true },
  { name: 'DescribeConfigs', match: { api: 'DescribeConfigs' } },
  { name: 'ListOffsets', match: { api: 'ListOffsets' } },
  { name: 'Fetch', match: { api: 'Fetch' } },
  { name: 'Produce of the registration', match: { api: 'Produce' } },
  { name: 'FindCoordinator', match: { api: 'FindCoordinator' } },
  { name: 'DescribeTransactions', match: { api: 'DescribeTransactions' } },
  { name: 'InitProducerId', match: { api: 'InitProducerId' }, mints: true },
  { name: 'InitProducerId, the second', match: { api: 'InitProducerId', skip: 1 }, mints: true },
  { name: 'AddPartitionsToTxn', match: { api: 'AddPartitionsToTxn' }, mints: true },
  { name: 'Produce of the lease', match: { api: 'Produce', skip: 1 }, mints: true },
  { name: 'EndTxn', match: { api: 'EndTxn' }, mints: true },
]

/** A resignation seals, and then writes its tombstones in a transaction. */
const stepsOfResign = ['InitProducerId', 'AddPartitionsToTxn', 'Produce', 'EndTxn'] as const
const stepsOfRenewal = ['AddPartitionsToTxn', 'Produce', 'EndTxn'] as const

const faultsOfResign: readonly Fault[] = [
  { do: 'delay', ms: 300 },
  { do: 'drop' },
  { do: 'dropAnswer' },
  ...(isLongForm ? ([{ do: 'cut' }, { do: 'cutAnswer' }, { do: 'delayAnswer', ms: 300 }] as const) : []),
]

describe.each(kinds())('lifecycle: $name', ({ name, kind }) => {
  describeWithKafka('an end', kind, (cluster) => {
    const topic = freshName('coordination')
    discardMembersAfterEach()

    function clientOf(
      bootstrap: readonly string[],
      memberId: string,
      options: Partial<ClientOptions> = {},
    ): CoordinationClient {
      const kafka = new Kafka({ brokers: [...bootstrap], logLevel: logLevel.NOTHING })
      return new CoordinationClient({ kafka, memberId, topic, partitions: 1, ...timing, ...options })
    }

    async function untilWaiting(client: CoordinationClient, role: string): Promise<void> {
      while ((await client.describe(role)).roster.length === 0) await delay(10)
    }

    beforeAll(async () => {
      const client = clientOf(cluster().bootstrap, 'maker', { requestTimeoutMs: 20_000 })
      await client.describe('any')
      await client.close()
    })

    const faults = isLongForm ? (['hold', 'holdAnswer'] as const) : (['holdAnswer'] as const)

    describe.each(faults)('of acquire, a request under way (%s)', (fault) => {
      describe.each(['abort', 'close'] as const)('by %s', (by) => {
        test.concurrent.each(stepsOfAcquire)('at $name leaves nothing behind', async ({ match, newTopic, mints }) => {
          const { bootstrap } = cluster()
          const role = freshName('ended')
          const on = newTopic === undefined ? topic : freshName('coordination')
          const proxy = await startFrameProxy(bootstrap)
          const client = clientOf(proxy.bootstrap, 'ended', { topic: on, requestTimeoutMs: 5_000 })
          const successor = clientOf(bootstrap, 'successor', { topic: on, requestTimeoutMs: 5_000 })
          try {
            const rule = proxy.rule(match, { do: fault })
            const abort = new AbortController()
            const acquired = client.acquire(role, { signal: abort.signal })
            acquired.catch(() => undefined)
            const held = await rule.hit()
            if (fault === 'holdAnswer' && match.api !== 'Fetch') await held.answered

            const endedAt = performance.now()
            let closed = Promise.resolve()
            if (by === 'abort') abort.abort(new Error('enough'))
            else closed = client.close()
            if (by === 'abort') await expect(acquired).rejects.toBe(abort.signal.reason)
            else await expect(acquired).rejects.toMatchObject({ code: 'CLOSED' })
            expect(performance.now() - endedAt).toBeLessThan(promptMs)
            rule.release()
            await closed
            await client.close()

            const startedAt = performance.now()
            const leadership = await successor.acquire(role)
            expect(performance.now() - startedAt).toBeLessThan(leaseMs + slackMs)
            if (mints === undefined) {
              expect(leadership.token.producerEpoch, 'nobody but the successor minted').toBe(1)
            }
            await leadership.renew()
            expect(registeredMembers(await roleInLog(bootstrap, on, role))).toEqual(['successor'])
          } finally {
            await Promise.all([client.close({ timeoutMs: 1 }), successor.close()])
            await proxy.close()
          }
        })
      })
    })

    const resignations = stepsOfResign.flatMap((api) => faultsOfResign.map((fault) => ({ api, fault, how: fault.do })))

    describe.each(['resign', 'close'] as const)('of a leader by %s', (by) => {
      test.concurrent.each(resignations)('with $how of $api: the next member leads', async ({ api, fault }) => {
        const { bootstrap } = cluster()
        const role = freshName('resigned')
        const proxy = await startFrameProxy(bootstrap)
        const [client, successor] = [clientOf(proxy.bootstrap, 'leader'), clientOf(bootstrap, 'successor')]
        try {
          const leadership = await client.acquire(role)
          const succeeds = successor.acquire(role)
          await untilWaiting(successor, role)
          const rule = proxy.rule({ api }, fault)
          const startedAt = performance.now()
          const outcome = by === 'resign' ? await leadership.resign() : await client.close().then(() => undefined)
          expect(performance.now() - startedAt, 'it ends by its own deadline').toBeLessThan(leaseMs + slackMs)
          expect(rule.treated).toHaveLength(1)
          expect(leadership.signal.aborted).toBe(true)
          await expect(leadership.renew()).rejects.toMatchObject({ code: leadership.signal.reason.code })
          if (outcome === 'resigned') {
            const { producerId, producerEpoch } = await lookAt(bootstrap, role)
            expect(`${producerId}:${producerEpoch}`, 'its token is dead').not.toBe(String(leadership.token))
          }
          const next = await succeeds
          expect(performance.now() - startedAt).toBeLessThan(2 * leaseMs + slackMs)
          expect(next.term).toBeGreaterThan(leadership.term)
          expect(registeredMembers(await roleInLog(bootstrap, topic, role))).toEqual(['successor'])
        } finally {
          await Promise.all([client.close({ timeoutMs: 1 }), successor.close()])
          await proxy.close()
        }
      })
    })

    test.concurrent.each(stepsOfRenewal.flatMap((api) => (['renew', 'send'] as const).map((job) => ({ api, job }))))(
      'by resign while $api of a $job is held: it is finished first',
      async ({ api, job }) => {
        const { bootstrap } = cluster()
        const role = freshName('drained')
        const proxy = await startFrameProxy(bootstrap)
        const options = { leaseMs: 30_000, renewIntervalMs: 10_000, requestTimeoutMs: 10_000 }
        const client = clientOf(proxy.bootstrap, 'leader', options)
        const successor = clientOf(bootstrap, 'successor', options)
        try {
          const commands = await guardedTopic(bootstrap)
          const leadership = await client.acquire(role)
          const succeeds = successor.acquire(role)
          await untilWaiting(successor, role)
          const rule = proxy.rule({ api }, { do: 'hold' })
          const done = job === 'renew' ? leadership.renew() : leadership.send(oneRecord(commands, 'last'))
          await rule.hit()
          const resigned = leadership.resign()
          await expect(leadership.send(oneRecord(commands, 'late'))).rejects.toMatchObject({ code: 'RESIGNED' })
          expect(leadership.signal.aborted, 'the term goes on while its lane drains').toBe(false)
          const releasedAt = performance.now()
          rule.release()
          await done
          expect(await resigned).toBe('resigned')
          await succeeds
          expect(performance.now() - releasedAt).toBeLessThan(promptMs)
          expect(registeredMembers(await roleInLog(bootstrap, topic, role))).toEqual(['successor'])
        } finally {
          await Promise.all([client.close({ timeoutMs: 1 }), successor.close()])
          await proxy.close()
        }
      },
    )

    const unanswered = ['FindCoordinator', 'DescribeTransactions', 'InitProducerId', 'AddPartitionsToTxn'] as const
    test.concurrent.each(
      unanswered.flatMap((api) => (['drop', 'dropAnswer'] as const).map((fault) => ({ api, fault }))),
    )('of tryAcquire that gets no $api through ($fault): it leaves no registration', async ({ api, fault }) => {
      const { bootstrap } = cluster()
      const role = freshName('tried')
      const proxy = await startFrameProxy(bootstrap)
      const client = clientOf(proxy.bootstrap, 'trying', { leaseMs: 3_000, renewIntervalMs: 1_000 })
      try {
        proxy.rule({ api, when: (request) => request.mentions(role), times: Number.POSITIVE_INFINITY }, { do: fault })
        await expect(client.tryAcquire(role)).rejects.toMatchObject({ code: 'TRANSPORT' })
        const log = await roleInLog(bootstrap, topic, role)
        expect(log.registrations.map(({ isTombstone }) => isTombstone)).toEqual([false, true])
        expect(log.leases).toEqual([])
      } finally {
        await client.close({ timeoutMs: 1 })
        await proxy.close()
      }
    })

    test('of a process: by itself, wherever its acquire stands when it closes', { timeout: 120_000 }, async () => {
      const { bootstrap } = cluster()
      const some = stepsOfAcquire.filter((step) => step.newTopic === undefined)
      const every = Math.ceil(some.length / rounds(4, some.length))
      const atStep = some.filter((_, index) => index % every === 0)
      const lasted = await Promise.all(
        atStep.map(async ({ match, name: step }) => {
          const proxy = await startFrameProxy(bootstrap)
          try {
            const rule = proxy.rule({ ...match, times: Number.POSITIVE_INFINITY }, { do: 'hold' })
            const member = await Member.start({
              brokers: proxy.bootstrap,
              topic,
              memberId: 'ends',
              ...timing,
              leaseMs: 4_500,
            })
            const acquired = member.failureOf({ do: 'acquire', role: freshName('process') })
            await rule.hit()
            const startedAt = monotonicNow()
            await member.call({ do: 'close' })
            expect(await acquired).toMatchObject({ code: 'CLOSED' })
            await member.end()
            return `${step} ${(monotonicNow() - startedAt).toFixed(0)} ms`
          } finally {
            await proxy.close()
          }
        }),
      )
      tell(`${name}: a process ends behind close() at ${lasted.join(', ')}`)
      expect(lasted).toHaveLength(atStep.length)
    })

    test('by any of these, expected: not an error in the log of the kafkajs client', async () => {
      const { bootstrap } = cluster()
      const errors: LogEntry[] = []
      const kafka = new Kafka({
        brokers: [...bootstrap],
        logLevel: logLevel.ERROR,
        logCreator: () => (entry) => {
          errors.push(entry)
        },
        retry: { retries: 0 },
      })
      const on = freshName('coordination')
      const role = freshName('quiet')
      const [one, other] = ['one', 'other'].map(
        (memberId) => new CoordinationClient({ kafka, memberId, topic: on, partitions: 1, ...timing }),
      )
      if (one === undefined || other === undefined) throw new Error('no clients')
      try {
        // Both make the topic; both find a coordinator that knows nothing of the role.
        const [vacant, free] = await Promise.all([one.describe(role), other.describe(role)])
        expect([vacant.state, free.state]).toEqual(['vacant', 'vacant'])
        for (let round = 0; round < rounds(6, 30); round += 1) {
          const [leading, waiting] = round % 2 === 0 ? [one, other] : [other, one]
          const leadership = await leading.acquire(role)
          const abort = new AbortController()
          const waits = waiting.acquire(role, { signal: abort.signal })
          waits.catch(() => undefined)
          await untilWaiting(leading, role)
          // Renewals without a pause meet the markers of the one before.
          for (let renewal = 0; renewal < 5; renewal += 1) await leadership.renew()
          if (round === 5) {
            abort.abort()
            await mintByHand(bootstrap, role)
            await expect(leadership.renew()).rejects.toMatchObject({ code: 'FENCED' })
          } else {
            expect(await leadership.resign()).toBe('resigned')
            await (await waits).resign()
          }
        }
        await expect(one.acquire(role, { signal: AbortSignal.timeout(1) })).rejects.toMatchObject({
          name: 'TimeoutError',
        })
      } finally {
        await Promise.all([one.close(), other.close()])
      }
      expect(errors).toEqual([])

      // The control: kafkajs itself tells an error of the same client's broker to the same log.
      const admin = kafka.admin()
      await admin.connect()
      await expect(admin.fetchTopicOffsets(freshName('nowhere'))).rejects.toThrow()
      await admin.disconnect()
      expect(errors.length).toBeGreaterThan(0)
    })
  })
})

/**
 * An acquire that is aborted while one of its requests, or the answer to it, is held up in the network: it rejects promptly, and once
 * the network lets go nothing of it is left that stands in another member's way.
 */
import { setTimeout as delay } from 'node:timers/promises'
import { Kafka, logLevel } from 'kafkajs'
import { beforeAll, describe, expect, test } from 'vitest'
import { CoordinationClient } from '../../src/index.js'
import { describeWithKafka, freshName } from '../kafka/suites.js'
import { registeredMembers, roleInLog } from '../support/coordination-topic.js'
import { type RequestMatch, startFrameProxy } from '../support/frame-proxy.js'
import { lookAt } from '../support/look.js'

const leaseMs = 3_000
/** How long a successor may need for its own requests on a busy machine. */
const slackMs = 2_000
const promptMs = 2_000

interface Step {
  readonly name: string
  readonly match: RequestMatch
  /** The topic is not there yet. */
  readonly newTopic?: true
  /** It may have minted by then. */
  readonly mints?: true
}

const steps: readonly Step[] = [
  { name: 'Metadata of the topic', match: { api: 'Metadata' } },
  { name: 'CreateTopics', match: { api: 'CreateTopics' }, newTopic: true },
  { name: 'DescribeConfigs', match: { api: 'DescribeConfigs' } },
  { name: 'ListOffsets, the first', match: { api: 'ListOffsets' } },
  { name: 'Fetch', match: { api: 'Fetch' } },
  { name: 'Produce of the registration', match: { api: 'Produce' } },
  { name: 'FindCoordinator', match: { api: 'FindCoordinator' } },
  { name: 'DescribeTransactions', match: { api: 'DescribeTransactions' } },
  { name: 'InitProducerId, the first', match: { api: 'InitProducerId' }, mints: true },
  { name: 'InitProducerId, the second', match: { api: 'InitProducerId', skip: 1 }, mints: true },
  { name: 'AddPartitionsToTxn', match: { api: 'AddPartitionsToTxn' }, mints: true },
  { name: 'Produce of the lease', match: { api: 'Produce', skip: 1 }, mints: true },
  { name: 'EndTxn', match: { api: 'EndTxn' }, mints: true },
]

describeWithKafka('acquire aborted', { nodes: 1, transactionVersion: 2 }, (cluster) => {
  const topic = freshName('coordination')

  function clientOf(bootstrap: readonly string[], memberId: string, on: string = topic): CoordinationClient {
    const kafka = new Kafka({ brokers: [...bootstrap], logLevel: logLevel.NOTHING })
    return new CoordinationClient({ kafka, memberId, topic: on, partitions: 1, leaseMs })
  }

  beforeAll(async () => {
    const client = clientOf(cluster().bootstrap, 'maker')
    await client.describe('any')
    await client.close()
  })

  describe.each([
    { fault: 'hold', state: 'is on its way' },
    { fault: 'holdAnswer', state: 'was applied and is not answered' },
  ] as const)('while a request $state', ({ fault }) => {
    test.concurrent.each(steps)('$name', async ({ match, newTopic, mints }) => {
      const { bootstrap } = cluster()
      const role = freshName('aborted')
      const on = newTopic === undefined ? topic : freshName('coordination')
      const proxy = await startFrameProxy(bootstrap)
      const client = clientOf(proxy.bootstrap, 'aborted', on)
      const successor = clientOf(bootstrap, 'successor', on)
      try {
        const rule = proxy.rule(match, { do: fault })
        const abort = new AbortController()
        const reason = new Error('the caller changed its mind')
        const acquired = client.acquire(role, { signal: abort.signal })
        acquired.catch(() => undefined)
        const held = await rule.hit()
        if (fault === 'holdAnswer' && match.api !== 'Fetch') await held.answered

        const abortedAt = performance.now()
        abort.abort(reason)
        await expect(acquired).rejects.toBe(reason)
        expect(performance.now() - abortedAt).toBeLessThan(promptMs)

        rule.release()
        const startedAt = performance.now()
        const leadership = await successor.acquire(role)
        expect(performance.now() - startedAt).toBeLessThan(leaseMs + slackMs)

        if (mints === undefined) {
          expect(leadership.token.producerEpoch, 'nobody but the successor minted').toBe(1)
        }

        await client.close()
        await leadership.renew()
        expect((await successor.describe(role)).holder).toBe('successor')
        expect(registeredMembers(await roleInLog(bootstrap, on, role))).toEqual(['successor'])
      } finally {
        await Promise.all([client.close({ timeoutMs: 1 }), successor.close()])
        await proxy.close()
      }
    })
  })

  test('and wanted again at once: the second waits until the first is wound up, and leads', async () => {
    const { bootstrap } = cluster()
    const role = freshName('again')
    const proxy = await startFrameProxy(bootstrap)
    const client = clientOf(proxy.bootstrap, 'fickle')
    try {
      const rule = proxy.rule({ api: 'DescribeTransactions' }, { do: 'hold' })
      const abort = new AbortController()
      const first = client.acquire(role, { signal: abort.signal })
      first.catch(() => undefined)
      await rule.hit()
      const reason = new Error('changed its mind')
      abort.abort(reason)
      await expect(first).rejects.toBe(reason)

      const impatient = client.acquire(role, { signal: AbortSignal.timeout(100) })
      await expect(impatient).rejects.toMatchObject({ name: 'TimeoutError' })
      const again = client.acquire(role)
      rule.release()
      const leadership = await again
      await leadership.renew()
      expect(registeredMembers(await roleInLog(bootstrap, topic, role))).toEqual(['fickle'])
    } finally {
      await client.close()
      await proxy.close()
    }
  })

  test('and wanted again after it had minted: its own mint is no stranger to wait for', async () => {
    const { bootstrap } = cluster()
    const role = freshName('own-mint')
    const proxy = await startFrameProxy(bootstrap)
    const outcomes: unknown[] = []
    const ignore = (): void => {}
    const debug = (fields: object): void => {
      if ('outcome' in fields) outcomes.push(fields.outcome)
    }
    const kafka = new Kafka({ brokers: [...proxy.bootstrap], logLevel: logLevel.NOTHING })
    const logger = { debug, info: ignore, warn: ignore, error: ignore }
    const client = new CoordinationClient({ kafka, memberId: 'fickle', topic, partitions: 1, leaseMs, logger })
    try {
      const rule = proxy.rule({ api: 'AddPartitionsToTxn' }, { do: 'hold' })
      const abort = new AbortController()
      const first = client.acquire(role, { signal: abort.signal })
      first.catch(() => undefined)
      await rule.hit()
      abort.abort()
      await expect(first).rejects.toBe(abort.signal.reason)
      rule.remove()
      rule.release()
      const leadership = await client.acquire(role)
      expect(leadership.token.producerEpoch, 'two mints of each acquire').toBe(3)
      expect(outcomes).not.toContain('waiting')
    } finally {
      await client.close()
      await proxy.close()
    }
  })

  test('by closing the client: rejects with CLOSED, and nothing is left', async () => {
    const { bootstrap } = cluster()
    const role = freshName('closed')
    const [holder, waiting] = [clientOf(bootstrap, 'holder'), clientOf(bootstrap, 'waiting')]
    try {
      await holder.acquire(role)
      const acquired = waiting.acquire(role)
      acquired.catch(() => undefined)
      await untilWaiting(holder, role, ['waiting'])
      await waiting.close()
      await expect(acquired).rejects.toMatchObject({ code: 'CLOSED' })
      await expect(waiting.acquire(role)).rejects.toMatchObject({ code: 'CLOSED' })
      expect(registeredMembers(await roleInLog(bootstrap, topic, role))).toEqual(['holder'])
    } finally {
      await Promise.all([holder.close(), waiting.close()])
    }
  })
})

describeWithKafka('tryAcquire', { nodes: 1, transactionVersion: 2 }, (cluster) => {
  const topic = freshName('coordination')

  function clientOf(bootstrap: readonly string[], memberId: string): CoordinationClient {
    const kafka = new Kafka({ brokers: [...bootstrap], logLevel: logLevel.NOTHING })
    // Long: nobody here gets a turn because something ran out.
    return new CoordinationClient({ kafka, memberId, topic, partitions: 1, leaseMs: 60_000 })
  }

  test('leads a free role', async () => {
    const role = freshName('try')
    const client = clientOf(cluster().bootstrap, 'only')
    try {
      const leadership = await client.tryAcquire(role)
      await leadership?.renew()
      expect((await client.describe(role)).token).toEqual(leadership?.token)
    } finally {
      await client.close()
    }
  })

  test('of a held role answers undefined and does not even register', async () => {
    const { bootstrap } = cluster()
    const role = freshName('try')
    const [holder, other] = [clientOf(bootstrap, 'holder'), clientOf(bootstrap, 'other')]
    try {
      const leadership = await holder.acquire(role)
      const before = await lookAt(bootstrap, role)
      expect(await other.tryAcquire(role)).toBeUndefined()
      expect(await other.tryAcquire(role)).toBeUndefined()
      const { registrations } = await roleInLog(bootstrap, topic, role)
      expect(registrations.map(({ member }) => member)).toEqual(['holder'])
      expect(await lookAt(bootstrap, role)).toEqual(before)
      await leadership.renew()
    } finally {
      await Promise.all([holder.close(), other.close()])
    }
  })

  test('behind a member that waits answers undefined and takes its registration back', async () => {
    const { bootstrap } = cluster()
    const role = freshName('try')
    const proxy = await startFrameProxy(bootstrap)
    const [holder, deaf, other] = [
      clientOf(bootstrap, 'holder'),
      clientOf(proxy.bootstrap, 'deaf'),
      clientOf(bootstrap, 'other'),
    ]
    try {
      const leadership = await holder.acquire(role)
      const abort = new AbortController()
      const waits = deaf.acquire(role, { signal: abort.signal })
      waits.catch(() => undefined)
      await untilWaiting(holder, role, ['deaf'])
      // The member of rank 0 does not hear of the resignation, so its turn passes slowly.
      const block = proxy.block()
      expect(await leadership.resign()).toBe('resigned')
      expect(await other.tryAcquire(role)).toBeUndefined()
      const { registrations } = await roleInLog(bootstrap, topic, role)
      expect(registrations.filter(({ member }) => member === 'other').map(({ isTombstone }) => isTombstone)).toEqual([
        false,
        true,
      ])
      block.lift()
      await (await waits).renew()
    } finally {
      await Promise.all([holder.close(), deaf.close(), other.close()])
      await proxy.close()
    }
  })
})

/** Resolves when exactly these members wait for the role. */
async function untilWaiting(client: CoordinationClient, role: string, members: readonly string[]): Promise<void> {
  for (;;) {
    const { roster } = await client.describe(role)
    if (roster.map(({ memberId }) => String(memberId)).join() === members.join()) return
    await delay(10)
  }
}

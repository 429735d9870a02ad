/**
 * `health` beside a real broker: that it tells what happens to the roles of a client, and turns false when something has gone wrong.
 */
import { Kafka, logLevel } from 'kafkajs'
import { afterEach, describe, expect, test } from 'vitest'
import type { ClientOptions, RoleHealth } from '../../src/index.js'
import { CoordinationClient } from '../../src/index.js'
import { describeWithKafka, freshName } from '../kafka/suites.js'
import { aborted } from '../support/aborted.js'
import { startFrameProxy } from '../support/frame-proxy.js'
import { kinds } from '../support/kinds.js'

const timing = { leaseMs: 2_000, renewIntervalMs: 300, staggerMs: 300, requestTimeoutMs: 500 }
const undo: (() => Promise<unknown>)[] = []
afterEach(async () => {
  for (const step of undo.splice(0).reverse()) await step()
})

function openClient(bootstrap: readonly string[], options: Omit<ClientOptions, 'kafka'>): CoordinationClient {
  const kafka = new Kafka({ brokers: [...bootstrap], logLevel: logLevel.NOTHING })
  const client = new CoordinationClient({ kafka, ...timing, ...options })
  undo.push(() => client.close({ timeoutMs: 3_000 }))
  return client
}

/** Asks as a probe does, until it fits. */
async function until(client: CoordinationClient, fits: (role: RoleHealth | undefined) => boolean): Promise<RoleHealth> {
  for (;;) {
    const [health] = client.health().roles
    if (health !== undefined && fits(health)) return health
    await new Promise((resolve) => setTimeout(resolve, 20))
  }
}

describe.each(kinds())('$name', ({ kind }) => {
  describeWithKafka('health', kind, (cluster) => {
    const topic = freshName('coordination')

    test('follows a role from standing by to leading to nothing, and is false once the client is closed', async () => {
      const role = freshName('healthy')
      const client = openClient(cluster().bootstrap, { topic, memberId: 'member' })
      expect(client.health()).toEqual({ isHealthy: true, roles: [] })
      const holder = openClient(cluster().bootstrap, { topic, memberId: 'holder' })
      const held = await holder.acquire(role)
      const acquired = client.acquire(role)
      await until(client, (health) => health?.heardMsAgo !== undefined)
      expect(client.health()).toMatchObject({
        isHealthy: true,
        roles: [{ role, activity: 'standing-by', isHealthy: true }],
      })
      await held.resign()
      expect(holder.health()).toEqual({ isHealthy: true, roles: [] })
      const leadership = await acquired
      await leadership.renew()
      const [leading] = client.health().roles
      expect(leading).toMatchObject({ activity: 'leading', isHealthy: true, term: leadership.term })
      expect(leading?.confirmedMsAgo).toBeLessThan(timing.leaseMs / 2)
      await leadership.resign()
      expect(client.health()).toEqual({ isHealthy: true, roles: [] })
      await client.close()
      expect(client.health().isHealthy).toBe(false)
    })

    test('is false for a contention that a later process of the same id has ended', async () => {
      const role = freshName('superseded')
      const holder = openClient(cluster().bootstrap, { topic, memberId: 'holder' })
      const held = await holder.acquire(role)
      const older = openClient(cluster().bootstrap, { topic, memberId: 'twin' })
      const ended = older.acquire(role).catch((error: unknown) => error)
      while ((await holder.describe(role)).roster.length === 0);
      const stop = new AbortController()
      const younger = openClient(cluster().bootstrap, { topic, memberId: 'twin' })
      const waiting = younger.acquire(role, { signal: stop.signal }).catch(() => undefined)
      expect(await ended).toMatchObject({ code: 'SUPERSEDED' })
      expect(older.health()).toMatchObject({
        isHealthy: false,
        roles: [{ activity: 'stopped', lastError: { code: 'SUPERSEDED' } }],
      })
      expect(younger.health().isHealthy).toBe(true)
      stop.abort()
      await waiting
      expect(younger.health()).toEqual({ isHealthy: true, roles: [] })
      await held.resign()
    })

    test('is false before the lease is lost when no renewal gets through, and true again when lead() leads again', async () => {
      const role = freshName('cut')
      const proxy = await startFrameProxy(cluster().bootstrap)
      undo.push(() => proxy.close())
      const client = openClient(proxy.bootstrap, { topic, memberId: 'member' })
      const stop = new AbortController()
      let terms = 0
      const leading = client.lead(
        role,
        async (leadership) => {
          terms += 1
          await aborted(leadership.signal)
        },
        { signal: stop.signal },
      )
      await until(client, (health) => health?.activity === 'leading')
      const block = proxy.block()
      const late = await until(client, (health) => health?.activity === 'leading' && !health.isHealthy)
      expect(late.remainingMs, 'the lease is not lost yet').toBeGreaterThan(0)
      expect(late.problem).toMatch('no renewal was confirmed')
      await until(client, (health) => health?.activity === 'standing-by' && !health.isHealthy)
      block.lift()
      const again = await until(client, (health) => health?.activity === 'leading' && health.isHealthy)
      expect(again.lastError).toBeDefined()
      expect(terms).toBe(2)
      stop.abort()
      await leading
    })

    test('is false where the work of a lost term does not settle', async () => {
      const role = freshName('hanging')
      const client = openClient(cluster().bootstrap, { topic, memberId: 'member' })
      let settle: () => void = () => undefined
      const stop = new AbortController()
      const leading = client.lead(
        role,
        () =>
          new Promise<void>((resolve) => {
            settle = resolve
          }),
        { signal: stop.signal },
      )
      await until(client, (health) => health?.activity === 'leading')
      await openClient(cluster().bootstrap, { topic, memberId: 'operator' }).depose(role)
      const between = await until(client, (health) => health?.activity === 'between-terms')
      expect(between.isHealthy).toBe(true)
      const stuck = await until(client, (health) => health?.isHealthy === false)
      expect(stuck.problem).toMatch('its work has not settled')
      settle()
      await until(client, (health) => health?.activity === 'leading')
      stop.abort()
      settle()
      await leading
    })
  })
})

/**
 * What observers and challengers conclude from a log and a coordinator that do not tell all: a lease of unknown age, a new leader seen half,
 * a stranger's mint without a lease, a silence in which tombstones may have come and gone.
 */
import { Kafka, logLevel } from 'kafkajs'
import { describe, expect, test } from 'vitest'
import { describeWithKafka, freshName } from '../kafka/suites.js'
import { rounds, tell } from '../support/form.js'
import { startFrameProxy } from '../support/frame-proxy.js'
import { kinds } from '../support/kinds.js'
import { mintByHand } from '../support/look.js'
import { makeTopic } from './hand-writer.js'
import { Stage, who } from './stage.js'

const longLease = { leaseMs: 30_000, renewIntervalMs: 10_000, staggerMs: 500 }
const shortLease = { leaseMs: 3_000, renewIntervalMs: 1_000, staggerMs: 500 }
/** How long a stranger's pair has to stand before it is minted over. */
const strangerStandsMs = 1_000

describe.each(kinds())('on $name', ({ name: kindName, kind }) => {
  describeWithKafka('an observer', kind, (cluster) => {
    test('that comes late cannot tell how old a lease is until it is renewed, and knows its holder all the same', async () => {
      const stage = new Stage(cluster().bootstrap, longLease)
      try {
        const topic = await makeTopic(stage.kafka)
        const role = freshName('role')
        const leadership = await stage.client('leader', { topic }).client.acquire(role)
        const { client } = stage.client('late', { topic })
        const first = await client.describe(role)
        expect(first).toMatchObject({ state: 'unproven', holder: 'leader', authority: 'current' })
        await leadership.renew()
        const second = await client.describe(role)
        expect(second).toMatchObject({ state: 'held', term: leadership.term, authority: 'current' })
      } finally {
        await stage.close()
      }
    }, 30_000)

    test('never calls a leader superseded that is not, nor one current that resigned, while roles change hands', async () => {
      const stage = new Stage(cluster().bootstrap, longLease)
      try {
        const topic = await makeTopic(stage.kafka)
        const role = freshName('role')
        const members = ['a', 'b'].map((memberId) => stage.client(memberId, { topic }).client)
        const { client } = stage.client('observer', { topic })
        const resigned = new Set<string>()
        let leading: string | undefined
        let seen = 0
        let isOver = false
        const observing = (async () => {
          while (!isOver) {
            const before = new Set(resigned)
            const leader = leading
            const { token, authority } = await client.describe(role)
            if (token === undefined) continue
            seen += 1
            if (before.has(token.toString())) expect(authority).not.toBe('current')
            if (leader === leading && token.toString() === leader) expect(authority).not.toBe('superseded')
          }
        })()
        const handOvers = rounds(10, 100)
        for (let round = 0; round < handOvers; round++) {
          const leadership = await members[round % 2]?.acquire(role)
          if (leadership === undefined) throw new Error('no member')
          leading = leadership.token.toString()
          await leadership.renew()
          expect(who(await client.describe(role))).toMatchObject({ token: leading, authority: 'current' })
          leading = undefined
          expect(await leadership.resign()).toBe('resigned')
          resigned.add(leadership.token.toString())
          expect(await client.checkToken(role, leadership.token)).toBe('superseded')
        }
        isOver = true
        await observing
        tell(`${kindName}: ${handOvers} hand-overs, ${seen} descriptions of a holder meanwhile`)
        expect(seen).toBeGreaterThan(0)
      } finally {
        await stage.close()
      }
    }, 120_000)

    test('that heard nothing for too long reads again, and what is gone is gone', async () => {
      const stage = new Stage(cluster().bootstrap, longLease)
      const proxy = await startFrameProxy(cluster().bootstrap)
      try {
        // A quarter of this is the longest silence after which tombstones are still there for sure.
        const topic = await makeTopic(stage.kafka, { 'delete.retention.ms': '4000' })
        const role = freshName('role')
        const leader = stage.client('leader', { topic }).client
        const leadership = await leader.acquire(role)
        const through = new Kafka({ brokers: [...proxy.bootstrap], logLevel: logLevel.NOTHING })
        let rereads = 0
        const ignore = (): void => undefined
        const debug = (fields: object): void => {
          const { event, state } = fields as { event?: string; state?: string }
          if (event === 'reread' && state === 'started') rereads += 1
        }
        const logger = { debug, info: ignore, warn: ignore, error: ignore }
        const { client } = stage.client('silenced', { topic, kafka: through, logger })
        expect(await client.describe(role)).toMatchObject({ holder: 'leader', term: leadership.term })
        expect(rereads, 'the first read').toBe(1)
        const silence = proxy.silence('both')
        expect(await leadership.resign()).toBe('resigned')
        const silentUntil = performance.now() + 2_500
        while (performance.now() < silentUntil) await leader.describe(role)
        silence.lift()
        expect(await client.describe(role)).toMatchObject({ state: 'vacant', roster: [] })
        while (rereads < 2) await client.describe(role)
        expect(await client.describe(role)).toMatchObject({ state: 'vacant', roster: [] })
      } finally {
        await stage.close()
        await proxy.close()
      }
    }, 60_000)
  })

  describeWithKafka("a stranger's mint without a lease", kind, (cluster) => {
    test('is let stand for a second, and no longer', async () => {
      const { bootstrap } = cluster()
      const stage = new Stage(bootstrap, shortLease)
      try {
        const topic = await makeTopic(stage.kafka)
        const role = freshName('role')
        // The control: where nobody minted, nothing is waited for.
        const freeAt = performance.now()
        await stage.client('control', { topic }).client.acquire(freshName('role'))
        const freeMs = performance.now() - freeAt
        await mintByHand(bootstrap, role)
        const startedAt = performance.now()
        await stage.client('member', { topic }).client.acquire(role)
        const tookMs = performance.now() - startedAt
        tell(`${kindName}: a free role took ${freeMs.toFixed(0)} ms, a stranger's ${tookMs.toFixed(0)} ms`)
        expect(tookMs).toBeGreaterThanOrEqual(strangerStandsMs)
        expect(tookMs).toBeLessThan(10 * strangerStandsMs)
      } finally {
        await stage.close()
      }
    }, 30_000)

    test('repeated for ever holds the role up for about a lease, and not for ever', async () => {
      const { bootstrap } = cluster()
      const stage = new Stage(bootstrap, shortLease)
      try {
        const topic = await makeTopic(stage.kafka)
        const role = freshName('role')
        let isOver = false
        let mints = 0
        await mintByHand(bootstrap, role)
        const minting = (async () => {
          while (!isOver) {
            await mintByHand(bootstrap, role)
            mints += 1
            await new Promise((resolve) => setTimeout(resolve, 300))
          }
        })()
        const startedAt = performance.now()
        const acquired = stage.client('member', { topic }).client.acquire(role)
        const leadership = await acquired.finally(() => {
          isOver = true
        })
        const tookMs = performance.now() - startedAt
        await minting
        tell(`${kindName}: past ${mints} mints of a stranger after ${tookMs.toFixed(0)} ms, a lease being 3000 ms`)
        expect(tookMs).toBeGreaterThanOrEqual(shortLease.leaseMs - 500)
        expect(tookMs).toBeLessThan(10 * (shortLease.leaseMs + strangerStandsMs))
        expect(leadership.term).toBeGreaterThan(0n)
      } finally {
        await stage.close()
      }
    }, 60_000)
  })
})

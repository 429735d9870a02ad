/**
 * Whoever may write to the coordination topic writes what nobody should: bytes that mean nothing, and leases, tombstones and registrations
 * in others' names. It changes nothing but what the README's part on trust admits, and is reported by offset, by who follows and by who
 * reads from the start.
 */
import { setTimeout as delay } from 'node:timers/promises'
import { describe, expect, test } from 'vitest'
import type { Leadership } from '../../src/index.js'
import { describeWithKafka, freshName } from '../kafka/suites.js'
import { rounds, tell } from '../support/form.js'
import { HandMade, type HandMadeRecord, noPair, type Pair, pairOf } from '../support/hand-made.js'
import { kinds } from '../support/kinds.js'
import {
  batchesOf,
  HandWriter,
  leaseKey,
  leaseRecord,
  makeTopic,
  registrationKey,
  registrationRecord,
  writePlainly,
} from './hand-writer.js'
import { Stage, type Watched, who } from './stage.js'

/** Of live leaders: nothing here waits for it to run out. */
const longLease = { leaseMs: 30_000, renewIntervalMs: 500, staggerMs: 500 }
const shortLease = { leaseMs: 1_500, renewIntervalMs: 500, staggerMs: 500 }

const maxInt64 = 2n ** 63n - 1n
const bytesOf = (text: string): Buffer => Buffer.from(text, 'hex')
const large = Buffer.alloc(900_000, 0x61)

/** Values that no decoder takes, for a lease as for a registration. */
const badValues: readonly { readonly what: string; readonly value: Buffer }[] = [
  { what: 'a short value', value: bytesOf('0000') },
  { what: 'broken UTF-8', value: bytesOf('00000002c328000000000000000000000000000000000000000000000000') },
  { what: 'an unknown version', value: bytesOf('7fff000161000000000000000000000000000000000000000000000000') },
  { what: '900 KB', value: large },
]

describe.each(kinds())('on $name', ({ name: kindName, kind }) => {
  describeWithKafka('poison', kind, (cluster) => {
    test('of every kind leaves the role and its neighbours alone, and is reported by its offset', async () => {
      const { bootstrap } = cluster()
      const stage = new Stage(bootstrap, longLease)
      try {
        const topic = await makeTopic(stage.kafka)
        const [role, neighbour] = [freshName('role'), freshName('neighbour')]
        const leader = stage.client('leader', { topic })
        const watcher = stage.client('watcher', { topic })
        const leadership = await leader.client.acquire(role)
        const beside = await leader.client.acquire(neighbour)
        const before = who(await watcher.client.describe(role))
        expect(before).toMatchObject({ holder: 'leader', authority: 'current' })

        const roleHex = Buffer.from(role).toString('hex')
        const length = Buffer.byteLength(role).toString(16).padStart(4, '0')
        const badKeys: readonly { readonly what: string; readonly key: Buffer }[] = [
          { what: 'an empty key', key: Buffer.alloc(0) },
          { what: 'a short key', key: bytesOf('0000') },
          { what: 'a key of text', key: Buffer.from('not a key of this topic') },
          { what: 'an unknown version', key: bytesOf(`00070001${length}${roleHex}0000`) },
          { what: 'an unknown kind', key: bytesOf(`00000009${length}${roleHex}0000`) },
          { what: 'broken UTF-8 for a role', key: bytesOf('000000010002c3280000') },
          { what: 'a lease key with a member', key: bytesOf(`00000001${length}${roleHex}000161`) },
          { what: 'a key with bytes behind it', key: bytesOf(`00000001${length}${roleHex}000000`) },
          { what: 'a key of 900 KB', key: large },
        ]
        const poison: readonly { readonly record: HandMadeRecord; readonly told: object }[] = [
          ...badKeys.map(({ key }) => ({
            record: { key, value: 'x' },
            told: { event: 'unreadable-record', role: undefined },
          })),
          ...badValues.flatMap(({ value }) => [
            { record: { key: leaseKey(role), value }, told: { event: 'foreign-record', role } },
            { record: { key: registrationKey(role, 'nobody'), value }, told: { event: 'unreadable-record', role } },
          ]),
        ]
        const expected: object[] = []
        for (const { record, told } of poison) {
          expected.push({ ...told, offset: await writePlainly(bootstrap, topic, [record]) })
        }
        // A record without a key is refused by the broker itself on a compacted topic.
        await expect(writePlainly(bootstrap, topic, [{ key: null, value: 'x' }])).rejects.toThrow('Produce answered 87')

        await Promise.all([leadership.renew(), beside.renew()])
        const fresh = stage.client('fresh', { topic })
        for (const { client, reports } of [watcher, fresh]) {
          expect(who(await client.describe(role))).toEqual(before)
          expect(who(await client.describe(neighbour))).toMatchObject({ holder: 'leader', term: beside.term })
          expect(reports).toEqual(expected)
        }
        expect(await fresh.client.tryAcquire(role), 'the role is held').toBeUndefined()
        expect([leadership.signal.aborted, beside.signal.aborted]).toEqual([false, false])
        expect(await leadership.resign()).toBe('resigned')
        const next = await fresh.client.acquire(role)
        expect(next.term).toBeGreaterThan(leadership.term)
      } finally {
        await stage.close()
      }
    }, 60_000)

    test.each([...badValues, { what: 'bytes behind the lease', value: undefined }])(
      'in a transaction of the role itself, $what, makes it unreadable, not vacant, and ends with a take-over',
      async ({ value }) => {
        const { bootstrap } = cluster()
        const stage = new Stage(bootstrap, shortLease)
        const role = freshName('role')
        const hand = await HandWriter.open(bootstrap, role)
        try {
          const topic = await makeTopic(stage.kafka)
          const neighbour = await stage.client('neighbour', { topic }).client.acquire(freshName('neighbour'))
          const lease = leaseRecord(role, hand.pair)
          const bytes = value ?? Buffer.concat([Buffer.from(lease.value ?? ''), Buffer.of(0)])
          const [offset] = await hand.transaction(topic, [[{ key: leaseKey(role), value: bytes }]])
          const watcher = stage.client('watcher', { topic })
          expect(await watcher.client.describe(role)).toMatchObject({ state: 'unreadable' })
          expect(watcher.reports).toEqual([{ event: 'unreadable-record', role, offset }])

          const startedAt = performance.now()
          const taken = await stage.client('successor', { topic }).client.acquire(role)
          const tookMs = performance.now() - startedAt
          expect(taken.term).toBeGreaterThan(offset ?? -1n)
          expect(tookMs).toBeLessThan(10 * (shortLease.leaseMs + 500))
          tell(
            `${kindName}: an unreadable lease was taken over after ${tookMs.toFixed(0)} ms, of a lease of ${shortLease.leaseMs} ms`,
          )
          expect(who(await watcher.client.describe(role))).toMatchObject({ holder: 'successor', term: taken.term })
          await neighbour.renew()
          expect(neighbour.signal.aborted).toBe(false)
        } finally {
          hand.close()
          await stage.close()
        }
      },
      60_000,
    )
  })

  describeWithKafka('a forged', kind, (cluster) => {
    interface Scene {
      readonly topic: string
      readonly role: string
      readonly bootstrap: readonly string[]
      readonly stage: Stage
      readonly leadership: Leadership
      /** The leader's pair. */
      readonly pair: Pair
    }

    const byAnotherId = async ({ bootstrap, topic }: Scene, make: (own: Pair) => HandMadeRecord): Promise<bigint> => {
      const mallory = await HandWriter.open(bootstrap, freshName('mallory'))
      try {
        return (await mallory.transaction(topic, [[make(mallory.pair)]]))[0] ?? -1n
      } finally {
        mallory.close()
      }
    }

    const mallory = { member: 'mallory', lengthMs: 900_000n }
    const forgeries: readonly { readonly what: string; readonly forge: (scene: Scene) => Promise<bigint> }[] = [
      {
        what: 'lease, plain',
        forge: ({ bootstrap, topic, role, pair }) => writePlainly(bootstrap, topic, [leaseRecord(role, pair, mallory)]),
      },
      {
        what: 'lease with the greatest term, plain',
        forge: ({ bootstrap, topic, role, pair }) =>
          writePlainly(bootstrap, topic, [leaseRecord(role, pair, { ...mallory, term: maxInt64 })]),
      },
      {
        what: 'tombstone, plain',
        forge: ({ bootstrap, topic, role }) => writePlainly(bootstrap, topic, [{ key: leaseKey(role), value: null }]),
      },
      {
        what: 'lease with the transactional bit and no producer id',
        forge: ({ bootstrap, topic, role, pair }) =>
          withoutProducerId(bootstrap, topic, leaseRecord(role, pair, mallory)),
      },
      {
        what: 'tombstone with the transactional bit and no producer id',
        forge: ({ bootstrap, topic, role }) =>
          withoutProducerId(bootstrap, topic, { key: leaseKey(role), value: null }),
      },
      {
        what: "lease in another id's transaction, claiming the holder's pair",
        forge: (scene) => byAnotherId(scene, () => leaseRecord(scene.role, scene.pair, mallory)),
      },
      {
        what: "lease in another id's transaction, claiming that id's own pair",
        forge: (scene) => byAnotherId(scene, (own) => leaseRecord(scene.role, own, mallory)),
      },
      {
        what: "lease in another id's transaction, with the greatest term and a length of 2^62",
        forge: (scene) =>
          byAnotherId(scene, (own) =>
            leaseRecord(scene.role, own, { ...mallory, term: maxInt64, lengthMs: 2n ** 62n }),
          ),
      },
      {
        what: "tombstone in another id's transaction",
        forge: (scene) => byAnotherId(scene, () => ({ key: leaseKey(scene.role), value: null })),
      },
    ]

    test.concurrent.each(forgeries)(
      '$what changes nothing and is reported',
      async ({ forge }) => {
        const { bootstrap } = cluster()
        const stage = new Stage(bootstrap, longLease)
        try {
          const topic = await makeTopic(stage.kafka)
          const role = freshName('role')
          const leadership = await stage.client('leader', { topic }).client.acquire(role)
          const watcher = stage.client('watcher', { topic })
          const before = who(await watcher.client.describe(role))
          expect(before).toEqual({
            holder: 'leader',
            token: leadership.token.toString(),
            term: leadership.term,
            authority: 'current',
          })
          const pair = pairOf(leadership.token.toString())
          const offset = await forge({ topic, role, bootstrap, stage, leadership, pair })
          const { batches } = await batchesOf(stage.kafka, topic)
          const lies = batches.some(({ records }) => records.some((record) => record.offset === offset))
          expect(lies, 'the forgery lies in the log').toBe(true)

          const fresh = stage.client('fresh', { topic })
          for (const observer of [watcher, fresh]) await expectUnchanged(observer, role, before, offset)
          expect(await fresh.client.tryAcquire(role)).toBeUndefined()
          await leadership.renew()
          await leadership.renew()
          for (const observer of [watcher, fresh]) {
            const status = await observer.client.describe(role)
            expect(status).toMatchObject({ state: 'held' })
            expect(who(status)).toEqual(before)
          }
          expect(leadership.signal.aborted).toBe(false)
        } finally {
          await stage.close()
        }
      },
      60_000,
    )

    async function expectUnchanged(observer: Watched, role: string, before: object, offset: bigint): Promise<void> {
      expect(who(await observer.client.describe(role))).toEqual(before)
      // A transaction's record is judged once a look has named its producer id.
      while (observer.reports.length === 0) {
        expect(who(await observer.client.describe(role))).toEqual(before)
        await delay(20)
      }
      expect(observer.reports.map((report) => report.offset)).toContain(offset)
      expect(observer.reports.every((report) => report.event === 'foreign-record' && report.role === role)).toBe(true)
    }

    async function withoutProducerId(
      bootstrap: readonly string[],
      topic: string,
      record: HandMadeRecord,
    ): Promise<bigint> {
      const wire = await HandMade.open(bootstrap, freshName('never-minted'))
      try {
        const { errorCode, baseOffset } = await wire.produce(noPair, topic, [record], { transactional: true })
        expect(errorCode).toBe(0)
        return baseOffset
      } finally {
        wire.close()
      }
    }

    test('lease with the greatest term, by one who may mint the role, is a take-over with a term of its own offset', async () => {
      const { bootstrap } = cluster()
      const stage = new Stage(bootstrap, longLease)
      const role = freshName('role')
      try {
        const topic = await makeTopic(stage.kafka)
        const leadership = await stage.client('leader', { topic }).client.acquire(role)
        const watcher = stage.client('watcher', { topic })
        await watcher.client.describe(role)
        const hand = await HandWriter.open(bootstrap, role)
        const [offset] = await hand.transaction(topic, [[leaseRecord(role, hand.pair, { term: maxInt64 })]])
        await expect(leadership.renew()).rejects.toMatchObject({ code: 'FENCED' })
        const fresh = stage.client('fresh', { topic })
        for (const { client } of [watcher, fresh]) {
          expect(await client.describe(role)).toMatchObject({ holder: 'hand', term: offset, termExact: false })
        }
        hand.close()
        const next = await fresh.client.acquire(role)
        expect(next.term).toBeGreaterThan(offset ?? -1n)
        expect(await watcher.client.describe(role)).toMatchObject({ term: next.term, termExact: true, state: 'held' })
      } finally {
        await stage.close()
      }
    }, 60_000)

    test('is not what a lease is taken for that was committed a moment ago: an observer is never told that the role is vacant', async () => {
      const { bootstrap } = cluster()
      const stage = new Stage(bootstrap, longLease)
      try {
        const topic = await makeTopic(stage.kafka)
        const { client } = stage.client('watcher', { topic })
        for (let round = 0; round < rounds(20, 200); round++) {
          const role = freshName('role')
          const before = await client.describe(role)
          const hand = await HandWriter.open(bootstrap, role)
          await hand.transaction(topic, [[leaseRecord(role, hand.pair, { lengthMs: 60_000n })]])
          const after = await client.describe(role)
          hand.close()
          expect([before.state, after.state]).toEqual(['vacant', 'held'])
        }
      } finally {
        await stage.close()
      }
    }, 120_000)

    test('lease with a length of 2^62, by one who may mint the role, lasts 15 minutes', async () => {
      const { bootstrap } = cluster()
      const stage = new Stage(bootstrap, longLease)
      const role = freshName('role')
      const hand = await HandWriter.open(bootstrap, role)
      try {
        const topic = await makeTopic(stage.kafka)
        const watcher = stage.client('watcher', { topic })
        await watcher.client.describe(role)
        await hand.transaction(topic, [[leaseRecord(role, hand.pair, { lengthMs: 2n ** 62n })]])
        const { state, lease } = await watcher.client.describe(role)
        expect(state).toBe('held')
        expect(lease?.expiresInMs).toBeLessThanOrEqual(900_000)
        expect(lease?.expiresInMs).toBeGreaterThan(800_000)
      } finally {
        hand.close()
        await stage.close()
      }
    }, 60_000)

    test('registration of a stranger waits in the queue; one in the id of a member stops it, and no other', async () => {
      const { bootstrap } = cluster()
      const stage = new Stage(bootstrap, longLease)
      const role = freshName('role')
      try {
        const topic = await makeTopic(stage.kafka)
        // So that the leader is born later than at offset 0.
        await writePlainly(bootstrap, topic, [registrationRecord(freshName('filler'), 'filler')])
        const leadership = await stage.client('leader', { topic }).client.acquire(role)
        const bystander = await stage.client('bystander', { topic }).client.acquire(freshName('beside'))
        const watcher = stage.client('watcher', { topic })
        const waiting = stage.client('waiting', { topic }).client.acquire(role)
        waiting.catch(() => undefined)
        const queue = async (): Promise<string> =>
          (await watcher.client.describe(role)).roster.map(({ memberId }) => memberId).join()
        while ((await queue()) !== 'waiting') await delay(20)

        await writePlainly(bootstrap, topic, [registrationRecord(role, 'ghost')])
        expect(await queue()).toBe('waiting,ghost')
        // A deleted registration is written again, at the tail.
        await writePlainly(bootstrap, topic, [{ key: registrationKey(role, 'waiting'), value: null }])
        while ((await queue()) !== 'ghost,waiting') await delay(20)

        await writePlainly(bootstrap, topic, [registrationRecord(role, 'waiting')])
        await expect(waiting).rejects.toMatchObject({ code: 'SUPERSEDED' })
        // One that claims to be of an earlier process than the leader's changes nothing.
        await writePlainly(bootstrap, topic, [registrationRecord(role, 'leader', 0n)])
        await leadership.renew()
        expect(leadership.signal.aborted).toBe(false)

        await writePlainly(bootstrap, topic, [registrationRecord(role, 'leader', maxInt64)])
        while (!leadership.signal.aborted) await delay(20)
        expect(leadership.signal.reason).toMatchObject({ code: 'SUPERSEDED' })
        await bystander.renew()
        expect(bystander.signal.aborted).toBe(false)
      } finally {
        await stage.close()
      }
    }, 60_000)
  })
})

/**
 * Whatever a partition of the coordination topic ends with or has been through, `describe` and `acquire` answer by what is committed in
 * it, and soon.
 *
 * The brokers of this file clean their logs within a second or so, so that compaction is seen and not imagined.
 */
import { setTimeout as delay } from 'node:timers/promises'
import { ConfigResourceTypes, Kafka, logLevel } from 'kafkajs'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { FetchedBatch } from '../../src/cluster/connection.js'
import { encodeTerm, termHeader } from '../../src/format/headers.js'
import { CoordinationClient } from '../../src/index.js'
import { type KafkaCluster, startCluster } from '../kafka/cluster.js'
import { describeWithBrokers, freshName } from '../kafka/suites.js'
import { tell } from '../support/form.js'
import type { HandMadeRecord } from '../support/hand-made.js'
import { kinds } from '../support/kinds.js'
import { batchesOf, HandWriter, leaseRecord, makeTopic, registrationRecord, writePlainly } from './hand-writer.js'

/** Ten times the aim of two seconds. */
const longestAnswerMs = 20_000
const compacting = {
  'segment.ms': '50',
  'min.cleanable.dirty.ratio': '0.01',
  'max.compaction.lag.ms': '500',
  'min.compaction.lag.ms': '0',
}

interface Shape {
  readonly logStart: bigint
  readonly batches: readonly FetchedBatch[]
}

interface Stage {
  readonly bootstrap: readonly string[]
  readonly topic: string
  readonly role: string
  /** Writes under the role's own transactional id. */
  readonly hand: HandWriter
  /** The shape of the log now. */
  shape(): Promise<Shape>
  /** Waits until the cleaner has brought the log to a shape. */
  until(isReached: (shape: Shape) => boolean): Promise<void>
}

/** What the role must be said to be: held by `hand` since this term, or by nobody. */
type Truth = { readonly term: bigint } | 'vacant'

interface Scene {
  readonly name: string
  readonly settings?: Readonly<Record<string, string>>
  /** Brings the log into its shape. */
  readonly prepare: (stage: Stage) => Promise<Truth>
  /** The control: the log has the shape that the scene is named for. */
  readonly expectShape: (shape: Shape) => void
}

const isData = ({ control }: FetchedBatch): boolean => control === undefined
const countRecords = ({ batches }: Shape): number =>
  batches.filter(isData).reduce((count, { records }) => count + records.length, 0)

function ghosts(role: string, { pair }: HandWriter, count: number): readonly HandMadeRecord[] {
  const ghost = leaseRecord(role, pair, { member: 'ghost', lengthMs: 900_000n })
  return Array.from({ length: count }, () => ghost)
}

const scenes: readonly Scene[] = [
  {
    name: 'ends in a commit marker',
    prepare: async ({ role, hand, topic }) => ({
      term: (await hand.transaction(topic, [[leaseRecord(role, hand.pair)]]))[0] ?? -1n,
    }),
    expectShape: ({ batches }) => expect(batches.map(({ control }) => control)).toEqual([undefined, 'commit']),
  },
  {
    name: 'ends in an abort marker',
    prepare: async ({ role, hand, topic }) => {
      const [term = -1n] = await hand.transaction(topic, [[leaseRecord(role, hand.pair)]])
      await hand.transaction(topic, [ghosts(role, hand, 1)], 'abort')
      return { term }
    },
    expectShape: ({ batches }) =>
      expect(batches.map(({ control }) => control)).toEqual([undefined, 'commit', undefined, 'abort']),
  },
  {
    name: 'has only aborted records',
    prepare: async ({ role, hand, topic }) => {
      await hand.transaction(topic, [ghosts(role, hand, 3)], 'abort')
      return 'vacant'
    },
    expectShape: ({ batches }) => expect(batches.map(({ control }) => control)).toEqual([undefined, 'abort']),
  },
  {
    name: 'is empty and starts at 500',
    prepare: async ({ role, topic, bootstrap }) => {
      const filler = Array.from({ length: 500 }, (_, index) => registrationRecord(role, `filler-${index}`))
      await writePlainly(bootstrap, topic, filler)
      const admin = kafkaOf(bootstrap).admin()
      await admin.connect()
      await setPolicy(admin, topic, 'delete')
      // kafkajs deletes records only of topics that this admin has asked for.
      await admin.fetchTopicOffsets(topic)
      await admin.deleteTopicRecords({ topic, partitions: [{ partition: 0, offset: '500' }] })
      await setPolicy(admin, topic, 'compact')
      await admin.disconnect()
      return 'vacant'
    },
    expectShape: (shape) => expect(shape).toEqual({ logStart: 500n, batches: [] }),
  },
  {
    name: 'has 20,000 aborted records behind the lease',
    prepare: async ({ role, hand, topic }) => {
      const [term = -1n] = await hand.transaction(topic, [[leaseRecord(role, hand.pair)]])
      const batches = Array.from({ length: 20 }, () => ghosts(role, hand, 1_000))
      await hand.transaction(topic, batches, 'abort')
      return { term }
    },
    expectShape: (shape) => {
      expect(countRecords(shape)).toBe(20_001)
      expect(shape.batches.at(-1)?.control).toBe('abort')
    },
  },
  {
    name: 'has holes and empty batches of compaction',
    settings: compacting,
    prepare: async ({ role, hand, topic, bootstrap, until }) => {
      const [term = -1n] = await hand.transaction(topic, [[leaseRecord(role, hand.pair)]])
      const stranger = await HandWriter.open(bootstrap, freshName('stranger'))
      try {
        await stranger.transaction(topic, [['a', 'b', 'c'].map((member) => registrationRecord(role, member))])
      } finally {
        stranger.close()
      }
      await delay(60)
      const members = ['a', 'b', 'c', 'a', 'b', 'c']
      for (const member of members) await writePlainly(bootstrap, topic, [registrationRecord(role, member)])
      await delay(60)
      for (let count = 0; count < 3; count++) {
        await hand.transaction(topic, [[leaseRecord(role, hand.pair, { term })]])
        await delay(60)
      }
      await until((shape) => emptyBatches(shape) > 0 && holes(shape) > 0)
      return { term }
    },
    expectShape: (shape) => {
      expect(emptyBatches(shape)).toBeGreaterThan(0)
      expect(holes(shape)).toBeGreaterThan(0)
    },
  },
  {
    name: 'has 30,000 renewals, compacted in small segments',
    settings: compacting,
    prepare: async ({ role, hand, topic, until }) => {
      const [term = -1n] = await hand.transaction(topic, [[leaseRecord(role, hand.pair)]])
      const renewal = { ...leaseRecord(role, hand.pair), headers: [[termHeader, encodeTerm(term)]] as const }
      const renewals = Array.from({ length: 1_000 }, () => renewal)
      for (let count = 0; count < 30; count++) {
        await hand.transaction(topic, [renewals])
        await delay(20)
      }
      await delay(60)
      await hand.transaction(topic, [[renewal]])
      await until((shape) => countRecords(shape) < 3_000)
      return { term }
    },
    expectShape: (shape) => {
      expect(countRecords(shape), 'compacted').toBeLessThan(3_000)
      expect(shape.batches.at(-1)?.lastOffset, 'of this many').toBeGreaterThan(30_000n)
    },
  },
]

const emptyBatches = ({ batches }: Shape): number =>
  batches.filter((batch) => isData(batch) && batch.records.length === 0).length

const holes = ({ batches }: Shape): number =>
  batches.filter((batch, index) => batch.baseOffset > (batches[index - 1]?.lastOffset ?? -1n) + 1n).length

/** Records of a topic can be deleted by hand only while its policy is `delete`, as of one that was first made wrongly. */
async function setPolicy(admin: ReturnType<Kafka['admin']>, topic: string, policy: string): Promise<void> {
  const configEntries = [{ name: 'cleanup.policy', value: policy }]
  const type = ConfigResourceTypes.TOPIC
  await admin.alterConfigs({ validateOnly: false, resources: [{ type, name: topic, configEntries }] })
}

function kafkaOf(bootstrap: readonly string[]): Kafka {
  return new Kafka({ brokers: [...bootstrap], logLevel: logLevel.NOTHING })
}

describe.each(kinds())('a partition on $name', ({ name: kindName, kind }) => {
  describeWithBrokers('that', () => {
    let cluster: KafkaCluster
    beforeAll(async () => {
      cluster = await startCluster({
        ...kind,
        overrides: { 'log.cleaner.backoff.ms': '200', 'log.retention.check.interval.ms': '500' },
      })
    })
    afterAll(async () => {
      await cluster?.stop()
    })

    test.concurrent.each(scenes)(
      '$name is read for what is committed in it',
      async (scene) => {
        const { bootstrap } = cluster
        const kafka = kafkaOf(bootstrap)
        const role = freshName('role')
        const topic = await makeTopic(kafka, scene.settings)
        const hand = await HandWriter.open(bootstrap, role)
        const clients = ['observer', 'successor'].map((memberId) => new CoordinationClient({ kafka, topic, memberId }))
        const [observer, successor] = clients
        if (observer === undefined || successor === undefined) throw new Error('no clients')
        try {
          const shape = (): Promise<Shape> => batchesOf(kafka, topic)
          const until = async (isReached: (shape: Shape) => boolean): Promise<void> => {
            while (!isReached(await shape())) await delay(200)
          }
          const truth = await scene.prepare({ bootstrap, topic, role, hand, shape, until })
          // EndTxn is answered before the marker is written.
          await until(({ batches }) => batches.length === 0 || batches.at(-1)?.control !== undefined)
          scene.expectShape(await shape())

          const askedAt = performance.now()
          const status = await observer.describe(role)
          const describedMs = performance.now() - askedAt
          if (truth === 'vacant') expect(status).toMatchObject({ state: 'vacant', roster: [] })
          else {
            const token = `${hand.pair.producerId}:${hand.pair.producerEpoch}`
            expect(JSON.parse(JSON.stringify(status))).toMatchObject({
              holder: 'hand',
              token,
              term: String(truth.term),
              authority: 'current',
            })
            // Before the read reached the ghosts' abort marker, a reader would say that a ghost holds it for 15 minutes.
            expect(['unproven', 'expired']).toContain(status.state)
          }
          expect(describedMs).toBeLessThan(longestAnswerMs)

          const contendsAt = performance.now()
          const leadership = await successor.acquire(role)
          const acquiredMs = performance.now() - contendsAt
          tell(
            `${kindName}, ${scene.name}: described in ${describedMs.toFixed(0)} ms, acquired in ${acquiredMs.toFixed(0)} ms`,
          )
          expect(acquiredMs).toBeLessThan(longestAnswerMs)
          if (truth !== 'vacant') expect(leadership.term).toBeGreaterThan(truth.term)
          const after = await observer.describe(role)
          expect(after).toMatchObject({ holder: 'successor', term: leadership.term, authority: 'current' })
        } finally {
          hand.close()
          await Promise.all(clients.map((client) => client.close()))
        }
      },
      90_000,
    )
  })
})

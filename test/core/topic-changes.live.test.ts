/**
 * A coordination topic that is no longer what was read: deleted, made again shorter or longer, given partitions. Whoever led or asked by it
 * is told so, and nobody is told `vacant` by an old client.
 */
import { mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { Kafka, logLevel } from 'kafkajs'
import { describe, expect, test } from 'vitest'
import { CoordinationClient, isCoordinationError, type Leadership } from '../../src/index.js'
import { startCluster } from '../kafka/cluster.js'
import { describeWithBrokers, describeWithKafka, freshName } from '../kafka/suites.js'
import { tell } from '../support/form.js'
import { kinds } from '../support/kinds.js'
import { makeTopic, registrationRecord, writePlainly } from './hand-writer.js'

/** Two looks at the topic, two seconds apart, the first of them at most ten seconds after the change. */
const longestNoticeMs = 10 * 12_000
/** Long enough that nothing ends because a lease runs out. */
const lease = { leaseMs: 600_000, renewIntervalMs: 200_000 }

type Admin = ReturnType<Kafka['admin']>

interface Change {
  readonly name: string
  readonly setting: string
  readonly change: (admin: Admin, topic: string, bootstrap: readonly string[]) => Promise<void>
}

async function makeAgain(admin: Admin, topic: string, records: number, bootstrap: readonly string[]): Promise<void> {
  const role = freshName('filler')
  await admin.deleteTopics({ topics: [topic] })
  const configEntries = [{ name: 'cleanup.policy', value: 'compact' }]
  // A topic's deletion is answered before every part of the broker is done with it.
  while ((await admin.listTopics()).includes(topic)) await delay(10)
  await admin.createTopics({ topics: [{ topic, numPartitions: 1, configEntries }], waitForLeaders: false })
  const filler = Array.from({ length: records }, (_, index) => registrationRecord(role, `filler-${index}`))
  while (records > 0) {
    const isWritten = await writePlainly(bootstrap, topic, filler).then(
      () => true,
      () => false,
    )
    if (isWritten) break
    await delay(20)
  }
}

const changes: readonly Change[] = [
  { name: 'deleted', setting: 'existence', change: (admin, topic) => admin.deleteTopics({ topics: [topic] }) },
  {
    name: 'made again, empty',
    setting: 'topic id',
    change: (admin, topic, bootstrap) => makeAgain(admin, topic, 0, bootstrap),
  },
  {
    name: 'made again, and longer than it was',
    setting: 'topic id',
    change: (admin, topic, bootstrap) => makeAgain(admin, topic, 500, bootstrap),
  },
  {
    name: 'given partitions',
    setting: 'partitions',
    change: async (admin, topic) => {
      await admin.createPartitions({ topicPartitions: [{ topic, count: 3 }] })
    },
  },
]

describe.each(kinds())('$name', ({ name: kindName, kind }) => {
  describeWithKafka('a coordination topic', kind, (cluster) => {
    test.concurrent.each(changes)(
      'that is $name ends leaderships, waits and answers with TOPIC',
      async (scene) => {
        const { bootstrap } = cluster()
        const kafka = new Kafka({ brokers: [...bootstrap], logLevel: logLevel.NOTHING })
        const admin = kafka.admin()
        await admin.connect()
        const topic = await makeTopic(kafka)
        const control = await makeTopic(kafka)
        const role = freshName('role')
        const clientOf = (memberId: string, on: string = topic): CoordinationClient =>
          new CoordinationClient({ kafka, topic: on, memberId, createTopic: false, ...lease })
        const clients = [clientOf('leader'), clientOf('waiting'), clientOf('observer'), clientOf('control', control)]
        const [leader, waiting, observer, other] = clients
        if (!leader || !waiting || !observer || !other) throw new Error('no clients')
        try {
          const leadership = await leader.acquire(role)
          const untouched = await other.acquire(freshName('control'))
          const acquired: Promise<Leadership | unknown> = waiting.acquire(role).catch((reason: unknown) => reason)
          while ((await observer.describe(role)).roster.length < 1) await delay(20)
          expect(await observer.describe(role)).toMatchObject({ holder: 'leader', authority: 'current' })

          const ended = new Promise<number>((resolve) => {
            leadership.signal.addEventListener('abort', () => resolve(performance.now()), { once: true })
          })
          await scene.change(admin, topic, bootstrap)
          const changedAt = performance.now()
          const states = new Set<string>()
          const told = { code: 'TOPIC', topic, setting: scene.setting }
          for (;;) {
            const answer = await observer.describe(role).catch((reason: unknown) => reason)
            if (isCoordinationError(answer)) {
              if (answer.code === 'TOPIC') {
                expect(answer).toMatchObject(told)
                break
              }
              expect(answer.code).toBe('TRANSPORT')
            } else states.add((answer as { state: string }).state)
            await delay(50)
          }
          const noticedMs = performance.now() - changedAt
          expect([...states], 'what is not known any more is never called vacant').not.toContain('vacant')
          const endedMs = (await ended) - changedAt
          expect(leadership.signal.reason).toMatchObject(told)
          expect(leadership.remainingMs()).toBe(0)
          expect(await acquired).toMatchObject(told)
          await expect(waiting.tryAcquire(role)).rejects.toMatchObject(told)
          tell(
            `${kindName}, ${scene.name}: the observer noticed after ${noticedMs.toFixed(0)} ms, the leader after ${endedMs.toFixed(0)} ms`,
          )
          expect(Math.max(noticedMs, endedMs)).toBeLessThan(longestNoticeMs)

          // The control: nothing but the change ended the term, and a new client reads the topic as it is now.
          await untouched.renew()
          expect(untouched.signal.aborted).toBe(false)
          if (scene.name !== 'deleted') {
            const fresh = clientOf('fresh')
            clients.push(fresh)
            const { state, roster } = await fresh.describe(role)
            if (scene.setting === 'topic id') expect({ state, roster }).toEqual({ state: 'vacant', roster: [] })
            await (await fresh.acquire(freshName('role'))).renew()
          }
        } finally {
          await Promise.all([...clients.map((client) => client.close()), admin.disconnect()])
        }
      },
      180_000,
    )
  })
})

describeWithBrokers('a coordination topic whose log was cut back', () => {
  test('ends leaderships, waits and answers with TOPIC, once its broker is back', { timeout: 240_000 }, async () => {
    const folder = mkdtempSync(join(tmpdir(), 'mandate-cut-back-'))
    const kafkaVersion = kinds()[0]?.kind.kafkaVersion
    const cluster = await startCluster({
      nodes: 1,
      transactionVersion: kinds()[0]?.kind.transactionVersion ?? 0,
      ...(kafkaVersion === undefined ? {} : { kafkaVersion }),
      overrides: { 'log.dirs': folder },
    })
    const clients: CoordinationClient[] = []
    try {
      const kafka = new Kafka({ brokers: [...cluster.bootstrap], logLevel: logLevel.NOTHING })
      const [topic, control] = [await makeTopic(kafka), await makeTopic(kafka)]
      const clientOf = (memberId: string, on: string): CoordinationClient => {
        const client = new CoordinationClient({ kafka, topic: on, memberId, createTopic: false, ...lease })
        clients.push(client)
        return client
      }
      const role = freshName('role')
      const [leader, observer, other] = [
        clientOf('leader', topic),
        clientOf('observer', topic),
        clientOf('other', control),
      ]
      const leadership = await leader.acquire(role)
      const untouched = await other.acquire(freshName('control'))
      for (let renewal = 0; renewal < 5; renewal += 1) await leadership.renew()
      expect(await observer.describe(role)).toMatchObject({ holder: 'leader', authority: 'current' })

      const ended = new Promise<unknown>((resolve) => {
        leadership.signal.addEventListener('abort', () => resolve(leadership.signal.reason), { once: true })
      })
      const [node] = cluster.nodes
      if (node === undefined) throw new Error('a cluster has a node')
      await node.stop()
      const logOfTopic = join(folder, `${topic}-0`)
      for (const file of readdirSync(logOfTopic)) {
        if (file !== 'partition.metadata') rmSync(join(logOfTopic, file))
      }
      await node.start()

      expect(await ended).toMatchObject({ code: 'TOPIC', topic, setting: 'end' })
      for (;;) {
        const answer = await observer.describe(role).catch((reason: unknown) => reason)
        if (isCoordinationError(answer, 'TOPIC')) break
        if (!isCoordinationError(answer, 'TRANSPORT')) expect(answer).not.toMatchObject({ state: 'vacant' })
        await delay(50)
      }
      await untouched.renew()
      expect(untouched.signal.aborted, 'the topic beside it was not touched').toBe(false)
    } finally {
      await Promise.all(clients.map((client) => client.close({ timeoutMs: 1_000 })))
      await cluster.stop()
      rmSync(folder, { recursive: true, force: true })
    }
  })
})

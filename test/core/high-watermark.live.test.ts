/**
 * On three brokers a new partition leader's high watermark in Fetch may lie below what was already acknowledged or read. That is no log cut
 * back: nobody reads again for it, no term ends, and no end is believed that is too low.
 */
import { setTimeout as delay } from 'node:timers/promises'
import type { Kafka } from 'kafkajs'
import { describe, expect, test } from 'vitest'
import type { LeadershipState } from '../../src/index.js'
import { describeWithKafka, freshName } from '../kafka/suites.js'
import { isLongForm, rounds, tell } from '../support/form.js'
import { kinds } from '../support/kinds.js'
import { WireConnection, WireWriter } from '../support/wire.js'
import { leadersOf, placedTopic, reorderReplicas } from './placement.js'
import { Stage, who } from './stage.js'

const moves = rounds(5, 20)
const lease = { leaseMs: 30_000, renewIntervalMs: 10_000, staggerMs: 500 }

/** The high watermark as a Fetch from the very end of the partition is told it; undefined where this broker does not lead. */
async function highWatermark(connection: WireConnection, topic: string, offset: bigint): Promise<bigint | undefined> {
  const body = new WireWriter().int32(-1).int32(0).int32(0).int32(1_000).int8(0)
  body.array([topic], (writer, name) => {
    writer.string(name).array([0], (inner, index) => inner.int32(index).int64(offset).int64(-1n).int32(1_000))
  })
  const answer = await connection.request('Fetch', 5, body.toBuffer())
  answer.int32()
  const [found] = answer.array((reader) => {
    reader.string()
    return reader.array((inner) => {
      inner.int32()
      const told = { code: inner.int16(), highWatermark: inner.int64() }
      inner.int64()
      inner.int64()
      inner.array((aborted) => [aborted.int64(), aborted.int64()])
      inner.bytes(Math.max(inner.int32(), 0))
      return told
    })[0]
  })
  return found?.code === 0 ? found.highWatermark : undefined
}

/** It takes long, so the short form runs on the first kind only. */
const suites = kinds({ nodes: 3 }).slice(0, rounds(1, 2))

describe.each(suites)('on $name', ({ name: kindName, kind }) => {
  describeWithKafka('a leader of the coordination topic that moves', kind, (cluster) => {
    test('takes nothing from leaders and observers, whatever its first high watermark', async () => {
      const { bootstrap, nodes } = cluster()
      const ids = nodes.map(({ id }) => id)
      const topic = freshName('coordination')
      await placedTopic(bootstrap, topic, [ids], { 'cleanup.policy': 'compact', 'min.insync.replicas': '2' })
      const stage = new Stage(bootstrap, { ...lease, topic })
      const connections = await Promise.all(
        nodes.map(async ({ id, port }) => [id, await WireConnection.open(`127.0.0.1:${port}`)] as const),
      )
      try {
        const role = freshName('role')
        const leadership = await stage.client('leader').client.acquire(role)
        const watcher = stage.client('watcher')
        const truth = who(await watcher.client.describe(role))
        expect(truth).toMatchObject({ holder: 'leader', term: leadership.term, authority: 'current' })
        const states = new Set<LeadershipState>()
        let lower = 0
        let renewals = 0
        for (let move = 1; move <= moves; move++) {
          const target = ids[move % ids.length] ?? -1
          const others = ids.filter((id) => id !== target)
          const [, connection] = connections.find(([id]) => id === target) ?? []
          if (connection === undefined) throw new Error(`no connection to broker ${target}`)
          // The old leader is no replica of the new assignment, so the leadership moves at once.
          const [old] = await leadersOf(bootstrap, topic)
          const kept = others.filter((id) => id !== old)
          let isMoving = true
          const moved = reorderReplicas(bootstrap, topic, 1, () => [target, ...kept]).finally(() => {
            isMoving = false
          })
          let seen = 0n
          const renewing = (async () => {
            while (isMoving || (await leadersOf(bootstrap, topic))[0] !== target) {
              await leadership.renew()
              renewals += 1
              states.add((await watcher.client.describe(role)).state)
            }
          })()
          const watching = (async () => {
            for (const until = performance.now() + 1_500; performance.now() < until; ) {
              // While the leader moves nobody may be able to tell.
              const end = await endOf(stage.kafka, topic).catch(() => -1n)
              if (end > seen) seen = end
              const told = await highWatermark(connection, topic, seen)
              if (told !== undefined && told < seen) {
                lower += 1
                break
              }
            }
          })()
          await Promise.all([moved, renewing, watching])
          expect(who(await watcher.client.describe(role))).toEqual(truth)
          await reorderReplicas(bootstrap, topic, 1, () => [target, ...others])
          await delay(200)
        }
        tell(
          `${kindName}: ${moves} moves of the leader, of which ${lower} showed a high watermark below what was read; ${renewals} renewals meanwhile`,
        )
        expect(renewals).toBeGreaterThanOrEqual(moves)
        // About every third move shows it; the control needs one.
        if (isLongForm) expect(lower).toBeGreaterThan(0)
        expect(leadership.signal.aborted).toBe(false)
        expect([...states], 'never vacant, and never read again').not.toContain('vacant')
        expect([...states]).not.toContain('unknown')
        await leadership.renew()
        const fresh = stage.client('fresh')
        expect(who(await fresh.client.describe(role))).toEqual(truth)
        expect(await fresh.client.tryAcquire(role)).toBeUndefined()
      } finally {
        for (const [, connection] of connections) connection.close()
        await stage.close()
      }
    }, 180_000)
  })
})

/** The end as ListOffsets tells it, by the leader that kafkajs finds. */
async function endOf(kafka: Kafka, topic: string): Promise<bigint> {
  const admin = kafka.admin()
  await admin.connect()
  try {
    const [found] = await admin.fetchTopicOffsets(topic)
    return BigInt(found?.high ?? -1)
  } finally {
    await admin.disconnect()
  }
}

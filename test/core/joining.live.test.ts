/**
 * A partition that is followed while the long poll of its broker is under way: its records are read at once, not when that poll ends.
 */
import { Kafka, logLevel } from 'kafkajs'
import { describe, expect, test } from 'vitest'
import { CoordinationClient, rolePartition } from '../../src/index.js'
import { describeWithKafka, freshName } from '../kafka/suites.js'
import { percentile, tell } from '../support/form.js'
import { startFrameProxy } from '../support/frame-proxy.js'
import { kinds } from '../support/kinds.js'

const partitions = 16
/** Nobody renews while the test runs. */
const longLease = { leaseMs: 900_000, renewIntervalMs: 300_000 }
/** The library's long poll; whoever waited for one would take about this long. */
const longPollMs = 5_000

/** One role in each partition. */
function rolesOfEachPartition(): readonly string[] {
  const roles = new Map<number, string>()
  while (roles.size < partitions) {
    const role = freshName('role')
    roles.set(rolePartition(role, partitions), role)
  }
  return [...roles.values()]
}

describe.each(kinds())('$name', ({ name, kind }) => {
  describeWithKafka('a partition that joins a running long poll', kind, (cluster) => {
    test('is read at once, by a leader and by an observer', { timeout: 120_000 }, async () => {
      const proxy = await startFrameProxy(cluster().bootstrap)
      const kafka = new Kafka({ brokers: [...proxy.bootstrap], logLevel: logLevel.NOTHING })
      const topic = freshName('coordination')
      const [leader, observer] = ['leader', 'observer'].map(
        (memberId) => new CoordinationClient({ kafka, topic, memberId, partitions, ...longLease }),
      )
      if (leader === undefined || observer === undefined) throw new Error('no clients')
      try {
        const roles = rolesOfEachPartition()
        const took: number[] = []
        for (const role of roles) {
          const startedAt = performance.now()
          await leader.acquire(role)
          expect(await observer.describe(role)).toMatchObject({ holder: 'leader', authority: 'current' })
          took.push(performance.now() - startedAt)
        }
        tell(
          `${name}: acquire and describe in a new partition took ${percentile(took, 0.5).toFixed(0)} ms, ${Math.max(...took).toFixed(0)} ms at most`,
        )
        expect(Math.max(...took)).toBeLessThan(longPollMs / 2)

        // The control: a poll that nobody joins and for which nothing is written does run that long, for both clients.
        const quietSince = performance.now()
        await proxy.seen('Fetch', 4)
        expect(performance.now() - quietSince).toBeGreaterThan(longPollMs * 0.9)
      } finally {
        await Promise.all([leader.close(), observer.close()])
        await proxy.close()
      }
    })
  })
})

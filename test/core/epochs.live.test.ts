/**
 * Producer ids and epochs at their ends, on real brokers: the last epoch of an id, an id below the one before it, an id that the
 * coordinator has forgotten. The term rises all the same, and whoever led before is refused.
 */
import { setTimeout as delay } from 'node:timers/promises'
import { Kafka, logLevel } from 'kafkajs'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { readCommittedLog } from '../../examples/demo/raw-log.js'
import { type ClientOptions, CoordinationClient, type FencingToken } from '../../src/index.js'
import { guardedTopic, Member, oneRecord } from '../client/programs/live.js'
import { type KafkaCluster, startCluster } from '../kafka/cluster.js'
import { internalPartitions } from '../kafka/ready.js'
import { describeWithBrokers, describeWithKafka, freshName } from '../kafka/suites.js'
import { roleInLog, tokensInOrder } from '../support/coordination-topic.js'
import { isLongForm, tell } from '../support/form.js'
import { kinds } from '../support/kinds.js'
import { lookAt } from '../support/look.js'
import { WireConnection } from '../support/wire.js'
import { lastEpoch, type MintedPair, mintOnce, mintUntil } from './mints.js'
import { coordinatorPartition, electPreferred, leadersOf, reorderReplicas, transactionState } from './placement.js'

/** Nobody gets a turn because this ran out, nor does its holder ask the broker before it is told to. */
const longLease = { leaseMs: 60_000, renewIntervalMs: 50_000, staggerMs: 1_000 }
/** Its clock is fast: it deposes leaders that are alive. */
const hasty = { ...longLease, clockRate: 20, requestTimeoutMs: 100_000 }
/** Ten times the aim for what happens "at once". */
const atOnceMs = 10 * 100

interface Stage {
  readonly bootstrap: readonly string[]
  readonly topic: string
  clientOf(memberId: string, options?: Partial<ClientOptions>): CoordinationClient
  hastyMember(memberId: string): Promise<Member>
}

/** Clients and members that end with the test. */
function staged(bootstrap: () => readonly string[]): () => Stage {
  const topic = freshName('coordination')
  const clients: CoordinationClient[] = []
  const members: Member[] = []
  afterEach(async () => {
    await Promise.all(clients.splice(0).map((client) => client.close()))
    await Promise.all(members.splice(0).map((member) => member.discard()))
  })
  return () => ({
    bootstrap: bootstrap(),
    topic,
    clientOf(memberId, options = longLease) {
      const kafka = new Kafka({ brokers: [...bootstrap()], logLevel: logLevel.NOTHING })
      const client = new CoordinationClient({ kafka, topic, memberId, ...options })
      clients.push(client)
      return client
    },
    async hastyMember(memberId) {
      const member = await Member.start({ brokers: bootstrap(), topic, memberId, ...hasty })
      members.push(member)
      return member
    },
  })
}

function pairOf({ producerId, producerEpoch }: FencingToken): MintedPair {
  return { producerId, producerEpoch }
}

async function committedValues(bootstrap: readonly string[], topic: string): Promise<readonly string[]> {
  const records = await readCommittedLog(bootstrap, topic)
  return records.filter(({ outcome }) => outcome === 'committed').map(({ value }) => String(value))
}

/** Terms in the order in which their tokens led, from the raw log: strictly rising. */
async function expectRisingTerms({ bootstrap, topic }: Stage, role: string, tokens: readonly string[]): Promise<void> {
  const order = tokensInOrder(await roleInLog(bootstrap, topic, role))
  expect(order.map(({ token }) => token)).toEqual(tokens)
  for (const [index, { term }] of order.entries()) {
    if (index > 0) expect(term).toBeGreaterThan(order[index - 1]?.term ?? term)
  }
}

describe.each(isLongForm ? kinds() : kinds().slice(0, 1))('epochs: $name', ({ name, kind }) => {
  describeWithKafka('a leader under the last epoch of its producer id', kind, (cluster) => {
    const stage = staged(() => cluster().bootstrap)

    /** Mints as strangers until an acquire ends at the last epoch. */
    async function exhaust(role: string): Promise<void> {
      const [address = ''] = cluster().bootstrap
      const mintsOfAcquire = 2
      const startedAt = performance.now()
      await mintUntil(address, role, lastEpoch - mintsOfAcquire)
      tell(`${name}: ${lastEpoch - mintsOfAcquire} mints in ${((performance.now() - startedAt) / 1000).toFixed(1)} s`)
    }

    test('is deposed, in the middle of a transaction, by a term under another id', { timeout: 120_000 }, async () => {
      const role = freshName('exhausted')
      const { bootstrap, clientOf, hastyMember } = stage()
      await exhaust(role)
      const commands = await guardedTopic(bootstrap)
      const leader = clientOf('leader')
      const leadership = await leader.acquire(role)
      expect(leadership.token.producerEpoch).toBe(lastEpoch)
      await leadership.send(oneRecord(commands, 'before'))

      const successor = await hastyMember('successor')
      const refused = leadership.transact(async (transaction) => {
        await transaction.send(oneRecord(commands, 'open when deposed'))
        await successor.acquire(role)
        await transaction.send(oneRecord(commands, 'after it was deposed'))
      })
      await expect(refused).rejects.toMatchObject({ code: 'FENCED', reason: 'takeover' })
      await expect(leadership.send(oneRecord(commands, 'later'))).rejects.toMatchObject({ code: 'FENCED' })
      await successor.call({ do: 'send', role, record: oneRecord(commands, 'of the successor') })

      const look = await lookAt(bootstrap, role)
      expect(look.producerId).not.toBe(leadership.token.producerId)
      const successorToken = `${look.producerId}:${look.producerEpoch}`
      const onlooker = clientOf('onlooker')
      expect(await onlooker.checkToken(role, leadership.token)).toBe('superseded')
      const status = await onlooker.describe(role)
      expect(status).toMatchObject({ holder: 'successor', authority: 'current', termExact: true })
      expect(String(status.token)).toBe(successorToken)
      expect(await committedValues(bootstrap, commands)).toEqual(['before', 'of the successor'])

      expect(await successor.call({ do: 'resign', role })).toBe('resigned')
      const again = await leader.acquire(role)
      await again.renew()
      await expectRisingTerms(stage(), role, [String(leadership.token), successorToken, String(again.token)])
    })

    test('resigns under another id, and the next member leads at once', { timeout: 120_000 }, async () => {
      const role = freshName('exhausted')
      const { bootstrap, clientOf } = stage()
      await exhaust(role)
      const leadership = await clientOf('leader').acquire(role)
      expect(leadership.token.producerEpoch).toBe(lastEpoch)
      const successor = clientOf('successor')
      const succeeds = successor.acquire(role)
      while ((await successor.describe(role)).roster.length === 0) await delay(10)

      const startedAt = performance.now()
      expect(await leadership.resign()).toBe('resigned')
      const next = await succeeds
      const tookMs = performance.now() - startedAt
      tell(`${name}: from resign under the last epoch to the successor ${tookMs.toFixed(0)} ms`)
      expect(tookMs).toBeLessThan(atOnceMs)
      expect(next.token.producerId).not.toBe(leadership.token.producerId)
      const look = await lookAt(bootstrap, role)
      expect(pairOf(next.token)).toEqual({ producerId: look.producerId, producerEpoch: look.producerEpoch })
      await next.renew()
      await expectRisingTerms(stage(), role, [String(leadership.token), String(next.token)])
    })
  })
})

describe.each(kinds({ nodes: 3 }).slice(0, isLongForm ? 2 : 1))('forgotten ids: $name', ({ kind }) => {
  describeWithBrokers('a transactional id that expires', () => {
    let cluster: KafkaCluster
    const stage = staged(() => cluster.bootstrap)

    beforeAll(async () => {
      const { nodes, transactionVersion, kafkaVersion } = kind
      cluster = await startCluster({
        nodes,
        transactionVersion,
        ...(kafkaVersion === undefined ? {} : { kafkaVersion }),
        overrides: {
          'transactional.id.expiration.ms': '4000',
          'transaction.remove.expired.transaction.cleanup.interval.ms': '1000',
        },
      })
    })
    afterAll(async () => {
      await cluster?.stop()
    })

    /** Waits, but not without end. */
    async function until(what: string, isSo: () => Promise<boolean>): Promise<void> {
      await expect.poll(isSo, { timeout: 20_000, interval: 50, message: what }).toBe(true)
    }

    function untilForgotten(role: string): Promise<void> {
      return until(`'${role}' is forgotten`, async () => !(await lookAt(cluster.bootstrap, role)).found)
    }

    /** A fresh name that lies on the partition. */
    function nameOn(partition: number): string {
      for (;;) {
        const role = freshName('role')
        if (coordinatorPartition(role) === partition) return role
      }
    }

    /** Lets the first of each partition's replicas coordinate it, and waits until it does. */
    async function place(replicas: readonly (readonly number[])[]): Promise<void> {
      const { bootstrap } = cluster
      const [address = ''] = bootstrap
      const partitions = replicas.map((_, partition) => partition)
      await reorderReplicas(bootstrap, transactionState, replicas.length, (partition) => [
        ...(replicas[partition] ?? []),
      ])
      await until(`coordinators at ${JSON.stringify(replicas)}`, async () => {
        await electPreferred(address, transactionState, partitions)
        const leaders = await leadersOf(bootstrap, transactionState)
        return leaders.join() === replicas.map(([first]) => first).join()
      })
    }

    /** The partition that each broker coordinates, in the order of the blocks of producer ids from which they mint. */
    async function byBlock(): Promise<readonly { readonly broker: number; readonly partition: number }[]> {
      const ids = cluster.nodes.map(({ id }) => id)
      const rotated = (by: number): readonly number[] => [...ids.slice(by), ...ids.slice(0, by)]
      await place(Array.from({ length: internalPartitions }, (_, partition) => rotated(partition % ids.length)))
      const blocks = await Promise.all(
        cluster.nodes.map(async ({ id, port }, partition) => {
          const connection = await WireConnection.open(`127.0.0.1:${port}`)
          try {
            const { producerId } = await mintOnce(connection, nameOn(partition))
            return { broker: id, partition, producerId }
          } finally {
            connection.close()
          }
        }),
      )
      return blocks.sort((one, other) => (one.producerId < other.producerId ? -1 : 1))
    }

    test('comes back with a smaller producer id: the term rises, the old holder is refused', async () => {
      const { bootstrap, clientOf, hastyMember } = stage()
      const [lowest, middle, highest] = await byBlock()
      if (lowest === undefined || middle === undefined || highest === undefined) throw new Error('not three brokers')
      const role = nameOn(highest.partition)
      const commands = await guardedTopic(bootstrap)
      const leadership = await clientOf('leader').acquire(role)
      await leadership.send(oneRecord(commands, 'before'))

      const moved = [lowest.broker, middle.broker]
      await place(Array.from({ length: internalPartitions }, () => moved))
      await untilForgotten(role)
      const successor = await hastyMember('successor')
      const next = await successor.acquire(role)
      const look = await lookAt(bootstrap, role)
      expect(next.token).toBe(`${look.producerId}:${look.producerEpoch}`)
      tell(`a term under ${leadership.token} was followed by one under ${next.token}`)
      expect(look.producerId, 'what the case is about').toBeLessThan(leadership.token.producerId)
      expect(BigInt(next.term)).toBeGreaterThan(leadership.term)

      await expect(leadership.send(oneRecord(commands, 'after'))).rejects.toMatchObject({ code: 'FENCED' })
      expect(leadership.signal.aborted).toBe(true)
      await successor.call({ do: 'send', role, record: oneRecord(commands, 'of the successor') })
      expect(await committedValues(bootstrap, commands)).toEqual(['before', 'of the successor'])
      const onlooker = clientOf('onlooker')
      const status = await onlooker.describe(role)
      expect(status).toMatchObject({ holder: 'successor', authority: 'current', current: true, termExact: true })
      expect(status.term).toBe(BigInt(next.term))
      expect(await onlooker.checkToken(role, leadership.token)).toBe('superseded')
      await expectRisingTerms(stage(), role, [String(leadership.token), next.token])
    })

    test('under a leader that was silent for longer: it is refused, and leads again in a greater term', async () => {
      const { bootstrap, clientOf } = stage()
      const role = freshName('expired')
      const commands = await guardedTopic(bootstrap)
      const leader = clientOf('leader')
      const leadership = await leader.acquire(role)
      await leadership.send(oneRecord(commands, 'before'))
      await untilForgotten(role)
      await expect(leadership.send(oneRecord(commands, 'after'))).rejects.toMatchObject({
        code: 'FENCED',
        reason: 'unknown',
      })
      const startedAt = performance.now()
      const again = await leader.acquire(role)
      tell(`led again ${(performance.now() - startedAt).toFixed(0)} ms after the id had expired`)
      await again.send(oneRecord(commands, 'again'))
      expect(await committedValues(bootstrap, commands)).toEqual(['before', 'again'])
      await expectRisingTerms(stage(), role, [String(leadership.token), String(again.token)])
    })
  })
})

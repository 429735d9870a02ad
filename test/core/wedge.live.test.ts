/**
 * What WRITE on a topic of the leader's is enough for, since every consumer can see a producer id: one record in the leader's name wedges its
 * role, ends its term, or swallows its next record. Nothing false counts as a lease, and each has its way out.
 */
import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import { setTimeout as delay } from 'node:timers/promises'
import { describe, expect, test } from 'vitest'
import { diagnosticChannelName, type Leadership } from '../../src/index.js'
import { describeWithKafka, freshName } from '../kafka/suites.js'
import { rounds, tell } from '../support/form.js'
import { HandMade, type HandMadeRecord, type Pair, pairOf } from '../support/hand-made.js'
import { kinds } from '../support/kinds.js'
import { lookAt } from '../support/look.js'
import { batchesOf, leaseRecord, makeTopic } from './hand-writer.js'
import { Stage, who } from './stage.js'

const lease = { leaseMs: 3_000, renewIntervalMs: 1_000, staggerMs: 500 }
const highestEpoch = 32_767
/** The message of a wedge comes after five seconds. */
const longestWedgeMs = 10 * 5_000

/** An idempotent batch in the name of `pair`, outside any transaction, as whoever may WRITE on the topic can send it. */
async function forgeAs(
  bootstrap: readonly string[],
  pair: Pair,
  topic: string,
  record: HandMadeRecord,
  baseSequence: number = 0,
): Promise<bigint> {
  const wire = await HandMade.open(bootstrap, 'none')
  try {
    const produce = (): ReturnType<HandMade['produce']> =>
      wire.produce(pair, topic, [record], { transactional: false, baseSequence })
    let answer = await produce()
    // INVALID_TXN_STATE: the marker of the leader's last transaction is not written yet.
    while (answer.errorCode === 48) answer = await produce()
    const { errorCode, baseOffset } = answer
    expect(errorCode).toBe(0)
    return baseOffset
  } finally {
    wire.close()
  }
}

const pairOfLeader = (leadership: Leadership): Pair => pairOf(leadership.token.toString())
const recordOf = (value: string): { value: string }[] => [{ value }]

/** It takes long, so the short form runs on the first kind only. */
const suites = kinds({ purpose: 'wedge' }).slice(0, rounds(1, 2))

describe.each(suites)('on $name, one record', ({ name: kindName, kind }) => {
  describeWithKafka('in the name of the leader', kind, (cluster) => {
    test('with the highest epoch wedges its role, which is told with its remedies, and they mend it', async () => {
      const { bootstrap, nodes } = cluster()
      const stage = new Stage(bootstrap, lease)
      try {
        const [topic, guarded] = [
          await makeTopic(stage.kafka),
          await makeTopic(stage.kafka, { 'cleanup.policy': 'delete' }),
        ]
        const role = freshName('role')
        const first = await stage.client('first', { topic }).client.acquire(role)
        await first.send({ topic: guarded, messages: recordOf('true') })
        await forgeAs(bootstrap, { ...pairOfLeader(first), producerEpoch: highestEpoch }, guarded, {
          key: null,
          value: 'poison',
        })
        await expect(first.send({ topic: guarded, messages: recordOf('refused') })).rejects.toThrow()
        while (!first.signal.aborted) await delay(20)

        const waiting = stage.client('waiting', { topic })
        const waits = waiting.client.acquire(role)
        waits.catch(() => undefined)
        const asked = stage.client('asked', { topic })
        const askedAt = performance.now()
        let refusal: unknown
        // Before the lease has run out there is nothing to try.
        do refusal = await asked.client.tryAcquire(role).catch((error: unknown) => error)
        while (refusal === undefined)
        const toldMs = performance.now() - askedAt
        expect(refusal).toMatchObject({ code: 'WEDGED', role, partitions: [`${guarded}-0`] })
        expect(String(refusal)).toMatch(/runbook/)
        expect(toldMs).toBeLessThan(longestWedgeMs)
        expect((await lookAt(bootstrap, role)).state).toMatch(/^Prepare/)
        while (!waiting.warnings.some((message) => message.includes(`${guarded}-0`))) await delay(20)
        tell(`${kindName}: a wedge was told after ${toldMs.toFixed(0)} ms`)

        // The first remedy: another role. Neighbours were never held up.
        await (await asked.client.acquire(freshName('role'))).renew()

        // The second: the poisoned topic deleted and made again, and the coordinator's state loaded afresh.
        const admin = stage.kafka.admin()
        await admin.connect()
        await admin.deleteTopics({ topics: [guarded] })
        await admin.disconnect()
        const [node] = nodes
        await node?.stop()
        await node?.start()
        const again = await waits
        expect(again.term).toBeGreaterThan(first.term)
        await again.renew()
      } finally {
        await stage.close()
      }
    }, 180_000)

    test('with the next epoch ends its term, and the role goes on', async () => {
      const { bootstrap } = cluster()
      const stage = new Stage(bootstrap, lease)
      try {
        const topic = await makeTopic(stage.kafka)
        const role = freshName('role')
        const leader = stage.client('leader', { topic })
        const leadership = await leader.client.acquire(role)
        const pair = pairOfLeader(leadership)
        const forged = { ...pair, producerEpoch: pair.producerEpoch + 1 }
        const offset = await forgeAs(bootstrap, forged, topic, leaseRecord(role, forged, { member: 'mallory' }))
        await expect(leadership.renew()).rejects.toMatchObject({ code: 'FENCED' })
        const watcher = stage.client('watcher', { topic })
        expect(await watcher.client.describe(role)).not.toMatchObject({ holder: 'mallory' })
        expect(watcher.reports).toContainEqual({ event: 'foreign-record', role, offset })
        const next = await leader.client.acquire(role)
        await next.renew()
        expect(next.term).toBeGreaterThan(leadership.term)
      } finally {
        await stage.close()
      }
    }, 60_000)

    test('with its own pair and next sequence swallows one renewal of it, and its lease stands', async () => {
      const { bootstrap } = cluster()
      const stage = new Stage(bootstrap, { ...lease, leaseMs: 60_000, renewIntervalMs: 20_000 })
      try {
        const topic = await makeTopic(stage.kafka)
        const role = freshName('role')
        const leadership = await stage.client('leader', { topic }).client.acquire(role)
        const pair = pairOfLeader(leadership)
        const watcher = stage.client('watcher', { topic })
        const before = who(await watcher.client.describe(role))
        const written = async (): Promise<number> =>
          (await batchesOf(stage.kafka, topic)).batches
            .filter(
              ({ producerId, transactional, control }) => producerId === pair.producerId && transactional && !control,
            )
            .reduce((count, { records }) => count + records.length, 0)
        const count = await written()
        let renewed = 0
        const note = (message: unknown): void => {
          if ((message as { role: string }).role === role) renewed += 1
        }
        subscribe(diagnosticChannelName('renewed'), note)
        const offset = await forgeAs(bootstrap, pair, topic, leaseRecord(role, pair, { member: 'mallory' }), count)
        // It renews once for having seen that, and twice for us; the first of these is taken for the forgery sent again.
        await leadership.renew()
        await leadership.renew()
        unsubscribe(diagnosticChannelName('renewed'), note)
        expect(renewed).toBeGreaterThan(1)
        expect(await written()).toBe(count + renewed - 1)
        expect(who(await watcher.client.describe(role))).toEqual(before)
        expect(watcher.reports).toEqual([{ event: 'foreign-record', role, offset }])
        expect(await stage.client('rival', { topic }).client.tryAcquire(role)).toBeUndefined()
        expect(leadership.signal.aborted).toBe(false)
      } finally {
        await stage.close()
      }
    }, 60_000)

    test('with its own pair and next sequence swallows one guarded record of it, as the README says', async () => {
      const { bootstrap } = cluster()
      const stage = new Stage(bootstrap, { ...lease, leaseMs: 60_000, renewIntervalMs: 20_000 })
      try {
        const [topic, guarded] = [
          await makeTopic(stage.kafka),
          await makeTopic(stage.kafka, { 'cleanup.policy': 'delete' }),
        ]
        const leadership = await stage.client('leader', { topic }).client.acquire(freshName('role'))
        const send = async (value: string): Promise<bigint | undefined> =>
          (await leadership.send({ topic: guarded, messages: [{ value }] }))[0]?.offset
        await send('first')
        const forged = { key: null, value: 'forged' }
        const offset = await forgeAs(bootstrap, pairOfLeader(leadership), guarded, forged, 1)
        expect(await send('swallowed'), 'the broker answers with the place of the forgery').toBe(offset)
        await send('last')
        const { batches } = await batchesOf(stage.kafka, guarded)
        const records = batches.filter(({ control }) => control === undefined).flatMap((batch) => batch.records)
        expect(records.map(({ value }) => Buffer.from(value ?? '').toString())).toEqual(['first', 'forged', 'last'])
      } finally {
        await stage.close()
      }
    }, 60_000)
  })
})

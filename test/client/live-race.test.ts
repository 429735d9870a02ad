/**
 * Twelve processes that start for a free role at the same moment, on a real broker.
 *
 * Who led is judged by the raw log and by what the coordinator says, never by the processes' own word alone.
 */
import { setTimeout as delay } from 'node:timers/promises'
import { Kafka, logLevel } from 'kafkajs'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { headerText, readCommittedLog } from '../../examples/demo/raw-log.js'
import { CoordinationClient } from '../../src/index.js'
import { describeWithKafka, freshName } from '../kafka/suites.js'
import { Child } from '../support/child.js'
import { roleInLog, tokensInOrder } from '../support/coordination-topic.js'
import { rounds, tell } from '../support/form.js'
import { type CoordinatorView, lookAt } from '../support/look.js'
import { makeTopics } from '../support/topics.js'

const processes = 12
const count = rounds(5, 20)

describeWithKafka('twelve processes on a free role', { nodes: 1, transactionVersion: 2 }, (cluster) => {
  const topic = freshName('coordination')
  const commands = freshName('commands')
  const members: Child[] = []
  let observer: CoordinationClient

  beforeAll(async () => {
    const bootstrap = cluster().bootstrap
    const kafka = new Kafka({ brokers: [...bootstrap], logLevel: logLevel.NOTHING })
    await makeTopics(bootstrap, [{ topic: commands, numPartitions: 1 }])
    observer = new CoordinationClient({ kafka, topic, memberId: 'observer' })
    const settings = JSON.stringify({ bootstrap, topic, commands, leaseMs: 30_000 })
    for (let index = 0; index < processes; index++) {
      members.push(Child.start('test/client/programs/race-member.js', { arguments: [settings] }))
    }
    await Promise.all(members.map((member) => member.next('started')))
  })

  afterAll(async () => {
    await observer?.close()
    await Promise.all(members.map((member) => member.kill()))
  })

  test(
    `${count} rounds: one leads at a time, few mints, terms rise`,
    async () => {
      const { bootstrap } = cluster()
      const role = freshName('race')
      const led: { token: string; term: bigint }[] = []
      const mints: number[] = []
      const firstLedMs: number[] = []
      for (let round = 0; round < count; round++) {
        const before = await lookAt(bootstrap, role)
        for (const [index, member] of members.entries()) member.send({ do: 'prepare', memberId: `m${index}-${round}` })
        await Promise.all(members.map((member) => member.next('ready')))

        const startedAt = Number(process.hrtime.bigint()) / 1e6
        for (const member of members) member.send({ do: 'contend', role, write: true })
        // Whoever is registered has its first evaluation behind it or holds back by the lease that it can read.
        await everybodyWaits(observer, role)
        const holder = (await observer.describe(role)).holder
        const leader = members.find((_member, index) => `m${index}-${round}` === holder)
        if (leader === undefined) throw new Error(`'${holder}' is none of this round's members`)
        const others = members.filter((member) => member !== leader)
        for (const member of others) member.send({ do: 'stop' })
        await Promise.all(others.map((member) => member.next('stopped')))
        mints.push(mintsBetween(before, await lookAt(bootstrap, role)))

        leader.send({ do: 'stop' })
        expect(await leader.next('stopped')).toMatchObject({ outcome: 'resigned' })
        const wins = members.flatMap((member) => member.events.splice(0).filter(({ event }) => event === 'led'))
        firstLedMs.push(Math.min(...wins.map(({ at }) => Number(at))) - startedAt)
        led.push(...wins.map(({ token, term }) => ({ token: String(token), term: BigInt(String(term)) })))
      }

      const inLog = await roleInLog(bootstrap, topic, role)
      const order = tokensInOrder(inLog)
      const tokens = order.map(({ token }) => token)
      const terms = order.map(({ term }) => term)
      expect(new Set(tokens).size, 'each token has one unbroken stretch of the log').toBe(tokens.length)
      expect(terms).toEqual([...terms].sort((a, b) => Number(a - b)))
      expect(new Set(terms).size).toBe(terms.length)
      expect(order.length).toBeGreaterThanOrEqual(count)
      expect(order).toEqual(led.sort((a, b) => Number(a.term - b.term)))
      for (const mint of mints) {
        expect(mint, 'the first pair').toBeGreaterThanOrEqual(2)
        expect(mint, 'at most three more').toBeLessThanOrEqual(5)
      }

      const written = await readCommittedLog(bootstrap, commands)
      const writtenTerms = written
        .filter(({ outcome }) => outcome === 'committed')
        .map((record) => BigInt(headerText(record, 'mandate-term') ?? '-1'))
      expect(writtenTerms.length).toBeGreaterThanOrEqual(count)
      expect(writtenTerms).toEqual([...writtenTerms].sort((a, b) => Number(a - b)))
      expect(new Set(writtenTerms)).toEqual(new Set(terms))

      tell(
        `${count} rounds of ${processes}: ${order.length} terms, mints a round ${[...mints].sort((a, b) => a - b).join(' ')}, ` +
          `first leads after ${firstLedMs.map((ms) => ms.toFixed(0)).join(' ')} ms`,
      )
    },
    60_000 + count * 20_000,
  )

  test('every process ends by itself with exit code 0', async () => {
    for (const member of members) member.endInput()
    expect(await Promise.all(members.map(({ ended }) => ended))).toEqual(members.map(() => ({ code: 0, signal: null })))
  })
})

/** Resolves when somebody leads and everybody else is in the roster. */
async function everybodyWaits(observer: CoordinationClient, role: string): Promise<void> {
  for (;;) {
    const { state, roster } = await observer.describe(role)
    if (state === 'held' && roster.length === processes - 1) return
    await delay(20)
  }
}

/** Each mint of a transactional id is one step of its epoch, which begins at 0. */
function mintsBetween(before: CoordinatorView, after: CoordinatorView): number {
  if (!after.found) throw new Error('the coordinator knows no producer of the role')
  if (!before.found) return after.producerEpoch + 1
  if (before.producerId !== after.producerId) throw new Error('the producer id was rotated: mints cannot be counted')
  return after.producerEpoch - before.producerEpoch
}

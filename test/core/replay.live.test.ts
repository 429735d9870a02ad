/**
 * What a starting process pays for a log that nobody has cleaned: renewals by the ten thousands, one record a batch as they are written, or a
 * million, ten a batch. The numbers stand beside the topic's settings in the design page.
 */
import { Kafka, logLevel } from 'kafkajs'
import { describe, expect, test } from 'vitest'
import { encodeTerm, termHeader } from '../../src/format/headers.js'
import { describeWithKafka, freshName } from '../kafka/suites.js'
import { Child } from '../support/child.js'
import { rounds, tell } from '../support/form.js'
import { kinds } from '../support/kinds.js'
import { HandWriter, leaseRecord, makeTopic } from './hand-writer.js'
import type { ReplaySetup } from './programs/replay.js'

const batches = rounds(10_000, 100_000)
/** A million records, in a time in which they can be written: renewals are one record a batch. */
const recordsOfBatch = rounds(1, 10)
const renewals = batches * recordsOfBatch
/** Ten times the aim of 15 s and 250 MB for two million. */
const longestMs = (150_000 * renewals) / 2_000_000 + 10_000
const mostBytes = 2.5e9

describe.each(kinds())('on $name', ({ name: kindName, kind }) => {
  describeWithKafka('a fresh process', kind, (cluster) => {
    test(`reads ${renewals} renewals and says who holds the role`, async () => {
      const { bootstrap } = cluster()
      const kafka = new Kafka({ brokers: [...bootstrap], logLevel: logLevel.NOTHING })
      const topic = await makeTopic(kafka)
      const role = freshName('role')
      const hand = await HandWriter.open(bootstrap, role)
      try {
        const lease = leaseRecord(role, hand.pair, { lengthMs: 60_000n })
        const [term = -1n] = await hand.transaction(topic, [[lease]])
        const renewal = { ...lease, headers: [[termHeader, encodeTerm(term)]] as const }
        const inOneTransaction = 5_000
        const batch = Array.from({ length: recordsOfBatch }, () => renewal)
        for (let left = batches; left > 0; left -= inOneTransaction) {
          await hand.transaction(
            topic,
            Array.from({ length: Math.min(left, inOneTransaction) }, () => batch),
          )
        }
        const setup: ReplaySetup = { brokers: bootstrap, topic, role, timeoutMs: longestMs }
        const child = Child.start('test/core/programs/replay.js', { arguments: [JSON.stringify(setup)] })
        const said = await child.next('described', longestMs + 10_000)
        expect(await child.ended).toEqual({ code: 0, signal: null })
        const token = `${hand.pair.producerId}:${hand.pair.producerEpoch}`
        expect(said.status).toMatchObject({ holder: 'hand', token, term: String(term), authority: 'current' })
        const { tookMs, rssBefore, rssHighest } = said as unknown as Record<string, number>
        tell(
          `${kindName}: ${renewals} renewals in ${batches} batches were read in ${Number(tookMs).toFixed(0)} ms; memory went from ${inMb(rssBefore)} to ${inMb(rssHighest)} MB`,
        )
        expect(tookMs).toBeLessThan(longestMs)
        expect(rssHighest).toBeLessThan(mostBytes)
      } finally {
        hand.close()
      }
    }, 900_000)
  })
})

function inMb(bytes: number | undefined): string {
  return ((bytes ?? Number.NaN) / 1e6).toFixed(0)
}

/**
 * Many members of one role in one process, each a client of its own: they wait behind whoever leads until they are killed together.
 *
 * Started with one argument, a `CrowdSetup` as JSON. It says `waiting` once all of them are in the queue.
 */
import { setTimeout as delay } from 'node:timers/promises'
import { Kafka, logLevel } from 'kafkajs'
import { CoordinationClient, type LeaseOptions } from '../../../src/index.js'

export interface CrowdSetup extends LeaseOptions {
  readonly brokers: readonly string[]
  readonly topic: string
  readonly role: string
  readonly count: number
}

const { brokers, role, count, ...options }: CrowdSetup = JSON.parse(process.argv[2] ?? '')

const clients = Array.from({ length: count }, (_, index) => {
  const kafka = new Kafka({ brokers: [...brokers], logLevel: logLevel.NOTHING })
  return new CoordinationClient({ kafka, memberId: `crowd-${index}`, ...options })
})
const [first] = clients
if (first === undefined) throw new Error('a crowd of nobody')
for (const client of clients) void client.acquire(role)
for (;;) {
  const { roster } = await first.describe(role)
  if (roster.length >= count) break
  await delay(20)
}
console.log(JSON.stringify({ event: 'waiting', members: count }))

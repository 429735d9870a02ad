/** A fresh process that asks once who holds a role, and says how long that took and what memory it cost. */
import { Kafka, logLevel } from 'kafkajs'
import { CoordinationClient } from '../../../src/index.js'

/** What it is told, as JSON in its first argument. */
export interface ReplaySetup {
  readonly brokers: readonly string[]
  readonly topic: string
  readonly role: string
  readonly timeoutMs: number
}

const { brokers, topic, role, timeoutMs }: ReplaySetup = JSON.parse(process.argv[2] ?? '')
const client = new CoordinationClient({
  kafka: new Kafka({ brokers: [...brokers], logLevel: logLevel.NOTHING }),
  topic,
  memberId: 'replay',
})
const rssBefore = process.memoryUsage.rss()
let rssHighest = rssBefore
const sampling = setInterval(() => {
  rssHighest = Math.max(rssHighest, process.memoryUsage.rss())
}, 10)
const startedAt = performance.now()
const status = await client.describe(role, { timeoutMs })
const tookMs = performance.now() - startedAt
clearInterval(sampling)
rssHighest = Math.max(rssHighest, process.memoryUsage.rss())
console.log(JSON.stringify({ event: 'described', status, tookMs, rssBefore, rssHighest }))
await client.close()

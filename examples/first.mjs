// The first program: one leader among as many copies of it as you like to start.
//
//   KAFKA_BROKERS=localhost:9092 node examples/first.mjs
//
// Start it twice. The first copy leads and greets, the second one waits. Press Ctrl-C in the first, and the second one
// leads at once; kill the first one with kill -9, and the second one leads when the lease of 30 s has run out.

import { setTimeout as delay } from 'node:timers/promises'
import { Kafka, logLevel } from 'kafkajs'
import { CoordinationClient } from 'mandate'

const brokers = (process.env.KAFKA_BROKERS ?? 'localhost:9092').split(',')
// kafkajs throws what it logs, and more quietly.
const kafka = new Kafka({ brokers, logLevel: logLevel.NOTHING })

// Topics of guarded records are yours to make; only the coordination topic is made by the library.
const admin = kafka.admin()
await admin.connect()
await admin.createTopics({ topics: [{ topic: 'greetings', numPartitions: 1 }] })
await admin.disconnect()

const client = new CoordinationClient({ kafka })
const stop = new AbortController()
process.once('SIGINT', () => stop.abort())

console.log(`${client.memberId} waits for its turn`)

// `lead` calls the function each time this process has become the leader, and never twice at a time.
await client.lead(
  'greeter',
  async (leadership) => {
    console.log(`leading: term ${leadership.term}, token ${leadership.token}`)
    // The signal aborts when the leadership is lost, or when `stop` says so.
    for (let n = 1; !leadership.signal.aborted; n += 1) {
      // A guarded write: once another process leads, the broker refuses it and `send` throws.
      const [position] = await leadership.send({ topic: 'greetings', messages: [{ value: `hello ${n}` }] })
      console.log(`sent: hello ${n}, at offset ${position.offset}`)
      await delay(1000, undefined, { signal: leadership.signal }).catch(() => {})
    }
  },
  { signal: stop.signal },
)

// `lead` has resigned, so that the next process need not wait for the lease to run out.
await client.close()
console.log('resigned')

/**
 * Many acquires in one process, to see what they leave behind: `waits` that share one signal, then `rounds` of acquire and resign of one
 * role. Needs `node --expose-gc`.
 *
 * Started with one argument, a `RoundsSetup` as JSON. It says what it counted as `waited` and `measured` events, each warning of the
 * process as `warning`, closes its clients and ends by itself. With `leak` it keeps something for each round, as a control.
 */
import { setTimeout as delay } from 'node:timers/promises'
import { Kafka, logLevel } from 'kafkajs'
import { CoordinationClient } from '../../../src/index.js'

export interface RoundsSetup {
  readonly brokers: readonly string[]
  readonly topic: string
  readonly waits: number
  readonly rounds: number
  /** Bytes to keep for each round, and a listener on the one signal: 0 for the real thing. */
  readonly leak: number
}

/** What the process holds on to. */
export interface Holding {
  readonly round: number
  readonly heapBytes: number
  readonly sockets: number
  readonly timers: number
}

const setup: RoundsSetup = JSON.parse(process.argv[2] ?? '')
const { brokers, topic } = setup
const collectGarbage = globalThis.gc
if (collectGarbage === undefined) throw new Error('start node with --expose-gc')

const say = (event: string, fields: object): void => console.log(JSON.stringify({ event, ...fields }))
process.on('warning', ({ name, message }) => say('warning', { name, message }))

const clientOf = (memberId: string): CoordinationClient =>
  new CoordinationClient({ kafka: new Kafka({ brokers: [...brokers], logLevel: logLevel.NOTHING }), topic, memberId })

function holding(round: number): Holding {
  collectGarbage?.()
  collectGarbage?.()
  const resources = process.getActiveResourcesInfo()
  const count = (name: string): number => resources.filter((resource) => resource === name).length
  return {
    round,
    heapBytes: process.memoryUsage().heapUsed,
    sockets: count('TCPSocketWrap'),
    timers: count('Timeout'),
  }
}

const shared = new AbortController()
const client = clientOf('rounds')

const other = clientOf('holder')
const roles = Array.from({ length: setup.waits }, (_, index) => `${topic}.waits.${index}`)
await Promise.all(roles.map((role) => other.acquire(role)))
const reason = new Error('enough')
const waits = roles.map((role) => client.acquire(role, { signal: shared.signal }))
const settled = Promise.allSettled(waits)
for (const role of roles) while ((await other.describe(role)).roster.length === 0) await delay(5)
shared.abort(reason)
const outcomes = await settled
await other.close()
const rejected = outcomes.filter((outcome) => outcome.status === 'rejected' && outcome.reason === reason).length
say('waited', { rejected })

const kept: unknown[] = []
const signal = new AbortController().signal
const role = `${topic}.rounds`
const measured: Holding[] = []
for (let round = 0; round <= setup.rounds; round += 1) {
  const leadership = await client.acquire(role, { signal })
  const outcome = await leadership.resign()
  if (outcome !== 'resigned') throw new Error(`round ${round} ended with ${outcome}`)
  if (setup.leak > 0) {
    kept.push(Buffer.alloc(setup.leak).toString('hex'))
    signal.addEventListener('abort', () => kept.push(round))
  }
  if (round % Math.ceil(setup.rounds / 10) === 0) measured.push(holding(round))
}
say('measured', { measured, kept: kept.length })
await client.close()
say('closed', { resources: process.getActiveResourcesInfo() })

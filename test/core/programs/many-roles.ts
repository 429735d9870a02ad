/**
 * One client with very many roles: it acquires them all at once and says what that costs the process, now and when asked.
 *
 * Started with one argument, a `ManyRolesSetup` as JSON. Says `led` with each role that it leads, `all` once it leads them all, and a
 * `cost` event for each line on its standard input; ends by itself when the input has ended.
 */
import { createHook } from 'node:async_hooks'
import { monitorEventLoopDelay } from 'node:perf_hooks'
import { createInterface } from 'node:readline'
import { Kafka, logLevel } from 'kafkajs'
import type { LeaseOptions } from '../../../src/index.js'
import { CoordinationClient } from '../../../src/index.js'

export interface ManyRolesSetup extends LeaseOptions {
  readonly brokers: readonly string[]
  readonly topic: string
  readonly memberId: string
  readonly roles: readonly string[]
}

/** What the process cost since it was asked last, or since it began. */
export interface Cost {
  readonly elapsedMs: number
  readonly cpuMs: number
  readonly loopDelayP99Ms: number
  readonly loopDelayMaxMs: number
  readonly timersSet: number
  readonly sockets: number
  readonly heapBytes: number
  readonly led: number
  readonly lost: number
  readonly isHealthy: boolean
  /** The longest time since a renewal was confirmed, over all roles that are led. */
  readonly longestConfirmedMsAgo: number
}

const { brokers, roles, ...options }: ManyRolesSetup = JSON.parse(process.argv[2] ?? '')
const say = (event: string, fields: object): void => console.log(JSON.stringify({ event, ...fields }))

let timersSet = 0
createHook({
  init: (_id, type) => {
    if (type === 'Timeout') timersSet += 1
  },
}).enable()

const delays = monitorEventLoopDelay({ resolution: 5 })
delays.enable()
let since = performance.now()
let cpu = process.cpuUsage()
let led = 0
let lost = 0

function cost(): Cost {
  const used = process.cpuUsage(cpu)
  const now = performance.now()
  const health = client.health()
  const told: Cost = {
    elapsedMs: now - since,
    cpuMs: (used.user + used.system) / 1_000,
    loopDelayP99Ms: delays.percentile(99) / 1e6,
    loopDelayMaxMs: delays.max / 1e6,
    timersSet,
    sockets: process.getActiveResourcesInfo().filter((name) => name === 'TCPSocketWrap').length,
    heapBytes: process.memoryUsage().heapUsed,
    led,
    lost,
    isHealthy: health.isHealthy,
    longestConfirmedMsAgo: Math.max(0, ...health.roles.map(({ confirmedMsAgo = 0 }) => confirmedMsAgo)),
  }
  since = now
  cpu = process.cpuUsage()
  timersSet = 0
  delays.reset()
  return told
}

const kafka = new Kafka({ brokers: [...brokers], logLevel: logLevel.NOTHING })
const client = new CoordinationClient({ kafka, ...options })
const input = createInterface({ input: process.stdin })
input.on('line', () => say('cost', { cost: cost() }))
input.on('close', () => void client.close({ timeoutMs: 30_000 }))
await Promise.all(
  roles.map(async (role) => {
    try {
      const leadership = await client.acquire(role)
      led += 1
      leadership.signal.addEventListener('abort', () => {
        lost += 1
      })
      say('led', { role, token: leadership.token.toString(), term: leadership.term.toString() })
    } catch (error) {
      say('failed', { role, message: error instanceof Error ? error.message : String(error) })
    }
  }),
)
say('all', { cost: cost() })

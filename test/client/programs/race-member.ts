/**
 * A process that contends for a role when it is told to: the program of the race and hand-over suites.
 *
 * Commands, one JSON line each: `prepare` opens a client of its own, `contend` goes for the role, `resign` gives it up, `stop` ends
 * whatever is under way and closes the client. Its end of input ends it. Instants (`at`) are of the machine's monotonic clock, so that
 * they can be compared between processes.
 */
import { createInterface } from 'node:readline'
import { Kafka, logLevel } from 'kafkajs'
import { CoordinationClient, isCoordinationError, type Leadership } from '../../../src/index.js'

interface Settings {
  readonly bootstrap: readonly string[]
  readonly topic: string
  readonly leaseMs: number
  readonly commands: string
}

type Command =
  | { readonly do: 'prepare'; readonly memberId: string }
  /** With `write`, it writes guarded records for as long as it leads. */
  | { readonly do: 'contend'; readonly role: string; readonly write: boolean }
  | { readonly do: 'resign' }
  | { readonly do: 'stop' }

const { bootstrap, topic, leaseMs, commands }: Settings = JSON.parse(process.argv[2] ?? '{}')

let client: CoordinationClient | undefined
let leadership: Leadership | undefined
let writing: Promise<void> = Promise.resolve()
let contending: Promise<void> = Promise.resolve()
let giveUp = new AbortController()

function say(event: string, fields: object = {}): void {
  process.stdout.write(`${JSON.stringify({ event, at: now(), ...fields })}\n`)
}

function now(): number {
  return Number(process.hrtime.bigint()) / 1e6
}

function codeOf(error: unknown): string {
  return isCoordinationError(error) ? error.code : String(error)
}

function prepare(memberId: string): void {
  const kafka = new Kafka({ brokers: [...bootstrap], logLevel: logLevel.NOTHING })
  client = new CoordinationClient({ kafka, memberId, topic, leaseMs })
  giveUp = new AbortController()
  say('ready')
}

async function contend(role: string, write: boolean): Promise<void> {
  if (client === undefined) throw new Error('contend came before prepare')
  try {
    leadership = await client.acquire(role, { signal: giveUp.signal })
  } catch (error) {
    if (error !== giveUp.signal.reason) throw error
    say('gave-up')
    return
  }
  const led = leadership
  say('led', led.toJSON())
  led.signal.addEventListener('abort', () => say('ended', { code: codeOf(led.signal.reason) }), { once: true })
  if (write) writing = writeWhileLeading(led)
}

async function writeWhileLeading(led: Leadership): Promise<void> {
  let written = 0
  try {
    while (!giveUp.signal.aborted) {
      await led.send({ topic: commands, messages: [{ partition: 0, value: `${led.memberId}:${written}` }] })
      written += 1
    }
  } catch (error) {
    say('refused', { code: codeOf(error) })
  }
  say('wrote', { written, term: led.term.toString() })
}

async function resign(): Promise<void> {
  if (leadership === undefined) throw new Error('resign came before a term')
  const calledAt = now()
  say('resigned', { outcome: await leadership.resign(), calledAt })
  leadership = undefined
}

async function stop(): Promise<void> {
  giveUp.abort(new Error('told to stop'))
  await contending
  await writing
  const outcome = (await leadership?.resign()) ?? 'never-led'
  await client?.close()
  leadership = client = undefined
  say('stopped', { outcome })
}

createInterface({ input: process.stdin }).on('line', (line) => {
  const command: Command = JSON.parse(line)
  switch (command.do) {
    case 'prepare':
      prepare(command.memberId)
      break
    case 'contend':
      contending = contend(command.role, command.write)
      break
    case 'resign':
      void resign()
      break
    case 'stop':
      void stop()
      break
  }
})
say('started')

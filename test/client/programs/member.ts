/**
 * A member as a process of its own: one client that does what it is told in JSON lines and says what came of it.
 *
 * Started with one argument, a `MemberSetup` as JSON. Each command is answered once by an `answer` event with its `id`; what happens by
 * itself comes as events of its own. `at` is in ms on the machine's monotonic clock, so instants of several processes compare.
 * It never calls process.exit: it ends when its input has ended and its client is closed.
 */

import diagnosticsChannel from 'node:diagnostics_channel'
import { createInterface } from 'node:readline'
import { setTimeout as delay } from 'node:timers/promises'
import { Kafka, logLevel } from 'kafkajs'
import type { GuardedOffsets, GuardedRecord, Leadership, LeaseOptions, TransactionScope } from '../../../src/index.js'
import { CoordinationClient, diagnosticChannelName, isCoordinationError } from '../../../src/index.js'
import type { Runtime } from '../../../src/runtime.js'
import { systemRuntime } from '../../../src/runtime.js'
import { aborted } from '../../support/aborted.js'

export interface MemberSetup extends LeaseOptions {
  readonly brokers: readonly string[]
  readonly memberId: string
  readonly topic?: string
  readonly requestTimeoutMs?: number
  /** How much faster than the machine's its clock runs (default 1): above 1 it deposes leaders that are alive. */
  readonly clockRate?: number
}

/** What a `transact` callback does, in order. With `caught`, its failure is noted as the step's result and the next step follows. */
export type Step = { readonly caught?: boolean } & (
  | { readonly do: 'send'; readonly record: GuardedRecord }
  /** A send that the callback does not wait for. */
  | { readonly do: 'sendUnawaited'; readonly record: GuardedRecord }
  | { readonly do: 'sendOffsets'; readonly offsets: GuardedOffsets }
  | { readonly do: 'throw'; readonly message: string }
  /** Says `holding`, and goes on at the command `go` of that name. */
  | { readonly do: 'hold'; readonly name: string }
  | { readonly do: 'wait'; readonly ms: number }
  /** `leadership.send` within the callback. */
  | { readonly do: 'sendOutside'; readonly record: GuardedRecord }
  /** `leadership.transact` within the callback. */
  | { readonly do: 'nest' }
  /** `leadership.renew` within the callback. */
  | { readonly do: 'renew' }
  /** `leadership.resign` within the callback. */
  | { readonly do: 'resign' }
)

export type Command =
  | { readonly do: 'acquire' | 'tryAcquire'; readonly role: string; readonly options?: LeaseOptions }
  /** Ends a running `acquire` or `lead` of the role by its signal. */
  | { readonly do: 'abort'; readonly role: string; readonly reason: string }
  /** Leads for ever; each term is told as `leading`. Its work writes to `writeTo`, if that is given, until the term ends. */
  | { readonly do: 'lead'; readonly role: string; readonly options?: LeaseOptions; readonly writeTo?: string }
  | { readonly do: 'send'; readonly role: string; readonly record: GuardedRecord }
  | {
      readonly do: 'transact'
      readonly role: string
      readonly steps: readonly Step[]
      readonly timeoutMs?: number
    }
  | { readonly do: 'go'; readonly name: string }
  /** `send` or `sendOffsets` of the last `transact`'s transaction, after its end. */
  | { readonly do: 'sendLate'; readonly record: GuardedRecord }
  | { readonly do: 'renew' | 'resign' | 'remainingMs' | 'describe'; readonly role: string }
  | { readonly do: 'checkToken'; readonly role: string; readonly token: string }
  /** Blocks the event loop; in the same tick reads `remainingMs` and starts `send` of `record`, `transact` and `renew`. */
  | { readonly do: 'block'; readonly role: string; readonly ms: number; readonly record: GuardedRecord }
  /** `times` times: a renewal, and a guarded write of `value` to `topic`, by `send` and by `transact` in turn. */
  | { readonly do: 'renewAndWrite'; readonly role: string; readonly topic: string; readonly times: number }
  /** Writes to `topic` without a pause until refused, telling each write. */
  | { readonly do: 'write'; readonly role: string; readonly topic: string }
  | { readonly do: 'close' }

/** A failure as it travels: the fields of a `CoordinationError`, or name and message of any other. */
export type MemberFailure = { readonly name: string; readonly message: string; readonly code?: string } & {
  readonly [field: string]: unknown
}

/** How many writes a refused writer tries after the first refusal. */
const triesAfterRefusal = 2

const setup: MemberSetup = JSON.parse(process.argv[2] ?? '')
const client = openClient(setup)
const leaderships = new Map<string, Leadership>()
const waits = new Map<string, AbortController>()
const holds = new Map<string, () => void>()
let lastTransaction: TransactionScope | undefined
let writes = 0

const now = (): number => Number(process.hrtime.bigint()) / 1e6

function openClient({ brokers, clockRate, ...options }: MemberSetup): CoordinationClient {
  const kafka = new Kafka({ brokers: [...brokers], logLevel: logLevel.NOTHING })
  const runtime = clockRate === undefined ? systemRuntime : atRate(clockRate)
  return new CoordinationClient({ kafka, runtime, ...options })
}

function atRate(rate: number): Runtime {
  const monotonicStart = systemRuntime.monotonicNow()
  const wallStart = systemRuntime.wallNow()
  const gained = (): number => (systemRuntime.monotonicNow() - monotonicStart) * rate
  return {
    ...systemRuntime,
    monotonicNow: () => monotonicStart + gained(),
    wallNow: () => wallStart + gained(),
    setTimer: (delayMs, callback) => systemRuntime.setTimer(delayMs / rate, callback),
  }
}

function say(event: string, fields: object): void {
  const line = { event, at: now(), ...fields }
  console.log(JSON.stringify(line, (_key, value: unknown) => (typeof value === 'bigint' ? value.toString() : value)))
}

function failure(error: unknown): MemberFailure {
  if (isCoordinationError(error)) return { ...error.toJSON(), name: error.name, message: error.message }
  if (error instanceof Error) return { name: error.name, message: error.message }
  return { name: typeof error, message: String(error) }
}

function leadershipOf(role: string): Leadership {
  const leadership = leaderships.get(role)
  if (leadership === undefined) throw new Error(`this member has never led '${role}'`)
  return leadership
}

function lead(role: string, leadership: Leadership): void {
  leaderships.set(role, leadership)
  leadership.signal.addEventListener('abort', () => {
    say('over', {
      ...leadership.toJSON(),
      error: failure(leadership.signal.reason),
      remainingMs: leadership.remainingMs(),
    })
  })
}

function waitFor(role: string): AbortSignal {
  const wait = new AbortController()
  waits.set(role, wait)
  return wait.signal
}

let worksRunning = 0

async function leadForEver(role: string, options: LeaseOptions, writeTo: string | undefined): Promise<void> {
  await client.lead(
    role,
    async (leadership) => {
      lead(role, leadership)
      worksRunning += 1
      say('leading', { ...leadership.toJSON(), worksRunning })
      if (writeTo !== undefined) await writeUntilRefused(leadership, writeTo)
      if (!leadership.signal.aborted) {
        await aborted(leadership.signal)
      }
      worksRunning -= 1
    },
    { ...options, signal: waitFor(role) },
  )
}

async function writeUntilRefused(leadership: Leadership, topic: string): Promise<number> {
  let committed = 0
  for (let refused = 0; refused <= triesAfterRefusal && !isWoundUp(leadership); ) {
    writes += 1
    const value = `${setup.memberId}-${writes}`
    const startedAt = now()
    try {
      const [position] = await writeOnce(leadership, topic, value, writes)
      committed += 1
      say('wrote', { value, startedAt, term: leadership.term, offset: position?.offset })
    } catch (error) {
      refused += 1
      say('refused', { value, startedAt, term: leadership.term, error: failure(error) })
    }
  }
  return committed
}

/** Whether `lead`'s caller, and not a loss, ended the work. */
function isWoundUp({ signal }: Leadership): boolean {
  return signal.aborted && !isCoordinationError(signal.reason)
}

function writeOnce(leadership: Leadership, topic: string, value: string, turn: number): ReturnType<Leadership['send']> {
  const record = { topic, messages: [{ key: 'k', value }] }
  return turn % 2 === 0 ? leadership.send(record) : leadership.transact((transaction) => transaction.send(record))
}

async function renewAndWrite(leadership: Leadership, topic: string, times: number): Promise<unknown> {
  const tokens = new Set<string>()
  const terms = new Set<bigint>()
  const positions: unknown[] = []
  for (let turn = 0; turn < times; turn++) {
    await leadership.renew()
    const [position] = await writeOnce(leadership, topic, `${setup.memberId}-${turn}`, turn)
    positions.push(position)
    tokens.add(leadership.token.toString())
    terms.add(leadership.term)
  }
  return { tokens: [...tokens], terms: [...terms], positions }
}

async function runSteps(
  leadership: Leadership,
  transaction: TransactionScope,
  steps: readonly Step[],
): Promise<unknown> {
  lastTransaction = transaction
  const results: unknown[] = []
  for (const step of steps) {
    try {
      results.push((await runStep(leadership, transaction, step)) ?? null)
    } catch (error) {
      if (step.caught !== true) throw error
      results.push(failure(error))
    }
  }
  return results
}

async function runStep(leadership: Leadership, transaction: TransactionScope, step: Step): Promise<unknown> {
  switch (step.do) {
    case 'send':
      return await transaction.send(step.record)
    case 'sendUnawaited':
      void transaction.send(step.record)
      return
    case 'sendOffsets':
      return await transaction.sendOffsets(step.offsets)
    case 'throw':
      throw new RangeError(step.message)
    case 'hold':
      return await new Promise<void>((resolve) => {
        holds.set(step.name, resolve)
        say('holding', { name: step.name })
      })
    case 'wait':
      return await delay(step.ms)
    case 'sendOutside':
      return await leadership.send(step.record)
    case 'nest':
      return await leadership.transact(async () => undefined)
    case 'renew':
      return await leadership.renew()
    case 'resign':
      return await leadership.resign()
  }
}

async function block(leadership: Leadership, ms: number, record: GuardedRecord): Promise<unknown> {
  const before = leadership.remainingMs()
  const until = now() + ms
  while (now() < until);
  const after = leadership.remainingMs()
  const outcomes = [leadership.send(record), leadership.transact((tx) => tx.send(record)), leadership.renew()]
  const signalled = leadership.signal.aborted
  const settled = await Promise.allSettled(outcomes)
  const errors = settled.map((outcome) => (outcome.status === 'rejected' ? failure(outcome.reason) : null))
  await delay(0)
  return { before, after, signalled, errors, signalledNextTurn: leadership.signal.aborted }
}

async function obey(command: Command): Promise<unknown> {
  switch (command.do) {
    case 'acquire':
    case 'tryAcquire': {
      const { role, options = {} } = command
      const leadership = await client[command.do](role, { ...options, signal: waitFor(role) })
      if (leadership !== undefined) lead(role, leadership)
      return leadership
    }
    case 'abort':
      return waits.get(command.role)?.abort(new Error(command.reason))
    case 'lead':
      return await leadForEver(command.role, command.options ?? {}, command.writeTo)
    case 'send':
      return await leadershipOf(command.role).send(command.record)
    case 'transact': {
      const leadership = leadershipOf(command.role)
      const { steps, timeoutMs } = command
      const options = timeoutMs === undefined ? {} : { timeoutMs }
      return await leadership.transact((transaction) => runSteps(leadership, transaction, steps), options)
    }
    case 'go':
      return holds.get(command.name)?.()
    case 'sendLate':
      return await lastTransaction?.send(command.record)
    case 'renew':
      return await leadershipOf(command.role).renew()
    case 'resign':
      return await leadershipOf(command.role).resign()
    case 'remainingMs':
      return leadershipOf(command.role).remainingMs()
    case 'describe':
      return await client.describe(command.role)
    case 'checkToken':
      return await client.checkToken(command.role, command.token)
    case 'block':
      return await block(leadershipOf(command.role), command.ms, command.record)
    case 'renewAndWrite':
      return await renewAndWrite(leadershipOf(command.role), command.topic, command.times)
    case 'write':
      return await writeUntilRefused(leadershipOf(command.role), command.topic)
    case 'close':
      return await client.close()
  }
}

for (const name of ['acquired', 'renewed', 'renewal-late', 'lost', 'resigned'] as const) {
  diagnosticsChannel.subscribe(diagnosticChannelName(name), (message) => {
    const { error, ...fields } = Object(message)
    say(name, error === undefined ? fields : { ...fields, error: failure(error) })
  })
}

say('ready', { pid: process.pid })
for await (const line of createInterface({ input: process.stdin })) {
  const { id, ...command }: { id: number } & Command = JSON.parse(line)
  const startedAt = now()
  obey(command).then(
    (value) => say('answer', { id, startedAt, value: value ?? null }),
    (error: unknown) => say('answer', { id, startedAt, error: failure(error) }),
  )
}
await client.close()

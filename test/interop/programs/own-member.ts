/**
 * A member of this library that speaks the protocol of the ports' members (fleet-member.ts), so that in a mixed fleet all are alike.
 *
 * Beyond it: `status` tells what `describe` says of state and authority too. Its stop is the library's clean one. A contention
 * that fails for good ends the process with exit code 1.
 */
import { createInterface } from 'node:readline'
import { setTimeout as delay } from 'node:timers/promises'
import { Kafka, logLevel } from 'kafkajs'
import { CoordinationClient, isCoordinationError, type Leadership } from '../../../src/index.js'
import { aborted } from '../../support/aborted.js'
import type { FleetCommand, FleetMemberSetup, FleetStatus, Written } from '../fleet-member.js'

const setup: FleetMemberSetup = JSON.parse(process.argv[2] ?? '')
const client = new CoordinationClient({
  kafka: new Kafka({ brokers: [...setup.bootstrap], logLevel: logLevel.NOTHING }),
  memberId: setup.memberId,
  topic: setup.topic,
  leaseMs: setup.leaseMs,
  renewIntervalMs: setup.renewMs,
  staggerMs: setup.staggerMs,
})

let leading: Leadership | undefined
let giveUp = new AbortController()
let contention: Promise<void> | undefined

function say(event: string, fields: object = {}): void {
  process.stdout.write(`${JSON.stringify({ event, ...fields })}\n`)
}

function contend(): void {
  if (contention !== undefined) return
  giveUp = new AbortController()
  contention = client.lead(setup.role, work, { signal: giveUp.signal })
}

async function work(leadership: Leadership): Promise<void> {
  const { signal } = leadership
  const token = leadership.token.toString()
  leading = leadership
  signal.addEventListener('abort', () => {
    leading = undefined
    // Anything else is this program's own giving up.
    if (isCoordinationError(signal.reason)) say('lost', { token, reason: signal.reason.code })
  })
  say('leading', { token, at: Date.now() })
  if (setup.commands !== undefined) await writeUntilOver(leadership, setup.commands, setup.writeEveryMs ?? 100)
  await aborted(signal)
}

/** One guarded record after the other. A write that fails is told on standard error; the term's end, by `lost`. */
async function writeUntilOver(leadership: Leadership, topic: string, everyMs: number): Promise<void> {
  const token = leadership.token.toString()
  for (let n = 1; !leadership.signal.aborted; ) {
    const written: Written = { member: setup.memberId, token, n }
    try {
      await leadership.send({
        topic,
        messages: [{ key: setup.memberId, value: JSON.stringify(written), partition: 0 }],
      })
      say('wrote', { n, token })
      n += 1
    } catch (error) {
      if (!isCoordinationError(error)) throw error
      process.stderr.write(`write ${n} under ${token}: ${error.code}: ${error.message}\n`)
    }
    await delay(everyMs, undefined, { signal: leadership.signal }).catch(() => undefined)
  }
}

async function resign(): Promise<string> {
  if (leading === undefined) throw new Error('it does not lead')
  const token = leading.token.toString()
  giveUp.abort(new Error('told to resign'))
  await contention
  contention = undefined
  say('resigned', { token, at: Date.now() })
  return 'resigned'
}

async function status(): Promise<FleetStatus & { readonly state: string; readonly authority: string }> {
  const { holder, token, term, lease, roster, state, authority } = await client.describe(setup.role)
  return {
    holder: holder ?? null,
    token: token?.toString() ?? null,
    term: term?.toString() ?? null,
    deadline: lease?.deadline.toString() ?? null,
    roster: roster.map(({ memberId, offset, rank }) => ({ memberId, offset: offset.toString(), rank })),
    state,
    authority,
  }
}

async function obey(command: FleetCommand): Promise<unknown> {
  switch (command.do) {
    case 'status':
      return await status()
    case 'resign':
      return await resign()
    case 'contend':
      return contend()
    case 'stop':
      return input.close()
  }
}

const input = createInterface({ input: process.stdin })
say('ready')
contend()
for await (const line of input) {
  const { id, ...command }: { readonly id: number } & FleetCommand = JSON.parse(line)
  obey(command).then(
    (value) => say('answer', { id, value: value ?? null }),
    (error: unknown) => say('answer', { id, error: { name: String(Object(error).name), message: String(error) } }),
  )
}
await client.close()

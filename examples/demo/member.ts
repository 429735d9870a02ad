/**
 * One of the demo's processes: contends for the role, and sends guarded commands for as long as it leads.
 *
 * It tells of every write how it ended, whatever that is, and judges nothing. Its standard output is JSON lines (events.ts), its
 * standard input commands; it winds up when the input ends, so it does not outlive the demo.
 */
import { createInterface } from 'node:readline'
import { Kafka, logLevel } from 'kafkajs'
import { CoordinationClient, isCoordinationError, type Leadership } from '../../src/index.js'
import { type MemberCommand, type MemberEvent, type MemberTask, machineNow, writeHeader } from './events.js'

/** Each so-many-th write is a transaction that its own callback gives up after the record has been sent. */
const changesItsMindEvery = 20

const task: MemberTask = JSON.parse(process.argv[2] ?? '{}')
const kafka = new Kafka({ clientId: task.memberId, brokers: [...task.brokers], logLevel: logLevel.NOTHING })
const client = new CoordinationClient({
  kafka,
  memberId: task.memberId,
  topic: task.coordinationTopic,
  leaseMs: 3_000,
  renewIntervalMs: 1_000,
  staggerMs: 500,
})

class ChangedItsMind extends Error {}

const stopping = new AbortController()
const resigning = new AbortController()
let held: Leadership | undefined
let writes = 0

function say(event: MemberEvent): void {
  process.stdout.write(`${JSON.stringify(event)}\n`)
}

/** Sends one guarded command, alternating between pumps, and tells how it ended. Never throws. */
async function write(leadership: Leadership, afterWaking: boolean): Promise<void> {
  writes += 1
  const id = `${task.memberId}/${writes}`
  const common = { id, term: leadership.term.toString(), afterWaking }
  const message = {
    key: `pump-${writes % 4}`,
    value: writes % 8 < 4 ? 'open' : 'close',
    headers: { [writeHeader]: id },
  }
  const record = { topic: task.commandsTopic, messages: [message] }
  const startedAt = machineNow()
  try {
    if (writes % changesItsMindEvery === 0 && !afterWaking) {
      await leadership.transact(async (transaction) => {
        await transaction.send(record)
        throw new ChangedItsMind()
      })
      return
    }
    const [position] = await leadership.send(record)
    const durationMs = machineNow() - startedAt
    if (position === undefined) throw new Error('a committed write has no position')
    const { partition, offset } = position
    say({
      event: 'write',
      write: { ...common, outcome: 'committed', partition, offset: offset.toString(), durationMs },
    })
  } catch (error) {
    const outcome = outcomeOf(error)
    const code = isCoordinationError(error) ? error.code : 'changed its mind'
    say({ event: 'write', write: { ...common, outcome, code, durationMs: machineNow() - startedAt } })
  }
}

function outcomeOf(error: unknown): 'aborted' | 'refused' | 'unknown' {
  if (error instanceof ChangedItsMind) return 'aborted'
  if (!isCoordinationError(error)) throw error
  if (error.code === 'COMMIT_UNKNOWN') return 'unknown'
  return error.code === 'TRANSACTION_ABORTED' ? 'aborted' : 'refused'
}

async function lead(leadership: Leadership): Promise<void> {
  held = leadership
  say({ event: 'acquired', at: machineNow(), token: leadership.token.toString(), term: leadership.term.toString() })
  const over = AbortSignal.any([leadership.signal, resigning.signal])
  // Without a pause, so that whatever stops this process stops it in mid-writing.
  while (!over.aborted) {
    await write(leadership, false)
  }
  if (resigning.signal.aborted) say({ event: 'resigning', at: machineNow() })
}

const commands = createInterface({ input: process.stdin })
commands.on('line', (line) => {
  const command: MemberCommand = JSON.parse(line)
  if (command.do === 'resign') resigning.abort()
  else if (command.do === 'end') stopping.abort()
  else if (held !== undefined) void write(held, true)
})
commands.on('close', () => stopping.abort())

await client.lead(task.role, lead, { signal: stopping.signal })
await client.close()
process.stdin.destroy()

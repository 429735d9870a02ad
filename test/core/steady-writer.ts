/**
 * Leads a role for ever and writes one guarded record after the other, keeping what it was told of each; and judges by the raw log
 * whether that was true.
 *
 * The judgement must not believe the library: it reads the log's bytes and markers, and the history only says what was promised.
 */
import { setTimeout as delay } from 'node:timers/promises'
import { headerText, type RawRecord, readCommittedLog } from '../../examples/demo/raw-log.js'
import type { CoordinationClient, Leadership } from '../../src/index.js'
import { isCoordinationError } from '../../src/index.js'

/** What a caller was told of one write. */
export interface Told {
  readonly value: string
  readonly term: bigint
  /** Instants in ms on this process's monotonic clock. */
  readonly startedAt: number
  readonly at: number
  /** `ack`, or the code of the error. */
  readonly outcome: string
  readonly offset: bigint | undefined
  readonly message: string | undefined
}

/** One term, and the error with which it ended; undefined while it goes on, or when the writer was stopped. */
export interface TermLed {
  readonly token: string
  readonly term: bigint
  readonly begunAt: number
  endedBy: unknown
  /** When it ended; undefined as `endedBy`. */
  endedAt: number | undefined
}

/** Between two writes, so that a machine that runs brokers too has time for them. */
const pauseMs = 5

interface Wait {
  readonly holds: () => boolean
  readonly resolve: () => void
}

/** A role that is led and written under until `stop`. */
export class SteadyWriter {
  readonly role: string
  readonly topic: string
  readonly told: Told[] = []
  readonly terms: TermLed[] = []
  readonly #stop = new AbortController()
  readonly #leading: Promise<unknown>
  readonly #waits = new Set<Wait>()

  constructor(client: CoordinationClient, role: string, topic: string) {
    this.role = role
    this.topic = topic
    this.#leading = client.lead(role, (leadership) => this.#work(leadership), { signal: this.#stop.signal })
    this.#leading.catch(() => undefined)
  }

  get acked(): readonly Told[] {
    return this.told.filter(({ outcome }) => outcome === 'ack')
  }

  /** Resolves when `count` writes that were begun after now are acknowledged. */
  async goesOn(count: number, timeoutMs: number): Promise<void> {
    const from = performance.now()
    await this.#until(
      () => this.told.filter(({ outcome, startedAt }) => outcome === 'ack' && startedAt >= from).length >= count,
      timeoutMs,
      `${count} more writes`,
    )
  }

  /** The longest time without an acknowledgement between `from` and the last one, in ms. */
  longestGapMs(from: number): number {
    let last = from
    let longest = 0
    for (const { at } of this.acked) {
      if (at < from) continue
      longest = Math.max(longest, at - last)
      last = at
    }
    return longest
  }

  /** Ends the writing, resigns, and rejects with what `lead` threw. */
  async stop(): Promise<void> {
    this.#stop.abort(new Error('enough'))
    await this.#leading
  }

  async #work(leadership: Leadership): Promise<void> {
    const term: TermLed = {
      token: leadership.token.toString(),
      term: leadership.term,
      begunAt: performance.now(),
      endedBy: undefined,
      endedAt: undefined,
    }
    this.terms.push(term)
    leadership.signal.addEventListener('abort', () => {
      if (!isCoordinationError(leadership.signal.reason)) return
      term.endedBy = leadership.signal.reason
      term.endedAt = performance.now()
    })
    for (let turn = 0; !leadership.signal.aborted; turn++) {
      await this.#write(leadership, turn)
      for (const wait of [...this.#waits]) if (wait.holds()) wait.resolve()
      await delay(pauseMs)
    }
  }

  async #write(leadership: Leadership, turn: number): Promise<void> {
    const value = `${this.role} ${leadership.term} ${turn}`
    const record = { topic: this.topic, messages: [{ value, partition: 0 }] }
    const startedAt = performance.now()
    let outcome = 'ack'
    let offset: bigint | undefined
    let message: string | undefined
    try {
      const [position] = await (turn % 2 === 0
        ? leadership.send(record)
        : leadership.transact((transaction) => transaction.send(record)))
      offset = position?.offset
    } catch (error) {
      outcome = isCoordinationError(error) ? error.code : String(error)
      message = error instanceof Error ? error.message : undefined
    }
    const { term } = leadership
    this.told.push({ value, term, startedAt, at: performance.now(), outcome, offset, message })
  }

  #until(holds: () => boolean, timeoutMs: number, what: string): Promise<void> {
    return new Promise((resolve, reject) => {
      const settle = (finish: () => void): void => {
        clearTimeout(timer)
        this.#waits.delete(wait)
        finish()
      }
      const wait: Wait = { holds, resolve: () => settle(resolve) }
      const timer = setTimeout(
        () => settle(() => reject(new Error(`'${this.role}' had no ${what} within ${timeoutMs} ms: ${this.#tail()}`))),
        timeoutMs,
      )
      this.#waits.add(wait)
    })
  }

  #tail(): string {
    const last = this.told
      .slice(-5)
      .map(({ outcome, at, message }) => `${outcome} at ${at.toFixed(0)} ${message ?? ''}`)
    return `now ${performance.now().toFixed(0)}; ${last.join(' | ')}`
  }
}

/** What is wrong between what the writer was told and what the log holds of it; empty when all is well. */
export function findings(
  { told, terms }: Pick<SteadyWriter, 'told' | 'terms'>,
  log: readonly RawRecord[],
): readonly string[] {
  const found: string[] = []
  const committed = new Map<string, RawRecord[]>()
  let newestTerm = -1n
  const order: string[] = []
  for (const record of log) {
    const value = String(record.value)
    if (record.outcome === 'open') found.push(`${value} is open`)
    if (record.outcome !== 'committed') continue
    committed.set(value, [...(committed.get(value) ?? []), record])
    order.push(value)
    const term = BigInt(headerText(record, 'mandate-term') ?? '-1')
    if (term < newestTerm) found.push(`${value} of term ${term} lies behind term ${newestTerm}`)
    newestTerm = term
  }
  for (const { value, outcome, offset } of told) {
    const copies = committed.get(value) ?? []
    if (copies.length > 1) found.push(`${value} is there ${copies.length} times`)
    if (outcome === 'ack' && copies.length === 0) found.push(`${value} was acknowledged and is lost`)
    if (outcome === 'ack' && copies[0] !== undefined && copies[0].offset !== offset) {
      found.push(`${value} is at ${copies[0].offset}, and ${offset} was told`)
    }
    if (outcome !== 'ack' && outcome !== 'COMMIT_UNKNOWN' && copies.length > 0) {
      found.push(`${value} is committed, and ${outcome} was told`)
    }
  }
  const written = new Set(told.map(({ value }) => value))
  for (const value of committed.keys()) if (!written.has(value)) found.push(`${value} was never written`)
  const rank = new Map(told.map(({ value }, index) => [value, index]))
  if (order.some((value, index) => index > 0 && (rank.get(value) ?? 0) < (rank.get(order[index - 1] ?? '') ?? 0))) {
    found.push('the log has another order than the writes')
  }
  for (const [index, { term }] of terms.entries()) {
    const before = terms[index - 1]
    if (before !== undefined && term <= before.term) found.push(`term ${term} follows ${before.term}`)
  }
  return found
}

/** `findings` of the writer by the whole log of its topic, which nobody else writes. */
export async function findingsOf(bootstrap: readonly string[], writer: SteadyWriter): Promise<readonly string[]> {
  return findings(writer, await readCommittedLog(bootstrap, writer.topic))
}

/** The codes with which the writer's terms ended, from an instant on. */
export function endsOf({ terms }: Pick<SteadyWriter, 'terms'>, from: number = 0): readonly string[] {
  return terms.flatMap(({ endedBy, endedAt = 0 }) =>
    isCoordinationError(endedBy) && endedAt >= from ? [endedBy.code] : [],
  )
}

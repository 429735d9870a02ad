/**
 * What the suites of doubt share: a member that leads for ever with every term of it, what a caller was told against what the log
 * holds, and every request that went over a proxy.
 */

import { setTimeout as delay } from 'node:timers/promises'
import { Kafka, logLevel } from 'kafkajs'
import { expect } from 'vitest'
import type { RawRecord } from '../../examples/demo/raw-log.js'
import { CoordinationClient, isCoordinationError, type Leadership } from '../../src/index.js'
import { aborted } from '../support/aborted.js'
import type { FrameProxy, ProxiedRequest } from '../support/frame-proxy.js'
import { type Pair, pairIn } from '../support/hand-made.js'
import { lookAt } from '../support/look.js'

export interface LeaderOptions {
  readonly bootstrap: readonly string[]
  /** The coordination topic. */
  readonly topic: string
  readonly role: string
  readonly memberId: string
  readonly leaseMs: number
  readonly requestTimeoutMs: number
}

/** What the caller of the faulty operation was told. */
export type Told = 'done' | 'unknown' | 'failed'

export async function told(outcome: Promise<unknown>): Promise<{ readonly told: Told; readonly error: unknown }> {
  try {
    await outcome
    return { told: 'done', error: undefined }
  } catch (error) {
    return { told: isCoordinationError(error, 'COMMIT_UNKNOWN') ? 'unknown' : 'failed', error }
  }
}

/** A member that leads for ever, and every term of it in order. */
export class Leader {
  readonly terms: { readonly leadership: Leadership; readonly ledAt: number; endedAt: number | undefined }[] = []
  readonly client: CoordinationClient
  readonly #stop = new AbortController()
  readonly #waiting: (() => void)[] = []
  readonly #done: Promise<unknown>

  constructor({ bootstrap, role, ...options }: LeaderOptions) {
    const kafka = new Kafka({ brokers: [...bootstrap], logLevel: logLevel.NOTHING })
    this.client = new CoordinationClient({ kafka, partitions: 1, ...options })
    this.#done = this.client.lead(
      role,
      async (leadership) => {
        const term = { leadership, ledAt: performance.now(), endedAt: undefined as number | undefined }
        this.terms.push(term)
        for (const wake of this.#waiting.splice(0)) wake()
        if (!leadership.signal.aborted) {
          await aborted(leadership.signal)
        }
        term.endedAt = performance.now()
      },
      { signal: this.#stop.signal },
    )
    this.#done.catch(() => undefined)
  }

  /** The n-th term, once it leads. */
  async term(n: number): Promise<Leadership> {
    for (;;) {
      const term = this.terms[n - 1]
      if (term !== undefined) return term.leadership
      await Promise.race([
        new Promise<void>((resolve) => this.#waiting.push(resolve)),
        this.#done.then(() => Promise.reject(new Error('lead ended'))),
      ])
    }
  }

  /** The newest term, which has not ended. */
  async current(): Promise<Leadership> {
    const newest = this.terms.at(-1)?.leadership
    return newest === undefined || newest.signal.aborted ? await this.term(this.terms.length + 1) : newest
  }

  /** How long nobody led between each two terms, in ms. */
  get gaps(): readonly number[] {
    return this.terms.slice(1).map(({ ledAt }, index) => ledAt - (this.terms[index]?.endedAt ?? Number.NaN))
  }

  async close(): Promise<void> {
    this.#stop.abort()
    await this.#done
    await this.client.close()
  }
}

/** Notes every request of the proxy's client, in order of arrival. */
export function recorded(proxy: FrameProxy): readonly ProxiedRequest[] {
  const requests: ProxiedRequest[] = []
  const note = (request: ProxiedRequest): boolean => {
    requests.push(request)
    return false
  }
  proxy.rule({ when: note, times: Number.POSITIVE_INFINITY }, { do: 'drop' })
  return requests
}

/** The requests that add to, and so may begin, a transaction under a token. */
export function additionsUnder(requests: readonly ProxiedRequest[], token: string): readonly ProxiedRequest[] {
  return requests.filter((request) => {
    if (request.api !== 'AddPartitionsToTxn' && request.api !== 'AddOffsetsToTxn') return false
    return textOf(pairIn(request)) === token
  })
}

export function textOf(pair: Pair | undefined): string | undefined {
  return pair === undefined ? undefined : `${pair.producerId}:${pair.producerEpoch}`
}

export function outcomesOf(log: readonly RawRecord[], value: string): readonly string[] {
  return log.filter((record) => String(record.value) === value).map(({ outcome }) => outcome)
}

/** "Done" means there once, "failed" means not there, "unknown" means at most once. */
export function expectTruth(log: readonly RawRecord[], value: string, said: Told): void {
  const committed = outcomesOf(log, value).filter((outcome) => outcome === 'committed')
  if (said === 'unknown') expect(committed.length, `${value}: unknown`).toBeLessThanOrEqual(1)
  else expect(committed.length, `${value}: ${said}`).toBe(said === 'done' ? 1 : 0)
  expect(outcomesOf(log, value), 'nothing hangs').not.toContain('open')
}

/** Resolves when somebody waits for the role. */
export async function untilWaiting(client: CoordinationClient, role: string): Promise<void> {
  for (;;) {
    const { roster } = await client.describe(role)
    if (roster.length > 0) return
  }
}

/** Resolves when the coordinator has written the markers of the role's last transaction, so that it answers nobody with 51. */
export async function untilSettled(bootstrap: readonly string[], role: string): Promise<void> {
  while ((await lookAt(bootstrap, role)).state.startsWith('Prepare')) await delay(1)
}

/**
 * The two schedules on which requests are repeated, and the bound on every repetition.
 *
 * It must not decide whether a request may be repeated: `error-table.ts` and the flows do.
 */
import { whenAborted } from '../linked-signal.js'
import type { Runtime } from '../runtime.js'
import { sleep } from '../runtime.js'
import { OperatingFailure } from './operating-failure.js'

/** Where a wait ends: a monotonic instant, and perhaps a signal. */
export interface Bound {
  /** Nothing more is sent after this monotonic instant. */
  readonly deadline: number
  /**
   * How long an answer to what was sent before it is still waited for; default the deadline. A request that times out takes its
   * channel down, with whatever other roles have in flight on it, so a caller's short patience must not be a request's deadline.
   */
  readonly answersUntil?: number
  readonly signal?: AbortSignal
}

/** When a request that is sent now has to be answered. */
export function requestDeadline(runtime: Runtime, requestTimeoutMs: number, bound: Bound): number {
  return Math.min(bound.answersUntil ?? bound.deadline, runtime.monotonicNow() + requestTimeoutMs)
}

const concurrentTransactionsDelaysMs = [0, 1, 1, 2, 5, 10, 20] as const

/**
 * How long to wait before repetition `attempt` (from 0) of a request that was answered CONCURRENT_TRANSACTIONS. Short, because on
 * a quiet replicated coordinator each request is what moves the transaction on; else it takes 300 to 600 ms.
 */
export function concurrentTransactionsDelayMs(attempt: number): number {
  return concurrentTransactionsDelaysMs[attempt] ?? 20
}

/** A back-off that doubles from 20 ms to 1 s, with jitter of a half, for repetition `attempt` (from 0). */
export function backoffMs(runtime: Runtime, attempt: number): number {
  const ceiling = Math.min(20 * 2 ** Math.min(attempt, 10), 1_000)
  return ceiling / 2 + runtime.random() * (ceiling / 2)
}

/**
 * Waits `delayMs`, or to the bound's deadline where that is earlier; rejects with the signal's reason on abort. A delay of 0 waits
 * for nothing.
 */
export async function pause(runtime: Runtime, delayMs: number, bound: Bound): Promise<void> {
  bound.signal?.throwIfAborted()
  if (delayMs <= 0) return
  await sleep(runtime, Math.min(delayMs, Math.max(0, bound.deadline - runtime.monotonicNow())), bound.signal)
}

/** A wait that ends when somebody says so, and else by its bound. */
export interface Waiting<T> {
  readonly ended: Promise<T>
  resolve(value: T): void
  reject(error: unknown): void
}

/** A wait that rejects with the signal's reason on abort, and with the error of `late` at the bound's deadline. */
export function waitWithin<T>(runtime: Runtime, { deadline, signal }: Bound, late: () => unknown): Waiting<T> {
  signal?.throwIfAborted()
  let resolve: (value: T) => void = () => undefined
  let reject: (error: unknown) => void = () => undefined
  const settled = new Promise<T>((...settlers) => {
    ;[resolve, reject] = settlers
  })
  const timer = runtime.setTimer(deadline - runtime.monotonicNow(), () => reject(late()))
  const unlink = signal === undefined ? undefined : whenAborted(signal, () => reject(signal.reason))
  const ended = settled.finally(() => {
    timer.cancel()
    unlink?.()
  })
  return { ended, resolve, reject }
}

/** The answer, unless the bound ends first; what was asked then goes on to its own deadline, for others share its channel. */
export async function withinTime<T>(runtime: Runtime, answer: Promise<T>, bound: Bound): Promise<T> {
  answer.catch(() => undefined)
  const wait = waitWithin<T>(runtime, bound, () => new OperatingFailure('it was not answered in time'))
  answer.then(wait.resolve, wait.reject)
  return await wait.ended
}

/** Whether the bound's deadline has passed. */
export function isPast(runtime: Runtime, bound: Bound): boolean {
  return runtime.monotonicNow() >= bound.deadline
}

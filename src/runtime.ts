/**
 * The seam for time, timers and randomness: the only file of the library that reads a clock, sets a timer or draws a
 * random number (held by lint). Everything else takes a `Runtime`, so that it runs unchanged on virtual time.
 *
 * It must not know anything of Kafka, roles or leases.
 */
import { randomBytes } from 'node:crypto'
import { hostname } from 'node:os'
import { performance } from 'node:perf_hooks'
import { whenAborted } from './linked-signal.js'

/** A timer that has been set and may be cancelled; cancelling it again does nothing. */
export interface Timer {
  cancel(): void
}

/** What a process can know of time and chance. */
export interface Runtime {
  /** Milliseconds on a clock that only runs forward; its zero means nothing. */
  monotonicNow(): number
  /** Milliseconds since 1970 on the wall clock, which may jump. */
  wallNow(): number
  /**
   * Calls `callback` once, when `monotonicNow` has advanced by at least `delayMs`, never earlier. A timer that is set keeps the process
   * alive.
   */
  setTimer(delayMs: number, callback: () => void): Timer
  /** `length` random bytes, fit for identities. */
  randomBytes(length: number): Uint8Array
  /** A number in 0..1 (1 excluded), fit for jitter. */
  random(): number
  /** A name of this process that differs from every other process's: host, process id and 8 random hex digits. */
  processName(): string
}

const longestTimerMs = 2 ** 31 - 1

/** The clock, timers and randomness of this machine. */
export const systemRuntime: Runtime = {
  monotonicNow: () => performance.now(),
  wallNow: () => Date.now(),
  setTimer(delayMs, callback) {
    const dueAt = performance.now() + delayMs
    let handle: NodeJS.Timeout
    const arm = (): void => {
      handle = setTimeout(fire, Math.min(Math.max(Math.ceil(dueAt - performance.now()), 0), longestTimerMs))
    }
    // Node counts whole milliseconds from a clock that it reads once per turn, so a timeout can come a little early.
    const fire = (): void => {
      if (performance.now() >= dueAt) callback()
      else arm()
    }
    arm()
    return { cancel: () => clearTimeout(handle) }
  },
  randomBytes: (length) => new Uint8Array(randomBytes(length)),
  random: () => Math.random(),
  processName: () => `${hostname()}-${process.pid}-${randomBytes(4).toString('hex')}`,
}

/**
 * Resolves after `delayMs`, or rejects with `signal.reason` as soon as `signal` aborts.
 *
 * Resolves in the timer's own turn, so the caller should read the clock again rather than assume it slept exactly as long.
 */
export function sleep(runtime: Runtime, delayMs: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal?.aborted) {
      reject(signal.reason)
      return
    }
    const timer = runtime.setTimer(delayMs, () => {
      unlink?.()
      resolve()
    })
    const unlink =
      signal === undefined
        ? undefined
        : whenAborted(signal, () => {
            timer.cancel()
            reject(signal.reason)
          })
  })
}

/**
 * Notices that the machine was suspended: once a second the wall clock is compared with the monotonic one, which stands still meanwhile.
 *
 * One timer for all leaderships of a client. It must not decide what a jump means.
 */
import type { Runtime, Timer } from '../runtime.js'

/** A difference between both clocks that is taken for a jump, in ms. */
export const clockJumpMs = 1_000

const intervalMs = 1_000

/** How far the wall clock is ahead of the monotonic one, in ms. */
export function clockOffset(runtime: Runtime): number {
  return runtime.wallNow() - runtime.monotonicNow()
}

/** Calls its listeners when the clocks have moved apart. */
export class ClockWatch {
  readonly #runtime: Runtime
  readonly #listeners = new Set<() => void>()
  #timer: Timer | undefined
  #offset = 0

  constructor(runtime: Runtime) {
    this.#runtime = runtime
  }

  listen(jumped: () => void): () => void {
    this.#listeners.add(jumped)
    if (this.#timer === undefined) {
      this.#offset = clockOffset(this.#runtime)
      this.#arm()
    }
    return () => {
      this.#listeners.delete(jumped)
      if (this.#listeners.size > 0) return
      this.#timer?.cancel()
      this.#timer = undefined
    }
  }

  #arm(): void {
    this.#timer = this.#runtime.setTimer(intervalMs, () => {
      const offset = clockOffset(this.#runtime)
      const jumped = Math.abs(offset - this.#offset) > clockJumpMs
      this.#offset = offset
      this.#arm()
      if (jumped) for (const listener of [...this.#listeners]) listener()
    })
  }
}

/** A runtime whose clock moves by hand only, for deadlines that must not wait for the wall. */
import { type Runtime, systemRuntime, type Timer } from '../../src/runtime.js'

export class ManualRuntime implements Runtime {
  #now = 1000
  readonly #timers = new Set<{ readonly at: number; readonly callback: () => void }>()

  /** Timers that are set and not cancelled. */
  get pendingTimers(): number {
    return this.#timers.size
  }

  /** Moves the clock and calls what is due, in order. */
  advance(ms: number): void {
    const end = this.#now + ms
    for (;;) {
      const due = [...this.#timers].filter(({ at }) => at <= end).sort((one, other) => one.at - other.at)[0]
      if (due === undefined) break
      this.#timers.delete(due)
      this.#now = Math.max(this.#now, due.at)
      due.callback()
    }
    this.#now = end
  }

  /** Moves the clock without calling any timer, as a process sees it that was stopped. */
  leap(ms: number): void {
    this.#now += ms
  }

  monotonicNow(): number {
    return this.#now
  }

  wallNow(): number {
    return this.#now
  }

  setTimer(delayMs: number, callback: () => void): Timer {
    const timer = { at: this.#now + delayMs, callback }
    this.#timers.add(timer)
    return { cancel: () => this.#timers.delete(timer) }
  }

  randomBytes(length: number): Uint8Array {
    return systemRuntime.randomBytes(length)
  }

  random(): number {
    return systemRuntime.random()
  }

  processName(): string {
    return systemRuntime.processName()
  }
}

/**
 * Time that moves only by hand: clock, timers and chance for tests of everything above the connection seam.
 *
 * `pass` moves it and lets promises settle in between, so that a flow runs through its waits in the order it would in life.
 * It must not read any real clock.
 */
import type { Runtime, Timer } from '../../src/runtime.js'

interface ArmedTimer {
  readonly at: number
  readonly order: number
  readonly callback: () => void
}

/** Lets everything run that waits for promises only. */
export async function settled(): Promise<void> {
  for (let turn = 0; turn < 3; turn++) await new Promise((resolve) => setImmediate(resolve))
}

export class ManualRuntime implements Runtime {
  #now = 1_000
  #wallAhead = 1_700_000_000_000
  #order = 0
  #randomBytes = 0
  readonly #timers = new Set<ArmedTimer>()

  /** Timers that are set and neither called nor cancelled. */
  get pendingTimers(): number {
    return this.#timers.size
  }

  /** Moves time on, timer by timer, and lets promises settle before, between and after. */
  async pass(ms: number): Promise<void> {
    const end = this.#now + ms
    for (;;) {
      await settled()
      const next = this.#next()
      if (next === undefined || next.at > end) break
      this.#now = Math.max(this.#now, next.at)
      this.#timers.delete(next)
      next.callback()
    }
    this.#now = end
    await settled()
  }

  /** Passes time until `done` says so; gives up after `mostMs`. */
  async passUntil(done: () => boolean, mostMs: number): Promise<void> {
    const end = this.#now + mostMs
    await settled()
    while (!done()) {
      const next = this.#next()
      if (next === undefined || next.at > end) throw new Error(`nothing more happens within ${mostMs} ms`)
      await this.pass(Math.max(0, next.at - this.#now))
    }
  }

  /** The clock moves and no timer is called: what a stopped process sees, or one whose event loop is blocked. */
  leap(ms: number): void {
    this.#now += ms
  }

  /** The wall clock is set forward. */
  stepWall(ms: number): void {
    this.#wallAhead += ms
  }

  monotonicNow(): number {
    return this.#now
  }

  wallNow(): number {
    return this.#now + this.#wallAhead
  }

  setTimer(delayMs: number, callback: () => void): Timer {
    const timer: ArmedTimer = { at: this.#now + Math.max(0, delayMs), order: this.#order++, callback }
    this.#timers.add(timer)
    return { cancel: () => void this.#timers.delete(timer) }
  }

  /** Different at each call. */
  randomBytes(length: number): Uint8Array {
    this.#randomBytes += 1
    return new Uint8Array(length).fill(this.#randomBytes)
  }

  random(): number {
    return 0.5
  }

  processName(): string {
    return 'manual-1-00000000'
  }

  #next(): ArmedTimer | undefined {
    let next: ArmedTimer | undefined
    for (const timer of this.#timers) {
      if (next === undefined || timer.at < next.at || (timer.at === next.at && timer.order < next.order)) next = timer
    }
    return next
  }
}

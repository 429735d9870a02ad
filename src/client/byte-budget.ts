/**
 * A bound on bytes that wait: callers beyond it wait their turn, first come first served.
 *
 * It must not know what the bytes are.
 */
import { whenAborted } from '../linked-signal.js'

interface Waiter {
  readonly bytes: number
  readonly enter: () => void
}

/** A number of bytes that may be taken at a time. One caller alone may always enter, however much it brings. */
export class ByteBudget {
  readonly #most: number
  #taken = 0
  readonly #waiting: Waiter[] = []

  constructor(most: number) {
    this.#most = most
  }

  /** Resolves with a function that gives the bytes back, or rejects with the signal's reason. */
  take(bytes: number, signal: AbortSignal): Promise<() => void> {
    return new Promise((resolve, reject) => {
      let unlisten: () => void = () => undefined
      const enter = (): void => {
        this.#taken += bytes
        unlisten()
        resolve(() => this.#give(bytes))
      }
      const onAbort = (): void => {
        this.#waiting.splice(this.#waiting.indexOf(waiter), 1)
        reject(signal.reason)
        this.#admit()
      }
      const waiter: Waiter = { bytes, enter }
      if (this.#waiting.length === 0 && this.#fits(bytes)) {
        enter()
        return
      }
      if (signal.aborted) {
        reject(signal.reason)
        return
      }
      this.#waiting.push(waiter)
      unlisten = whenAborted(signal, onAbort)
    })
  }

  #fits(bytes: number): boolean {
    return this.#taken === 0 || this.#taken + bytes <= this.#most
  }

  #give(bytes: number): void {
    this.#taken -= bytes
    this.#admit()
  }

  #admit(): void {
    for (let next = this.#waiting[0]; next !== undefined && this.#fits(next.bytes); next = this.#waiting[0]) {
      this.#waiting.shift()
      next.enter()
    }
  }
}

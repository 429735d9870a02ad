/**
 * The times of one term on its holder's monotonic clock: until when the lease lasts, when the next renewal is due, and how long a
 * transaction may take.
 *
 * It sets the timers and reads the clock; clocks decide when to renew and when to stop, never whether a write counts (I6). It must not
 * renew or end a term: it says when.
 */
import type { LeasePolicy } from '../election/policy.js'
import type { Runtime, Timer } from '../runtime.js'
import { clockJumpMs, clockOffset } from './clock-watch.js'

/** Called when an instant has come; each may come more than once. */
export interface LeaseClockEvents {
  renewalDue(): void
  /** Half a lease has passed without a confirmed renewal; once per renewal. */
  late(sinceConfirmedMs: number): void
  expired(): void
}

/** The clock of one term, from its first lease until it is stopped. */
export class LeaseClock {
  readonly #runtime: Runtime
  readonly #policy: LeasePolicy
  readonly #events: LeaseClockEvents
  #deadline: number
  #confirmedAt: number
  #offset: number
  #renewAt: number
  #isLate = false
  /** A renewal failed since the last confirmed one: the next has its instant, whatever the clocks show. */
  #isRetrying = false
  #renewTimer: Timer | undefined
  #deadlineTimer: Timer | undefined
  #state: 'ready' | 'renewing' | 'ending' | 'stopped' = 'ready'

  constructor(runtime: Runtime, policy: LeasePolicy, deadline: number, events: LeaseClockEvents) {
    this.#runtime = runtime
    this.#policy = policy
    this.#events = events
    this.#deadline = deadline
    this.#confirmedAt = runtime.monotonicNow()
    this.#offset = clockOffset(runtime)
    // A first interval of a random part spreads the renewals of many roles over it.
    this.#renewAt = this.#confirmedAt + policy.renewIntervalMs * (0.5 + runtime.random() / 2)
  }

  /** Monotonic instant until which the lease lasts. */
  get deadline(): number {
    return this.#deadline
  }

  get isExpired(): boolean {
    return this.#runtime.monotonicNow() >= this.#deadline
  }

  /** Ms until the deadline; 0 after the machine was suspended, until a renewal is confirmed. */
  get remainingMs(): number {
    return this.#hasJumped ? 0 : Math.max(0, this.#deadline - this.#runtime.monotonicNow())
  }

  /** Ms since a renewal was confirmed, or the first lease. */
  get confirmedMsAgo(): number {
    return this.#runtime.monotonicNow() - this.#confirmedAt
  }

  get isRenewalDue(): boolean {
    return this.#runtime.monotonicNow() >= this.#renewAt || (this.#hasJumped && !this.#isRetrying)
  }

  get isRenewalHalfDue(): boolean {
    return this.#runtime.monotonicNow() >= this.#renewAt - this.#policy.renewIntervalMs / 2
  }

  /** The last instant at which a transaction may still be at work, so that a renewal has the rest of the lease. */
  get budgetDeadline(): number {
    return this.#deadline - (this.#policy.leaseMs - this.#policy.renewIntervalMs) / 3
  }

  /** Begins to tell. */
  start(): void {
    this.#state = 'renewing'
    this.#arm()
  }

  /** Tells of no further renewals: the term is being given up. */
  stopRenewals(): void {
    if (this.#state !== 'stopped') this.#state = 'ending'
    this.#arm()
  }

  /** Tells nothing more. */
  stop(): void {
    this.#state = 'stopped'
    this.#renewTimer?.cancel()
    this.#deadlineTimer?.cancel()
  }

  /**
   * A lease is committed: it lasts one length from the moment before it was first sent, which is earlier than anybody else saw it, and
   * the next is due one interval after `startedAt`.
   */
  confirm(sentAt: number, startedAt: number): void {
    this.#deadline = Math.max(this.#deadline, sentAt + this.#policy.leaseMs)
    this.#confirmedAt = this.#runtime.monotonicNow()
    this.#offset = clockOffset(this.#runtime)
    this.#renewAt = startedAt + this.#policy.renewIntervalMs
    this.#isLate = false
    this.#isRetrying = false
    this.#arm()
  }

  /** Makes the next renewal due in `delayMs`. */
  renewIn(delayMs: number): void {
    this.#renewAt = this.#runtime.monotonicNow() + delayMs
    this.#arm()
  }

  /** A renewal failed: the next is due in `delayMs` and not before. */
  retryIn(delayMs: number): void {
    this.#isRetrying = true
    this.renewIn(delayMs)
  }

  get #hasJumped(): boolean {
    return Math.abs(clockOffset(this.#runtime) - this.#offset) > clockJumpMs
  }

  #arm(): void {
    this.#renewTimer?.cancel()
    this.#deadlineTimer?.cancel()
    if (this.#state === 'ready' || this.#state === 'stopped') return
    const now = this.#runtime.monotonicNow()
    if (this.#state === 'renewing') {
      this.#renewTimer = this.#runtime.setTimer(this.#renewAt - now, () => this.#events.renewalDue())
    }
    const lateAt = this.#confirmedAt + this.#policy.leaseMs / 2
    const next = this.#isLate ? this.#deadline : Math.min(this.#deadline, lateAt)
    this.#deadlineTimer = this.#runtime.setTimer(next - now, () => this.#deadlineIsNear())
  }

  #deadlineIsNear(): void {
    if (this.isExpired) {
      this.#events.expired()
      return
    }
    this.#isLate = true
    this.#arm()
    this.#events.late(this.#runtime.monotonicNow() - this.#confirmedAt)
  }
}

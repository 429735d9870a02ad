/**
 * The times of a lease: how long it lasts, how often it is renewed, how far apart challengers stand, and when the broker
 * aborts the transaction of a dead holder.
 *
 * Checks values and their relations before any I/O. It must not know any clock. Every rule of this folder that waits takes
 * its lengths from here.
 */
import { coordinationError } from '../errors.js'

/** Lengths in milliseconds, each a positive whole number. */
export interface LeasePolicy {
  /** How long a lease holds others back after its receipt. */
  readonly leaseMs: number
  /** How often the holder renews. */
  readonly renewIntervalMs: number
  /** The distance between the slots of neighbours in the roster. */
  readonly staggerMs: number
  /** After this time the broker aborts a transaction that its holder left open. */
  readonly transactionTimeoutMs: number
}

/** The longest lease: 15 minutes, the default of the broker's `transaction.max.timeout.ms`. */
export const longestLeaseMs = 900_000

const defaultLeaseMs = 30_000
const longestTransactionTimeoutMs = 2 ** 31 - 1

/**
 * A policy from what the user gave. Defaults: lease 30 s, renewal a third and stagger a sixth of the lease, transaction
 * timeout as long as the lease.
 *
 * @throws `CONFIG` naming option, value and limit, when a value is no positive whole number, or unless
 * renewIntervalMs < leaseMs <= 15 min, staggerMs <= leaseMs <= transactionTimeoutMs.
 */
export function leasePolicy(options: { readonly [Option in keyof LeasePolicy]?: number | undefined }): LeasePolicy {
  const leaseMs = checked('leaseMs', options.leaseMs ?? defaultLeaseMs, longestLeaseMs)
  const renewIntervalMs = checked('renewIntervalMs', options.renewIntervalMs ?? part(leaseMs, 3), longestLeaseMs)
  const staggerMs = checked('staggerMs', options.staggerMs ?? part(leaseMs, 6), longestLeaseMs)
  const transactionTimeoutMs = checked(
    'transactionTimeoutMs',
    options.transactionTimeoutMs ?? leaseMs,
    longestTransactionTimeoutMs,
  )
  if (renewIntervalMs >= leaseMs) {
    refuse('renewIntervalMs', renewIntervalMs, `must be below leaseMs (${leaseMs}); a third of it leaves a margin`)
  }
  if (staggerMs > leaseMs) refuse('staggerMs', staggerMs, `must not be above leaseMs (${leaseMs})`)
  if (transactionTimeoutMs < leaseMs) {
    refuse('transactionTimeoutMs', transactionTimeoutMs, `must not be below leaseMs (${leaseMs})`)
  }
  return { leaseMs, renewIntervalMs, staggerMs, transactionTimeoutMs }
}

/** Whether two renewals may fail before the lease runs out: the interval is at most a third of the lease. */
export function renewsWithMargin(policy: LeasePolicy): boolean {
  return policy.renewIntervalMs * 3 <= policy.leaseMs
}

function part(leaseMs: number, divisor: number): number {
  return Math.max(1, Math.floor(leaseMs / divisor))
}

function checked(option: keyof LeasePolicy, value: unknown, limit: number): number {
  if (typeof value !== 'number' || !Number.isInteger(value) || value < 1 || value > limit) {
    return refuse(option, value, `must be a whole number of milliseconds from 1 to ${limit}`)
  }
  return value
}

function refuse(option: keyof LeasePolicy, value: unknown, rule: string): never {
  throw coordinationError('CONFIG', `${option} is ${String(value)}, but ${rule}`, { option })
}

/**
 * What a client does for each of its roles, and whether that goes well: kept as it happens, told without a request.
 *
 * It is for probes and pages. It must not decide anything: a term ends and a contention goes on whatever is told here.
 */
import type { LeasePolicy } from '../election/policy.js'
import { type WithJson, withJson } from '../format/json.js'
import type { Role } from '../format/names.js'
import type { FencingToken } from '../format/token.js'
import type { Runtime } from '../runtime.js'
import { longestBackoffMs } from './lead.js'

/**
 * - `leading`: a term of this process.
 * - `standing-by`: it contends for the role.
 * - `between-terms`: `lead` has lost a term and begins anew once its work has settled and a short back-off is over.
 * - `stopped`: nothing contends for the role any more, since a term was lost or a contention failed, and nobody asked for that.
 */
export type RoleActivity = 'leading' | 'standing-by' | 'between-terms' | 'stopped'

interface RoleHealthFields {
  readonly role: Role
  readonly activity: RoleActivity
  readonly isHealthy: boolean
  /** Why it is not healthy. */
  readonly problem?: string
  /** Of the term, while leading. */
  readonly token?: FencingToken
  readonly term?: bigint
  /** Ms until the own deadline, while leading. */
  readonly remainingMs?: number
  /** Ms since a renewal was confirmed, while leading. */
  readonly confirmedMsAgo?: number
  /** Ms since the role's partition gave its last answer, while standing by; undefined before the first. */
  readonly heardMsAgo?: number
  /** The last thing that went wrong, whether it matters still or not. */
  readonly lastError?: { readonly message: string; readonly code?: string; readonly msAgo: number }
}

/** The health of one role. Prints as JSON, 64-bit numbers as text. */
export type RoleHealth = WithJson<RoleHealthFields>

interface ClientHealthFields {
  /** Every role is healthy, and the client is open. */
  readonly isHealthy: boolean
  readonly roles: readonly RoleHealth[]
}

/** The health of a client. Prints as JSON. */
export type ClientHealth = WithJson<ClientHealthFields>

/** What a term tells of itself. */
export interface TermHealth {
  readonly token: FencingToken
  readonly term: bigint
  readonly remainingMs: number
  readonly confirmedMsAgo: number
  /** Why its last transaction failed, and when; undefined after a renewal that succeeded. */
  readonly lastFailure: { readonly error: unknown; readonly msAgo: number } | undefined
}

/** What a contention tells of itself, as it happens. */
export interface Campaign {
  /** A step failed and is repeated. */
  failed(error: unknown): void
  /** A step succeeded. */
  succeeded(): void
  /** The role was won: `term` tells of it from now on. */
  led(term: () => TermHealth): void
  /** The contention or its term came to an end that nobody asked for. */
  stopped(error: unknown): void
  /** It came to an end that was asked for. */
  gone(): void
}

interface Entry {
  readonly policy: LeasePolicy
  readonly heardAt: () => number | undefined
  readonly beganAt: number
  activity: 'leading' | 'standing-by' | 'stopped'
  changedAt: number
  failingSince: number | undefined
  lastError: { readonly error: unknown; readonly at: number } | undefined
  term: (() => TermHealth) | undefined
}

/** The health of the roles of one client. */
export class HealthBook {
  readonly #runtime: Runtime
  /** The longest time for which a partition that is well may be silent. */
  readonly #longestSilenceMs: number
  readonly #entries = new Map<Role, Entry>()
  readonly #ledForEver = new Map<Role, number>()

  constructor(runtime: Runtime, longestSilenceMs: number) {
    this.#runtime = runtime
    this.#longestSilenceMs = longestSilenceMs
  }

  /** A contention begins; what was told of an earlier one is over. */
  campaign(role: Role, policy: LeasePolicy, heardAt: () => number | undefined): Campaign {
    const now = this.#runtime.monotonicNow()
    const entry: Entry = {
      policy,
      heardAt,
      beganAt: now,
      activity: 'standing-by',
      changedAt: now,
      failingSince: undefined,
      lastError: this.#entries.get(role)?.lastError,
      term: undefined,
    }
    this.#entries.set(role, entry)
    const change = (activity: Entry['activity']): void => {
      entry.activity = activity
      entry.changedAt = this.#runtime.monotonicNow()
      entry.failingSince = undefined
    }
    return {
      failed: (error) => {
        const at = this.#runtime.monotonicNow()
        entry.failingSince ??= at
        entry.lastError = { error, at }
      },
      succeeded: () => {
        entry.failingSince = undefined
      },
      led: (term) => {
        change('leading')
        entry.term = term
      },
      stopped: (error) => {
        change('stopped')
        entry.lastError = { error, at: entry.changedAt }
      },
      gone: () => {
        if (this.#entries.get(role) === entry) this.#entries.delete(role)
      },
    }
  }

  /** `lead` runs for the role until the returned function is called; `wasAsked`: its caller ended it, perhaps between two terms. */
  leadsForEver(role: Role): (wasAsked: boolean) => void {
    this.#ledForEver.set(role, (this.#ledForEver.get(role) ?? 0) + 1)
    return (wasAsked) => {
      const others = (this.#ledForEver.get(role) ?? 1) - 1
      if (others > 0) this.#ledForEver.set(role, others)
      else {
        this.#ledForEver.delete(role)
        if (wasAsked && this.#entries.get(role)?.activity === 'stopped') this.#entries.delete(role)
      }
    }
  }

  /** The health of every role that the client has to do with. */
  health(isOpen: boolean): ClientHealth {
    const roles = [...this.#entries].map(([role, entry]) => this.#healthOf(role, entry))
    return withJson<ClientHealthFields>({ isHealthy: isOpen && roles.every(({ isHealthy }) => isHealthy), roles })
  }

  #healthOf(role: Role, entry: Entry): RoleHealth {
    const now = this.#runtime.monotonicNow()
    const error = entry.lastError
    const lastError = error === undefined ? {} : { lastError: { ...wordsOf(error.error), msAgo: now - error.at } }
    if (entry.activity === 'leading' && entry.term !== undefined) {
      const { token, term, remainingMs, confirmedMsAgo, lastFailure } = entry.term()
      const failure =
        lastFailure === undefined
          ? lastError
          : { lastError: { ...wordsOf(lastFailure.error), msAgo: lastFailure.msAgo } }
      const isLate = confirmedMsAgo > entry.policy.leaseMs / 2
      const problem =
        remainingMs === 0
          ? 'its lease is not certain any more'
          : isLate
            ? `no renewal was confirmed for ${Math.round(confirmedMsAgo)} ms, more than half its lease`
            : undefined
      return this.#told({ role, activity: 'leading', token, term, remainingMs, confirmedMsAgo, ...failure }, problem)
    }
    if (entry.activity === 'standing-by') {
      const heardAt = entry.heardAt()
      const heard = heardAt === undefined ? {} : { heardMsAgo: now - heardAt }
      return this.#told({ role, activity: 'standing-by', ...heard, ...lastError }, this.#problemOfStandby(entry, now))
    }
    const forMs = now - entry.changedAt
    if (!this.#ledForEver.has(role)) {
      return this.#told({ role, activity: 'stopped', ...lastError }, 'nothing contends for the role any more')
    }
    const isSlow = forMs > Math.max(entry.policy.leaseMs, longestBackoffMs)
    const problem = isSlow ? `its term ended ${Math.round(forMs)} ms ago and its work has not settled` : undefined
    return this.#told({ role, activity: 'between-terms', ...lastError }, problem)
  }

  #problemOfStandby({ policy, failingSince, heardAt, beganAt }: Entry, now: number): string | undefined {
    if (failingSince !== undefined && now - failingSince > policy.leaseMs) {
      return `it has failed for ${Math.round(now - failingSince)} ms without a step that succeeded`
    }
    const silentMs = now - (heardAt() ?? beganAt)
    if (silentMs > policy.leaseMs + this.#longestSilenceMs) {
      return `the role's partition has not answered for ${Math.round(silentMs)} ms`
    }
    return undefined
  }

  #told(fields: Omit<RoleHealthFields, 'isHealthy' | 'problem'>, problem: string | undefined): RoleHealth {
    const judged = problem === undefined ? { isHealthy: true } : { isHealthy: false, problem }
    return withJson<RoleHealthFields>({ ...fields, ...judged })
  }
}

function wordsOf(error: unknown): { readonly message: string; readonly code?: string } {
  if (!(error instanceof Error)) return { message: String(error) }
  const code = 'code' in error && typeof error.code === 'string' ? { code: error.code } : {}
  return { message: error.message, ...code }
}

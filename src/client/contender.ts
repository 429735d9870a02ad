/**
 * One contention for a role: registers, waits for its turn by the rules, challenges, and begins anew until it has won.
 *
 * The rules are `src/election`'s, the challenge is `challenge.ts`'s. It must not lead: what it wins goes to `leadership.ts`.
 */
import { transportError } from '../cluster/coordinator.js'
import type { LookAnswer } from '../cluster/mint.js'
import { produceUntilAnswered } from '../cluster/produce.js'
import type { Bound } from '../cluster/schedule.js'
import { backoffMs, concurrentTransactionsDelayMs, pause } from '../cluster/schedule.js'
import { expiryOf } from '../election/lease-entry.js'
import type { LeasePolicy } from '../election/policy.js'
import type { RoleState } from '../election/role-state.js'
import { registrationOf, wantsLook } from '../election/role-state.js'
import type { Evaluation, Self } from '../election/succession.js'
import { evaluate } from '../election/succession.js'
import { coordinationError } from '../errors.js'
import type { Incarnation } from '../format/headers.js'
import { compareIncarnations } from '../format/headers.js'
import type { Role } from '../format/names.js'
import type { ChallengeOutcome, WonTerm } from './challenge.js'
import { Challenge, failedOrThrow } from './challenge.js'
import type { CoordinationLog } from './coordination-log.js'
import { registrationRecord, registrationTombstone, wallNow } from './coordination-records.js'
import type { Campaign } from './health.js'
import type { Services } from './services.js'
import { supersededError, wedgedError } from './term-errors.js'
import { wedgedAfterMs } from './wedge-watch.js'

/** No acquire or close waits longer than this for its registration's tombstone. */
const withdrawMs = 2_000

/** A member that contends for a role until it leads, is aborted, or cannot. */
export class Contender {
  readonly #services: Services
  readonly #role: Role
  readonly #policy: LeasePolicy
  readonly #log: CoordinationLog
  readonly #signal: AbortSignal
  readonly #challenge: Challenge
  readonly #campaign: Pick<Campaign, 'failed' | 'succeeded'>
  #self: Self | undefined
  #wake: (() => void) | undefined
  #failures = 0
  #busyLooks = 0
  #busySince: number | undefined
  #warnedOfWedge = false
  #saidAt: number

  constructor(
    services: Services,
    log: CoordinationLog,
    role: Role,
    policy: LeasePolicy,
    signal: AbortSignal,
    campaign: Pick<Campaign, 'failed' | 'succeeded'>,
  ) {
    this.#services = services
    this.#campaign = campaign
    this.#log = log
    this.#role = role
    this.#policy = policy
    this.#signal = signal
    this.#challenge = new Challenge(services, log, role, policy, signal, {
      self: () => this.#me(),
      evaluate: () => this.#evaluate(),
    })
    this.#saidAt = services.runtime.monotonicNow()
  }

  /**
   * Contends until the role is won. With `onePass`, undefined as soon as the rules say to wait for somebody.
   *
   * @throws the signal's reason; CoordinationError for what no waiting mends.
   */
  async run(onePass: boolean): Promise<WonTerm | undefined> {
    const unlisten = this.#log.listen(this.#role, {
      changed: () => this.#changed(),
      topicChanged: () => this.#wake?.(),
    })
    try {
      await this.#begin(onePass)
      for (;;) {
        this.#signal.throwIfAborted()
        this.#log.throwIfTopicChanged()
        const won = await this.#step(onePass)
        if (won !== 'again') return won
      }
    } finally {
      unlisten()
    }
  }

  /**
   * Takes the own registration back, as far as the broker answers in time. Reads to the end first, so that a later process's
   * registration under the same id is left alone. Never throws.
   */
  async withdraw(): Promise<void> {
    const self = this.#self
    if (self === undefined) return
    const { runtime, settings, transactions } = this.#services
    const bound: Bound = { deadline: runtime.monotonicNow() + Math.min(withdrawMs, settings.requestTimeoutMs) }
    try {
      await this.#log.readToEnd(this.#role, bound)
      const state = this.#log.stateOf(this.#role)
      const present = state === undefined ? undefined : registrationOf(state, self.memberId)
      if (present?.incarnation === undefined || compareIncarnations(present.incarnation, self.incarnation) !== 0) return
      const records = [registrationTombstone(this.#role, self.memberId, runtime)]
      await produceUntilAnswered(transactions, null, [this.#plainBatch(records)], bound)
    } catch (error) {
      this.#say('withdrawn', error instanceof Error ? error.message : String(error))
    }
  }

  /** Reads the partition and becomes an incarnation, born at its end. */
  async #begin(onePass: boolean): Promise<void> {
    const { runtime, settings } = this.#services
    for (;;) {
      try {
        const { end } = await this.#log.readToEnd(this.#role, this.#shortly())
        const incarnation: Incarnation = { id: runtime.randomBytes(16), birth: end, registeredAt: wallNow(runtime) }
        const { memberId } = settings
        this.#self = { memberId, incarnation, ownRegistration: undefined, token: undefined, endedTokens: [] }
        return
      } catch (error) {
        if (onePass) throw transportError(error)
        await this.#backOff(error)
      }
    }
  }

  async #step(onePass: boolean): Promise<WonTerm | undefined | 'again'> {
    const state = this.#log.stateOf(this.#role)
    if (state !== undefined && wantsLook(state)) {
      await this.#lookAtCandidates(onePass)
      return 'again'
    }
    const evaluation = this.#evaluate()
    switch (evaluation.decision) {
      case 'superseded':
        throw supersededError(this.#role, this.#services.settings.memberId, evaluation.by)
      case 'register':
        if (onePass && state !== undefined && this.#heldByAnother(state)) return undefined
        await this.#register(onePass)
        return 'again'
      case 'hold':
      case 'wait': {
        if (onePass && evaluation.decision === 'wait' && evaluation.until !== undefined) return undefined
        if (evaluation.reregister) await this.#register(onePass)
        else await this.#waitUntil(evaluation.decision === 'wait' ? evaluation.until : undefined)
        return 'again'
      }
      case 'challenge': {
        const outcome = await this.#challenge.attempt()
        return await this.#after(outcome, onePass)
      }
    }
  }

  async #after(outcome: ChallengeOutcome, onePass: boolean): Promise<WonTerm | undefined | 'again'> {
    if (outcome.kind !== 'busy') this.#busySince = undefined
    if (outcome.kind !== 'failed') this.#failures = 0
    if (outcome.kind !== 'failed' && outcome.kind !== 'busy') this.#campaign.succeeded()
    switch (outcome.kind) {
      case 'led':
        return outcome.won
      case 'over':
        this.#say('over', outcome.reason)
        if (onePass) return undefined
        return 'again'
      case 'wait':
        this.#say('waiting', outcome.reason)
        if (onePass) return undefined
        await this.#waitUntil(outcome.until)
        return 'again'
      case 'busy':
        await this.#waitWhileBusy(outcome.look, onePass)
        return 'again'
      case 'failed':
        if (onePass) throw transportError(outcome.cause)
        await this.#backOff(outcome.cause)
        return 'again'
    }
  }

  #evaluate(): Evaluation {
    const { runtime, endedTokens } = this.#services
    const self: Self = { ...this.#me(), endedTokens: endedTokens.get(this.#role) ?? [] }
    return evaluate(this.#log.stateOf(this.#role), self, runtime.monotonicNow(), this.#policy)
  }

  #me(): Self {
    if (this.#self === undefined) throw new Error('the contender has not begun')
    return this.#self
  }

  #heldByAnother(state: RoleState): boolean {
    const { lease } = state
    const { settings, runtime, endedTokens } = this.#services
    if (lease === undefined || lease.kind === 'tombstone') return false
    if (lease.kind === 'lease') {
      if (lease.member === settings.memberId) return false
      if ((endedTokens.get(this.#role) ?? []).some((token) => token.equals(lease.token))) return false
    }
    const expiry = expiryOf(lease, undefined, this.#policy.leaseMs)
    return expiry !== undefined && runtime.monotonicNow() < expiry
  }

  /** Runs in the tick in which records were folded. */
  #changed(): void {
    const self = this.#self
    const state = this.#log.stateOf(this.#role)
    if (self !== undefined && self.ownRegistration === undefined && state !== undefined) {
      const present = registrationOf(state, self.memberId)
      if (present?.incarnation !== undefined && compareIncarnations(present.incarnation, self.incarnation) === 0) {
        this.#self = { ...self, ownRegistration: present }
      }
    }
    this.#wake?.()
  }

  async #register(onePass: boolean): Promise<void> {
    const { runtime, transactions, settings } = this.#services
    const { memberId, incarnation } = this.#me()
    const record = registrationRecord({ role: this.#role, memberId, incarnation }, runtime)
    const bound = this.#shortly()
    const [outcome] = await produceUntilAnswered(transactions, null, [this.#plainBatch([record])], bound)
    if (outcome?.kind === 'fatal') throw outcome.error
    if (outcome?.kind === 'refused') {
      throw coordinationError(
        'TOPIC',
        `Topic '${settings.topic}' refused the registration of member '${memberId}': ${outcome.message}`,
        { topic: settings.topic },
      )
    }
    try {
      if (outcome?.kind === 'unanswered') {
        throw coordinationError('TRANSPORT', outcome.message, { retriable: true }, { cause: outcome.cause })
      }
      await this.#log.readToEnd(this.#role, bound)
    } catch (error) {
      if (onePass) throw transportError(error)
      await this.#backOff(error)
    }
  }

  #plainBatch(records: readonly ReturnType<typeof registrationRecord>[]): {
    topic: string
    partition: number
    batch: {
      producerId: bigint
      producerEpoch: number
      baseSequence: number
      transactional: boolean
      records: readonly ReturnType<typeof registrationRecord>[]
    }
  } {
    const batch = { producerId: -1n, producerEpoch: -1, baseSequence: -1, transactional: false, records }
    return { topic: this.#services.settings.topic, partition: this.#log.partitionOf(this.#role), batch }
  }

  /** A lease of a producer id that is new to the role counts only once a look names it (I7). */
  async #lookAtCandidates(onePass: boolean): Promise<void> {
    try {
      this.#log.applyLook(this.#role, await this.#services.minting.look(this.#role, this.#shortly()))
      this.#failures = 0
    } catch (error) {
      if (onePass) throw transportError(error)
      await this.#backOff(error)
    }
  }

  /** Looks come on the schedule of a retried 51, and once a second when that has gone on for too long. */
  async #waitWhileBusy(look: LookAnswer | undefined, onePass: boolean): Promise<void> {
    const { runtime } = this.#services
    const now = runtime.monotonicNow()
    if (this.#busySince === undefined) {
      this.#busySince = now
      this.#busyLooks = 0
      this.#warnedOfWedge = false
    }
    const isWedged = now - this.#busySince > wedgedAfterMs
    if (isWedged) {
      const error = wedgedError(this.#role, look)
      if (onePass) throw error
      // A broker's return ends most wedges, so the contention goes on; somebody has to hear of it all the same.
      if (!this.#warnedOfWedge) this.#services.diagnostics.warn({ role: this.#role, err: error }, error.message)
      this.#warnedOfWedge = true
      this.#campaign.failed(error)
      this.#say('wedged', error.message)
    }
    const delayMs = isWedged ? 1_000 : concurrentTransactionsDelayMs(this.#busyLooks++)
    await pause(runtime, delayMs, { deadline: Number.POSITIVE_INFINITY, signal: this.#signal })
  }

  async #backOff(error: unknown): Promise<void> {
    const { runtime } = this.#services
    const outcome = failedOrThrow(error, this.#signal)
    this.#campaign.failed(outcome.cause)
    this.#say('failed', outcome.cause instanceof Error ? outcome.cause.message : String(outcome.cause))
    await pause(runtime, backoffMs(runtime, this.#failures++), {
      deadline: Number.POSITIVE_INFINITY,
      signal: this.#signal,
    })
  }

  /** Until a record of the role, the instant, or the signal; at most one lease length, after which it says what it waits for. */
  #waitUntil(until: number | undefined): Promise<void> {
    this.#campaign.succeeded()
    const { runtime } = this.#services
    const now = runtime.monotonicNow()
    const holder = this.#log.stateOf(this.#role)?.lease
    if (now - this.#saidAt >= this.#policy.leaseMs) {
      const reason =
        holder?.kind === 'lease' ? `held by '${holder.member}' under ${holder.token}` : 'waiting for its slot'
      this.#say('waiting', reason)
    }
    return new Promise((resolve, reject) => {
      const settle = (finish: () => void): void => {
        timer.cancel()
        this.#signal.removeEventListener('abort', onAbort)
        this.#wake = undefined
        finish()
      }
      const onAbort = (): void => settle(() => reject(this.#signal.reason))
      const delayMs = Math.min((until ?? Number.POSITIVE_INFINITY) - now, this.#policy.leaseMs)
      const timer = runtime.setTimer(delayMs, () => settle(resolve))
      this.#wake = () => settle(resolve)
      this.#signal.addEventListener('abort', onAbort, { once: true })
    })
  }

  #say(outcome: string, reason: string): void {
    this.#saidAt = this.#services.runtime.monotonicNow()
    const { memberId } = this.#services.settings
    this.#services.diagnostics.tell('challenge', { role: this.#role, member: memberId, by: 'rules', outcome, reason })
  }

  /** A bound for one step that waits for the cluster: the step is repeated while the contention goes on. */
  #shortly(): Bound {
    const { runtime, settings } = this.#services
    return { deadline: runtime.monotonicNow() + 2 * settings.requestTimeoutMs, signal: this.#signal }
  }
}

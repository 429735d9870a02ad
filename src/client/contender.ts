/**
 * One contention for a role: registers, waits for its turn by the rules, looks, mints, and writes the first lease.
 *
 * The rules are `src/election`'s; this file acts on them and holds I5 (the order of winning) and I10 (what surrounds a mint). It must not
 * lead: what it wins goes to `leadership.ts`.
 */
import { transportError } from '../cluster/coordinator.js'
import type { EndReached } from '../cluster/follower.js'
import type { LookAnswer, Turn } from '../cluster/mint.js'
import { LookFailure, mintExpecting } from '../cluster/mint.js'
import { isOperatingFailure } from '../cluster/operating-failure.js'
import { produceUntilAnswered } from '../cluster/produce.js'
import type { Bound } from '../cluster/schedule.js'
import { backoffMs, concurrentTransactionsDelayMs, pause } from '../cluster/schedule.js'
import type { ProducerEpoch } from '../cluster/transaction.js'
import { producerEpoch, Transaction, TransactionFailure } from '../cluster/transaction.js'
import { expiryOf } from '../election/lease-entry.js'
import { judgeLook, looksFresh } from '../election/look.js'
import type { LeasePolicy } from '../election/policy.js'
import type { RoleState } from '../election/role-state.js'
import { registrationOf, wantsLook } from '../election/role-state.js'
import type { StrangerMemory } from '../election/stranger.js'
import { judgeStranger } from '../election/stranger.js'
import type { Evaluation, Self } from '../election/succession.js'
import { evaluate, supersededBy } from '../election/succession.js'
import { sweepOf } from '../election/sweep.js'
import { coordinationError, isCoordinationError } from '../errors.js'
import type { Incarnation } from '../format/headers.js'
import { compareIncarnations } from '../format/headers.js'
import type { Role } from '../format/names.js'
import { FencingToken } from '../format/token.js'
import type { CoordinationLog } from './coordination-log.js'
import { leaseRecord, registrationRecord, registrationTombstone, wallNow } from './coordination-records.js'
import type { AcquireSplit } from './diagnostics.js'
import type { Services } from './services.js'
import { rememberEndedToken } from './services.js'
import { isHopeless, supersededError, wedgedError } from './term-errors.js'
import { wedgedAfterMs } from './wedge-watch.js'

/** A term that was just won: everything its leadership needs. */
export interface WonTerm {
  readonly role: Role
  readonly policy: LeasePolicy
  readonly incarnation: Incarnation
  readonly token: FencingToken
  readonly term: bigint
  readonly epoch: ProducerEpoch
  /** Monotonic instant until which the first lease lasts for its holder. */
  readonly deadline: number
  readonly log: CoordinationLog
  readonly split: AcquireSplit
}

type ChallengeOutcome =
  | { readonly kind: 'led'; readonly won: WonTerm }
  /** The rules no longer say so, or somebody else was first: evaluate again. */
  | { readonly kind: 'over'; readonly reason: string }
  /** Wait until the instant, or a new record of the role, then look again. */
  | { readonly kind: 'wait'; readonly until: number; readonly reason: string }
  /** The coordinator is finishing a transaction: look again very soon. */
  | { readonly kind: 'busy'; readonly look: LookAnswer | undefined }
  /** Something passing went wrong: back off, then evaluate again. */
  | { readonly kind: 'failed'; readonly cause: unknown }

interface Minted {
  readonly token: FencingToken
  readonly by: Extract<Evaluation, { decision: 'challenge' }>
  readonly lookedAt: number
  readonly mintedAt: number
  readonly split: Pick<AcquireSplit, 'detectMs' | 'mintMs'>
}

/** No acquire or close waits longer than this for its registration's tombstone. */
const withdrawMs = 2_000

/** A member that contends for a role until it leads, is aborted, or cannot. */
export class Contender {
  readonly #services: Services
  readonly #role: Role
  readonly #policy: LeasePolicy
  readonly #log: CoordinationLog
  readonly #signal: AbortSignal
  #self: Self | undefined
  #wake: (() => void) | undefined
  #failures = 0
  #busyLooks = 0
  #busySince: number | undefined
  #warnedOfWedge = false
  #stranger: StrangerMemory | undefined
  #saidAt: number

  constructor(services: Services, log: CoordinationLog, role: Role, policy: LeasePolicy, signal: AbortSignal) {
    this.#services = services
    this.#log = log
    this.#role = role
    this.#policy = policy
    this.#signal = signal
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
        const outcome = await this.#challenge()
        return await this.#after(outcome, onePass)
      }
    }
  }

  async #after(outcome: ChallengeOutcome, onePass: boolean): Promise<WonTerm | undefined | 'again'> {
    if (outcome.kind !== 'busy') this.#busySince = undefined
    if (outcome.kind !== 'failed') this.#failures = 0
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

  async #challenge(): Promise<ChallengeOutcome> {
    const { minting, runtime } = this.#services
    const bound: Bound = {
      deadline: runtime.monotonicNow() + Math.max(this.#policy.leaseMs, this.#services.settings.requestTimeoutMs),
      signal: this.#signal,
    }
    let minted: Minted | ChallengeOutcome
    try {
      const turn = await minting.takeTurn(this.#role, 'challenge', bound)
      try {
        minted = await this.#mintInTurn(turn, bound)
      } finally {
        turn.release()
      }
      if ('kind' in minted) return minted
      return await this.#win(minted)
    } catch (error) {
      return failedOrThrow(error, this.#signal)
    }
  }

  /** I10: end, look, mint; each within its age, the last two in one tick. */
  async #mintInTurn(turn: Turn, bound: Bound): Promise<Minted | ChallengeOutcome> {
    const { runtime, coordinators } = this.#services
    const { leaseMs, transactionTimeoutMs } = this.#policy
    const [firstEnd, transactionVersion] = await Promise.all([
      this.#log.readToEnd(this.#role, this.#briefly(bound)),
      this.#services.transactionVersion(bound),
    ])
    let end: EndReached = firstEnd
    for (;;) {
      // A look must not be the measure of its own age: the first on a connection may be the one that was held up.
      const fastestBefore = turn.fastestLookMs ?? 0
      const look = await turn.look(bound)
      this.#log.applyLook(this.#role, look)
      const state = this.#log.stateOf(this.#role)
      const evaluation = this.#evaluate()
      const now = runtime.monotonicNow()
      if (state === undefined || evaluation.decision !== 'challenge') {
        return { kind: 'over', reason: `the rules say ${evaluation.decision}` }
      }
      const ages = { lookMs: now - look.sentAt, endMs: now - end.askedAt }
      if (!looksFresh(ages, fastestBefore, leaseMs)) {
        if (now >= bound.deadline)
          return { kind: 'failed', cause: new LookFailure('No look was answered fast enough', undefined) }
        end = await this.#log.readToEnd(this.#role, this.#briefly(bound))
        continue
      }
      const context = { transactionVersion, now, ownRegistration: this.#me().ownRegistration, leaseMs }
      const verdict = judgeLook(state, look, context)
      if (verdict === 'look-again') return { kind: 'busy', look }
      if (verdict === 'stranger' && !this.#isOwnUnusedMint(look)) {
        const judgement = judgeStranger(this.#stranger, look, {
          now,
          lastErrorAt: this.#lastErrorAt(),
          slot: evaluation.slot,
          leaseMs,
          readToEndSinceLastLook: true,
        })
        this.#stranger = judgement.memory
        if (judgement.verdict === 'wait') {
          const pair = `${look.producerId}:${look.producerEpoch}`
          return { kind: 'wait', until: judgement.until, reason: `somebody minted ${pair} just now (${look.state})` }
        }
      }
      this.#stranger = undefined
      // Whoever was aborted while it looked deposes nobody.
      this.#signal.throwIfAborted()
      const first = await turn.mint(transactionTimeoutMs, coordinators.requestDeadline(bound))
      if (first.kind === 'look-again') return { kind: 'busy', look: undefined }
      if (first.kind === 'failed') return { kind: 'failed', cause: first.cause }
      this.#services.unusedMints.set(this.#role, first.pair)
      // Whatever transaction.version the cluster runs: a deposed client that ends its transaction by EndTxn 5 is served on all (I3).
      const pair = await mintExpecting(coordinators, this.#role, first.pair, transactionTimeoutMs, {
        deadline: bound.deadline,
      })
      if (pair === undefined) return { kind: 'over', reason: 'somebody else minted at the same time' }
      this.#services.unusedMints.set(this.#role, pair)
      const mintedAt = runtime.monotonicNow()
      return {
        token: FencingToken.of(pair.producerId, pair.producerEpoch),
        by: evaluation,
        lookedAt: look.answeredAt,
        mintedAt,
        split: { detectMs: Math.max(0, look.answeredAt - evaluation.slot), mintMs: mintedAt - look.answeredAt },
      }
    }
  }

  #isOwnUnusedMint({ found, producerId, producerEpoch }: LookAnswer): boolean {
    const unused = this.#services.unusedMints.get(this.#role)
    return found && unused?.producerId === producerId && unused.producerEpoch === producerEpoch
  }

  /** I5: after the mint, read to an end asked for now, then commit the first lease with the sweep. */
  async #win(minted: Minted): Promise<ChallengeOutcome> {
    const { runtime, settings, transactions } = this.#services
    const { token } = minted
    const role = this.#role
    const self = this.#me()
    this.#log.nameProducer(role, token.producerId)
    const bound: Bound = { deadline: runtime.monotonicNow() + this.#policy.leaseMs }
    await this.#log.readToEnd(role, { ...bound, signal: this.#signal })
    const state = this.#log.stateOf(role)
    if (state === undefined) {
      const message = `The log of '${role}' is being read again`
      return { kind: 'failed', cause: coordinationError('TRANSPORT', message, { retriable: true }) }
    }
    this.#throwIfSuperseded(state)
    const swept = sweepOf(state, self, {
      now: runtime.monotonicNow(),
      policy: this.#policy,
      wonBySlot: minted.by.by === 'slot',
      lastErrorAt: this.#lastErrorAt(),
    })
    const author = { role, memberId: self.memberId, incarnation: self.incarnation }
    const records = [
      leaseRecord(author, { token, term: undefined, leaseMs: this.#policy.leaseMs }, runtime),
      ...swept.map((member) => registrationTombstone(role, member, runtime)),
    ]
    const partition = this.#log.partitionOf(role)
    const epoch = producerEpoch(role, token)
    const transaction = new Transaction(transactions, epoch)
    try {
      const offsets = await transaction.send([{ topic: settings.topic, partition, records }], bound)
      const latest = this.#log.stateOf(role)
      if (latest !== undefined) this.#throwIfSuperseded(latest)
      this.#signal.throwIfAborted()
      await transaction.end(true, bound)
      if (epoch.taint !== undefined) throw new TransactionFailure({ kind: 'failed' }, epoch.taint)
      const term = offsets[0]?.[0]
      const enlistedAt = transaction.enlistedAt(settings.topic, partition)
      if (term === undefined || enlistedAt === undefined) throw new Error('a committed lease has an offset')
      this.#services.unusedMints.delete(role)
      return {
        kind: 'led',
        won: {
          role,
          policy: this.#policy,
          incarnation: self.incarnation,
          token,
          term,
          epoch,
          deadline: enlistedAt + this.#policy.leaseMs,
          log: this.#log,
          split: { ...minted.split, firstLeaseMs: runtime.monotonicNow() - minted.mintedAt },
        },
      }
    } catch (error) {
      rememberEndedToken(this.#services, role, token)
      if (isCoordinationError(error, 'SUPERSEDED')) throw error
      if (error instanceof TransactionFailure) {
        if (error.reason.kind === 'fenced')
          return { kind: 'over', reason: 'somebody else minted before the first lease' }
        if (error.reason.kind === 'commit-unknown') return { kind: 'failed', cause: error }
      }
      await transaction.end(false, bound).catch(() => undefined)
      return failedOrThrow(error, this.#signal)
    }
  }

  #throwIfSuperseded(state: RoleState): void {
    const by = supersededBy(state, this.#me())
    if (by !== undefined) throw supersededError(this.#role, this.#services.settings.memberId, by)
  }

  #lastErrorAt(): number | undefined {
    const ofPartition = this.#log.lastErrorAt(this.#role)
    const ofCoordinator = this.#services.coordinators.lastErrorAt({ keyType: 'transaction', key: this.#role })
    if (ofPartition === undefined) return ofCoordinator
    return ofCoordinator === undefined ? ofPartition : Math.max(ofPartition, ofCoordinator)
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
      this.#say('wedged', error.message)
    }
    const delayMs = isWedged ? 1_000 : concurrentTransactionsDelayMs(this.#busyLooks++)
    await pause(runtime, delayMs, { deadline: Number.POSITIVE_INFINITY, signal: this.#signal })
  }

  async #backOff(error: unknown): Promise<void> {
    const { runtime } = this.#services
    const outcome = failedOrThrow(error, this.#signal)
    this.#say('failed', outcome.cause instanceof Error ? outcome.cause.message : String(outcome.cause))
    await pause(runtime, backoffMs(runtime, this.#failures++), {
      deadline: Number.POSITIVE_INFINITY,
      signal: this.#signal,
    })
  }

  /** Until a record of the role, the instant, or the signal; at most one lease length, after which it says what it waits for. */
  #waitUntil(until: number | undefined): Promise<void> {
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

  /** A bound for a read within a turn: other roles' seals and challenges wait for the turn, whatever ails this partition. */
  #briefly({ deadline, signal }: Bound): Bound {
    const { runtime, settings } = this.#services
    const briefly = Math.min(deadline, runtime.monotonicNow() + settings.requestTimeoutMs)
    return signal === undefined ? { deadline: briefly } : { deadline: briefly, signal }
  }

  /** A bound for one step that waits for the cluster: the step is repeated while the contention goes on. */
  #shortly(): Bound {
    const { runtime, settings } = this.#services
    return { deadline: runtime.monotonicNow() + 2 * settings.requestTimeoutMs, signal: this.#signal }
  }
}

/** A passing failure as an outcome; anything else is thrown. */
function failedOrThrow(error: unknown, signal: AbortSignal): Extract<ChallengeOutcome, { kind: 'failed' }> {
  if (signal.aborted) throw signal.reason
  const cause = error instanceof TransactionFailure && error.cause !== undefined ? error.cause : error
  if (isHopeless(cause)) throw cause
  if (!isOperatingFailure(cause)) throw cause
  return { kind: 'failed', cause }
}

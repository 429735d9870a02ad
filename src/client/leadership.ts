/**
 * The handle of a term that this process leads: guarded writes, renewals, resignation, and every way a term ends.
 *
 * All transactions of the term go through one lane, a due renewal first. It ends once, for one reason, and never leads again (I8). It must
 * not contend for the role again; `lead.ts` does.
 */
// For the declarations of users whose `lib` does not name it.
/// <reference lib="esnext.disposable" preserve="true" />
import { AsyncLocalStorage, AsyncResource } from 'node:async_hooks'
import type { ProducerPair } from '../cluster/mint.js'
import type { Bound } from '../cluster/schedule.js'
import { backoffMs } from '../cluster/schedule.js'
import type { PartitionRecords } from '../cluster/transaction.js'
import { Transaction, TransactionFailure } from '../cluster/transaction.js'
import type { LossSeen } from '../election/loss.js'
import { lossSeen } from '../election/loss.js'
import type { CoordinationError, TermDetails } from '../errors.js'
import { coordinationError, isCoordinationError } from '../errors.js'
import type { MemberId, Role } from '../format/names.js'
import { stampHeaders } from '../format/stamp.js'
import type { FencingToken } from '../format/token.js'
import { ByteBudget } from './byte-budget.js'
import type { WonTerm } from './challenge.js'
import { leaseRecord } from './coordination-records.js'
import { inquireFence, lossError } from './fence-inquiry.js'
import type { GroupCommitter } from './group-commit.js'
import { GroupCommit, partitionCountOf, refusedError } from './group-commit.js'
import type { TransactionScope } from './guarded-transaction.js'
import { GuardedTransaction } from './guarded-transaction.js'
import type { TermHealth } from './health.js'
import type { Job } from './lane.js'
import { Lane } from './lane.js'
import { LeaseClock } from './lease-clock.js'
import { checkTransactOptions, checkWork } from './options.js'
import type { GuardedRecord, PreparedSend, RecordPosition } from './records.js'
import { prepareSend } from './records.js'
import { bury, seal } from './resignation.js'
import type { Services } from './services.js'
import { rememberEndedToken } from './services.js'
import { isHopeless, leaseExpiredError, resignedError, termEndedError } from './term-errors.js'
import { WedgeWatch } from './wedge-watch.js'

/** What `resign` found: `resigned` = the token is dead by this resignation; `already-ended` = the term had ended before it could be. */
export type ResignOutcome = 'resigned' | 'already-ended'

/** A term that this process leads, until `signal` aborts. */
export class Leadership implements AsyncDisposable {
  readonly role: Role
  readonly memberId: MemberId
  /** The pair that the broker checks in every guarded write; the same for the whole term (I4). */
  readonly token: FencingToken
  /** The ordered fencing number of this term: greater than that of every earlier one of the role. */
  readonly term: bigint

  readonly #services: Services
  readonly #won: WonTerm
  readonly #lane: Lane
  readonly #clock: LeaseClock
  readonly #wedge: WedgeWatch
  readonly #budget: ByteBudget
  /** Aborts what the user's work holds on to; `lead`'s caller may abort it before the term ends. */
  readonly #work = new AbortController()
  readonly #over = new AbortController()
  /** Which `transact` call a call came out of. What its callback started may outlive it. */
  readonly #inTransaction = new AsyncLocalStorage<{ isOpen: boolean }>()
  readonly #unlisten: readonly (() => void)[]
  readonly #onEnd: () => void
  #lastLeaseOffset: bigint
  #renewers: { resolve(): void; reject(error: unknown): void }[] = []
  #renewFailures = 0
  /** Why the last transaction failed; undefined after a renewal that succeeded. */
  #lastFailure: { readonly error: unknown; readonly at: number } | undefined
  #fencing: Promise<CoordinationError> | undefined
  #lookUnderWay = false
  #resigning: Promise<ResignOutcome> | undefined
  #ended: CoordinationError | undefined
  #nextFallback: number

  /** @internal Made by the client from a term that was won. `onEnd` is called once, when the term has ended. */
  constructor(services: Services, won: WonTerm, onEnd: () => void) {
    const { runtime, settings } = services
    this.role = won.role
    this.memberId = settings.memberId
    this.token = won.token
    this.term = won.term
    this.#services = services
    this.#won = won
    this.#onEnd = onEnd
    this.#lastLeaseOffset = won.term
    this.#nextFallback = Math.floor(runtime.random() * 2 ** 16)
    this.#budget = new ByteBudget(settings.maxQueuedBytes)
    this.#lane = new Lane(() => this.#urgentJob())
    this.#clock = new LeaseClock(runtime, won.policy, won.deadline, {
      renewalDue: () => this.#lane.wake(),
      late: (sinceConfirmedMs) => services.diagnostics.tell('renewal-late', { ...this.#fields(), sinceConfirmedMs }),
      expired: () => this.#endIfExpired(),
    })
    this.#wedge = new WedgeWatch(services, won.role, this.#over.signal, (error) =>
      services.diagnostics.warn({ ...this.#fields(), err: error }, error.message),
    )
    const unlistenLog = won.log.listen(won.role, {
      changed: () => this.#changed(),
      topicChanged: (error) => this.#end(error),
    })
    this.#unlisten = [unlistenLog, services.clockWatch.listen(() => this.#renewNow())]
  }

  /** @internal Starts the renewals; called once, when the client knows of the handle. */
  begin(): void {
    this.#services.diagnostics.tell('acquired', { ...this.#fields(), ...this.#won.split })
    this.#clock.start()
    this.#changed()
  }

  /** Aborts once, when the term has ended or `lead`'s caller aborts; `signal.reason` is the error. */
  get signal(): AbortSignal {
    return this.#work.signal
  }

  /**
   * For how long, in ms, this process may still take itself for the leader; 0 when the term has ended. Reads the clock, so it is right
   * even in a tick that blocked. After the machine was suspended it is 0 until a renewal is answered.
   */
  remainingMs(): number {
    if (this.#ended !== undefined || this.#fencing !== undefined) return 0
    const { remainingMs } = this.#clock
    if (remainingMs === 0) this.#renewNow()
    return remainingMs
  }

  /**
   * Writes the messages of a record as one guarded write: resolves with their positions, in their order, after their transaction was
   * committed under this token. Calls that wait at the same time share a transaction, in call order.
   *
   * @throws `FENCED`, `LEASE_EXPIRED`, `TERM_ENDED`, `SUPERSEDED`, `RESIGNED`, `CLOSED` when the term has ended; `REFUSED` where the broker
   * refuses a message or the topic does not exist; `CONFIG` for a bad field; `TRANSACTION_ABORTED`, `TRANSPORT` where nothing was
   * committed; `COMMIT_UNKNOWN` where nobody can tell.
   */
  async send(record: GuardedRecord): Promise<readonly RecordPosition[]> {
    this.#throwIfClosed('send')
    const prepared = this.#prepare(record)
    const release = await this.#budget.take(prepared.bytes, this.#over.signal)
    try {
      this.#throwIfClosed('send')
      return await new Promise((resolve, reject) => {
        const { last } = this.#lane
        const group =
          last instanceof GroupCommit && last.fits(prepared.bytes) ? last : new GroupCommit(this.#committer())
        group.add({ prepared, fallback: this.#nextFallback++, resolve, reject })
        if (group !== last) this.#lane.add(group)
      })
    } finally {
      release()
    }
  }

  /**
   * Runs `work` in one transaction: begun at its first send, committed when it returns, aborted when it throws; its own error is
   * rethrown. A transaction that `work` left empty carries the lease, so success always means that the broker checked the token (I2).
   *
   * It has until `timeoutMs`, and never longer than leaves room for a renewal; then the transaction is aborted.
   *
   * @throws as `send`; `TRANSACTION_ABORTED` when the budget passed.
   */
  async transact<T>(
    work: (transaction: TransactionScope) => Promise<T>,
    options: { timeoutMs?: number } = {},
  ): Promise<T> {
    this.#throwIfClosed('transact')
    checkWork(work)
    checkTransactOptions(options)
    const { timeoutMs } = options
    // The lane runs in the context of whoever woke it; the callback belongs to that of its own caller.
    const nesting = { isOpen: true }
    const inContext = AsyncResource.bind((scope: TransactionScope) => this.#inTransaction.run(nesting, work, scope))
    return await new Promise<T>((resolve, reject) => {
      this.#lane.add({
        run: () =>
          this.#runWork(inContext, timeoutMs ?? Number.POSITIVE_INFINITY)
            .finally(() => {
              nesting.isOpen = false
            })
            .then(resolve, reject),
        refuse: reject,
      })
    })
  }

  /**
   * Renews the lease now, and resolves only if the broker accepted the token after this call: the barrier before an action outside
   * Kafka.
   *
   * @throws as `send`.
   */
  renew(): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#throwIfClosed('renew')
      this.#renewers.push({ resolve, reject })
      this.#lane.wake()
    })
  }

  /**
   * Gives the role up: refuses new writes, finishes those that wait, mints once more so that the old token is dead, and writes the
   * tombstones that let the next member lead at once. Never throws after a loss.
   */
  resign(): Promise<ResignOutcome> {
    if (this.#inTransaction.getStore()?.isOpen === true) {
      return Promise.reject(
        coordinationError('TRANSACTION_ABORTED', 'resign() was called inside transact(); call it after', {
          role: this.role,
        }),
      )
    }
    this.#resigning ??= this.#resign()
    return this.#resigning
  }

  /** Resigns; never throws after a loss. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.resign()
  }

  /** The fields that name this term, 64-bit numbers as text. */
  toJSON(): { role: string; memberId: string; token: string; term: string } {
    return { role: this.role, memberId: this.memberId, token: this.token.toString(), term: this.term.toString() }
  }

  /** @internal Aborts `signal` while the term goes on: the caller of `lead` wants the work to stop. */
  abortWork(reason: unknown): void {
    this.#work.abort(reason)
  }

  /** @internal Why the term ended, or undefined while it goes on. */
  get ended(): CoordinationError | undefined {
    return this.#ended
  }

  /** @internal Whether its caller has asked for its end. */
  get isResigning(): boolean {
    return this.#resigning !== undefined
  }

  /** @internal What `health` tells of the term. */
  get health(): TermHealth {
    const { remainingMs, confirmedMsAgo } = this.#clock
    const isCertain = this.#ended === undefined && this.#fencing === undefined
    const failure = this.#lastFailure
    const now = this.#services.runtime.monotonicNow()
    return {
      token: this.token,
      term: this.term,
      remainingMs: isCertain ? remainingMs : 0,
      confirmedMsAgo,
      lastFailure: failure === undefined ? undefined : { error: failure.error, msAgo: now - failure.at },
    }
  }

  /** @internal Length of a lease of this term, in ms. */
  get leaseMs(): number {
    return this.#won.policy.leaseMs
  }

  /** @internal Ends the term without a word to the cluster: the client is closed. */
  abandon(error: CoordinationError): void {
    this.#end(error)
  }

  #details(): TermDetails {
    return { role: this.role, member: this.memberId, token: this.token.toString(), term: this.term }
  }

  #fields(): { role: string; member: string; token: string; term: string } {
    return { role: this.role, member: this.memberId, token: this.token.toString(), term: this.term.toString() }
  }

  #throwIfClosed(call: string): void {
    if (this.#inTransaction.getStore()?.isOpen === true) {
      throw coordinationError(
        'TRANSACTION_ABORTED',
        `${call}() was called inside transact() of '${this.role}'; use the transaction it was given`,
        { role: this.role },
      )
    }
    this.#throwIfEnded()
    if (this.#resigning !== undefined) throw resignedError(this.#details())
  }

  #throwIfEnded(): void {
    if (this.#ended === undefined && this.#fencing === undefined) this.#endIfExpired()
    if (this.#ended !== undefined) throw this.#ended
  }

  #prepare(record: GuardedRecord): PreparedSend {
    const { settings, runtime } = this.#services
    const stamp = settings.stampRecords ? stampHeaders({ role: this.role, term: this.term, token: this.token }) : []
    const prepared = prepareSend(record, stamp, runtime)
    if (prepared.topic === settings.topic) {
      throw coordinationError(
        'CONFIG',
        `topic '${settings.topic}' is the coordination topic; guarded records go elsewhere`,
        {
          option: 'topic',
        },
      )
    }
    return prepared
  }

  #committer(): GroupCommitter {
    return {
      commit: async (entries) => {
        const offsets = await this.#inOneTransaction(this.#clock.budgetDeadline, async (transaction, bound) => {
          const ride = this.#clock.isRenewalHalfDue ? [this.#leaseEntry()] : []
          return await transaction.send([...entries, ...ride], bound)
        })
        return offsets
      },
      partitionCount: (topic, atLeast) => this.#partitionCount(topic, atLeast),
    }
  }

  #partitionCount(topic: string, atLeast: number): Promise<number> {
    const { metadata, runtime, settings } = this.#services
    const deadline = runtime.monotonicNow() + settings.requestTimeoutMs
    return partitionCountOf(metadata, topic, atLeast, Math.min(deadline, this.#clock.deadline))
  }

  #leaseEntry(): PartitionRecords {
    const { runtime, settings } = this.#services
    const { policy, incarnation } = this.#won
    const record = leaseRecord(
      { role: this.role, memberId: this.memberId, incarnation },
      { token: this.token, term: this.term, leaseMs: policy.leaseMs },
      runtime,
    )
    return { topic: settings.topic, partition: this.#won.log.partitionOf(this.role), records: [record] }
  }

  async #runWork<T>(work: (transaction: TransactionScope) => Promise<T>, timeoutMs: number): Promise<T> {
    const { runtime, diagnostics } = this.#services
    const until = Math.min(this.#clock.budgetDeadline, runtime.monotonicNow() + timeoutMs)
    return await this.#inOneTransaction(until, async (transaction, bound) => {
      const scope = new GuardedTransaction(this.role, transaction, bound, {
        prepare: (record) => this.#prepare(record),
        partitionCount: (topic, atLeast) => this.#partitionCount(topic, atLeast),
        fallback: () => this.#nextFallback++,
        explain: (error) => this.#explain(error),
      })
      const halfway = runtime.setTimer((until - runtime.monotonicNow()) / 2, () =>
        diagnostics.warn(this.#fields(), 'a transact() callback has used half of its budget'),
      )
      try {
        return await scope.run(() => work(scope), runtime, this.#over.signal)
      } finally {
        halfway.cancel()
      }
    }).catch(async (error: unknown) => {
      throw await this.#explain(error)
    })
  }

  /** What the caller of a failed send or transaction is told. */
  async #explain(error: unknown): Promise<unknown> {
    if (!(error instanceof TransactionFailure)) return error
    if (error.reason.kind === 'fenced') return await this.#fence()
    const refusal = error.reason.kind === 'refused' ? error.reason.refusals[0] : undefined
    if (refusal !== undefined) return refusedError(refusal)
    this.#endIfExpired()
    if (this.#ended !== undefined) return this.#ended
    if (isHopeless(error.cause)) return error.cause
    return coordinationError(
      'TRANSACTION_ABORTED',
      `A transaction of '${this.role}' was aborted: ${error.message}`,
      { role: this.role },
      { cause: this.#wedge.error ?? error.cause ?? error },
    )
  }

  /**
   * One transaction of the lane: `fill` writes, then it is committed; what fails is aborted. It carries the lease when it is empty or a
   * renewal is more than half due. A tainted epoch ends the term, with the true outcome reported (I9).
   */
  async #inOneTransaction<T>(until: number, fill: (transaction: Transaction, bound: Bound) => Promise<T>): Promise<T> {
    this.#throwIfEnded()
    return await this.#wedge.during(this.#clock.remainingMs, () => this.#transactOnce(until, fill))
  }

  async #transactOnce<T>(until: number, fill: (transaction: Transaction, bound: Bound) => Promise<T>): Promise<T> {
    const { runtime, settings, transactions, diagnostics } = this.#services
    const startedAt = runtime.monotonicNow()
    const transaction = new Transaction(transactions, this.#won.epoch)
    const partition = this.#won.log.partitionOf(this.role)
    let outcome = 'aborted'
    try {
      const result = await fill(transaction, {
        deadline: Math.min(until, this.#clock.deadline),
        answersUntil: this.#clock.deadline,
      })
      const carried = transaction.enlistedAt(settings.topic, partition) !== undefined
      if (!carried && (!transaction.begun || this.#clock.isRenewalHalfDue)) {
        await transaction.send([this.#leaseEntry()], { deadline: this.#clock.deadline })
      }
      this.#throwIfEnded()
      await transaction.end(true, { deadline: this.#clock.deadline })
      outcome = 'committed'
      const enlistedAt = transaction.enlistedAt(settings.topic, partition)
      const leaseOffset = transaction.lastOffset(settings.topic, partition)
      if (enlistedAt !== undefined && leaseOffset !== undefined) this.#confirm(enlistedAt, leaseOffset, startedAt)
      return result
    } catch (error) {
      throw await this.#abort(transaction, error)
    } finally {
      diagnostics.tell('transaction', {
        ...this.#fields(),
        outcome,
        records: transaction.recordCount,
        durationMs: runtime.monotonicNow() - startedAt,
      })
      const { taint } = this.#won.epoch
      if (taint !== undefined && this.#fencing === undefined) this.#endInDoubt(taint)
    }
  }

  /** Ends what `error` broke off, and returns what the caller is told. */
  async #abort(transaction: Transaction, error: unknown): Promise<unknown> {
    if (error instanceof TransactionFailure) {
      this.#noteFailure(error)
      if (error.reason.kind === 'fenced') return await this.#fence()
      if (error.reason.kind === 'commit-unknown') {
        const unknown = coordinationError('COMMIT_UNKNOWN', error.message, { role: this.role }, { cause: error })
        this.#endInDoubt('a commit was not answered for certain', unknown)
        return unknown
      }
    }
    this.#endIfExpired()
    if (this.#ended === undefined && this.#fencing === undefined) {
      try {
        await transaction.end(false, { deadline: this.#clock.deadline })
      } catch (abortError) {
        if (abortError instanceof TransactionFailure && abortError.reason.kind === 'fenced') {
          const fenced = await this.#fence()
          return error instanceof TransactionFailure ? fenced : error
        }
        this.#endInDoubt('an abort was not answered', abortError)
      }
    }
    if (!(error instanceof TransactionFailure)) return error
    if (this.#fencing !== undefined) return await this.#fencing
    // A group commit sorts its senders out by the refusal itself.
    return error.reason.kind === 'refused' ? error : await this.#explain(error)
  }

  #noteFailure(error: unknown): void {
    this.#lastFailure = { error, at: this.#services.runtime.monotonicNow() }
  }

  #urgentJob(): Job | undefined {
    if (this.#ended !== undefined || this.#fencing !== undefined) return undefined
    if (this.#renewers.length === 0 && !this.#clock.isRenewalDue) return undefined
    const renewers = this.#renewers.splice(0)
    const refuse = (error: unknown): void => {
      for (const { reject } of renewers) reject(error)
    }
    return { run: () => this.#renewOnce(renewers, refuse), refuse }
  }

  async #renewOnce(renewers: readonly { resolve(): void }[], refuse: (error: unknown) => void): Promise<void> {
    const { runtime } = this.#services
    try {
      await this.#inOneTransaction(this.#clock.deadline, async () => undefined)
      this.#renewFailures = 0
      this.#lastFailure = undefined
      for (const { resolve } of renewers) resolve()
    } catch (failure) {
      const error = await this.#explain(failure)
      refuse(error)
      if (isCoordinationError(error) && isHopeless(error)) this.#end(error)
      // Nothing was lost yet: there is time until the deadline, and the next try has it.
      this.#clock.retryIn(backoffMs(runtime, this.#renewFailures++))
    }
  }

  #confirm(enlistedAt: number, leaseOffset: bigint, startedAt: number): void {
    const { runtime, diagnostics } = this.#services
    if (leaseOffset > this.#lastLeaseOffset) this.#lastLeaseOffset = leaseOffset
    this.#clock.confirm(enlistedAt, startedAt)
    diagnostics.tell('renewed', {
      ...this.#fields(),
      durationMs: runtime.monotonicNow() - startedAt,
      remainingMs: this.#clock.remainingMs,
    })
  }

  #renewNow(): void {
    if (this.#ended !== undefined || this.#resigning !== undefined) return
    if (!this.#clock.isRenewalDue) this.#clock.renewIn(0)
    this.#lane.wake()
  }

  /** Ends a term in which an answer was lost (I9). Where the lease ran out before that came to light, it is what ended the term. */
  #endInDoubt(why: string, cause?: unknown): void {
    this.#endIfExpired()
    this.#end(termEndedError(this.#details(), why, this.#wedge.error ?? cause))
  }

  #endIfExpired(): void {
    if (this.#ended !== undefined || this.#fencing !== undefined) return
    if (!this.#clock.isExpired) return
    this.#end(leaseExpiredError(this.#details(), this.#wedge.error ?? this.#lastFailure?.error))
  }

  /** Runs in the tick in which records of the role were folded. */
  #changed(): void {
    if (this.#ended !== undefined || this.#fencing !== undefined) return
    const seen = this.#seenInLog()
    switch (seen?.kind) {
      case 'superseded':
      case 'fenced': {
        // The seal of a resignation tells by itself whether somebody minted first.
        const error = lossError(this.#details(), seen)
        if (error !== undefined && this.#resigning === undefined) this.#end(error)
        break
      }
      case 'look':
        void this.#lookAtCandidates()
        break
      case 'renew':
        this.#renewNow()
        break
      case undefined:
        break
    }
  }

  /** What the log shows above the last lease of this term. */
  #seenInLog(): LossSeen | undefined {
    const state = this.#won.log.stateOf(this.role)
    if (state === undefined) return undefined
    return lossSeen(state, {
      token: this.token,
      lastLeaseOffset: this.#lastLeaseOffset,
      memberId: this.memberId,
      incarnation: this.#won.incarnation,
    })
  }

  async #lookAtCandidates(): Promise<void> {
    if (this.#lookUnderWay) return
    this.#lookUnderWay = true
    try {
      const look = await this.#services.minting.look(this.role, {
        deadline: this.#clock.deadline,
        signal: this.#over.signal,
      })
      this.#won.log.applyLook(this.role, look)
    } catch {
      // The term goes on or ends without it: the broker decides at the next renewal.
      this.#lookUnderWay = false
      this.#renewNow()
      return
    }
    this.#lookUnderWay = false
    // What was read after the look was sent wants one of its own.
    this.#changed()
  }

  /** After a fenced answer: sends nothing more, finds out why within a second, ends the term. */
  #fence(): Promise<CoordinationError> {
    if (this.#ended !== undefined) return Promise.resolve(this.#ended)
    const known = { seenInLog: () => this.#seenInLog(), confirmedMsAgo: this.#clock.confirmedMsAgo }
    this.#fencing ??= inquireFence(this.#services, this.#won, this.#details(), known).then((error) => {
      this.#end(error)
      return this.#ended ?? error
    })
    return this.#fencing
  }

  #end(error: CoordinationError): void {
    if (this.#ended !== undefined) return
    this.#ended = error
    this.#clock.stop()
    for (const unlisten of this.#unlisten) unlisten()
    this.#lane.stop(error)
    for (const { reject } of this.#renewers.splice(0)) reject(error)
    if (error.code !== 'RESIGNED') {
      rememberEndedToken(this.#services, this.role, this.token)
      this.#services.diagnostics.tell('lost', { ...this.#fields(), code: error.code, error })
    }
    this.#over.abort(error)
    this.#work.abort(error)
    if (error.code !== 'RESIGNED') this.#onEnd()
  }

  async #resign(): Promise<ResignOutcome> {
    const { runtime, diagnostics } = this.#services
    const startedAt = runtime.monotonicNow()
    // In this tick, so that nothing slips in between: intake is stopped by `#resigning`, which the caller sets.
    await Promise.resolve()
    if (this.#ended !== undefined) return 'already-ended'
    this.#clock.stopRenewals()
    const outcome = await this.#sealAndBury()
    if (outcome === 'resigned') this.#onEnd()
    diagnostics.tell('resigned', { ...this.#fields(), durationMs: runtime.monotonicNow() - startedAt, outcome })
    return outcome
  }

  async #sealAndBury(): Promise<ResignOutcome> {
    await this.#lane.drained()
    if (this.#ended !== undefined) return 'already-ended'
    const bound: Bound = { deadline: this.#clock.deadline }
    let sealed: ProducerPair | undefined
    try {
      const sealing = (): Promise<ProducerPair | undefined> => seal(this.#services, this.#won, bound)
      sealed = await this.#wedge.during(this.#clock.remainingMs, sealing)
    } catch (error) {
      this.#noteFailure(error)
      this.#endInDoubt('the seal of its resignation was not answered', error)
      return 'already-ended'
    }
    if (sealed === undefined) {
      await this.#fence()
      return 'already-ended'
    }
    this.#end(resignedError(this.#details()))
    await bury(this.#services, this.#won, sealed, bound).catch((error: unknown) => {
      // The token is dead and the role waits for the lease to expire.
      const message = 'the tombstone of a resignation was not confirmed'
      this.#services.diagnostics.warn({ ...this.#fields(), err: error }, message)
    })
    return 'resigned'
  }
}

/**
 * One challenge for a role: take a turn, read to the end, look, mint, mint again, read to the new end, commit the first lease.
 *
 * It holds I10 (what surrounds a plain mint) and I5 (the order of winning). It must not wait for anybody: whether and when to challenge is
 * the contender's.
 */
import type { EndReached } from '../cluster/follower.js'
import type { LookAnswer, Turn } from '../cluster/mint.js'
import { LookFailure, mintExpecting } from '../cluster/mint.js'
import { isOperatingFailure } from '../cluster/operating-failure.js'
import type { Bound } from '../cluster/schedule.js'
import type { ProducerEpoch } from '../cluster/transaction.js'
import { producerEpoch, Transaction, TransactionFailure } from '../cluster/transaction.js'
import { judgeLook, looksFresh } from '../election/look.js'
import type { LeasePolicy } from '../election/policy.js'
import type { RoleState } from '../election/role-state.js'
import type { StrangerMemory } from '../election/stranger.js'
import { judgeStranger } from '../election/stranger.js'
import type { Evaluation, Self } from '../election/succession.js'
import { staggeredMs, supersededBy } from '../election/succession.js'
import { sweepOf } from '../election/sweep.js'
import { coordinationError, isCoordinationError } from '../errors.js'
import type { Incarnation } from '../format/headers.js'
import type { Role } from '../format/names.js'
import { FencingToken } from '../format/token.js'
import type { CoordinationLog } from './coordination-log.js'
import { leaseRecord, registrationTombstone } from './coordination-records.js'
import type { AcquireSplit } from './diagnostics.js'
import type { Services } from './services.js'
import { rememberEndedToken } from './services.js'
import { isHopeless, supersededError } from './term-errors.js'

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

/** What came of one challenge. */
export type ChallengeOutcome =
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
  readonly mintedAt: number
  readonly split: Omit<AcquireSplit, 'firstLeaseMs'>
}

/** What a challenge needs to know of its contender, asked anew whenever something may have changed. */
export interface ContenderView {
  self(): Self
  evaluate(): Evaluation
}

/** The challenges of one contention; what one saw of a stranger the next remembers. */
export class Challenge {
  readonly #services: Services
  readonly #log: CoordinationLog
  readonly #role: Role
  readonly #policy: LeasePolicy
  readonly #signal: AbortSignal
  readonly #view: ContenderView
  #stranger: StrangerMemory | undefined

  constructor(
    services: Services,
    log: CoordinationLog,
    role: Role,
    policy: LeasePolicy,
    signal: AbortSignal,
    view: ContenderView,
  ) {
    this.#services = services
    this.#log = log
    this.#role = role
    this.#policy = policy
    this.#signal = signal
    this.#view = view
  }

  /** Challenges once. Throws what no repetition mends, and the signal's reason. */
  async attempt(): Promise<ChallengeOutcome> {
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
      this.#services.transactionVersion(this.#briefly(bound)),
    ])
    let end: EndReached = firstEnd
    for (;;) {
      // A look must not be the measure of its own age: the first on a connection may be the one that was held up.
      const fastestBefore = turn.fastestLookMs ?? 0
      const look = await turn.look(bound)
      this.#log.applyLook(this.#role, look)
      const state = this.#log.stateOf(this.#role)
      const evaluation = this.#view.evaluate()
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
      const context = { transactionVersion, now, ownRegistration: this.#view.self().ownRegistration, leaseMs }
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
        mintedAt,
        split: {
          staggerMs: this.#staggeredMs(state, evaluation),
          detectMs: Math.max(0, look.answeredAt - evaluation.slot),
          mintMs: mintedAt - look.answeredAt,
        },
      }
    }
  }

  /** Who takes its own role back has nobody in front. */
  #staggeredMs(state: RoleState, { by, slot }: Minted['by']): number {
    const { ownRegistration } = this.#view.self()
    return by !== 'slot' || ownRegistration === undefined ? 0 : staggeredMs(state, ownRegistration, slot, this.#policy)
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
    const self = this.#view.self()
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
    const by = supersededBy(state, this.#view.self())
    if (by !== undefined) throw supersededError(this.#role, this.#services.settings.memberId, by)
  }

  #lastErrorAt(): number | undefined {
    const ofPartition = this.#log.lastErrorAt(this.#role)
    const ofCoordinator = this.#services.coordinators.lastErrorAt({ keyType: 'transaction', key: this.#role })
    if (ofPartition === undefined) return ofCoordinator
    return ofCoordinator === undefined ? ofPartition : Math.max(ofPartition, ofCoordinator)
  }

  /** A bound for a read within a turn: other roles' seals and challenges wait for the turn, whatever ails this partition. */
  #briefly({ deadline, signal }: Bound): Bound {
    const { runtime, settings } = this.#services
    const briefly = Math.min(deadline, runtime.monotonicNow() + settings.requestTimeoutMs)
    return signal === undefined ? { deadline: briefly } : { deadline: briefly, signal }
  }
}

/** A passing failure as an outcome; anything else is thrown. */
export function failedOrThrow(error: unknown, signal: AbortSignal): Extract<ChallengeOutcome, { kind: 'failed' }> {
  if (signal.aborted) throw signal.reason
  const cause = error instanceof TransactionFailure && error.cause !== undefined ? error.cause : error
  if (isHopeless(cause)) throw cause
  if (!isOperatingFailure(cause)) throw cause
  return { kind: 'failed', cause }
}

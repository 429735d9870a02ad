/**
 * Watches roles: their first states, then each change of holder, state or term, for as long as somebody iterates.
 *
 * It rides on the follower. After its first pass it asks for nothing but looks at roles under whose lease a producer id is new (I7). A role
 * has one place here and no queue, so a slow reader gets the newest. It informs and never fences, and it must not write.
 */
import { lookAtAll } from '../cluster/looks.js'
import { isOperatingFailure } from '../cluster/operating-failure.js'
import type { Bound } from '../cluster/schedule.js'
import { backoffMs, pause } from '../cluster/schedule.js'
import type { Authority } from '../election/authority.js'
import { authorityOf } from '../election/authority.js'
import { expiryOf } from '../election/lease-entry.js'
import type { RoleState } from '../election/role-state.js'
import { wantsLook } from '../election/role-state.js'
import type { LeadershipState, LeadershipStatus } from '../election/status.js'
import { holdsAnything } from '../election/status.js'
import type { MemberId, Role } from '../format/names.js'
import type { FencingToken } from '../format/token.js'
import { linkedSignal, whenAborted, withSignal } from '../linked-signal.js'
import type { Timer } from '../runtime.js'
import type { CoordinationLog } from './coordination-log.js'
import { statusOf } from './describe.js'
import type { Services } from './services.js'
import { isHopeless } from './term-errors.js'

/** What was last told of a role: another status is told where it differs in one of these. */
interface Told {
  readonly state: LeadershipState
  readonly holder: MemberId | undefined
  readonly token: FencingToken | undefined
  readonly term: bigint | undefined
}

/** One iteration over the changes of some roles, or of all (undefined). Opens nothing before its first `next`. */
export class Watch implements AsyncIterableIterator<LeadershipStatus> {
  readonly #services: Services
  readonly #roles: ReadonlySet<Role> | undefined
  readonly #sources: readonly (AbortSignal | undefined)[]
  readonly #own = new AbortController()
  /** Roles that may have something new to tell, in the order in which they came to it. */
  readonly #changed = new Set<Role>()
  readonly #told = new Map<Role, Told>()
  readonly #highestTerms = new Map<Role, bigint>()
  /** What the last look at a role said, and the offset of the lease that it said it of. */
  readonly #authorities = new Map<Role, { readonly offset: bigint; readonly authority: Authority }>()
  readonly #wanted = new Set<Role>()
  readonly #lookedAt = new Set<Role>()
  readonly #expiries = new Map<Role, number>()
  readonly #undo: (() => void)[] = []
  #timer: Timer | undefined
  #timerAt = Number.POSITIVE_INFINITY
  #opened: Promise<CoordinationLog> | undefined
  #signal: AbortSignal = this.#own.signal
  #transactionVersion = 0
  #isLooking = false
  #wake: (() => void) | undefined
  #turn: Promise<unknown> = Promise.resolve()
  #state: 'open' | 'returned' | 'failed' = 'open'

  constructor(services: Services, roles: ReadonlySet<Role> | undefined, sources: readonly (AbortSignal | undefined)[]) {
    this.#services = services
    this.#roles = roles
    this.#sources = sources
  }

  [Symbol.asyncIterator](): this {
    return this
  }

  next(): Promise<IteratorResult<LeadershipStatus, undefined>> {
    const result = this.#turn.then(() => this.#next())
    this.#turn = result.catch(() => undefined)
    return result
  }

  async return(): Promise<IteratorResult<LeadershipStatus, undefined>> {
    if (this.#state === 'open') this.#state = 'returned'
    this.#end()
    return { done: true, value: undefined }
  }

  async #next(): Promise<IteratorResult<LeadershipStatus, undefined>> {
    if (this.#state !== 'open') return { done: true, value: undefined }
    try {
      this.#opened ??= this.#open()
      const log = await this.#opened
      for (;;) {
        this.#signal.throwIfAborted()
        const status = this.#take(log)
        if (status !== undefined) return { done: false, value: status }
        await this.#somethingNew()
      }
    } catch (error) {
      // `return` may come while a step of this waits.
      if (this.#stateNow() === 'returned') return { done: true, value: undefined }
      this.#state = 'failed'
      this.#end()
      throw error
    }
  }

  #stateNow(): 'open' | 'returned' | 'failed' {
    return this.#state
  }

  #end(): void {
    this.#own.abort(new Error('the watch has ended'))
    this.#free()
    this.#wake?.()
  }

  #free(): void {
    for (const step of this.#undo.splice(0)) step()
    this.#timer?.cancel()
    this.#timer = undefined
  }

  /** Has `step` called when the watch ends, which may have been in this very tick. */
  #finally(step: () => void): void {
    if (this.#signal.aborted) step()
    else this.#undo.push(step)
  }

  /** The first pass: reads to the ends, looks at every role that has a lease, and has all of them told. */
  async #open(): Promise<CoordinationLog> {
    const { signal, unlink } = linkedSignal([...this.#sources, this.#own.signal])
    this.#signal = signal
    this.#finally(unlink)
    signal.throwIfAborted()
    // Nobody may be iterating when a signal ends it, and a timer keeps the process alive.
    this.#finally(whenAborted(signal, () => this.#free()))
    const log = await this.#persist((bound) => this.#services.log(bound))
    const unlisten = log.listenToAll({
      changed: (role) => this.#note(log, role),
      topicChanged: (error) => this.#own.abort(error),
    })
    this.#finally(unlisten)
    this.#transactionVersion = await this.#persist((bound) => this.#services.transactionVersion(bound))
    await this.#persist((bound) => log.readAllToEnd(this.#roles, bound))
    const roles = [...(this.#roles ?? log.knownRoles())]
    const led = roles.filter((role) => {
      const state = log.stateOf(role)
      return state !== undefined && (state.lease?.kind === 'lease' || wantsLook(state))
    })
    await this.#persist((bound) => this.#lookAt(log, led, bound))
    for (const role of roles) this.#note(log, role)
    return log
  }

  /** Repeats a step of the first pass until it is done: a cluster that is away is waited for. */
  async #persist<T>(step: (bound: Bound) => Promise<T>): Promise<T> {
    const { runtime, settings, diagnostics } = this.#services
    for (let attempt = 0; ; attempt++) {
      try {
        this.#signal.throwIfAborted()
        return await withSignal(step(this.#within(2 * settings.requestTimeoutMs)), this.#signal)
      } catch (error) {
        this.#signal.throwIfAborted()
        if (isHopeless(error) || !isOperatingFailure(error)) throw error
        if (attempt === 0) diagnostics.warn({ err: error }, 'a watch waits for the cluster')
        await pause(runtime, backoffMs(runtime, attempt), {
          deadline: Number.POSITIVE_INFINITY,
          signal: this.#signal,
        })
      }
    }
  }

  /** What is under way then has its own deadline: a request that times out takes down what others have on its channel. */
  #within(ms: number): Bound {
    const deadline = this.#services.runtime.monotonicNow() + ms
    return { deadline, answersUntil: Number.POSITIVE_INFINITY, signal: this.#signal }
  }

  /** Runs in the tick in which records of the role were folded. */
  #note(log: CoordinationLog, role: Role): void {
    if (this.#roles !== undefined && !this.#roles.has(role)) return
    this.#changed.add(role)
    const state = log.stateOf(role)
    this.#watchExpiry(log, role, state)
    if (state !== undefined && wantsLook(state)) {
      this.#wanted.add(role)
      void this.#lookAtWanted(log)
    }
    this.#wake?.()
  }

  #take(log: CoordinationLog): LeadershipStatus | undefined {
    for (const role of this.#changed) {
      // What a look shows in a moment is worth more than that nobody knows; nothing else waits for it.
      if (this.#lookedAt.has(role) && log.stateOf(role)?.lease === undefined) continue
      this.#changed.delete(role)
      const status = this.#changeOf(log, role)
      if (status !== undefined) return status
    }
    return undefined
  }

  #changeOf(log: CoordinationLog, role: Role): LeadershipStatus | undefined {
    const told = this.#told.get(role)
    const state = log.stateOf(role)
    if (told === undefined && this.#roles === undefined && (state === undefined || !holdsAnything(state)))
      return undefined
    const known = this.#authorities.get(role)
    const authority = known !== undefined && known.offset === state?.lease?.offset ? known.authority : 'unknown'
    const status = statusOf(this.#services, log, role, { state, authority })
    const { holder, token, term } = status
    if (told !== undefined && isSame(told, status)) return undefined
    const highest = this.#highestTerms.get(role)
    if (term !== undefined) {
      if (highest !== undefined && term < highest) return undefined
      this.#highestTerms.set(role, term)
    }
    this.#told.set(role, { state: status.state, holder, token, term })
    return status
  }

  #somethingNew(): Promise<void> {
    return new Promise((resolve) => {
      const finish = (): void => {
        unlink()
        this.#wake = undefined
        resolve()
      }
      const unlink = whenAborted(this.#signal, finish)
      this.#wake = finish
    })
  }

  /** A lease runs out without a record that says so. */
  #watchExpiry(log: CoordinationLog, role: Role, state: RoleState | undefined): void {
    const { runtime, settings } = this.#services
    const lease = state?.lease
    const expiry = lease?.kind === 'lease' ? expiryOf(lease, undefined, settings.policy.leaseMs) : undefined
    if (expiry === undefined || expiry <= runtime.monotonicNow()) this.#expiries.delete(role)
    else {
      this.#expiries.set(role, expiry)
      if (expiry < this.#timerAt) this.#setTimer(log, expiry)
    }
  }

  #setTimer(log: CoordinationLog, at: number): void {
    this.#timer?.cancel()
    this.#timer = undefined
    this.#timerAt = at
    if (at === Number.POSITIVE_INFINITY || this.#signal.aborted) return
    const { runtime } = this.#services
    this.#timer = runtime.setTimer(at - runtime.monotonicNow(), () => {
      const now = runtime.monotonicNow()
      let next = Number.POSITIVE_INFINITY
      for (const [role, expiry] of this.#expiries) {
        if (expiry > now) next = Math.min(next, expiry)
        else {
          this.#expiries.delete(role)
          this.#changed.add(role)
        }
      }
      this.#setTimer(log, next)
      this.#wake?.()
    })
  }

  /** One round of looks at a time; roles that come to want one meanwhile are in the next. */
  async #lookAtWanted(log: CoordinationLog): Promise<void> {
    if (this.#isLooking || this.#opened === undefined) return
    this.#isLooking = true
    const { runtime, settings } = this.#services
    try {
      for (let failures = 0; this.#wanted.size > 0; ) {
        const roles = [...this.#wanted]
        this.#wanted.clear()
        const missing = await this.#lookAt(log, roles, this.#within(settings.requestTimeoutMs))
        for (const role of missing) this.#wanted.add(role)
        failures = missing.length > 0 ? failures + 1 : 0
        if (failures > 0) {
          const bound = { deadline: Number.POSITIVE_INFINITY, signal: this.#signal }
          await pause(runtime, backoffMs(runtime, failures), bound)
        }
      }
    } catch (error) {
      this.#own.abort(error)
    } finally {
      this.#isLooking = false
    }
  }

  /** Looks once; returns the roles that got no answer. */
  async #lookAt(log: CoordinationLog, roles: readonly Role[], bound: Bound): Promise<readonly Role[]> {
    for (const role of roles) this.#lookedAt.add(role)
    try {
      const looks = await lookAtAll(this.#services, roles, bound)
      const missing: Role[] = []
      for (const role of roles) {
        const look = looks.get(role)
        if (look === undefined) {
          missing.push(role)
          continue
        }
        log.applyLook(role, look)
        const state = log.stateOf(role)
        if (state?.lease?.kind !== 'lease') continue
        const authority = authorityOf(state.lease.token, state, look, this.#transactionVersion)
        // One look beside a log that moves proves nobody deposed: see `describe`.
        const told = authority === 'superseded' ? 'unknown' : authority
        this.#authorities.set(role, { offset: state.lease.offset, authority: told })
      }
      return missing
    } finally {
      for (const role of roles) {
        this.#lookedAt.delete(role)
        this.#changed.add(role)
      }
      this.#wake?.()
    }
  }
}

function isSame(told: Told, { state, holder, token, term }: LeadershipStatus): boolean {
  const isSameToken =
    told.token === token || (told.token !== undefined && token !== undefined && told.token.equals(token))
  return told.state === state && told.holder === holder && told.term === term && isSameToken
}

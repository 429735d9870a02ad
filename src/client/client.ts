/**
 * `CoordinationClient`: the front of the library. It checks what it is called with, and winds everything up when it is
 * closed.
 *
 * It must not know how a role is won or led: `contentions.ts`, `leadership.ts`, `lead.ts` and `describe.ts` do.
 */
// For the declarations of users whose `lib` does not name it.
/// <reference lib="esnext.disposable" preserve="true" />
import type { ClusterConnection } from '../cluster/connection.js'
import type { Bound } from '../cluster/schedule.js'
import { renewsWithMargin } from '../election/policy.js'
import type { LeadershipStatus } from '../election/status.js'
import type { CoordinationError } from '../errors.js'
import { coordinationError } from '../errors.js'
import { parseRole } from '../format/names.js'
import { FencingToken } from '../format/token.js'
import { linkedSignal, withSignal } from '../linked-signal.js'
import { sleep } from '../runtime.js'
import { connect } from './connect.js'
import type { AcquireOptions } from './contentions.js'
import { Contentions } from './contentions.js'
import { deposeHolder } from './depose.js'
import { checkTokenOf, describeAll, describeRole } from './describe.js'
import { diagnosticsTo } from './diagnostics.js'
import type { ClientHealth } from './health.js'
import { leadForEver } from './lead.js'
import type { Leadership } from './leadership.js'
import type { ClientOptions } from './options.js'
import {
  checkAcquireOptions,
  checkAskOptions,
  checkWatchOptions,
  checkWork,
  listOfRoles,
  settingsOf,
} from './options.js'
import type { Services } from './services.js'
import { openServices } from './services.js'
import { verifyCluster } from './verify.js'
import type { VerifyFinding } from './verify-finding.js'
import { Watch } from './watch.js'

/** Options of the calls that ask and do not wait. */
export interface AskOptions {
  /** Ends the call, which rejects with its reason. */
  readonly signal?: AbortSignal
  /** How long the answer may take, in ms. Default three times the client's `requestTimeoutMs`. */
  readonly timeoutMs?: number
}

/**
 * Leadership on the Kafka that the given kafkajs client names. One client per process serves all its roles; nothing is opened before the
 * first call. An open client keeps the process alive until `close`.
 */
export class CoordinationClient implements AsyncDisposable {
  readonly #services: Services
  readonly #contentions: Contentions
  readonly #leads = new Set<Promise<unknown>>()
  readonly #closing = new AbortController()
  #closed: Promise<void> | undefined

  /** @throws `CONFIG` for a bad option; `UNSUPPORTED` where `kafka` lacks something. */
  constructor(options: ClientOptions) {
    const settings = settingsOf(options)
    const connection: ClusterConnection = connect(settings.kafka, settings.runtime)
    const diagnostics = diagnosticsTo(settings.logger)
    this.#services = openServices(settings, connection, diagnostics)
    this.#contentions = new Contentions(this.#services, this.#closing.signal)
    if (!renewsWithMargin(settings.policy)) {
      const { renewIntervalMs, leaseMs } = settings.policy
      diagnostics.warn(
        {},
        `renewIntervalMs ${renewIntervalMs} is above a third of leaseMs ${leaseMs}: one lost renewal can cost the term`,
      )
    }
  }

  /** The name of this member among the contenders. */
  get memberId(): string {
    return this.#services.settings.memberId
  }

  /**
   * Waits until this member leads the role. Without a signal it waits for ever; an aborted one leaves nothing behind, as far as the
   * broker answers. A client contends for a role once at a time.
   *
   * @throws the signal's reason; `SUPERSEDED`, `CONFIG`, `UNAUTHORIZED`, `UNSUPPORTED`, `TOPIC`, `CLOSED` at once, for no waiting mends them.
   */
  async acquire(role: string, options: AcquireOptions = {}): Promise<Leadership> {
    const leadership = await this.#contend(role, options, false)
    if (leadership === undefined) throw new Error('a contention without end was given up')
    return leadership
  }

  /**
   * Leads the role if the rules let this member do so now; else undefined, with nothing left behind.
   *
   * @throws as `acquire`; `WEDGED`; `TRANSPORT` where the cluster does not answer.
   */
  async tryAcquire(role: string, options: AcquireOptions = {}): Promise<Leadership | undefined> {
    return await this.#contend(role, options, true)
  }

  /**
   * Leads the role for ever: contends, runs `work`, and contends again after a loss, once `work` has settled; two works of a role never
   * run at a time. When `work` returns or throws of itself, the role is resigned and `lead` settles the same way. When the
   * signal aborts, `leadership.signal` aborts with its reason, `work` has as long as a lease to settle, and `lead` resolves.
   *
   * @throws what `work` threw; `SUPERSEDED`, `CONFIG`, `UNAUTHORIZED`, `UNSUPPORTED`, `TOPIC`.
   */
  async lead<T>(
    role: string,
    work: (leadership: Leadership) => Promise<T>,
    options: AcquireOptions = {},
  ): Promise<T | undefined> {
    this.#throwIfClosed()
    checkWork(work)
    checkAcquireOptions(options)
    const stopsLeading = this.#services.health.leadsForEver(parseRole(role))
    const { signal, unlink } = linkedSignal([options.signal, this.#closing.signal])
    const { runtime, diagnostics } = this.#services
    const leading = leadForEver(
      {
        runtime,
        acquire: (contention) => this.acquire(role, { ...options, signal: contention }),
        tellDropped: (error) => diagnostics.warn({ role, err: error }, 'a work threw after its term had ended'),
      },
      work,
      signal,
    )
    const watched = leading.catch(() => undefined)
    this.#leads.add(watched)
    try {
      return await leading
    } finally {
      this.#leads.delete(watched)
      stopsLeading(signal.aborted)
      unlink()
    }
  }

  /**
   * Who holds the role, by the log and a look at the coordinator.
   *
   * @throws the signal's reason; `TOPIC`, `UNAUTHORIZED`, `UNSUPPORTED`, `CLOSED`; `TRANSPORT` where the cluster does not answer.
   */
  async describe(role: string, options: AskOptions = {}): Promise<LeadershipStatus> {
    const parsed = parseRole(role)
    return await this.#ask(options, `describe('${role}')`, (bound) => describeRole(this.#services, parsed, bound))
  }

  /**
   * The state of every role of which the coordination topic holds anything: one pass, by one read and few looks.
   *
   * @throws as `describe`.
   */
  async roles(options: AskOptions = {}): Promise<readonly LeadershipStatus[]> {
    return await this.#ask(options, 'roles()', (bound) => describeAll(this.#services, bound))
  }

  /**
   * Watches a role, some roles, or all of them: the state of each at once, then every change of holder, state or term. A slow reader gets the
   * newest state of a role and not those in between; a term below one that was told is never told. A watch waits for a cluster that is
   * away, and after its first pass asks for nothing but looks. `authority` is that of the last look, `unknown` once the lease changed after
   * it; `describe` asks anew. Nothing is opened before the first iteration; breaking out frees everything.
   *
   * @throws `CONFIG`, `CLOSED` at once; the iteration rejects with the signal's reason, `TOPIC`, `UNAUTHORIZED`, `UNSUPPORTED`, `CLOSED`.
   */
  watch(
    roles?: string | readonly string[],
    options: { readonly signal?: AbortSignal } = {},
  ): AsyncIterableIterator<LeadershipStatus, undefined> {
    this.#throwIfClosed()
    checkWatchOptions(options)
    const watched = roles === undefined ? undefined : new Set(listOfRoles(roles).map(parseRole))
    return new Watch(this.#services, watched, [options.signal, this.#closing.signal])
  }

  /**
   * Ends the term of whoever holds the role, as an operator does: the holder's token is dead when this resolves, and the next member in the
   * queue leads. Where that is the same process (`lead`), it registers again behind all others. Returns the state that was ended. Of a vacant role
   * it changes nothing. A call whose time or signal ends it when the token is dead already still clears the way for the next member.
   *
   * @throws as `describe`; `WEDGED` where the broker cannot finish the role's last transaction.
   */
  async depose(role: string, options: AskOptions = {}): Promise<LeadershipStatus> {
    const parsed = parseRole(role)
    return await this.#ask(options, `depose('${role}')`, (bound) => deposeHolder(this.#services, parsed, bound))
  }

  /**
   * Whether the broker takes `token` for the role's newest: `superseded` once another was minted, by a successor or by the seal of a
   * resignation; `unknown` where neither log nor coordinator can tell. It informs: before an action, call `Leadership.renew` instead.
   *
   * @throws as `describe`.
   */
  async checkToken(
    role: string,
    token: FencingToken | string,
    options: AskOptions = {},
  ): Promise<'current' | 'superseded' | 'unknown'> {
    const parsedRole = parseRole(role)
    const parsed = token instanceof FencingToken ? token : FencingToken.parse(token)
    return await this.#ask(options, `checkToken('${role}')`, (bound) =>
      checkTokenOf(this.#services, parsedRole, parsed, bound),
    )
  }

  /**
   * How this client fares in its roles, by what it knows: no request is made, so a probe may call it as often as it likes. A standby whose
   * contention has ended or fails for longer than a lease is not healthy, and neither is a leader that has no renewal confirmed for half a
   * lease. A closed client is not healthy.
   */
  health(): ClientHealth {
    return this.#services.health.health(!this.#closing.signal.aborted)
  }

  /**
   * Checks the cluster for what the library needs of it, and the records of the coordination topic, worst finding first. It changes nothing.
   * What this principal may not ask, or what does not answer, is a finding `not-checked`.
   *
   * @throws the signal's reason; `CLOSED`; `UNAUTHORIZED` where the credentials are refused; `TRANSPORT` where nothing answers.
   */
  async verify(options: AskOptions = {}): Promise<readonly VerifyFinding[]> {
    return await this.#ask(options, 'verify()', (bound) => verifyCluster(this.#services, bound))
  }

  /**
   * Ends everything: waits of `acquire` reject with `CLOSED`, works of `lead` are told and waited for, leaderships resign, sockets close.
   * What takes longer than `timeoutMs` (default 10000) is left to its lease. Never throws; again does nothing more.
   */
  close(options: { timeoutMs?: number } = {}): Promise<void> {
    this.#closed ??= this.#close(options.timeoutMs ?? 10_000)
    return this.#closed
  }

  /** Closes the client. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.close()
  }

  #throwIfClosed(): void {
    if (this.#closing.signal.aborted) throw closedError()
  }

  /** Runs a question within its time, and leaves what is under way then to its requests' own deadlines. */
  async #ask<T>(options: AskOptions, what: string, question: (bound: Bound) => Promise<T>): Promise<T> {
    this.#throwIfClosed()
    const { runtime, settings } = this.#services
    checkAskOptions(options)
    const timeoutMs = options.timeoutMs ?? 3 * settings.requestTimeoutMs
    const late = new AbortController()
    const { signal, unlink } = linkedSignal([options.signal, this.#closing.signal, late.signal])
    const timer = runtime.setTimer(timeoutMs, () =>
      late.abort(
        coordinationError('TRANSPORT', `${what} was not answered within ${timeoutMs} ms`, { retriable: true }),
      ),
    )
    const deadline = runtime.monotonicNow() + timeoutMs
    try {
      return await withSignal(question({ deadline, answersUntil: Number.POSITIVE_INFINITY, signal }), signal)
    } finally {
      timer.cancel()
      unlink()
    }
  }

  async #contend(name: string, options: AcquireOptions, onePass: boolean): Promise<Leadership | undefined> {
    this.#throwIfClosed()
    return await this.#contentions.contend(parseRole(name), options, onePass)
  }

  async #close(timeoutMs: number): Promise<void> {
    const { runtime } = this.#services
    const error = closedError()
    this.#closing.abort(error)
    const finished = new AbortController()
    const windUp = async (): Promise<void> => {
      await Promise.all(this.#leads)
      await this.#contentions.resignAll()
    }
    await Promise.race([windUp(), sleep(runtime, timeoutMs, finished.signal).catch(() => undefined)])
    finished.abort()
    this.#contentions.abandonAll(error)
    this.#services.close()
  }
}

function closedError(): CoordinationError {
  return coordinationError('CLOSED', 'The client is closed; make a new one', {})
}

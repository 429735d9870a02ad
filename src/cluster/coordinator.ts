/**
 * Requests to a coordinator: finds it, keeps it, finds it again when an answer says so, and repeats what may be repeated until the
 * bound ends it.
 *
 * Only requests that are safe to repeat come through here. It must not send a plain mint: `mint.ts` does.
 */
import type { CoordinationError } from '../errors.js'
import { coordinationError, isCoordinationError } from '../errors.js'
import type { Runtime } from '../runtime.js'
import type { ApiName, ApiRequest, ApiResponse, Channel, ClusterConnection, Node } from './connection.js'
import { RequestFailure } from './connection.js'
import type { Attempted, Disposition } from './error-table.js'
import { dispositionOf, kafkaErrorName, refusalError } from './error-table.js'
import { isOperatingFailure, OperatingFailure } from './operating-failure.js'
import type { Bound } from './schedule.js'
import { backoffMs, concurrentTransactionsDelayMs, isPast, pause, requestDeadline } from './schedule.js'

/** Whose coordinator is meant. */
export interface CoordinatorKey {
  readonly keyType: 'group' | 'transaction'
  readonly key: string
}

/** An answer that the flow must interpret, and whether an earlier sending of the same request went unanswered. */
export interface Answered<A extends ApiName> {
  readonly response: ApiResponse<A>
  readonly disposition: Disposition
  readonly errorCode: number
  /** A sending of the request was written and never answered: a late copy of it may still arrive (I9). */
  readonly answerLost: boolean
  /** An earlier sending may have been applied: its answer was lost, or was one that a coordinator also gives after an append. */
  readonly appliedBefore: boolean
}

/** The bound ended a request before a final answer came. */
export class Unanswered extends OperatingFailure {
  override readonly name = 'Unanswered'
  /** As in `Answered`. */
  readonly answerLost: boolean
  /** Whether any sending of it may have been applied. */
  readonly mayBeApplied: boolean
  /** The last Kafka code answered, if any. */
  readonly lastErrorCode: number | undefined

  constructor(
    message: string,
    sendings: { answerLost: boolean; mayBeApplied: boolean; lastErrorCode: number | undefined },
    cause: unknown,
  ) {
    super(message, cause === undefined ? undefined : { cause })
    this.answerLost = sendings.answerLost
    this.mayBeApplied = sendings.mayBeApplied
    this.lastErrorCode = sendings.lastErrorCode
  }
}

/** Finds coordinators and remembers them until they are said to be wrong. */
export class Coordinators {
  readonly #connection: ClusterConnection
  readonly #runtime: Runtime
  readonly #requestTimeoutMs: number
  readonly #known = new Map<string, Node>()
  readonly #lastErrorAt = new Map<string, number>()
  readonly #busySince = new Map<string, number>()

  constructor(connection: ClusterConnection, runtime: Runtime, requestTimeoutMs: number) {
    this.#connection = connection
    this.#runtime = runtime
    this.#requestTimeoutMs = requestTimeoutMs
  }

  /** The coordinator of `key`: known, or looked for until the bound ends. */
  async find(key: CoordinatorKey, attempted: Attempted, bound: Bound): Promise<Node> {
    const known = this.#known.get(nameOf(key))
    if (known !== undefined) return known
    let lastErrorCode: number | undefined
    let lastFailure: unknown
    for (let attempt = 0; ; attempt++) {
      bound.signal?.throwIfAborted()
      try {
        const answer = await this.#connection.request(
          'seed',
          'work',
          { api: 'FindCoordinator', keyType: key.keyType, key: key.key },
          { deadline: this.requestDeadline(bound) },
        )
        const disposition = dispositionOf('FindCoordinator', answer.errorCode)
        if (disposition === 'ok') {
          this.#known.set(nameOf(key), answer.node)
          return answer.node
        }
        this.noteError(key)
        if (disposition === 'fatal') throw refusalError('FindCoordinator', answer.errorCode, attempted)
        lastErrorCode = answer.errorCode
      } catch (error) {
        if (!(error instanceof RequestFailure)) throw error
        this.noteError(key)
        throwIfHopeless(error, attempted)
        lastFailure = error
      }
      if (isPast(this.#runtime, bound)) {
        const code = lastErrorCode === undefined ? '' : `, last answer ${kafkaErrorName(lastErrorCode)}`
        throw new Unanswered(
          `No coordinator of ${key.keyType} '${key.key}' was found in time${code}`,
          { answerLost: false, mayBeApplied: false, lastErrorCode },
          lastFailure,
        )
      }
      await pause(this.#runtime, backoffMs(this.#runtime, attempt), bound)
    }
  }

  /**
   * Looks once for the coordinators of those of the transactional ids whose is not known; ids whose coordinator is not to be had now are
   * left out of the answer.
   *
   * @throws CoordinationError where no repetition could help.
   */
  async findAll(ids: readonly string[], bound: Bound): Promise<ReadonlyMap<string, Node>> {
    const keys = ids.filter((id) => !this.#known.has(nameOf(transactionKey(id))))
    if (keys.length > 0) await this.#findMissing(keys, bound)
    const found = new Map<string, Node>()
    for (const id of ids) {
      const node = this.#known.get(nameOf(transactionKey(id)))
      if (node !== undefined) found.set(id, node)
    }
    return found
  }

  /** Drops what is known of a coordinator. */
  forget(key: CoordinatorKey): void {
    this.#known.delete(nameOf(key))
  }

  /** Drops what is known of every coordinator on a node. */
  forgetNode(nodeId: number): void {
    for (const [name, { id }] of this.#known) if (id === nodeId) this.#known.delete(name)
  }

  /** Remembers that the coordinator of `key` gave an error just now. */
  noteError(key: CoordinatorKey): void {
    this.#lastErrorAt.set(nameOf(key), this.#runtime.monotonicNow())
  }

  /** Monotonic instant of the last error that the coordinator of `key` gave, if it ever did. */
  lastErrorAt(key: CoordinatorKey): number | undefined {
    return this.#lastErrorAt.get(nameOf(key))
  }

  /**
   * Since which monotonic instant the coordinator of `key` has answered every request of `ask` with CONCURRENT_TRANSACTIONS, if its
   * last answer was that.
   */
  busySince(key: CoordinatorKey): number | undefined {
    return this.#busySince.get(nameOf(key))
  }

  /** When a request sent now has to be answered. */
  requestDeadline(bound: Bound): number {
    return requestDeadline(this.#runtime, this.#requestTimeoutMs, bound)
  }

  async #findMissing(keys: readonly string[], bound: Bound): Promise<void> {
    const attempted = { operation: 'Describe', resource: `transactional ids such as '${keys[0]}'` }
    try {
      const answer = await this.#connection.request(
        'seed',
        'work',
        { api: 'FindCoordinators', keyType: 'transaction', keys },
        { deadline: this.requestDeadline(bound) },
      )
      for (const { key, errorCode, node } of answer.coordinators) {
        const disposition = dispositionOf('FindCoordinators', errorCode)
        if (disposition === 'ok') this.#known.set(nameOf(transactionKey(key)), node)
        else if (disposition === 'fatal') throw refusalError('FindCoordinators', errorCode, attempted)
      }
    } catch (error) {
      if (!(error instanceof RequestFailure)) throw error
      throwIfHopeless(error, attempted)
    }
  }

  #noteBusy(key: CoordinatorKey, isBusy: boolean): void {
    const name = nameOf(key)
    if (!isBusy) this.#busySince.delete(name)
    else if (!this.#busySince.has(name)) this.#busySince.set(name, this.#runtime.monotonicNow())
  }

  /**
   * Sends `request` to the coordinator of `key` until it gets an answer other than "busy", "elsewhere" or "later", and returns
   * that. `errorCodeOf` picks the code that stands for the answer.
   *
   * @throws Unanswered when the bound ends it first; CoordinationError where a connection cannot ever be had, and Unanswered with that
   * as its cause where an earlier sending may have been applied.
   */
  async ask<A extends ApiName>(
    key: CoordinatorKey,
    channel: Channel,
    request: ApiRequest<A> & { readonly api: A },
    errorCodeOf: (response: ApiResponse<A>) => number,
    attempted: Attempted,
    bound: Bound,
  ): Promise<Answered<A>> {
    let answerLost = false
    let mayBeApplied = false
    let busy = 0
    let lastErrorCode: number | undefined
    let lastFailure: unknown
    for (let attempt = 0; ; attempt++) {
      let delayMs: number
      try {
        if (isPast(this.#runtime, bound)) {
          throw new Unanswered(
            `${request.api} for ${attempted.resource} came too late to be sent`,
            { answerLost, mayBeApplied, lastErrorCode },
            lastFailure,
          )
        }
        const node = await this.find(key, attempted, bound)
        const response = await this.#connection.request<A>(node, channel, request, {
          deadline: this.requestDeadline(bound),
        })
        const errorCode = errorCodeOf(response)
        const disposition = dispositionOf(request.api, errorCode)
        this.#noteBusy(key, disposition === 'retry-now')
        if (disposition === 'retry-now') {
          delayMs = concurrentTransactionsDelayMs(busy++)
        } else if (disposition === 'find-again' || disposition === 'retry-later') {
          this.noteError(key)
          // A coordinator that lost its log's leadership in mid-append answers 15 or 16, and the record may yet be kept.
          mayBeApplied = true
          if (disposition === 'find-again') this.forget(key)
          delayMs = backoffMs(this.#runtime, attempt)
        } else {
          return { response, disposition, errorCode, answerLost, appliedBefore: mayBeApplied }
        }
        lastErrorCode = errorCode
      } catch (error) {
        if (error instanceof Unanswered) {
          lastErrorCode ??= error.lastErrorCode
          throw new Unanswered(error.message, { answerLost, mayBeApplied, lastErrorCode }, error.cause)
        }
        const failure = error instanceof RequestFailure ? hopelessError(error, attempted) : error
        if (failure !== undefined) {
          // Nothing more can be sent, and what was sent before is still in doubt (I9).
          if (!mayBeApplied || !isCoordinationError(failure)) throw failure
          throw new Unanswered(failure.message, { answerLost, mayBeApplied, lastErrorCode }, failure)
        }
        if (error instanceof RequestFailure && error.written) answerLost = mayBeApplied = true
        this.noteError(key)
        this.forget(key)
        lastFailure = error
        delayMs = backoffMs(this.#runtime, attempt)
      }
      if (isPast(this.#runtime, bound)) {
        const code = lastErrorCode === undefined ? '' : `, last answer ${kafkaErrorName(lastErrorCode)}`
        throw new Unanswered(
          `${request.api} for ${attempted.resource} was not answered in time${code}`,
          { answerLost, mayBeApplied, lastErrorCode },
          lastFailure,
        )
      }
      await pause(this.#runtime, delayMs, bound)
    }
  }
}

/** Throws where no repetition of a request could ever get through. */
export function throwIfHopeless(failure: RequestFailure, attempted: Attempted): void {
  const error = hopelessError(failure, attempted)
  if (error !== undefined) throw error
}

function hopelessError(failure: RequestFailure, attempted: Attempted): CoordinationError | undefined {
  if (failure.kind === 'authentication') {
    return coordinationError(
      'UNAUTHORIZED',
      `${attempted.operation} on ${attempted.resource}: the broker refused the credentials: ${failure.message}; check the kafkajs sasl options`,
      attempted,
      { cause: failure },
    )
  }
  if (failure.kind === 'unsupported') {
    return coordinationError('UNSUPPORTED', failure.message, { wanted: attempted.operation }, { cause: failure })
  }
  return undefined
}

/** The error a caller sees when a bound ended a request that may be tried again later. A fault of this library stays what it is. */
export function transportError(cause: unknown): unknown {
  if (isCoordinationError(cause) || !isOperatingFailure(cause)) return cause
  if (cause instanceof Unanswered && isCoordinationError(cause.cause)) return cause.cause
  const message = cause instanceof Error ? cause.message : String(cause)
  const kafkaCode = cause instanceof Unanswered ? cause.lastErrorCode : undefined
  return coordinationError(
    'TRANSPORT',
    message,
    kafkaCode === undefined ? { retriable: true } : { retriable: true, kafkaCode },
    { cause },
  )
}

/** The key by which a role's transaction coordinator is found. */
export function transactionKey(role: string): CoordinatorKey {
  return { keyType: 'transaction', key: role }
}

function nameOf(key: CoordinatorKey): string {
  return `${key.keyType}:${key.key}`
}

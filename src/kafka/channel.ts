/**
 * One channel to one broker: requests wait here for their link, are sent in order, and settle by their deadlines.
 *
 * It owns the single dial, the deadlines, the pause that a quota asks for, the renewal of SASL credentials and the refusal of
 * `onlyIfIdle` (I10). It must not retry: a request that failed is the caller's again, and the next one dials afresh. Every
 * rejection is a `RequestFailure`, and `written` is false only while the frame was not handed to the socket (I9).
 */
import {
  type ApiName,
  type ApiRequest,
  type ApiResponse,
  RequestFailure,
  type RequestFailureKind,
  type RequestOptions,
} from '../cluster/connection.js'
import type { Runtime, Timer } from '../runtime.js'
import type { KafkajsBrokerPool } from './kafkajs-internals.js'
import { type Destination, Link } from './link.js'
import type { Codec } from './protocol/codec.js'
import { decodePayload, encodeFrame } from './protocol/frame.js'

/** One request between its call and its outcome. */
interface Exchange {
  readonly label: string
  readonly apiName: string
  readonly apiKey: number
  readonly apiVersion: number
  readonly startedAt: number
  readonly deadline: number
  readonly encode: (correlationId: number, clientId: string | null) => Buffer
  /** Takes the answer; returns how long the broker wants a pause. Throws when it cannot be decoded. */
  readonly succeed: (payload: Buffer) => number
  readonly fail: (error: unknown) => void
  written: boolean
  timer: Timer | undefined
}

export interface ChannelOptions {
  readonly brokers: KafkajsBrokerPool
  readonly runtime: Runtime
  readonly destination: Destination
  /** The channel's name in messages. */
  readonly name: string
  /** Close the link after so long without a request; undefined = never. */
  readonly idleCloseMs: number | undefined
}

/** A queue of requests in front of one link. */
export class Channel {
  readonly #options: ChannelOptions
  readonly #runtime: Runtime
  readonly #waiting: Exchange[] = []
  readonly #inFlight = new Set<Exchange>()
  #link: Link | undefined
  /** What the waiting requests wait for; `sendable` = they need not wait. */
  #state: 'unconnected' | 'dialling' | 'authenticating' | 'throttled' | 'sendable' = 'unconnected'
  #throttledUntil = Number.NEGATIVE_INFINITY
  #throttleTimer: Timer | undefined
  #idleTimer: Timer | undefined

  constructor(options: ChannelOptions) {
    this.#options = options
    this.#runtime = options.runtime
  }

  /** Sends a request, dialling first where there is no link. */
  request<A extends ApiName>(
    codec: Codec<A>,
    request: ApiRequest<A>,
    { deadline, onlyIfIdle }: RequestOptions,
  ): Promise<ApiResponse<A>> {
    const label = `${codec.name} to ${this.#target()} on channel ${this.#options.name}`
    const busy = onlyIfIdle === true ? this.#whyNotIdle() : undefined
    if (busy !== undefined) return rejected('not-idle', `${label} was not sent: ${busy}`)
    const startedAt = this.#runtime.monotonicNow()
    if (deadline <= startedAt) return rejected('timeout', `${label} was not sent: its deadline had passed`)
    return new Promise((resolve, reject) => {
      const exchange: Exchange = {
        label,
        apiName: codec.name,
        apiKey: codec.apiKey,
        apiVersion: codec.version,
        startedAt,
        deadline,
        encode: (correlationId, clientId) => encodeFrame(codec, request, correlationId, clientId),
        succeed: (payload) => {
          const { throttleMs, response } = decodePayload(codec, payload)
          resolve(response)
          return throttleMs
        },
        fail: reject,
        written: false,
        timer: this.#runtime.setTimer(deadline - startedAt, () => this.#expire(exchange)),
      }
      this.#idleTimer?.cancel()
      this.#waiting.push(exchange)
      this.#advance()
    })
  }

  /** Closes the link. All requests under way reject with `kind` in this tick. */
  reset(kind: RequestFailureKind, message: string, cause?: unknown): void {
    const link = this.#link
    const failed = [...this.#inFlight, ...this.#waiting]
    this.#link = undefined
    this.#state = 'unconnected'
    this.#throttledUntil = Number.NEGATIVE_INFINITY
    this.#throttleTimer?.cancel()
    this.#idleTimer?.cancel()
    this.#inFlight.clear()
    this.#waiting.length = 0
    link?.destroy(new Error(message, { cause }))
    for (const exchange of failed) this.#fail(exchange, kind, message, cause)
  }

  #target(): string {
    const { destination } = this.#options
    if (this.#link !== undefined) return this.#link.address
    if (destination === 'seed') return 'a broker of the list'
    return `broker ${destination.id} (${destination.host}:${destination.port})`
  }

  /** Why a request may not be sent in this very tick on a socket where nothing is in its way (I10). */
  #whyNotIdle(): string | undefined {
    if (this.#link === undefined || this.#state === 'dialling') return 'it is not connected'
    if (this.#state !== 'sendable' && this.#state !== 'throttled') return 'it renews its SASL credentials'
    if (this.#isThrottled()) return 'the broker asked for a pause (quota)'
    if (this.#inFlight.size > 0 || this.#waiting.length > 0 || !this.#link.isQuiet) return 'a request is in flight'
    if (this.#link.isAuthenticationDue) return 'its SASL credentials are due for renewal'
    return undefined
  }

  #isThrottled(): boolean {
    return this.#runtime.monotonicNow() < this.#throttledUntil
  }

  /** Sends what waits, or does the next thing that it waits for. */
  #advance(): void {
    if (this.#state === 'dialling' || this.#state === 'authenticating') return
    const link = this.#link
    if (link === undefined) {
      this.#dial()
      return
    }
    while (this.#waiting.length > 0) {
      if (this.#isThrottled()) {
        this.#pause()
        return
      }
      if (link.isAuthenticationDue) {
        this.#authenticate(link)
        return
      }
      this.#state = 'sendable'
      const exchange = this.#waiting.shift()
      if (exchange !== undefined) this.#send(link, exchange)
      if (this.#link !== link) return
    }
  }

  #dial(): void {
    const link: Link = new Link(this.#options.brokers, this.#runtime, this.#options.destination, {
      onDown: (cause) => this.#onDown(link, cause),
      onThrottle: (throttleMs) => this.#throttle(throttleMs),
    })
    this.#link = link
    this.#prepare(link, 'dialling', link.open())
  }

  #authenticate(link: Link): void {
    this.#prepare(link, 'authenticating', link.reauthenticate())
  }

  #prepare(link: Link, state: 'dialling' | 'authenticating', preparation: Promise<void>): void {
    this.#state = state
    preparation.then(
      () => {
        if (this.#link !== link) return
        this.#state = 'sendable'
        this.#advance()
      },
      (error: unknown) => {
        if (this.#link !== link) return
        if (error instanceof RequestFailure) this.reset(error.kind, error.message, error.cause)
        else this.reset('unreachable', `no connection to ${link.address}: ${error}`, error)
      },
    )
  }

  #onDown(link: Link, cause: Error): void {
    if (this.#link !== link) return
    if (this.#state === 'dialling')
      this.reset('unreachable', `no connection to ${link.address}: ${cause.message}`, cause)
    else this.reset('closed', `the connection to ${link.address} was lost: ${cause.message}`, cause)
  }

  #throttle(throttleMs: number): void {
    if (throttleMs > 0) {
      this.#throttledUntil = Math.max(this.#throttledUntil, this.#runtime.monotonicNow() + throttleMs)
    }
  }

  #pause(): void {
    this.#state = 'throttled'
    this.#throttleTimer?.cancel()
    this.#throttleTimer = this.#runtime.setTimer(this.#throttledUntil - this.#runtime.monotonicNow(), () =>
      this.#advance(),
    )
  }

  #send(link: Link, exchange: Exchange): void {
    // A process that was stopped may come here long after the deadline, and its timer only later.
    if (exchange.deadline <= this.#runtime.monotonicNow()) {
      this.#fail(exchange, 'timeout', `${exchange.label} was not sent: its deadline had passed`)
      return
    }
    const unsupported = link.unsupportedReason(exchange.apiName, exchange.apiKey, exchange.apiVersion)
    if (unsupported !== undefined) {
      this.#fail(exchange, 'unsupported', unsupported)
      return
    }
    const correlationId = link.nextCorrelationId()
    let frame: Buffer
    try {
      frame = exchange.encode(correlationId, link.clientId)
    } catch (error) {
      exchange.timer?.cancel()
      exchange.fail(error)
      return
    }
    this.#inFlight.add(exchange)
    link.send(frame, correlationId, {
      apiName: exchange.apiName,
      apiKey: exchange.apiKey,
      apiVersion: exchange.apiVersion,
      onWrite: () => {
        exchange.written = true
      },
      onAnswer: (payload) => this.#onAnswer(exchange, payload),
    })
  }

  #onAnswer(exchange: Exchange, payload: Buffer): void {
    if (!this.#inFlight.delete(exchange)) return
    exchange.timer?.cancel()
    try {
      this.#throttle(exchange.succeed(payload))
    } catch (error) {
      const message = `the answer of ${exchange.label} cannot be read: ${error instanceof Error ? error.message : error}`
      this.reset('closed', `the connection was reset: ${message}`, error)
      this.#fail(exchange, 'malformed', message, error)
      return
    }
    this.#scheduleIdleClose()
  }

  #scheduleIdleClose(): void {
    const { idleCloseMs } = this.#options
    if (idleCloseMs === undefined || this.#inFlight.size > 0 || this.#waiting.length > 0) return
    this.#idleTimer?.cancel()
    this.#idleTimer = this.#runtime.setTimer(idleCloseMs, () => this.reset('closed', 'the channel was idle'))
  }

  #expire(exchange: Exchange): void {
    const waitedMs = Math.round(this.#runtime.monotonicNow() - exchange.startedAt)
    const isWaiting = this.#waiting.indexOf(exchange)
    if (isWaiting >= 0) this.#waiting.splice(isWaiting, 1)
    else if (!this.#inFlight.delete(exchange)) return
    const outcome = exchange.written ? 'had no answer' : 'could not be sent'
    const message = `${exchange.label} ${outcome} within ${waitedMs} ms`
    // Behind a pause that the broker asked for, the link itself is well.
    if (this.#state !== 'throttled' || exchange.written) this.reset('closed', `the connection was reset: ${message}`)
    this.#fail(exchange, 'timeout', message)
  }

  #fail(exchange: Exchange, kind: RequestFailureKind, message: string, cause?: unknown): void {
    exchange.timer?.cancel()
    exchange.fail(new RequestFailure(kind, message, { written: exchange.written, cause }))
  }
}

function rejected(kind: RequestFailureKind, message: string): Promise<never> {
  return Promise.reject(new RequestFailure(kind, message, { written: false }))
}

/**
 * One socket to one broker, from the dial until it is down; it is never used again after that.
 *
 * The dial (TCP, TLS, ApiVersions, SASL) is kafkajs's, and so is the matching of answers to requests. Frames are made and
 * written here, because kafkajs's own `send` awaits several times before it writes (I10), waits behind its throttle and logs
 * at ERROR what callers expect. Its timers are silenced: every deadline is kept by `channel.ts`, whatever the user's
 * `requestTimeout`, `enforceRequestTimeout` or `retry` say. A link must not retry, wait or decide when to send.
 */
import type { Socket } from 'node:net'
import { type Node, RequestFailure } from '../cluster/connection.js'
import type { Runtime } from '../runtime.js'
import {
  connectionOf,
  type KafkajsBroker,
  type KafkajsBrokerPool,
  type KafkajsConnection,
  type SocketFactoryArguments,
} from './kafkajs-internals.js'

/** A broker, or any broker of the user's list. */
export type Destination = Node | 'seed'

/** One request on its way through a link. The callbacks must not throw. */
export interface Sending {
  readonly apiName: string
  readonly apiKey: number
  readonly apiVersion: number
  /** Called with the frame's bytes about to be handed to the socket. */
  readonly onWrite: () => void
  /** The answer's bytes behind its correlation id. */
  readonly onAnswer: (payload: Buffer) => void
}

export interface LinkObserver {
  /** The link went down by itself; called once, also while it is dialled, and before `open` rejects. */
  readonly onDown: (cause: Error) => void
  /** The broker asked for a pause of so many milliseconds while the link was dialled. */
  readonly onThrottle: (throttleMs: number) => void
}

const metadataApiKey = 3
const unsupportedSaslMechanism = 33
const illegalSaslState = 34
const saslAuthenticationFailed = 58
const refusedCredentials: readonly unknown[] = [unsupportedSaslMechanism, illegalSaslState, saslAuthenticationFailed]

/** A socket to a broker. `open` it once, then `send`. */
export class Link {
  readonly #brokers: KafkajsBrokerPool
  readonly #runtime: Runtime
  readonly #destination: Destination
  readonly #observer: LinkObserver
  #connection: KafkajsConnection | undefined
  #queue: KafkajsConnection['requestQueue'] | undefined
  #versions: NonNullable<KafkajsBroker['versions']> = {}
  #socket: Socket | undefined
  #address: string
  #downBecause: Error | undefined
  /** When the SASL credentials must be renewed, on the monotonic clock. */
  #authenticationDueAt = Number.POSITIVE_INFINITY

  constructor(brokers: KafkajsBrokerPool, runtime: Runtime, destination: Destination, observer: LinkObserver) {
    this.#brokers = brokers
    this.#runtime = runtime
    this.#destination = destination
    this.#observer = observer
    this.#address =
      destination === 'seed'
        ? 'a broker of the list'
        : `broker ${destination.id} (${destination.host}:${destination.port})`
  }

  /** The broker's name in messages. */
  get address(): string {
    return this.#address
  }

  /** Dials. Rejects with a `RequestFailure` whose `written` is false; the link is down then. */
  async open(): Promise<void> {
    try {
      const destination = this.#destination
      const pool = await this.#brokers.connectionPoolBuilder.build(
        destination === 'seed' ? undefined : { host: destination.host, port: destination.port },
      )
      if (destination === 'seed') this.#address = `seed broker ${pool.host}:${pool.port}`
      const connection = connectionOf(pool)
      this.#takeOver(connection)
      const broker = this.#brokers.createBroker({
        logger: this.#brokers.rootLogger,
        connectionPool: pool,
        nodeId: destination === 'seed' ? null : destination.id,
      })
      await broker.connect()
      if (this.#downBecause !== undefined) throw this.#downBecause
      // `connect` also resolves when its ApiVersions had no answer, and every later call of that broker object fails.
      if (broker.versions === null) throw new Error('the broker did not say which versions it speaks')
      if (broker.versions[metadataApiKey] === undefined) throw new NotABrokerError()
      this.#versions = broker.versions
      this.#connection = connection
      this.#noteSession(connection)
    } catch (error) {
      const failure = this.#dialFailure(error)
      this.destroy(failure)
      throw failure
    }
  }

  /** What a broker that does not speak this version says of itself; undefined when it does. */
  unsupportedReason(apiName: string, apiKey: number, version: number): string | undefined {
    const range = this.#versions[apiKey]
    if (range === undefined) return `${this.#address} does not serve ${apiName}; version ${version} is needed`
    if (range.minVersion <= version && version <= range.maxVersion) return undefined
    const spoken = `${range.minVersion} to ${range.maxVersion}`
    return `${this.#address} speaks ${apiName} ${spoken}; version ${version} is needed: Kafka 3.9 or later`
  }

  /** The `client.id` of the user's configuration. */
  get clientId(): string | null {
    return this.#connection?.clientId ?? null
  }

  /** Whether SASL credentials must be renewed before the next request. */
  get isAuthenticationDue(): boolean {
    return this.#runtime.monotonicNow() >= this.#authenticationDueAt
  }

  /** Renews the SASL credentials. Nothing may be sent before it settled. Rejects with a `RequestFailure`, `written` false. */
  async reauthenticate(): Promise<void> {
    try {
      const connection = this.#connected()
      await connection.authenticate()
      this.#noteSession(connection)
    } catch (error) {
      throw this.#dialFailure(error)
    }
  }

  /** Whether nothing was sent that is not answered, and no byte waits in this process. */
  get isQuiet(): boolean {
    const queue = this.#connection?.requestQueue
    if (queue === undefined || this.#socket === undefined) return false
    return queue.inflight.size === 0 && queue.pending.length === 0 && this.#socket.writableLength === 0
  }

  nextCorrelationId(): number {
    return this.#connected().nextCorrelationId()
  }

  /** Writes `frame` in this very call. Its answer, if any comes, goes to `sending.onAnswer`. */
  send(frame: Buffer, correlationId: number, sending: Sending): void {
    const { apiKey, apiName, apiVersion } = sending
    const socket = this.#socket
    if (socket === undefined) throw new Error('a link was sent through before it was open')
    this.#connected().requestQueue.push({
      entry: {
        apiKey,
        apiName,
        apiVersion,
        correlationId,
        resolve: ({ payload }) => {
          if (this.#downBecause === undefined) sending.onAnswer(payload)
        },
        reject: (error) => this.#fail(error),
      },
      expectResponse: true,
      requestTimeout: null,
      sendRequest: () => {
        sending.onWrite()
        socket.write(frame)
      },
    })
  }

  /** Takes the link down at once and for good. Tells nobody. */
  destroy(cause: Error): void {
    if (this.#downBecause !== undefined) return
    this.#downBecause = cause
    this.#discard(cause)
  }

  #fail(cause: Error): void {
    if (this.#downBecause !== undefined) return
    this.#downBecause = cause
    this.#discard(cause)
    this.#observer.onDown(cause)
  }

  #discard(cause: Error): void {
    this.#queue?.rejectAll(cause)
    this.#queue?.destroy()
    // With an error, so that kafkajs sees it: it has no handler for 'close', and its connection timer would stay.
    this.#socket?.destroy(cause)
  }

  /**
   * kafkajs renews so many milliseconds before a session ends, 10 s by default, which makes a shorter session always due: half
   * of the session is left then. Never earlier than kafkajs's own instant, before which its `authenticate` does nothing.
   */
  #noteSession(connection: KafkajsConnection): void {
    const lifetimeMs = Number(String(connection.sessionLifetime))
    const isLimited = Boolean(connection.sasl) && lifetimeMs > 0
    const usableMs = Math.max(lifetimeMs - connection.reauthenticationThreshold, lifetimeMs / 2)
    this.#authenticationDueAt = isLimited ? this.#runtime.monotonicNow() + usableMs : Number.POSITIVE_INFINITY
  }

  #connected(): KafkajsConnection {
    if (this.#connection === undefined) throw new Error('a link was used before it was open')
    return this.#connection
  }

  #takeOver(connection: KafkajsConnection): void {
    const queue = connection.requestQueue
    this.#queue = queue
    queue.enforceRequestTimeout = false
    // Without a limit in flight and without kafkajs's throttle nothing is ever pending, so there is nothing to check.
    queue.maxInFlightRequests = null
    queue.scheduleCheckPendingRequests = () => {}
    queue.maybeThrottle = (throttleMs) => {
      if (throttleMs > 0) this.#observer.onThrottle(throttleMs)
    }
    // Every failure is reported to the caller, who knows which are expected.
    connection.logError = connection.logDebug
    const create = connection.socketFactory
    connection.socketFactory = (options) => this.#createSocket(create, options)
  }

  #createSocket(create: KafkajsConnection['socketFactory'], options: SocketFactoryArguments): Socket {
    if (this.#downBecause !== undefined) throw this.#downBecause
    const socket = create(options)
    this.#socket = socket
    socket.setNoDelay(true)
    socket.once('end', () => this.#fail(new Error(`${this.#address} closed the connection`)))
    socket.once('close', () => this.#fail(new Error(`the connection to ${this.#address} closed`)))
    socket.once('error', (error) => this.#fail(error))
    return socket
  }

  #dialFailure(error: unknown): RequestFailure {
    if (error instanceof RequestFailure) return error
    const kind = kindOfDialError(error)
    const message = `${dialMessage[kind]} ${this.#address}: ${error instanceof Error ? error.message : String(error)}`
    return new RequestFailure(kind, message, { written: false, cause: error })
  }
}

class NotABrokerError extends Error {
  constructor() {
    super('it does not serve Metadata, as the listener of a KRaft controller does not: name the brokers instead')
  }
}

const dialMessage = {
  authentication: 'SASL authentication was refused by',
  unsupported: 'cannot use',
  unreachable: 'no connection to',
} as const

function kindOfDialError(error: unknown): 'authentication' | 'unsupported' | 'unreachable' {
  if (error instanceof NotABrokerError) return 'unsupported'
  if (typeof error !== 'object' || error === null) return 'unreachable'
  if ('name' in error && error.name === 'KafkaJSSASLAuthenticationError') return 'authentication'
  if ('code' in error && refusedCredentials.includes(error.code)) return 'authentication'
  if ('code' in error && error.code === 'UNSUPPORTED') return 'unsupported'
  return 'unreachable'
}

/**
 * The parts of kafkajs 2.2 that are used and are not in its public types, and the checks that they are there.
 *
 * Types and checks only: it opens nothing. Each member named here is one that another release may take away; a missing one
 * must show as a named error before anything is sent, which is why every object is checked when it is obtained. What is used:
 * the user's configuration, sockets, TLS, SASL and the matching of answers by correlation id. What is not: cluster metadata
 * (one leaderless topic of a stranger stalls it), retries, timeouts, and any of its codecs beyond the dial.
 */
import type { Socket } from 'node:net'
import { coordinationError } from '../errors.js'

/** A request in kafkajs's queue. Its callbacks run inside a socket's `data` handler and must not throw. */
export interface QueueEntry {
  readonly apiKey: number
  readonly apiName: string
  readonly apiVersion: number
  readonly correlationId: number
  readonly resolve: (answer: { readonly payload: Buffer }) => void
  readonly reject: (error: Error) => void
}

/** Matches answers to requests. Assignable members are those that `link.ts` takes over. */
export interface KafkajsRequestQueue {
  readonly inflight: ReadonlyMap<number, unknown>
  readonly pending: readonly unknown[]
  enforceRequestTimeout: boolean
  maxInFlightRequests: number | null
  scheduleCheckPendingRequests: () => void
  maybeThrottle: (throttleMs: number) => void
  push(request: {
    readonly entry: QueueEntry
    readonly expectResponse: boolean
    readonly requestTimeout: number | null
    readonly sendRequest: () => void
  }): void
  rejectAll(error: Error): void
  destroy(): void
}

/** What kafkajs hands to a socket factory. */
export interface SocketFactoryArguments {
  readonly host: string
  readonly port: number
}

/** One socket. */
export interface KafkajsConnection {
  readonly clientId: string | null
  readonly sasl: unknown
  /** Milliseconds as a 64-bit number object; 0 = without an end. */
  readonly sessionLifetime: object
  readonly reauthenticationThreshold: number
  readonly requestQueue: KafkajsRequestQueue
  socketFactory: (options: SocketFactoryArguments) => Socket
  readonly logDebug: (message: string, extra?: object) => void
  logError: (message: string, extra?: object) => void
  nextCorrelationId(): number
  authenticate(): Promise<void>
}

/** Two sockets to one broker, of which only the first is used. */
export interface KafkajsConnectionPool {
  readonly host: string
  readonly port: number
  readonly pool: readonly unknown[]
}

export interface KafkajsBroker {
  /** Versions by API key; null when the dial failed half-way. */
  readonly versions: Readonly<Record<number, { readonly minVersion: number; readonly maxVersion: number }>> | null
  connect(): Promise<void>
}

export interface KafkajsBrokerPool {
  readonly rootLogger: unknown
  readonly connectionPoolBuilder: {
    /** Without a destination: the next broker of the user's list. */
    build(destination?: { readonly host: string; readonly port: number }): Promise<KafkajsConnectionPool>
  }
  createBroker(options: {
    readonly logger: unknown
    readonly connectionPool: KafkajsConnectionPool
    readonly nodeId: number | null
  }): KafkajsBroker
}

const createClusterSymbol = 'private:Kafka:createCluster'
const wayOut = 'pass an instance of `Kafka` from kafkajs 2.2.4'

/**
 * The broker pool behind the user's `Kafka`, with a state of its own and nothing opened.
 *
 * Throws `CONFIG` when `kafka` is no Kafka client at all and `UNSUPPORTED` when it is another one, or a kafkajs without a
 * part that is needed.
 */
export function brokerPoolOf(kafka: unknown): KafkajsBrokerPool {
  if (typeof kafka !== 'object' || kafka === null) {
    throw coordinationError('CONFIG', `the option \`kafka\` is ${describe(kafka)}: ${wayOut}`, { option: 'kafka' })
  }
  const symbol = symbolsOf(kafka).find(({ description }) => description === createClusterSymbol)
  const createCluster: unknown = symbol === undefined ? undefined : Reflect.get(kafka, symbol)
  if (typeof createCluster !== 'function') {
    const message = `the option \`kafka\` is ${describe(kafka)}, which has no '${createClusterSymbol}': ${wayOut}`
    if (has(kafka, 'producer', 'function')) {
      throw coordinationError('UNSUPPORTED', message, { wanted: `kafkajs ~2.2.4 with '${createClusterSymbol}'` })
    }
    throw coordinationError('CONFIG', message, { option: 'kafka' })
  }
  const cluster: unknown = createCluster.call(kafka, {
    metadataMaxAge: 300_000,
    allowAutoTopicCreation: false,
    maxInFlightRequests: null,
    instrumentationEmitter: null,
  })
  const brokerPool = part<KafkajsBrokerPool>(cluster, 'brokerPool', { createBroker: 'function', rootLogger: 'object' })
  part(brokerPool, 'connectionPoolBuilder', { build: 'function' })
  return brokerPool
}

/** The first socket of `pool`. Throws `UNSUPPORTED` when it lacks a part that is needed. */
export function connectionOf(pool: KafkajsConnectionPool): KafkajsConnection {
  const sockets = part(pool, 'pool', {})
  const connection = part<KafkajsConnection>(sockets, '0', {
    socketFactory: 'function',
    logDebug: 'function',
    logError: 'function',
    nextCorrelationId: 'function',
    sessionLifetime: 'object',
    reauthenticationThreshold: 'number',
    authenticate: 'function',
  })
  part(connection, 'requestQueue', {
    push: 'function',
    rejectAll: 'function',
    destroy: 'function',
    maybeThrottle: 'function',
    scheduleCheckPendingRequests: 'function',
    enforceRequestTimeout: 'boolean',
    inflight: 'object',
    pending: 'object',
  })
  return connection
}

type MemberTypes = Readonly<Record<string, 'function' | 'object' | 'boolean' | 'number'>>

/** `owner[name]` after checking that it has members of these types: the one place that believes in a shape. */
function part<Part>(owner: unknown, name: string, members: MemberTypes): Part {
  const value: unknown = typeof owner === 'object' && owner !== null ? Reflect.get(owner, name) : undefined
  if (typeof value !== 'object' || value === null) throw missing(name)
  for (const [member, type] of Object.entries(members)) {
    if (!has(value, member, type)) throw missing(`${name}.${member}`)
  }
  return value as Part
}

function missing(name: string): Error {
  const message = `this kafkajs has no '${name}', which mandate sends its requests through: install kafkajs 2.2.4`
  return coordinationError('UNSUPPORTED', message, { wanted: `kafkajs ~2.2.4 with '${name}'` })
}

function has(owner: object, member: string, type: string): boolean {
  return typeof Reflect.get(owner, member) === type
}

function symbolsOf(object: object): symbol[] {
  return Object.getOwnPropertySymbols(object)
}

function describe(value: unknown): string {
  if (typeof value !== 'object' || value === null) return String(value)
  const maker: unknown = value.constructor
  return typeof maker === 'function' && maker.name !== '' ? `a ${maker.name}` : 'an object'
}

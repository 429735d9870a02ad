/**
 * The client's options: defaults, and every check that needs no I/O.
 *
 * It must not open anything. What it returns is complete and valid.
 */
import type { LeasePolicy } from '../election/policy.js'
import { leasePolicy } from '../election/policy.js'
import type { MemberId } from '../format/names.js'
import { parseMemberId } from '../format/names.js'
import type { Runtime } from '../runtime.js'
import { systemRuntime } from '../runtime.js'
import { badValue, unknownName } from './bad-value.js'
import type { Logger } from './diagnostics.js'

/** Lengths of a lease in milliseconds. `acquire` and `lead` may override the client's for one role. */
export interface LeaseOptions {
  /** How long others hold back after each renewal. Default 30000; at most 900000. */
  readonly leaseMs?: number
  /** How often the holder renews. Default a third of the lease; less than the lease. */
  readonly renewIntervalMs?: number
  /** Distance between the slots of two contenders in the queue. Default a sixth of the lease. */
  readonly staggerMs?: number
  /** After this time the broker aborts a transaction left open. Default the lease; not less. */
  readonly transactionTimeoutMs?: number
}

/** Options of a `CoordinationClient`. */
export interface ClientOptions extends LeaseOptions {
  /** The kafkajs `Kafka` of the application. It is never closed, and none of its producers or consumers is used. */
  readonly kafka: unknown
  /** Time and chance; default this machine's. */
  readonly runtime?: Runtime
  /**
   * Names this member among the contenders; default host, process id and random digits. A stable id, such as a pod's name, lets
   * a restarted holder take its role back at once. Two processes with one id end with `SUPERSEDED` for the older.
   */
  readonly memberId?: string
  /** The coordination topic. Default `__coordination_state`. */
  readonly topic?: string
  /** Whether a missing coordination topic is made, by whichever call comes first, `describe` included. Default true. */
  readonly createTopic?: boolean
  /** Partitions of the topic: made with 16 by default; an existing topic must have as many where this is given. */
  readonly partitions?: number
  /** Replication of a topic that is made. Default 3, or the number of brokers where that is smaller. */
  readonly replicationFactor?: number
  /** How long one request may take. Default 5000. */
  readonly requestTimeoutMs?: number
  /** How many bytes of records given to `send` may wait per leadership before its callers have to. Default 32 MiB. */
  readonly maxQueuedBytes?: number
  /** Whether guarded records carry role, term and token as headers. Default true. */
  readonly stampRecords?: boolean
  /** Where to log; default nowhere. */
  readonly logger?: Logger
}

/** The options, complete and checked. */
export interface Settings {
  readonly kafka: unknown
  readonly runtime: Runtime
  readonly memberId: MemberId
  readonly topic: string
  readonly createTopic: boolean
  readonly partitions: number
  readonly partitionsAreFixed: boolean
  readonly replicationFactor: number | undefined
  readonly leaseOptions: LeaseOptions
  readonly policy: LeasePolicy
  readonly requestTimeoutMs: number
  readonly maxQueuedBytes: number
  readonly stampRecords: boolean
  readonly logger: Logger | undefined
}

const optionNames: ReadonlySet<string> = new Set([
  'kafka',
  'runtime',
  'memberId',
  'topic',
  'createTopic',
  'partitions',
  'replicationFactor',
  'leaseMs',
  'renewIntervalMs',
  'staggerMs',
  'transactionTimeoutMs',
  'requestTimeoutMs',
  'maxQueuedBytes',
  'stampRecords',
  'logger',
])

const acquireOptionNames: ReadonlySet<string> = new Set([
  'signal',
  'leaseMs',
  'renewIntervalMs',
  'staggerMs',
  'transactionTimeoutMs',
])

const askOptionNames: ReadonlySet<string> = new Set(['signal', 'timeoutMs'])
const watchOptionNames = new Set(['signal'])

const transactOptionNames: ReadonlySet<string> = new Set(['timeoutMs'])

const topicName = /^[a-zA-Z0-9._-]{1,249}$/

/** @throws `CONFIG` naming the option, its value and the way out. */
export function settingsOf(options: ClientOptions): Settings {
  if (typeof options !== 'object' || options === null)
    throw badValue('options', options, 'an object with at least kafka')
  checkNames('CoordinationClient', options, optionNames)
  const topic = options.topic ?? '__coordination_state'
  if (typeof topic !== 'string' || !topicName.test(topic) || topic === '.' || topic === '..') {
    throw badValue('topic', topic, '1 to 249 of a-z A-Z 0-9 . _ -')
  }
  const runtime = options.runtime ?? systemRuntime
  const leaseOptions = leaseOptionsOf(options)
  return {
    kafka: options.kafka,
    runtime,
    memberId: parseMemberId(options.memberId ?? shortened(runtime.processName())),
    topic,
    createTopic: flag('createTopic', options.createTopic, true),
    partitions: whole('partitions', options.partitions, 16, 1, 10_000),
    partitionsAreFixed: options.partitions !== undefined,
    replicationFactor:
      options.replicationFactor === undefined
        ? undefined
        : whole('replicationFactor', options.replicationFactor, 3, 1, 32_767),
    leaseOptions,
    policy: leasePolicy(leaseOptions),
    requestTimeoutMs: whole('requestTimeoutMs', options.requestTimeoutMs, 5_000, 1, 900_000),
    maxQueuedBytes: whole('maxQueuedBytes', options.maxQueuedBytes, 32 * 1024 * 1024, 1, Number.MAX_SAFE_INTEGER),
    stampRecords: flag('stampRecords', options.stampRecords, true),
    logger: loggerOf(options.logger),
  }
}

/** @throws `CONFIG` for a name that `acquire`, `tryAcquire` and `lead` do not know, or a signal that is none. */
export function checkAcquireOptions(options: object & { readonly signal?: unknown }): void {
  checkNames('acquire, tryAcquire and lead', options, acquireOptionNames)
  checkSignal(options.signal)
}

/** @throws `CONFIG` for a name that the calls that ask do not know, a signal that is none, or a bad `timeoutMs`. */
export function checkAskOptions(options: { readonly signal?: unknown; readonly timeoutMs?: unknown }): void {
  checkNames('describe, roles, depose, checkToken and verify', options, askOptionNames)
  checkSignal(options.signal)
  checkTimeout(options.timeoutMs)
}

/** @throws `CONFIG` for a name that `watch` does not know, or a signal that is none. */
export function checkWatchOptions(options: { readonly signal?: unknown }): void {
  checkNames('watch', options, watchOptionNames)
  checkSignal(options.signal)
}

/** @throws `CONFIG` for what is neither a name nor a list of some. */
export function listOfRoles(roles: string | readonly string[]): readonly string[] {
  if (typeof roles === 'string') return [roles]
  if (!Array.isArray(roles) || roles.length === 0) {
    throw badValue('roles', roles, 'a role, a list of roles that is not empty, or nothing for all of them')
  }
  return roles
}

/** @throws `CONFIG` for a name that `transact` does not know, or a bad `timeoutMs`. */
export function checkTransactOptions(options: { readonly timeoutMs?: unknown }): void {
  checkNames('transact', options, transactOptionNames)
  checkTimeout(options.timeoutMs)
}

/** @throws `CONFIG` where the caller gave no function to run. */
export function checkWork(work: unknown): void {
  if (typeof work !== 'function') throw badValue('work', work, 'a function that takes what it works with')
}

/** The lease options among other options; absent ones are left out. */
export function leaseOptionsOf(options: LeaseOptions): LeaseOptions {
  const { leaseMs, renewIntervalMs, staggerMs, transactionTimeoutMs } = options
  return {
    ...(leaseMs === undefined ? {} : { leaseMs }),
    ...(renewIntervalMs === undefined ? {} : { renewIntervalMs }),
    ...(staggerMs === undefined ? {} : { staggerMs }),
    ...(transactionTimeoutMs === undefined ? {} : { transactionTimeoutMs }),
  }
}

function flag(option: string, value: unknown, byDefault: boolean): boolean {
  if (value === undefined) return byDefault
  if (typeof value !== 'boolean') throw badValue(option, value, 'true or false')
  return value
}

function whole(option: string, value: unknown, byDefault: number, least: number, most: number): number {
  if (value === undefined) return byDefault
  if (typeof value !== 'number' || !Number.isSafeInteger(value) || value < least || value > most) {
    throw badValue(option, value, `a whole number from ${least} to ${most}`)
  }
  return value
}

function loggerOf(logger: Logger | undefined): Logger | undefined {
  if (logger === undefined) return undefined
  for (const level of ['debug', 'info', 'warn', 'error'] as const) {
    if (typeof logger?.[level] !== 'function') {
      throw badValue('logger', logger, `an object with the functions debug, info, warn and error; ${level} is missing`)
    }
  }
  return logger
}

function checkNames(owner: string, options: unknown, known: ReadonlySet<string>): void {
  if (typeof options !== 'object' || options === null) throw badValue('options', options, `an object of ${owner}`)
  for (const name of Object.keys(options)) {
    if (!known.has(name)) throw unknownName(name, `the options of ${owner}`, known)
  }
}

function checkSignal(signal: unknown): void {
  if (signal === undefined) return
  // By its shape, for a signal may come of another realm or a polyfill.
  if (typeof signal !== 'object' || signal === null || !('throwIfAborted' in signal)) {
    throw badValue('signal', signal, 'an AbortSignal, such as the `signal` of an AbortController')
  }
}

function checkTimeout(timeoutMs: unknown): void {
  if (timeoutMs === undefined) return
  if (typeof timeoutMs !== 'number' || !Number.isFinite(timeoutMs) || timeoutMs <= 0) {
    throw badValue('timeoutMs', timeoutMs, 'a positive number of milliseconds')
  }
}

/** The last 249 bytes: a process name's random digits are at its end. */
function shortened(name: string): string {
  const ascii = name.replace(/[^\x21-\x7e]/g, '_')
  return ascii.slice(-249)
}

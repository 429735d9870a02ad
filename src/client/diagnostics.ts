/**
 * What the library tells about itself: typed `node:diagnostics_channel` messages, and the optional logger.
 *
 * Names and fields of the messages are under semver. Telling must never change what happens: a logger that throws is ignored.
 */
import diagnosticsChannel from 'node:diagnostics_channel'

/** The four levels of a logger in pino's shape. Never handed a record's payload. */
export interface Logger {
  debug(fields: object, message: string): void
  info(fields: object, message: string): void
  warn(fields: object, message: string): void
  error(fields: object, message: string): void
}

/** How long the parts of an acquire took, in ms. */
export interface AcquireSplit {
  /** From the end of the last term, or the own registration, to the rule's instant: what the members in front took. */
  readonly staggerMs: number
  /** From the rule's instant to the look that allowed the mint. */
  readonly detectMs: number
  /** Both mints. */
  readonly mintMs: number
  /** From the last mint's answer to the committed lease. */
  readonly firstLeaseMs: number
}

interface TermFields {
  readonly role: string
  readonly member: string
  readonly token: string
  /** Decimal text. */
  readonly term: string
}

/** The messages by channel name without its prefix `mandate:`. Instants are text or ms; 64-bit numbers are decimal text. */
export interface DiagnosticMessages {
  acquired: TermFields & AcquireSplit
  renewed: TermFields & { readonly durationMs: number; readonly remainingMs: number }
  'renewal-late': TermFields & { readonly sinceConfirmedMs: number }
  lost: TermFields & { readonly code: string; readonly error: Error }
  resigned: TermFields & { readonly durationMs: number; readonly outcome: string }
  challenge: {
    readonly role: string
    readonly member: string
    readonly by: string
    readonly outcome: string
    /** What the outcome rests on, where there is more to say. */
    readonly reason?: string
  }
  'foreign-record': {
    readonly role?: string
    readonly partition: number
    readonly offset: string
    readonly reason: string
  }
  'unreadable-record': {
    readonly role?: string
    readonly partition: number
    readonly offset: string
    readonly reason: string
  }
  reread: { readonly partition: number; readonly state: 'started' | 'caught-up' }
  transaction: TermFields & { readonly outcome: string; readonly records: number; readonly durationMs: number }
}

export type DiagnosticName = keyof DiagnosticMessages

/** The full name of a channel, such as `mandate:acquired`. */
export function diagnosticChannelName(name: DiagnosticName): string {
  return `mandate:${name}`
}

const levels: { readonly [Name in DiagnosticName]: keyof Logger } = {
  acquired: 'info',
  renewed: 'debug',
  'renewal-late': 'warn',
  lost: 'warn',
  resigned: 'info',
  challenge: 'debug',
  'foreign-record': 'warn',
  'unreadable-record': 'warn',
  reread: 'debug',
  transaction: 'debug',
}

/** Tells of what happens, to whoever listens. */
export interface Diagnostics {
  tell<Name extends DiagnosticName>(name: Name, message: DiagnosticMessages[Name]): void
  warn(fields: object, message: string): void
}

/** Diagnostics that publish to the channels, and to `logger` where there is one. */
export function diagnosticsTo(logger: Logger | undefined): Diagnostics {
  const log = (level: keyof Logger, fields: object, message: string): void => {
    // A logger's fault is not the leadership's, whether it comes at once or by a promise.
    try {
      const result: unknown = logger?.[level](fields, message)
      if (result instanceof Promise) result.catch(() => undefined)
    } catch {}
  }
  return {
    tell(name, message) {
      const channel = diagnosticsChannel.channel(diagnosticChannelName(name))
      if (channel.hasSubscribers) channel.publish(message)
      if (logger !== undefined) log(levels[name], { component: 'mandate', event: name, ...message }, `mandate ${name}`)
    },
    warn: (fields, message) => log('warn', { component: 'mandate', ...fields }, message),
  }
}

/**
 * The error codes of this library and the one class that carries them.
 *
 * A code is stable and the thing to branch on; messages are for people and may change. No file may throw another error class
 * to a caller for an operating error; a broken invariant throws a plain `Error`.
 */

/** Every code, with when it is used and what the caller does about it. */
export type ErrorCode = keyof ErrorDetails

/** Why the broker refused the token. */
export type FencedReason = 'takeover' | 'transaction-timeout' | 'external-mint' | 'unknown'

/** A term as far as it is known when it ends: names of role, member and token in their text forms. */
export interface TermDetails {
  readonly role: string
  readonly member: string
  /** `producerId:producerEpoch`. */
  readonly token: string
  readonly term: bigint
}

/** What each code carries beside its message. */
export interface ErrorDetails {
  /** The broker refused the token, or a newer term was seen: stop the role's work. */
  FENCED: TermDetails & {
    readonly reason: FencedReason
    /** The holder that followed, where the log shows one. */
    readonly successor?: { readonly member: string; readonly token: string; readonly term: bigint }
  }
  /** The own deadline passed without a confirmed renewal: stop; may contend again. */
  LEASE_EXPIRED: TermDetails
  /** A later process uses this member id: stop for good. */
  SUPERSEDED: { readonly role: string; readonly member: string }
  /** An answer was lost and the epoch is tainted (I9): contend again. */
  TERM_ENDED: TermDetails
  /** The handle was used after `resign()`. */
  RESIGNED: TermDetails
  /** The client was used after `close()`. */
  CLOSED: Record<never, never>
  /** A commit may or may not have happened: read before repeating. */
  COMMIT_UNKNOWN: { readonly role: string }
  /** The transaction was aborted and nothing of it is visible: may be repeated. */
  TRANSACTION_ABORTED: { readonly role: string }
  /** The broker refused this record or partition: fix the record. */
  REFUSED: { readonly topic: string; readonly partition: number; readonly kafkaCode: number }
  /** Bytes outside the frozen format. */
  FORMAT: { readonly part: string; readonly offset: number }
  /** A bad option, name, relation or record field, found before any I/O: fix the call. */
  CONFIG: { readonly option?: string }
  /** The coordination topic is missing, has a wrong policy, or lost what it held: mend it. */
  TOPIC: { readonly topic: string; readonly setting?: string; readonly found?: string; readonly wanted?: string }
  /** An ACL or credential is missing. */
  UNAUTHORIZED: { readonly operation: string; readonly resource: string; readonly kafkaCode?: number }
  /** The broker cannot finish the role's last transaction: see the runbook. */
  WEDGED: { readonly role: string; readonly partitions: readonly string[] }
  /** The cluster or kafkajs lacks something: upgrade. */
  UNSUPPORTED: { readonly wanted: string }
  /** Anything else from a broker or the network. */
  TRANSPORT: { readonly retriable: boolean; readonly kafkaCode?: number }
}

const brand: symbol = Symbol.for('mandate.CoordinationError')

/** The error that everything in this library rejects with. Branch on `code`; see `isCoordinationError`. */
export class CoordinationError extends Error {
  override readonly name = 'CoordinationError'
  readonly code: ErrorCode

  /** @internal Made by `coordinationError`, which ties the details to the code. */
  constructor(code: ErrorCode, message: string, details: object, options: { cause?: unknown }) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause })
    this.code = code
    Object.assign(this, details)
    Object.defineProperty(this, brand, { value: true })
  }

  /** The fields with 64-bit numbers as decimal text. */
  toJSON(): Record<string, unknown> {
    return JSON.parse(
      JSON.stringify({ ...this, message: this.message }, (_key, value: unknown) =>
        typeof value === 'bigint' ? value.toString() : value,
      ),
    )
  }
}

/** A `CoordinationError` of one code, with what that code carries. */
export type CoordinationErrorOf<Code extends ErrorCode> = CoordinationError & {
  readonly code: Code
} & ErrorDetails[Code]

/** Makes the error of `code`. The message names the thing, the value and the way out. */
export function coordinationError<Code extends ErrorCode>(
  code: Code,
  message: string,
  details: ErrorDetails[Code],
  options: { cause?: unknown } = {},
): CoordinationErrorOf<Code> {
  return new CoordinationError(code, message, details, options) as CoordinationErrorOf<Code>
}

/**
 * Whether `error` is this library's, and of `code` where one is given. Works across two copies of the package, where
 * `instanceof` does not.
 */
export function isCoordinationError(error: unknown): error is CoordinationError
export function isCoordinationError<Code extends ErrorCode>(
  error: unknown,
  code: Code,
): error is CoordinationErrorOf<Code>
export function isCoordinationError(error: unknown, code?: ErrorCode): boolean {
  if (typeof error !== 'object' || error === null || !(brand in error)) return false
  return code === undefined || ('code' in error && error.code === code)
}

/**
 * What the demo's processes say to each other, as JSON lines: events of a member, commands to it.
 *
 * Only types and the clock that all processes of a machine share; what an event means for the run is judged in checker.ts.
 */

/** What a member is started with. */
export interface MemberTask {
  readonly memberId: string
  readonly brokers: readonly string[]
  readonly role: string
  readonly coordinationTopic: string
  readonly commandsTopic: string
}

/** How a guarded write ended, as its writer was told. `unknown` = it may or may not have been committed. */
export type WriteOutcome = 'committed' | 'aborted' | 'refused' | 'unknown'

/** One guarded write. `id` is unique in the run and travels with the record, in the header `demo-write`. */
export interface Write {
  readonly id: string
  readonly member: string
  readonly term: bigint
  readonly outcome: WriteOutcome
  /** Where it landed, if it was committed. */
  readonly position: { readonly partition: number; readonly offset: bigint } | undefined
  /** The error's code, if it was not committed. */
  readonly code: string | undefined
  /** Made after its process was woken from a stop, under the token that it held before. */
  readonly afterWaking: boolean
  readonly durationMs: number
}

/** The header that carries `Write.id`. */
export const writeHeader = 'demo-write'

export type MemberEvent =
  | { readonly event: 'acquired'; readonly at: number; readonly token: string; readonly term: string }
  | { readonly event: 'write'; readonly write: WireWrite }
  | { readonly event: 'resigning'; readonly at: number }

/** A `Write` as it travels: 64-bit numbers are decimal text, and absent fields are left out. */
export interface WireWrite {
  readonly id: string
  readonly term: string
  readonly outcome: WriteOutcome
  readonly partition?: number
  readonly offset?: string
  readonly code?: string
  readonly afterWaking: boolean
  readonly durationMs: number
}

/** `write` = try one guarded write under the last token held; `resign` = give the role up and end; `end` = end. */
export interface MemberCommand {
  readonly do: 'write' | 'resign' | 'end'
}

/** Milliseconds on the machine's monotonic clock, which all its processes share. */
export function machineNow(): number {
  return Number(process.hrtime.bigint()) / 1e6
}

/** The write that a member told of. */
export function writeOf(member: string, write: WireWrite): Write {
  const { id, outcome, partition, offset, code, afterWaking, durationMs } = write
  const position = partition === undefined || offset === undefined ? undefined : { partition, offset: BigInt(offset) }
  return { id, member, term: BigInt(write.term), outcome, position, code, afterWaking, durationMs }
}

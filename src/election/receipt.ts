/**
 * When a record was seen, on this process's monotonic clock, and how much earlier it may be taken to have been written.
 *
 * Every wait of the election counts from here. It must never compare a wall clock with the own clock: an age is a difference
 * of two append times that one leader gave, and only ever makes a record of before the own registration older.
 */

/** How and when one record of the log reached this process. */
export interface Receipt {
  readonly offset: bigint
  /** Monotonic ms of the arrival of the record itself, not of its commit marker. */
  readonly receivedAt: number
  /** Partition leader epoch under which the batch was written; -1 when unknown. */
  readonly leaderEpoch: number
  /** Broker's wall clock in ms at the append; undefined unless the batch is LogAppendTime. */
  readonly appendTime: bigint | undefined
}

/**
 * Whether the age of `record` is proven by the first registration of this incarnation: both LogAppendTime, both under one
 * leader epoch, and the record written before it. What came later was watched live and counts from its own receipt, so that no step
 * of the leader's clock can age a renewal.
 */
export function ageIsProven(record: Receipt, ownRegistration: Receipt | undefined): boolean {
  return provenInstant(record, ownRegistration) !== undefined
}

/** Monotonic ms from which waits for `record` count: its receipt, or earlier where its age is proven. */
export function seenAt(record: Receipt, ownRegistration: Receipt | undefined): number {
  return Math.min(record.receivedAt, provenInstant(record, ownRegistration) ?? record.receivedAt)
}

function provenInstant(record: Receipt, own: Receipt | undefined): number | undefined {
  if (own?.appendTime === undefined || record.appendTime === undefined) return undefined
  if (record.leaderEpoch < 0 || record.leaderEpoch !== own.leaderEpoch || record.offset > own.offset) return undefined
  return own.receivedAt - Number(own.appendTime - record.appendTime)
}

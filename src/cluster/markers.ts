/**
 * Which records of a partition are settled: reads past the last stable offset and resolves commit and abort markers itself, so
 * that another role's open transaction hides nothing.
 *
 * Pure over its own state. It must not know what a record means, and it never waits.
 */
import type { FetchedBatch, FetchedRecord, RecordHeader } from './connection.js'

/** A record that a committed reader may see, with what its batch header and its receipt say of it. */
export interface SettledRecord {
  readonly offset: bigint
  readonly key: Uint8Array | null
  readonly value: Uint8Array | null
  readonly headers: readonly RecordHeader[]
  readonly transactional: boolean
  readonly producerId: bigint
  readonly producerEpoch: number
  /** Monotonic ms at which the record itself, not its marker, was received. */
  readonly receivedAt: number
  readonly leaderEpoch: number
  /** Milliseconds since 1970 on the broker's clock; undefined unless the broker stamped it at append. */
  readonly appendTime: bigint | undefined
}

interface OpenBatch {
  readonly baseOffset: bigint
  readonly producerEpoch: number
  readonly records: readonly SettledRecord[]
}

/** The transactional batches of one partition whose markers have not been read yet, by producer id. */
export type OpenTransactions = Map<bigint, OpenBatch[]>

/**
 * Takes the next batch of the log and returns the records that it settles, in offset order.
 *
 * A COMMIT of epoch m settles the open batches of epochs m and m-1 of its producer id (on transaction version 2 the marker
 * carries the epoch after the records', KIP-890) and drops older ones, which hang from before; an ABORT of epoch m drops those
 * up to m. A marker without open batches is what compaction leaves, and settles nothing.
 */
export function settleBatch(open: OpenTransactions, batch: FetchedBatch, receivedAt: number): readonly SettledRecord[] {
  if (batch.control === undefined) {
    const records = batch.records.map((record) => received(record, batch, receivedAt))
    if (!batch.transactional || batch.producerId < 0n) return records
    if (records.length > 0) {
      const batches = open.get(batch.producerId) ?? []
      batches.push({ baseOffset: batch.baseOffset, producerEpoch: batch.producerEpoch, records })
      open.set(batch.producerId, batches)
    }
    return []
  }
  const batches = open.get(batch.producerId)
  if (batches === undefined || batch.control === 'other') return []
  const marker = batch.producerEpoch
  const remaining = batches.filter((candidate) => candidate.producerEpoch > marker)
  if (remaining.length > 0) open.set(batch.producerId, remaining)
  else open.delete(batch.producerId)
  if (batch.control === 'abort') return []
  return batches
    .filter(({ producerEpoch }) => producerEpoch === marker || producerEpoch === marker - 1)
    .flatMap(({ records }) => records)
}

/** The lowest offset that a later marker can still settle, or undefined when nothing is open. */
export function oldestOpenOffset(open: OpenTransactions): bigint | undefined {
  let oldest: bigint | undefined
  for (const batches of open.values()) {
    const first = batches[0]?.baseOffset
    if (first !== undefined && (oldest === undefined || first < oldest)) oldest = first
  }
  return oldest
}

function received(record: FetchedRecord, batch: FetchedBatch, receivedAt: number): SettledRecord {
  return {
    offset: record.offset,
    key: record.key,
    value: record.value,
    headers: record.headers,
    transactional: batch.transactional,
    producerId: batch.producerId,
    producerEpoch: batch.producerEpoch,
    receivedAt,
    leaderEpoch: batch.partitionLeaderEpoch,
    appendTime: batch.logAppendTime ? batch.maxTimestamp : undefined,
  }
}

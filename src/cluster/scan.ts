/**
 * One reading of a partition from its first record to its end, for whoever checks a log as it stands.
 *
 * It follows nothing and keeps nothing, so it works on a topic that no follower would take, and beside one. It asks on the shared channel
 * in small steps. It must not know what a record means.
 */
import { isCoordinationError } from '../errors.js'
import type { Runtime } from '../runtime.js'
import type { ApiName, ClusterConnection, FetchedBatch, Node } from './connection.js'
import { RequestFailure } from './connection.js'
import { dispositionOf, kafkaErrorName } from './error-table.js'
import type { OpenTransactions, SettledRecord } from './markers.js'
import { oldestOpenOffset, settleBatch } from './markers.js'
import { isOperatingFailure, OperatingFailure } from './operating-failure.js'
import type { Bound } from './schedule.js'
import { backoffMs, isPast, pause, requestDeadline, withinTime } from './schedule.js'

/** What reading a partition showed beside its records. */
export interface PartitionScan {
  readonly partition: number
  readonly firstOffset: bigint | undefined
  readonly end: bigint | undefined
  /** Why it was not read to its end; undefined where it was. */
  readonly problem: string | undefined
  readonly undecodable: readonly { readonly offset: bigint; readonly reason: string }[]
  /** The widest step back of the leaders' append times, between two batches that follow each other. */
  readonly widestStepBack: { readonly offset: bigint; readonly ms: number } | undefined
  /** Milliseconds since 1970 by the leaders' clocks. */
  readonly newestAppendTime: bigint | undefined
}

export interface ScanDependencies {
  readonly connection: ClusterConnection
  readonly runtime: Runtime
  readonly requestTimeoutMs: number
}

/** Small enough not to hold up a leader's writes on the same socket for long. */
const stepBytes = 128 * 1024
const mostAttempts = 4
const anyEpoch = -1

/** Reads to the end that was asked for first; `take` gets the settled records, step by step. */
export async function scanPartition(
  dependencies: ScanDependencies,
  { topic, partition, leader }: { readonly topic: string; readonly partition: number; readonly leader: Node },
  take: (records: readonly SettledRecord[], settledBelow: bigint) => void,
  bound: Bound,
): Promise<PartitionScan> {
  const { runtime } = dependencies
  const log = new Log(partition)
  const offsetAt = (at: 'earliest' | 'latest'): Promise<bigint> =>
    once(dependencies, 'ListOffsets', bound, async (deadline) => {
      const partitions = [{ partition, currentLeaderEpoch: anyEpoch, at }]
      const request = { api: 'ListOffsets', topic, partitions } as const
      const answer = await dependencies.connection.request(leader, 'work', request, { deadline })
      const found = answer.partitions.find((candidate) => candidate.partition === partition)
      return { errorCode: found?.errorCode ?? -1, value: found?.offset ?? -1n }
    })
  try {
    const firstOffset = await offsetAt('earliest')
    const end = await offsetAt('latest')
    log.begin(firstOffset, end)
    while (log.position < end) {
      if (isPast(runtime, bound)) throw new StopReading(`the time ended at offset ${log.position} of ${end}`)
      const batches = await once(dependencies, 'Fetch', bound, async (deadline) => {
        const partitions = [
          { partition, currentLeaderEpoch: anyEpoch, offset: log.position, lastFetchedEpoch: anyEpoch },
        ]
        const sizes = { maxWaitMs: 0, minBytes: 1, maxBytes: stepBytes, partitionMaxBytes: stepBytes }
        const request = { api: 'Fetch', ...sizes, topic, partitions } as const
        const answer = await dependencies.connection.request(leader, 'work', request, { deadline })
        const found = answer.partitions.find((candidate) => candidate.partition === partition)
        return {
          errorCode: answer.errorCode === 0 ? (found?.errorCode ?? -1) : answer.errorCode,
          value: found?.batches,
        }
      })
      const before = log.position
      const settled = log.append(batches ?? [], runtime.monotonicNow())
      take(settled, log.settledBelow)
      if (log.position === before) throw new StopReading(`nothing was read at offset ${before}`)
    }
    return log.told(undefined)
  } catch (error) {
    if (bound.signal?.aborted) throw bound.signal.reason
    if (!isOperatingFailure(error) || isCoordinationError(error, 'CLOSED')) throw error
    return log.told(error instanceof Error ? error.message : String(error))
  }
}

/** The log could not be read further. */
class StopReading extends OperatingFailure {}

async function once<T>(
  { runtime, requestTimeoutMs }: ScanDependencies,
  api: ApiName,
  bound: Bound,
  ask: (deadline: number) => Promise<{ readonly errorCode: number; readonly value: T }>,
): Promise<T> {
  for (let attempt = 1; ; attempt++) {
    bound.signal?.throwIfAborted()
    const isLast = attempt >= mostAttempts || isPast(runtime, bound)
    try {
      const deadline = requestDeadline(runtime, requestTimeoutMs, bound)
      const { errorCode, value } = await withinTime(runtime, ask(deadline), bound)
      const disposition = dispositionOf(api, errorCode)
      if (disposition === 'ok') return value
      if (isLast || disposition === 'fatal') throw new StopReading(`${api} answered ${kafkaErrorName(errorCode)}`)
    } catch (error) {
      // Somebody else's request on this channel was not answered, and took the channel down.
      const wasCut = error instanceof RequestFailure && error.kind === 'closed'
      if (isLast || !wasCut) throw error
    }
    await pause(runtime, backoffMs(runtime, attempt), bound)
  }
}

class Log {
  position = 0n
  readonly #partition: number
  readonly #open: OpenTransactions = new Map()
  readonly #undecodable: { readonly offset: bigint; readonly reason: string }[] = []
  #firstOffset: bigint | undefined
  #end: bigint | undefined
  #widestStepBack: PartitionScan['widestStepBack']
  #lastAppendTime: bigint | undefined
  #newestAppendTime: bigint | undefined

  constructor(partition: number) {
    this.#partition = partition
  }

  get settledBelow(): bigint {
    return oldestOpenOffset(this.#open) ?? this.position
  }

  begin(firstOffset: bigint, end: bigint): void {
    this.#firstOffset = firstOffset
    this.#end = end
    this.position = firstOffset
  }

  append(batches: readonly FetchedBatch[], now: number): readonly SettledRecord[] {
    const settled: SettledRecord[] = []
    for (const batch of batches) {
      if (batch.lastOffset < this.position) continue
      if (batch.undecodable !== undefined) {
        this.#undecodable.push({ offset: batch.baseOffset, reason: batch.undecodable })
      }
      if (batch.logAppendTime && batch.control === undefined) this.#noteAppendTime(batch.baseOffset, batch.maxTimestamp)
      settled.push(...settleBatch(this.#open, batch, now))
      this.position = batch.lastOffset + 1n
    }
    return settled
  }

  told(problem: string | undefined): PartitionScan {
    return {
      partition: this.#partition,
      firstOffset: this.#firstOffset,
      end: this.#end,
      problem,
      undecodable: this.#undecodable,
      widestStepBack: this.#widestStepBack,
      newestAppendTime: this.#newestAppendTime,
    }
  }

  #noteAppendTime(offset: bigint, time: bigint): void {
    const ms = this.#lastAppendTime === undefined ? 0 : Number(this.#lastAppendTime - time)
    if (ms > (this.#widestStepBack?.ms ?? 0)) this.#widestStepBack = { offset, ms }
    this.#lastAppendTime = time
    if (this.#newestAppendTime === undefined || time > this.#newestAppendTime) this.#newestAppendTime = time
  }
}

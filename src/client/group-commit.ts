/**
 * Group commit: sends that wait while a transaction is under way share the next one, in call order.
 *
 * A send that fails by itself is rejected and the rest run again in order; any other failure rejects the group. It must not talk to the
 * broker: it is given a way to run a transaction.
 */
import { dispositionOf, kafkaErrorName } from '../cluster/error-table.js'
import type { Metadata } from '../cluster/metadata.js'
import type { PartitionRecords, Refusal } from '../cluster/transaction.js'
import { TransactionFailure } from '../cluster/transaction.js'
import { coordinationError, isCoordinationError } from '../errors.js'
import type { Job } from './lane.js'
import type { Layout, PlacedSend, PreparedSend, RecordPosition } from './records.js'
import { layOut, placeSend, positionsOf } from './records.js'

/** A `send` whose caller waits. */
export interface WaitingSend {
  readonly prepared: PreparedSend
  /** Which partition messages without key and partition go to, modulo the topic's count. */
  readonly fallback: number
  resolve(positions: readonly RecordPosition[]): void
  reject(error: unknown): void
}

/** What a group needs of its leadership. */
export interface GroupCommitter {
  /** Produces and commits in one transaction; resolves with offsets by entry and record. */
  commit(entries: readonly PartitionRecords[]): Promise<readonly (readonly bigint[])[]>
  partitionCount(topic: string, atLeast: number): Promise<number>
}

const mostGroupBytes = 8 * 1024 * 1024

/** Sends that will share one transaction. */
export class GroupCommit implements Job {
  readonly #committer: GroupCommitter
  readonly #sends: WaitingSend[] = []
  #bytes = 0

  constructor(committer: GroupCommitter) {
    this.#committer = committer
  }

  /** Whether one more send of `bytes` fits. */
  fits(bytes: number): boolean {
    return this.#sends.length === 0 || this.#bytes + bytes <= mostGroupBytes
  }

  add(send: WaitingSend): void {
    this.#sends.push(send)
    this.#bytes += send.prepared.bytes
  }

  refuse(error: unknown): void {
    for (const send of this.#sends.splice(0)) send.reject(error)
  }

  async run(): Promise<void> {
    let groups: readonly WaitingSend[][] = [this.#sends.splice(0)]
    for (let index = 0; index < groups.length; index++) {
      const group = groups[index] ?? []
      const again = await this.#runGroup(group)
      groups = [...groups.slice(0, index + 1), ...again, ...groups.slice(index + 1)]
    }
  }

  /** Runs one transaction and settles its senders, save those that have to run again: these are returned in groups, in order. */
  async #runGroup(group: readonly WaitingSend[]): Promise<readonly WaitingSend[][]> {
    const placed: { readonly send: WaitingSend; readonly at: PlacedSend }[] = []
    for (const send of group) {
      try {
        const count = await this.#committer.partitionCount(send.prepared.topic, send.prepared.partitionsNamed)
        placed.push({ send, at: placeSend(send.prepared, count, send.fallback) })
      } catch (error) {
        send.reject(error)
      }
    }
    if (placed.length === 0) return []
    const layout = layOut(placed.map(({ at }) => at))
    try {
      const offsets = await this.#committer.commit(layout.entries)
      placed.forEach(({ send }, call) => {
        send.resolve(positionsOf(layout, call, offsets))
      })
      return []
    } catch (error) {
      if (error instanceof TransactionFailure && error.reason.kind === 'refused') {
        const { refusals } = error.reason
        const again = sortOut(
          placed.map(({ send }) => send),
          layout,
          refusals,
        )
        // Where none of them is at fault, as when the lease that rides along is refused, all would only be refused again.
        if (again.length !== 1 || again[0]?.length !== placed.length) return again
        const [refusal] = refusals
        for (const { send } of placed) send.reject(refusal === undefined ? error : refusedError(refusal))
        return []
      }
      for (const { send } of placed) send.reject(error)
      return []
    }
  }
}

/** Rejects the sends at fault and returns the others in groups; where a batch of many was refused whole, its sends one by one. */
function sortOut(
  sends: readonly WaitingSend[],
  layout: Layout,
  refusals: readonly Refusal[],
): readonly WaitingSend[][] {
  const groups: WaitingSend[][] = []
  let lastIsShared = false
  sends.forEach((send, call) => {
    const refusal = refusalOf(layout, call, refusals)
    if (refusal === undefined) {
      if (lastIsShared) groups.at(-1)?.push(send)
      else groups.push([send])
      lastIsShared = true
    } else if (refusal.certain || sends.length === 1) {
      send.reject(refusedError(refusal.refusal))
    } else {
      groups.push([send])
      lastIsShared = false
    }
  })
  return groups
}

function refusalOf(
  layout: Layout,
  call: number,
  refusals: readonly Refusal[],
): { readonly refusal: Refusal; readonly certain: boolean } | undefined {
  const places = layout.places[call] ?? []
  let suspected: { refusal: Refusal; certain: boolean } | undefined
  for (const refusal of refusals) {
    for (const { entry, index } of places) {
      const target = layout.entries[entry]
      if (target?.topic !== refusal.topic || target.partition !== refusal.partition) continue
      // A partition that could not be enlisted is refused to each of its senders.
      const isPartition = refusal.kafkaCode === 3 || refusal.kafkaCode === 29
      if (isPartition || refusal.recordIndexes.includes(index)) return { refusal, certain: true }
      if (refusal.recordIndexes.length === 0) suspected = { refusal, certain: false }
    }
  }
  return suspected
}

/** The error of a refused record or partition. */
export function refusedError({ topic, partition, kafkaCode, message }: Refusal): Error {
  return coordinationError('REFUSED', `The broker refused a record for ${topic}-${partition}: ${message}`, {
    topic,
    partition,
    kafkaCode,
  })
}

/**
 * How many partitions a topic has, asked of the cluster where that is not known or seems too few.
 *
 * @throws `REFUSED` for a topic that does not exist (3) or may not be described (29); `TRANSPORT` where that cannot be told.
 */
export async function partitionCountOf(
  metadata: Metadata,
  topic: string,
  atLeast: number,
  deadline: number,
): Promise<number> {
  let problem: string
  let cause: unknown
  try {
    const count = await metadata.partitionCountOf(topic, atLeast, { deadline })
    if (typeof count === 'number') return count
    if (count.kind === 'absent') {
      throw coordinationError('REFUSED', `Topic '${topic}' does not exist; make it, or mend its name`, {
        topic,
        partition: -1,
        kafkaCode: 3,
      })
    }
    problem = `Metadata answered ${kafkaErrorName(count.errorCode)}`
    if (dispositionOf('Metadata', count.errorCode) === 'fatal') {
      throw coordinationError('REFUSED', `The broker refused to tell of topic '${topic}': ${problem}`, {
        topic,
        partition: -1,
        kafkaCode: count.errorCode,
      })
    }
  } catch (error) {
    if (isCoordinationError(error)) throw error
    problem = error instanceof Error ? error.message : String(error)
    cause = error
  }
  throw coordinationError(
    'TRANSPORT',
    `The partitions of topic '${topic}' could not be asked for: ${problem}`,
    { retriable: true },
    { cause },
  )
}

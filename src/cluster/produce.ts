/**
 * Produce until answered: each batch goes to whoever leads its partition, and again, byte for byte, until an answer is final (I9).
 *
 * One request per leader carries all its partitions. It must not know of transactions beyond the id that the request names, and it
 * assigns no sequence numbers.
 */
import type { Runtime } from '../runtime.js'
import type { ClusterConnection, ProducedBatch } from './connection.js'
import { RequestFailure } from './connection.js'
import { throwIfHopeless } from './coordinator.js'
import { dispositionOf, kafkaErrorName, refusalError } from './error-table.js'
import type { Metadata, PartitionLeader } from './metadata.js'
import type { Bound } from './schedule.js'
import { backoffMs, isPast, pause, requestDeadline } from './schedule.js'

/** One batch and where it goes. */
export interface PartitionBatch {
  readonly topic: string
  readonly partition: number
  readonly batch: ProducedBatch
}

/** The final answer to one batch. */
export type ProduceOutcome =
  | { readonly kind: 'appended'; readonly baseOffset: bigint }
  | { readonly kind: 'fenced' }
  /** The broker does not know the batch's transaction: one AddPartitionsToTxn tells why. */
  | { readonly kind: 'ask-again'; readonly errorCode: number }
  | {
      readonly kind: 'refused'
      readonly errorCode: number
      readonly message: string
      /** Indexes of the records at fault, where the broker named them. */
      readonly recordIndexes: readonly number[]
      /** An earlier sending of the batch went unanswered. */
      readonly answerLost: boolean
    }
  | { readonly kind: 'fatal'; readonly error: Error }
  /** The bound ended it; `mayBeAppended` when a sending of it was written. */
  | { readonly kind: 'unanswered'; readonly mayBeAppended: boolean; readonly message: string; readonly cause: unknown }

/** What producing needs of the cluster. */
export interface ProduceDependencies {
  readonly connection: ClusterConnection
  readonly metadata: Metadata
  readonly runtime: Runtime
  readonly requestTimeoutMs: number
}

interface Pending {
  readonly index: number
  readonly target: PartitionBatch
  answerLost: boolean
  written: boolean
  problem: { readonly message: string; readonly cause: unknown }
}

/** Produces every batch and returns their outcomes in the same order. Batches of one call go to distinct partitions. */
export async function produceUntilAnswered(
  dependencies: ProduceDependencies,
  transactionalId: string | null,
  batches: readonly PartitionBatch[],
  bound: Bound,
): Promise<readonly ProduceOutcome[]> {
  const { runtime, metadata } = dependencies
  const outcomes = new Map<number, ProduceOutcome>()
  let pending: Pending[] = batches.map((target, index) => ({
    index,
    target,
    answerLost: false,
    written: false,
    problem: { message: 'it came too late to be sent', cause: undefined },
  }))
  for (let attempt = 0; ; attempt++) {
    // A bound that passed while this process was stopped lets nothing more be written.
    if (isPast(runtime, bound)) break
    const byLeader = new Map<number, { leader: PartitionLeader; pending: Pending[] }>()
    for (const entry of pending) {
      const leader = await findLeader(dependencies, entry, bound)
      if (leader === undefined) continue
      const group = byLeader.get(leader.node.id) ?? { leader, pending: [] }
      group.pending.push(entry)
      byLeader.set(leader.node.id, group)
    }
    await Promise.all(
      [...byLeader.values()].map(({ leader, pending: group }) =>
        produceOnce(dependencies, transactionalId, leader, group, bound, outcomes),
      ),
    )
    pending = pending.filter(({ index }) => !outcomes.has(index))
    if (pending.length === 0 || bound.signal?.aborted === true) break
    for (const { target } of pending) metadata.forget(target.topic, target.partition)
    await pause(runtime, backoffMs(runtime, attempt), { deadline: bound.deadline })
  }
  for (const { index, target, written, problem } of pending) {
    outcomes.set(index, {
      kind: 'unanswered',
      mayBeAppended: written,
      message: `Produce to ${target.topic}-${target.partition} was not answered in time: ${problem.message}`,
      cause: problem.cause,
    })
  }
  return batches.map((_batch, index) => {
    const outcome = outcomes.get(index)
    if (outcome === undefined) throw new Error(`batch ${index} has no outcome`)
    return outcome
  })
}

async function findLeader(
  { metadata, runtime, requestTimeoutMs }: ProduceDependencies,
  entry: Pending,
  bound: Bound,
): Promise<PartitionLeader | undefined> {
  const { topic, partition } = entry.target
  try {
    const deadline = requestDeadline(runtime, requestTimeoutMs, bound)
    const leader = await metadata.leaderOf(topic, partition, { deadline })
    if (leader === undefined) entry.problem = { message: 'its partition has no leader', cause: undefined }
    return leader
  } catch (error) {
    if (!(error instanceof RequestFailure)) throw error
    entry.problem = { message: error.message, cause: error }
    return undefined
  }
}

async function produceOnce(
  { connection, runtime, requestTimeoutMs }: ProduceDependencies,
  transactionalId: string | null,
  leader: PartitionLeader,
  group: readonly Pending[],
  bound: Bound,
  outcomes: Map<number, ProduceOutcome>,
): Promise<void> {
  const deadline = requestDeadline(runtime, requestTimeoutMs, bound)
  const timeoutMs = Math.max(1, Math.floor(deadline - runtime.monotonicNow()))
  const topics = new Map<string, { partition: number; batch: ProducedBatch }[]>()
  for (const { target } of group) {
    const partitions = topics.get(target.topic) ?? []
    partitions.push({ partition: target.partition, batch: target.batch })
    topics.set(target.topic, partitions)
  }
  try {
    const response = await connection.request(
      leader.node,
      'work',
      {
        api: 'Produce',
        transactionalId,
        timeoutMs,
        topics: [...topics].map(([topic, partitions]) => ({ topic, partitions })),
      },
      { deadline },
    )
    for (const entry of group) {
      const { topic, partition } = entry.target
      const answer = response.topics
        .find((candidate) => candidate.topic === topic)
        ?.partitions.find((candidate) => candidate.partition === partition)
      entry.written = true
      if (answer === undefined) {
        entry.answerLost = true
        entry.problem = { message: 'the answer left it out', cause: undefined }
        continue
      }
      const resource = `${topic}-${partition}`
      const described = `Produce to ${resource} answered ${kafkaErrorName(answer.errorCode)}${answer.errorMessage === null ? '' : `: ${answer.errorMessage}`}`
      switch (dispositionOf('Produce', answer.errorCode)) {
        case 'ok':
          outcomes.set(entry.index, { kind: 'appended', baseOffset: answer.baseOffset })
          break
        case 'fenced':
          outcomes.set(entry.index, { kind: 'fenced' })
          break
        case 'ask-again':
          outcomes.set(entry.index, { kind: 'ask-again', errorCode: answer.errorCode })
          break
        case 'refuse':
          outcomes.set(entry.index, {
            kind: 'refused',
            errorCode: answer.errorCode,
            message: described,
            recordIndexes: answer.recordErrors.map(({ batchIndex }) => batchIndex),
            answerLost: entry.answerLost,
          })
          break
        case 'retry-now':
        case 'retry-later':
        case 'find-again':
        case 'look-again':
          entry.problem = { message: described, cause: undefined }
          break
        case 'absent':
        case 're-read':
        case 'not-attempted':
        case 'fatal':
          outcomes.set(entry.index, {
            kind: 'fatal',
            error: refusalError('Produce', answer.errorCode, { operation: 'Write', resource: `topic '${topic}'` }),
          })
          break
      }
    }
  } catch (error) {
    if (!(error instanceof RequestFailure)) throw error
    for (const entry of group) {
      throwIfHopeless(error, { operation: 'Write', resource: `topic '${entry.target.topic}'` })
      if (error.written) entry.answerLost = entry.written = true
      entry.problem = { message: error.message, cause: error }
    }
  }
}

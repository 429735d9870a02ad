/**
 * Transactions under one token: enlist, produce, commit offsets, end.
 *
 * It holds the order of I11 (nothing is produced to a partition before AddPartitionsToTxn answered 0 for it), the sequence numbers of
 * the epoch, and the taint of I9. It must not renew, judge deadlines of a lease, or end a term: the lane does. One transaction at a
 * time: the caller sees to it.
 */
import { isCoordinationError } from '../errors.js'
import type { ProducedRecord } from './connection.js'
import type { Answered, CoordinatorKey, Coordinators } from './coordinator.js'
import { transportError, Unanswered } from './coordinator.js'
import { dispositionOf, kafkaErrorName, refusalError } from './error-table.js'
import type { ProducerPair } from './mint.js'
import { OperatingFailure } from './operating-failure.js'
import type { PartitionBatch, ProduceDependencies, ProduceOutcome } from './produce.js'
import { produceUntilAnswered } from './produce.js'
import type { Bound } from './schedule.js'

/** Records for one partition, in order. */
export interface PartitionRecords {
  readonly topic: string
  readonly partition: number
  readonly records: readonly ProducedRecord[]
}

/** A partition, or a record of it, that the broker refused. */
export interface Refusal {
  readonly topic: string
  readonly partition: number
  readonly kafkaCode: number
  readonly message: string
  /** Indexes into the records given for that partition; empty when the broker named none. */
  readonly recordIndexes: readonly number[]
}

/** Offsets to commit for a consumer group. */
export interface GroupOffsets {
  readonly consumerGroupId: string
  readonly topics: readonly {
    readonly topic: string
    readonly partitions: readonly {
      readonly partition: number
      readonly offset: bigint
      readonly metadata: string | null
    }[]
  }[]
}

/** Why a transaction could not go on. */
export type TransactionFailureReason =
  /** The broker refused the token. */
  | { readonly kind: 'fenced' }
  /** The broker refused these partitions or records; the transaction has to be aborted. */
  | { readonly kind: 'refused'; readonly refusals: readonly Refusal[] }
  /** EndTxn(commit) may or may not have been applied. */
  | { readonly kind: 'commit-unknown' }
  /** The bound passed, or the broker gave an answer that no repetition helps; nothing of the transaction is committed. */
  | { readonly kind: 'failed' }

/** Ends a transaction from within; the lane turns it into what the caller sees. */
export class TransactionFailure extends OperatingFailure {
  override readonly name = 'TransactionFailure'
  readonly reason: TransactionFailureReason

  constructor(reason: TransactionFailureReason, message: string, cause?: unknown) {
    super(message, cause === undefined ? undefined : { cause })
    this.reason = reason
  }
}

/** The producer's side of one token: what must be remembered from one transaction to the next. */
export interface ProducerEpoch {
  readonly transactionalId: string
  readonly pair: ProducerPair
  /** Next sequence number by partition. */
  readonly sequences: Map<string, number>
  /** Why the epoch may begin no further transaction (I9), or undefined. */
  taint: string | undefined
  /** An answer to an addition was lost: a late copy of it may open a transaction that nobody here knows of. */
  additionLost: boolean
}

/** A fresh epoch: no sequence used, no taint. */
export function producerEpoch(transactionalId: string, pair: ProducerPair): ProducerEpoch {
  return { transactionalId, pair, sequences: new Map(), taint: undefined, additionLost: false }
}

/** What a transaction needs of the cluster. */
export interface TransactionDependencies extends ProduceDependencies {
  readonly coordinators: Coordinators
}

/** The most that one batch may hold, below the broker's default message.max.bytes of 1,048,588. */
const longestBatchBytes = 950_000

const nameOf = (topic: string, partition: number): string => `${topic}-${partition}`

/** A transaction from its first request to its EndTxn. */
export class Transaction {
  readonly #dependencies: TransactionDependencies
  readonly #epoch: ProducerEpoch
  readonly #key: CoordinatorKey
  readonly #enlistedAt = new Map<string, number>()
  readonly #lastOffsets = new Map<string, bigint>()
  readonly #groups = new Set<string>()
  #recordCount = 0
  #begun = false

  /** @throws Error when the epoch is tainted: the caller must have ended the term (I9). */
  constructor(dependencies: TransactionDependencies, epoch: ProducerEpoch) {
    if (epoch.taint !== undefined) throw new Error(`a tainted epoch begins no transaction: ${epoch.taint}`)
    this.#dependencies = dependencies
    this.#epoch = epoch
    this.#key = { keyType: 'transaction', key: epoch.transactionalId }
  }

  /** Whether the coordinator may know of this transaction. */
  get begun(): boolean {
    return this.#begun
  }

  /** How many records were appended. */
  get recordCount(): number {
    return this.#recordCount
  }

  /** Monotonic instant just before the AddPartitionsToTxn that enlisted a partition was first sent; undefined if it is not enlisted. */
  enlistedAt(topic: string, partition: number): number | undefined {
    return this.#enlistedAt.get(nameOf(topic, partition))
  }

  /** Offset of the last record appended to a partition by this transaction; undefined if there is none. */
  lastOffset(topic: string, partition: number): bigint | undefined {
    return this.#lastOffsets.get(nameOf(topic, partition))
  }

  /**
   * Enlists what is not enlisted yet, then produces the records. Resolves with each record's offset, in the order given. At most one
   * entry per partition.
   *
   * @throws TransactionFailure
   */
  async send(entries: readonly PartitionRecords[], bound: Bound): Promise<readonly (readonly bigint[])[]> {
    await this.#enlist(entries, bound)
    const offsets: bigint[][] = entries.map(() => [])
    const chunks = entries.map(({ records }) => inBatches(records))
    const rounds = Math.max(0, ...chunks.map(({ length }) => length))
    for (let round = 0; round < rounds; round++) {
      const active = entries.flatMap(({ topic, partition }, entry) => {
        const records = chunks[entry]?.[round]
        return records === undefined ? [] : [{ entry, topic, partition, records }]
      })
      const batches = active.map(({ topic, partition, records }) => this.#batch(topic, partition, records))
      const outcomes = await this.#produce(batches, bound)
      const refusals: Refusal[] = []
      active.forEach(({ entry, topic, partition, records }, index) => {
        const outcome = outcomes[index]
        const done = offsets[entry] ?? []
        if (outcome?.kind === 'appended') {
          done.push(...records.map((_record, position) => outcome.baseOffset + BigInt(position)))
          this.#recordCount += records.length
          this.#lastOffsets.set(nameOf(topic, partition), outcome.baseOffset + BigInt(records.length - 1))
        } else if (outcome?.kind === 'refused') {
          refusals.push({
            topic,
            partition,
            kafkaCode: outcome.errorCode,
            message: outcome.message,
            recordIndexes:
              records.length === 1 ? [done.length] : outcome.recordIndexes.map((position) => done.length + position),
          })
        }
      })
      if (refusals.length > 0) {
        throw new TransactionFailure({ kind: 'refused', refusals }, refusals.map(({ message }) => message).join('; '))
      }
    }
    return offsets
  }

  /**
   * Commits consumer offsets within this transaction. The token fences it; no group generation is checked (KIP-447).
   *
   * @throws TransactionFailure
   */
  async sendOffsets(offsets: GroupOffsets, bound: Bound): Promise<void> {
    const { coordinators } = this.#dependencies
    const { consumerGroupId: groupId, topics } = offsets
    const attempted = { operation: 'Read', resource: `group '${groupId}'` }
    const groupKey: CoordinatorKey = { keyType: 'group', key: groupId }
    const identity = this.#identity()
    try {
      if (!this.#groups.has(groupId)) {
        this.#begun = true
        const added: Answered<'AddOffsetsToTxn'> = await coordinators.ask(
          this.#key,
          'work',
          { api: 'AddOffsetsToTxn', ...identity, groupId },
          ({ errorCode }) => errorCode,
          attempted,
          bound,
        )
        if (added.answerLost) this.#epoch.additionLost = true
        if (added.disposition === 'fenced') throw fenced(this.#epoch)
        if (added.disposition !== 'ok') throw refusalError('AddOffsetsToTxn', added.errorCode, attempted)
        this.#groups.add(groupId)
      }
      const committed: Answered<'TxnOffsetCommit'> = await coordinators.ask(
        groupKey,
        'work',
        { api: 'TxnOffsetCommit', ...identity, groupId, topics },
        (response) => firstError('TxnOffsetCommit', response.topics),
        attempted,
        bound,
      )
      if (committed.answerLost) this.#taint(`an answer to TxnOffsetCommit for group '${groupId}' was lost`)
      if (committed.disposition === 'fenced') throw fenced(this.#epoch)
      if (committed.disposition === 'ask-again') await this.#askWhetherFenced(committed.errorCode, bound)
      if (committed.disposition === 'refuse') {
        const refusals = committed.response.topics.flatMap(({ topic, partitions }) =>
          partitions
            .filter(({ errorCode }) => dispositionOf('TxnOffsetCommit', errorCode) !== 'ok')
            .map(({ partition, errorCode }) => ({
              topic,
              partition,
              kafkaCode: errorCode,
              message: `TxnOffsetCommit of group '${groupId}' for ${nameOf(topic, partition)} answered ${kafkaErrorName(errorCode)}`,
              recordIndexes: [],
            })),
        )
        throw new TransactionFailure({ kind: 'refused', refusals }, refusals.map(({ message }) => message).join('; '))
      }
      if (committed.disposition !== 'ok') throw refusalError('TxnOffsetCommit', committed.errorCode, attempted)
    } catch (error) {
      if (error instanceof Unanswered && error.answerLost) {
        this.#taint(`TxnOffsetCommit for group '${groupId}' was never answered`)
      }
      throw asFailure(error)
    }
  }

  /**
   * Sends EndTxn until it is answered. Resolves only when the outcome is certain: after a commit everything sent is visible to
   * committed readers, after an abort nothing ever is.
   *
   * @throws TransactionFailure `commit-unknown` when a commit may or may not have happened.
   */
  async end(committed: boolean, bound: Bound): Promise<void> {
    if (!this.#begun) return
    const { coordinators } = this.#dependencies
    const attempted = { operation: 'Write', resource: `transactional id '${this.#epoch.transactionalId}'` }
    const word = committed ? 'commit' : 'abort'
    try {
      const answered: Answered<'EndTxn'> = await coordinators.ask(
        this.#key,
        'work',
        { api: 'EndTxn', ...this.#identity(), committed },
        ({ errorCode }) => errorCode,
        attempted,
        bound,
      )
      if (answered.answerLost) this.#taint(`an answer to EndTxn(${word}) was lost`)
      if (answered.disposition === 'ok') return
      if (committed && answered.appliedBefore) {
        throw new TransactionFailure(
          { kind: 'commit-unknown' },
          `The first answer to EndTxn(commit) of '${this.#epoch.transactionalId}' was lost and the next was ${kafkaErrorName(answered.errorCode)}: it may or may not be committed`,
        )
      }
      if (answered.disposition === 'fenced') throw fenced(this.#epoch)
      // 48: the coordinator has no open transaction of this epoch, so a late copy of something ended it, or nothing was ever added.
      if (committed || this.#enlistedAt.size > 0 || this.#groups.size > 0) {
        this.#taint(`EndTxn(${word}) answered ${kafkaErrorName(answered.errorCode)}`)
      }
      if (!committed) return
      throw refusalError('EndTxn', answered.errorCode, attempted)
    } catch (error) {
      if (error instanceof Unanswered) {
        if (error.answerLost) this.#taint(`EndTxn(${word}) was never answered`)
        if (committed && error.mayBeApplied) {
          throw new TransactionFailure(
            { kind: 'commit-unknown' },
            `EndTxn(commit) of '${this.#epoch.transactionalId}' was not answered: it may or may not be committed`,
            error,
          )
        }
      }
      throw asFailure(error)
    }
  }

  async #enlist(entries: readonly PartitionRecords[], bound: Bound): Promise<void> {
    const missing = entries.filter(({ topic, partition }) => this.enlistedAt(topic, partition) === undefined)
    if (missing.length === 0) return
    const sentAt = this.#dependencies.runtime.monotonicNow()
    const answered = await this.#addPartitions(missing, bound)
    if (answered.disposition === 'ok') {
      for (const { topic, partition } of missing) this.#enlistedAt.set(nameOf(topic, partition), sentAt)
      return
    }
    if (answered.disposition === 'fenced') throw fenced(this.#epoch)
    const refusals = answered.response.topics.flatMap(({ topic, partitions }) =>
      partitions
        .filter(({ errorCode }) => dispositionOf('AddPartitionsToTxn', errorCode) === 'refuse')
        .map(({ partition, errorCode }) => ({
          topic,
          partition,
          kafkaCode: errorCode,
          message: `AddPartitionsToTxn for ${nameOf(topic, partition)} answered ${kafkaErrorName(errorCode)}`,
          recordIndexes: [],
        })),
    )
    if (refusals.length > 0) {
      throw new TransactionFailure({ kind: 'refused', refusals }, refusals.map(({ message }) => message).join('; '))
    }
    throw asFailure(
      refusalError('AddPartitionsToTxn', answered.errorCode, {
        operation: 'Write',
        resource: `transactional id '${this.#epoch.transactionalId}'`,
      }),
    )
  }

  async #addPartitions(
    entries: readonly { readonly topic: string; readonly partition: number }[],
    bound: Bound,
  ): Promise<Answered<'AddPartitionsToTxn'>> {
    const topics = new Map<string, number[]>()
    for (const { topic, partition } of entries) topics.set(topic, [...(topics.get(topic) ?? []), partition])
    const wasBegun = this.#begun
    this.#begun = true
    try {
      const answered = await this.#dependencies.coordinators.ask<'AddPartitionsToTxn'>(
        this.#key,
        'work',
        {
          api: 'AddPartitionsToTxn',
          ...this.#identity(),
          topics: [...topics].map(([topic, partitions]) => ({ topic, partitions })),
        },
        (response) => firstError('AddPartitionsToTxn', response.topics),
        { operation: 'Write', resource: `transactional id '${this.#epoch.transactionalId}'` },
        bound,
      )
      if (answered.answerLost) this.#epoch.additionLost = true
      return answered
    } catch (error) {
      if (error instanceof Unanswered && error.answerLost) this.#epoch.additionLost = true
      // What never reached the coordinator leaves it nothing to end.
      if (error instanceof Unanswered && !error.mayBeApplied) this.#begun = wasBegun
      throw asFailure(error)
    }
  }

  /** Assigns the next sequence numbers of the partition to the records. */
  #batch(topic: string, partition: number, records: readonly ProducedRecord[]): PartitionBatch {
    const name = nameOf(topic, partition)
    const baseSequence = this.#epoch.sequences.get(name) ?? 0
    this.#epoch.sequences.set(name, nextSequence(baseSequence, records.length))
    return { topic, partition, batch: { ...this.#epoch.pair, baseSequence, transactional: true, records } }
  }

  async #produce(batches: readonly PartitionBatch[], bound: Bound): Promise<readonly ProduceOutcome[]> {
    const send = (again: readonly PartitionBatch[]): Promise<readonly ProduceOutcome[]> =>
      produceUntilAnswered(this.#dependencies, this.#epoch.transactionalId, again, bound).catch((error: unknown) => {
        this.#taint('a Produce was given up')
        throw asFailure(error)
      })
    let outcomes = await send(batches)
    try {
      const doubtful = outcomes.find((outcome) => outcome.kind === 'ask-again')
      if (doubtful?.kind === 'ask-again') {
        await this.#askWhetherFenced(doubtful.errorCode, bound)
        const again = batches.filter((_batch, index) => outcomes[index]?.kind === 'ask-again')
        const second = [...(await send(again))]
        outcomes = outcomes.map((outcome) => (outcome.kind === 'ask-again' ? (second.shift() ?? outcome) : outcome))
      }
    } finally {
      outcomes.forEach((outcome, index) => {
        const target = batches[index]
        if (target !== undefined) this.#account(target, outcome)
      })
    }
    for (const outcome of outcomes) {
      if (outcome.kind === 'fenced') throw fenced(this.#epoch)
    }
    for (const outcome of outcomes) {
      if (outcome.kind === 'unanswered')
        throw new TransactionFailure({ kind: 'failed' }, outcome.message, outcome.cause)
      if (outcome.kind === 'fatal') throw asFailure(outcome.error)
      if (outcome.kind === 'ask-again') {
        throw new TransactionFailure({ kind: 'failed' }, `Produce answered ${kafkaErrorName(outcome.errorCode)} twice`)
      }
    }
    return outcomes
  }

  /** Keeps the epoch's sequences true: a definite refusal frees its numbers, doubt taints the epoch (I9). */
  #account({ topic, partition, batch }: PartitionBatch, outcome: ProduceOutcome): void {
    const name = nameOf(topic, partition)
    if (outcome.kind === 'refused') {
      if (outcome.answerLost) this.#taint(`an answer to Produce to ${name} was lost before it was refused`)
      this.#epoch.sequences.set(name, batch.baseSequence)
    } else if (outcome.kind === 'unanswered') {
      if (outcome.mayBeAppended) this.#taint(`Produce to ${name} was never answered`)
      else this.#epoch.sequences.set(name, batch.baseSequence)
    } else if (outcome.kind === 'fatal' || outcome.kind === 'ask-again') {
      this.#taint(`Produce to ${name} failed`)
    }
  }

  /** 48 after a good AddPartitionsToTxn: adding once more is answered 90 if the token is fenced. */
  async #askWhetherFenced(errorCode: number, bound: Bound): Promise<void> {
    const enlisted = [...this.#enlistedAt.keys()].map((name) => {
      const dash = name.lastIndexOf('-')
      return { topic: name.slice(0, dash), partition: Number(name.slice(dash + 1)) }
    })
    if (enlisted.length === 0) {
      throw new TransactionFailure({ kind: 'failed' }, `The transaction answered ${kafkaErrorName(errorCode)}`)
    }
    const answered = await this.#addPartitions(enlisted, bound)
    if (answered.disposition === 'fenced') throw fenced(this.#epoch)
  }

  #identity(): { transactionalId: string } & ProducerPair {
    return { transactionalId: this.#epoch.transactionalId, ...this.#epoch.pair }
  }

  #taint(why: string): void {
    this.#epoch.taint ??= why
  }
}

/**
 * Aborts what a late copy of an addition may have opened under the epoch since its last transaction ended. Nothing of the caller's is in
 * it. For an epoch that begins no further transaction: a late copy of this request finds none of them.
 *
 * @throws Unanswered when the bound ends it first.
 */
export async function abortStrayTransaction(
  { coordinators }: TransactionDependencies,
  { transactionalId, pair, additionLost }: ProducerEpoch,
  bound: Bound,
): Promise<void> {
  if (!additionLost) return
  // Whatever is answered: 48 where there is no such transaction, and a fence is told by whoever asks next.
  await coordinators.ask<'EndTxn'>(
    { keyType: 'transaction', key: transactionalId },
    'work',
    { api: 'EndTxn', transactionalId, ...pair, committed: false },
    ({ errorCode }) => errorCode,
    { operation: 'Write', resource: `transactional id '${transactionalId}'` },
    bound,
  )
}

/** The first code of a per-partition answer that is neither success nor "not attempted" (55, whose order is arbitrary). */
function firstError(
  api: 'AddPartitionsToTxn' | 'TxnOffsetCommit',
  topics: readonly { readonly partitions: readonly { readonly errorCode: number }[] }[],
): number {
  const codes = topics.flatMap(({ partitions }) => partitions.map(({ errorCode }) => errorCode))
  const telling = (code: number): boolean => {
    const disposition = dispositionOf(api, code)
    return disposition !== 'ok' && disposition !== 'not-attempted'
  }
  return codes.find(telling) ?? codes.find((code) => dispositionOf(api, code) !== 'ok') ?? 0
}

function fenced(epoch: ProducerEpoch): TransactionFailure {
  return new TransactionFailure(
    { kind: 'fenced' },
    `The broker refused the token ${epoch.pair.producerId}:${epoch.pair.producerEpoch} of '${epoch.transactionalId}'`,
  )
}

function asFailure(error: unknown): Error {
  if (error instanceof TransactionFailure) return error
  if (error instanceof Unanswered || isCoordinationError(error)) {
    return new TransactionFailure({ kind: 'failed' }, error.message, transportError(error))
  }
  return error instanceof Error ? error : new Error(String(error))
}

/** Sequence numbers wrap from 2^31 - 1 to 0. */
function nextSequence(base: number, count: number): number {
  return (base + count) % 2 ** 31
}

/** About what a record takes in a batch, in bytes; never less. */
export function recordBytes(record: ProducedRecord): number {
  let bytes = 32 + (record.key?.length ?? 0) + (record.value?.length ?? 0)
  for (const [key, value] of record.headers) bytes += 10 + key.length * 3 + (value?.length ?? 0)
  return bytes
}

function inBatches(records: readonly ProducedRecord[]): readonly (readonly ProducedRecord[])[] {
  const batches: ProducedRecord[][] = []
  let bytes = Number.POSITIVE_INFINITY
  for (const record of records) {
    const size = recordBytes(record)
    bytes += size
    if (bytes > longestBatchBytes) {
      batches.push([])
      bytes = size
    }
    batches.at(-1)?.push(record)
  }
  return batches
}

/**
 * Coordination records written by hand in the frozen format, in transactions or without: the leases and registrations of a member that
 * is not ours, true or forged.
 *
 * It repeats only what a busy coordinator refuses for the moment, and hands every other code up.
 */
import { setTimeout as delay } from 'node:timers/promises'
import type { Kafka } from 'kafkajs'
import type { FetchedBatch } from '../../src/cluster/connection.js'
import { encodeIncarnation, encodeTerm, incarnationHeader, termHeader } from '../../src/format/headers.js'
import { encodeKey, encodeLease, encodeRegistration, FencingToken, parseMemberId, parseRole } from '../../src/index.js'
import { openKafkaConnection } from '../../src/kafka/connection.js'
import { systemRuntime } from '../../src/runtime.js'
import { freshName } from '../kafka/suites.js'
import { HandMade, type HandMadeRecord, noPair, type Pair, untilIdle } from '../support/hand-made.js'

/** What a lease record says, wherever it is not the default. */
export interface LeaseClaim {
  readonly member?: string
  readonly lengthMs?: bigint
  readonly term?: bigint
}

/** A lease of `role` that claims `pair`. */
export function leaseRecord(role: string, pair: Pair, claim: LeaseClaim = {}): HandMadeRecord {
  const grantedAt = BigInt(Date.now())
  const { member = 'hand', lengthMs = 1_000n, term } = claim
  const token = FencingToken.parse(`${pair.producerId}:${pair.producerEpoch}`)
  const value = encodeLease({ member: parseMemberId(member), token, grantedAt, deadline: grantedAt + lengthMs })
  return { key: leaseKey(role), value, headers: term === undefined ? [] : [[termHeader, encodeTerm(term)]] }
}

export function leaseKey(role: string): Uint8Array {
  return encodeKey({ kind: 'lease', role: parseRole(role) })
}

export function registrationKey(role: string, member: string): Uint8Array {
  return encodeKey({ kind: 'registration', role: parseRole(role), member: parseMemberId(member) })
}

/** A registration of `member`; of no incarnation, as of another implementation, unless a birth is given. */
export function registrationRecord(role: string, member: string, birth?: bigint): HandMadeRecord {
  const registeredAt = BigInt(Date.now())
  const value = encodeRegistration({ member: parseMemberId(member), registeredAt })
  const key = registrationKey(role, member)
  if (birth === undefined) return { key, value }
  return {
    key,
    value,
    headers: [[incarnationHeader, encodeIncarnation({ id: new Uint8Array(16), birth, registeredAt })]],
  }
}

/** A producer of one transactional id that has minted, and writes to partition 0 of topics. Close it. */
export class HandWriter {
  readonly wire: HandMade
  readonly pair: Pair
  readonly #sequences = new Map<string, number>()

  private constructor(wire: HandMade, pair: Pair) {
    this.wire = wire
    this.pair = pair
  }

  /** Mints the id, by which whoever used it is deposed. */
  static async open(bootstrap: readonly string[], transactionalId: string): Promise<HandWriter> {
    const wire = await HandMade.open(bootstrap, transactionalId)
    const { errorCode, ...pair } = await untilIdle(() => wire.mint())
    if (errorCode !== 0) throw new Error(`InitProducerId of '${transactionalId}' answered ${errorCode}`)
    return new HandWriter(wire, pair)
  }

  /** One transaction with one Produce for each list of records, committed or aborted. Answers the base offsets. */
  async transaction(
    topic: string,
    batches: readonly (readonly HandMadeRecord[])[],
    outcome: 'commit' | 'abort' = 'commit',
  ): Promise<readonly bigint[]> {
    expectNoError('AddPartitionsToTxn', await untilIdle(() => this.wire.addPartition(this.pair, topic)))
    const answers = await Promise.all(
      batches.map((records) => {
        const baseSequence = this.#sequences.get(topic) ?? 0
        this.#sequences.set(topic, baseSequence + records.length)
        return this.wire.produce(this.pair, topic, records, { baseSequence })
      }),
    )
    for (const { errorCode } of answers) expectNoError('Produce', errorCode)
    expectNoError('EndTxn', (await this.wire.endTransaction(this.pair, outcome === 'commit')).errorCode)
    return answers.map(({ baseOffset }) => baseOffset)
  }

  close(): void {
    this.wire.close()
  }
}

/** Writes records to partition 0 without a transaction and answers the base offset. */
export async function writePlainly(
  bootstrap: readonly string[],
  topic: string,
  records: readonly HandMadeRecord[],
): Promise<bigint> {
  const wire = await HandMade.open(bootstrap, 'none')
  try {
    const { errorCode, baseOffset } = await wire.produce(noPair, topic, records)
    expectNoError('Produce', errorCode)
    return baseOffset
  } finally {
    wire.close()
  }
}

/** Makes a compacted topic that can stand for the coordination topic, and waits until its leader knows of it. */
export async function makeTopic(
  kafka: Kafka,
  settings: Readonly<Record<string, string>> = {},
  numPartitions: number = 1,
): Promise<string> {
  const topic = freshName('coordination')
  const all = { 'cleanup.policy': 'compact', 'message.timestamp.type': 'LogAppendTime', ...settings }
  const configEntries = Object.entries(all).map(([name, value]) => ({ name, value }))
  const admin = kafka.admin()
  await admin.connect()
  try {
    await admin.createTopics({ topics: [{ topic, numPartitions, configEntries }], waitForLeaders: false })
  } finally {
    await admin.disconnect()
  }
  // Metadata names a leader before that broker takes requests for the partition.
  while ((await batchesOf(kafka, topic)).logStart < 0n) await delay(20)
  return topic
}

/** Every batch of partition 0 of a topic as it lies in the log, and where the log starts; -1 where it has no leader yet. */
export async function batchesOf(
  kafka: unknown,
  topic: string,
): Promise<{ readonly logStart: bigint; readonly batches: readonly FetchedBatch[] }> {
  const connection = openKafkaConnection({ kafka, runtime: systemRuntime })
  const options = { deadline: systemRuntime.monotonicNow() + 30_000 }
  try {
    const metadata = await connection.request('seed', 'work', { api: 'Metadata', topics: [topic] }, options)
    const leaderId = metadata.topics[0]?.partitions[0]?.leaderId
    const node = metadata.brokers.find(({ id }) => id === leaderId)
    if (node === undefined) return { logStart: -1n, batches: [] }
    const offset = async (at: 'earliest' | 'latest'): Promise<bigint> => {
      const partitions = [{ partition: 0, currentLeaderEpoch: -1, at }]
      const answer = await connection.request(node, 'work', { api: 'ListOffsets', topic, partitions }, options)
      return answer.partitions[0]?.offset ?? -1n
    }
    const [logStart, end] = [await offset('earliest'), await offset('latest')]
    const batches: FetchedBatch[] = []
    for (let position = logStart; position < end; ) {
      const answer = await connection.request(
        node,
        'work',
        {
          api: 'Fetch',
          maxWaitMs: 100,
          minBytes: 1,
          maxBytes: 8_000_000,
          partitionMaxBytes: 8_000_000,
          topic,
          partitions: [{ partition: 0, currentLeaderEpoch: -1, offset: position, lastFetchedEpoch: -1 }],
        },
        options,
      )
      for (const batch of answer.partitions[0]?.batches ?? []) {
        if (batch.lastOffset < position) continue
        batches.push(batch)
        position = batch.lastOffset + 1n
      }
    }
    return { logStart, batches }
  } finally {
    connection.close()
  }
}

function expectNoError(api: string, errorCode: number): void {
  if (errorCode !== 0) throw new Error(`${api} answered ${errorCode}`)
}

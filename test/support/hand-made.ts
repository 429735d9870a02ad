/**
 * Requests of a transactional producer made by hand, one at a time and in any order: what a deposed, a late or a foreign client
 * sends, and the positive controls of schedules that the library itself never runs into.
 *
 * It repeats nothing by itself and checks nothing: every answer is handed up with its code. For clusters of one broker.
 */
import { setTimeout as delay } from 'node:timers/promises'
import { encodeBatch } from '../../src/kafka/record-batch.js'
import { WireConnection, WireReader, WireWriter } from './wire.js'

/** A producer id with its epoch; -1 and -1 where there is none. */
export interface Pair {
  readonly producerId: bigint
  readonly producerEpoch: number
}

export interface HandMadeRecord {
  readonly key: Uint8Array | string | null
  readonly value: Uint8Array | string | null
  readonly headers?: readonly (readonly [name: string, value: Uint8Array | null])[]
}

export const noPair: Pair = { producerId: -1n, producerEpoch: -1 }

/** `4242:7` as a pair. */
export function pairOf(token: string): Pair {
  const [producerId = '', producerEpoch = ''] = token.split(':')
  return { producerId: BigInt(producerId), producerEpoch: Number(producerEpoch) }
}

/**
 * CONCURRENT_TRANSACTIONS; COORDINATOR_LOAD_IN_PROGRESS, while a fresh broker fetches its first block of producer ids; and
 * NOT_LEADER_OR_FOLLOWER of a topic that was made just now.
 */
const passingCodes: ReadonlySet<number> = new Set([51, 14, 6])

/** One connection to the one broker of a cluster, as whoever its caller says. Close it. */
export class HandMade {
  readonly #connection: WireConnection
  readonly #transactionalId: string

  private constructor(connection: WireConnection, transactionalId: string) {
    this.#connection = connection
    this.#transactionalId = transactionalId
  }

  static async open(bootstrap: readonly string[], transactionalId: string): Promise<HandMade> {
    const [broker] = bootstrap
    if (broker === undefined) throw new Error('no broker to ask')
    return new HandMade(await WireConnection.open(broker), transactionalId)
  }

  close(): void {
    this.#connection.close()
  }

  /** InitProducerId v4: a mint, or with `expected` a compare-and-swap. */
  async mint(expected: Pair = noPair, timeoutMs: number = 60_000): Promise<Pair & { readonly errorCode: number }> {
    const body = new WireWriter().compactString(this.#transactionalId).int32(timeoutMs)
    body.int64(expected.producerId).int16(expected.producerEpoch).tags()
    const answer = await this.#connection.request('InitProducerId', 4, body.toBuffer())
    answer.int32()
    return { errorCode: answer.int16(), producerId: answer.int64(), producerEpoch: answer.int16() }
  }

  /** AddPartitionsToTxn v3 of partition 0 of a topic. */
  async addPartition(pair: Pair, topic: string, partition: number = 0): Promise<number> {
    const body = new WireWriter().compactString(this.#transactionalId).int64(pair.producerId).int16(pair.producerEpoch)
    body.compactArray([topic], (writer, name) =>
      writer
        .compactString(name)
        .compactArray([partition], (inner, index) => inner.int32(index))
        .tags(),
    )
    const answer = await this.#connection.request('AddPartitionsToTxn', 3, body.tags().toBuffer())
    answer.int32()
    const [codes] = answer.compactArray((reader) => {
      reader.compactString()
      const ofTopic = reader.compactArray((inner) => {
        inner.int32()
        const code = inner.int16()
        inner.tags()
        return code
      })
      reader.tags()
      return ofTopic
    })
    return codes?.[0] ?? -1
  }

  /** Produce v9 of one batch to a partition; without a pair it is written plainly. */
  async produce(
    pair: Pair,
    topic: string,
    records: readonly HandMadeRecord[],
    options: {
      readonly baseSequence?: number
      readonly partition?: number
      readonly transactional?: boolean
      /** Milliseconds since 1970; default now. */
      readonly timestamp?: bigint
    } = {},
  ): Promise<{ readonly errorCode: number; readonly baseOffset: bigint }> {
    const isPlain = pair.producerId < 0n
    const {
      baseSequence = isPlain ? -1 : 0,
      partition = 0,
      transactional = !isPlain,
      timestamp = BigInt(Date.now()),
    } = options
    const batch = encodeBatch({
      ...pair,
      baseSequence,
      transactional,
      records: records.map(({ key, value, headers = [] }) => ({
        key: bytesOf(key),
        value: bytesOf(value),
        headers,
        timestamp,
      })),
    })
    const body = new WireWriter()
      .compactString(transactional ? this.#transactionalId : null)
      .int16(-1)
      .int32(30_000)
    body.compactArray([topic], (writer, name) =>
      writer
        .compactString(name)
        .compactArray([partition], (inner, index) =>
          inner
            .int32(index)
            .unsignedVarint(batch.length + 1)
            .bytes(batch)
            .tags(),
        )
        .tags(),
    )
    const answer = await this.#connection.request('Produce', 9, body.tags().toBuffer())
    const [answers] = answer.compactArray((reader) => {
      reader.compactString()
      return reader.compactArray((inner) => {
        inner.int32()
        const told = { errorCode: inner.int16(), baseOffset: inner.int64() }
        inner.bytes(16)
        inner.compactArray((recordError) => {
          recordError.int32()
          recordError.compactString()
          recordError.tags()
        })
        inner.compactString()
        inner.tags()
        return told
      })
    })
    return answers?.[0] ?? { errorCode: -1, baseOffset: -1n }
  }

  /** EndTxn. Version 5 and above answers the pair that is valid from then on, as clients of transaction version 2 use it. */
  async endTransaction(
    pair: Pair,
    committed: boolean,
    version: 4 | 5 = 4,
  ): Promise<Pair & { readonly errorCode: number }> {
    const body = new WireWriter().compactString(this.#transactionalId).int64(pair.producerId).int16(pair.producerEpoch)
    const answer = await this.#connection.request('EndTxn', version, body.boolean(committed).tags().toBuffer())
    answer.int32()
    const errorCode = answer.int16()
    return version === 4
      ? { errorCode, ...noPair }
      : { errorCode, producerId: answer.int64(), producerEpoch: answer.int16() }
  }

  /** WriteTxnMarkers v1, as only a coordinator sends it: a marker in partition 0 of the topic, whatever the coordinator knows. */
  async writeMarker(pair: Pair, topic: string, committed: boolean, coordinatorEpoch: number = 0): Promise<number> {
    const body = new WireWriter().compactArray([topic], (writer, name) => {
      writer.int64(pair.producerId).int16(pair.producerEpoch).boolean(committed)
      writer.compactArray([name], (inner) =>
        inner
          .compactString(name)
          .compactArray([0], (index, partition) => index.int32(partition))
          .tags(),
      )
      writer.int32(coordinatorEpoch).tags()
    })
    const answer = await this.#connection.request('WriteTxnMarkers', 1, body.tags().toBuffer())
    const [codes] = answer.compactArray((reader) => {
      reader.int64()
      const ofTopics = reader.compactArray((inner) => {
        inner.compactString()
        const ofPartitions = inner.compactArray((index) => {
          index.int32()
          const code = index.int16()
          index.tags()
          return code
        })
        inner.tags()
        return ofPartitions
      })
      reader.tags()
      return ofTopics.flat()
    })
    return codes?.[0] ?? -1
  }
}

/** What `ask` answers once the coordinator is no longer busy with the last transaction. */
export async function untilIdle<T extends number | { readonly errorCode: number }>(ask: () => Promise<T>): Promise<T> {
  for (;;) {
    const answer = await ask()
    if (!passingCodes.has(typeof answer === 'number' ? answer : answer.errorCode)) return answer
    await delay(1)
  }
}

/** How many strings stand in front of the pair in each request that names one. */
const stringsBeforePair: Readonly<Record<string, number>> = {
  InitProducerId: 1,
  AddPartitionsToTxn: 1,
  AddOffsetsToTxn: 1,
  EndTxn: 1,
  TxnOffsetCommit: 2,
}

/** The pair that a request names, in the versions that the library sends; undefined for an API that names none. */
export function pairIn({ api, body }: { readonly api: string | undefined; readonly body: Buffer }): Pair | undefined {
  const strings = stringsBeforePair[api ?? '']
  if (strings === undefined) return undefined
  const reader = new WireReader(body)
  for (let index = 0; index < strings; index += 1) reader.compactString()
  if (api === 'InitProducerId') reader.int32() // Transaction timeout.
  return { producerId: reader.int64(), producerEpoch: reader.int16() }
}

function bytesOf(value: Uint8Array | string | null): Uint8Array | null {
  return typeof value === 'string' ? Buffer.from(value) : value
}

/**
 * What a caller sends, in kafkajs's record shape, made into records for partitions; and the way back from a partition's offsets to the
 * caller's records.
 *
 * It keeps and changes nothing of what it was given: bytes are copied when the call is made. It must not know of transactions.
 */
import type { ProducedRecord, RecordHeader } from '../cluster/connection.js'
import type { GroupOffsets, PartitionRecords } from '../cluster/transaction.js'
import { recordBytes } from '../cluster/transaction.js'
import { coordinationError } from '../errors.js'
import { type WithJson, withJson } from '../format/json.js'
import { keyPartition } from '../format/partition.js'
import type { Runtime } from '../runtime.js'
import { badValue, unknownName } from './bad-value.js'

/** One message of a record, as kafkajs has it. */
export interface GuardedMessage {
  readonly key?: string | Uint8Array | null
  /** Null is a tombstone on a compacted topic. */
  readonly value: string | Uint8Array | null
  /** Default: by the key as Java's clients do (murmur2), else one partition for all messages of this call. */
  readonly partition?: number
  readonly headers?: { readonly [name: string]: HeaderValue | readonly HeaderValue[] | undefined }
  /** Milliseconds since 1970, as text; default now. */
  readonly timestamp?: string
}

export type HeaderValue = string | Uint8Array | null

/** What `send` takes: kafkajs's shape without `acks`, `timeout` and `compression`, which a transaction decides. */
export interface GuardedRecord {
  readonly topic: string
  readonly messages: readonly GuardedMessage[]
}

/** Where one message landed. Prints as JSON, the offset as text. */
export type RecordPosition = WithJson<{
  readonly topic: string
  readonly partition: number
  readonly offset: bigint
}>

/** Offsets to commit within a transaction, in kafkajs's shape. */
export interface GuardedOffsets {
  readonly consumerGroupId: string
  readonly topics: readonly {
    readonly topic: string
    readonly partitions: readonly {
      readonly partition: number
      readonly offset: string | bigint
      readonly metadata?: string | null
    }[]
  }[]
}

/** A call's messages, checked and copied, before their partitions are known. */
export interface PreparedSend {
  readonly topic: string
  readonly messages: readonly { readonly partition: number | undefined; readonly record: ProducedRecord }[]
  /** About what it takes on the wire. */
  readonly bytes: number
  /** How many partitions the topic must have for the partitions that messages name. */
  readonly partitionsNamed: number
}

/** A call's messages with their partitions. */
export interface PlacedSend {
  readonly topic: string
  readonly messages: readonly { readonly partition: number; readonly record: ProducedRecord }[]
}

/** Many calls' messages by partition, in call order, and where each message of each call went. */
export interface Layout {
  readonly entries: readonly PartitionRecords[]
  /** By call, by message: index into `entries`, and index into that entry's records. */
  readonly places: readonly (readonly { readonly entry: number; readonly index: number }[])[]
}

const encoder = new TextEncoder()
const topicName = /^[a-zA-Z0-9._-]{1,249}$/
const messageFields: ReadonlySet<string> = new Set(['key', 'value', 'partition', 'headers', 'timestamp'])
const recordFields: ReadonlySet<string> = new Set(['topic', 'messages'])
const largestInt64 = 2n ** 63n - 1n

/** @throws `CONFIG` naming the field and its value. */
export function prepareSend(record: GuardedRecord, stamp: readonly RecordHeader[], runtime: Runtime): PreparedSend {
  checkFields('record', record, recordFields)
  const { topic, messages } = record
  if (typeof topic !== 'string' || !topicName.test(topic))
    throw badValue('topic', topic, '1 to 249 of a-z A-Z 0-9 . _ -')
  if (!Array.isArray(messages) || messages.length === 0)
    throw badValue('messages', messages, 'a list of at least one message')
  const now = BigInt(Math.trunc(runtime.wallNow()))
  let bytes = 0
  let partitionsNamed = 0
  const prepared = messages.map((message: GuardedMessage, index) => {
    const where = `messages[${index}]`
    checkFields(where, message, messageFields)
    const { partition } = message
    if (partition !== undefined && !isPartition(partition)) {
      throw badValue(`${where}.partition`, partition, 'a whole number from 0')
    }
    const produced: ProducedRecord = {
      key: bytesOf(`${where}.key`, message.key ?? null),
      value: bytesOf(`${where}.value`, message.value),
      headers: [...headersOf(`${where}.headers`, message.headers), ...stamp],
      timestamp: timestampOf(`${where}.timestamp`, message.timestamp, now),
    }
    bytes += recordBytes(produced)
    partitionsNamed = Math.max(partitionsNamed, (partition ?? -1) + 1)
    return { partition, record: produced }
  })
  return { topic, messages: prepared, bytes, partitionsNamed }
}

/**
 * Chooses a partition for each message. Messages without partition and key all go to `fallback` modulo the count.
 *
 * @throws `REFUSED` (Kafka code 3) for a partition that the topic does not have.
 */
export function placeSend(prepared: PreparedSend, partitionCount: number, fallback: number): PlacedSend {
  return {
    topic: prepared.topic,
    messages: prepared.messages.map(({ partition, record }) => {
      if (partition !== undefined && partition >= partitionCount) {
        throw coordinationError(
          'REFUSED',
          `Topic '${prepared.topic}' has ${partitionCount} partitions, there is no partition ${partition}`,
          { topic: prepared.topic, partition, kafkaCode: 3 },
        )
      }
      const chosen =
        partition ?? (record.key === null ? fallback % partitionCount : keyPartition(record.key, partitionCount))
      return { partition: chosen, record }
    }),
  }
}

/** Lays many calls out by partition, keeping call order within each. */
export function layOut(sends: readonly PlacedSend[]): Layout {
  const indexes = new Map<string, number>()
  const entries: { topic: string; partition: number; records: ProducedRecord[] }[] = []
  const places = sends.map(({ topic, messages }) =>
    messages.map(({ partition, record }) => {
      const name = `${topic}-${partition}`
      let entry = indexes.get(name)
      if (entry === undefined) {
        entry = entries.length
        indexes.set(name, entry)
        entries.push({ topic, partition, records: [] })
      }
      const records = entries[entry]?.records ?? []
      records.push(record)
      return { entry, index: records.length - 1 }
    }),
  )
  return { entries, places }
}

/** The positions of one call's messages, from the offsets by entry and record. */
export function positionsOf(
  layout: Layout,
  call: number,
  offsets: readonly (readonly bigint[])[],
): readonly RecordPosition[] {
  return (layout.places[call] ?? []).map(({ entry, index }) => {
    const target = layout.entries[entry]
    const offset = offsets[entry]?.[index]
    if (target === undefined || offset === undefined) throw new Error(`message ${index} of call ${call} has no offset`)
    return withJson({ topic: target.topic, partition: target.partition, offset })
  })
}

/** @throws `CONFIG` naming the field and its value. */
export function prepareOffsets(offsets: GuardedOffsets): GroupOffsets {
  checkFields('offsets', offsets, new Set(['consumerGroupId', 'topics']))
  const { consumerGroupId, topics } = offsets
  if (typeof consumerGroupId !== 'string' || consumerGroupId === '') {
    throw badValue('consumerGroupId', consumerGroupId, 'the name of a consumer group')
  }
  if (!Array.isArray(topics) || topics.length === 0) throw badValue('topics', topics, 'a list of at least one topic')
  return { consumerGroupId, topics: topics.map(preparedOffsetsOf) }
}

function preparedOffsetsOf(given: GuardedOffsets['topics'][number], index: number): GroupOffsets['topics'][number] {
  checkFields(`topics[${index}]`, given, new Set(['topic', 'partitions']))
  const { topic, partitions } = given
  if (typeof topic !== 'string' || !topicName.test(topic)) throw badValue('topic', topic, 'the name of a topic')
  if (!Array.isArray(partitions) || partitions.length === 0) {
    throw badValue(`partitions of ${topic}`, partitions, 'a list of at least one partition')
  }
  return {
    topic,
    partitions: partitions.map((one: GuardedOffsets['topics'][number]['partitions'][number]) => {
      checkFields(`a partition of ${topic}`, one, new Set(['partition', 'offset', 'metadata']))
      const { partition, offset, metadata } = one
      if (!isPartition(partition)) throw badValue(`partition of ${topic}`, partition, 'a whole number from 0')
      if (metadata !== undefined && metadata !== null && typeof metadata !== 'string') {
        throw badValue(`metadata of ${topic}-${partition}`, metadata, 'text or null')
      }
      return { partition, offset: int64Of(`offset of ${topic}-${partition}`, offset), metadata: metadata ?? null }
    }),
  }
}

function isPartition(value: unknown): value is number {
  return Number.isSafeInteger(value) && Number(value) >= 0 && Number(value) <= 2 ** 31 - 1
}

function headersOf(where: string, headers: GuardedMessage['headers']): readonly RecordHeader[] {
  if (headers === undefined) return []
  if (typeof headers !== 'object' || headers === null || Array.isArray(headers)) {
    throw badValue(where, headers, 'an object of names and values')
  }
  return Object.entries(headers).flatMap(([name, value]): RecordHeader[] => {
    if (value === undefined) return []
    const values: readonly HeaderValue[] = isList(value) ? value : [value]
    return values.map((one) => [name, bytesOf(`${where}.${name}`, one)])
  })
}

function isList(value: HeaderValue | readonly HeaderValue[]): value is readonly HeaderValue[] {
  return Array.isArray(value)
}

function bytesOf(where: string, value: unknown): Uint8Array | null {
  if (value === null) return null
  if (typeof value === 'string') return encoder.encode(value)
  if (value instanceof Uint8Array) return new Uint8Array(value)
  throw badValue(where, value, 'text, bytes or null')
}

function timestampOf(where: string, value: unknown, byDefault: bigint): bigint {
  if (value === undefined) return byDefault
  if (typeof value !== 'string') throw badValue(where, value, 'milliseconds since 1970 as text')
  return int64Of(where, value)
}

function int64Of(where: string, value: unknown): bigint {
  if (typeof value === 'bigint' && value >= 0n && value <= largestInt64) return value
  if (typeof value === 'string' && /^\d{1,19}$/.test(value) && BigInt(value) <= largestInt64) return BigInt(value)
  throw badValue(where, value, 'a whole number from 0 to 2^63-1 as text or bigint')
}

function checkFields(where: string, value: unknown, known: ReadonlySet<string>): void {
  if (typeof value !== 'object' || value === null) throw badValue(where, value, 'an object')
  for (const field of Object.keys(value)) {
    if (!known.has(field)) throw unknownName(field, where, known)
  }
}

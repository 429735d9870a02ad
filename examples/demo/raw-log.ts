/**
 * Reads a whole topic batch by batch over plain sockets and says of every record whether its transaction was committed.
 *
 * It shares no code with the library and none with kafkajs, whose consumers let records of aborted transactions through: the
 * demo's checker and tests judge the library by it, so it must not believe anything but bytes and markers.
 */
import { setTimeout as delay } from 'node:timers/promises'
import { WireConnection, WireReader, WireWriter } from '../../test/support/wire.js'

/**
 * What became of a record: `plain` = written outside a transaction; `open` = its transaction has no marker yet, so committed
 * readers do not see it.
 */
export type Outcome = 'committed' | 'aborted' | 'open' | 'plain'

/** One record as it lies in the log. */
export interface RawRecord {
  readonly topic: string
  readonly partition: number
  readonly offset: bigint
  /** Milliseconds since 1970: its own, or that of its appending where the topic says so. */
  readonly timestamp: bigint
  readonly key: Buffer | null
  readonly value: Buffer | null
  /** In record order, duplicates included. */
  readonly headers: readonly (readonly [name: string, value: Buffer | null])[]
  /** Of the batch; -1 where it was written without one. */
  readonly producerId: bigint
  readonly producerEpoch: number
  readonly transactional: boolean
  readonly outcome: Outcome
}

export interface ReadOptions {
  /**
   * How long to wait for markers of transactions that end about now, in ms; default 2000. EndTxn is answered before the markers are
   * written. What is still open then is read as `open`.
   */
  readonly settleMs?: number
}

/** The text of the last header of that name, or undefined. */
export function headerText(record: RawRecord, name: string): string | undefined {
  return record.headers.findLast(([key]) => key === name)?.[1]?.toString()
}

/**
 * Every record of the topic up to the ends found now, in offset order within each partition and with its outcome: filter
 * by `outcome` for what a committed reader sees.
 *
 * @throws a plain `Error` that names the topic, partition and Kafka's code.
 */
export async function readCommittedLog(
  bootstrap: readonly string[],
  topic: string,
  { settleMs = 2_000 }: ReadOptions = {},
): Promise<readonly RawRecord[]> {
  const leaders = await findLeaders(bootstrap, topic)
  const connections = new Map<string, WireConnection>()
  try {
    const records: RawRecord[] = []
    const settledBy = performance.now() + settleMs
    for (const { partition, address } of leaders) {
      const connection = connections.get(address) ?? (await WireConnection.open(address))
      connections.set(address, connection)
      const end = await endOf(connection, topic, partition, settledBy)
      const entries = await readEntries(connection, topic, partition, end)
      records.push(...settled(entries).filter(({ offset }) => offset < end))
    }
    return records
  } finally {
    for (const connection of connections.values()) connection.close()
  }
}

interface Leader {
  readonly partition: number
  readonly address: string
}

/** Asks the first broker that answers. */
async function findLeaders(bootstrap: readonly string[], topic: string): Promise<readonly Leader[]> {
  const failures: string[] = []
  for (const address of bootstrap) {
    try {
      const connection = await WireConnection.open(address)
      try {
        return await leadersBy(connection, topic)
      } finally {
        connection.close()
      }
    } catch (error) {
      failures.push(`${address}: ${error instanceof Error ? error.message : String(error)}`)
    }
  }
  throw new Error(`No broker told where topic '${topic}' is (${failures.join('; ')})`)
}

async function leadersBy(connection: WireConnection, topic: string): Promise<readonly Leader[]> {
  const createTopic = false
  const body = new WireWriter().array([topic], (writer, name) => writer.string(name)).boolean(createTopic)
  const answer = await connection.request('Metadata', 4, body.toBuffer())
  answer.int32() // Throttle time.
  const brokers = new Map(
    answer.array((reader) => {
      const id = reader.int32()
      const address = `${reader.string()}:${reader.int32()}`
      reader.string() // Rack.
      return [id, address] as const
    }),
  )
  answer.string() // Cluster id.
  answer.int32() // Controller.
  const [found] = answer.array((reader) => {
    const code = reader.int16()
    reader.string()
    reader.boolean()
    const partitions = reader.array((partitionReader) => {
      partitionReader.int16()
      const partition = partitionReader.int32()
      const leader = partitionReader.int32()
      partitionReader.array((replica) => replica.int32())
      partitionReader.array((replica) => replica.int32())
      return { partition, leader }
    })
    return { code, partitions }
  })
  if (found === undefined || found.code !== 0) throw new Error(`Metadata of topic '${topic}': code ${found?.code}`)
  return found.partitions
    .map(({ partition, leader }) => {
      const address = brokers.get(leader)
      if (address === undefined) throw new Error(`Partition ${topic}-${partition} has no leader`)
      return { partition, address }
    })
    .sort((a, b) => a.partition - b.partition)
}

const readUncommitted = 0
const readCommitted = 1
const pollMs = 20

/** The end for all readers, once it is the end for committed readers too or the time is up. */
async function endOf(connection: WireConnection, topic: string, partition: number, settledBy: number): Promise<bigint> {
  for (;;) {
    const end = await listEnd(connection, topic, partition, readUncommitted)
    const stable = await listEnd(connection, topic, partition, readCommitted)
    if (stable >= end || performance.now() >= settledBy) return end
    await delay(pollMs)
  }
}

async function listEnd(
  connection: WireConnection,
  topic: string,
  partition: number,
  isolation: number,
): Promise<bigint> {
  const latest = -1n
  const body = new WireWriter()
    .int32(-1)
    .int8(isolation)
    .array([topic], (writer, name) => {
      writer.string(name).array([partition], (inner, index) => inner.int32(index).int64(latest))
    })
  const answer = await connection.request('ListOffsets', 2, body.toBuffer())
  answer.int32()
  const [found] = answer.array((reader) => {
    reader.string()
    return reader.array((inner) => {
      inner.int32()
      const code = inner.int16()
      inner.int64()
      return { code, offset: inner.int64() }
    })[0]
  })
  if (found === undefined || found.code !== 0) throw new Error(`End of ${topic}-${partition}: code ${found?.code}`)
  return found.offset
}

type Unsettled = Omit<RawRecord, 'outcome'>

/** What a partition's log consists of: records, and the markers that end transactions. */
type Entry =
  | { readonly kind: 'record'; readonly record: Unsettled }
  | { readonly kind: 'marker'; readonly producerId: bigint; readonly outcome: 'committed' | 'aborted' }

async function readEntries(
  connection: WireConnection,
  topic: string,
  partition: number,
  end: bigint,
): Promise<readonly Entry[]> {
  const entries: Entry[] = []
  for (let position = 0n; position < end; ) {
    const fetched = await fetch(connection, topic, partition, position)
    const next = decodeBatches(fetched.records, topic, partition, entries)
    if (fetched.code === 1 && fetched.logStart > position) position = fetched.logStart
    else if (fetched.code !== 0) throw new Error(`Fetch of ${topic}-${partition} at ${position}: code ${fetched.code}`)
    else if (next !== undefined) position = next
  }
  return entries
}

interface Fetched {
  readonly code: number
  readonly logStart: bigint
  readonly records: Buffer
}

async function fetch(connection: WireConnection, topic: string, partition: number, position: bigint): Promise<Fetched> {
  const maxWaitMs = 100
  const minBytes = 1
  const maxBytes = 8 * 1024 * 1024
  const body = new WireWriter()
    .int32(-1)
    .int32(maxWaitMs)
    .int32(minBytes)
    .int32(maxBytes)
    .int8(readUncommitted)
    .array([topic], (writer, name) => {
      writer.string(name).array([partition], (inner, index) => {
        inner.int32(index).int64(position).int64(-1n).int32(maxBytes)
      })
    })
  // Version 5 is the first that tells where the log starts; versions above 6 want sessions.
  const answer = await connection.request('Fetch', 5, body.toBuffer())
  answer.int32()
  const [found] = answer.array((reader) => {
    reader.string()
    return reader.array((inner) => {
      inner.int32()
      const code = inner.int16()
      inner.int64() // High watermark.
      inner.int64() // Last stable offset.
      const logStart = inner.int64()
      inner.array((aborted) => [aborted.int64(), aborted.int64()]) // The markers are believed instead.
      return { code, logStart, records: inner.bytes(Math.max(inner.int32(), 0)) }
    })[0]
  })
  if (found === undefined) throw new Error(`Fetch of ${topic}-${partition} answered nothing`)
  return found
}

const lengthAt = 8
const batchStart = 12
const compressionBits = 0x07
const logAppendTimeBit = 0x08
const transactionalBit = 0x10
const controlBit = 0x20
const abortMarker = 0
const commitMarker = 1

/**
 * Appends what the batches (message format 2) hold to `entries` and answers the offset behind the last whole batch, or
 * undefined where there is none. A batch cut off at the end is left to the next Fetch.
 */
function decodeBatches(bytes: Buffer, topic: string, partition: number, entries: Entry[]): bigint | undefined {
  let next: bigint | undefined
  for (let at = 0; at + batchStart <= bytes.length; ) {
    const end = at + batchStart + bytes.readInt32BE(at + lengthAt)
    if (end > bytes.length) break
    next = decodeBatch(new WireReader(bytes.subarray(at, end)), topic, partition, entries)
    at = end
  }
  return next
}

function decodeBatch(reader: WireReader, topic: string, partition: number, entries: Entry[]): bigint {
  const baseOffset = reader.int64()
  reader.int32() // Length.
  reader.int32() // Partition leader epoch.
  const magic = reader.int8()
  if (magic !== 2) throw new Error(`${topic}-${partition} at ${baseOffset} is in message format ${magic}, not 2`)
  reader.int32() // Checksum.
  const attributes = reader.int16()
  if ((attributes & compressionBits) !== 0) {
    throw new Error(`${topic}-${partition} at ${baseOffset} is compressed, which this reader cannot undo`)
  }
  const lastOffset = baseOffset + BigInt(reader.int32())
  const baseTimestamp = reader.int64()
  const maxTimestamp = reader.int64()
  const producerId = reader.int64()
  const producerEpoch = reader.int16()
  reader.int32() // Base sequence.
  const transactional = (attributes & transactionalBit) !== 0
  for (let left = reader.int32(); left > 0; left -= 1) {
    varint(reader) // Length.
    reader.int8() // Attributes, of which there are none.
    const timestamp = baseTimestamp + varint(reader)
    const offset = baseOffset + varint(reader)
    const key = nullableBytes(reader)
    const value = nullableBytes(reader)
    const headers = Array.from(
      { length: Number(varint(reader)) },
      () => [nullableBytes(reader)?.toString() ?? '', nullableBytes(reader)] as const,
    )
    if ((attributes & controlBit) !== 0) {
      const type = key?.readInt16BE(2)
      if (type === commitMarker) entries.push({ kind: 'marker', producerId, outcome: 'committed' })
      else if (type === abortMarker) entries.push({ kind: 'marker', producerId, outcome: 'aborted' })
      continue
    }
    const appended = (attributes & logAppendTimeBit) !== 0
    entries.push({
      kind: 'record',
      record: {
        topic,
        partition,
        offset,
        timestamp: appended ? maxTimestamp : timestamp,
        key,
        value,
        headers,
        producerId,
        producerEpoch,
        transactional,
      },
    })
  }
  return lastOffset + 1n
}

/** A signed varint of up to 64 bits, in zigzag. */
function varint(reader: WireReader): bigint {
  let value = 0n
  for (let shift = 0n; shift < 70n; shift += 7n) {
    const byte = reader.bytes(1).readUInt8()
    value |= BigInt(byte & 0x7f) << shift
    if (byte < 0x80) return (value >> 1n) ^ -(value & 1n)
  }
  throw new Error('A varint is longer than ten bytes')
}

function nullableBytes(reader: WireReader): Buffer | null {
  const length = Number(varint(reader))
  // A copy, so that a record that is kept does not keep a whole response.
  return length < 0 ? null : Buffer.from(reader.bytes(length))
}

/**
 * Kafka's own rule: a producer id has one transaction at a time in a partition, and the next marker of that id, of whatever
 * epoch, ends it.
 */
function settled(entries: readonly Entry[]): readonly RawRecord[] {
  const outcomes: Outcome[] = []
  const open = new Map<bigint, number[]>()
  const records: Unsettled[] = []
  for (const entry of entries) {
    if (entry.kind === 'marker') {
      for (const index of open.get(entry.producerId) ?? []) outcomes[index] = entry.outcome
      open.delete(entry.producerId)
      continue
    }
    const { record } = entry
    const index = records.push(record) - 1
    outcomes.push(record.transactional ? 'open' : 'plain')
    if (!record.transactional) continue
    const ofProducer = open.get(record.producerId)
    if (ofProducer === undefined) open.set(record.producerId, [index])
    else ofProducer.push(index)
  }
  return records.map((record, index) => ({ ...record, outcome: outcomes[index] ?? 'open' }))
}

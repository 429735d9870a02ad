/**
 * Record batches, magic 2 (KIP-98): a `ProducedBatch` to bytes, and a Fetch's bytes to `FetchedBatch`es.
 *
 * It interprets no record and drops none: empty batches, control batches and records below the offset asked for are handed
 * up. Encoding depends on the batch alone, so that a batch sent again is the same bytes (I9). A batch whose checksum is wrong
 * throws, since nothing in it can be believed (I12); one that is whole but cannot be read is `undecodable`.
 *
 * Memory: each batch is copied out of the response in one piece, and keys and values are views of that copy.
 * So a value that is kept holds its own batch in memory, or a slab of Node's buffer pool, but never a response of megabytes.
 */
import { gunzipSync } from 'node:zlib'
import type { FetchedBatch, FetchedRecord, ProducedBatch, ProducedRecord, RecordHeader } from '../cluster/connection.js'
import { crc32c } from './crc32c.js'
import { MalformedError, Reader } from './protocol/reader.js'
import { Writer } from './protocol/writer.js'

const headerLength = 61
const offsetAndLength = 12
const magicAt = 16
const crcAt = 17
const checkedFrom = 21
const currentMagic = 2

const compressionMask = 0x07
const gzip = 1
const codecNames = ['none', 'gzip', 'snappy', 'lz4', 'zstd']
const logAppendTimeBit = 0x08
const transactionalBit = 0x10
const controlBit = 0x20

const longestDecompressed = 128 * 1024 * 1024

/** The bytes of a batch, with checksum. It must have at least one record. */
export function encodeBatch(batch: ProducedBatch): Buffer {
  const [first] = batch.records
  if (first === undefined) throw new Error('a record batch without records cannot be produced')
  const baseTimestamp = first.timestamp
  let maxTimestamp = baseTimestamp
  for (const { timestamp } of batch.records) if (timestamp > maxTimestamp) maxTimestamp = timestamp

  const writer = new Writer(512)
  const baseOffset = 0n // The broker assigns offsets.
  writer.int64(baseOffset).int32(0).int32(-1).int8(currentMagic).int32(0)
  writer.int16(batch.transactional ? transactionalBit : 0).int32(batch.records.length - 1)
  writer.int64(baseTimestamp).int64(maxTimestamp)
  writer.int64(batch.producerId).int16(batch.producerEpoch).int32(batch.baseSequence)
  writer.int32(batch.records.length)
  batch.records.forEach((record, index) => {
    writeRecord(writer, record, index, record.timestamp - baseTimestamp)
  })
  writer.int32At(8, writer.length - offsetAndLength)
  const bytes = writer.bytes()
  bytes.writeUInt32BE(crc32c(bytes.subarray(checkedFrom)), crcAt)
  return bytes
}

function writeRecord(writer: Writer, record: ProducedRecord, offsetDelta: number, timestampDelta: bigint): void {
  const body = new Writer(64 + (record.key?.length ?? 0) + (record.value?.length ?? 0))
  body.int8(0).varlong(timestampDelta).varint(offsetDelta)
  writeBytes(body, record.key)
  writeBytes(body, record.value)
  body.varint(record.headers.length)
  for (const [key, value] of record.headers) {
    writeBytes(body, Buffer.from(key, 'utf8'))
    writeBytes(body, value)
  }
  writer.varint(body.length).raw(body.bytes())
}

function writeBytes(writer: Writer, bytes: Uint8Array | null): void {
  if (bytes === null) writer.varint(-1)
  else writer.varint(bytes.length).raw(bytes)
}

/**
 * The batches in a Fetch's record bytes. The last one may be cut off by the size limits of the request: it is left out, and
 * is where the next Fetch begins. Throws `MalformedError` on a wrong checksum or length.
 */
export function decodeBatches(bytes: Buffer): FetchedBatch[] {
  const batches: FetchedBatch[] = []
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length)
  let at = 0
  while (bytes.length - at > magicAt) {
    const length = view.getInt32(at + 8)
    if (length <= magicAt - offsetAndLength) throw new MalformedError(`a record batch claims a length of ${length}`)
    const end = at + offsetAndLength + length
    if (end > bytes.length) break
    batches.push(decodeBatch(bytes, view, at, end))
    at = end
  }
  return batches
}

function decodeBatch(bytes: Buffer, view: DataView, at: number, end: number): FetchedBatch {
  const baseOffset = view.getBigInt64(at)
  const magic = view.getInt8(at + magicAt)
  if (magic !== currentMagic) return oldBatch(baseOffset, magic)
  if (end - at < headerLength) throw new MalformedError(`the record batch at offset ${baseOffset} is too short`)
  const own = Buffer.allocUnsafe(end - at - checkedFrom)
  bytes.copy(own, 0, at + checkedFrom, end)
  if (view.getUint32(at + crcAt) !== crc32c(own)) {
    throw new MalformedError(`the record batch at offset ${baseOffset} has a wrong checksum`)
  }
  const attributes = view.getInt16(at + 21)
  const isControl = (attributes & controlBit) !== 0
  const { records, reason } = decodeRecords(own, view.getInt32(at + 57), attributes & compressionMask, baseOffset)
  // One literal without a spread, which is several times slower than all the rest of a small batch together.
  const batch = {
    baseOffset,
    lastOffset: baseOffset + BigInt(view.getInt32(at + 23)),
    partitionLeaderEpoch: view.getInt32(at + 12),
    producerId: view.getBigInt64(at + 43),
    producerEpoch: view.getInt16(at + 51),
    transactional: (attributes & transactionalBit) !== 0,
    logAppendTime: (attributes & logAppendTimeBit) !== 0,
    maxTimestamp: view.getBigInt64(at + 35),
    control: isControl ? controlOf(records) : undefined,
    records: isControl ? [] : records,
  }
  return reason === undefined || isControl ? batch : { ...batch, undecodable: reason }
}

/** A message of the formats before magic 2: its offset is known, and nothing else is read. */
function oldBatch(baseOffset: bigint, magic: number): FetchedBatch {
  return {
    baseOffset,
    lastOffset: baseOffset,
    partitionLeaderEpoch: -1,
    producerId: -1n,
    producerEpoch: -1,
    transactional: false,
    logAppendTime: false,
    maxTimestamp: -1n,
    control: undefined,
    records: [],
    undecodable: `written in message format ${magic}; only format 2 is read`,
  }
}

interface DecodedRecords {
  readonly records: FetchedRecord[]
  readonly reason?: string
}

/** Reads `count` records from `checked`, the bytes of a batch that its checksum covers. */
function decodeRecords(checked: Buffer, count: number, compression: number, baseOffset: bigint): DecodedRecords {
  if (count === 0) return { records: [] }
  if (compression > gzip) {
    const name = codecNames[compression] ?? `codec ${compression}`
    return { records: [], reason: `compressed with ${name}; only gzip and uncompressed batches are read` }
  }
  try {
    const recordsAt = headerLength - checkedFrom
    const reader =
      compression === gzip
        ? new Reader(gunzipSync(checked.subarray(recordsAt), { maxOutputLength: longestDecompressed }))
        : new Reader(checked, recordsAt)
    const records: FetchedRecord[] = []
    for (let index = 0; index < count; index += 1) records.push(readRecord(reader, baseOffset))
    reader.expectEnd()
    return { records }
  } catch (error) {
    return { records: [], reason: `records that cannot be read: ${error instanceof Error ? error.message : error}` }
  }
}

function readRecord(reader: Reader, baseOffset: bigint): FetchedRecord {
  const length = reader.varint()
  const end = reader.offset + length
  reader.skip(1) // Attributes: none are defined.
  reader.skipVarlong()
  const offset = baseOffset + BigInt(reader.varint())
  const key = readBytes(reader)
  const value = readBytes(reader)
  const headers: RecordHeader[] = []
  const headerCount = reader.varint()
  for (let index = 0; index < headerCount; index += 1) {
    headers.push([reader.utf8(reader.varint()), readBytes(reader)])
  }
  if (reader.offset !== end)
    throw new MalformedError(`the record at offset ${offset} has another length than it claims`)
  return { offset, key, value, headers }
}

function readBytes(reader: Reader): Uint8Array | null {
  const length = reader.varint()
  return length === -1 ? null : reader.view(length)
}

/** What the first record of a control batch says: its key is a version and a type, 0 = abort, 1 = commit. */
function controlOf(records: readonly FetchedRecord[]): 'commit' | 'abort' | 'other' {
  const key = records[0]?.key
  if (key === undefined || key === null || key.length < 4) return 'other'
  const type = new DataView(key.buffer, key.byteOffset, key.length).getInt16(2)
  if (type === 0) return 'abort'
  return type === 1 ? 'commit' : 'other'
}

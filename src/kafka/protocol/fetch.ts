/**
 * Fetch 12, sessionless and at isolation 0: who needs only committed records resolves the markers itself, because one role's
 * open transaction would else hide every other role of its partition. The last version that names topics by name.
 */
import type { FetchedBatch } from '../../cluster/connection.js'
import { decodeBatches } from '../record-batch.js'
import type { Codec } from './codec.js'
import { MalformedError, type Reader } from './reader.js'

const noReplica = -1
const readUncommitted = 0
const noSession = 0
const sessionlessEpoch = -1
const noLogStartOffset = -1n
const divergingEpochTag = 0

interface PartitionData {
  partition: number
  errorCode: number
  highWatermark: bigint
  logStartOffset: bigint
  divergingEpoch?: { epoch: number; endOffset: bigint }
  batches: FetchedBatch[]
}

export const fetch: Codec<'Fetch'> = {
  name: 'Fetch',
  apiKey: 1,
  version: 12,
  responseHeaderVersion: 1,
  encodeRequest: (writer, request) => {
    writer.int32(noReplica).int32(request.maxWaitMs).int32(request.minBytes).int32(request.maxBytes)
    writer.int8(readUncommitted).int32(noSession).int32(sessionlessEpoch)
    writer.compactArray([request.topic], (_, topic) => {
      writer.compactString(topic).compactArray(request.partitions, (__, partition) => {
        writer.int32(partition.partition).int32(partition.currentLeaderEpoch).int64(partition.offset)
        writer.int32(partition.lastFetchedEpoch).int64(noLogStartOffset).int32(request.partitionMaxBytes)
        writer.noTaggedFields()
      })
      writer.noTaggedFields()
    })
    writer.compactArray([], () => {}) // Topics to forget, which only a session has.
    writer.compactString('').noTaggedFields()
  },
  decodeResponse: (reader) => {
    const throttleMs = reader.int32()
    const errorCode = reader.int16()
    reader.int32()
    const topics = reader.compactArray((topicReader) => {
      topicReader.compactString()
      const partitions = topicReader.compactArray(readPartition)
      topicReader.taggedFields()
      return partitions
    })
    reader.taggedFields()
    if (topics.length > 1) throw new MalformedError(`one topic was asked for, ${topics.length} were answered`)
    return { throttleMs, response: { errorCode, partitions: topics[0] ?? [] } }
  },
}

function readPartition(reader: Reader): PartitionData {
  const partition = reader.int32()
  const errorCode = reader.int16()
  const highWatermark = reader.int64()
  reader.int64() // Last stable offset.
  const logStartOffset = reader.int64()
  reader.compactArray((aborted) => {
    const producerIdAndFirstOffset = 16
    aborted.skip(producerIdAndFirstOffset)
    aborted.taggedFields()
  })
  reader.int32() // Preferred read replica: never set, as no rack is sent.
  const records = reader.compactNullableBytes()
  const batches = records === null ? [] : decodeBatches(records)
  const data: PartitionData = { partition, errorCode, highWatermark, logStartOffset, batches }
  reader.taggedFields((tag, field) => {
    if (tag === divergingEpochTag) data.divergingEpoch = { epoch: field.int32(), endOffset: field.int64() }
  })
  return data
}

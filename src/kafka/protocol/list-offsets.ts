/** ListOffsets 7 at isolation 0: the first offset of a partition, or its high watermark. */
import type { Codec } from './codec.js'
import { MalformedError } from './reader.js'

const noReplica = -1
const readUncommitted = 0
const timestampOf = { latest: -1n, earliest: -2n } as const

export const listOffsets: Codec<'ListOffsets'> = {
  name: 'ListOffsets',
  apiKey: 2,
  version: 7,
  responseHeaderVersion: 1,
  encodeRequest: (writer, request) => {
    writer.int32(noReplica).int8(readUncommitted)
    writer.compactArray([request.topic], (_, topic) => {
      writer.compactString(topic).compactArray(request.partitions, (__, { partition, currentLeaderEpoch, at }) => {
        writer.int32(partition).int32(currentLeaderEpoch).int64(timestampOf[at]).noTaggedFields()
      })
      writer.noTaggedFields()
    })
    writer.noTaggedFields()
  },
  decodeResponse: (reader) => {
    const throttleMs = reader.int32()
    const topics = reader.compactArray((topicReader) => {
      topicReader.compactString()
      const partitions = topicReader.compactArray((answer) => {
        const partition = answer.int32()
        const errorCode = answer.int16()
        answer.int64() // Timestamp.
        const offset = answer.int64()
        const leaderEpoch = answer.int32()
        answer.taggedFields()
        return { partition, errorCode, offset, leaderEpoch }
      })
      topicReader.taggedFields()
      return partitions
    })
    reader.taggedFields()
    if (topics.length > 1) throw new MalformedError(`one topic was asked for, ${topics.length} were answered`)
    return { throttleMs, response: { partitions: topics[0] ?? [] } }
  },
}

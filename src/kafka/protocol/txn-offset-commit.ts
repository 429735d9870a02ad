/** TxnOffsetCommit 3: commits a group's offsets in a transaction (I4). No generation and no member: the token fences. */
import type { Codec } from './codec.js'
import { readTopicErrors } from './topic-errors.js'

const noGeneration = -1
const noMember = ''
const noLeaderEpoch = -1

export const txnOffsetCommit: Codec<'TxnOffsetCommit'> = {
  name: 'TxnOffsetCommit',
  apiKey: 28,
  version: 3,
  responseHeaderVersion: 1,
  encodeRequest: (writer, request) => {
    writer.compactString(request.transactionalId).compactString(request.groupId)
    writer.int64(request.producerId).int16(request.producerEpoch)
    writer.int32(noGeneration).compactString(noMember).compactNullableString(null)
    writer.compactArray(request.topics, (_, { topic, partitions }) => {
      writer.compactString(topic).compactArray(partitions, (__, { partition, offset, metadata }) => {
        writer.int32(partition).int64(offset).int32(noLeaderEpoch).compactNullableString(metadata).noTaggedFields()
      })
      writer.noTaggedFields()
    })
    writer.noTaggedFields()
  },
  decodeResponse: (reader) => {
    const throttleMs = reader.int32()
    const topics = readTopicErrors(reader)
    reader.taggedFields()
    return { throttleMs, response: { topics } }
  },
}

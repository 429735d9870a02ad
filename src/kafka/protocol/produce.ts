/**
 * Produce 9, always acks = all. Versions from 12 on begin a transaction by themselves, also when they arrive late, and are
 * not used (I4, I11).
 */
import { encodeBatch } from '../record-batch.js'
import type { Codec } from './codec.js'

const acksOfAllInSync = -1

export const produce: Codec<'Produce'> = {
  name: 'Produce',
  apiKey: 0,
  version: 9,
  responseHeaderVersion: 1,
  encodeRequest: (writer, request) => {
    writer.compactNullableString(request.transactionalId).int16(acksOfAllInSync).int32(request.timeoutMs)
    writer.compactArray(request.topics, (_, { topic, partitions }) => {
      writer.compactString(topic).compactArray(partitions, (__, { partition, batch }) => {
        const bytes = encodeBatch(batch)
        writer.int32(partition)
        writer.unsignedVarint(bytes.length + 1)
        writer.raw(bytes).noTaggedFields()
      })
      writer.noTaggedFields()
    })
    writer.noTaggedFields()
  },
  decodeResponse: (reader) => {
    const topics = reader.compactArray((topicReader) => {
      const topic = topicReader.compactString()
      const partitions = topicReader.compactArray((answer) => {
        const partition = answer.int32()
        const errorCode = answer.int16()
        const baseOffset = answer.int64()
        const logAppendTimeAndLogStartOffset = 16
        answer.skip(logAppendTimeAndLogStartOffset)
        const recordErrors = answer.compactArray((recordError) => {
          const error = { batchIndex: recordError.int32(), message: recordError.compactNullableString() }
          recordError.taggedFields()
          return error
        })
        const errorMessage = answer.compactNullableString()
        answer.taggedFields()
        return { partition, errorCode, baseOffset, errorMessage, recordErrors }
      })
      topicReader.taggedFields()
      return { topic, partitions }
    })
    const throttleMs = reader.int32()
    reader.taggedFields()
    return { throttleMs, response: { topics } }
  },
}

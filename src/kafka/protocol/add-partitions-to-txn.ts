/** AddPartitionsToTxn 3: enlists partitions before anything is produced to them (I11). The last version for clients (I4). */
import type { Codec } from './codec.js'
import { readTopicErrors, writeTopicPartitions } from './topic-errors.js'

export const addPartitionsToTxn: Codec<'AddPartitionsToTxn'> = {
  name: 'AddPartitionsToTxn',
  apiKey: 24,
  version: 3,
  responseHeaderVersion: 1,
  encodeRequest: (writer, request) => {
    writer.compactString(request.transactionalId).int64(request.producerId).int16(request.producerEpoch)
    writeTopicPartitions(writer, request.topics)
    writer.noTaggedFields()
  },
  decodeResponse: (reader) => {
    const throttleMs = reader.int32()
    const topics = readTopicErrors(reader)
    reader.taggedFields()
    return { throttleMs, response: { topics } }
  },
}

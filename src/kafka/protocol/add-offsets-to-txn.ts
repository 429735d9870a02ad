/** AddOffsetsToTxn 3: enlists a consumer group before its offsets are committed (I4, I11). */
import type { Codec } from './codec.js'

export const addOffsetsToTxn: Codec<'AddOffsetsToTxn'> = {
  name: 'AddOffsetsToTxn',
  apiKey: 25,
  version: 3,
  responseHeaderVersion: 1,
  encodeRequest: (writer, request) => {
    writer.compactString(request.transactionalId).int64(request.producerId).int16(request.producerEpoch)
    writer.compactString(request.groupId).noTaggedFields()
  },
  decodeResponse: (reader) => {
    const throttleMs = reader.int32()
    const response = { errorCode: reader.int16() }
    reader.taggedFields()
    return { throttleMs, response }
  },
}

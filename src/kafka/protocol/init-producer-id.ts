/** InitProducerId 4: a mint, or with an expected pair a compare-and-swap (KIP-360). Says 90 rather than 47 to a fenced pair. */
import type { Codec } from './codec.js'

export const initProducerId: Codec<'InitProducerId'> = {
  name: 'InitProducerId',
  apiKey: 22,
  version: 4,
  responseHeaderVersion: 1,
  encodeRequest: (writer, request) => {
    writer.compactString(request.transactionalId).int32(request.transactionTimeoutMs)
    writer.int64(request.producerId).int16(request.producerEpoch).noTaggedFields()
  },
  decodeResponse: (reader) => {
    const throttleMs = reader.int32()
    const response = { errorCode: reader.int16(), producerId: reader.int64(), producerEpoch: reader.int16() }
    reader.taggedFields()
    return { throttleMs, response }
  },
}

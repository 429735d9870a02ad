/** EndTxn 4: commits or aborts. The last version that leaves the producer epoch alone (I4, KIP-890). */
import type { Codec } from './codec.js'

export const endTxn: Codec<'EndTxn'> = {
  name: 'EndTxn',
  apiKey: 26,
  version: 4,
  responseHeaderVersion: 1,
  encodeRequest: (writer, request) => {
    writer.compactString(request.transactionalId).int64(request.producerId).int16(request.producerEpoch)
    writer.boolean(request.committed).noTaggedFields()
  },
  decodeResponse: (reader) => {
    const throttleMs = reader.int32()
    const response = { errorCode: reader.int16() }
    reader.taggedFields()
    return { throttleMs, response }
  },
}

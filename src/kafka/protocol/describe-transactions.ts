/** DescribeTransactions 0: a look at transactional ids, at their coordinator (KIP-664). */
import type { Codec } from './codec.js'

export const describeTransactions: Codec<'DescribeTransactions'> = {
  name: 'DescribeTransactions',
  apiKey: 65,
  version: 0,
  responseHeaderVersion: 1,
  encodeRequest: (writer, request) => {
    writer.compactArray(request.transactionalIds, (_, id) => writer.compactString(id)).noTaggedFields()
  },
  decodeResponse: (reader) => {
    const throttleMs = reader.int32()
    const transactions = reader.compactArray((transaction) => {
      const description = {
        errorCode: transaction.int16(),
        transactionalId: transaction.compactString(),
        state: transaction.compactString(),
        timeoutMs: transaction.int32(),
        startTimeMs: transaction.int64(),
        producerId: transaction.int64(),
        producerEpoch: transaction.int16(),
        topics: transaction.compactArray((topicReader) => {
          const topic = topicReader.compactString()
          const partitions = topicReader.compactArray((partition) => partition.int32())
          topicReader.taggedFields()
          return { topic, partitions }
        }),
      }
      transaction.taggedFields()
      return description
    })
    reader.taggedFields()
    return { throttleMs, response: { transactions } }
  },
}

/** DescribeProducers 0: the producers that a leader knows of its partitions of one topic (KIP-664). */
import type { Codec } from './codec.js'
import { MalformedError } from './reader.js'

export const describeProducers: Codec<'DescribeProducers'> = {
  name: 'DescribeProducers',
  apiKey: 61,
  version: 0,
  responseHeaderVersion: 1,
  encodeRequest: (writer, { topic, partitions }) => {
    writer.compactArray([topic], (_, name) => {
      writer.compactString(name).compactArray(partitions, (__, partition) => writer.int32(partition))
      writer.noTaggedFields()
    })
    writer.noTaggedFields()
  },
  decodeResponse: (reader) => {
    const throttleMs = reader.int32()
    const topics = reader.compactArray((topicReader) => {
      topicReader.compactString()
      const partitions = topicReader.compactArray((partitionReader) => {
        const partition = partitionReader.int32()
        const errorCode = partitionReader.int16()
        partitionReader.compactNullableString() // Message.
        const producers = partitionReader.compactArray((producer) => {
          const producerId = producer.int64()
          const producerEpoch = producer.int32()
          producer.int32() // Last sequence.
          const lastTimestamp = producer.int64()
          producer.int32() // Coordinator epoch.
          const transactionStart = producer.int64()
          producer.taggedFields()
          return { producerId, producerEpoch, lastTimestamp, transactionStart }
        })
        partitionReader.taggedFields()
        return { partition, errorCode, producers }
      })
      topicReader.taggedFields()
      return partitions
    })
    reader.taggedFields()
    if (topics.length > 1) throw new MalformedError(`one topic was asked for, ${topics.length} were answered`)
    return { throttleMs, response: { partitions: topics[0] ?? [] } }
  },
}

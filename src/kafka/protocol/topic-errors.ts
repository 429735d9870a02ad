/** The lists of topics, partitions and error codes that several APIs share. */
import type { TopicErrors, TopicPartitions } from '../../cluster/connection.js'
import type { Reader } from './reader.js'
import type { Writer } from './writer.js'

export function writeTopicPartitions(writer: Writer, topics: readonly TopicPartitions[]): void {
  writer.compactArray(topics, (_, { topic, partitions }) => {
    writer.compactString(topic).compactArray(partitions, (__, partition) => writer.int32(partition))
    writer.noTaggedFields()
  })
}

export function readTopicErrors(reader: Reader): TopicErrors[] {
  return reader.compactArray((topicReader) => {
    const topic = topicReader.compactString()
    const partitions = topicReader.compactArray((partitionReader) => {
      const partition = { partition: partitionReader.int32(), errorCode: partitionReader.int16() }
      partitionReader.taggedFields()
      return partition
    })
    topicReader.taggedFields()
    return { topic, partitions }
  })
}

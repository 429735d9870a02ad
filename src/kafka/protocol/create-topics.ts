/** CreateTopics 5: one topic with its configuration. */
import type { Codec } from './codec.js'
import { MalformedError } from './reader.js'

export const createTopics: Codec<'CreateTopics'> = {
  name: 'CreateTopics',
  apiKey: 19,
  version: 5,
  responseHeaderVersion: 1,
  encodeRequest: (writer, request) => {
    writer.compactArray([request.topic], (_, topic) => {
      writer.compactString(topic).int32(request.partitions).int16(request.replicationFactor)
      writer.compactArray([], () => {}) // Assignments: the cluster chooses them.
      writer.compactArray([...request.configs], (__, [name, value]) => {
        writer.compactString(name).compactNullableString(value).noTaggedFields()
      })
      writer.noTaggedFields()
    })
    const validateOnly = false
    writer.int32(request.timeoutMs).boolean(validateOnly).noTaggedFields()
  },
  decodeResponse: (reader) => {
    const throttleMs = reader.int32()
    const topics = reader.compactArray((topic) => {
      topic.compactString()
      const errorCode = topic.int16()
      const errorMessage = topic.compactNullableString()
      const partitionCountAndReplicationFactor = 6
      topic.skip(partitionCountAndReplicationFactor)
      topic.compactArray((config) => {
        config.compactString()
        config.compactNullableString()
        const readOnlySourceAndSensitive = 3
        config.skip(readOnlySourceAndSensitive)
        config.taggedFields()
      })
      topic.taggedFields()
      return { errorCode, errorMessage }
    })
    reader.taggedFields()
    const [response] = topics
    if (response === undefined || topics.length !== 1) {
      throw new MalformedError(`one topic was to be created, ${topics.length} were answered`)
    }
    return { throttleMs, response }
  },
}

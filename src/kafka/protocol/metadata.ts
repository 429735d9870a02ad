/** Metadata 12: brokers, and the ids and partition leaders of named topics. Never creates a topic. */
import type { Codec } from './codec.js'
import type { Reader } from './reader.js'

const uuidLength = 16
/** Asked by name; and what is answered where there is no topic of that name. */
const noTopicId: Uint8Array = new Uint8Array(uuidLength)
const noTopicIdText = Buffer.from(noTopicId).toString('hex')
/** What is answered where the operations were not asked for. */
const notAsked = -(2 ** 31)

export const metadata: Codec<'Metadata'> = {
  name: 'Metadata',
  apiKey: 3,
  version: 12,
  responseHeaderVersion: 1,
  encodeRequest: (writer, request) => {
    writer.compactArray(request.topics, (_, topic) => writer.raw(noTopicId).compactString(topic).noTaggedFields())
    const allowAutoTopicCreation = false
    writer
      .boolean(allowAutoTopicCreation)
      .boolean(request.withAuthorizedOperations ?? false)
      .noTaggedFields()
  },
  decodeResponse: (reader) => {
    const throttleMs = reader.int32()
    const brokers = reader.compactArray((broker) => {
      const node = { id: broker.int32(), host: broker.compactString(), port: broker.int32() }
      broker.compactNullableString()
      broker.taggedFields()
      return node
    })
    const clusterId = reader.compactNullableString()
    const controllerId = reader.int32()
    const topics = reader.compactArray((topic) => {
      const errorCode = topic.int16()
      const name = topic.compactNullableString() ?? ''
      const id = topic.view(uuidLength).toString('hex')
      topic.boolean()
      const partitions = topic.compactArray(readPartition)
      const authorizedOperations = topic.int32()
      topic.taggedFields()
      return {
        errorCode,
        topic: name,
        partitions,
        ...(id === noTopicIdText ? {} : { topicId: id }),
        ...(authorizedOperations === notAsked ? {} : { authorizedOperations }),
      }
    })
    reader.taggedFields()
    return { throttleMs, response: { brokers, clusterId, controllerId, topics } }
  },
}

function readPartition(reader: Reader): {
  errorCode: number
  partition: number
  leaderId: number
  leaderEpoch: number
  replicas: number[]
  inSyncReplicas: number[]
} {
  const partition = {
    errorCode: reader.int16(),
    partition: reader.int32(),
    leaderId: reader.int32(),
    leaderEpoch: reader.int32(),
    replicas: reader.compactArray((replica) => replica.int32()),
    inSyncReplicas: reader.compactArray((replica) => replica.int32()),
  }
  reader.compactArray((offlineReplica) => offlineReplica.int32())
  reader.taggedFields()
  return partition
}

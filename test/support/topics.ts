/**
 * Makes topics and waits until every broker has heard of them: kafkajs's own wait gives up on a broker that has not.
 *
 * It must not be used where a test is about the making of a topic.
 */
import { setTimeout as delay } from 'node:timers/promises'
import { type ITopicConfig, Kafka, logLevel } from 'kafkajs'
import { WireConnection, WireWriter } from './wire.js'

/** Makes the topics, and resolves when each broker names a leader for each of their partitions. */
export async function makeTopics(bootstrap: readonly string[], topics: readonly ITopicConfig[]): Promise<void> {
  const admin = new Kafka({ brokers: [...bootstrap], logLevel: logLevel.NOTHING }).admin()
  await admin.connect()
  try {
    await admin.createTopics({ topics: [...topics], waitForLeaders: false })
  } finally {
    await admin.disconnect()
  }
  for (const broker of bootstrap) for (const { topic } of topics) await untilKnown(broker, topic)
}

/** Resolves when the broker names a leader for each partition of the topic. */
async function untilKnown(broker: string, topic: string): Promise<void> {
  const connection = await WireConnection.open(broker)
  try {
    const mayCreate = false
    const body = new WireWriter().array([topic], (writer, name) => writer.string(name)).boolean(mayCreate)
    for (;;) {
      const answer = await connection.request('Metadata', 4, body.toBuffer())
      answer.int32()
      answer.array((reader) => {
        reader.int32()
        reader.string()
        reader.int32()
        reader.string()
      })
      answer.string()
      answer.int32()
      const codes = answer.array((reader) => {
        const ofTopic = reader.int16()
        reader.string()
        reader.boolean()
        return [
          ofTopic,
          ...reader.array((partition) => {
            const ofPartition = partition.int16()
            partition.int32()
            partition.int32()
            partition.array((replica) => replica.int32())
            partition.array((replica) => replica.int32())
            return ofPartition
          }),
        ]
      })
      if (codes.flat().every((code) => code === 0)) return
      await delay(5)
    }
  } finally {
    connection.close()
  }
}

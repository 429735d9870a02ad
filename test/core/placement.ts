/**
 * Which broker leads a partition or coordinates a role, asked with raw requests, and how leaders are moved by hand.
 *
 * Suites that harm one broker choose their roles by it. It shares nothing with src.
 */
import { setTimeout as delay } from 'node:timers/promises'
import { Kafka, logLevel } from 'kafkajs'
import { internalPartitions } from '../kafka/ready.js'
import { WireConnection, WireWriter } from '../support/wire.js'

/** The topic whose partition leaders are the transaction coordinators. */
export const transactionState = '__transaction_state'

/** Leaders of a topic's partitions by broker id, in partition order; -1 for one without a leader. Asks the first broker that answers. */
export async function leadersOf(bootstrap: readonly string[], topic: string): Promise<readonly number[]> {
  for (const address of bootstrap) {
    const leaders = await withinMs(1_000, askLeaders(address, topic)).catch(() => undefined)
    if (leaders !== undefined) return leaders
  }
  throw new Error(`no broker told who leads '${topic}'`)
}

/** The partition of `__transaction_state` that a transactional id lies on. */
export function coordinatorPartition(transactionalId: string): number {
  let hash = 0
  for (let at = 0; at < transactionalId.length; at++) hash = (hash * 31 + transactionalId.charCodeAt(at)) | 0
  // Kafka's Utils.abs; clearing the sign bit gives another partition for every odd negative hash.
  return (hash === -(2 ** 31) ? 0 : Math.abs(hash)) % internalPartitions
}

/** Makes each partition's first replica its leader, where it is in sync. */
export async function electPreferred(address: string, topic: string, partitions: readonly number[]): Promise<void> {
  const preferred = 0
  const connection = await WireConnection.open(address)
  try {
    const body = new WireWriter()
      .int8(preferred)
      .array([topic], (writer, name) => {
        writer.string(name).array(partitions, (inner, partition) => inner.int32(partition))
      })
      .int32(10_000)
    const answer = await connection.request('ElectLeaders', 1, body.toBuffer())
    answer.int32()
    const errorCode = answer.int16()
    if (errorCode !== 0) throw new Error(`ElectLeaders of '${topic}' answered ${errorCode}`)
  } finally {
    connection.close()
  }
}

/** Gives each partition of the topic the replicas `replicas(partition)`, the first of them the one to lead. */
export async function reorderReplicas(
  bootstrap: readonly string[],
  topic: string,
  count: number,
  replicas: (partition: number) => number[],
): Promise<void> {
  const admin = new Kafka({ brokers: [...bootstrap], logLevel: logLevel.NOTHING }).admin()
  await admin.connect()
  try {
    const partitionAssignment = Array.from({ length: count }, (_, partition) => ({
      partition,
      replicas: replicas(partition),
    }))
    await admin.alterPartitionReassignments({ topics: [{ topic, partitionAssignment }] })
  } finally {
    await admin.disconnect()
  }
}

/** Makes a topic whose partitions have the given replicas, first the one to lead; resolves when every broker knows of it. */
export async function placedTopic(
  bootstrap: readonly string[],
  topic: string,
  replicas: readonly (readonly number[])[],
  configuration: Readonly<Record<string, string>> = {},
): Promise<void> {
  const admin = new Kafka({ brokers: [...bootstrap], logLevel: logLevel.NOTHING }).admin()
  await admin.connect()
  try {
    await admin.createTopics({
      waitForLeaders: false,
      topics: [
        {
          topic,
          replicaAssignment: replicas.map((ids, partition) => ({ partition, replicas: [...ids] })),
          configEntries: Object.entries(configuration).map(([name, value]) => ({ name, value })),
        },
      ],
    })
  } finally {
    await admin.disconnect()
  }
  await Promise.all(bootstrap.map((address) => untilKnown(address, topic)))
}

async function untilKnown(address: string, topic: string): Promise<void> {
  for (;;) {
    const leaders = await askLeaders(address, topic)
    if (leaders !== undefined && !leaders.includes(-1)) return
    await delay(20)
  }
}

async function askLeaders(address: string, topic: string): Promise<readonly number[] | undefined> {
  const connection = await WireConnection.open(address)
  try {
    const createTopic = false
    const body = new WireWriter().array([topic], (writer, name) => writer.string(name)).boolean(createTopic)
    const answer = await connection.request('Metadata', 4, body.toBuffer())
    answer.int32()
    const live = new Set(
      answer.array((reader) => {
        const id = reader.int32()
        reader.string()
        reader.int32()
        reader.string()
        return id
      }),
    )
    answer.string()
    answer.int32()
    const [found] = answer.array((reader) => {
      const errorCode = reader.int16()
      reader.string()
      reader.boolean()
      const partitions = reader.array((inner) => {
        inner.int16()
        const partition = inner.int32()
        const leader = inner.int32()
        inner.array((replica) => replica.int32())
        inner.array((replica) => replica.int32())
        return { partition, leader: live.has(leader) ? leader : -1 }
      })
      return { errorCode, partitions }
    })
    if (found === undefined || found.errorCode !== 0) return undefined
    return [...found.partitions].sort((a, b) => a.partition - b.partition).map(({ leader }) => leader)
  } finally {
    connection.close()
  }
}

function withinMs<T>(ms: number, promise: Promise<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => reject(new Error(`no answer within ${ms} ms`)), ms)
    promise.then(resolve, reject).finally(() => clearTimeout(timer))
  })
}

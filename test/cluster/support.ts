/** A cluster of one broker by script: what most tests of this folder start from. */
import type { ApiResponse, MetadataTopic, Node, ProducedRecord } from '../../src/cluster/connection.js'
import { Coordinators } from '../../src/cluster/coordinator.js'
import { Metadata } from '../../src/cluster/metadata.js'
import type { TransactionDependencies } from '../../src/cluster/transaction.js'
import { ManualRuntime } from '../support/manual-runtime.js'
import type { SeenRequest } from '../support/scripted-connection.js'
import { ScriptedConnection } from '../support/scripted-connection.js'

export const node: Node = { id: 1, host: 'one', port: 9092 }
export const otherNode: Node = { id: 2, host: 'two', port: 9092 }
export const role = 'orders'
export const pair = { producerId: 7n, producerEpoch: 3 } as const
export const requestTimeoutMs = 1_000

export interface World {
  readonly runtime: ManualRuntime
  readonly connection: ScriptedConnection
  readonly metadata: Metadata
  readonly coordinators: Coordinators
  readonly dependencies: TransactionDependencies
}

/** A cluster whose look-ups are answered: every topic has 4 partitions on `node`, which is every coordinator too. */
export function world(): World {
  const runtime = new ManualRuntime()
  const connection = new ScriptedConnection(runtime)
  const metadata = new Metadata(connection, runtime)
  const coordinators = new Coordinators(connection, runtime, requestTimeoutMs)
  connection.always('Metadata', ({ request }) => metadataOf(request.topics))
  connection.always('FindCoordinator', { errorCode: 0, errorMessage: null, node })
  const dependencies = { connection, metadata, runtime, requestTimeoutMs, coordinators }
  return { runtime, connection, metadata, coordinators, dependencies }
}

export function metadataOf(topics: readonly string[], leader: Node = node): ApiResponse<'Metadata'> {
  return {
    brokers: [node, otherNode],
    clusterId: 'c',
    controllerId: 1,
    topics: topics.map((topic) => topicOf(topic, leader.id)),
  }
}

export function topicOf(topic: string, leaderId: number = node.id, errorCode = 0, partitions = 4): MetadataTopic {
  return {
    errorCode,
    topic,
    partitions: Array.from({ length: errorCode === 0 ? partitions : 0 }, (_, partition) => ({
      errorCode: 0,
      partition,
      leaderId,
      leaderEpoch: 4,
      replicas: [1],
      inSyncReplicas: [1],
    })),
  }
}

export function record(value: string): ProducedRecord {
  return { key: null, value: Buffer.from(value), headers: [], timestamp: 0n }
}

/** The same code for every partition that the request named. */
export function addAnswer(errorCode: number) {
  return ({ request }: SeenRequest<'AddPartitionsToTxn'>): ApiResponse<'AddPartitionsToTxn'> => ({
    topics: request.topics.map(({ topic, partitions }) => ({
      topic,
      partitions: partitions.map((partition) => ({ partition, errorCode })),
    })),
  })
}

/** The same code, or base offset, for every partition that the request named. */
export function produceAnswer(errorCode: number, baseOffset = 100n, recordIndexes: readonly number[] = []) {
  return ({ request }: SeenRequest<'Produce'>): ApiResponse<'Produce'> => ({
    topics: request.topics.map(({ topic, partitions }) => ({
      topic,
      partitions: partitions.map(({ partition }) => ({
        partition,
        errorCode,
        baseOffset: errorCode === 0 ? baseOffset : -1n,
        errorMessage: null,
        recordErrors: recordIndexes.map((batchIndex) => ({ batchIndex, message: null })),
      })),
    })),
  })
}

export function offsetCommitAnswer(errorCode: number) {
  return ({ request }: SeenRequest<'TxnOffsetCommit'>): ApiResponse<'TxnOffsetCommit'> => ({
    topics: request.topics.map(({ topic, partitions }) => ({
      topic,
      partitions: partitions.map(({ partition }) => ({ partition, errorCode })),
    })),
  })
}

/** What came of a promise, looked at once it has settled. */
export interface Outcome<T> {
  readonly state: 'pending' | 'fulfilled' | 'rejected'
  readonly value?: T
  readonly error?: unknown
}

/** Watches a promise, so that a rejection is never unhandled and a test can move time meanwhile. */
export function watched<T>(promise: Promise<T>): { now(): Outcome<T> } {
  let outcome: Outcome<T> = { state: 'pending' }
  promise.then(
    (value) => {
      outcome = { state: 'fulfilled', value }
    },
    (error: unknown) => {
      outcome = { state: 'rejected', error }
    },
  )
  return { now: () => outcome }
}

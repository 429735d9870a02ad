/**
 * Who leads each partition, asked with our own Metadata requests and kept until somebody says it is wrong.
 *
 * It asks for the named topic only, so a leaderless topic of a stranger disturbs nothing, and it never creates a topic.
 * It must not retry: the flow that found a leader wrong forgets it and asks again on its own schedule.
 */

import type { Runtime } from '../runtime.js'
import type { ClusterConnection, MetadataTopic, Node, RequestOptions } from './connection.js'
import { dispositionOf } from './error-table.js'

/** A partition's leader and the epoch in which it leads. */
export interface PartitionLeader {
  readonly node: Node
  readonly leaderEpoch: number
}

/** What tells a topic from what it was, or from another one of its name, when it was looked at. */
export interface TopicIdentity {
  readonly partitionCount: number
  /** Undefined where the cluster does not say. */
  readonly topicId: string | undefined
}

interface KnownTopic extends TopicIdentity {
  /** Monotonic ms at which it was asked for. */
  readonly askedAt: number
  readonly leaders: Map<number, PartitionLeader>
}

/** What a look at a topic found: how many partitions it has, or that it does not exist, or a Kafka code. */
export type TopicLook =
  | { readonly kind: 'found'; readonly topic: MetadataTopic }
  | { readonly kind: 'absent' }
  | { readonly kind: 'refused'; readonly errorCode: number }

/** A topic may gain partitions, which changes where keys go, so its count is asked for again after this time (kafkajs's own default). */
const longestCountAgeMs = 300_000
/** Asking more often for a partition that is not there would only repeat the answer. */
const shortestCountAgeMs = 1_000

/** The leaders of the partitions that were asked for. */
export class Metadata {
  readonly #connection: ClusterConnection
  readonly #runtime: Runtime
  readonly #topics = new Map<string, KnownTopic>()
  readonly #absent = new Set<string>()
  /** The newest leader epochs that were ever named of a topic, by partition. Kept where a broker that was away calls the topic missing. */
  readonly #leaderEpochs = new Map<
    string,
    { readonly topicId: string | undefined; readonly newest: Map<number, number> }
  >()
  readonly #underWay = new Map<string, Promise<TopicLook>>()

  constructor(connection: ClusterConnection, runtime: Runtime) {
    this.#connection = connection
    this.#runtime = runtime
  }

  /** The leader of a partition: known, or asked for once. Undefined when it has none, or does not exist. */
  async leaderOf(topic: string, partition: number, options: RequestOptions): Promise<PartitionLeader | undefined> {
    const known = this.#topics.get(topic)?.leaders.get(partition)
    if (known !== undefined) return known
    await this.look(topic, options)
    return this.#topics.get(topic)?.leaders.get(partition)
  }

  /** What the latest answered look at the topic found; undefined before one. */
  identityOf(topic: string): TopicIdentity | 'absent' | undefined {
    return this.#absent.has(topic) ? 'absent' : this.#topics.get(topic)
  }

  /**
   * How many partitions the topic has; else what the look found instead. Asked for where it is not known, was asked for long ago,
   * or is below `atLeast`.
   */
  async partitionCountOf(
    topic: string,
    atLeast: number,
    options: RequestOptions,
  ): Promise<number | Exclude<TopicLook, { readonly kind: 'found' }>> {
    const known = this.#topics.get(topic)
    if (known !== undefined) {
      const longestAgeMs = known.partitionCount >= atLeast ? longestCountAgeMs : shortestCountAgeMs
      if (this.#runtime.monotonicNow() - known.askedAt < longestAgeMs) return known.partitionCount
    }
    const look = await this.look(topic, options)
    return look.kind === 'found' ? look.topic.partitions.length : look
  }

  /** Asks the cluster now; callers that come while an answer is under way share it. */
  look(topic: string, options: RequestOptions): Promise<TopicLook> {
    const underWay = this.#underWay.get(topic)
    if (underWay !== undefined) return underWay
    const asked = this.#ask(topic, options).finally(() => this.#underWay.delete(topic))
    this.#underWay.set(topic, asked)
    return asked
  }

  /** Drops what is known of every partition that a node leads. */
  forgetNode(nodeId: number): void {
    for (const { leaders } of this.#topics.values()) {
      for (const [partition, { node }] of leaders) if (node.id === nodeId) leaders.delete(partition)
    }
  }

  /** Drops what is known of one partition's leader. */
  forget(topic: string, partition: number): void {
    this.#topics.get(topic)?.leaders.delete(partition)
  }

  async #ask(topic: string, options: RequestOptions): Promise<TopicLook> {
    const askedAt = this.#runtime.monotonicNow()
    const answer = await this.#connection.request('seed', 'work', { api: 'Metadata', topics: [topic] }, options)
    const found = answer.topics.find((candidate) => candidate.topic === topic)
    if (found === undefined) return { kind: 'absent' }
    const disposition = dispositionOf('Metadata', found.errorCode)
    if (disposition === 'absent') {
      this.#topics.delete(topic)
      this.#absent.add(topic)
      return { kind: 'absent' }
    }
    if (disposition !== 'ok') return { kind: 'refused', errorCode: found.errorCode }
    const leaders = new Map<number, PartitionLeader>()
    const newest = this.#leaderEpochsOf(topic, found.topicId)
    for (const { partition, leaderId, leaderEpoch } of found.partitions) {
      // A broker that was away goes on naming an earlier leader for a while, whose end is not the log's any more (KIP-320).
      if (leaderEpoch < (newest.get(partition) ?? leaderEpoch)) {
        const known = this.#topics.get(topic)?.leaders.get(partition)
        if (known !== undefined) leaders.set(partition, known)
        continue
      }
      newest.set(partition, leaderEpoch)
      const node = answer.brokers.find(({ id }) => id === leaderId)
      if (node !== undefined) leaders.set(partition, { node, leaderEpoch })
    }
    this.#absent.delete(topic)
    this.#topics.set(topic, {
      partitionCount: found.partitions.length,
      topicId: found.topicId,
      leaders,
      askedAt,
    })
    return { kind: 'found', topic: found }
  }

  /** What is known of the same topic; a topic that was made again counts from the beginning. */
  #leaderEpochsOf(topic: string, topicId: string | undefined): Map<number, number> {
    const known = this.#leaderEpochs.get(topic)
    if (topicId !== undefined && known?.topicId === topicId) return known.newest
    const newest = new Map<number, number>()
    this.#leaderEpochs.set(topic, { topicId, newest })
    return newest
  }
}

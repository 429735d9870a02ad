/** Who leads what: asked once, shared, forgotten when it is said to be wrong. */
import { describe, expect, test } from 'vitest'
import { unreachable } from '../support/scripted-connection.js'
import { metadataOf, node, otherNode, topicOf, watched, world } from './support.js'

const at = (deadline: number): { deadline: number } => ({ deadline })

describe('metadata', () => {
  test('asks for the named topic only, once, and remembers', async () => {
    const { connection, metadata } = world()
    expect(await metadata.leaderOf('jobs', 0, at(9_999))).toEqual({ node, leaderEpoch: 4 })
    expect(await metadata.leaderOf('jobs', 3, at(9_999))).toEqual({ node, leaderEpoch: 4 })
    expect(await metadata.partitionCountOf('jobs', 4, at(9_999))).toBe(4)
    expect(connection.of('Metadata').map(({ request }) => request.topics)).toEqual([['jobs']])
  })

  test('asks again for a leader that was forgotten', async () => {
    const { connection, metadata } = world()
    await metadata.leaderOf('jobs', 0, at(9_999))
    connection.always('Metadata', ({ request }) => metadataOf(request.topics, otherNode))
    metadata.forget('jobs', 0)
    expect((await metadata.leaderOf('jobs', 0, at(9_999)))?.node).toEqual(otherNode)
  })

  test('remembers epochs over an answer that the topic is missing, and a leader over a look that names an earlier one', async () => {
    const { connection, metadata } = world()
    const say = (leaderId: number, leaderEpoch: number): void => {
      const topic = topicOf('jobs', leaderId)
      const partitions = topic.partitions.map((partition) => ({ ...partition, leaderEpoch }))
      connection.next('Metadata', { ...metadataOf([]), topics: [{ ...topic, topicId: 'a', partitions }] })
    }
    const leader = () => metadata.leaderOf('jobs', 0, at(9_999))
    say(otherNode.id, 5)
    expect(await leader()).toEqual({ node: otherNode, leaderEpoch: 5 })
    say(node.id, 4)
    await metadata.look('jobs', at(9_999))
    expect(await leader()).toEqual({ node: otherNode, leaderEpoch: 5 })
    connection.next('Metadata', { ...metadataOf([]), topics: [topicOf('jobs', node.id, 3)] })
    await metadata.look('jobs', at(9_999))
    say(node.id, 4)
    expect(await leader()).toBeUndefined()
  })

  test('takes no leader of an earlier epoch from a broker that was away, but one of a topic that was made again', async () => {
    const { connection, metadata } = world()
    const say = (leaderId: number, leaderEpoch: number, topicId: string): void => {
      const topic = topicOf('jobs', leaderId)
      const partitions = topic.partitions.map((partition) => ({ ...partition, leaderEpoch }))
      connection.next('Metadata', { ...metadataOf([]), topics: [{ ...topic, topicId, partitions }] })
    }
    const leader = () => metadata.leaderOf('jobs', 0, at(9_999))
    say(otherNode.id, 5, 'a')
    expect(await leader()).toEqual({ node: otherNode, leaderEpoch: 5 })
    metadata.forget('jobs', 0)
    say(node.id, 4, 'a')
    expect(await leader()).toBeUndefined()
    say(otherNode.id, 5, 'a')
    expect(await leader()).toEqual({ node: otherNode, leaderEpoch: 5 })
    metadata.forget('jobs', 0)
    say(node.id, 0, 'b')
    expect(await leader()).toEqual({ node, leaderEpoch: 0 })
  })

  test('knows no leader of a partition without one, of one that does not exist, and of a topic that does not', async () => {
    const { connection, metadata } = world()
    connection.next('Metadata', { ...metadataOf([]), topics: [topicOf('jobs', -1)] })
    expect(await metadata.leaderOf('jobs', 0, at(9_999))).toBeUndefined()
    expect(await metadata.leaderOf('jobs', 9, at(9_999))).toBeUndefined()
    connection.next('Metadata', { ...metadataOf([]), topics: [topicOf('gone', 1, 3)] })
    expect(await metadata.leaderOf('gone', 0, at(9_999))).toBeUndefined()
  })

  test('shares an answer under way, and forgets it when it failed', async () => {
    const { connection, metadata, runtime } = world()
    connection.next('Metadata', unreachable)
    const both = [1, 2].map(() => watched(metadata.leaderOf('jobs', 0, at(9_999))))
    await runtime.pass(1)
    expect(both.map((one) => one.now().error)).toMatchObject([{ kind: 'unreachable' }, { kind: 'unreachable' }])
    expect(connection.of('Metadata')).toHaveLength(1)
    expect(await metadata.leaderOf('jobs', 0, at(9_999))).toMatchObject({ node })
  })

  test('counts the partitions of a topic anew after five minutes, and sooner when one is wanted that is not there', async () => {
    const { connection, metadata, runtime } = world()
    const count = (atLeast: number): Promise<unknown> => metadata.partitionCountOf('jobs', atLeast, at(999_999))
    expect(await count(0)).toBe(4)
    connection.always('Metadata', { ...metadataOf([]), topics: [topicOf('jobs', 1, 0, 6)] })
    expect(await count(6), 'asked a moment ago').toBe(4)
    await runtime.pass(1_001)
    expect(await count(4), 'enough, and not old').toBe(4)
    expect(await count(6)).toBe(6)
    connection.always('Metadata', { ...metadataOf([]), topics: [topicOf('jobs', 1, 0, 8)] })
    await runtime.pass(299_000)
    expect(await count(6)).toBe(6)
    await runtime.pass(1_001)
    expect(await count(6)).toBe(8)
  })
})

/** Looks, mints and seals: one at a time on their channel, a plain mint never twice, seals first. */
import { describe, expect, test } from 'vitest'
import type { TransactionDescription } from '../../src/cluster/connection.js'
import { Unanswered } from '../../src/cluster/coordinator.js'
import { LookFailure, Minting, mintExpecting } from '../../src/cluster/mint.js'
import { lost, unreachable } from '../support/scripted-connection.js'
import type { World } from './support.js'
import { node, otherNode, pair, requestTimeoutMs, role, watched, world } from './support.js'

const bound = { deadline: 60_000 }

function description(values: Partial<TransactionDescription> = {}): { transactions: TransactionDescription[] } {
  return {
    transactions: [
      {
        errorCode: 0,
        transactionalId: role,
        state: 'CompleteCommit',
        timeoutMs: 30_000,
        startTimeMs: -1n,
        ...pair,
        topics: [{ topic: 'jobs', partitions: [0, 2] }],
        ...values,
      },
    ],
  }
}

function begin(): World & { minting: Minting } {
  const cluster = world()
  return { ...cluster, minting: new Minting(cluster.connection, cluster.coordinators, cluster.runtime) }
}

describe('a plain mint', () => {
  test('asks with -1/-1 for an idle channel, once, in the tick of the call', async () => {
    const { connection, minting } = begin()
    connection.next('InitProducerId', { errorCode: 0, producerId: 7n, producerEpoch: 4 })
    const turn = await minting.takeTurn(role, 'challenge', bound)
    const minted = turn.mint(30_000, 5_000)
    expect(connection.of('InitProducerId')).toHaveLength(1)
    expect(await minted).toEqual({ kind: 'minted', pair: { producerId: 7n, producerEpoch: 4 } })
    expect(connection.of('InitProducerId')[0]).toMatchObject({
      node,
      channel: 'mint',
      request: { transactionalId: role, producerId: -1n, producerEpoch: -1, transactionTimeoutMs: 30_000 },
      options: { onlyIfIdle: true },
    })
  })

  test.each([
    ['a lost answer', lost, { kind: 'failed', unknown: true }],
    ['no connection', unreachable, { kind: 'failed', unknown: false }],
    ['51', { errorCode: 51, producerId: -1n, producerEpoch: -1 }, { kind: 'look-again' }],
    ['14', { errorCode: 14, producerId: -1n, producerEpoch: -1 }, { kind: 'failed', unknown: false }],
    ['16', { errorCode: 16, producerId: -1n, producerEpoch: -1 }, { kind: 'failed', unknown: false }],
  ] as const)('is never repeated after %s', async (_name, step, outcome) => {
    const { connection, minting, runtime } = begin()
    connection.next('InitProducerId', step)
    const turn = await minting.takeTurn(role, 'challenge', bound)
    const minted = watched(turn.mint(30_000, 5_000))
    await runtime.pass(10_000)
    expect(minted.now().value).toMatchObject(outcome)
    expect(connection.of('InitProducerId')).toHaveLength(1)
  })

  test('is not written where the channel has a request in flight', async () => {
    const { connection, minting, runtime } = begin()
    connection.next('DescribeTransactions', 'silent')
    const turn = await minting.takeTurn(role, 'challenge', bound)
    const looked = watched(turn.look(bound))
    expect(await turn.mint(30_000, 5_000)).toMatchObject({ kind: 'failed', unknown: false })
    expect(connection.of('InitProducerId')).toEqual([])
    await runtime.pass(requestTimeoutMs)
    expect(looked.now().error).toBeInstanceOf(LookFailure)
  })

  test.each([
    [53, 'UNAUTHORIZED'],
    [50, 'CONFIG'],
  ])('answered %d is %s', async (errorCode, code) => {
    const { connection, minting } = begin()
    connection.next('InitProducerId', { errorCode, producerId: -1n, producerEpoch: -1 })
    const turn = await minting.takeTurn(role, 'challenge', bound)
    await expect(turn.mint(30_000, 5_000)).rejects.toMatchObject({ code })
  })
})

describe('a mint as a compare-and-swap', () => {
  test('sends the expected pair until it is answered: a repetition answers the same new pair', async () => {
    const { connection, coordinators, runtime } = begin()
    connection.next('InitProducerId', lost, { errorCode: 51, producerId: -1n, producerEpoch: -1 })
    connection.next('InitProducerId', { errorCode: 0, producerId: 7n, producerEpoch: 4 })
    const minted = watched(mintExpecting(coordinators, role, pair, 30_000, bound))
    await runtime.pass(200)
    expect(minted.now().value).toEqual({ producerId: 7n, producerEpoch: 4 })
    expect(connection.of('InitProducerId').map(({ request }) => request.producerEpoch)).toEqual([3, 3, 3])
    expect(connection.of('InitProducerId').every(({ channel }) => channel === 'mint')).toBe(true)
  })

  test.each([47, 49, 90])('answered %d: somebody else minted', async (errorCode) => {
    const { connection, coordinators } = begin()
    connection.next('InitProducerId', { errorCode, producerId: -1n, producerEpoch: -1 })
    expect(await mintExpecting(coordinators, role, pair, 30_000, bound)).toBeUndefined()
  })

  test('unanswered says so at the bound', async () => {
    const { connection, coordinators, runtime } = begin()
    connection.always('InitProducerId', 'silent')
    const minted = watched(
      mintExpecting(coordinators, role, pair, 30_000, { deadline: runtime.monotonicNow() + 1_500 }),
    )
    await runtime.pass(2_000)
    expect(minted.now().error).toBeInstanceOf(Unanswered)
  })
})

describe('a look', () => {
  test('tells what the coordinator knows and when it was asked', async () => {
    const { connection, minting, runtime } = begin()
    connection.next('DescribeTransactions', async () => {
      runtime.leap(4)
      return description()
    })
    const sentAt = runtime.monotonicNow()
    expect(await minting.look(role, bound)).toEqual({
      found: true,
      state: 'CompleteCommit',
      ...pair,
      partitions: ['jobs-0', 'jobs-2'],
      sentAt,
      answeredAt: sentAt + 4,
    })
  })

  test('of an id that the coordinator does not know finds nothing, and is no error', async () => {
    const { connection, minting, coordinators } = begin()
    connection.next('DescribeTransactions', description({ errorCode: 105, producerId: -1n, producerEpoch: -1 }))
    expect(await minting.look(role, bound)).toMatchObject({ found: false })
    expect(coordinators.lastErrorAt({ keyType: 'transaction', key: role })).toBeUndefined()
  })

  test.each([14, 15, 16])('answered %d is repeated at whoever coordinates then', async (errorCode) => {
    const { connection, minting, runtime } = begin()
    connection.next('FindCoordinator', { errorCode: 0, errorMessage: null, node })
    connection.next('FindCoordinator', { errorCode: 0, errorMessage: null, node: otherNode })
    connection.next('DescribeTransactions', description({ errorCode }), description())
    const looked = watched(minting.look(role, bound))
    await runtime.pass(100)
    expect(looked.now().value).toMatchObject({ found: true })
    expect(connection.of('DescribeTransactions').map((seen) => seen.node)).toEqual([node, otherNode])
  })

  test('answered 53 is UNAUTHORIZED, and the turn is given back', async () => {
    const { connection, minting } = begin()
    connection.next('DescribeTransactions', description({ errorCode: 53 }), description())
    await expect(minting.look(role, bound)).rejects.toMatchObject({ code: 'UNAUTHORIZED' })
    expect(await minting.look(role, bound)).toMatchObject({ found: true })
  })

  test('that is never answered ends at the bound', async () => {
    const { connection, minting, runtime } = begin()
    connection.always('DescribeTransactions', 'silent')
    const looked = watched(minting.look(role, { deadline: runtime.monotonicNow() + 2_500 }))
    await runtime.pass(3_000)
    expect(looked.now().error).toBeInstanceOf(LookFailure)
    expect(runtime.pendingTimers).toBe(0)
  })
})

describe('turns on the mint channel', () => {
  test('are taken one at a time, seals before challenges, each kind in order', async () => {
    const { minting, runtime } = begin()
    const first = await minting.takeTurn(role, 'challenge', bound)
    const order: string[] = []
    const wait = (name: string, priority: 'seal' | 'challenge'): void => {
      void minting.takeTurn(role, priority, bound).then((turn) => {
        order.push(name)
        turn.release()
        turn.release()
      })
    }
    wait('challenge 1', 'challenge')
    await runtime.pass(0)
    wait('seal 1', 'seal')
    wait('challenge 2', 'challenge')
    wait('seal 2', 'seal')
    await runtime.pass(1)
    expect(order).toEqual([])
    first.release()
    await runtime.pass(1)
    expect(order).toEqual(['seal 1', 'seal 2', 'challenge 1', 'challenge 2'])
    expect(runtime.pendingTimers).toBe(0)
  })

  test('are given up at the bound, and whoever comes next is served', async () => {
    const { minting, runtime } = begin()
    const first = await minting.takeTurn(role, 'challenge', bound)
    const late = watched(minting.takeTurn(role, 'challenge', { deadline: runtime.monotonicNow() + 100 }))
    const next = watched(minting.takeTurn(role, 'challenge', bound))
    await runtime.pass(200)
    expect(late.now().error).toBeInstanceOf(LookFailure)
    first.release()
    await runtime.pass(0)
    expect(next.now().state).toBe('fulfilled')
  })

  test('are given up when the signal aborts, also where it had aborted before the wait began', async () => {
    const { minting, runtime } = begin()
    await minting.takeTurn(role, 'challenge', bound)
    const abort = new AbortController()
    const reason = new Error('enough')
    const waiting = watched(minting.takeTurn(role, 'challenge', { ...bound, signal: abort.signal }))
    await runtime.pass(1)
    abort.abort(reason)
    const later = watched(minting.takeTurn(role, 'challenge', { ...bound, signal: abort.signal }))
    await runtime.pass(1)
    expect(waiting.now().error).toBe(reason)
    expect(later.now().error).toBe(reason)
    expect(runtime.pendingTimers).toBe(0)
  })

  test('of different brokers do not wait for each other', async () => {
    const { connection, minting } = begin()
    connection.always('FindCoordinator', ({ request }) => ({
      errorCode: 0,
      errorMessage: null,
      node: request.key === role ? node : otherNode,
    }))
    await minting.takeTurn(role, 'challenge', bound)
    await minting.takeTurn('another', 'challenge', bound)
  })
})

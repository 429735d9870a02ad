/** Requests to a coordinator: found once, found again when an answer says so, repeated on the right schedule, bounded. */
import { describe, expect, test } from 'vitest'
import { transportError, Unanswered } from '../../src/cluster/coordinator.js'
import { coordinationError } from '../../src/errors.js'
import { lost, unreachable } from '../support/scripted-connection.js'
import type { World } from './support.js'
import { node, otherNode, pair, requestTimeoutMs, role, watched, world } from './support.js'

const key = { keyType: 'transaction', key: role } as const
const attempted = { operation: 'Write', resource: `transactional id '${role}'` }
const identity = { transactionalId: role, ...pair }

function ask(cluster: World, bound: { deadline: number; signal?: AbortSignal } = { deadline: 60_000 }) {
  return watched(
    cluster.coordinators.ask<'EndTxn'>(
      key,
      'work',
      { api: 'EndTxn', ...identity, committed: true },
      ({ errorCode }) => errorCode,
      attempted,
      bound,
    ),
  )
}

describe('finding a coordinator', () => {
  test('is done once and remembered', async () => {
    const cluster = world()
    cluster.connection.always('EndTxn', { errorCode: 0 })
    for (let count = 0; count < 3; count++) ask(cluster)
    await cluster.runtime.pass(1)
    ask(cluster)
    await cluster.runtime.pass(1)
    expect(cluster.connection.of('EndTxn')).toHaveLength(4)
    expect(cluster.connection.of('FindCoordinator').length).toBeLessThanOrEqual(3)
    expect(cluster.connection.of('FindCoordinator').every(({ at }) => at === 1_000)).toBe(true)
  })

  test.each([14, 15, 16])('answered %d, as for seconds on a fresh cluster, is asked again', async (errorCode) => {
    const cluster = world()
    const nobody = { errorCode, errorMessage: null, node: { id: -1, host: '', port: -1 } }
    cluster.connection.next('FindCoordinator', nobody, nobody).always('EndTxn', { errorCode: 0 })
    const asked = ask(cluster)
    await cluster.runtime.pass(200)
    expect(asked.now().state).toBe('fulfilled')
    expect(cluster.connection.of('FindCoordinator')).toHaveLength(3)
  })

  test('answered 53 is UNAUTHORIZED, at once', async () => {
    const cluster = world()
    cluster.connection.always('FindCoordinator', { errorCode: 53, errorMessage: null, node })
    const asked = ask(cluster)
    await cluster.runtime.pass(0)
    expect(asked.now().error).toMatchObject({ code: 'UNAUTHORIZED', kafkaCode: 53 })
  })

  test('that nobody answers ends at the bound, and nothing was applied', async () => {
    const cluster = world()
    cluster.connection.always('FindCoordinator', unreachable)
    const asked = ask(cluster, { deadline: cluster.runtime.monotonicNow() + 3_000 })
    await cluster.runtime.pass(3_000)
    expect(asked.now().error).toBeInstanceOf(Unanswered)
    expect(asked.now().error).toMatchObject({ mayBeApplied: false, answerLost: false })
    expect(cluster.runtime.pendingTimers).toBe(0)
  })
})

describe('a request to a coordinator', () => {
  test.each([15, 16])('answered %d goes to whoever is found then', async (errorCode) => {
    const cluster = world()
    cluster.connection.next('FindCoordinator', { errorCode: 0, errorMessage: null, node })
    cluster.connection.next('FindCoordinator', { errorCode: 0, errorMessage: null, node: otherNode })
    cluster.connection.next('EndTxn', { errorCode }, { errorCode: 0 })
    const asked = ask(cluster)
    await cluster.runtime.pass(100)
    expect(asked.now()).toMatchObject({ state: 'fulfilled', value: { appliedBefore: true, answerLost: false } })
    expect(cluster.connection.of('EndTxn').map((seen) => seen.node)).toEqual([node, otherNode])
  })

  test('whose connection broke goes to whoever is found then, and remembers that an answer was lost', async () => {
    const cluster = world()
    cluster.connection.next('EndTxn', lost, unreachable, { errorCode: 0 })
    const asked = ask(cluster)
    await cluster.runtime.pass(200)
    expect(asked.now()).toMatchObject({ state: 'fulfilled', value: { answerLost: true, appliedBefore: true } })
    expect(cluster.connection.of('FindCoordinator')).toHaveLength(3)
    expect(cluster.coordinators.lastErrorAt(key)).toBeGreaterThanOrEqual(1_000)
  })

  test('that was never written remembers no doubt', async () => {
    const cluster = world()
    cluster.connection.next('EndTxn', unreachable, { errorCode: 0 })
    const asked = ask(cluster)
    await cluster.runtime.pass(200)
    expect(asked.now()).toMatchObject({ state: 'fulfilled', value: { answerLost: false, appliedBefore: false } })
  })

  test('has a deadline of its own within the bound', async () => {
    const cluster = world()
    cluster.connection.always('EndTxn', 'silent')
    const asked = ask(cluster, { deadline: cluster.runtime.monotonicNow() + 2_500 })
    await cluster.runtime.pass(3_000)
    expect(asked.now().error).toMatchObject({ answerLost: true, mayBeApplied: true })
    const waits = cluster.connection.of('EndTxn').map(({ at, options }) => options.deadline - at)
    expect(Math.max(...waits)).toBe(requestTimeoutMs)
    expect(Math.max(...cluster.connection.of('EndTxn').map(({ options }) => options.deadline))).toBe(3_500)
  })

  test('answered 51 without end stops at the bound and names the code', async () => {
    const cluster = world()
    cluster.connection.always('EndTxn', { errorCode: 51 })
    const asked = ask(cluster, { deadline: cluster.runtime.monotonicNow() + 1_000 })
    await cluster.runtime.pass(1_100)
    expect(asked.now().error).toMatchObject({ lastErrorCode: 51, mayBeApplied: false })
    // 0, 1, 1, 2, 5, 10, then every 20 ms: a request is what moves a quiet coordinator on, and no more than that.
    expect(cluster.connection.of('EndTxn').length).toBeGreaterThan(45)
    expect(cluster.connection.of('EndTxn').length).toBeLessThan(65)
  })

  test('stops at once when its signal aborts, with the reason', async () => {
    const cluster = world()
    cluster.connection.always('EndTxn', unreachable)
    const abort = new AbortController()
    const asked = ask(cluster, { deadline: 60_000, signal: abort.signal })
    await cluster.runtime.pass(50)
    const reason = new Error('enough')
    abort.abort(reason)
    await cluster.runtime.pass(0)
    expect(asked.now().error).toBe(reason)
    expect(cluster.runtime.pendingTimers).toBe(0)
  })

  test.each([
    ['authentication', 'UNAUTHORIZED'],
    ['unsupported', 'UNSUPPORTED'],
  ] as const)('over a connection that can never be had (%s) is %s at once', async (fails, code) => {
    const cluster = world()
    cluster.connection.always('EndTxn', { fails, written: false })
    const asked = ask(cluster)
    await cluster.runtime.pass(0)
    expect(asked.now().error).toMatchObject({ code })
  })
})

test('what is told of an unanswered request keeps the error that made it hopeless', () => {
  const hopeless = coordinationError('UNAUTHORIZED', 'no', { operation: 'Write', resource: 'x' })
  const sendings = { answerLost: true, mayBeApplied: true, lastErrorCode: undefined }
  expect(transportError(new Unanswered('no', sendings, hopeless))).toBe(hopeless)
  expect(transportError(new Unanswered('late', { ...sendings, lastErrorCode: 51 }, undefined))).toMatchObject({
    code: 'TRANSPORT',
    retriable: true,
    kafkaCode: 51,
  })
})

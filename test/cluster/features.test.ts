/** What the cluster is set to: asked of another broker of the list where one does not answer, and not for ever. */
import { describe, expect, test } from 'vitest'
import { transactionVersionOf } from '../../src/cluster/features.js'
import { lost, unreachable } from '../support/scripted-connection.js'
import { requestTimeoutMs, watched, world } from './support.js'

const version = (transactionVersion?: number) => ({
  errorCode: 0,
  apis: [],
  features: new Map(transactionVersion === undefined ? [] : [['transaction.version', transactionVersion]]),
})

describe("the cluster's transaction.version", () => {
  test.each([
    [2, 2],
    [0, 0],
    [undefined, 0],
  ])('of a cluster that says %s is %d', async (said, expected) => {
    const { connection, runtime } = world()
    connection.next('ApiVersions', version(said))
    const bound = { deadline: runtime.monotonicNow() + 1_000 }
    expect(await transactionVersionOf(connection, runtime, requestTimeoutMs, bound)).toBe(expected)
  })

  test('is asked for again where a broker of the list is away', async () => {
    const { connection, runtime } = world()
    connection.next('ApiVersions', unreachable, lost, version(2))
    const asked = watched(
      transactionVersionOf(connection, runtime, requestTimeoutMs, { deadline: runtime.monotonicNow() + 10_000 }),
    )
    await runtime.pass(2_000)
    expect(asked.now().value).toBe(2)
    expect(connection.of('ApiVersions')).toHaveLength(3)
  })

  test('is not asked for beyond the bound, and the last failure is told', async () => {
    const { connection, runtime } = world()
    connection.always('ApiVersions', unreachable)
    const asked = watched(
      transactionVersionOf(connection, runtime, requestTimeoutMs, { deadline: runtime.monotonicNow() + 1_000 }),
    )
    await runtime.pass(1_001)
    expect(asked.now().error).toMatchObject({ kind: 'unreachable' })
  })
})

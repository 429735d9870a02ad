/** What an observer is told while a commit is decided and its marker not yet read. */
import { describe, expect, test } from 'vitest'
import { describeAll, describeRole } from '../../src/client/describe.js'
import { settingsOf } from '../../src/client/options.js'
import type { Services } from '../../src/client/services.js'
import { openServices } from '../../src/client/services.js'
import { readRecord } from '../../src/election/record.js'
import { applyRecord, emptyRoleState, nameProducer, type RoleState } from '../../src/election/role-state.js'
import { encodeIncarnation, incarnationHeader } from '../../src/format/headers.js'
import { encodeKey } from '../../src/format/key.js'
import { encodeLease } from '../../src/format/lease.js'
import { parseMemberId, parseRole } from '../../src/format/names.js'
import { FencingToken } from '../../src/format/token.js'
import { watched } from '../cluster/support.js'
import { ManualRuntime } from '../support/manual-runtime.js'
import { ScriptedCluster } from '../support/scripted-cluster.js'
import { lost, unreachable } from '../support/scripted-connection.js'

const role = parseRole('orders')
const member = parseMemberId('m')
const vacant = emptyRoleState(role)
const incarnation = { id: new Uint8Array(16), birth: 0n, registeredAt: 0n }
const held: RoleState = applyRecord(
  nameProducer(vacant, 7n),
  readRecord({
    offset: 3n,
    key: encodeKey({ kind: 'lease', role }),
    value: encodeLease({ member, token: FencingToken.of(7n, 1), grantedAt: 0n, deadline: 30_000n }),
    headers: [[incarnationHeader, encodeIncarnation(incarnation)]],
    transactional: true,
    producerId: 7n,
    producerEpoch: 1,
    receivedAt: 1,
    leaderEpoch: 0,
    appendTime: undefined,
  }),
).state

/** Each observation reads the log first and looks after: what it sees of each. */
async function observing(
  observations: readonly { log: RoleState; look: string }[],
): Promise<{ state: string; seen: number }> {
  const runtime = new ManualRuntime()
  let seen = 0
  const now = (): { log: RoleState; look: string } => {
    const observation = observations[Math.min(seen, observations.length) - 1]
    if (observation === undefined) throw new Error('nothing is observed')
    return observation
  }
  const log = {
    readToEnd: async () => {
      seen += 1
    },
    applyLook: () => {},
    stateOf: () => now().log,
    liveSince: () => 0,
  }
  const services = {
    runtime,
    log: async () => log,
    transactionVersion: async () => 2,
    minting: {
      look: async () => ({
        found: true,
        state: now().look,
        producerId: 7n,
        producerEpoch: 1,
        partitions: [],
        sentAt: 2,
        answeredAt: 2,
      }),
    },
  } as unknown as Services
  const told = describeRole(services, role, { deadline: 60_000 })
  await runtime.passUntil(() => seen >= observations.length, 5_000)
  await runtime.pass(100)
  return { state: (await told).state, seen }
}

describe('describe', () => {
  test('is not fooled by a look that shows complete what was being finished while the log was read', async () => {
    const observations = [
      { log: vacant, look: 'PrepareCommit' },
      { log: vacant, look: 'CompleteCommit' },
      { log: held, look: 'CompleteCommit' },
    ]
    expect(await observing(observations)).toEqual({ state: 'held', seen: 3 })
  })

  test('tells a mismatch that stands as it is', async () => {
    const observations = [
      { log: vacant, look: 'CompleteCommit' },
      { log: vacant, look: 'CompleteCommit' },
    ]
    expect(await observing(observations)).toEqual({ state: 'vacant', seen: 2 })
  })

  test('of a holder that stands needs one observation', async () => {
    expect(await observing([{ log: held, look: 'CompleteCommit' }])).toEqual({ state: 'held', seen: 1 })
  })

  test('and all roles are asked for again where one broker of the list does not answer', async () => {
    const runtime = new ManualRuntime()
    const cluster = new ScriptedCluster(runtime, { partitions: 1, transactionVersion: 2 })
    const settings = settingsOf({ kafka: {}, runtime, memberId: 'm', requestTimeoutMs: 1_000 })
    const services = openServices(settings, cluster.connection, { tell: () => undefined, warn: () => undefined })
    const bound = { deadline: runtime.monotonicNow() + 10_000, answersUntil: Number.POSITIVE_INFINITY }
    for (const ask of [() => describeRole(services, role, bound), () => describeAll(services, bound)]) {
      cluster.connection.next('ApiVersions', unreachable, lost, 'silent')
      const told = watched<unknown>(ask())
      await runtime.pass(3_000)
      expect(told.now()).toMatchObject({ state: 'fulfilled' })
    }
    services.close()
  })
})

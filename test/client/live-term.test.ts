import { expect, test } from 'vitest'
import { headerText, type RawRecord, readCommittedLog } from '../../examples/demo/raw-log.js'
import { decodeKey, decodeLease, isTombstone } from '../../src/index.js'
import { describeWithKafka, freshName } from '../kafka/suites.js'
import { tell } from '../support/form.js'
import { lookAt } from '../support/look.js'
import {
  committedRecords,
  coordinationTopic,
  discardMembersAfterEach,
  guardedTopic,
  Member,
  valuesOf,
} from './programs/live.js'

/** The lease records of a role, in order of offset; a tombstone has a value without bytes. */
async function leaseRecords(bootstrap: readonly string[], role: string): Promise<readonly RawRecord[]> {
  const records = await readCommittedLog(bootstrap, coordinationTopic)
  return records.filter(({ key, outcome }) => {
    if (key === null || outcome !== 'committed') return false
    const decoded = decodeKey(key)
    return decoded.kind === 'lease' && decoded.role === role
  })
}

const batchPair = ({ producerId, producerEpoch }: RawRecord): string => `${producerId}:${producerEpoch}`

describeWithKafka('a term', { nodes: 1, transactionVersion: 2 }, (cluster) => {
  discardMembersAfterEach()

  test('keeps its token and number through 200 renewals and 200 guarded writes, wherever they are written', async () => {
    const times = 200
    const { bootstrap } = cluster()
    const role = freshName('term')
    const topic = await guardedTopic(bootstrap)
    const leader = await Member.start({ brokers: bootstrap, memberId: 'leader' })
    const onlooker = await Member.start({ brokers: bootstrap, memberId: 'onlooker' })
    const { token, term } = await leader.acquire(role)

    const done = await leader.call({ do: 'renewAndWrite', role, topic, times }, 60_000)
    expect(done).toMatchObject({ tokens: [token], terms: [term] })

    const view = await lookAt(bootstrap, role)
    expect(`${view.producerId}:${view.producerEpoch}`).toBe(token)

    const leases = await leaseRecords(bootstrap, role)
    tell(`${leases.length} lease records of one term`)
    expect(leases.length).toBeGreaterThan(times)
    for (const [index, lease] of leases.entries()) {
      const { member, token: claimed } = decodeLease(lease.value ?? Buffer.alloc(0))
      expect({
        member,
        claimed: claimed.toString(),
        pair: batchPair(lease),
        transactional: lease.transactional,
      }).toEqual({
        member: 'leader',
        claimed: token,
        pair: token,
        transactional: true,
      })
      // The first lease of a term is its number; every later one carries it.
      expect(headerText(lease, 'mandate-term')).toBe(index === 0 ? undefined : term)
    }
    expect(String(leases[0]?.offset)).toBe(term)

    const written = await committedRecords(bootstrap, topic)
    expect(valuesOf(written)).toEqual(Array.from({ length: times }, (_, turn) => `leader-${turn}`))
    expect(done).toMatchObject({
      positions: written.map(({ offset, partition }) => ({ topic, partition, offset: offset.toString() })),
    })
    for (const record of written) {
      const stamps = ['mandate-role', 'mandate-term', 'mandate-token'].map((name) => headerText(record, name))
      expect([...stamps, batchPair(record)]).toEqual([role, term, token, token])
    }

    for (const member of [leader, onlooker]) {
      expect(await member.call({ do: 'describe', role })).toMatchObject({
        holder: 'leader',
        token,
        term,
        termExact: true,
        authority: 'current',
        current: true,
        roster: [],
      })
      expect(await member.call({ do: 'checkToken', role, token })).toBe('current')
    }
    await leader.end()
    await onlooker.end()
  })

  test('is over for every onlooker once it was resigned', async () => {
    const { bootstrap } = cluster()
    const role = freshName('term')
    const leader = await Member.start({ brokers: bootstrap, memberId: 'leader' })
    const onlooker = await Member.start({ brokers: bootstrap, memberId: 'onlooker' })
    const { token, term } = await leader.acquire(role)
    expect(await onlooker.call({ do: 'checkToken', role, token })).toBe('current')
    expect(await leader.call({ do: 'resign', role })).toBe('resigned')
    for (const member of [leader, onlooker]) {
      expect(await member.call({ do: 'checkToken', role, token })).toBe('superseded')
      const status = await member.call({ do: 'describe', role })
      expect(status).toMatchObject({ state: 'vacant', current: false, roster: [] })
      expect(status).not.toHaveProperty('holder')
    }
    expect(await leader.failureOf({ do: 'renew', role })).toMatchObject({ code: 'RESIGNED', token, term })
    expect(await leader.call({ do: 'resign', role })).toBe('resigned')
    const last = (await leaseRecords(bootstrap, role)).at(-1)
    expect(last !== undefined && isTombstone(last.value)).toBe(true)
    // The tombstone is written under the sealed pair: the token was dead before it.
    expect(last === undefined ? undefined : batchPair(last)).not.toBe(token)

    const next = await leader.acquire(role)
    expect(BigInt(next.term)).toBeGreaterThan(BigInt(term))
    expect(await onlooker.call({ do: 'checkToken', role, token })).toBe('superseded')
    expect(await onlooker.call({ do: 'checkToken', role, token: next.token })).toBe('current')
    await leader.end()
    await onlooker.end()
  })

  test('is over for every onlooker once another member took the role over', async () => {
    const { bootstrap } = cluster()
    const role = freshName('term')
    const lease = { leaseMs: 1500, renewIntervalMs: 500, staggerMs: 250 }
    const leader = await Member.start({ brokers: bootstrap, memberId: 'leader', ...lease })
    const successor = await Member.start({ brokers: bootstrap, memberId: 'successor', ...lease })
    const { token, term } = await leader.acquire(role)
    const takeOver = successor.acquire(role)
    await leader.child.next('renewed')
    await leader.kill()
    const next = await takeOver
    expect(BigInt(next.term)).toBeGreaterThan(BigInt(term))
    expect(await successor.call({ do: 'checkToken', role, token })).toBe('superseded')
    expect(await successor.call({ do: 'checkToken', role, token: next.token })).toBe('current')
    expect(await successor.call({ do: 'describe', role })).toMatchObject({
      holder: 'successor',
      token: next.token,
      term: next.term,
      authority: 'current',
      roster: [],
    })
    await successor.end()
  })
})

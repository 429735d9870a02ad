/**
 * `watch`, `roles` and `depose` on real brokers, with members as processes: what is told and what is not, in which order, at what
 * cost, and what an operator's deposal leaves behind.
 */
import { Kafka, logLevel } from 'kafkajs'
import { afterEach, describe, expect, test } from 'vitest'
import type { ClientOptions, LeadershipStatus } from '../../src/index.js'
import { CoordinationClient, parseRole, rolePartition } from '../../src/index.js'
import { JavaMember } from '../interop/java-member.js'
import { describeWithKafka, freshName } from '../kafka/suites.js'
import { aborted } from '../support/aborted.js'
import { rounds, tell } from '../support/form.js'
import { startFrameProxy } from '../support/frame-proxy.js'
import { kinds } from '../support/kinds.js'
import { lookAt } from '../support/look.js'
import { discardMembersAfterEach, guardedTopic, Member, oneRecord, seenWaiting } from './programs/live.js'

const timing = { leaseMs: 2_000, renewIntervalMs: 400, staggerMs: 300 }
/** Nobody leads because this ran out. */
const long = { leaseMs: 60_000, renewIntervalMs: 20_000, staggerMs: 300 }

/** What a watcher is told, one after the other, with a wait for what has to come. */
class Told {
  readonly statuses: LeadershipStatus[] = []
  readonly ended: Promise<unknown>
  #wake: () => void = () => undefined

  constructor(watch: AsyncIterable<LeadershipStatus>) {
    this.ended = this.#read(watch)
  }

  /** The first status from `from` on that fits; `from` is an index into what was told. */
  async next(fits: (status: LeadershipStatus) => boolean, from = 0): Promise<LeadershipStatus> {
    for (;;) {
      const found = this.statuses.slice(from).find(fits)
      if (found !== undefined) return found
      await new Promise<void>((resolve) => {
        this.#wake = resolve
      })
    }
  }

  async #read(watch: AsyncIterable<LeadershipStatus>): Promise<unknown> {
    try {
      for await (const status of watch) {
        this.statuses.push(status)
        this.#wake()
      }
      return undefined
    } catch (error) {
      return error
    }
  }
}

const isHeldBy =
  (memberId: string) =>
  ({ state, holder }: LeadershipStatus): boolean =>
    state === 'held' && holder === memberId
const states = ({ statuses }: Told): readonly string[] =>
  statuses.map(({ state, holder }) => `${state} ${holder ?? '-'}`)

const undo: (() => Promise<unknown>)[] = []
discardMembersAfterEach()
afterEach(async () => {
  for (const step of undo.splice(0).reverse()) await step()
})

function openClient(bootstrap: readonly string[], options: Omit<ClientOptions, 'kafka'>): CoordinationClient {
  const kafka = new Kafka({ brokers: [...bootstrap], logLevel: logLevel.NOTHING })
  const client = new CoordinationClient({ kafka, ...options })
  undo.push(() => client.close({ timeoutMs: 3_000 }))
  return client
}

describe.each(kinds())('$name', ({ name, kind }) => {
  describeWithKafka('roles that are watched', kind, (cluster) => {
    const topic = freshName('coordination')
    const clientOf = (
      memberId: string,
      options: Partial<ClientOptions> = timing,
      bootstrap: readonly string[] = cluster().bootstrap,
    ): CoordinationClient => openClient(bootstrap, { topic, memberId, ...options })

    const startMember = (memberId: string, options: typeof timing = timing): Promise<Member> =>
      Member.start({ brokers: cluster().bootstrap, topic, memberId, ...options })

    test('tell their first state at once, then changes of holder, state and term, and no renewal', async () => {
      const role = freshName('watched')
      const watcher = clientOf('watcher')
      const stop = new AbortController()
      const told = new Told(watcher.watch(role, { signal: stop.signal }))
      await told.next(({ state }) => state === 'vacant')
      const first = await startMember('first')
      const led = await first.acquire(role)
      const held = await told.next(isHeldBy('first'))
      expect({ token: held.token?.toString(), term: held.term?.toString() }).toEqual({
        token: led.token,
        term: led.term,
      })
      for (let renewal = 0; renewal < 20; renewal++) await first.call({ do: 'renew', role })
      await first.call({ do: 'resign', role })
      await told.next(({ state }) => state === 'vacant', 1)
      await first.acquire(role)
      await told.next(isHeldBy('first'), 2)
      await first.kill()
      await told.next(({ state }) => state === 'expired')
      const reason = new Error('seen enough')
      stop.abort(reason)
      expect(await told.ended).toBe(reason)
      expect(states(told)).toEqual(['vacant -', 'held first', 'vacant -', 'held first', 'expired first'])
      const terms = told.statuses.flatMap(({ term }) => (term === undefined ? [] : [term]))
      expect(terms.every((term, index) => index === 0 || term >= (terms[index - 1] ?? 0n))).toBe(true)
      expect(new Set(terms).size).toBe(2)
    })

    test('of a lease that was there before: unproven or held, and soon held', async () => {
      const role = freshName('watched')
      const first = await startMember('first')
      await first.acquire(role)
      const told = new Told(clientOf('watcher').watch([role]))
      await told.next(isHeldBy('first'))
      expect(['unproven first', 'held first']).toContain(states(told)[0])
      expect(told.statuses[0]?.authority).not.toBe('superseded')
      await first.end()
    })

    test('all of them, once each, and none of which nothing is left', async () => {
      const own = freshName('coordination')
      const [held, queued, gone] = [freshName('held'), freshName('queued'), freshName('gone')]
      const options = { ...long, topic: own }
      const holder = clientOf('holder', options)
      const lease = await holder.acquire(held)
      await holder.acquire(queued)
      const other = clientOf('other', options)
      const waits = new AbortController()
      const waiting = other.acquire(queued, { signal: waits.signal }).catch((error: unknown) => error)
      await (await other.acquire(gone)).resign()
      const watcher = clientOf('watcher', options)
      const roles = async (): Promise<ReadonlyMap<string, LeadershipStatus>> =>
        new Map((await watcher.roles()).map((status) => [status.role, status]))
      while ((await roles()).get(queued)?.roster.length !== 1);
      const found = await roles()
      expect([...found.keys()].sort()).toEqual([held, queued].sort())
      expect(found.get(held)).toMatchObject({ holder: 'holder', current: true, authority: 'current', term: lease.term })
      const told = new Told(watcher.watch())
      await told.next(({ role }) => role === held)
      await told.next(({ role }) => role === queued)
      const late = freshName('late')
      await other.acquire(late)
      await told.next(({ role, state }) => role === late && state === 'held')
      expect(told.statuses.filter(({ role }) => role === held)).toHaveLength(1)
      expect(told.statuses.some(({ role }) => role === gone)).toBe(false)
      waits.abort()
      await waiting
    })

    test('cost no connection and no request after the first pass, and nothing once iterated no more', async () => {
      const role = freshName('watched')
      const proxy = await startFrameProxy(cluster().bootstrap)
      undo.push(() => proxy.close())
      const watcher = clientOf('watcher', long, proxy.bootstrap)
      const member = clientOf('member', long)
      const leadership = await member.acquire(role)
      const watch = watcher.watch(role)
      expect((await watch.next()).value?.holder).toBe('member')
      const asked = (): number =>
        (['Metadata', 'FindCoordinator', 'DescribeTransactions', 'ListOffsets', 'ApiVersions'] as const)
          .map((api) => proxy.count(api))
          .reduce((sum, count) => sum + count)
      const before = asked()
      for (let renewal = 0; renewal < 10; renewal++) await leadership.renew()
      const next = watch.next()
      await leadership.resign()
      // The lease was `unproven` until a renewal came.
      let told = (await next).value
      if (told?.state === 'held') told = (await watch.next()).value
      expect(told?.state).toBe('vacant')
      await member.acquire(role)
      expect((await watch.next()).value?.state).toBe('held')
      expect(asked() - before, 'the producer id is known').toBe(0)
      const pending = watch.next()
      expect(await watch.return?.()).toEqual({ done: true, value: undefined })
      expect(await pending).toEqual({ done: true, value: undefined })
      expect(await watch.next()).toEqual({ done: true, value: undefined })
    })

    test('end with CLOSED when the client closes, and wait for a cluster that is away', async () => {
      const role = freshName('watched')
      const proxy = await startFrameProxy(cluster().bootstrap)
      undo.push(() => proxy.close())
      const block = proxy.block()
      const client = clientOf('watcher', { ...timing, requestTimeoutMs: 500 }, proxy.bootstrap)
      const told = new Told(client.watch(role))
      // A request has failed by then.
      await expect(client.describe(role)).rejects.toMatchObject({ code: 'TRANSPORT' })
      block.lift()
      await told.next(({ state }) => state === 'vacant')
      await client.close()
      expect(await told.ended).toMatchObject({ code: 'CLOSED' })
      expect(() => client.watch(role)).toThrow(expect.objectContaining({ code: 'CLOSED' }))
    })

    test('end on the truth when the watcher was cut off in between, strictly by term', {
      timeout: 180_000,
    }, async () => {
      const count = rounds(3, 20)
      const changes = rounds(24, 200)
      const own = freshName('coordination')
      const roles = Array.from({ length: count }, () => freshName('busy'))
      const proxy = await startFrameProxy(cluster().bootstrap)
      undo.push(() => proxy.close())
      const watcher = clientOf('watcher', { ...long, topic: own, requestTimeoutMs: 1_000 }, proxy.bootstrap)
      const told = new Told(watcher.watch())
      const members = await Promise.all(
        ['a', 'b'].map((memberId) => Member.start({ brokers: cluster().bootstrap, topic: own, memberId, ...long })),
      )
      const holders = new Map<string, { member: Member; term: bigint }>()
      for (let change = 0; change < changes; change++) {
        if (change % 8 === 3) {
          const block = proxy.block()
          undo.push(async () => block.lift())
        }
        const role = roles[change % count] ?? ''
        const previous = holders.get(role)
        const next = members.find((member) => member !== previous?.member)
        if (next === undefined) throw new Error('nobody to lead')
        await previous?.member.call({ do: 'resign', role })
        const { term } = await next.acquire(role)
        holders.set(role, { member: next, term: BigInt(term) })
        if (change % 8 === 6) for (const step of undo.splice(2)) await step()
      }
      for (const step of undo.splice(2)) await step()
      for (const role of roles) {
        const truth = holders.get(role)
        await told.next((status) => status.role === role && status.term === truth?.term)
        const terms = told.statuses.flatMap((status) =>
          status.role === role && status.term !== undefined ? [status.term] : [],
        )
        expect(terms).toEqual([...terms].sort((a, b) => (a < b ? -1 : 1)))
        expect(told.statuses.findLast((status) => status.role === role)?.holder).toBe(truth?.member.memberId)
      }
      tell(`${name}: ${changes} changes of ${count} roles, ${told.statuses.length} told`)
      for (const member of members) await member.end()
    })
  })

  describeWithKafka('depose', kind, (cluster) => {
    const topic = freshName('coordination')
    const clientOf = (memberId: string): CoordinationClient =>
      openClient(cluster().bootstrap, { topic, memberId, ...long })

    test('ends the term of a healthy leader: its token is dead, the next in the queue leads at once', async () => {
      const role = freshName('deposed')
      const { bootstrap } = cluster()
      const commands = await guardedTopic(bootstrap)
      const [leader, standby] = await Promise.all(
        ['leader', 'standby'].map((memberId) => Member.start({ brokers: bootstrap, topic, memberId, ...long })),
      )
      if (leader === undefined || standby === undefined) throw new Error('no members')
      const led = await leader.acquire(role)
      const next = standby.acquire(role)
      await seenWaiting(leader, role, 'standby')
      const before = await lookAt(bootstrap, role)
      const operator = clientOf('operator')
      const calledAt = performance.now()
      const ended = await operator.depose(role)
      const deposedMs = performance.now() - calledAt
      expect({ holder: ended.holder, token: ended.token?.toString() }).toEqual({ holder: 'leader', token: led.token })
      const { term, at: _ } = await next
      tell(
        `${name}: deposed in ${deposedMs.toFixed(0)} ms, the next led ${(performance.now() - calledAt).toFixed(0)} ms after the call`,
      )
      expect(performance.now() - calledAt).toBeLessThan(5_000)
      expect(BigInt(term)).toBeGreaterThan(BigInt(led.term))
      expect(await leader.failureOf({ do: 'send', role, record: oneRecord(commands, 'late') })).toMatchObject({
        code: 'FENCED',
      })
      expect(await operator.checkToken(role, led.token)).toBe('superseded')
      const after = await lookAt(bootstrap, role)
      expect(after.producerId).toBe(before.producerId)
      // Two of the operator, two of the successor.
      expect(after.producerEpoch - before.producerEpoch).toBe(4)
      const now = await operator.describe(role)
      expect(now).toMatchObject({ holder: 'standby', current: true, roster: [] })
      await leader.end()
      await standby.end()
    })

    test('sends whoever leads for ever to the end of the queue', async () => {
      const role = freshName('deposed')
      const works: string[] = []
      const stop = new AbortController()
      const loops = ['one', 'two'].map((memberId) =>
        clientOf(memberId).lead(
          role,
          async (leadership) => {
            works.push(memberId)
            await aborted(leadership.signal)
          },
          { signal: stop.signal },
        ),
      )
      const operator = clientOf('operator')
      const told = new Told(operator.watch(role))
      const isSettled = async (): Promise<boolean> => {
        const { holder, roster } = await operator.describe(role)
        return holder !== undefined && roster.length === 1
      }
      while (!(await isSettled()));
      const [first] = works
      await operator.depose(role)
      const second = first === 'one' ? 'two' : 'one'
      await told.next(isHeldBy(second))
      while (!(await isSettled()));
      expect(works).toEqual([first, second])
      expect((await operator.describe(role)).roster).toMatchObject([{ memberId: first }])
      stop.abort()
      await Promise.all(loops)
    })

    test("ends another implementation's term, in the middle of a transaction too, and the next leads at once", async () => {
      const role = freshName('deposed')
      const { bootstrap } = cluster()
      const [commands, operator] = [await guardedTopic(bootstrap), clientOf('operator')]
      expect((await operator.describe(role)).state).toBe('vacant')
      const java = await JavaMember.start({ bootstrap, role, memberId: 'java' })
      undo.push(() => java.discard())
      await java.call({ do: 'init' })
      const minted = String(await java.call({ do: 'token' }))
      const partition = rolePartition(parseRole(role), 16)
      await java.call({ do: 'register', topic, partition })
      await java.call({ do: 'begin' })
      await java.call({ do: 'lease', topic, partition, leaseMs: long.leaseMs })
      await java.call({ do: 'commit' })
      const told = new Told(operator.watch(role))
      const { authority } = await told.next(({ holder }) => holder === 'java')
      expect(authority).toBe('current')
      await java.call({ do: 'begin' })
      await java.call({ do: 'send', topic: commands, key: 'k', value: 'late' })
      const ended = await operator.depose(role)
      expect(ended).toMatchObject({ holder: 'java', authority: 'current' })
      await java.failureOf({ do: 'commit' })
      expect(await operator.checkToken(role, minted)).not.toBe('current')
      const from = performance.now()
      const leadership = await clientOf('next').acquire(role)
      expect(performance.now() - from, 'nobody is waited for').toBeLessThan(5_000)
      await told.next(isHeldBy('next'))
      expect(states(told)).not.toContain('expired java')
      await leadership.renew()
      expect((await operator.describe(role)).roster).toEqual([])
    })

    test('of a role that nobody holds changes nothing that anybody would see', async () => {
      const role = freshName('vacant')
      const operator = clientOf('operator')
      expect((await operator.depose(role)).state).toBe('vacant')
      expect((await operator.describe(role)).state).toBe('vacant')
      await expect(clientOf('member').acquire(role)).resolves.toMatchObject({ role })
    })
  })
})

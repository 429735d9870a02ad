/**
 * `lead` on a real broker: one work at a time, contending again after each kind of loss, and every way out of it.
 */
import { setTimeout as delay } from 'node:timers/promises'
import { Kafka, logLevel } from 'kafkajs'
import { afterEach, beforeAll, describe, expect, test } from 'vitest'
import { readCommittedLog } from '../../examples/demo/raw-log.js'
import { type ClientOptions, CoordinationClient, isCoordinationError, type Leadership } from '../../src/index.js'
import { describeWithKafka, freshName } from '../kafka/suites.js'
import { Child } from '../support/child.js'
import { registeredMembers, roleInLog } from '../support/coordination-topic.js'
import { tell } from '../support/form.js'
import { type Fault, type FrameProxy, type ProxiedRequest, startFrameProxy } from '../support/frame-proxy.js'
import { mintByHand } from '../support/look.js'
import { makeTopics } from '../support/topics.js'

/** From the end of a term to the next work: the aim is a second at most where nobody else contends. */
const regainMs = 1_000

interface Term {
  readonly leadership: Leadership
  readonly startedAt: number
  /** When its signal aborted. */
  readonly ended: Promise<number>
}

/** Records the works that `lead` runs. */
class Works {
  readonly terms: Term[] = []
  running = 0
  mostRunning = 0
  readonly #waiting: { readonly n: number; readonly resolve: (term: Term) => void }[] = []

  /** Notes the beginning of a work; the returned function notes its end. */
  begin(leadership: Leadership): () => void {
    this.running += 1
    this.mostRunning = Math.max(this.mostRunning, this.running)
    const term = { leadership, startedAt: performance.now(), ended: aborted(leadership.signal) }
    this.terms.push(term)
    for (const { n, resolve } of this.#waiting) if (n === this.terms.length) resolve(term)
    return () => {
      this.running -= 1
    }
  }

  /** The n-th work's term, from 1, once it has begun. */
  term(n: number): Promise<Term> {
    const term = this.terms[n - 1]
    if (term !== undefined) return Promise.resolve(term)
    return new Promise((resolve) => this.#waiting.push({ n, resolve }))
  }
}

describeWithKafka('lead', { nodes: 1, transactionVersion: 2 }, (cluster) => {
  const topic = freshName('coordination')
  const commands = freshName('commands')
  const undo: (() => Promise<unknown>)[] = []

  beforeAll(async () => {
    await makeTopics(cluster().bootstrap, [{ topic: commands, numPartitions: 1 }])
  })

  afterEach(async () => {
    for (const step of undo.splice(0).reverse()) await step()
  })

  function clientOf(
    options: Partial<ClientOptions>,
    bootstrap: readonly string[] = cluster().bootstrap,
  ): CoordinationClient {
    const kafka = new Kafka({ brokers: [...bootstrap], logLevel: logLevel.NOTHING })
    const client = new CoordinationClient({ kafka, topic, ...options })
    undo.push(() => client.close())
    return client
  }

  async function proxied(): Promise<FrameProxy> {
    const proxy = await startFrameProxy(cluster().bootstrap)
    undo.push(() => proxy.close())
    return proxy
  }

  async function committedValues(): Promise<readonly string[]> {
    const log = await readCommittedLog(cluster().bootstrap, commands)
    return log.filter(({ outcome }) => outcome === 'committed').map(({ value }) => String(value))
  }

  async function expectResigned(role: string): Promise<void> {
    const inLog = await roleInLog(cluster().bootstrap, topic, role)
    expect(inLog.leases.at(-1)?.token, 'the lease ends with a tombstone').toBeUndefined()
    expect(registeredMembers(inLog)).toEqual([])
  }

  const write = (leadership: Leadership, value: string): Promise<unknown> =>
    leadership.send({ topic: commands, messages: [{ value }] })

  describe('after a loss', () => {
    test('aborts the work, contends only when it has settled, and never runs two', async () => {
      const role = freshName('lead')
      const client = clientOf({ memberId: 'leader', leaseMs: 3_000 })
      const other = clientOf({ memberId: 'other', leaseMs: 3_000 })
      const works = new Works()
      let settle = (): void => undefined
      const mayEnd = new Promise<void>((resolve) => {
        settle = resolve
      })
      const stop = new AbortController()
      const leading = client.lead(
        role,
        async (leadership) => {
          const end = works.begin(leadership)
          await works.terms.at(-1)?.ended
          await mayEnd
          end()
        },
        { signal: stop.signal },
      )
      const first = await works.term(1)
      await mintByHand(cluster().bootstrap, role)
      await expect(write(first.leadership, 'after a mint')).rejects.toMatchObject({
        code: 'FENCED',
        reason: 'external-mint',
      })
      expect(first.leadership.signal.reason).toMatchObject({ code: 'FENCED' })
      expect(first.leadership.remainingMs()).toBe(0)

      // Somebody else can win now only because the work that has not settled yet keeps its process out.
      const elsewhere = await other.acquire(role)
      expect(works.terms).toHaveLength(1)
      settle()
      expect(await elsewhere.resign()).toBe('resigned')
      const second = await works.term(2)
      expect(second.leadership.term).toBeGreaterThan(elsewhere.term)
      expect(elsewhere.term).toBeGreaterThan(first.leadership.term)
      expect(second.leadership).not.toBe(first.leadership)

      for (const n of [2, 3]) {
        const lost = await works.term(n)
        await mintByHand(cluster().bootstrap, role)
        await expect(lost.leadership.renew()).rejects.toMatchObject({ code: 'FENCED' })
        expect((await works.term(n + 1)).leadership.term).toBeGreaterThan(lost.leadership.term)
      }
      stop.abort()
      expect(await leading).toBeUndefined()
      expect(works.mostRunning).toBe(1)
      expect(works.running).toBe(0)
      expect(await committedValues()).not.toContain('after a mint')
      await expectResigned(role)
    })

    test('does not take an error that the work threw on its way out for its own', async () => {
      const role = freshName('lead')
      const client = clientOf({ memberId: 'leader', leaseMs: 3_000 })
      const works = new Works()
      const leading = client.lead(role, async (leadership) => {
        const end = works.begin(leadership)
        try {
          if (works.terms.length === 2) return 'second'
          await works.terms.at(-1)?.ended
          throw new Error('could not clean up')
        } finally {
          end()
        }
      })
      await works.term(1)
      await mintByHand(cluster().bootstrap, role)
      expect(await leading).toBe('second')
      expect(works.mostRunning).toBe(1)
    })
  })

  describe('after an answer was lost', () => {
    const lease = { leaseMs: 6_000, renewIntervalMs: 4_000, staggerMs: 500, requestTimeoutMs: 500 }

    /** Leads through a proxy, writes once, lays the fault, writes `value`, and waits for the next work. */
    async function loseAnswer(
      role: string,
      value: string,
      matches: (request: ProxiedRequest) => boolean,
      { fault, times }: { readonly fault: Fault; readonly times: number },
    ): Promise<{ readonly sent: PromiseSettledResult<unknown>; readonly reason: unknown; readonly gapMs: number }> {
      const proxy = await proxied()
      const client = clientOf({ memberId: freshName('leader'), ...lease }, proxy.bootstrap)
      const works = new Works()
      const stop = new AbortController()
      const leading = client.lead(
        role,
        async (leadership) => {
          const end = works.begin(leadership)
          await aborted(leadership.signal)
          end()
        },
        { signal: stop.signal },
      )
      const { leadership, ended } = await works.term(1)
      // The fault meets a term that has renewed and written.
      await leadership.renew()
      await write(leadership, `${value}: before`)
      const rule = proxy.rule({ when: matches, times }, fault)
      void ended.then(() => rule.remove())
      const [sent] = await Promise.allSettled([write(leadership, value)])
      const endedAt = await ended
      const next = await works.term(2)
      const gapMs = next.startedAt - endedAt
      expect(rule.treated.length).toBeGreaterThan(0)
      expect(next.leadership.term).toBeGreaterThan(leadership.term)
      await next.leadership.renew()
      stop.abort()
      expect(await leading).toBeUndefined()
      expect(works.mostRunning).toBe(1)
      await expectResigned(role)
      tell(`lead leads again ${gapMs.toFixed(0)} ms after the end of a term by ${codeOf(leadership.signal.reason)}`)
      return { sent, reason: leadership.signal.reason, gapMs }
    }

    test('to EndTxn, which was applied: the send is told the truth, the term ends, and lead leads again at once', async () => {
      const role = freshName('lead')
      const { sent, reason, gapMs } = await loseAnswer(
        role,
        'committed for certain',
        (request) => request.api === 'EndTxn' && request.mentions(role),
        { fault: { do: 'dropAnswer' }, times: 1 },
      )
      expect(sent.status).toBe('fulfilled')
      expect(reason).toMatchObject({ code: 'TERM_ENDED', role })
      expect(gapMs).toBeLessThan(regainMs)
      expect((await committedValues()).filter((value) => value === 'committed for certain')).toHaveLength(1)
    })

    test('to EndTxn for good: the send is COMMIT_UNKNOWN, which is what it is', async () => {
      const role = freshName('lead')
      const { sent, reason, gapMs } = await loseAnswer(
        role,
        'nobody knows',
        (request) => request.api === 'EndTxn' && request.mentions(role),
        { fault: { do: 'dropAnswer' }, times: Number.POSITIVE_INFINITY },
      )
      expect(sent).toMatchObject({ status: 'rejected', reason: { code: 'COMMIT_UNKNOWN', role } })
      expect(isCoordinationError(reason)).toBe(true)
      expect(reason).toMatchObject({ code: expect.stringMatching(/^(TERM_ENDED|LEASE_EXPIRED)$/) })
      expect(gapMs).toBeLessThan(regainMs)
      expect((await committedValues()).filter((value) => value === 'nobody knows')).toHaveLength(1)
    })

    test.each([
      { what: 'never arrived', fault: { do: 'drop' } },
      { what: 'was applied', fault: { do: 'dropAnswer' } },
    ] as const)('to Produce, which $what: nothing is visible, and lead leads again at once', async ({ fault }) => {
      const role = freshName('lead')
      const value = `never answered, ${fault.do}`
      const { sent, reason, gapMs } = await loseAnswer(
        role,
        value,
        (request) => request.api === 'Produce' && request.mentions(commands),
        { fault, times: Number.POSITIVE_INFINITY },
      )
      expect(sent).toMatchObject({
        status: 'rejected',
        reason: { code: expect.stringMatching(/^(TRANSACTION_ABORTED|TERM_ENDED)$/) },
      })
      expect(reason).toMatchObject({ code: 'TERM_ENDED', role })
      expect(gapMs).toBeLessThan(regainMs)
      expect(await committedValues()).not.toContain(value)
    })
  })

  describe('ends', () => {
    test('with what the work returned, resigned', async () => {
      const role = freshName('lead')
      const result = await clientOf({}).lead(role, async (leadership) => {
        await write(leadership, `${role} once`)
        return { done: leadership.term }
      })
      expect(result?.done).toBeGreaterThanOrEqual(0n)
      await expectResigned(role)
    })

    test('with what the work threw, resigned', async () => {
      const role = freshName('lead')
      const failure = new Error('the work is broken')
      const leading = clientOf({}).lead(role, async () => {
        throw failure
      })
      await expect(leading).rejects.toBe(failure)
      await expectResigned(role)
    })

    test('with what the work threw before its first await, and with a work that resigned of itself', async () => {
      const role = freshName('lead')
      const client = clientOf({})
      const failure = new Error('at once')
      const leading = client.lead(role, () => {
        throw failure
      })
      await expect(leading).rejects.toBe(failure)
      expect(await client.lead(role, async (leadership) => await leadership.resign())).toBe('resigned')
      await expectResigned(role)
    })

    test('when its caller aborts: the work is told, may still write, is waited for, and then it resigns', async () => {
      const role = freshName('lead')
      const client = clientOf({ leaseMs: 10_000 })
      const works = new Works()
      const stop = new AbortController()
      const leading = client.lead(
        role,
        async (leadership) => {
          const end = works.begin(leadership)
          await aborted(leadership.signal)
          expect(leadership.remainingMs()).toBeGreaterThan(0)
          await leadership.transact((transaction) =>
            transaction.send({ topic: commands, messages: [{ value: `${role} last words` }] }),
          )
          await leadership.renew()
          end()
          return 'said'
        },
        { signal: stop.signal },
      )
      const { leadership } = await works.term(1)
      const reason = new Error('time to go')
      stop.abort(reason)
      expect(await leading).toBe('said')
      expect(leadership.signal.reason).toBe(reason)
      expect(works.running).toBe(0)
      expect(await committedValues()).toContain(`${role} last words`)
      await expect(write(leadership, 'too late')).rejects.toMatchObject({ code: 'RESIGNED' })
      await expectResigned(role)
    })

    test('when its caller aborts and the work does not heed it: after a lease, resigned', async () => {
      const role = freshName('lead')
      const leaseMs = 1_000
      const stop = new AbortController()
      const works = new Works()
      const leading = clientOf({ leaseMs }).lead(
        role,
        async (leadership) => {
          works.begin(leadership)
          await new Promise(() => undefined)
        },
        { signal: stop.signal },
      )
      await works.term(1)
      const abortedAt = performance.now()
      stop.abort(new Error('time to go'))
      expect(await leading).toBeUndefined()
      expect(performance.now() - abortedAt).toBeGreaterThanOrEqual(leaseMs)
      await expectResigned(role)
    })

    test('when its caller aborts while somebody else leads: at once, and takes its registration back', async () => {
      const role = freshName('lead')
      const holder = await clientOf({ memberId: 'holder' }).acquire(role)
      const stop = new AbortController()
      const leading = clientOf({ memberId: 'waiting' }).lead(role, async () => 'never', { signal: stop.signal })
      while (!registeredMembers(await roleInLog(cluster().bootstrap, topic, role)).includes('waiting')) await delay(20)
      stop.abort()
      expect(await leading).toBeUndefined()
      expect(registeredMembers(await roleInLog(cluster().bootstrap, topic, role))).toEqual(['holder'])
      await holder.renew()
    })

    test('before it begins, when its signal was aborted already', async () => {
      const role = freshName('lead')
      const leading = clientOf({}).lead(role, async () => 'never', { signal: AbortSignal.abort() })
      expect(await leading).toBeUndefined()
    })

    test('when the client is closed: works are told with CLOSED and waited for, roles resigned', async () => {
      const client = clientOf({ memberId: 'many' })
      const roles = Array.from({ length: 12 }, () => freshName('lead'))
      const works = new Works()
      const warnings: Error[] = []
      const onWarning = (warning: Error): void => {
        warnings.push(warning)
      }
      process.on('warning', onWarning)
      undo.push(async () => process.off('warning', onWarning))
      const stop = new AbortController()
      const leading = roles.map((role) =>
        client.lead(
          role,
          async (leadership) => {
            const end = works.begin(leadership)
            await aborted(leadership.signal)
            expect(leadership.signal.reason).toMatchObject({ code: 'CLOSED' })
            await write(leadership, `${role} closing`)
            end()
            return role
          },
          { signal: stop.signal },
        ),
      )
      await works.term(roles.length)
      await client.close()
      expect(works.running).toBe(0)
      expect(await Promise.all(leading)).toEqual(roles)
      const visible = await committedValues()
      for (const role of roles) {
        expect(visible).toContain(`${role} closing`)
        await expectResigned(role)
      }
      expect(warnings).toEqual([])
      await expect(client.lead('any', async () => undefined)).rejects.toMatchObject({ code: 'CLOSED' })
    })
  })

  describe('of two processes with one memberId', () => {
    async function younger(role: string): Promise<Child> {
      const { bootstrap } = cluster()
      const settings = JSON.stringify({ bootstrap, topic, commands, leaseMs: 10_000 })
      const child = Child.start('test/client/programs/race-member.js', { arguments: [settings] })
      undo.push(() => child.kill())
      child.send({ do: 'prepare', memberId: 'same' })
      await child.next('ready')
      child.send({ do: 'contend', role, write: true })
      return child
    }

    async function endWell(child: Child): Promise<void> {
      child.send({ do: 'stop' })
      expect(await child.next('stopped')).toMatchObject({ outcome: 'resigned' })
      child.endInput()
      expect(await child.ended).toEqual({ code: 0, signal: null })
      expect(child.events.filter(({ event }) => event === 'refused')).toEqual([])
    }

    test('the older, which leads, ends with SUPERSEDED and does not come back', async () => {
      const role = freshName('same')
      const client = clientOf({ memberId: 'same', leaseMs: 10_000 })
      const works = new Works()
      const leading = client.lead(role, async (leadership) => {
        works.begin(leadership)
        await aborted(leadership.signal)
      })
      leading.catch(() => undefined)
      const { leadership } = await works.term(1)
      const child = await younger(role)
      await expect(leading).rejects.toMatchObject({ code: 'SUPERSEDED', role, member: 'same' })
      expect(leadership.signal.reason).toMatchObject({ code: 'SUPERSEDED' })
      await expect(write(leadership, 'superseded')).rejects.toMatchObject({ code: 'SUPERSEDED' })

      const led = await child.next('led')
      expect(BigInt(String(led.term))).toBeGreaterThan(leadership.term)
      await client.close()
      const inLog = await roleInLog(cluster().bootstrap, topic, role)
      expect(registeredMembers(inLog), 'the older leaves the registration to the younger').toEqual(['same'])
      await endWell(child)
      expect(works.terms).toHaveLength(1)
      expect(await committedValues()).not.toContain('superseded')
      await expectResigned(role)
    })

    test('the older, which waits, is rejected with SUPERSEDED, and the younger leads in its time', async () => {
      const role = freshName('same')
      const holder = await clientOf({ memberId: 'holder' }).acquire(role)
      const waiting = clientOf({ memberId: 'same', leaseMs: 10_000 }).acquire(role)
      waiting.catch(() => undefined)
      while (!registeredMembers(await roleInLog(cluster().bootstrap, topic, role)).includes('same')) await delay(20)
      const child = await younger(role)
      await expect(waiting).rejects.toMatchObject({ code: 'SUPERSEDED', role, member: 'same' })
      expect(await holder.resign()).toBe('resigned')
      await child.next('led')
      await endWell(child)
      await expectResigned(role)
    })
  })
})

function codeOf(error: unknown): string {
  return isCoordinationError(error) ? error.code : String(error)
}

/** When the signal aborts: the instant, by the monotonic clock. */
function aborted(signal: AbortSignal): Promise<number> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve(performance.now())
    else signal.addEventListener('abort', () => resolve(performance.now()), { once: true })
  })
}

/** `lead`: one work at a time, contended for again after a loss, wound up on the caller's abort. */
import { describe, expect, test } from 'vitest'
import { leadForEver } from '../../src/client/lead.js'
import type { Leadership } from '../../src/client/leadership.js'
import type { CoordinationError } from '../../src/errors.js'
import { coordinationError } from '../../src/errors.js'
import { watched } from '../cluster/support.js'
import { ManualRuntime } from '../support/manual-runtime.js'

const details = { role: 'r', member: 'm', token: '1:1', term: 1n }
const lossOf = (code: 'FENCED' | 'TERM_ENDED' | 'LEASE_EXPIRED'): CoordinationError =>
  code === 'FENCED'
    ? coordinationError('FENCED', code, { ...details, reason: 'takeover' })
    : coordinationError(code, code, details)

/** As much of a leadership as `lead` touches. */
class Term {
  readonly #work = new AbortController()
  ended: CoordinationError | undefined
  resigned = 0
  readonly leaseMs = 9_000

  get signal(): AbortSignal {
    return this.#work.signal
  }

  abortWork(reason: unknown): void {
    this.#work.abort(reason)
  }

  lose(error: CoordinationError): void {
    this.ended = error
    this.#work.abort(error)
  }

  async resign(): Promise<string> {
    this.resigned += 1
    return 'resigned'
  }
}

function begin(
  work: (term: Term) => Promise<unknown>,
  acquire: (signal: AbortSignal) => Promise<unknown> = async () => undefined,
) {
  const runtime = new ManualRuntime()
  const abort = new AbortController()
  const terms: { readonly term: Term; readonly at: number }[] = []
  const dropped: unknown[] = []
  let working = 0
  let mostWorking = 0
  const led = watched(
    leadForEver(
      {
        runtime,
        acquire: async (signal) => {
          await acquire(signal)
          const term = new Term()
          terms.push({ term, at: runtime.monotonicNow() })
          return term as unknown as Leadership
        },
        tellDropped: (error) => dropped.push(error),
      },
      async (leadership) => {
        working += 1
        mostWorking = Math.max(mostWorking, working)
        try {
          return await work(leadership as unknown as Term)
        } finally {
          working -= 1
        }
      },
      abort.signal,
    ),
  )
  const last = (): Term => {
    const { term } = terms.at(-1) ?? {}
    if (term === undefined) throw new Error('nothing was led')
    return term
  }
  return { runtime, abort, terms, dropped, led, last, mostWorking: () => mostWorking }
}

const aborted = (term: Term): Promise<void> =>
  new Promise((resolve) => term.signal.addEventListener('abort', () => resolve()))

describe('lead', () => {
  test('resigns and resolves with the value when the work returns', async () => {
    const { runtime, led, last } = begin(async () => 'value')
    await runtime.pass(0)
    expect(led.now()).toEqual({ state: 'fulfilled', value: 'value' })
    expect(last().resigned).toBe(1)
  })

  test('resigns and rejects with the error when the work throws', async () => {
    const error = new Error('mine')
    const { runtime, led, last } = begin(() => Promise.reject(error))
    await runtime.pass(0)
    expect(led.now().error).toBe(error)
    expect(last().resigned).toBe(1)
  })

  test('waits after a loss until the work settled, then contends again: never two works', async () => {
    let settle: () => void = () => undefined
    const { runtime, terms, last, mostWorking } = begin(
      () =>
        new Promise<void>((resolve) => {
          settle = resolve
        }),
    )
    await runtime.pass(0)
    last().lose(lossOf('FENCED'))
    await runtime.pass(60_000)
    expect(terms).toHaveLength(1)
    settle()
    await runtime.pass(200)
    expect(terms).toHaveLength(2)
    expect(mostWorking()).toBe(1)
  })

  test('contends again at once after TERM_ENDED, and after other losses on a back-off that grows to 5 s', async () => {
    const { runtime, terms, last } = begin(aborted)
    await runtime.pass(0)
    last().lose(lossOf('TERM_ENDED'))
    await runtime.pass(0)
    expect(terms).toHaveLength(2)
    const waits: number[] = []
    for (let loss = 0; loss < 10; loss++) {
      const lostAt = runtime.monotonicNow()
      const before = terms.length
      last().lose(lossOf('FENCED'))
      await runtime.passUntil(() => terms.length > before, 6_000)
      waits.push((terms.at(-1)?.at ?? 0) - lostAt)
    }
    expect(waits[0]).toBeLessThanOrEqual(100)
    expect(waits).toEqual(waits.toSorted((one, other) => one - other))
    expect(waits.at(-1)).toBeGreaterThanOrEqual(2_500)
    expect(waits.at(-1)).toBeLessThanOrEqual(5_000)
  })

  test('forgets old losses once a term has lasted', async () => {
    const { runtime, terms, last } = begin(aborted)
    await runtime.pass(0)
    for (let loss = 0; loss < 8; loss++) {
      const before = terms.length
      last().lose(lossOf('LEASE_EXPIRED'))
      await runtime.passUntil(() => terms.length > before, 6_000)
    }
    await runtime.pass(20_000)
    const before = terms.length
    last().lose(lossOf('LEASE_EXPIRED'))
    await runtime.pass(101)
    expect(terms).toHaveLength(before + 1)
  })

  test.each([
    coordinationError('SUPERSEDED', 'x', { role: 'r', member: 'm' }),
    coordinationError('UNAUTHORIZED', 'x', { operation: 'Write', resource: 'r' }),
    coordinationError('TOPIC', 'x', { topic: 't' }),
  ])('rejects when the term ends with $code, once the work settled', async (error) => {
    const { runtime, led, last } = begin(aborted)
    await runtime.pass(0)
    last().lose(error)
    await runtime.pass(0)
    expect(led.now().error).toBe(error)
  })

  test('tells of what a work threw after its term had ended, and goes on', async () => {
    const error = new Error('mine')
    let works = 0
    const { runtime, dropped, terms, last } = begin(async (term) => {
      works += 1
      await aborted(term)
      if (works === 1) throw error
      throw term.ended
    })
    await runtime.pass(0)
    last().lose(lossOf('FENCED'))
    await runtime.pass(200)
    expect(dropped).toEqual([error])
    last().lose(lossOf('FENCED'))
    await runtime.pass(300)
    expect(dropped).toEqual([error])
    expect(terms).toHaveLength(3)
  })

  test('aborts the work’s signal with the caller’s reason, lets it settle, resigns, and resolves', async () => {
    const reasons: unknown[] = []
    const { runtime, abort, led, last } = begin(async (term) => {
      await aborted(term)
      reasons.push(term.signal.reason)
      await new Promise<void>((resolve) => runtime.setTimer(500, resolve))
      return 'wound up'
    })
    await runtime.pass(0)
    const reason = new Error('stop')
    abort.abort(reason)
    await runtime.pass(400)
    expect(last().resigned).toBe(0)
    expect(led.now().state).toBe('pending')
    await runtime.pass(200)
    expect(reasons).toEqual([reason])
    expect(last().resigned).toBe(1)
    expect(led.now()).toEqual({ state: 'fulfilled', value: 'wound up' })
    expect(runtime.pendingTimers).toBe(0)
  })

  test('waits for a work that does not stop no longer than a lease', async () => {
    const { runtime, abort, led, last } = begin(() => new Promise<void>(() => undefined))
    await runtime.pass(0)
    abort.abort(new Error('stop'))
    await runtime.pass(8_900)
    expect(led.now().state).toBe('pending')
    await runtime.pass(200)
    expect(led.now()).toEqual({ state: 'fulfilled', value: undefined })
    expect(last().resigned).toBe(1)
  })

  test('resolves when it is aborted while it contends, and rejects with what contending rejects with', async () => {
    const stopped = begin(aborted, (signal) => {
      return new Promise((_resolve, reject) => signal.addEventListener('abort', () => reject(signal.reason)))
    })
    await stopped.runtime.pass(0)
    stopped.abort.abort(new Error('stop'))
    await stopped.runtime.pass(0)
    expect(stopped.led.now()).toEqual({ state: 'fulfilled', value: undefined })
    const error = coordinationError('CONFIG', 'x', {})
    const refused = begin(aborted, () => Promise.reject(error))
    await refused.runtime.pass(0)
    expect(refused.led.now().error).toBe(error)
  })
})

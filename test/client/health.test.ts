/** What a client tells of its roles, and when that is not healthy. */
import { describe, expect, test } from 'vitest'
import type { TermHealth } from '../../src/client/health.js'
import { HealthBook } from '../../src/client/health.js'
import { leasePolicy } from '../../src/election/policy.js'
import { coordinationError } from '../../src/errors.js'
import { parseRole } from '../../src/format/names.js'
import { FencingToken } from '../../src/format/token.js'
import { ManualRuntime } from '../support/manual-runtime.js'

const policy = leasePolicy({ leaseMs: 10_000 })
const role = parseRole('controller')
const token = FencingToken.of(4242n, 7)
const fenced = coordinationError('TERM_ENDED', 'the term ended', {
  role,
  member: 'm',
  token: token.toString(),
  term: 9n,
})

function begin() {
  const runtime = new ManualRuntime()
  const book = new HealthBook(runtime, 6_000)
  let heardAt: number | undefined = runtime.monotonicNow()
  const campaign = book.campaign(role, policy, () => heardAt)
  return {
    runtime,
    book,
    campaign,
    heard: (at: number | undefined) => {
      heardAt = at
    },
    told: () => book.health(true).roles[0],
  }
}

const termOf = (fields: Partial<TermHealth>): TermHealth => ({
  token,
  term: 9n,
  remainingMs: 9_000,
  confirmedMsAgo: 1_000,
  lastFailure: undefined,
  ...fields,
})

describe('a standby', () => {
  test('that hears its partition is healthy', async () => {
    const { runtime, book, heard, told } = begin()
    await runtime.pass(60_000)
    heard(runtime.monotonicNow() - 4_000)
    expect(told()).toEqual({ role, activity: 'standing-by', isHealthy: true, heardMsAgo: 4_000 })
    expect(book.health(true).isHealthy).toBe(true)
    expect(book.health(false).isHealthy, 'of a closed client').toBe(false)
  })

  test.each([
    [16_000, true],
    [16_001, false],
  ])('whose partition is silent for %d ms: healthy %s', async (ms, isHealthy) => {
    const { runtime, told } = begin()
    await runtime.pass(ms)
    expect(told()?.isHealthy).toBe(isHealthy)
    if (!isHealthy) expect(told()?.problem).toMatch('has not answered for 16001 ms')
  })

  test('that never heard it counts from its beginning', async () => {
    const { runtime, heard, told } = begin()
    heard(undefined)
    await runtime.pass(16_001)
    expect(told()).toMatchObject({ isHealthy: false, problem: expect.stringMatching('has not answered') })
    expect(told()?.heardMsAgo).toBeUndefined()
  })

  test('that fails is unhealthy after a lease length without a success', async () => {
    const { runtime, campaign, heard, told } = begin()
    const fail = async (ms: number): Promise<void> => {
      campaign.failed(new Error('no coordinator'))
      await runtime.pass(ms)
      heard(runtime.monotonicNow())
    }
    for (let second = 0; second < 10; second++) await fail(1_000)
    expect(told()?.isHealthy).toBe(true)
    await fail(1)
    expect(told()).toMatchObject({
      isHealthy: false,
      problem: 'it has failed for 10001 ms without a step that succeeded',
      lastError: { message: 'no coordinator', msAgo: 1 },
    })
    campaign.succeeded()
    expect(told()).toMatchObject({ isHealthy: true, lastError: { message: 'no coordinator' } })
  })

  test('whose contention ended of itself is not healthy until another begins', () => {
    const { book, campaign, told } = begin()
    campaign.stopped(coordinationError('SUPERSEDED', 'a later process', { role, member: 'm' }))
    expect(told()).toMatchObject({
      activity: 'stopped',
      isHealthy: false,
      problem: 'nothing contends for the role any more',
      lastError: { code: 'SUPERSEDED', message: 'a later process' },
    })
    book.campaign(role, policy, () => undefined)
    expect(told()).toMatchObject({ activity: 'standing-by', isHealthy: true })
    campaign.gone()
    expect(told(), 'the end of the earlier one says nothing of it').toMatchObject({ activity: 'standing-by' })
  })

  test('that was asked to stop is not told of', () => {
    const { book, campaign } = begin()
    campaign.gone()
    expect(book.health(true)).toEqual({ isHealthy: true, roles: [] })
  })
})

describe('a leader', () => {
  test('that renews is healthy, and prints', () => {
    const { campaign, told } = begin()
    campaign.led(() => termOf({}))
    expect(told()).toMatchObject({ activity: 'leading', isHealthy: true, token, term: 9n, remainingMs: 9_000 })
    expect(JSON.parse(JSON.stringify(told()))).toMatchObject({ term: '9', token: '4242:7' })
  })

  test.each([
    [{ confirmedMsAgo: 5_000 }, undefined],
    [{ confirmedMsAgo: 5_001 }, 'no renewal was confirmed for 5001 ms, more than half its lease'],
    [{ remainingMs: 0 }, 'its lease is not certain any more'],
  ])('with %o has the problem %s', (fields, problem) => {
    const { campaign, told } = begin()
    campaign.led(() => termOf(fields))
    expect(told()?.problem).toBe(problem)
    expect(told()?.isHealthy).toBe(problem === undefined)
  })

  test('tells why its last transaction failed', () => {
    const { campaign, told } = begin()
    const lastFailure = { error: new Error('a broker is away'), msAgo: 300 }
    campaign.led(() => termOf({ confirmedMsAgo: 3_000, lastFailure }))
    expect(told()?.lastError).toEqual({ message: 'a broker is away', msAgo: 300 })
  })

  test('by lead() that lost its term is healthy for as long as the next begins soon', async () => {
    const { runtime, book, campaign, told } = begin()
    const ended = book.leadsForEver(role)
    campaign.led(() => termOf({}))
    campaign.stopped(fenced)
    await runtime.pass(10_000)
    expect(told()).toMatchObject({
      activity: 'between-terms',
      isHealthy: true,
      lastError: { code: 'TERM_ENDED', msAgo: 10_000 },
    })
    await runtime.pass(1)
    expect(told()).toMatchObject({
      isHealthy: false,
      problem: 'its term ended 10001 ms ago and its work has not settled',
    })
    ended(false)
    expect(told()).toMatchObject({ activity: 'stopped', isHealthy: false })
  })

  test('by lead() that its caller ends between two terms is not told of any more', () => {
    const { book, campaign, told } = begin()
    const ended = book.leadsForEver(role)
    campaign.led(() => termOf({}))
    campaign.stopped(fenced)
    ended(true)
    expect(told()).toBeUndefined()
    expect(book.health(true).isHealthy).toBe(true)
  })

  test('of a lease shorter than the longest back-off of lead() has that long between two terms', async () => {
    const { runtime, book } = begin()
    book.leadsForEver(parseRole('short'))
    const campaign = book.campaign(parseRole('short'), leasePolicy({ leaseMs: 2_000 }), () => undefined)
    campaign.stopped(fenced)
    await runtime.pass(5_000)
    expect(book.health(true).roles.at(-1)).toMatchObject({ activity: 'between-terms', isHealthy: true })
  })
})

/** The client's options: defaults, and each check, all before any I/O. */
import { describe, expect, test } from 'vitest'
import {
  checkAcquireOptions,
  checkAskOptions,
  checkTransactOptions,
  checkWork,
  leaseOptionsOf,
  settingsOf,
} from '../../src/client/options.js'
import { ManualRuntime } from '../support/manual-runtime.js'

const kafka = {}

describe('the options', () => {
  test('that were not given are the documented defaults', () => {
    const settings = settingsOf({ kafka, runtime: new ManualRuntime() })
    expect(settings).toMatchObject({
      memberId: 'manual-1-00000000',
      topic: '__coordination_state',
      createTopic: true,
      partitions: 16,
      partitionsAreFixed: false,
      replicationFactor: undefined,
      policy: { leaseMs: 30_000, renewIntervalMs: 10_000, staggerMs: 5_000, transactionTimeoutMs: 30_000 },
      requestTimeoutMs: 5_000,
      maxQueuedBytes: 32 * 1024 * 1024,
      stampRecords: true,
      logger: undefined,
    })
  })

  test('that were given are taken', () => {
    const given = {
      kafka,
      memberId: 'pod-7',
      topic: 'leaders',
      createTopic: false,
      partitions: 4,
      replicationFactor: 2,
      leaseMs: 9_000,
      renewIntervalMs: 2_000,
      staggerMs: 100,
      transactionTimeoutMs: 60_000,
      requestTimeoutMs: 700,
      maxQueuedBytes: 1,
      stampRecords: false,
    }
    const { leaseMs, renewIntervalMs, staggerMs, transactionTimeoutMs, ...others } = given
    expect(settingsOf(given)).toMatchObject({
      ...others,
      partitionsAreFixed: true,
      policy: { leaseMs, renewIntervalMs, staggerMs, transactionTimeoutMs },
    })
  })

  test('leave lease lengths to be derived for a role that overrides one of them', () => {
    const { leaseOptions } = settingsOf({ kafka, leaseMs: 9_000 })
    expect(leaseOptions).toEqual({ leaseMs: 9_000 })
    expect(leaseOptionsOf({ staggerMs: 5 })).toEqual({ staggerMs: 5 })
  })

  test('cut a long process name to 249 bytes and keep its end, which tells processes apart', () => {
    const runtime = new ManualRuntime()
    runtime.processName = () => `${'hé'.repeat(200)}-77-0123abcd`
    const { memberId } = settingsOf({ kafka, runtime })
    expect(Buffer.byteLength(memberId)).toBeLessThanOrEqual(249)
    expect(memberId.endsWith('-77-0123abcd')).toBe(true)
  })

  test.each<[string, object]>([
    ['topic', { topic: '' }],
    ['topic', { topic: '.' }],
    ['topic', { topic: '..' }],
    ['topic', { topic: 'a b' }],
    ['topic', { topic: 'a'.repeat(250) }],
    ['topic', { topic: 5 }],
    ['createTopic', { createTopic: 'no' }],
    ['partitions', { partitions: 0 }],
    ['partitions', { partitions: 1.5 }],
    ['partitions', { partitions: '16' }],
    ['partitions', { partitions: 10_001 }],
    ['replicationFactor', { replicationFactor: 0 }],
    ['replicationFactor', { replicationFactor: 32_768 }],
    ['requestTimeoutMs', { requestTimeoutMs: 0 }],
    ['requestTimeoutMs', { requestTimeoutMs: Number.POSITIVE_INFINITY }],
    ['requestTimeoutMs', { requestTimeoutMs: Number.NaN }],
    ['maxQueuedBytes', { maxQueuedBytes: 0 }],
    ['maxQueuedBytes', { maxQueuedBytes: -1 }],
    ['stampRecords', { stampRecords: 1 }],
    ['leaseMs', { leaseMs: 0 }],
    ['leaseMs', { leaseMs: 900_001 }],
    ['leaseMs', { leaseMs: '30000' }],
    ['renewIntervalMs', { renewIntervalMs: 30_000 }],
    ['renewIntervalMs', { renewIntervalMs: 0 }],
    ['staggerMs', { staggerMs: 30_001 }],
    ['transactionTimeoutMs', { transactionTimeoutMs: 29_999 }],
    ['leaseMilliseconds', { leaseMilliseconds: 5 }],
  ])('refuse a bad %s: %j', (option, values) => {
    let error: unknown
    try {
      settingsOf({ kafka, ...values })
    } catch (thrown) {
      error = thrown
    }
    expect(error).toMatchObject({ code: 'CONFIG', option })
    expect(String(error)).toContain(option)
  })

  test.each([{ memberId: '' }, { memberId: 'a'.repeat(250) }, { memberId: '\ud800' }, { memberId: 5 }])(
    'refuse a bad memberId: %j',
    (values) => {
      expect(() => settingsOf({ kafka, ...values } as never)).toThrow(expect.objectContaining({ code: 'CONFIG' }))
    },
  )

  test.each([undefined, null, 'kafka', 5])('refuse to be %s', (options) => {
    expect(() => settingsOf(options as never)).toThrow(expect.objectContaining({ code: 'CONFIG', option: 'options' }))
  })
})

describe('a logger', () => {
  const whole = { debug() {}, info() {}, warn() {}, error() {} }

  test('with its four levels is taken as it is', () => {
    expect(settingsOf({ kafka, logger: whole }).logger).toBe(whole)
  })

  test.each([
    ['error', { ...whole, error: undefined }],
    ['debug', {}],
    ['debug', () => undefined],
    ['debug', null],
  ])('without %s is refused: it would swallow what it should tell', (level, logger) => {
    expect(() => settingsOf({ kafka, logger } as never)).toThrow(`${level} is missing`)
  })
})

describe('what describe and checkToken take', () => {
  test('is a signal and a time', () => {
    expect(() => checkAskOptions({ signal: new AbortController().signal, timeoutMs: 5 })).not.toThrow()
  })

  test.each([
    ['timeout', { timeout: 5 }],
    ['timeoutMs', { timeoutMs: 0 }],
    ['timeoutMs', { timeoutMs: '5' }],
    ['timeoutMs', { timeoutMs: Number.NaN }],
    ['signal', { signal: new AbortController() }],
    ['options', null],
    ['options', 5],
  ])('refuses a bad %s: %j', (option, options) => {
    expect(() => checkAskOptions(options as never)).toThrow(expect.objectContaining({ code: 'CONFIG', option }))
  })
})

describe('what transact takes', () => {
  test.each([
    ['timeout', { timeout: 5 }],
    ['timeoutMs', { timeoutMs: -1 }],
    ['timeoutMs', { timeoutMs: Number.POSITIVE_INFINITY }],
  ])('refuses a bad %s: %j', (option, options) => {
    expect(() => checkTransactOptions(options as never)).toThrow(expect.objectContaining({ code: 'CONFIG', option }))
    expect(() => checkTransactOptions({ timeoutMs: 5 })).not.toThrow()
  })

  test.each([undefined, null, {}, 'work'])('refuses %j as its work, as lead does', (work) => {
    expect(() => checkWork(work)).toThrow(expect.objectContaining({ code: 'CONFIG', option: 'work' }))
    expect(() => checkWork(() => undefined)).not.toThrow()
  })
})

describe('the options of acquire, tryAcquire and lead', () => {
  test('take no AbortController in place of its signal', () => {
    expect(() => checkAcquireOptions({ signal: new AbortController() })).toThrow(
      'signal is an object, wanted an AbortSignal',
    )
  })

  test('are the signal and the lease options, and no other', () => {
    const known = { signal: AbortSignal.abort(), leaseMs: 9, renewIntervalMs: 3, staggerMs: 1, transactionTimeoutMs: 9 }
    expect(() => checkAcquireOptions(known)).not.toThrow()
    const slip = { ...known, leaseMS: 9 }
    expect(() => checkAcquireOptions(slip)).toThrow(expect.objectContaining({ code: 'CONFIG', option: 'leaseMS' }))
  })
})

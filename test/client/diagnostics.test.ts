/** What the library tells about itself, and that a listener's fault is nobody else's. */
import diagnosticsChannel from 'node:diagnostics_channel'
import { afterEach, describe, expect, test } from 'vitest'
import type { DiagnosticMessages, Logger } from '../../src/client/diagnostics.js'
import { diagnosticChannelName, diagnosticsTo } from '../../src/client/diagnostics.js'
import { settled } from '../support/manual-runtime.js'

const resigned: DiagnosticMessages['resigned'] = {
  role: 'orders',
  member: 'm',
  token: '7:3',
  term: '12',
  durationMs: 5,
  outcome: 'resigned',
}

function logger(): Logger & { readonly lines: unknown[] } {
  const lines: unknown[] = []
  const at = (level: string) => (fields: object, message: string) => lines.push([level, fields, message])
  return { lines, debug: at('debug'), info: at('info'), warn: at('warn'), error: at('error') }
}

const channel = diagnosticsChannel.channel(diagnosticChannelName('resigned'))
const subscribed: diagnosticsChannel.ChannelListener[] = []

function subscribe(listener: diagnosticsChannel.ChannelListener): void {
  diagnosticsChannel.subscribe(diagnosticChannelName('resigned'), listener)
  subscribed.push(listener)
}

afterEach(() => {
  for (const listener of subscribed.splice(0)) {
    diagnosticsChannel.unsubscribe(diagnosticChannelName('resigned'), listener)
  }
})

describe('diagnostics', () => {
  test('publish each message on the channel of its name, and log it with its fields', () => {
    const seen: unknown[] = []
    subscribe((message, name) => seen.push([name, message]))
    const log = logger()
    diagnosticsTo(log).tell('resigned', resigned)
    expect(seen).toEqual([['mandate:resigned', resigned]])
    expect(log.lines).toEqual([['info', { component: 'mandate', event: 'resigned', ...resigned }, 'mandate resigned']])
  })

  test('without a logger and without subscribers do nothing', () => {
    expect(channel.hasSubscribers).toBe(false)
    diagnosticsTo(undefined).tell('resigned', resigned)
    diagnosticsTo(undefined).warn({}, 'x')
  })

  test('go on when the logger throws', () => {
    const seen: unknown[] = []
    subscribe((message) => seen.push(message))
    const throwing = (): never => {
      throw new Error('the disk is full')
    }
    const { tell, warn } = diagnosticsTo({ debug: throwing, info: throwing, warn: throwing, error: throwing })
    tell('resigned', resigned)
    warn({}, 'x')
    expect(seen).toEqual([resigned])
  })

  test('go on when the logger lacks a level, as a foreign object may', () => {
    diagnosticsTo({} as Logger).tell('resigned', resigned)
  })

  test('go on when the logger promises and breaks its promise', async () => {
    const unhandled: unknown[] = []
    const note = (reason: unknown): number => unhandled.push(reason)
    const before = process.listeners('unhandledRejection')
    process.removeAllListeners('unhandledRejection')
    process.on('unhandledRejection', note)
    try {
      const broken = (): unknown => Promise.reject(new Error('the disk is full'))
      const asynchronous = { debug: broken, info: broken, warn: broken, error: broken } as Logger
      diagnosticsTo(asynchronous).tell('resigned', resigned)
      diagnosticsTo(asynchronous).warn({}, 'x')
      await settled()
      expect(unhandled).toEqual([])
    } finally {
      process.removeListener('unhandledRejection', note)
      for (const listener of before) process.on('unhandledRejection', listener)
    }
  })

  test('go on when a subscriber throws; Node tells the process of it, and the others hear the message', async () => {
    const uncaught: unknown[] = []
    const seen: unknown[] = []
    const before = process.listeners('uncaughtException')
    process.removeAllListeners('uncaughtException')
    process.on('uncaughtException', (error) => uncaught.push(error))
    try {
      const fault = new Error('a subscriber at fault')
      subscribe(() => {
        throw fault
      })
      subscribe((message) => seen.push(message))
      const log = logger()
      diagnosticsTo(log).tell('resigned', resigned)
      await settled()
      expect(seen).toEqual([resigned])
      expect(log.lines).toHaveLength(1)
      expect(uncaught).toEqual([fault])
    } finally {
      process.removeAllListeners('uncaughtException')
      for (const listener of before) process.on('uncaughtException', listener)
    }
  })
})

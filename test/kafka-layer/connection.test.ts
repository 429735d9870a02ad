import { createHook } from 'node:async_hooks'
import { connect, Socket } from 'node:net'
import { Kafka, type KafkaConfig, logLevel } from 'kafkajs'
import { afterEach, describe, expect, test } from 'vitest'
import {
  type ApiRequest,
  type ApiResponse,
  type Channel,
  type ClusterConnection,
  type Node,
  RequestFailure,
  type RequestOptions,
} from '../../src/cluster/connection.js'
import { openKafkaConnection } from '../../src/kafka/connection.js'
import type { Runtime } from '../../src/runtime.js'
import { systemRuntime } from '../../src/runtime.js'
import { WireWriter } from '../support/wire.js'
import { ManualRuntime } from './manual-runtime.js'
import {
  answerVersions,
  endTxnAnswer,
  type Script,
  type ScriptedBroker,
  startScriptedBroker,
  usualRanges,
  versionsAnswer,
} from './scripted-broker.js'

const cleanUps: (() => Promise<void> | void)[] = []

afterEach(async () => {
  for (const cleanUp of cleanUps.splice(0).reverse()) await cleanUp()
})

const endTxn: ApiRequest<'EndTxn'> = {
  api: 'EndTxn',
  transactionalId: 'role',
  producerId: 1n,
  producerEpoch: 0,
  committed: true,
}

/** One connection to one scripted broker. */
interface Setup {
  readonly broker: ScriptedBroker
  readonly node: Node
  readonly connection: ClusterConnection
  /** Lines at WARN or ERROR in the user's kafkajs log. */
  readonly complaints: string[]
  /** Sockets that the user's socket factory made. */
  readonly sockets: Socket[]
  send(channel?: Channel, options?: Partial<RequestOptions>): Promise<ApiResponse<'EndTxn'>>
}

async function setUp(
  options: { script?: Script; runtime?: Runtime; config?: Partial<KafkaConfig> } = {},
): Promise<Setup> {
  const broker = await startScriptedBroker(options.script)
  cleanUps.push(() => broker.stop())
  const complaints: string[] = []
  const sockets: Socket[] = []
  const kafka = new Kafka({
    brokers: [`127.0.0.1:${broker.port}`],
    logLevel: logLevel.WARN,
    logCreator: () => (entry) => complaints.push(entry.log.message),
    socketFactory: ({ host, port, onConnect }) => {
      const socket = connect({ host, port }, onConnect)
      sockets.push(socket)
      return socket
    },
    ...options.config,
  })
  const runtime = options.runtime ?? systemRuntime
  const connection = openKafkaConnection({ kafka, runtime })
  cleanUps.push(() => connection.close())
  const node = { id: 1, host: '127.0.0.1', port: broker.port }
  return {
    broker,
    node,
    connection,
    complaints,
    sockets,
    send: (channel = 'work', extra = {}) =>
      connection.request(node, channel, endTxn, { deadline: runtime.monotonicNow() + 5000, ...extra }),
  }
}

/** The failure that `promise` rejects with; fails the test when it resolves. */
async function failureOf(promise: Promise<unknown>): Promise<RequestFailure> {
  const outcome: unknown = await promise.then(
    () => 'resolved',
    (error: unknown) => error,
  )
  expect(outcome).toBeInstanceOf(RequestFailure)
  return outcome as RequestFailure
}

/** What `promise` has rejected with by now, or after microtasks alone. */
async function rejectedByNow(promise: Promise<unknown>): Promise<RequestFailure | undefined> {
  let failure: RequestFailure | undefined
  promise.catch((error: RequestFailure) => {
    failure = error
  })
  for (let turn = 0; turn < 3; turn += 1) await Promise.resolve()
  return failure
}

const answering: Script = (request) => {
  if (!answerVersions(request)) request.answer(endTxnAnswer(0))
}

describe('the option kafka', () => {
  test.each([
    ['undefined', undefined, 'CONFIG', 'undefined'],
    ['a text', 'localhost:9092', 'CONFIG', 'localhost:9092'],
    ['a configuration', { brokers: [] }, 'CONFIG', 'a Object'],
    [
      'a client of another package',
      { producer: () => {}, admin: () => {} },
      'UNSUPPORTED',
      "'private:Kafka:createCluster'",
    ],
    [
      'a fork without a broker pool',
      { [Symbol('private:Kafka:createCluster')]: () => ({}) },
      'UNSUPPORTED',
      "'brokerPool'",
    ],
  ])('%s is refused by name', (_, kafka, code, named) => {
    let refusal: unknown
    try {
      openKafkaConnection({ kafka, runtime: systemRuntime })
    } catch (error) {
      refusal = error
    }
    expect(refusal).toMatchObject({ code, message: expect.stringContaining(named) })
    expect(refusal).toMatchObject({ message: expect.stringContaining('kafkajs') })
  })

  test('a subclass and a proxy of Kafka are kafkajs', () => {
    class Sub extends Kafka {}
    for (const kafka of [new Sub({ brokers: ['h:1'] }), new Proxy(new Kafka({ brokers: ['h:1'] }), {})]) {
      expect(typeof openKafkaConnection({ kafka, runtime: systemRuntime }).request).toBe('function')
    }
  })
})

describe('connections', () => {
  test('concurrent first use opens one, and answers come in order', async () => {
    let code = 0
    const { broker, send } = await setUp({
      script: (request) => {
        if (!answerVersions(request)) request.answer(endTxnAnswer(code++))
      },
    })
    const answers = await Promise.all(Array.from({ length: 20 }, () => send()))
    expect(answers.map(({ errorCode }) => errorCode)).toEqual(Array.from({ length: 20 }, (_, index) => index))
    expect(broker.sockets).toHaveLength(1)
  })

  test('each channel has its own, Fetch included, without delay by Nagle', async () => {
    const emptyFetch = new WireWriter()
      .int32(0)
      .int16(0)
      .int32(0)
      .compactArray([], () => {})
      .tags()
      .toBuffer()
    const { broker, connection, node, sockets, send } = await setUp({
      script: (request) => {
        if (!answerVersions(request)) request.answer(request.api === 'Fetch' ? emptyFetch : endTxnAnswer(0))
      },
      config: {
        socketFactory: ({ host, port, onConnect }) => {
          const socket = connect({ host, port }, onConnect)
          const { setNoDelay } = socket
          socket.setNoDelay = (noDelay) => {
            if (noDelay === true) sockets.push(socket)
            return setNoDelay.call(socket, noDelay)
          }
          return socket
        },
      },
    })
    const deadline = systemRuntime.monotonicNow() + 5000
    const limits = { maxWaitMs: 0, minBytes: 1, maxBytes: 100, partitionMaxBytes: 100 }
    const fetch: ApiRequest<'Fetch'> = { api: 'Fetch', ...limits, topic: 'a', partitions: [] }
    for (let round = 0; round < 3; round += 1) {
      await send('work')
      await send('mint')
      await connection.request(node, 'poll', fetch, { deadline })
    }
    expect(broker.sockets).toHaveLength(3)
    expect(sockets).toHaveLength(3)
  })

  test('several requests are in flight at once on work', async () => {
    const { broker, send } = await setUp()
    const first = send()
    const second = send()
    const requests = [await broker.taken('EndTxn'), await broker.taken('EndTxn')]
    for (const [index, request] of requests.entries()) request.answer(endTxnAnswer(index))
    expect([await first, await second]).toEqual([{ errorCode: 0 }, { errorCode: 1 }])
  })

  test('a refused one is unreachable, certainly not written, and the next seed is asked next', async () => {
    const gone = await startScriptedBroker()
    await gone.stop()
    const alive = await startScriptedBroker(answering)
    cleanUps.push(() => alive.stop())
    const complaints: string[] = []
    const connection = openKafkaConnection({
      kafka: new Kafka({
        brokers: [`127.0.0.1:${gone.port}`, `127.0.0.1:${alive.port}`],
        logLevel: logLevel.WARN,
        logCreator: () => (entry) => complaints.push(entry.log.message),
      }),
      runtime: systemRuntime,
    })
    cleanUps.push(() => connection.close())
    const options = { deadline: systemRuntime.monotonicNow() + 5000 }
    const failure = await failureOf(connection.request('seed', 'work', endTxn, options))
    expect(failure).toMatchObject({ kind: 'unreachable', written: false })
    expect(failure.message).toContain(`127.0.0.1:${gone.port}`)
    expect(await connection.request('seed', 'work', endTxn, options)).toEqual({ errorCode: 0 })
    expect(await connection.request('seed', 'work', endTxn, options)).toEqual({ errorCode: 0 })
    expect(alive.sockets).toHaveLength(1)
    expect(complaints).toEqual([])
  })

  test('one that the broker closes during the dial is unreachable', async () => {
    const { send } = await setUp({ script: (request) => request.socket.destroy() })
    expect(await failureOf(send())).toMatchObject({ kind: 'unreachable', written: false })
  })

  test.each(['end', 'destroy', 'resetAndDestroy'] as const)(
    'one that the broker closes (%s) rejects what is in flight as written, and the next request dials',
    async (how) => {
      const { broker, send, complaints } = await setUp()
      const lost = send()
      const request = await broker.taken('EndTxn')
      request.socket[how]()
      expect(await failureOf(lost)).toMatchObject({ kind: 'closed', written: true })
      const next = send()
      const again = await broker.taken('EndTxn')
      again.answer(endTxnAnswer(0))
      expect(await next).toEqual({ errorCode: 0 })
      expect(broker.sockets).toHaveLength(2)
      expect(complaints).toEqual([])
    },
  )

  test('one that the broker closes while nothing is in flight costs the next request nothing', async () => {
    const { broker, send, sockets } = await setUp({ script: answering })
    await send()
    const closed = new Promise<void>((resolve) => sockets[0]?.once('close', () => resolve()))
    broker.sockets[0]?.end()
    await closed
    expect(await send()).toEqual({ errorCode: 0 })
    expect(broker.sockets).toHaveLength(2)
  })

  test('a mint channel is closed after 60 s idle, and no other', async () => {
    const runtime = new ManualRuntime()
    const { broker, send } = await setUp({ script: answering, runtime })
    await send('mint')
    const [mint] = broker.sockets
    await send('work')
    runtime.advance(59_000)
    await send('mint')
    runtime.advance(59_999)
    expect(await send('mint', { onlyIfIdle: true })).toEqual({ errorCode: 0 })
    const closed = new Promise<void>((resolve) => mint?.once('close', () => resolve()))
    runtime.advance(60_000)
    await closed
    expect(broker.sockets).toHaveLength(2)
    expect(await failureOf(send('mint', { onlyIfIdle: true }))).toMatchObject({ kind: 'not-idle' })
    expect(await send('work')).toEqual({ errorCode: 0 })
    expect(broker.sockets).toHaveLength(2)
  })

  test('a mint channel with a request in flight is not idle, however long it takes', async () => {
    const runtime = new ManualRuntime()
    const { broker, send } = await setUp({ runtime })
    const first = send('mint')
    const request = await broker.taken('EndTxn')
    request.answer(endTxnAnswer(0))
    await first
    const slow = send('mint', { deadline: runtime.monotonicNow() + 200_000 })
    const late = await broker.taken('EndTxn')
    runtime.advance(100_000)
    late.answer(endTxnAnswer(1))
    expect(await slow).toEqual({ errorCode: 1 })
  })

  test('reset rejects in the same tick and leaves the other channels alone', async () => {
    const { broker, connection, node, send } = await setUp()
    const poll = send('poll')
    const work = send('work')
    const onPoll = await broker.taken('EndTxn')
    const onWork = await broker.taken('EndTxn')
    connection.reset(node, 'poll')
    expect(await rejectedByNow(poll)).toMatchObject({ kind: 'closed', written: true })
    for (const request of [onPoll, onWork]) request.answer(endTxnAnswer(3))
    expect(await work).toEqual({ errorCode: 3 })
  })

  test('reset during the dial rejects in the same tick, and no socket stays', async () => {
    const { broker, connection, node, send, sockets } = await setUp({ script: () => {} })
    const request = send()
    await broker.taken('ApiVersions')
    connection.reset(node, 'work')
    expect(await rejectedByNow(request)).toMatchObject({ kind: 'closed', written: false })
    expect(sockets[0]?.destroyed).toBe(true)
    const early = send()
    connection.reset(node, 'work')
    expect(await rejectedByNow(early)).toMatchObject({ kind: 'closed', written: false })
    await broker.allClosed()
    expect(sockets.every(({ destroyed }) => destroyed)).toBe(true)
  })

  test('close rejects everything under way and to come, and leaves no socket and no timer', async () => {
    const runtime = new ManualRuntime()
    const { broker, connection, send, complaints } = await setUp({ runtime })
    const pending = (['poll', 'work', 'mint'] as const).map((channel) => send(channel))
    for (const _ of pending) await broker.taken('EndTxn')
    connection.close()
    for (const promise of pending) expect(await rejectedByNow(promise)).toMatchObject({ kind: 'closed', written: true })
    expect(await rejectedByNow(send())).toMatchObject({ kind: 'closed', written: false })
    await broker.allClosed()
    expect(runtime.pendingTimers).toBe(0)
    expect(complaints).toEqual([])
  })

  test('kafkajs sets no timer but that of the dial, and none once a link is open', async () => {
    const { send } = await setUp({ script: answering })
    const timers = watchKafkajsTimers()
    for (let count = 0; count < 20; count += 1) await send()
    expect(timers.set).toHaveLength(1)
    expect(timers.set[0]).toContain('Connection')
    expect(await timers.left()).toEqual([])
  })

  test('a reset before the socket is connected leaves no timer of kafkajs', async () => {
    const { connection, node, send } = await setUp({ config: { socketFactory: () => new Socket() } })
    const timers = watchKafkajsTimers()
    const waiting = send()
    while (timers.set.length === 0) await Promise.resolve()
    connection.reset(node, 'work')
    expect(await failureOf(waiting)).toMatchObject({ kind: 'closed', written: false })
    expect(await timers.left()).toEqual([])
  })

  test('one that this process destroys elsewhere rejects what is in flight', async () => {
    const { broker, send, sockets } = await setUp()
    const lost = send()
    await broker.taken('EndTxn')
    sockets[0]?.destroy()
    expect(await failureOf(lost)).toMatchObject({ kind: 'closed', written: true })
  })
})

/** The timers that kafkajs sets from now until the test ends, by their stacks, and those of them that are still set. */
function watchKafkajsTimers(): { readonly set: string[]; left(): Promise<string[]> } {
  const set: string[] = []
  const alive = new Map<number, string>()
  const hook = createHook({
    init: (id, type) => {
      const stack = type === 'Timeout' ? (new Error().stack ?? '') : ''
      if (!stack.includes('kafkajs')) return
      set.push(stack)
      alive.set(id, stack)
    },
    destroy: (id) => {
      alive.delete(id)
    },
  }).enable()
  cleanUps.push(() => {
    hook.disable()
  })
  return {
    set,
    left: async () => {
      // The end of a timer is told in a later turn.
      for (let turn = 0; turn < 3; turn += 1) await new Promise((resolve) => setImmediate(resolve))
      return [...alive.values()]
    },
  }
}

describe('deadlines', () => {
  test.each<[string, Partial<KafkaConfig>]>([
    ['by default', {}],
    ['with a requestTimeout of 0', { requestTimeout: 0 }],
    ['with a huge requestTimeout', { requestTimeout: 2 ** 31 - 1, connectionTimeout: 2 ** 31 - 1 }],
    ['with a requestTimeout that is not enforced', { enforceRequestTimeout: false }],
    ['with many retries', { retry: { retries: 1000, initialRetryTime: 1 } }],
  ])('%s, a broker that never answers costs exactly the deadline', async (_, config) => {
    const runtime = new ManualRuntime()
    const { broker, send, complaints } = await setUp({ script: () => {}, runtime, config })
    const first = send('work', { deadline: runtime.monotonicNow() + 200 })
    const second = send('work', { deadline: runtime.monotonicNow() + 900 })
    await broker.taken('ApiVersions')
    runtime.advance(199)
    expect(await rejectedByNow(first)).toBeUndefined()
    runtime.advance(1)
    expect(await rejectedByNow(first)).toMatchObject({ kind: 'timeout', written: false })
    expect(await rejectedByNow(second)).toMatchObject({ kind: 'closed', written: false })
    await broker.allClosed()
    expect(runtime.pendingTimers).toBe(0)
    expect(complaints).toEqual([])
  })

  test.each<[string, Partial<KafkaConfig>]>([
    ['by default', {}],
    ['with a requestTimeout of 0', { requestTimeout: 0 }],
    ['with a huge requestTimeout', { requestTimeout: 2 ** 31 - 1 }],
    ['with a requestTimeout that is not enforced', { enforceRequestTimeout: false }],
  ])(
    '%s, a broker that answers ApiVersions only costs exactly the deadline, and the next dial is afresh',
    async (_, config) => {
      const runtime = new ManualRuntime()
      const { broker, send, complaints } = await setUp({ runtime, config })
      const silent = send('work', { deadline: runtime.monotonicNow() + 200 })
      const other = send('work', { deadline: runtime.monotonicNow() + 900 })
      await broker.taken('EndTxn')
      await broker.taken('EndTxn')
      runtime.advance(200)
      expect(await rejectedByNow(silent)).toMatchObject({ kind: 'timeout', written: true })
      expect(await rejectedByNow(other)).toMatchObject({ kind: 'closed', written: true })
      await broker.allClosed()
      const next = send()
      const request = await broker.taken('EndTxn')
      request.answer(endTxnAnswer(0))
      expect(await next).toEqual({ errorCode: 0 })
      expect(broker.sockets).toHaveLength(2)
      expect(complaints).toEqual([])
    },
  )

  test('a late answer to a request that timed out changes nothing', async () => {
    const runtime = new ManualRuntime()
    const { broker, send, complaints } = await setUp({ runtime })
    const silent = send()
    const late = await broker.taken('EndTxn')
    runtime.advance(5000)
    late.answer(endTxnAnswer(7))
    expect(await failureOf(silent)).toMatchObject({ kind: 'timeout', written: true })
    const next = send()
    const request = await broker.taken('EndTxn')
    request.answer(endTxnAnswer(0))
    expect(await next).toEqual({ errorCode: 0 })
    expect(complaints).toEqual([])
  })

  test('one that has passed already sends nothing and leaves the channel alone', async () => {
    const runtime = new ManualRuntime()
    const { broker, send } = await setUp({ runtime })
    const waiting = send()
    const request = await broker.taken('EndTxn')
    const past = send('work', { deadline: runtime.monotonicNow() })
    expect(await rejectedByNow(past)).toMatchObject({ kind: 'timeout', written: false })
    request.answer(endTxnAnswer(0))
    expect(await waiting).toEqual({ errorCode: 0 })
  })

  test('a process that was stopped during the dial does not write what is overdue', async () => {
    const runtime = new ManualRuntime()
    const { broker, send } = await setUp({ script: () => {}, runtime })
    const overdue = send('work', { deadline: runtime.monotonicNow() + 100 })
    const versions = await broker.taken('ApiVersions')
    runtime.leap(60_000)
    versions.answer(versionsAnswer())
    expect(await failureOf(overdue)).toMatchObject({ kind: 'timeout', written: false })
    expect(broker.requests.map(({ api }) => api)).toEqual(['ApiVersions'])
  })
})

describe('onlyIfIdle', () => {
  test('is refused in the same tick, and nothing dialled, while the channel is not connected', async () => {
    const { broker, send } = await setUp()
    const refused = send('mint', { onlyIfIdle: true })
    expect(await rejectedByNow(refused)).toMatchObject({ kind: 'not-idle', written: false })
    const dialling = send('mint')
    expect(await rejectedByNow(send('mint', { onlyIfIdle: true }))).toMatchObject({ kind: 'not-idle' })
    const request = await broker.taken('EndTxn')
    expect(await rejectedByNow(send('mint', { onlyIfIdle: true }))).toMatchObject({ kind: 'not-idle', written: false })
    request.answer(endTxnAnswer(0))
    expect(await dialling).toEqual({ errorCode: 0 })
    expect(broker.sockets).toHaveLength(1)
    expect(broker.requests.filter(({ api }) => api === 'EndTxn')).toHaveLength(1)
  })

  test('is written before the call returns, in the tick of the answer before it', async () => {
    const { send, sockets } = await setUp({ script: answering })
    await send('mint')
    const [socket] = sockets
    const writtenBefore = socket?.bytesWritten ?? 0
    const sent = send('mint', { onlyIfIdle: true })
    expect(socket?.bytesWritten).toBeGreaterThan(writtenBefore)
    expect(await sent).toEqual({ errorCode: 0 })
    expect(await send('mint', { onlyIfIdle: true })).toEqual({ errorCode: 0 })
  })
})

describe('answers', () => {
  test('an API version that the broker does not speak is named, and the channel goes on', async () => {
    const { connection, node, send } = await setUp({
      script: (request) => {
        if (request.api === 'ApiVersions') {
          request.answer(
            versionsAnswer([
              [3, 0, 9],
              [26, 0, 3],
              [25, 0, 3],
            ]),
          )
        } else request.answer(endTxnAnswer(0))
      },
    })
    const unsupported = await failureOf(send())
    expect(unsupported).toMatchObject({ kind: 'unsupported', written: false })
    expect(unsupported.message).toMatch(/EndTxn 0 to 3; version 4 is needed/)
    const deadline = systemRuntime.monotonicNow() + 5000
    const look: ApiRequest<'DescribeTransactions'> = { api: 'DescribeTransactions', transactionalIds: [] }
    const absent = await failureOf(connection.request(node, 'work', look, { deadline }))
    expect(absent).toMatchObject({ kind: 'unsupported', message: expect.stringContaining('DescribeTransactions') })
    const add: ApiRequest<'AddOffsetsToTxn'> = { ...endTxn, api: 'AddOffsetsToTxn', groupId: 'g' }
    expect(await connection.request(node, 'work', add, { deadline })).toEqual({ errorCode: 0 })
  })

  test('the listener of a KRaft controller is named as such', async () => {
    const controllerRanges = usualRanges.filter(([key]) => key !== 3)
    const { send } = await setUp({ script: (request) => request.answer(versionsAnswer(controllerRanges)) })
    const failure = await failureOf(send())
    expect(failure).toMatchObject({ kind: 'unsupported', written: false })
    expect(failure.message).toContain('KRaft controller')
  })

  test('one that cannot be read is malformed, and its connection is not used again', async () => {
    const { broker, send, complaints } = await setUp()
    const unreadable = send()
    const request = await broker.taken('EndTxn')
    request.answer(Buffer.from('00', 'hex'))
    expect(await failureOf(unreadable)).toMatchObject({ kind: 'malformed', written: true })
    await broker.allClosed()
    expect(complaints).toEqual([])
  })

  test('a value that does not fit its field is the fault of the caller, and harms nobody else', async () => {
    const { broker, connection, node, send } = await setUp()
    const other = send()
    const wrong = connection.request(
      node,
      'work',
      { ...endTxn, producerEpoch: 40_000 },
      { deadline: systemRuntime.monotonicNow() + 5000 },
    )
    await expect(wrong).rejects.toBeInstanceOf(RangeError)
    const request = await broker.taken('EndTxn')
    request.answer(endTxnAnswer(0))
    expect(await other).toEqual({ errorCode: 0 })
  })

  test('a pause that the broker asks for is kept, within the deadlines', async () => {
    const runtime = new ManualRuntime()
    const { broker, send } = await setUp({ runtime })
    const first = send('mint')
    const request = await broker.taken('EndTxn')
    request.answer(endTxnAnswer(0, 300))
    await first
    expect(await rejectedByNow(send('mint', { onlyIfIdle: true }))).toMatchObject({ kind: 'not-idle' })
    const impatient = send('mint', { deadline: runtime.monotonicNow() + 100 })
    const patient = send('mint')
    runtime.advance(100)
    expect(await rejectedByNow(impatient)).toMatchObject({ kind: 'timeout', written: false })
    expect(broker.requests.filter(({ api }) => api === 'EndTxn')).toHaveLength(1)
    runtime.advance(200)
    const second = await broker.taken('EndTxn')
    second.answer(endTxnAnswer(2))
    expect(await patient).toEqual({ errorCode: 2 })
    expect(broker.sockets).toHaveLength(1)
  })
})

describe('a pause', () => {
  test('that the broker asks for in the dial is kept', async () => {
    const runtime = new ManualRuntime()
    const script: Script = (request) => {
      request.answer(request.api === 'ApiVersions' ? versionsAnswer(usualRanges, 300) : endTxnAnswer(0))
    }
    const { broker, send } = await setUp({ runtime, script })
    const paused = send()
    await broker.taken('ApiVersions')
    const deadlineAndPause = 2
    while (runtime.pendingTimers < deadlineAndPause) await new Promise((resolve) => setImmediate(resolve))
    runtime.advance(299)
    expect(broker.requests).toHaveLength(1)
    runtime.advance(1)
    expect(await paused).toEqual({ errorCode: 0 })
  })

  test('ends with its connection', async () => {
    const runtime = new ManualRuntime()
    const { broker, connection, node, send } = await setUp({ runtime })
    const first = send()
    const request = await broker.taken('EndTxn')
    request.answer(endTxnAnswer(0, 1_000_000))
    await first
    connection.reset(node, 'work')
    const next = send()
    const second = await broker.taken('EndTxn')
    second.answer(endTxnAnswer(1))
    expect(await next).toEqual({ errorCode: 1 })
  })
})

describe('SASL', () => {
  const sasl = { mechanism: 'plain', username: 'u', password: 'p' } as const

  /** Answers as a broker that lets sessions live for `lifetimeMs`, or refuses with `errorCode`. */
  function saslScript(lifetimeMs: bigint, errorCode = 0): Script {
    return (request) => {
      if (answerVersions(request)) return
      if (request.api === 'SaslHandshake') {
        request.answer(
          new WireWriter()
            .int16(0)
            .array(['PLAIN'], (writer, name) => writer.string(name))
            .toBuffer(),
        )
      } else if (request.api === 'SaslAuthenticate') {
        const message = errorCode === 0 ? null : 'wrong password'
        request.answer(new WireWriter().int16(errorCode).string(message).int32(0).int64(lifetimeMs).toBuffer())
      } else request.answer(endTxnAnswer(0))
    }
  }

  test('refused credentials are an authentication failure', async () => {
    const { send, broker } = await setUp({ script: saslScript(0n, 58), config: { sasl } })
    const failure = await failureOf(send())
    expect(failure).toMatchObject({ kind: 'authentication', written: false })
    expect(failure.message).toContain('wrong password')
    await broker.allClosed()
  })

  test('a mechanism that the broker does not offer is an authentication failure', async () => {
    const script: Script = (request) => {
      if (answerVersions(request)) return
      request.answer(
        new WireWriter()
          .int16(33)
          .array(['OTHER'], (writer, name) => writer.string(name))
          .toBuffer(),
      )
    }
    const { send } = await setUp({ script, config: { sasl } })
    expect(await failureOf(send())).toMatchObject({ kind: 'authentication', written: false })
  })

  test('a connection that breaks during it is unreachable, not refused', async () => {
    const script: Script = (request) => {
      if (!answerVersions(request)) request.socket.destroy()
    }
    const { send } = await setUp({ script, config: { sasl } })
    expect(await failureOf(send())).toMatchObject({ kind: 'unreachable', written: false })
  })

  test('silence during it costs exactly the deadline', async () => {
    const runtime = new ManualRuntime()
    const { broker, send } = await setUp({ runtime, config: { sasl, requestTimeout: 0 } })
    const silent = send()
    await broker.taken('SaslHandshake')
    runtime.advance(5000)
    expect(await rejectedByNow(silent)).toMatchObject({ kind: 'timeout', written: false })
    await broker.allClosed()
  })

  test.each([
    ['as kafkajs sets it', 10_000],
    ['far above', 1_000_000],
  ])('credentials are renewed before the next request once due, with a threshold %s', async (_, threshold) => {
    const runtime = new ManualRuntime()
    // kafkajs takes any session that is shorter than the threshold for one that is always due.
    const config = { sasl, reauthenticationThreshold: threshold }
    const { broker, send } = await setUp({ script: saslScript(1000n), runtime, config })
    await send('mint')
    expect(await send('mint', { onlyIfIdle: true })).toEqual({ errorCode: 0 })
    runtime.advance(500)
    expect(await rejectedByNow(send('mint', { onlyIfIdle: true }))).toMatchObject({
      kind: 'not-idle',
      message: expect.stringContaining('SASL'),
    })
    const both = [send('mint'), send('mint')]
    expect(await rejectedByNow(send('mint', { onlyIfIdle: true }))).toMatchObject({ kind: 'not-idle' })
    expect(await Promise.all(both)).toEqual([{ errorCode: 0 }, { errorCode: 0 }])
    const dial = ['ApiVersions', 'SaslHandshake', 'SaslAuthenticate']
    const renewal = ['SaslHandshake', 'SaslAuthenticate']
    expect(broker.requests.map(({ api }) => api)).toEqual([...dial, 'EndTxn', 'EndTxn', ...renewal, 'EndTxn', 'EndTxn'])
    expect(await send('mint', { onlyIfIdle: true })).toEqual({ errorCode: 0 })
  })

  test('a session without an end is never due', async () => {
    const runtime = new ManualRuntime()
    const { broker, send } = await setUp({ script: saslScript(0n), runtime, config: { sasl } })
    await send()
    runtime.advance(10_000_000)
    await send()
    expect(broker.requests.filter(({ api }) => api === 'SaslAuthenticate')).toHaveLength(1)
  })
})

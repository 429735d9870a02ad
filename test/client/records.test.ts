/** What callers send: every bad field refused before any I/O, nothing of theirs changed, partitions as Java chooses them. */
import { describe, expect, test } from 'vitest'
import { layOut, placeSend, positionsOf, prepareOffsets, prepareSend } from '../../src/client/records.js'
import { ManualRuntime } from '../support/manual-runtime.js'

const runtime = new ManualRuntime()
const stamp = [['mandate-role', Buffer.from('orders')]] as const

const prepare = (record: unknown) => prepareSend(record as never, stamp, runtime)

describe('a record', () => {
  test.each<[string, unknown]>([
    ['no object', 'text'],
    ['nothing', null],
    ['an unknown field', { topic: 't', messages: [{ value: 'x' }], acks: 1 }],
    ['a timeout', { topic: 't', messages: [{ value: 'x' }], timeout: 1 }],
    ['a compression', { topic: 't', messages: [{ value: 'x' }], compression: 1 }],
    ['no topic', { messages: [{ value: 'x' }] }],
    ['an empty topic', { topic: '', messages: [{ value: 'x' }] }],
    ['a topic with a slash', { topic: 'a/b', messages: [{ value: 'x' }] }],
    ['a topic of 250 letters', { topic: 'a'.repeat(250), messages: [{ value: 'x' }] }],
    ['no messages', { topic: 't' }],
    ['empty messages', { topic: 't', messages: [] }],
    ['messages that are no list', { topic: 't', messages: { value: 'x' } }],
    ['a message that is nothing', { topic: 't', messages: [null] }],
    ['a message with an unknown field', { topic: 't', messages: [{ value: 'x', val: 1 }] }],
    ['no value', { topic: 't', messages: [{ key: 'k' }] }],
    ['a value that is a number', { topic: 't', messages: [{ value: 5 }] }],
    ['a value that is an object', { topic: 't', messages: [{ value: {} }] }],
    ['a key that is a number', { topic: 't', messages: [{ value: 'x', key: 5 }] }],
    ['a partition below 0', { topic: 't', messages: [{ value: 'x', partition: -1 }] }],
    ['half a partition', { topic: 't', messages: [{ value: 'x', partition: 0.5 }] }],
    ['a partition as text', { topic: 't', messages: [{ value: 'x', partition: '1' }] }],
    ['a partition beyond int32', { topic: 't', messages: [{ value: 'x', partition: 2 ** 31 }] }],
    ['no partition but null', { topic: 't', messages: [{ value: 'x', partition: null }] }],
    ['headers that are text', { topic: 't', messages: [{ value: 'x', headers: 'a=b' }] }],
    ['headers that are nothing', { topic: 't', messages: [{ value: 'x', headers: null }] }],
    ['headers as a list of pairs', { topic: 't', messages: [{ value: 'x', headers: [['a', 'b']] }] }],
    ['a header that is a number', { topic: 't', messages: [{ value: 'x', headers: { a: 1 } }] }],
    ['a header whose second value is a number', { topic: 't', messages: [{ value: 'x', headers: { a: ['b', 1] } }] }],
    ['a timestamp that is a number', { topic: 't', messages: [{ value: 'x', timestamp: 1 }] }],
    ['a timestamp that is no number', { topic: 't', messages: [{ value: 'x', timestamp: 'now' }] }],
    ['a timestamp below 0', { topic: 't', messages: [{ value: 'x', timestamp: '-1' }] }],
    ['a timestamp beyond int64', { topic: 't', messages: [{ value: 'x', timestamp: '9223372036854775808' }] }],
  ])('with %s is CONFIG', (_name, record) => {
    expect(() => prepare(record)).toThrow(expect.objectContaining({ code: 'CONFIG' }))
  })

  test('names the message and the field at fault', () => {
    expect(() => prepare({ topic: 't', messages: [{ value: 'x' }, { value: 'y', key: 5 }] })).toThrow('messages[1].key')
  })

  test('is copied: what becomes of the caller’s bytes later changes nothing, and nothing of it is changed', () => {
    const value = Buffer.from('value')
    const header = Buffer.from('header')
    const record = Object.freeze({
      topic: 't',
      messages: Object.freeze([
        Object.freeze({ key: 'k', value, headers: Object.freeze({ h: Object.freeze([header]) }) }),
      ]),
    })
    const [message] = prepare(record).messages
    value.fill(0)
    header.fill(0)
    expect(Buffer.from(message?.record.value ?? [])).toEqual(Buffer.from('value'))
    expect(message?.record.headers).toEqual([['h', new Uint8Array(Buffer.from('header'))], stamp[0]])
    expect(Object.keys(record)).toEqual(['topic', 'messages'])
  })

  test('has its headers in order, several of one name, those undefined left out, and the stamp last', () => {
    const headers = { b: ['1', null], a: '2', none: undefined, 'mandate-role': 'forged' }
    const [message] = prepare({ topic: 't', messages: [{ value: null, headers }] }).messages
    expect(message?.record.headers.map(([name, value]) => [name, value && Buffer.from(value).toString()])).toEqual([
      ['b', '1'],
      ['b', null],
      ['a', '2'],
      ['mandate-role', 'forged'],
      ['mandate-role', 'orders'],
    ])
  })

  test('takes the wall clock where no timestamp is given, and the given one to the last digit', () => {
    const messages = [{ value: 'x' }, { value: 'x', timestamp: '9223372036854775807' }]
    const prepared = prepare({ topic: 't', messages }).messages
    expect(prepared.map(({ record }) => record.timestamp)).toEqual([
      BigInt(Math.trunc(runtime.wallNow())),
      9223372036854775807n,
    ])
  })

  test('keeps an empty key and value apart from none', () => {
    const [empty, none] = prepare({ topic: 't', messages: [{ key: '', value: '' }, { value: null }] }).messages
    expect([empty?.record.key, empty?.record.value]).toEqual([new Uint8Array(), new Uint8Array()])
    expect([none?.record.key, none?.record.value]).toEqual([null, null])
  })
})

describe('the partition of a message', () => {
  // As Java's clients choose it, whatever the sign of the hash.
  test.each([
    ['100:48069', 12, 9],
    ['TT0124', 15, 10],
    ['wu', 10, 0],
    ['orders', 12, 0],
    ['orders', 50, 22],
    ['a', 12, 4],
    ['Struct{documentKey={"_id": "638d1b94ce8def06be68b439"}}', 50, 40],
    ['21', 2 ** 31 - 1, -973932308 & 0x7fffffff],
    ['foobar', 2 ** 31 - 1, -790332482 & 0x7fffffff],
  ])('with key %s of %d is %d', (key, count, expected) => {
    const placed = placeSend(prepare({ topic: 't', messages: [{ key, value: 'x' }] }), count, 5)
    expect(placed.messages[0]?.partition).toBe(expected)
  })

  test('is the one that was named, before key and fallback', () => {
    const messages = [{ key: 'orders', value: 'x', partition: 11 }]
    expect(placeSend(prepare({ topic: 't', messages }), 12, 5).messages[0]?.partition).toBe(11)
  })

  test('without key is one for all of the call', () => {
    const messages = [{ value: 'x' }, { value: 'y' }, { key: null, value: 'z' }]
    const placed = placeSend(prepare({ topic: 't', messages }), 4, 7)
    expect(placed.messages.map(({ partition }) => partition)).toEqual([3, 3, 3])
  })

  test('that the topic does not have is REFUSED', () => {
    const prepared = prepare({ topic: 't', messages: [{ value: 'x', partition: 4 }] })
    expect(() => placeSend(prepared, 4, 0)).toThrow(
      expect.objectContaining({ code: 'REFUSED', topic: 't', partition: 4, kafkaCode: 3 }),
    )
  })
})

test('calls are laid out by partition in call order, and each finds its own offsets', () => {
  const sends = [
    [0, 1],
    [1, 0],
  ].map((partitions, call) =>
    placeSend(
      prepare({ topic: 't', messages: partitions.map((partition, at) => ({ value: `${call}${at}`, partition })) }),
      4,
      0,
    ),
  )
  const layout = layOut(sends)
  const values = layout.entries.map(({ partition, records }) => [
    partition,
    records.map(({ value }) => Buffer.from(value ?? []).toString()),
  ])
  expect(values).toEqual([
    [0, ['00', '11']],
    [1, ['01', '10']],
  ])
  const offsets = [
    [100n, 101n],
    [200n, 201n],
  ]
  expect(positionsOf(layout, 1, offsets)).toMatchObject([
    { topic: 't', partition: 1, offset: 201n },
    { topic: 't', partition: 0, offset: 101n },
  ])
  expect(JSON.stringify(positionsOf(layout, 0, offsets)[0])).toBe('{"topic":"t","partition":0,"offset":"100"}')
})

describe('offsets to commit', () => {
  const one = (partition: unknown) => ({ consumerGroupId: 'g', topics: [{ topic: 't', partitions: [partition] }] })

  test('are taken as text or bigint, with or without metadata', () => {
    const partitions = [
      { partition: 0, offset: '9223372036854775807' },
      { partition: 1, offset: 5n, metadata: 'm' },
    ]
    expect(prepareOffsets({ consumerGroupId: 'g', topics: [{ topic: 't', partitions }] })).toEqual({
      consumerGroupId: 'g',
      topics: [
        {
          topic: 't',
          partitions: [
            { partition: 0, offset: 9223372036854775807n, metadata: null },
            { partition: 1, offset: 5n, metadata: 'm' },
          ],
        },
      ],
    })
  })

  test.each<[string, unknown]>([
    ['no object', 'g'],
    ['an unknown field', { ...one({ partition: 0, offset: '1' }), generation: 4 }],
    ['no group', { topics: [{ topic: 't', partitions: [{ partition: 0, offset: '1' }] }] }],
    ['an empty group', { consumerGroupId: '', topics: [{ topic: 't', partitions: [{ partition: 0, offset: '1' }] }] }],
    ['no topics', { consumerGroupId: 'g', topics: [] }],
    ['a topic that is nothing', { consumerGroupId: 'g', topics: [null] }],
    ['a topic without a name', { consumerGroupId: 'g', topics: [{ partitions: [{ partition: 0, offset: '1' }] }] }],
    ['no partitions', { consumerGroupId: 'g', topics: [{ topic: 't', partitions: [] }] }],
    ['partitions that are no list', { consumerGroupId: 'g', topics: [{ topic: 't', partitions: 5 }] }],
    ['a partition that is nothing', one(null)],
    ['a partition below 0', one({ partition: -1, offset: '1' })],
    ['a partition beyond int32', one({ partition: 2 ** 31, offset: '1' })],
    ['no offset', one({ partition: 0 })],
    ['an offset below 0', one({ partition: 0, offset: '-1' })],
    ['an offset that is a number', one({ partition: 0, offset: 1 })],
    ['metadata that is a number', one({ partition: 0, offset: '1', metadata: 5 })],
    ['a leader epoch', one({ partition: 0, offset: '1', leaderEpoch: 5 })],
  ])('with %s are CONFIG', (_name, offsets) => {
    expect(() => prepareOffsets(offsets as never)).toThrow(expect.objectContaining({ code: 'CONFIG' }))
  })
})

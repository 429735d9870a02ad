/**
 * Every codec against bytes made by hand from Kafka's message definitions. Each answer carries a tagged field that nobody
 * knows at every level, as a newer broker may send it.
 */
import { describe, expect, test } from 'vitest'
import type { ApiName, ApiRequest, ApiResponse } from '../../src/cluster/connection.js'
import { codecs } from '../../src/kafka/protocol/codecs.js'
import { decodePayload, encodeFrame } from '../../src/kafka/protocol/frame.js'
import { MalformedError, Reader } from '../../src/kafka/protocol/reader.js'
import { encodeBatch } from '../../src/kafka/record-batch.js'
import { apiKeys, encodeRequest, framed, WireWriter } from '../support/wire.js'

/** The hand-made side of a message, whose tagged sections each hold one unknown field. */
class Answer extends WireWriter {
  override tags(): this {
    return this.unsignedVarint(1).unsignedVarint(99).unsignedVarint(3).bytes(Buffer.from('new'))
  }
}

interface Case<A extends ApiName> {
  readonly version: number
  readonly request: ApiRequest<A>
  readonly body: WireWriter
  readonly answer: WireWriter
  readonly response: ApiResponse<A>
}

const identity = { transactionalId: 'role', producerId: 4242n, producerEpoch: 7 } as const
const throttleMs = 11

function body(): WireWriter {
  return new WireWriter()
}

/** An answer with its header's tagged fields and the throttle time that most begin with. */
function throttled(): Answer {
  return new Answer().tags().int32(throttleMs)
}

const batch = {
  producerId: 4242n,
  producerEpoch: 7,
  baseSequence: 0,
  transactional: true,
  records: [{ key: null, value: Buffer.from('v'), headers: [], timestamp: 5n }],
}
const batchBytes = encodeBatch(batch)

const cases: { readonly [A in ApiName]: Case<A> } = {
  ApiVersions: {
    version: 3,
    request: { api: 'ApiVersions' },
    body: body().compactString('mandate').compactString('0.1.0').tags(),
    answer: new Answer()
      .int16(0)
      .compactArray([[18, 0, 4]], (writer, range) => {
        for (const number of range) writer.int16(number)
        writer.tags()
      })
      .int32(throttleMs)
      .unsignedVarint(2)
      .unsignedVarint(2)
      .unsignedVarint(26)
      .bytes(new Answer().compactArray(['transaction.version'], featureLevels).toBuffer())
      .unsignedVarint(99)
      .unsignedVarint(0),
    response: {
      errorCode: 0,
      apis: [{ apiKey: 18, minVersion: 0, maxVersion: 4 }],
      features: new Map([['transaction.version', 2]]),
    },
  },
  Metadata: {
    version: 12,
    request: { api: 'Metadata', topics: ['a'] },
    body: body()
      .compactArray(['a'], (writer, topic) => writer.bytes(Buffer.alloc(16)).compactString(topic).tags())
      .boolean(false)
      .boolean(false)
      .tags(),
    answer: throttled()
      .compactArray([1], (writer, id) => writer.int32(id).compactString('h').int32(9092).compactString(null).tags())
      .compactString('cluster')
      .int32(1)
      .compactArray(['a'], (writer, topic) => {
        writer.int16(0).compactString(topic).bytes(Buffer.alloc(16, 0xab)).boolean(false)
        writer.compactArray([0], (partition, index) => {
          partition.int16(5).int32(index).int32(-1).int32(3)
          for (const nodes of [[1, 2], [1], [2]]) partition.compactArray(nodes, (node, id) => node.int32(id))
          partition.tags()
        })
        writer.int32(-2147483648).tags()
      })
      .tags(),
    response: {
      brokers: [{ id: 1, host: 'h', port: 9092 }],
      clusterId: 'cluster',
      controllerId: 1,
      topics: [
        {
          errorCode: 0,
          topic: 'a',
          topicId: 'ab'.repeat(16),
          partitions: [
            { errorCode: 5, partition: 0, leaderId: -1, leaderEpoch: 3, replicas: [1, 2], inSyncReplicas: [1] },
          ],
        },
      ],
    },
  },
  FindCoordinator: {
    version: 4,
    request: { api: 'FindCoordinator', keyType: 'transaction', key: 'role' },
    body: body()
      .int8(1)
      .compactArray(['role'], (writer, key) => writer.compactString(key))
      .tags(),
    answer: throttled()
      .compactArray(['role'], (writer, key) => {
        writer.compactString(key).int32(3).compactString('h').int32(9094).int16(0).compactString(null).tags()
      })
      .tags(),
    response: { errorCode: 0, errorMessage: null, node: { id: 3, host: 'h', port: 9094 } },
  },
  FindCoordinators: {
    version: 4,
    request: { api: 'FindCoordinators', keyType: 'transaction', keys: ['role', 'other'] },
    body: body()
      .int8(1)
      .compactArray(['role', 'other'], (writer, key) => writer.compactString(key))
      .tags(),
    answer: throttled()
      .compactArray(['role', 'other'], (writer, key) => {
        const [id, host, errorCode] = key === 'role' ? ([3, 'h', 0] as const) : ([-1, '', 15] as const)
        writer.compactString(key).int32(id).compactString(host).int32(9094).int16(errorCode).compactString(null).tags()
      })
      .tags(),
    response: {
      coordinators: [
        { key: 'role', errorCode: 0, node: { id: 3, host: 'h', port: 9094 } },
        { key: 'other', errorCode: 15, node: { id: -1, host: '', port: 9094 } },
      ],
    },
  },
  InitProducerId: {
    version: 4,
    request: { api: 'InitProducerId', ...identity, transactionTimeoutMs: 30_000 },
    body: body().compactString('role').int32(30_000).int64(4242n).int16(7).tags(),
    answer: throttled()
      .int16(0)
      .int64(2n ** 60n)
      .int16(32767)
      .tags(),
    response: { errorCode: 0, producerId: 2n ** 60n, producerEpoch: 32767 },
  },
  AddPartitionsToTxn: {
    version: 3,
    request: { api: 'AddPartitionsToTxn', ...identity, topics: [{ topic: 'a', partitions: [0, 5] }] },
    body: body()
      .compactString('role')
      .int64(4242n)
      .int16(7)
      .compactArray(['a'], (writer, topic) => {
        writer.compactString(topic).compactArray([0, 5], (partition, index) => partition.int32(index))
        writer.tags()
      })
      .tags(),
    answer: throttled()
      .compactArray(['a'], (writer, topic) =>
        errorsOfTopic(writer, topic, [
          [0, 55],
          [5, 3],
        ]),
      )
      .tags(),
    response: {
      topics: [
        {
          topic: 'a',
          partitions: [
            { partition: 0, errorCode: 55 },
            { partition: 5, errorCode: 3 },
          ],
        },
      ],
    },
  },
  AddOffsetsToTxn: {
    version: 3,
    request: { api: 'AddOffsetsToTxn', ...identity, groupId: 'g' },
    body: body().compactString('role').int64(4242n).int16(7).compactString('g').tags(),
    answer: throttled().int16(51).tags(),
    response: { errorCode: 51 },
  },
  Produce: {
    version: 9,
    request: {
      api: 'Produce',
      transactionalId: 'role',
      timeoutMs: 4000,
      topics: [{ topic: 'a', partitions: [{ partition: 2, batch }] }],
    },
    body: body()
      .compactString('role')
      .int16(-1)
      .int32(4000)
      .compactArray(['a'], (writer, topic) => {
        writer.compactString(topic)
        writer.compactArray([2], (partition, index) => {
          partition
            .int32(index)
            .unsignedVarint(batchBytes.length + 1)
            .bytes(batchBytes)
            .tags()
        })
        writer.tags()
      })
      .tags(),
    answer: new Answer()
      .tags()
      .compactArray(['a'], (writer, topic) => {
        writer.compactString(topic)
        writer.compactArray([2], (partition, index) => {
          partition.int32(index).int16(87).int64(-1n).int64(-1n).int64(0n)
          partition.compactArray([4], (error, at) => error.int32(at).compactString('bad').tags())
          partition.compactString('refused').tags()
        })
        writer.tags()
      })
      .int32(throttleMs)
      .tags(),
    response: {
      topics: [
        {
          topic: 'a',
          partitions: [
            {
              partition: 2,
              errorCode: 87,
              baseOffset: -1n,
              errorMessage: 'refused',
              recordErrors: [{ batchIndex: 4, message: 'bad' }],
            },
          ],
        },
      ],
    },
  },
  EndTxn: {
    version: 4,
    request: { api: 'EndTxn', ...identity, committed: true },
    body: body().compactString('role').int64(4242n).int16(7).boolean(true).tags(),
    answer: throttled().int16(90).tags(),
    response: { errorCode: 90 },
  },
  TxnOffsetCommit: {
    version: 3,
    request: {
      api: 'TxnOffsetCommit',
      ...identity,
      groupId: 'g',
      topics: [{ topic: 'a', partitions: [{ partition: 1, offset: 2n ** 40n, metadata: null }] }],
    },
    body: body()
      .compactString('role')
      .compactString('g')
      .int64(4242n)
      .int16(7)
      .int32(-1)
      .compactString('')
      .compactString(null)
      .compactArray(['a'], (writer, topic) => {
        writer.compactString(topic)
        writer.compactArray([1], (partition, index) => {
          partition
            .int32(index)
            .int64(2n ** 40n)
            .int32(-1)
            .compactString(null)
            .tags()
        })
        writer.tags()
      })
      .tags(),
    answer: throttled()
      .compactArray(['a'], (writer, topic) => errorsOfTopic(writer, topic, [[1, 16]]))
      .tags(),
    response: { topics: [{ topic: 'a', partitions: [{ partition: 1, errorCode: 16 }] }] },
  },
  Fetch: {
    version: 12,
    request: {
      api: 'Fetch',
      maxWaitMs: 500,
      minBytes: 1,
      maxBytes: 4000,
      partitionMaxBytes: 3000,
      topic: 'a',
      partitions: [{ partition: 1, currentLeaderEpoch: 4, offset: 2n ** 40n, lastFetchedEpoch: 3 }],
    },
    body: body()
      .int32(-1)
      .int32(500)
      .int32(1)
      .int32(4000)
      .int8(0)
      .int32(0)
      .int32(-1)
      .compactArray(['a'], (writer, topic) => {
        writer.compactString(topic)
        writer.compactArray([1], (partition, index) => {
          partition
            .int32(index)
            .int32(4)
            .int64(2n ** 40n)
            .int32(3)
            .int64(-1n)
            .int32(3000)
            .tags()
        })
        writer.tags()
      })
      .compactArray([], () => {})
      .compactString('')
      .tags(),
    answer: throttled()
      .int16(0)
      .int32(0)
      .compactArray(['a'], (writer, topic) => {
        writer.compactString(topic)
        writer.compactArray([1], (partition, index) => {
          partition.int32(index).int16(0).int64(9n).int64(8n).int64(1n)
          partition.compactArray([1n], (aborted, id) => aborted.int64(id).int64(0n).tags())
          partition
            .int32(-1)
            .unsignedVarint(batchBytes.length + 1)
            .bytes(batchBytes)
          partition.unsignedVarint(2)
          partition.unsignedVarint(0).unsignedVarint(13).int32(2).int64(6n).unsignedVarint(0)
          partition.unsignedVarint(1).unsignedVarint(9).int32(1).int32(5).unsignedVarint(0)
        })
        writer.tags()
      })
      .tags(),
    response: {
      errorCode: 0,
      partitions: [
        {
          partition: 1,
          errorCode: 0,
          highWatermark: 9n,
          logStartOffset: 1n,
          divergingEpoch: { epoch: 2, endOffset: 6n },
          batches: [
            {
              baseOffset: 0n,
              lastOffset: 0n,
              partitionLeaderEpoch: -1,
              producerId: 4242n,
              producerEpoch: 7,
              transactional: true,
              logAppendTime: false,
              maxTimestamp: 5n,
              control: undefined,
              records: [{ offset: 0n, key: null, value: Buffer.from('v'), headers: [] }],
            },
          ],
        },
      ],
    },
  },
  ListOffsets: {
    version: 7,
    request: {
      api: 'ListOffsets',
      topic: 'a',
      partitions: [
        { partition: 0, currentLeaderEpoch: -1, at: 'latest' },
        { partition: 1, currentLeaderEpoch: 4, at: 'earliest' },
      ],
    },
    body: body()
      .int32(-1)
      .int8(0)
      .compactArray(['a'], (writer, topic) => {
        writer.compactString(topic)
        writer.compactArray(
          [
            [0, -1, -1n],
            [1, 4, -2n],
          ] as const,
          (partition, [index, epoch, timestamp]) => {
            partition.int32(index).int32(epoch).int64(timestamp).tags()
          },
        )
        writer.tags()
      })
      .tags(),
    answer: throttled()
      .compactArray(['a'], (writer, topic) => {
        writer.compactString(topic)
        writer.compactArray([0], (partition, index) => {
          partition
            .int32(index)
            .int16(0)
            .int64(-1n)
            .int64(2n ** 50n)
            .int32(4)
            .tags()
        })
        writer.tags()
      })
      .tags(),
    response: { partitions: [{ partition: 0, errorCode: 0, offset: 2n ** 50n, leaderEpoch: 4 }] },
  },
  DescribeTransactions: {
    version: 0,
    request: { api: 'DescribeTransactions', transactionalIds: ['role'] },
    body: body()
      .compactArray(['role'], (writer, id) => writer.compactString(id))
      .tags(),
    answer: throttled()
      .compactArray(['role'], (writer, id) => {
        writer.int16(0).compactString(id).compactString('Ongoing').int32(30_000).int64(5n).int64(4242n).int16(7)
        writer.compactArray(['a'], (topicWriter, topic) => {
          topicWriter.compactString(topic).compactArray([0, 1], (partition, index) => partition.int32(index))
          topicWriter.tags()
        })
        writer.tags()
      })
      .tags(),
    response: {
      transactions: [
        {
          errorCode: 0,
          transactionalId: 'role',
          state: 'Ongoing',
          timeoutMs: 30_000,
          startTimeMs: 5n,
          producerId: 4242n,
          producerEpoch: 7,
          topics: [{ topic: 'a', partitions: [0, 1] }],
        },
      ],
    },
  },
  CreateTopics: {
    version: 5,
    request: {
      api: 'CreateTopics',
      topic: 'a',
      partitions: 16,
      replicationFactor: 3,
      configs: new Map([['cleanup.policy', 'compact']]),
      timeoutMs: 4000,
    },
    body: body()
      .compactArray(['a'], (writer, topic) => {
        writer.compactString(topic).int32(16).int16(3)
        writer.compactArray([], () => {})
        writer.compactArray(['cleanup.policy'], (config, name) => {
          config.compactString(name).compactString('compact').tags()
        })
        writer.tags()
      })
      .int32(4000)
      .boolean(false)
      .tags(),
    answer: throttled()
      .compactArray(['a'], (writer, topic) => {
        writer.compactString(topic).int16(36).compactString('exists').int32(-1).int16(-1)
        writer.compactArray(['cleanup.policy'], (config, name) => {
          config.compactString(name).compactString('compact').boolean(false).int8(1).boolean(false).tags()
        })
        writer.tags()
      })
      .tags(),
    response: { errorCode: 36, errorMessage: 'exists' },
  },
  DescribeConfigs: {
    version: 4,
    request: { api: 'DescribeConfigs', topic: 'a' },
    body: body()
      .compactArray(['a'], (writer, topic) => writer.int8(2).compactString(topic).unsignedVarint(0).tags())
      .boolean(false)
      .boolean(false)
      .tags(),
    answer: throttled()
      .compactArray(['a'], (writer, topic) => {
        writer.int16(0).compactString(null).int8(2).compactString(topic)
        writer.compactArray(['cleanup.policy'], (config, name) => {
          config.compactString(name).compactString('compact').boolean(false).int8(1).boolean(false)
          config.compactArray(['s'], (synonym, text) => synonym.compactString(text).compactString(null).int8(5).tags())
          config.int8(7).compactString(null).tags()
        })
        writer.tags()
      })
      .tags(),
    response: { errorCode: 0, errorMessage: null, configs: new Map([['cleanup.policy', 'compact']]) },
  },
  DescribeBrokerConfigs: {
    version: 4,
    request: { api: 'DescribeBrokerConfigs', broker: 3 },
    body: body()
      .compactArray(['3'], (writer, id) => writer.int8(4).compactString(id).unsignedVarint(0).tags())
      .boolean(false)
      .boolean(false)
      .tags(),
    answer: throttled()
      .compactArray(['3'], (writer, id) => {
        writer.int16(31).compactString('no').int8(4).compactString(id)
        writer.compactArray([], () => {}).tags()
      })
      .tags(),
    response: { errorCode: 31, errorMessage: 'no', configs: new Map() },
  },
  ListTransactions: {
    version: 1,
    request: { api: 'ListTransactions', states: ['Ongoing'], longerThanMs: 5_000 },
    body: body()
      .compactArray(['Ongoing'], (writer, state) => writer.compactString(state))
      .compactArray([], () => {})
      .int64(5_000n)
      .tags(),
    answer: throttled()
      .int16(0)
      .compactArray(['Odd'], (writer, state) => writer.compactString(state))
      .compactArray(['role'], (writer, id) => writer.compactString(id).int64(4242n).compactString('Ongoing').tags())
      .tags(),
    response: { errorCode: 0, transactions: [{ transactionalId: 'role', producerId: 4242n, state: 'Ongoing' }] },
  },
  DescribeProducers: {
    version: 0,
    request: { api: 'DescribeProducers', topic: 'a', partitions: [0, 5] },
    body: body()
      .compactArray(['a'], (writer, topic) => {
        writer.compactString(topic).compactArray([0, 5], (partition, index) => partition.int32(index))
        writer.tags()
      })
      .tags(),
    answer: throttled()
      .compactArray(['a'], (writer, topic) => {
        writer.compactString(topic).compactArray([5], (partition, index) => {
          partition.int32(index).int16(0).compactString(null)
          partition.compactArray([4242n], (producer, id) => {
            producer.int64(id).int32(7).int32(12).int64(1_000n).int32(2).int64(33n).tags()
          })
          partition.tags()
        })
        writer.tags()
      })
      .tags(),
    response: {
      partitions: [
        {
          partition: 5,
          errorCode: 0,
          producers: [{ producerId: 4242n, producerEpoch: 7, lastTimestamp: 1_000n, transactionStart: 33n }],
        },
      ],
    },
  },
  DescribeAcls: {
    version: 2,
    request: { api: 'DescribeAcls', topic: 'a' },
    body: body().int8(2).compactString('a').int8(2).compactString(null).compactString(null).int8(1).int8(1).tags(),
    answer: throttled()
      .int16(0)
      .compactString(null)
      .compactArray(['a', '*'], (writer, name) => {
        writer
          .int8(2)
          .compactString(name)
          .int8(name === '*' ? 3 : 4)
        writer.compactArray([2, 3], (acl, permission) => {
          acl.compactString(`User:${name}`).compactString('*').int8(4).int8(permission).tags()
        })
        writer.tags()
      })
      .tags(),
    response: {
      errorCode: 0,
      errorMessage: null,
      bindings: [
        { principal: 'User:a', operation: 4, isAllowed: false },
        { principal: 'User:a', operation: 4, isAllowed: true },
        { principal: 'User:*', operation: 4, isAllowed: false },
        { principal: 'User:*', operation: 4, isAllowed: true },
      ],
    },
  },
}

/** Requests that share an API of Kafka with another one of ours. */
const kafkaNames = { FindCoordinators: 'FindCoordinator', DescribeBrokerConfigs: 'DescribeConfigs' } as const

function featureLevels(writer: WireWriter, name: string): void {
  writer.compactString(name).int16(2).int16(0).unsignedVarint(0)
}

function errorsOfTopic(writer: WireWriter, topic: string, partitions: readonly (readonly [number, number])[]): void {
  writer.compactString(topic).compactArray(partitions, (partition, [index, code]) => {
    partition.int32(index).int16(code).tags()
  })
  writer.tags()
}

/** The newest version of each API that leaves the producer epoch of a transaction alone (I4). */
const lastVersionOfConstantEpoch: Partial<Record<ApiName, number>> = {
  EndTxn: 4,
  AddPartitionsToTxn: 3,
  AddOffsetsToTxn: 3,
  Produce: 11,
  TxnOffsetCommit: 4,
}

describe.each(Object.keys(cases) as ApiName[])('%s', (name) => {
  // Each name's codec and case fit each other; the compiler cannot follow that through a list of names.
  const codec = codecs[name] as (typeof codecs)['EndTxn']
  const { version, request, body: expectedBody, answer, response } = cases[name] as Case<'EndTxn'>

  test('asks with the bytes of its version', () => {
    const frame = encodeFrame(codec, request, 77, 'client')
    const expected = framed(
      encodeRequest(
        apiKeys[name === 'FindCoordinators' || name === 'DescribeBrokerConfigs' ? kafkaNames[name] : name],
        version,
        77,
        'client',
        expectedBody.toBuffer(),
      ),
    )
    expect(frame.toString('hex')).toBe(expected.toString('hex'))
    expect(codec.name).toBe(name)
  })

  test('reads the answer, unknown tagged fields and the throttle time included', () => {
    expect(decodePayload(codec, answer.toBuffer())).toEqual({ throttleMs, response })
  })

  test('refuses an answer with a byte too many', () => {
    expect(() => decodePayload(codec, Buffer.concat([answer.toBuffer(), Buffer.alloc(1)]))).toThrow(MalformedError)
  })

  test('refuses an answer that is cut off anywhere', () => {
    const whole = answer.toBuffer()
    for (let length = 0; length < whole.length; length += 1) {
      expect(() => decodePayload(codec, whole.subarray(0, length))).toThrow(MalformedError)
    }
  })

  test('never uses a version that bumps the producer epoch (I4)', () => {
    expect(codec.version).toBeLessThanOrEqual(lastVersionOfConstantEpoch[name] ?? Number.POSITIVE_INFINITY)
  })
})

test('Metadata asks for the operations that the principal may do, and reads them', () => {
  const frame = encodeFrame(codecs.Metadata, { api: 'Metadata', topics: [], withAuthorizedOperations: true }, 1, null)
  expect(frame.subarray(-3).toString('hex')).toBe('000100')
  const answer = body()
    .int32(0)
    .compactArray([], () => {})
    .compactString(null)
    .int32(1)
  answer.compactArray(['a'], (writer, topic) => {
    writer.int16(0).compactString(topic).bytes(Buffer.alloc(16)).boolean(false)
    writer
      .compactArray([], () => {})
      .int32(0b1_1000)
      .tags()
  })
  const { response } = codecs.Metadata.decodeResponse(new Reader(answer.tags().toBuffer()))
  expect(response.topics).toEqual([{ errorCode: 0, topic: 'a', partitions: [], authorizedOperations: 24 }])
})

test('a client without a client id has a null one', () => {
  const frame = encodeFrame(codecs.EndTxn, { api: 'EndTxn', ...identity, committed: false }, 1, null)
  expect(frame.subarray(12, 15).toString('hex')).toBe('ffff00')
})

test.each(['FindCoordinator', 'CreateTopics', 'DescribeConfigs', 'DescribeBrokerConfigs'] as const)(
  '%s needs exactly one answer',
  (name) => {
    expect(() => codecs[name].decodeResponse(new Reader(body().int32(0).unsignedVarint(1).tags().toBuffer()))).toThrow(
      MalformedError,
    )
  },
)

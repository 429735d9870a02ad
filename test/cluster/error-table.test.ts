/** The one table of Kafka's codes against kafka-clients' own list, and what each flow makes of the codes it rests on. */
import { readFileSync } from 'node:fs'
import { describe, expect, test } from 'vitest'
import type { ApiName } from '../../src/cluster/connection.js'
import type { Disposition } from '../../src/cluster/error-table.js'
import { dispositionOf, kafkaErrorName, knownKafkaCodes, refusalError } from '../../src/cluster/error-table.js'
import { projectPath } from '../support/project-root.js'

interface KafkaError {
  readonly code: number
  readonly name: string
  readonly retriable: boolean
}

const kafkaErrors: readonly KafkaError[] = JSON.parse(
  readFileSync(projectPath('test', 'cluster', 'kafka-errors.json'), 'utf8'),
)

const apis: readonly ApiName[] = [
  'ApiVersions',
  'Metadata',
  'FindCoordinator',
  'FindCoordinators',
  'InitProducerId',
  'AddPartitionsToTxn',
  'AddOffsetsToTxn',
  'Produce',
  'EndTxn',
  'TxnOffsetCommit',
  'Fetch',
  'ListOffsets',
  'DescribeTransactions',
  'CreateTopics',
  'DescribeConfigs',
  'DescribeBrokerConfigs',
  'ListTransactions',
  'DescribeProducers',
  'DescribeAcls',
]

/** Retriable in Kafka's words, and yet no repetition helps us: each with the reason. */
const fatalThoughRetriable: ReadonlyMap<number, string> = new Map([
  [84, 'an answer to ElectLeaders, which is never sent'],
  [122, 'share groups are never used'],
  [123, 'share groups are never used'],
  [133, 'share groups are never used'],
])

describe('the error table', () => {
  test('has every code of kafka-clients and no other, by the same name', () => {
    const known = knownKafkaCodes()
      .map(({ code, name }) => `${code} ${name}`)
      .toSorted()
    expect(known).toEqual(kafkaErrors.map(({ code, name }) => `${code} ${name}`).toSorted())
  })

  test('gives up on no code that Kafka calls retriable, save with a reason', () => {
    const fatal = kafkaErrors
      .filter(({ code, retriable }) => retriable && apis.some((api) => dispositionOf(api, code) === 'fatal'))
      .map(({ code }) => code)
    expect(fatal).toEqual([...fatalThoughRetriable.keys()])
  })

  test('takes no error for success, save a topic that exists already', () => {
    const taken = kafkaErrors.flatMap(({ code }) =>
      apis.filter((api) => code !== 0 && dispositionOf(api, code) === 'ok').map((api) => `${api} ${code}`),
    )
    expect(taken).toEqual(['CreateTopics 36'])
  })

  test.each<[ApiName, readonly number[], Disposition]>([
    ['AddPartitionsToTxn', [47, 49, 90], 'fenced'],
    ['AddOffsetsToTxn', [47, 49, 90], 'fenced'],
    ['Produce', [47, 49, 90], 'fenced'],
    ['EndTxn', [47, 49, 90], 'fenced'],
    ['TxnOffsetCommit', [47, 49, 90], 'fenced'],
    ['InitProducerId', [47, 49, 90], 'fenced'],
    ['InitProducerId', [51], 'retry-now'],
    ['AddPartitionsToTxn', [51], 'retry-now'],
    ['EndTxn', [51], 'retry-now'],
    ['Produce', [48, 120], 'ask-again'],
    ['TxnOffsetCommit', [48, 120], 'ask-again'],
    ['EndTxn', [48, 53], 'fatal'],
    ['Produce', [10, 18, 87], 'refuse'],
    ['AddPartitionsToTxn', [3, 29], 'refuse'],
    ['AddPartitionsToTxn', [55], 'not-attempted'],
    ['Produce', [7, 19, 20], 'retry-later'],
    ['Produce', [3, 5, 6, 74, 75], 'find-again'],
    ['Fetch', [3, 6, 74, 75], 'find-again'],
    ['Fetch', [1], 're-read'],
    ['ListOffsets', [74, 75], 'find-again'],
    ['ListOffsets', [78], 'retry-later'],
    ['FindCoordinator', [15, 16], 'find-again'],
    ['FindCoordinators', [15, 16], 'find-again'],
    ['FindCoordinator', [14], 'retry-later'],
    ['InitProducerId', [15, 16], 'find-again'],
    ['InitProducerId', [14], 'retry-later'],
    ['InitProducerId', [50, 53], 'fatal'],
    ['DescribeTransactions', [105], 'absent'],
    ['Metadata', [3], 'absent'],
    ['DescribeConfigs', [29], 'fatal'],
    ['DescribeBrokerConfigs', [31], 'fatal'],
    ['DescribeProducers', [29], 'fatal'],
    ['DescribeAcls', [31], 'fatal'],
    ['DescribeAcls', [54], 'absent'],
    ['ListTransactions', [14], 'retry-later'],
  ])('%s %j: %s', (api, codes, disposition) => {
    expect(codes.map((code) => dispositionOf(api, code))).toEqual(codes.map(() => disposition))
  })

  test('gives up on a code of a later Kafka, and shows its number', () => {
    expect(dispositionOf('Produce', 9_999)).toBe('fatal')
    expect(kafkaErrorName(9_999)).toBe('unknown Kafka error (9999)')
    expect(kafkaErrorName(90)).toBe('PRODUCER_FENCED (90)')
  })

  test.each([
    [29, 'UNAUTHORIZED'],
    [30, 'UNAUTHORIZED'],
    [31, 'UNAUTHORIZED'],
    [53, 'UNAUTHORIZED'],
    [58, 'UNAUTHORIZED'],
    [35, 'UNSUPPORTED'],
    [50, 'CONFIG'],
    [42, 'TRANSPORT'],
  ] as const)('tells %d as %s, with the thing and the number in the message', (code, expected) => {
    const error = refusalError('InitProducerId', code, { operation: 'Write', resource: "transactional id 'orders'" })
    expect(error.code).toBe(expected)
    expect(error.message).toContain('orders')
    expect(error.message).toContain(`(${code})`)
  })
})

/** Group commit: who shares a transaction, in which order, and who is told what when some of it is refused. */
import { describe, expect, test } from 'vitest'
import { GroupCommit, partitionCountOf } from '../../src/client/group-commit.js'
import { prepareSend } from '../../src/client/records.js'
import type { PartitionRecords, Refusal } from '../../src/cluster/transaction.js'
import { TransactionFailure } from '../../src/cluster/transaction.js'
import { coordinationError } from '../../src/errors.js'
import { topicOf, world } from '../cluster/support.js'
import { ManualRuntime } from '../support/manual-runtime.js'
import { unreachable } from '../support/scripted-connection.js'

const runtime = new ManualRuntime()

type Commit = (entries: readonly PartitionRecords[]) => readonly (readonly bigint[])[]

function valuesOf(entries: readonly PartitionRecords[]): string[] {
  return entries.flatMap(({ topic, partition, records }) =>
    records.map(({ value }) => `${topic}-${partition}:${Buffer.from(value ?? []).toString()}`),
  )
}

function refused(refusals: readonly Partial<Refusal>[]): TransactionFailure {
  const filled = refusals.map((refusal) => ({
    topic: 'jobs',
    partition: 0,
    kafkaCode: 87,
    message: 'refused by script',
    recordIndexes: [],
    ...refusal,
  }))
  return new TransactionFailure({ kind: 'refused', refusals: filled }, 'refused by script')
}

/** Offsets from 0 for every entry. */
const commits: Commit = (entries) => entries.map(({ records }) => records.map((_record, index) => BigInt(index)))

/** Refuses the records whose value is `bad`, naming them where `named`. */
function refusesBad(named: boolean): Commit {
  return (entries) => {
    const refusals = entries.flatMap(({ topic, partition, records }) => {
      const bad = records.flatMap(({ value }, index) => (Buffer.from(value ?? []).toString() === 'bad' ? [index] : []))
      return bad.length === 0 ? [] : [{ topic, partition, recordIndexes: named ? bad : [] }]
    })
    if (refusals.length > 0) throw refused(refusals)
    return commits(entries)
  }
}

function begin(...script: Commit[]) {
  const transactions: string[][] = []
  const outcomes: string[] = []
  const last = script.at(-1) ?? commits
  const group = new GroupCommit({
    commit: async (entries) => {
      transactions.push(valuesOf(entries))
      if (transactions.length > 50) throw new Error('it goes round in circles')
      return (script[transactions.length - 1] ?? last)(entries)
    },
    partitionCount: async (topic) => {
      if (topic === 'gone') throw coordinationError('REFUSED', 'gone', { topic, partition: -1, kafkaCode: 3 })
      return 4
    },
  })
  const add = (value: string, partition: number | 'any' = 0, topic = 'jobs'): void => {
    const message = partition === 'any' ? { value } : { value, partition }
    group.add({
      prepared: prepareSend({ topic, messages: [message] }, [], runtime),
      fallback: 2,
      resolve: (positions) => outcomes.push(`${value} ${positions.map((at) => `${at.partition}@${at.offset}`)}`),
      reject: (error) => outcomes.push(`${value} ${(error as { code?: string }).code ?? error}`),
    })
  }
  return { group, add, transactions, outcomes }
}

describe('a group', () => {
  test('shares one transaction in call order; each send has its own offsets', async () => {
    const { group, add, transactions, outcomes } = begin()
    add('a')
    add('b', 1)
    add('c')
    add('d', 'any')
    await group.run()
    expect(transactions).toEqual([['jobs-0:a', 'jobs-0:c', 'jobs-1:b', 'jobs-2:d']])
    expect(outcomes).toEqual(['a 0@0', 'b 1@0', 'c 0@1', 'd 2@0'])
  })

  test('rejects what fails its own check, and nobody else', async () => {
    const { group, add, transactions, outcomes } = begin()
    add('a')
    add('b', 7)
    add('c', 0, 'gone')
    add('d')
    await group.run()
    expect(transactions).toEqual([['jobs-0:a', 'jobs-0:d']])
    expect(outcomes).toEqual(['b REFUSED', 'c REFUSED', 'a 0@0', 'd 0@1'])
  })

  test('of which nothing is left runs no transaction', async () => {
    const { group, add, transactions } = begin()
    add('a', 7)
    await group.run()
    expect(transactions).toEqual([])
  })

  test('runs again without the records that the broker named, in order', async () => {
    const { group, add, transactions, outcomes } = begin(refusesBad(true))
    for (const value of ['a', 'bad', 'b', 'bad', 'c']) add(value)
    await group.run()
    expect(transactions.at(-1)).toEqual(['jobs-0:a', 'jobs-0:b', 'jobs-0:c'])
    expect(outcomes).toEqual(['bad REFUSED', 'bad REFUSED', 'a 0@0', 'b 0@1', 'c 0@2'])
  })

  test('runs the sends of a batch that was refused whole one by one, in order, and the others together', async () => {
    const { group, add, transactions, outcomes } = begin(refusesBad(false))
    add('x', 1)
    for (const value of ['a', 'bad', 'b']) add(value)
    add('y', 1)
    await group.run()
    const committed = transactions.flat().filter((value) => value.startsWith('jobs-1'))
    expect(committed.slice(-2)).toEqual(['jobs-1:x', 'jobs-1:y'])
    expect(outcomes.map((outcome) => outcome.split(' ')[0])).toEqual(['x', 'a', 'bad', 'b', 'y'])
    expect(outcomes[2]).toBe('bad REFUSED')
  })

  test.each([3, 29])(
    'tells every sender of a partition that could not be enlisted (%d), and runs the rest',
    async (code) => {
      const { group, add, outcomes } = begin((entries) => {
        if (entries.some(({ partition }) => partition === 1)) throw refused([{ partition: 1, kafkaCode: code }])
        return commits(entries)
      })
      add('a')
      add('b', 1)
      add('c', 1)
      await group.run()
      expect(outcomes).toEqual(['b REFUSED', 'c REFUSED', 'a 0@0'])
    },
  )

  test('does not go round in circles when what was refused is none of its sends', async () => {
    const { group, add, transactions, outcomes } = begin(() => {
      throw refused([{ topic: '__coordination_state', partition: 3, kafkaCode: 29 }])
    })
    add('a')
    add('b', 1)
    await group.run()
    expect(transactions).toHaveLength(1)
    expect(outcomes).toEqual(['a REFUSED', 'b REFUSED'])
  })

  test('is told any other failure as it is', async () => {
    const { group, add, transactions, outcomes } = begin(() => {
      throw coordinationError('COMMIT_UNKNOWN', 'who knows', { role: 'r' })
    })
    add('a')
    add('b')
    await group.run()
    expect(transactions).toHaveLength(1)
    expect(outcomes).toEqual(['a COMMIT_UNKNOWN', 'b COMMIT_UNKNOWN'])
  })

  test('that is refused tells everybody, once', async () => {
    const { group, add, transactions, outcomes } = begin()
    add('a')
    add('b')
    group.refuse(coordinationError('CLOSED', 'closed', {}))
    await group.run()
    expect(outcomes).toEqual(['a CLOSED', 'b CLOSED'])
    expect(transactions).toEqual([])
  })

  test('takes one send of any size, and no second one beyond 8 MiB', () => {
    const { group, add } = begin()
    expect(group.fits(100 * 2 ** 20)).toBe(true)
    add('a')
    expect(group.fits(8 * 2 ** 20)).toBe(false)
    expect(group.fits(2 ** 20)).toBe(true)
  })
})

describe('the number of partitions', () => {
  test('is asked for once', async () => {
    const { metadata, connection } = world()
    expect(await partitionCountOf(metadata, 'jobs', 0, 9_999)).toBe(4)
    expect(await partitionCountOf(metadata, 'jobs', 0, 9_999)).toBe(4)
    expect(connection.of('Metadata')).toHaveLength(1)
  })

  test.each([
    [3, { code: 'REFUSED', kafkaCode: 3 }],
    [29, { code: 'REFUSED', kafkaCode: 29 }],
    [17, { code: 'REFUSED', kafkaCode: 17 }],
    [5, { code: 'TRANSPORT', retriable: true }],
  ])('of a topic that Metadata answers with %d', async (errorCode, expected) => {
    const { metadata, connection } = world()
    connection.always('Metadata', ({ request }) => ({
      brokers: [],
      clusterId: null,
      controllerId: 1,
      topics: request.topics.map((topic) => topicOf(topic, 1, errorCode)),
    }))
    await expect(partitionCountOf(metadata, 'jobs', 0, 9_999)).rejects.toMatchObject(expected)
  })

  test('that nobody answers is TRANSPORT', async () => {
    const { metadata, connection } = world()
    connection.always('Metadata', unreachable)
    await expect(partitionCountOf(metadata, 'jobs', 0, 9_999)).rejects.toMatchObject({
      code: 'TRANSPORT',
      retriable: true,
    })
  })
})

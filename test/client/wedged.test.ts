/** A role whose last transaction the broker cannot finish: who is told, and that contending goes on until it passes. */
import { expect, test } from 'vitest'
import { Contender } from '../../src/client/contender.js'
import type { Logger } from '../../src/client/diagnostics.js'
import { diagnosticsTo } from '../../src/client/diagnostics.js'
import { settingsOf } from '../../src/client/options.js'
import { openServices } from '../../src/client/services.js'
import type { FetchedBatch, ProducedBatch } from '../../src/cluster/connection.js'
import { isCoordinationError } from '../../src/errors.js'
import { parseRole } from '../../src/format/names.js'
import { ManualRuntime, settled } from '../support/manual-runtime.js'
import { ScriptedConnection } from '../support/scripted-connection.js'

const node = { id: 1, host: 'one', port: 9092 }
const role = parseRole('controller')

/** A log of one partition that takes plain records, and a coordinator that is stuck in `state`. */
function stuckCluster(runtime: ManualRuntime, state: { current: string }): ScriptedConnection {
  const log: FetchedBatch[] = []
  const readers: (() => void)[] = []
  const append = (batch: ProducedBatch): bigint => {
    const baseOffset = BigInt(log.length)
    log.push({
      baseOffset,
      lastOffset: baseOffset,
      partitionLeaderEpoch: 0,
      producerId: batch.producerId,
      producerEpoch: batch.producerEpoch,
      transactional: batch.transactional,
      logAppendTime: false,
      maxTimestamp: 0n,
      control: undefined,
      records: batch.records.map((record) => ({ ...record, offset: baseOffset })),
    })
    for (const wake of readers.splice(0)) wake()
    return baseOffset
  }
  return new ScriptedConnection(runtime)
    .always('Metadata', ({ request }) => ({
      brokers: [node],
      clusterId: 'c',
      controllerId: 1,
      topics: request.topics.map((topic) => ({
        errorCode: 0,
        topic,
        partitions: [{ errorCode: 0, partition: 0, leaderId: 1, leaderEpoch: 0, replicas: [1], inSyncReplicas: [1] }],
      })),
    }))
    .always('DescribeConfigs', { errorCode: 0, errorMessage: null, configs: new Map([['cleanup.policy', 'compact']]) })
    .always('FindCoordinator', { errorCode: 0, errorMessage: null, node })
    .always('ApiVersions', { errorCode: 0, apis: [], features: new Map([['transaction.version', 2]]) })
    .always('ListOffsets', ({ request }) => ({
      partitions: request.partitions.map(({ partition, at }) => ({
        partition,
        errorCode: 0,
        offset: at === 'latest' ? BigInt(log.length) : 0n,
        leaderEpoch: 0,
      })),
    }))
    .always('Fetch', async ({ request }) => {
      const offset = request.partitions[0]?.offset ?? 0n
      if (offset >= BigInt(log.length)) await new Promise<void>((wake) => readers.push(wake))
      const batches = log.slice(Number(offset))
      const highWatermark = BigInt(log.length)
      return {
        errorCode: 0,
        partitions: [{ partition: 0, errorCode: 0, highWatermark, logStartOffset: 0n, batches }],
      }
    })
    .always('Produce', ({ request }) => ({
      topics: request.topics.map(({ topic, partitions }) => ({
        topic,
        partitions: partitions.map(({ partition, batch }) => ({
          partition,
          errorCode: 0,
          baseOffset: append(batch),
          errorMessage: null,
          recordErrors: [],
        })),
      })),
    }))
    .always('DescribeTransactions', ({ request }) => ({
      transactions: request.transactionalIds.map((transactionalId) => ({
        errorCode: 0,
        transactionalId,
        state: state.current,
        timeoutMs: 30_000,
        startTimeMs: 0n,
        producerId: 7n,
        producerEpoch: 3,
        topics: [{ topic: 'commands', partitions: [2] }],
      })),
    }))
}

async function contenderOf(state: { current: string }) {
  const runtime = new ManualRuntime()
  const connection = stuckCluster(runtime, state)
  const warnings: { readonly fields: object; readonly message: string }[] = []
  const logger: Logger = {
    debug: () => undefined,
    info: () => undefined,
    warn: (fields, message) => warnings.push({ fields, message }),
    error: () => undefined,
  }
  const settings = settingsOf({ kafka: {}, runtime, partitions: 1 })
  const services = openServices(settings, connection, diagnosticsTo(logger))
  const opening = services.log({ deadline: runtime.monotonicNow() + 10_000 })
  await settled()
  const contention = new AbortController()
  const campaign = { failed: () => undefined, succeeded: () => undefined }
  const contender = new Contender(services, await opening, role, settings.policy, contention.signal, campaign)
  return { runtime, connection, warnings, contender, contention, close: () => services.close() }
}

const wedgeWarnings = (warnings: readonly { readonly message: string }[]): readonly string[] =>
  warnings.map(({ message }) => message).filter((message) => message.includes('commands-2'))

test('a contender warns once of a wedge, goes on, and mints when it has passed', async () => {
  const state = { current: 'PrepareAbort' }
  const { runtime, connection, warnings, contender, contention, close } = await contenderOf(state)
  connection.always('InitProducerId', { errorCode: 0, producerId: 7n, producerEpoch: 4 })
  const contending = contender.run(false).catch((error: unknown) => error)

  await runtime.pass(4_000)
  expect(connection.of('DescribeTransactions').length).toBeGreaterThan(10)
  expect(wedgeWarnings(warnings)).toEqual([])

  await runtime.pass(10_000)
  expect(wedgeWarnings(warnings)).toHaveLength(1)
  expect(connection.of('InitProducerId')).toEqual([])

  state.current = 'CompleteAbort'
  await runtime.passUntil(() => connection.of('InitProducerId').length > 0, 2_000)
  contention.abort(new Error('the test is over'))
  close()
  await runtime.pass(60_000)
  expect(await contending).toBeInstanceOf(Error)
})

test('a single attempt rejects with WEDGED, naming the partitions', async () => {
  const { runtime, contender, close } = await contenderOf({ current: 'PrepareCommit' })
  const outcome = contender.run(true).catch((error: unknown) => error)

  await runtime.pass(7_000)

  const error = await outcome
  expect(isCoordinationError(error, 'WEDGED') ? error.partitions : error).toEqual(['commands-2'])
  close()
})

/**
 * A cluster of one broker in memory, behind the scripted connection: logs, transactions and mints as far as a client needs them to lead.
 *
 * It answers whatever a test does not script by `connection.next`. It is no model of a broker: no replication, no timeouts of its own.
 */
import type { ApiRequest, ApiResponse, FetchedBatch, Node } from '../../src/cluster/connection.js'
import type { ManualRuntime } from './manual-runtime.js'
import type { Failing, SeenRequest } from './scripted-connection.js'
import { lost, ScriptedConnection } from './scripted-connection.js'

const node: Node = { id: 1, host: 'one', port: 9092 }

interface Transactional {
  producerId: bigint
  producerEpoch: number
  /** The pair before the last mint that expected it: asked again, it is answered the same. */
  lastEpoch: number
  state: string
  readonly enlisted: Set<string>
}

type Pair = { readonly producerId: bigint; readonly producerEpoch: number }

export class ScriptedCluster {
  readonly connection: ScriptedConnection
  readonly logs: Map<string, FetchedBatch[]> = new Map()
  readonly ids: Map<string, Transactional> = new Map()
  readonly #runtime: ManualRuntime
  readonly #waiting = new Set<() => void>()

  constructor(runtime: ManualRuntime, options: { partitions: number; transactionVersion: number }) {
    this.#runtime = runtime
    const { partitions, transactionVersion } = options
    const connection = new ScriptedConnection(runtime)
    this.connection = connection
    connection.always('ApiVersions', {
      errorCode: 0,
      apis: [],
      features: new Map([['transaction.version', transactionVersion]]),
    })
    connection.always('Metadata', ({ request }) => ({
      brokers: [node],
      clusterId: 'c',
      controllerId: 1,
      topics: request.topics.map((topic) => ({
        errorCode: 0,
        topic,
        partitions: Array.from({ length: partitions }, (_, partition) => ({
          errorCode: 0,
          partition,
          leaderId: 1,
          leaderEpoch: 0,
          replicas: [1],
          inSyncReplicas: [1],
        })),
      })),
    }))
    connection.always('FindCoordinator', { errorCode: 0, errorMessage: null, node })
    connection.always('FindCoordinators', ({ request }) => ({
      coordinators: request.keys.map((key) => ({ key, errorCode: 0, errorMessage: null, node })),
    }))
    connection.always('DescribeConfigs', {
      errorCode: 0,
      errorMessage: null,
      configs: new Map([
        ['cleanup.policy', 'compact'],
        ['message.timestamp.type', 'LogAppendTime'],
        ['compression.type', 'uncompressed'],
        ['delete.retention.ms', '86400000'],
      ]),
    })
    connection.always('ListOffsets', ({ request }) => this.listOffsets(request))
    connection.always('Fetch', (seen) => this.#fetch(seen))
    connection.always('InitProducerId', ({ request }) => this.initProducerId(request))
    connection.always('DescribeTransactions', ({ request }) => this.describe(request))
    connection.always('AddPartitionsToTxn', ({ request }) => this.#addPartitions(request))
    connection.always('AddOffsetsToTxn', ({ request }) => ({ errorCode: this.#enlist(request, []) }))
    connection.always('TxnOffsetCommit', ({ request }) => ({
      topics: request.topics.map(({ topic, partitions: named }) => ({
        topic,
        partitions: named.map(({ partition }) => ({ partition, errorCode: 0 })),
      })),
    }))
    connection.always('Produce', ({ request }) => this.#produce(request))
    connection.always('EndTxn', ({ request }) => this.endTxn(request))
  }

  /** Fetches that wait for something to come, each with a timer of this cluster's. */
  get polling(): number {
    return this.#waiting.size
  }

  /** The broker ends the transaction, and its answer is lost. */
  readonly endsUnheard = ({ request }: SeenRequest<'EndTxn'>): Failing => {
    this.endTxn(request)
    return lost
  }

  /** Somebody else mints the id, as a successor or a stranger does. */
  mint(transactionalId: string): Pair {
    const { producerId, producerEpoch } = this.initProducerId({
      api: 'InitProducerId',
      transactionalId,
      transactionTimeoutMs: 1,
      producerId: -1n,
      producerEpoch: -1,
    })
    return { producerId, producerEpoch }
  }

  /** The values that a committed reader sees of a topic, as text, in log order of each partition. */
  committed(topic: string): string[] {
    return [...this.logs].flatMap(([name, batches]) => {
      if (name.slice(0, name.lastIndexOf('-')) !== topic) return []
      return batches.flatMap((batch, index) => {
        const marker = batches
          .slice(index)
          .find(({ control, producerId }) => control !== undefined && producerId === batch.producerId)
        const isVisible = !batch.transactional || marker?.control === 'commit'
        return isVisible ? batch.records.map(({ value }) => Buffer.from(value ?? []).toString()) : []
      })
    })
  }

  initProducerId(request: ApiRequest<'InitProducerId'>): ApiResponse<'InitProducerId'> {
    const { transactionalId } = request
    let id = this.ids.get(transactionalId)
    const isPlain = request.producerId < 0n
    if (id === undefined) {
      if (!isPlain) return { errorCode: 90, producerId: -1n, producerEpoch: -1 }
      id = { producerId: 1_000n, producerEpoch: -1, lastEpoch: -1, state: 'Empty', enlisted: new Set() }
      this.ids.set(transactionalId, id)
    }
    if (!isPlain && request.producerEpoch === id.lastEpoch) return { errorCode: 0, ...pairOf(id) }
    if (!isPlain && request.producerEpoch !== id.producerEpoch) {
      return { errorCode: 90, producerId: -1n, producerEpoch: -1 }
    }
    if (id.state === 'Ongoing') this.#complete(id, 'abort')
    id.lastEpoch = isPlain ? -1 : id.producerEpoch
    id.producerEpoch += 1
    id.state = 'Empty'
    return { errorCode: 0, ...pairOf(id) }
  }

  endTxn(request: ApiRequest<'EndTxn'>): ApiResponse<'EndTxn'> {
    const id = this.ids.get(request.transactionalId)
    if (id === undefined || id.producerEpoch !== request.producerEpoch) return { errorCode: 90 }
    const outcome = request.committed ? 'commit' : 'abort'
    if (id.state === 'Ongoing') {
      this.#complete(id, outcome)
      return { errorCode: 0 }
    }
    return { errorCode: id.state === stateAfter(outcome) ? 0 : 48 }
  }

  append(name: string, values: Partial<FetchedBatch>): bigint {
    const log = this.logs.get(name) ?? []
    const baseOffset = (log.at(-1)?.lastOffset ?? -1n) + 1n
    const records = (values.records ?? []).map((record, index) => ({ ...record, offset: baseOffset + BigInt(index) }))
    log.push({
      partitionLeaderEpoch: 0,
      producerId: -1n,
      producerEpoch: -1,
      transactional: false,
      logAppendTime: true,
      maxTimestamp: BigInt(Math.trunc(this.#runtime.wallNow())),
      control: undefined,
      ...values,
      baseOffset,
      lastOffset: baseOffset + BigInt(Math.max(records.length, 1)) - 1n,
      records,
    })
    this.logs.set(name, log)
    for (const wake of [...this.#waiting]) wake()
    return baseOffset
  }

  #complete(id: Transactional, control: 'commit' | 'abort'): void {
    for (const name of id.enlisted) this.append(name, { ...pairOf(id), transactional: true, control })
    id.enlisted.clear()
    id.state = stateAfter(control)
  }

  #end(name: string): bigint {
    return (this.logs.get(name)?.at(-1)?.lastOffset ?? -1n) + 1n
  }

  listOffsets({ topic, partitions }: ApiRequest<'ListOffsets'>): ApiResponse<'ListOffsets'> {
    return {
      partitions: partitions.map(({ partition, at }) => ({
        partition,
        errorCode: 0,
        offset: at === 'latest' ? this.#end(`${topic}-${partition}`) : 0n,
        leaderEpoch: 0,
      })),
    }
  }

  #fetch({ request }: SeenRequest<'Fetch'>): Promise<ApiResponse<'Fetch'>> {
    const answer = (): ApiResponse<'Fetch'> => ({
      errorCode: 0,
      partitions: request.partitions.map(({ partition, offset }) => ({
        partition,
        errorCode: 0,
        highWatermark: 0n,
        logStartOffset: 0n,
        batches: this.logs.get(`${request.topic}-${partition}`)?.filter(({ lastOffset }) => lastOffset >= offset) ?? [],
      })),
    })
    const isWorth = (): boolean => answer().partitions.some(({ batches }) => batches.length > 0)
    if (isWorth()) return Promise.resolve(answer())
    return new Promise((resolve) => {
      const finish = (): void => {
        this.#waiting.delete(wake)
        timer.cancel()
        resolve(answer())
      }
      const wake = (): void => {
        if (isWorth()) finish()
      }
      const timer = this.#runtime.setTimer(request.maxWaitMs, finish)
      this.#waiting.add(wake)
    })
  }

  describe({ transactionalIds }: ApiRequest<'DescribeTransactions'>): ApiResponse<'DescribeTransactions'> {
    return {
      transactions: transactionalIds.map((transactionalId) => {
        const id = this.ids.get(transactionalId)
        return {
          errorCode: id === undefined ? 105 : 0,
          transactionalId,
          state: id?.state ?? '',
          timeoutMs: 0,
          startTimeMs: -1n,
          producerId: id?.producerId ?? -1n,
          producerEpoch: id?.producerEpoch ?? -1,
          topics: [],
        }
      }),
    }
  }

  #enlist(request: { readonly transactionalId: string } & Pair, names: readonly string[]): number {
    const id = this.ids.get(request.transactionalId)
    if (id === undefined || id.producerEpoch !== request.producerEpoch) return 90
    id.state = 'Ongoing'
    for (const name of names) id.enlisted.add(name)
    return 0
  }

  #addPartitions(request: ApiRequest<'AddPartitionsToTxn'>): ApiResponse<'AddPartitionsToTxn'> {
    const names = request.topics.flatMap(({ topic, partitions }) => partitions.map((one) => `${topic}-${one}`))
    const errorCode = this.#enlist(request, names)
    return {
      topics: request.topics.map(({ topic, partitions }) => ({
        topic,
        partitions: partitions.map((partition) => ({ partition, errorCode })),
      })),
    }
  }

  #produce(request: ApiRequest<'Produce'>): ApiResponse<'Produce'> {
    const current = request.transactionalId === null ? undefined : this.ids.get(request.transactionalId)
    return {
      topics: request.topics.map(({ topic, partitions }) => ({
        topic,
        partitions: partitions.map(({ partition, batch }) => {
          const isFenced = batch.transactional && current?.producerEpoch !== batch.producerEpoch
          const name = `${topic}-${partition}`
          const { producerId, producerEpoch, transactional } = batch
          const records = batch.records.map(({ key, value, headers }) => ({ offset: 0n, key, value, headers }))
          return {
            partition,
            errorCode: isFenced ? 47 : 0,
            baseOffset: isFenced ? -1n : this.append(name, { producerId, producerEpoch, transactional, records }),
            errorMessage: null,
            recordErrors: [],
          }
        }),
      })),
    }
  }
}

function pairOf({ producerId, producerEpoch }: Pair): Pair {
  return { producerId, producerEpoch }
}

function stateAfter(control: 'commit' | 'abort'): string {
  return control === 'commit' ? 'CompleteCommit' : 'CompleteAbort'
}

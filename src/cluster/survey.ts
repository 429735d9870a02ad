/**
 * Single questions to a cluster for whoever checks it: each has an answer, or a reason why there is none.
 *
 * A question that cannot be asked, be it for a missing permission, a silent broker or an old one, is an outcome and never an error, so that
 * the others go on. It must not judge what it finds, and it changes nothing in the cluster.
 */
import { isCoordinationError } from '../errors.js'
import type { Runtime } from '../runtime.js'
import type {
  AclBinding,
  ActiveProducer,
  ApiName,
  ApiRequest,
  ApiResponse,
  ClusterConnection,
  Node,
  TransactionDescription,
} from './connection.js'
import { RequestFailure } from './connection.js'
import type { Coordinators } from './coordinator.js'
import { transactionKey } from './coordinator.js'
import type { Attempted } from './error-table.js'
import { dispositionOf, kafkaErrorName, refusalError } from './error-table.js'
import { isOperatingFailure } from './operating-failure.js'
import type { Bound } from './schedule.js'
import { backoffMs, isPast, pause, requestDeadline, withinTime } from './schedule.js'

/** The answer to a question, or why there is none. */
export type Asked<T> =
  | { readonly kind: 'answered'; readonly value: T }
  /** What was asked for does not exist. */
  | { readonly kind: 'absent'; readonly reason: string }
  /** The principal may not ask. */
  | { readonly kind: 'forbidden'; readonly operation: string; readonly resource: string; readonly reason: string }
  /** The broker does not know the question. */
  | { readonly kind: 'unsupported'; readonly reason: string }
  /** The broker refused for good, and not for want of a permission. */
  | { readonly kind: 'refused'; readonly reason: string }
  | { readonly kind: 'unanswered'; readonly reason: string }

/** What asking needs of the cluster. */
export interface SurveyDependencies {
  readonly connection: ClusterConnection
  readonly coordinators: Coordinators
  readonly runtime: Runtime
  readonly requestTimeoutMs: number
}

const mostAttempts = 6
/** More ids in one request would hold up whatever shares the channel. */
const mostIdsAtOnce = 500
/** A producer id that no coordinator ever hands out, so that a request under it is refused before it changes anything. */
const nobodysProducerId = 2n ** 63n - 1n

/** Asks the brokers of one cluster. */
export class Survey {
  readonly #dependencies: SurveyDependencies

  constructor(dependencies: SurveyDependencies) {
    this.#dependencies = dependencies
  }

  /** The brokers and the named topics, with what this principal may do with each. */
  metadata(topics: readonly string[], bound: Bound): Promise<Asked<ApiResponse<'Metadata'>>> {
    const attempted = { operation: 'Describe', resource: 'the cluster' }
    const request = { api: 'Metadata', topics, withAuthorizedOperations: true } as const
    return this.#ask('seed', request, () => 0, attempted, bound)
  }

  apiVersions(node: Node, bound: Bound): Promise<Asked<ApiResponse<'ApiVersions'>>> {
    const attempted = { operation: 'Describe', resource: `broker ${node.id}` }
    return this.#ask(node, { api: 'ApiVersions' }, ({ errorCode }) => errorCode, attempted, bound)
  }

  async brokerSettings(node: Node, bound: Bound): Promise<Asked<ReadonlyMap<string, string | null>>> {
    const attempted = { operation: 'DescribeConfigs', resource: 'the cluster' }
    const request = { api: 'DescribeBrokerConfigs', broker: node.id } as const
    return mapAnswer(
      await this.#ask(node, request, ({ errorCode }) => errorCode, attempted, bound),
      ({ configs }) => configs,
    )
  }

  async topicSettings(topic: string, bound: Bound): Promise<Asked<ReadonlyMap<string, string | null>>> {
    const attempted = { operation: 'DescribeConfigs', resource: `topic '${topic}'` }
    const request = { api: 'DescribeConfigs', topic } as const
    return mapAnswer(
      await this.#ask('seed', request, ({ errorCode }) => errorCode, attempted, bound),
      ({ configs }) => configs,
    )
  }

  /** The ACLs of the topic; `absent` where the cluster has no authorizer. */
  async acls(topic: string, bound: Bound): Promise<Asked<readonly AclBinding[]>> {
    const attempted = { operation: 'Describe', resource: 'the cluster' }
    const request = { api: 'DescribeAcls', topic } as const
    return mapAnswer(
      await this.#ask('seed', request, ({ errorCode }) => errorCode, attempted, bound),
      ({ bindings }) => bindings,
    )
  }

  /** Ids of transactions at this coordinator that were begun longer ago than that and have not ended. */
  async unfinishedTransactions(node: Node, longerThanMs: number, bound: Bound): Promise<Asked<readonly string[]>> {
    const attempted = { operation: 'Describe', resource: `the transactions of broker ${node.id}` }
    const request = {
      api: 'ListTransactions',
      states: ['Ongoing', 'PrepareCommit', 'PrepareAbort'],
      longerThanMs,
    } as const
    return mapAnswer(
      await this.#ask(node, request, ({ errorCode }) => errorCode, attempted, bound),
      ({ transactions }) => transactions.map(({ transactionalId }) => transactionalId),
    )
  }

  /** The producers of each partition that the broker leads. */
  async producers(
    node: Node,
    topic: string,
    partitions: readonly number[],
    bound: Bound,
  ): Promise<Asked<ReadonlyMap<number, readonly ActiveProducer[]>>> {
    const attempted = { operation: 'Read', resource: `topic '${topic}'` }
    const firstError = ({ partitions: answers }: ApiResponse<'DescribeProducers'>): number =>
      answers.find(({ errorCode }) => errorCode !== 0)?.errorCode ?? 0
    const request = { api: 'DescribeProducers', topic, partitions } as const
    return mapAnswer(
      await this.#ask(node, request, firstError, attempted, bound),
      (answer) => new Map(answer.partitions.map(({ partition, producers }) => [partition, producers])),
    )
  }

  /** What the coordinators know of each id. Ids share a reason where nothing answered for any of them. */
  async transactions(
    ids: readonly string[],
    bound: Bound,
  ): Promise<ReadonlyMap<string, Asked<TransactionDescription>>> {
    const answers = new Map<string, Asked<TransactionDescription>>()
    for (let from = 0; from < ids.length; from += mostIdsAtOnce) {
      const some = ids.slice(from, from + mostIdsAtOnce)
      const coordinators = await this.#coordinatorsOf(some, bound)
      await Promise.all(
        [...coordinators.byNode.values()].map(({ node, ids: those }) => this.#describe(node, those, bound, answers)),
      )
      for (const id of some) if (!answers.has(id)) answers.set(id, coordinators.failure)
    }
    return answers
  }

  /**
   * Whether this principal may write under the transactional id, asked by ending a transaction that nobody can have begun: the broker
   * checks the permission first and the producer id next.
   */
  async mayWriteUnder(id: string, bound: Bound): Promise<Asked<boolean>> {
    const coordinators = await this.#coordinatorsOf([id], bound)
    const [group] = coordinators.byNode.values()
    if (group === undefined) return coordinators.failure
    const asked = await this.#ask(
      group.node,
      {
        api: 'EndTxn',
        transactionalId: id,
        producerId: nobodysProducerId,
        producerEpoch: 0,
        committed: false,
      },
      ({ errorCode }) => errorCode,
      { operation: 'Write', resource: `transactional id '${id}'` },
      bound,
    )
    if (asked.kind === 'forbidden') return { kind: 'answered', value: false }
    // Refused for its producer id, and so not for want of a permission.
    if (asked.kind === 'refused') return { kind: 'answered', value: true }
    return asked.kind === 'answered' ? { kind: 'answered', value: true } : asked
  }

  async #coordinatorsOf(
    ids: readonly string[],
    bound: Bound,
  ): Promise<{
    readonly byNode: ReadonlyMap<number, { readonly node: Node; readonly ids: string[] }>
    readonly failure: Exclude<Asked<never>, { kind: 'answered' }>
  }> {
    const byNode = new Map<number, { readonly node: Node; readonly ids: string[] }>()
    const { coordinators, runtime } = this.#dependencies
    try {
      const found = await withinTime(runtime, coordinators.findAll(ids, bound), bound)
      for (const [id, node] of found) {
        const group = byNode.get(node.id) ?? { node, ids: [] }
        group.ids.push(id)
        byNode.set(node.id, group)
      }
      return { byNode, failure: { kind: 'unanswered', reason: 'its coordinator could not be found' } }
    } catch (error) {
      return { byNode, failure: outcomeOf(error, bound) }
    }
  }

  async #describe(
    node: Node,
    ids: readonly string[],
    bound: Bound,
    answers: Map<string, Asked<TransactionDescription>>,
  ): Promise<void> {
    const attempted = { operation: 'Describe', resource: `transactional ids such as '${ids[0]}'` }
    const request = { api: 'DescribeTransactions', transactionalIds: ids } as const
    const asked = await this.#ask(node, request, () => 0, attempted, bound)
    if (asked.kind !== 'answered') {
      for (const id of ids) {
        this.#dependencies.coordinators.forget(transactionKey(id))
        answers.set(id, asked)
      }
      return
    }
    for (const description of asked.value.transactions) {
      const { errorCode, transactionalId } = description
      const resource = `transactional id '${transactionalId}'`
      const outcome = outcomeOfCode('DescribeTransactions', errorCode, { operation: 'Describe', resource })
      if (outcome?.kind === 'unanswered') this.#dependencies.coordinators.forget(transactionKey(transactionalId))
      answers.set(transactionalId, outcome ?? { kind: 'answered', value: description })
    }
  }

  /** Repeats the question while its answers say that they may change soon. */
  async #ask<A extends ApiName>(
    node: Node | 'seed',
    request: ApiRequest<A> & { readonly api: A },
    errorCodeOf: (response: ApiResponse<A>) => number,
    attempted: Attempted,
    bound: Bound,
  ): Promise<Asked<ApiResponse<A>>> {
    const { connection, runtime, requestTimeoutMs } = this.#dependencies
    let last: Asked<ApiResponse<A>> = { kind: 'unanswered', reason: 'it came too late to be asked' }
    for (let attempt = 0; attempt < mostAttempts && !isPast(runtime, bound); attempt++) {
      bound.signal?.throwIfAborted()
      try {
        const deadline = requestDeadline(runtime, requestTimeoutMs, bound)
        const response = await withinTime(runtime, connection.request<A>(node, 'work', request, { deadline }), bound)
        const errorCode = errorCodeOf(response)
        const outcome = outcomeOfCode(request.api, errorCode, attempted)
        if (outcome === undefined) return { kind: 'answered', value: response }
        if (outcome.kind !== 'unanswered') return outcome
        last = outcome
      } catch (error) {
        last = outcomeOf(error, bound, attempted)
        // A seed that is away gives way to the next one; a broker that was named does not.
        const mayBeAnother = node === 'seed' || (error instanceof RequestFailure && error.kind === 'closed')
        if (last.kind !== 'unanswered' || !mayBeAnother) return last
      }
      await pause(runtime, backoffMs(runtime, attempt), bound)
    }
    return last
  }
}

function mapAnswer<T, U>(asked: Asked<T>, convert: (value: T) => U): Asked<U> {
  return asked.kind === 'answered' ? { kind: 'answered', value: convert(asked.value) } : asked
}

type NoAnswer = Exclude<Asked<never>, { readonly kind: 'answered' }>

/** What an error code says of the question; undefined where it was answered. */
function outcomeOfCode(api: ApiName, errorCode: number, attempted: Attempted): NoAnswer | undefined {
  const disposition = dispositionOf(api, errorCode)
  if (disposition === 'ok') return undefined
  const reason = `${api} answered ${kafkaErrorName(errorCode)}`
  if (disposition === 'absent') return { kind: 'absent', reason }
  const { code } = refusalError(api, errorCode, attempted)
  if (code === 'UNAUTHORIZED') return { kind: 'forbidden', ...attempted, reason }
  if (code === 'UNSUPPORTED') return { kind: 'unsupported', reason }
  const mayPass = disposition === 'retry-now' || disposition === 'retry-later' || disposition === 'find-again'
  return { kind: mayPass ? 'unanswered' : 'refused', reason }
}

/** @throws the signal's reason, `CLOSED`, and faults of this library. */
function outcomeOf(error: unknown, { signal }: Bound, attempted?: Attempted): NoAnswer {
  if (signal?.aborted) throw signal.reason
  if (!isOperatingFailure(error) || isCoordinationError(error, 'CLOSED')) throw error
  const reason = error instanceof Error ? error.message : String(error)
  if (error instanceof RequestFailure && error.kind === 'unsupported') return { kind: 'unsupported', reason }
  if (isCoordinationError(error, 'UNAUTHORIZED')) {
    return { kind: 'forbidden', operation: error.operation, resource: error.resource, reason }
  }
  if (error instanceof RequestFailure && error.kind === 'authentication' && attempted !== undefined) {
    return { kind: 'forbidden', ...attempted, reason }
  }
  return { kind: 'unanswered', reason }
}

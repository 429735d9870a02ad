/**
 * Looks at many roles at once, for whoever observes: a few requests for a thousand roles, on the channel that all share.
 *
 * No mint may rest on one of these (I10); a challenger looks in its turn, on the `mint` channel. It asks once and does not repeat.
 */
import type { Runtime } from '../runtime.js'
import type { ClusterConnection, Node } from './connection.js'
import { RequestFailure } from './connection.js'
import type { Coordinators } from './coordinator.js'
import { throwIfHopeless, transactionKey } from './coordinator.js'
import { dispositionOf, refusalError } from './error-table.js'
import type { LookAnswer } from './mint.js'
import { lookAnswer } from './mint.js'
import type { Bound } from './schedule.js'
import { isPast } from './schedule.js'

/** What looks need of their cluster. */
export interface LookDependencies {
  readonly connection: ClusterConnection
  readonly coordinators: Coordinators
  readonly runtime: Runtime
}

/** More ids in one request would hold up whatever shares the channel. */
const mostIdsAtOnce = 500

/**
 * Looks at each of the roles; those whose coordinator could not be found or gave no answer in time are left out.
 *
 * @throws the bound's reason; CoordinationError where no repetition could help.
 */
export async function lookAtAll(
  dependencies: LookDependencies,
  roles: readonly string[],
  bound: Bound,
): Promise<ReadonlyMap<string, LookAnswer>> {
  const answers = new Map<string, LookAnswer>()
  for (let from = 0; from < roles.length; from += mostIdsAtOnce) {
    bound.signal?.throwIfAborted()
    if (from > 0 && isPast(dependencies.runtime, bound)) break
    const coordinators = await dependencies.coordinators.findAll(roles.slice(from, from + mostIdsAtOnce), bound)
    const byNode = new Map<number, { readonly node: Node; readonly ids: string[] }>()
    for (const [id, node] of coordinators) {
      const group = byNode.get(node.id) ?? { node, ids: [] }
      group.ids.push(id)
      byNode.set(node.id, group)
    }
    await Promise.all([...byNode.values()].map(({ node, ids }) => lookAtThose(dependencies, node, ids, bound, answers)))
  }
  return answers
}

async function lookAtThose(
  { connection, coordinators, runtime }: LookDependencies,
  node: Node,
  ids: readonly string[],
  bound: Bound,
  answers: Map<string, LookAnswer>,
): Promise<void> {
  const attempted = { operation: 'Describe', resource: `transactional ids such as '${ids[0]}'` }
  const forget = (id: string): void => {
    coordinators.noteError(transactionKey(id))
    coordinators.forget(transactionKey(id))
  }
  const sentAt = runtime.monotonicNow()
  try {
    const deadline = coordinators.requestDeadline(bound)
    const request = { api: 'DescribeTransactions', transactionalIds: ids } as const
    const { transactions } = await connection.request(node, 'work', request, { deadline })
    const answeredAt = runtime.monotonicNow()
    for (const description of transactions) {
      const { errorCode, transactionalId } = description
      const disposition = dispositionOf('DescribeTransactions', errorCode)
      if (disposition === 'ok' || disposition === 'absent') {
        answers.set(transactionalId, lookAnswer(description, disposition === 'ok', sentAt, answeredAt))
      } else if (disposition === 'fatal') {
        throw refusalError('DescribeTransactions', errorCode, {
          operation: 'Describe',
          resource: `transactional id '${transactionalId}'`,
        })
      } else forget(transactionalId)
    }
  } catch (error) {
    if (!(error instanceof RequestFailure)) throw error
    for (const id of ids) forget(id)
    throwIfHopeless(error, attempted)
  }
}

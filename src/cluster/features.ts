/**
 * What the cluster as a whole is set to: its `transaction.version`.
 *
 * It must not cache: a cluster is upgraded while clients run.
 */
import type { Runtime } from '../runtime.js'
import type { ClusterConnection } from './connection.js'
import { RequestFailure } from './connection.js'
import { throwIfHopeless } from './coordinator.js'
import type { Bound } from './schedule.js'
import { backoffMs, isPast, pause, requestDeadline } from './schedule.js'

/**
 * The finalized `transaction.version` of the cluster; 0 where it has none (before Kafka 4.0). Asked again where a broker of the list
 * does not answer: that one is not the cluster.
 *
 * @throws the last failure, when the bound ends it first.
 */
export async function transactionVersionOf(
  connection: ClusterConnection,
  runtime: Runtime,
  requestTimeoutMs: number,
  bound: Bound,
): Promise<number> {
  for (let attempt = 0; ; attempt++) {
    bound.signal?.throwIfAborted()
    try {
      const deadline = requestDeadline(runtime, requestTimeoutMs, bound)
      const answer = await connection.request('seed', 'work', { api: 'ApiVersions' }, { deadline })
      return answer.features.get('transaction.version') ?? 0
    } catch (error) {
      if (!(error instanceof RequestFailure)) throw error
      throwIfHopeless(error, { operation: 'Describe', resource: 'the cluster' })
      await pause(runtime, backoffMs(runtime, attempt), bound)
      if (isPast(runtime, bound)) throw error
    }
  }
}

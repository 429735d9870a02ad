/**
 * What the cluster as a whole is set to: its `transaction.version`.
 *
 * It must not cache: a cluster is upgraded while clients run.
 */
import type { ClusterConnection } from './connection.js'

/** The finalized `transaction.version` of the cluster; 0 where it has none (before Kafka 4.0). */
export async function transactionVersionOf(connection: ClusterConnection, deadline: number): Promise<number> {
  const answer = await connection.request('seed', 'work', { api: 'ApiVersions' }, { deadline })
  return answer.features.get('transaction.version') ?? 0
}

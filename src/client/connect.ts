/**
 * Turns the `kafka` option into the connection seam: the only file of this folder that knows of `src/kafka`.
 */
import type { ClusterConnection } from '../cluster/connection.js'
import { openKafkaConnection } from '../kafka/connection.js'
import type { Runtime } from '../runtime.js'

/** @throws `CONFIG` or `UNSUPPORTED` when `kafka` is not a kafkajs `Kafka` that this library can use. */
export function connect(kafka: unknown, runtime: Runtime): ClusterConnection {
  return openKafkaConnection({ kafka, runtime })
}

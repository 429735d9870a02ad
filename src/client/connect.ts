/**
 * Turns the `kafka` option into the connection seam: the only file of this folder that knows of `src/kafka`.
 */
import type { ClusterConnection } from '../cluster/connection.js'
import { openKafkaConnection } from '../kafka/connection.js'
import { codecs } from '../kafka/protocol/codecs.js'
import type { Runtime } from '../runtime.js'

/** @throws `CONFIG` or `UNSUPPORTED` when `kafka` is not a kafkajs `Kafka` that this library can use. */
export function connect(kafka: unknown, runtime: Runtime): ClusterConnection {
  return openKafkaConnection({ kafka, runtime })
}

const forChecksAlone: ReadonlySet<string> = new Set(['ListTransactions', 'DescribeProducers', 'DescribeAcls'])

/** Every API of Kafka that the library uses, in the one version that it sends, and whether only a check sends it. */
export const sentVersions: readonly {
  readonly api: string
  readonly apiKey: number
  readonly version: number
  readonly isForChecks: boolean
}[] = Object.values(codecs)
  .filter(({ apiKey }, index, all) => all.findIndex((other) => other.apiKey === apiKey) === index)
  .map(({ name, apiKey, version }) => ({ api: name, apiKey, version, isForChecks: forChecksAlone.has(name) }))

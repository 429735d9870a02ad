/**
 * The kinds of cluster that a suite of the core runs on: both transaction versions, of the Kafka that `MANDATE_KAFKA_VERSION` names.
 *
 * The only place that reads that variable. A broker before 4.0 knows transaction version 0 only.
 */
import type { SharedKind } from '../kafka/global-setup.js'

const kafkaVersion = process.env.MANDATE_KAFKA_VERSION

/** Whether the brokers know transaction version 2, and so serve EndTxn 5 to whoever sends it, whatever version is finalized. */
export const knowsTransactionVersion2: boolean = kafkaVersion === undefined || Number(kafkaVersion.split('.')[0]) >= 4

/**
 * Whether a coordinator takes a partition without a leader for a deleted one, and completes a transaction without its marker there:
 * 4.3.0 and 4.4.0 do, 4.2.0 and before do not.
 */
export const losesMarkers: boolean = kafkaVersion !== undefined && Number.parseFloat(kafkaVersion) >= 4.3

/**
 * The kinds to run a suite on: `describe.each` over them by `name`. A suite that harms brokers names its `purpose`.
 */
export function kinds(
  options: { readonly nodes?: 1 | 3; readonly purpose?: string } = {},
): readonly { readonly name: string; readonly kind: SharedKind }[] {
  const { nodes = 1, purpose } = options
  const transactionVersions: readonly (0 | 2)[] = knowsTransactionVersion2 ? [2, 0] : [0]
  return transactionVersions.map((transactionVersion) => ({
    name: `${nodes === 1 ? 'one broker' : 'three brokers'}, transaction.version ${transactionVersion}`,
    kind: {
      nodes,
      transactionVersion,
      ...(kafkaVersion === undefined ? {} : { kafkaVersion }),
      ...(purpose === undefined ? {} : { purpose }),
    },
  }))
}

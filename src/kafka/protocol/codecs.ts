/** Every codec by its API's name. The list that `connection.ts` sends with; nothing else belongs here. */
import type { ApiName } from '../../cluster/connection.js'
import { addOffsetsToTxn } from './add-offsets-to-txn.js'
import { addPartitionsToTxn } from './add-partitions-to-txn.js'
import { apiVersions } from './api-versions.js'
import type { Codec } from './codec.js'
import { createTopics } from './create-topics.js'
import { describeAcls } from './describe-acls.js'
import { describeBrokerConfigs, describeConfigs } from './describe-configs.js'
import { describeProducers } from './describe-producers.js'
import { describeTransactions } from './describe-transactions.js'
import { endTxn } from './end-txn.js'
import { fetch } from './fetch.js'
import { findCoordinator, findCoordinators } from './find-coordinator.js'
import { initProducerId } from './init-producer-id.js'
import { listOffsets } from './list-offsets.js'
import { listTransactions } from './list-transactions.js'
import { metadata } from './metadata.js'
import { produce } from './produce.js'
import { txnOffsetCommit } from './txn-offset-commit.js'

export const codecs: { readonly [A in ApiName]: Codec<A> } = {
  ApiVersions: apiVersions,
  Metadata: metadata,
  FindCoordinator: findCoordinator,
  FindCoordinators: findCoordinators,
  InitProducerId: initProducerId,
  AddPartitionsToTxn: addPartitionsToTxn,
  AddOffsetsToTxn: addOffsetsToTxn,
  Produce: produce,
  EndTxn: endTxn,
  TxnOffsetCommit: txnOffsetCommit,
  Fetch: fetch,
  ListOffsets: listOffsets,
  DescribeTransactions: describeTransactions,
  CreateTopics: createTopics,
  DescribeConfigs: describeConfigs,
  DescribeBrokerConfigs: describeBrokerConfigs,
  ListTransactions: listTransactions,
  DescribeProducers: describeProducers,
  DescribeAcls: describeAcls,
}

/**
 * The two steps by which a role is given up: the seal, after which the term's token is dead, and the tombstones, which let the next
 * member lead at once.
 *
 * The term's lane must be drained before, so that no transaction is open. It must not end the term: the leadership does.
 */
import type { ProducerPair } from '../cluster/mint.js'
import { mintExpecting } from '../cluster/mint.js'
import type { Bound } from '../cluster/schedule.js'
import { abortStrayTransaction, producerEpoch, Transaction } from '../cluster/transaction.js'
import { registrationOf } from '../election/role-state.js'
import { compareIncarnations } from '../format/headers.js'
import type { WonTerm } from './challenge.js'
import { leaseTombstone, registrationTombstone } from './coordination-records.js'
import type { Services } from './services.js'

/** Mints once more with the term's own pair as expected (I3). Undefined = somebody else minted first. */
export async function seal(
  { minting, coordinators, transactions }: Services,
  { role, token, epoch, policy }: WonTerm,
  bound: Bound,
): Promise<ProducerPair | undefined> {
  // Over a transaction that is open, transaction version 0 refuses the seal as if somebody else had minted.
  await abortStrayTransaction(transactions, epoch, bound)
  const turn = await minting.takeTurn(role, 'seal', bound)
  try {
    return await mintExpecting(coordinators, role, token, policy.transactionTimeoutMs, bound)
  } finally {
    turn.release()
  }
}

/** Commits, under the sealed pair, the lease's tombstone and, unless a later process owns it, the registration's. */
export async function bury(services: Services, won: WonTerm, sealed: ProducerPair, bound: Bound): Promise<void> {
  const { runtime, settings, transactions } = services
  const { role, log, incarnation } = won
  const { memberId } = settings
  const state = log.stateOf(role)
  const present = state === undefined ? undefined : registrationOf(state, memberId)
  const isOwn = present?.incarnation !== undefined && compareIncarnations(present.incarnation, incarnation) === 0
  const records = [
    leaseTombstone(role, incarnation, runtime),
    ...(isOwn ? [registrationTombstone(role, memberId, runtime)] : []),
  ]
  const transaction = new Transaction(transactions, producerEpoch(role, sealed))
  await transaction.send([{ topic: settings.topic, partition: log.partitionOf(role), records }], bound)
  await transaction.end(true, bound)
}

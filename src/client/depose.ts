/**
 * An operator's end to a term: two mints, after which the holder's token is dead, and the tombstones, which let the next member lead at once.
 *
 * Nothing is judged by rules here: whoever calls it wants the holder gone, healthy or not. It must not lead.
 */
import { transportError } from '../cluster/coordinator.js'
import type { LookAnswer, ProducerPair, Turn } from '../cluster/mint.js'
import { LookFailure, mintExpecting } from '../cluster/mint.js'
import type { Bound } from '../cluster/schedule.js'
import { backoffMs, concurrentTransactionsDelayMs, isPast, pause } from '../cluster/schedule.js'
import { producerEpoch, Transaction, TransactionFailure } from '../cluster/transaction.js'
import { isBeingFinished } from '../election/look.js'
import type { LeadershipStatus } from '../election/status.js'
import { holderOf } from '../election/succession.js'
import { coordinationError } from '../errors.js'
import type { Role } from '../format/names.js'
import type { CoordinationLog } from './coordination-log.js'
import { leaseTombstone, registrationTombstone } from './coordination-records.js'
import { describeRole } from './describe.js'
import type { Services } from './services.js'
import { wedgedError } from './term-errors.js'
import { wedgedAfterMs } from './wedge-watch.js'

/** Ends the term of whoever holds the role, and returns the state that was ended. */
export async function deposeHolder(services: Services, role: Role, bound: Bound): Promise<LeadershipStatus> {
  const { minting } = services
  try {
    const log = await services.log(bound)
    const before = await describeRole(services, role, bound)
    const turn = await minting.takeTurn(role, 'challenge', bound)
    let pair: ProducerPair | undefined
    try {
      pair = await mintTwice(services, turn, role, bound)
    } finally {
      turn.release()
    }
    // Whoever minted in between has deposed the holder as well, and writes the next lease.
    if (pair !== undefined) await bury(services, log, role, pair, bound)
    return before
  } catch (error) {
    if (bound.signal?.aborted) throw bound.signal.reason
    throw transportError(error)
  }
}

/** Undefined = somebody else minted after the first mint. */
async function mintTwice(
  { coordinators, runtime, settings }: Services,
  turn: Turn,
  role: Role,
  bound: Bound,
): Promise<ProducerPair | undefined> {
  const { transactionTimeoutMs } = settings.policy
  const busySince = runtime.monotonicNow()
  for (let attempt = 0; ; attempt++) {
    const look = await turn.look(bound)
    if (!isBeingFinished(look)) {
      const first = await turn.mint(transactionTimeoutMs, coordinators.requestDeadline(bound))
      if (first.kind === 'minted') {
        return await mintExpecting(coordinators, role, first.pair, transactionTimeoutMs, bound)
      }
      if (first.kind === 'failed') {
        if (isPast(runtime, bound)) throw first.cause
        await pause(runtime, backoffMs(runtime, attempt), bound)
        continue
      }
    }
    throwIfWedged(role, look, runtime.monotonicNow() - busySince)
    if (isPast(runtime, bound)) throw new LookFailure(`The last transaction of '${role}' is being finished`, undefined)
    await pause(runtime, concurrentTransactionsDelayMs(attempt), bound)
  }
}

function throwIfWedged(role: Role, look: LookAnswer, busyMs: number): void {
  if (busyMs > wedgedAfterMs) throw wedgedError(role, look)
}

/** Commits the tombstones of the lease and of the registration of whoever held it. */
async function bury(
  services: Services,
  log: CoordinationLog,
  role: Role,
  pair: ProducerPair,
  bound: Bound,
): Promise<void> {
  const { runtime, settings, transactions } = services
  log.nameProducer(role, pair.producerId)
  await log.readToEnd(role, bound)
  const state = log.stateOf(role)
  if (state === undefined) {
    throw coordinationError('TRANSPORT', `The log of '${role}' is being read again`, { retriable: true })
  }
  if (state.lease === undefined || state.lease.kind === 'tombstone') return
  const holder = holderOf(state)
  const records = [
    leaseTombstone(role, undefined, runtime),
    ...(holder === undefined ? [] : [registrationTombstone(role, holder.member, runtime)]),
  ]
  const transaction = new Transaction(transactions, producerEpoch(role, pair))
  try {
    await transaction.send([{ topic: settings.topic, partition: log.partitionOf(role), records }], bound)
    await transaction.end(true, bound)
  } catch (error) {
    // A successor was faster than the tombstone.
    if (error instanceof TransactionFailure && error.reason.kind === 'fenced') return
    throw error
  }
}

/**
 * An operator's end to a term: two mints, after which the holder's token is dead, and the tombstones, which let the next member lead at once.
 *
 * Nothing is judged by rules here: whoever calls it wants the holder gone, healthy or not. It must not lead.
 */
import { transportError } from '../cluster/coordinator.js'
import type { LookAnswer, ProducerPair } from '../cluster/mint.js'
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
import { observeRole } from './describe.js'
import type { Services } from './services.js'
import { wedgedError } from './term-errors.js'
import { wedgedAfterMs } from './wedge-watch.js'

type Minted =
  /** An undefined pair: somebody else minted after the first mint. */
  | { readonly kind: 'minted'; readonly pair: ProducerPair | undefined }
  /** The coordinator is finishing a transaction. */
  | { readonly kind: 'busy'; readonly look: LookAnswer | undefined }
  | { readonly kind: 'failed'; readonly cause: unknown }

/** Ends the term of whoever holds the role, and returns the state that was ended. */
export async function deposeHolder(services: Services, role: Role, bound: Bound): Promise<LeadershipStatus> {
  try {
    const log = await services.log(bound)
    const { status, isExplained } = await observeRole(services, role, bound)
    // A mint would end nothing, and whoever comes next would hold back for it.
    if (status.state === 'vacant' && isExplained) return status
    const pair = await mintTwice(services, role, bound)
    // Whoever minted in between has deposed the holder as well, and writes the next lease.
    if (pair !== undefined) await bury(services, log, role, pair)
    return status
  } catch (error) {
    if (bound.signal?.aborted) throw bound.signal.reason
    throw transportError(error)
  }
}

/** Undefined = somebody else minted after the first mint. */
async function mintTwice(services: Services, role: Role, bound: Bound): Promise<ProducerPair | undefined> {
  const { runtime } = services
  let busySince: number | undefined
  for (let failures = 0, busy = 0; ; ) {
    const minted = await mintInTurn(services, role, bound)
    if (minted.kind === 'minted') return minted.pair
    let delayMs: number
    if (minted.kind === 'failed') {
      if (isPast(runtime, bound)) throw minted.cause
      busySince = undefined
      delayMs = backoffMs(runtime, failures++)
    } else {
      const now = runtime.monotonicNow()
      busySince ??= now
      if (now - busySince > wedgedAfterMs) throw wedgedError(role, minted.look)
      if (isPast(runtime, bound)) {
        throw new LookFailure(`The last transaction of '${role}' is being finished`, undefined)
      }
      delayMs = concurrentTransactionsDelayMs(busy++)
    }
    await pause(runtime, delayMs, bound)
  }
}

/** A turn for each attempt: the client's other roles have seals and challenges for the same broker, and the coordinator may move. */
async function mintInTurn(services: Services, role: Role, bound: Bound): Promise<Minted> {
  const { coordinators, minting, settings } = services
  const { transactionTimeoutMs } = settings.policy
  const turn = await minting.takeTurn(role, 'challenge', bound)
  try {
    const look = await turn.look(bound)
    if (isBeingFinished(look)) return { kind: 'busy', look }
    bound.signal?.throwIfAborted()
    const first = await turn.mint(transactionTimeoutMs, coordinators.requestDeadline(bound))
    if (first.kind === 'look-again') return { kind: 'busy', look: undefined }
    if (first.kind === 'failed') return first
    const pair = await mintExpecting(coordinators, role, first.pair, transactionTimeoutMs, untilBuried(services))
    return { kind: 'minted', pair }
  } catch (error) {
    if (!(error instanceof LookFailure)) throw error
    return { kind: 'failed', cause: error }
  } finally {
    turn.release()
  }
}

/**
 * The holder is deposed by then and nobody knows, so what is left to do is done whatever the caller's bound: without a tombstone the next
 * member would wait for the lease to expire.
 */
function untilBuried({ runtime, settings }: Services): Bound {
  return {
    deadline: runtime.monotonicNow() + 2 * settings.requestTimeoutMs,
    answersUntil: Number.POSITIVE_INFINITY,
  }
}

/**
 * Commits the tombstones of the lease and of the registration of whoever held it. Also where there is no lease any more: a mint that no
 * record explains would have others hold back.
 */
async function bury(services: Services, log: CoordinationLog, role: Role, pair: ProducerPair): Promise<void> {
  const { runtime, settings, transactions } = services
  const bound = untilBuried(services)
  log.nameProducer(role, pair.producerId)
  await log.readToEnd(role, bound)
  const state = log.stateOf(role)
  if (state === undefined) {
    throw coordinationError('TRANSPORT', `The log of '${role}' is being read again`, { retriable: true })
  }
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

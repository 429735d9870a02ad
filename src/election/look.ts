/**
 * What a look shows: whether the role stands as the log says, so that a challenger may mint (I10).
 *
 * A look is a DescribeTransactions of the role, sent after the state it judges. It guards against needless take-overs only;
 * nothing about safety may rest on one (I1). It must not send anything and knows no clock.
 */
import { expiryOf, type HeaderPair, type LeaseEntry } from './lease-entry.js'
import type { Receipt } from './receipt.js'
import type { RoleState } from './role-state.js'

/** The answer of a DescribeTransactions for the role. */
export interface Look {
  /** Kafka's word for the state of the transactional id. */
  readonly state: string
  readonly producerId: bigint
  readonly producerEpoch: number
  /** False when the coordinator does not know the id (105); the fields above then mean nothing. */
  readonly found: boolean
  /** Monotonic ms. */
  readonly sentAt: number
  /** Monotonic ms. */
  readonly answeredAt: number
}

/**
 * - `mint`: the coordinator stands as the log says.
 * - `look-again`: a transaction is just being finished; look on the schedule of a retried 51.
 * - `stranger`: somebody minted just now; see `judgeStranger`.
 */
export type LookVerdict = 'mint' | 'look-again' | 'stranger'

/** Whether the coordinator is just finishing a transaction of the role, or removing the role: nothing new begins until it has. */
export function isBeingFinished({ found, state }: Pick<Look, 'found' | 'state'>): boolean {
  return found && (state.startsWith('Prepare') || state === 'Dead')
}

/**
 * What `look` means for a challenger that goes by `state`. Give the state that `applyLook` made with this look, and evaluate
 * it again first.
 */
export function judgeLook(
  state: RoleState,
  look: Look,
  context: {
    /** The finalized `transaction.version` of the cluster. */
    readonly transactionVersion: number
    /** Monotonic ms. */
    readonly now: number
    readonly ownRegistration: Receipt | undefined
    /** The own lease length. */
    readonly leaseMs: number
  },
): LookVerdict {
  const { lease } = state
  if (!look.found) {
    const expiry = expiryOf(lease, context.ownRegistration, context.leaseMs)
    return expiry === undefined || context.now >= expiry ? 'mint' : 'stranger'
  }
  if (isBeingFinished(look)) return 'look-again'
  if (lease === undefined) {
    // Resigned long ago and compacted away. Empty or Ongoing would be a minter that has not committed yet.
    return look.state === 'CompleteCommit' || look.state === 'CompleteAbort' ? 'mint' : 'stranger'
  }
  const { pair, rises } = referenceOf(lease, context.transactionVersion)
  if (look.producerId !== pair.producerId) return 'stranger'
  const above = look.producerEpoch - pair.producerEpoch
  if (above === 0) return 'mint'
  if (isOwnAbort(look, pair)) return 'mint'
  // The same above a commit that had raised the epoch itself.
  if (rises && above === 2 && look.state === 'CompleteAbort') return 'mint'
  return rises && above === 1 && isOwnCommit(look.state) ? 'mint' : 'stranger'
}

/** How old a look, and the ListOffsets before it, may be when a mint is sent (I10). In ms. */
export function freshnessLimits(
  fastestLookMs: number,
  leaseMs: number,
): { readonly lookMs: number; readonly endMs: number } {
  const longest = leaseMs / 3
  return {
    lookMs: Math.min(Math.max(250, 2 * fastestLookMs), longest),
    endMs: Math.min(Math.max(500, 5 * fastestLookMs), longest),
  }
}

/**
 * Whether a mint may be sent (I10), by the ms since the look was sent and since the ListOffsets was sent that fixed the end of the
 * log before it.
 */
export function looksFresh(
  ages: { readonly lookMs: number; readonly endMs: number },
  fastestLookMs: number,
  leaseMs: number,
): boolean {
  const limits = freshnessLimits(fastestLookMs, leaseMs)
  return ages.lookMs < limits.lookMs && ages.endMs < limits.endMs
}

/**
 * The pair that a look is compared with. `rises`: the writer may be a client whose epoch rises at each commit, so that the
 * coordinator is one above the header of its last one.
 */
export function referenceOf(
  lease: LeaseEntry,
  transactionVersion: number,
): { readonly pair: HeaderPair; readonly rises: boolean } {
  const rises = lease.incarnation === undefined && transactionVersion >= 2
  return lease.kind === 'lease' && !rises ? { pair: lease.token, rises } : { pair: lease.header, rises }
}

/**
 * Whether `look` shows the broker's own abort, by timeout, of the last transaction under `pair`: that raises the epoch once. A
 * challenger that has only got as far as aborting it looks the same.
 */
export function isOwnAbort(look: Look, pair: HeaderPair): boolean {
  return (
    look.found &&
    look.state === 'CompleteAbort' &&
    look.producerId === pair.producerId &&
    look.producerEpoch === pair.producerEpoch + 1
  )
}

/** Whether an epoch one above a rising writer's header is its own commit: a mint that was not used yet shows Empty. */
export function isOwnCommit(state: string): boolean {
  return state === 'CompleteCommit' || state === 'Ongoing' || state === 'PrepareCommit'
}

/**
 * Whether a token is the role's current one, as far as the log and one look can tell.
 *
 * Three-valued, because other ports' epochs rise with each commit while their leases keep the minted pair. A healthy leader is
 * never called superseded, and a fenced or sealed one never current. It informs; the broker alone decides (I1).
 */
import type { FencingToken } from '../format/token.js'
import { isOwnCommit, type Look, referenceOf } from './look.js'
import type { RoleState } from './role-state.js'

export type Authority = 'current' | 'superseded' | 'unknown'

/**
 * The authority of `token`, by the state folded first and a look sent after it. On anything but `current`, fold and look once
 * more before it is told to anybody.
 */
export function authorityOf(token: FencingToken, state: RoleState, look: Look, transactionVersion: number): Authority {
  // The coordinator forgets an id only when nobody has used it for days; no token of it can commit any more.
  if (!look.found) return 'superseded'
  const { lease } = state
  const above = look.producerId === token.producerId ? look.producerEpoch - token.producerEpoch : undefined

  if (lease?.kind === 'lease' && lease.token.equals(token)) {
    const { pair, rises } = referenceOf(lease, transactionVersion)
    const aboveLease = look.producerId === pair.producerId ? look.producerEpoch - pair.producerEpoch : undefined
    if (aboveLease === 0) return 'current'
    if (rises) return aboveLease === 1 && isOwnCommit(look.state) ? 'current' : 'unknown'
    // A lease that came after the look was sent may be of a mint that the look did not see.
    return look.sentAt >= lease.receivedAt ? 'superseded' : 'unknown'
  }
  // No lease stands for it, so it is at most a mint that has not led yet, or the sealed pair of a resignation.
  if (above === 0) return 'unknown'
  // Ids never come back, so the coordinator's own is the later one, however small.
  if (above === undefined) return look.sentAt >= (lease?.receivedAt ?? look.sentAt) ? 'superseded' : 'unknown'
  if (above < 0) return 'unknown'
  const passedInLog =
    lease !== undefined &&
    lease.header.producerId === token.producerId &&
    lease.header.producerEpoch > token.producerEpoch &&
    lease.kind !== 'unreadable'
  // Without word from the log, a higher epoch may be another port's own commits before its first lease was read.
  return passedInLog || transactionVersion < 2 ? 'superseded' : 'unknown'
}

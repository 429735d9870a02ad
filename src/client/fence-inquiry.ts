/**
 * Why the broker refused a token: the log is read to its end once and, without a successor there, the coordinator is looked at once.
 *
 * It must not take longer than a second, nor send anything under the token.
 */

import type { LookAnswer } from '../cluster/mint.js'
import { isOwnAbort } from '../election/look.js'
import type { LossSeen } from '../election/loss.js'
import type { CoordinationError, FencedReason, TermDetails } from '../errors.js'
import type { FencingToken } from '../format/token.js'
import { withSignal } from '../linked-signal.js'
import type { WonTerm } from './challenge.js'
import type { Services } from './services.js'
import { fencedError, supersededError } from './term-errors.js'

const longestInquiryMs = 1_000

/** What a leadership knows of its own loss. */
export interface LossKnown {
  /** What the log shows above the term's last lease. */
  seenInLog(): LossSeen | undefined
  /** Ms since a renewal was confirmed. A transaction that is open began later. */
  readonly confirmedMsAgo: number
}

/** The error with which a fenced term ends. */
export async function inquireFence(
  services: Services,
  won: WonTerm,
  details: TermDetails,
  { seenInLog, confirmedMsAgo }: LossKnown,
): Promise<CoordinationError> {
  const { runtime, minting } = services
  const { role, log, token, policy } = won
  const mayHaveTimedOut = confirmedMsAgo >= policy.transactionTimeoutMs
  const patience = new AbortController()
  const timer = runtime.setTimer(longestInquiryMs, () => patience.abort())
  const bound = {
    deadline: runtime.monotonicNow() + longestInquiryMs,
    answersUntil: Number.POSITIVE_INFINITY,
    signal: patience.signal,
  }
  const inquire = async (): Promise<CoordinationError> => {
    await log.readToEnd(role, bound)
    const found = lossError(details, seenInLog())
    if (found !== undefined) return found
    const look = await minting.look(role, bound)
    log.applyLook(role, look)
    return lossError(details, seenInLog()) ?? fencedError(details, reasonOf(look, token, mayHaveTimedOut))
  }
  try {
    return await withSignal(inquire(), patience.signal)
  } catch {
    return fencedError(details, 'unknown')
  } finally {
    timer.cancel()
  }
}

/**
 * A coordinator that has forgotten the id, as after a long silence of its leader, shows nobody's mint. One that aborted the transaction
 * because of a mint shows, until that mint is sent again, the same as after a timeout.
 */
function reasonOf(look: LookAnswer, token: FencingToken, mayHaveTimedOut: boolean): FencedReason {
  if (!look.found) return 'unknown'
  return mayHaveTimedOut && isOwnAbort(look, token) ? 'transaction-timeout' : 'external-mint'
}

/** The error of a loss that the log shows, or undefined where it shows none for certain. */
export function lossError(details: TermDetails, seen: LossSeen | undefined): CoordinationError | undefined {
  if (seen?.kind === 'superseded') return supersededError(details.role, details.member, seen.by)
  return seen?.kind === 'fenced' ? fencedError(details, 'takeover', seen.successor) : undefined
}

/**
 * The errors with which a contention or a term ends, and which of them no waiting mends.
 *
 * Words only. It must not decide that a term has ended.
 */
import type { LookAnswer } from '../cluster/mint.js'
import type { Successor } from '../election/loss.js'
import type { Superseding } from '../election/succession.js'
import type { CoordinationError, FencedReason, TermDetails } from '../errors.js'
import { coordinationError, isCoordinationError } from '../errors.js'

const fencedWords: { readonly [Reason in FencedReason]: string } = {
  takeover: 'another member leads',
  'transaction-timeout': 'a transaction outlived its timeout and the coordinator aborted it',
  'external-mint': 'somebody minted the transactional id',
  unknown: 'nobody answered why in time, or the coordinator has forgotten the transactional id',
}

export function fencedError(term: TermDetails, reason: FencedReason, successor?: Successor): CoordinationError {
  const { role, token } = term
  const message = `The broker no longer accepts the token ${token} of '${role}': ${fencedWords[reason]}`
  if (successor === undefined) return coordinationError('FENCED', message, { ...term, reason })
  const { member, token: successorToken, term: successorTerm } = successor
  return coordinationError('FENCED', message, {
    ...term,
    reason,
    successor: { member, token: successorToken.toString(), term: successorTerm },
  })
}

export function leaseExpiredError(term: TermDetails, cause: unknown): CoordinationError {
  const message = `The lease of '${term.role}' ran out without a confirmed renewal; stop, or contend again`
  return coordinationError('LEASE_EXPIRED', message, term, { cause })
}

export function termEndedError(term: TermDetails, why: string, cause?: unknown): CoordinationError {
  const message = `The term of '${term.role}' ended, because ${why}; contend again`
  return coordinationError('TERM_ENDED', message, term, { cause })
}

export function resignedError(term: TermDetails): CoordinationError {
  return coordinationError('RESIGNED', `The leadership of '${term.role}' was resigned`, term)
}

/** The error of a process whose member id a later one uses. */
export function supersededError(role: string, member: string, by: Superseding): CoordinationError {
  return coordinationError(
    'SUPERSEDED',
    `A later process contends for '${role}' as member '${member}' (its ${by.source} is at offset ${by.offset}); give each process its own memberId`,
    { role, member },
  )
}

/** What the coordinator says of a transaction that it has not finished. */
export type Unfinished = Pick<LookAnswer, 'state' | 'partitions'>

/** The error of a role whose last transaction the broker cannot finish. */
export function wedgedError(role: string, look: Unfinished | undefined): CoordinationError {
  const partitions = look?.partitions ?? []
  return coordinationError(
    'WEDGED',
    `The broker has not finished the last transaction of '${role}' (${look?.state ?? 'CONCURRENT_TRANSACTIONS'}): a partition of it is offline or cannot take its marker: ${partitions.join(', ') || 'unknown'}; bring it back, or follow the runbook in the README`,
    { role, partitions },
  )
}

const hopelessCodes: ReadonlySet<string> = new Set([
  'SUPERSEDED',
  'CONFIG',
  'UNAUTHORIZED',
  'UNSUPPORTED',
  'TOPIC',
  'CLOSED',
])

/** Whether no waiting mends an error. */
export function isHopeless(error: unknown): boolean {
  return isCoordinationError(error) && hopelessCodes.has(error.code)
}

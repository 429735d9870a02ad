/**
 * Who holds a role, or all of them, and whether a token is current: fold first, look after, and once more on a mismatch.
 *
 * It informs and never fences. It must not write.
 */
import { transportError } from '../cluster/coordinator.js'
import { lookAtAll } from '../cluster/looks.js'
import type { LookAnswer } from '../cluster/mint.js'
import type { Bound } from '../cluster/schedule.js'
import { concurrentTransactionsDelayMs, pause } from '../cluster/schedule.js'
import type { Authority } from '../election/authority.js'
import { authorityOf } from '../election/authority.js'
import { isBeingFinished } from '../election/look.js'
import type { RoleState } from '../election/role-state.js'
import type { LeadershipStatus } from '../election/status.js'
import { holdsAnything, leadershipStatus } from '../election/status.js'
import type { Role } from '../format/names.js'
import type { FencingToken } from '../format/token.js'
import type { CoordinationLog } from './coordination-log.js'
import type { Services } from './services.js'

interface Observed {
  readonly log: CoordinationLog
  readonly state: RoleState | undefined
  readonly look: LookAnswer
  readonly transactionVersion: number
}

/** How often an observer looks again for the newest lease of a holder that stands as the log says, but is writing markers just now. */
const newestLeaseAttempts = 4
/** How long an observer waits for the markers of a decided transaction. */
const longestMarkerWaitMs = 1_000

/** The state of a role as the log and the coordinator show it now. */
export async function describeRole(services: Services, role: Role, bound: Bound): Promise<LeadershipStatus> {
  const { status } = await observeRole(services, role, bound)
  return status
}

/** As `describeRole`; `isExplained` where the coordinator shows nothing that the log does not. */
export async function observeRole(
  services: Services,
  role: Role,
  bound: Bound,
): Promise<{ readonly status: LeadershipStatus; readonly isExplained: boolean }> {
  const observed = await observe(services, role, bound, tokenOf)
  const { log, state, authority } = observed
  return { status: statusOf(services, log, role, { state, authority }), isExplained: agrees(observed, authority) }
}

/** The states of all roles of which the log holds anything, by one read and few looks. */
export async function describeAll(services: Services, bound: Bound): Promise<readonly LeadershipStatus[]> {
  const statuses: LeadershipStatus[] = []
  try {
    const log = await services.log(bound)
    const [, transactionVersion] = await Promise.all([
      log.readAllToEnd(undefined, bound),
      services.transactionVersion(bound),
    ])
    const roles = log.knownRoles().filter((role) => {
      const state = log.stateOf(role)
      return state === undefined || holdsAnything(state)
    })
    const looks = await lookAtAll(services, roles, bound)
    for (const role of roles) {
      bound.signal?.throwIfAborted()
      const look = looks.get(role)
      if (look !== undefined) log.applyLook(role, look)
      const state = log.stateOf(role)
      const observed = look === undefined ? undefined : { log, state, look, transactionVersion }
      const authority = observed === undefined ? 'unknown' : judge(observed, tokenOf(state))
      const isPlain = observed !== undefined && agrees(observed, authority) && !isBeingFinished(observed.look)
      statuses.push(
        isPlain ? statusOf(services, log, role, { state, authority }) : await describeRole(services, role, bound),
      )
    }
  } catch (error) {
    if (bound.signal?.aborted) throw bound.signal.reason
    throw transportError(error)
  }
  return statuses
}

/** The status of a role in that state. */
export function statusOf(
  { runtime }: Services,
  log: CoordinationLog,
  role: Role,
  { state, authority }: { readonly state: RoleState | undefined; readonly authority: Authority },
): LeadershipStatus {
  return leadershipStatus(state, {
    role,
    now: runtime.monotonicNow(),
    observedAt: runtime.wallNow(),
    ownRegistration: undefined,
    liveSince: log.liveSince(role),
    authority,
  })
}

function tokenOf(state: RoleState | undefined): FencingToken | undefined {
  return state?.lease?.kind === 'lease' ? state.lease.token : undefined
}

/** Whether `token` is the one that the broker accepts for the role now. */
export async function checkTokenOf(
  services: Services,
  role: Role,
  token: FencingToken,
  bound: Bound,
): Promise<Authority> {
  const { authority } = await observe(services, role, bound, () => token)
  return authority
}

/**
 * Observes until log and coordinator agree. A commit is decided before its marker can be read, so while the coordinator is
 * writing markers (Prepare*) the log lags behind it; any other mismatch is looked at once more and then told as it is.
 */
async function observe(
  services: Services,
  role: Role,
  bound: Bound,
  tokenOf: (state: RoleState | undefined) => FencingToken | undefined,
): Promise<Observed & { readonly authority: Authority }> {
  const { runtime } = services
  const giveUpAt = Math.min(bound.deadline, runtime.monotonicNow() + longestMarkerWaitMs)
  try {
    let mismatches = 0
    for (let attempt = 0; ; attempt++) {
      const observed = await observeOnce(services, role, bound)
      const authority = judge(observed, tokenOf(observed.state))
      const isFinishing = observed.look.found && observed.look.state.startsWith('Prepare')
      if (agrees(observed, authority) && (!isFinishing || attempt >= newestLeaseAttempts)) {
        return { ...observed, authority }
      }
      // A look may show complete what was being finished while the log was read, so one mismatch alone proves nothing.
      if (isFinishing ? runtime.monotonicNow() >= giveUpAt : ++mismatches > 1) return { ...observed, authority }
      if (isFinishing) await pause(runtime, concurrentTransactionsDelayMs(attempt), bound)
    }
  } catch (error) {
    if (bound.signal?.aborted) throw bound.signal.reason
    throw transportError(error)
  }
}

/** Whether the look shows nothing that the log does not. */
function agrees({ state, look }: Observed, authority: Authority): boolean {
  if (authority === 'current') return true
  const lease = state?.lease
  // A transaction that completed after the log was read may have been the role's first lease.
  if (lease === undefined) return !look.found
  return look.producerId === lease.header.producerId && look.producerEpoch === lease.header.producerEpoch
}

async function observeOnce(services: Services, role: Role, bound: Bound): Promise<Observed> {
  const log = await services.log(bound)
  const [, transactionVersion] = await Promise.all([log.readToEnd(role, bound), services.transactionVersion(bound)])
  const look = await services.minting.look(role, bound)
  log.applyLook(role, look)
  return { log, state: log.stateOf(role), look, transactionVersion }
}

function judge({ state, look, transactionVersion }: Observed, token: FencingToken | undefined): Authority {
  if (state === undefined || token === undefined) return 'unknown'
  return authorityOf(token, state, look, transactionVersion)
}

/**
 * Who holds a role, and whether a token is current: fold first, look after, and once more on a mismatch.
 *
 * It informs and never fences. It must not write.
 */
import { transportError } from '../cluster/coordinator.js'
import type { LookAnswer } from '../cluster/mint.js'
import type { Bound } from '../cluster/schedule.js'
import type { Authority } from '../election/authority.js'
import { authorityOf } from '../election/authority.js'
import type { RoleState } from '../election/role-state.js'
import type { LeadershipStatus } from '../election/status.js'
import { leadershipStatus } from '../election/status.js'
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

/** The state of a role as the log and the coordinator show it now. */
export async function describeRole(services: Services, role: Role, bound: Bound): Promise<LeadershipStatus> {
  const { runtime } = services
  const tokenOf = (state: RoleState | undefined): FencingToken | undefined =>
    state?.lease?.kind === 'lease' ? state.lease.token : undefined
  const { log, state, authority } = await observe(services, role, bound, tokenOf)
  return leadershipStatus(state, {
    role,
    now: runtime.monotonicNow(),
    observedAt: runtime.wallNow(),
    ownRegistration: undefined,
    liveSince: log.liveSince(role),
    authority,
  })
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

async function observe(
  services: Services,
  role: Role,
  bound: Bound,
  tokenOf: (state: RoleState | undefined) => FencingToken | undefined,
): Promise<Observed & { readonly authority: Authority }> {
  try {
    const first = await observeOnce(services, role, bound)
    const authority = judge(first, tokenOf(first.state))
    if (authority === 'current' || tokenOf(first.state) === undefined) return { ...first, authority }
    const second = await observeOnce(services, role, bound)
    return { ...second, authority: judge(second, tokenOf(second.state)) }
  } catch (error) {
    if (bound.signal?.aborted) throw bound.signal.reason
    throw transportError(error)
  }
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

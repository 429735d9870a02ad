/**
 * What the coordination topic holds of one role, read raw and decoded by the frozen format.
 *
 * It reads with the raw log reader, never with the library's follower, and keeps only what committed readers see.
 */
import { headerText, type RawRecord, readCommittedLog } from '../../examples/demo/raw-log.js'
import { decodeKey, decodeLease, isTombstone } from '../../src/index.js'

/** A committed lease record of a role, or its tombstone (`token` and `member` undefined then). */
export interface LeaseInLog {
  readonly offset: bigint
  readonly token: string | undefined
  readonly member: string | undefined
  /** As the record's header says, or the offset itself where it has none: the first lease of a term. */
  readonly term: bigint
  readonly raw: RawRecord
}

/** A registration record of a role, or its tombstone. */
export interface RegistrationInLog {
  readonly offset: bigint
  readonly member: string
  readonly isTombstone: boolean
  readonly raw: RawRecord
}

export interface RoleInLog {
  readonly leases: readonly LeaseInLog[]
  readonly registrations: readonly RegistrationInLog[]
}

/** Everything visible of the role, in offset order. */
export async function roleInLog(bootstrap: readonly string[], topic: string, role: string): Promise<RoleInLog> {
  const leases: LeaseInLog[] = []
  const registrations: RegistrationInLog[] = []
  for (const raw of await readCommittedLog(bootstrap, topic)) {
    if (raw.key === null || raw.outcome === 'aborted' || raw.outcome === 'open') continue
    const key = decodeKey(raw.key)
    if (key.role !== role) continue
    const gone = isTombstone(raw.value)
    if (key.kind === 'registration') {
      registrations.push({ offset: raw.offset, member: key.member, isTombstone: gone, raw })
      continue
    }
    const term = headerText(raw, 'mandate-term')
    const lease = gone || raw.value === null ? undefined : decodeLease(raw.value)
    leases.push({
      offset: raw.offset,
      token: lease?.token.toString(),
      member: lease?.member,
      term: term === undefined ? raw.offset : BigInt(term),
      raw,
    })
  }
  return { leases, registrations }
}

/** The members whose registrations stand. */
export function registeredMembers({ registrations }: RoleInLog): readonly string[] {
  const last = new Map(registrations.map((registration) => [registration.member, registration.isTombstone]))
  return [...last].filter(([, gone]) => !gone).map(([member]) => member)
}

/** One entry for each run of lease records of the same token, in log order: the tokens in the order in which they led. */
export function tokensInOrder({ leases }: RoleInLog): readonly { readonly token: string; readonly term: bigint }[] {
  const order: { token: string; term: bigint }[] = []
  for (const { token, term } of leases) {
    if (token === undefined || order.at(-1)?.token === token) continue
    order.push({ token, term })
  }
  return order
}

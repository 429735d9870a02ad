/**
 * What a check of a cluster tells: findings with stable codes.
 *
 * Data and its order only; it must not ask anything nor judge. Codes and fields are under semver, texts are for people.
 */
import type { Asked } from '../cluster/survey.js'

/** What a finding is about. The README says what each means. */
export type VerifyCode =
  | 'broker-unreachable'
  | 'api-unsupported'
  | 'transaction-version'
  | 'transaction-log'
  | 'transaction-timeout'
  | 'topic-missing'
  | 'topic-setting'
  | 'topic-replication'
  | 'partition-unavailable'
  | 'partition-count'
  | 'permission-missing'
  | 'write-held-widely'
  | 'clock'
  | 'hanging-transaction'
  | 'foreign-record'
  | 'unreadable-record'
  | 'dead-registration'
  | 'epoch-near-exhaustion'
  | 'id-near-expiry'
  | 'short-lease'
  | 'not-checked'

/**
 * - `error`: roles cannot be led, or what the library promises does not hold.
 * - `warning`: it works now, and will not in an outage, an attack or some months.
 * - `info`: worth knowing; or something could not be looked at.
 */
export type VerifySeverity = 'error' | 'warning' | 'info'

/** Something about the cluster that is not as wanted. Fields that do not apply are absent. */
export interface VerifyFinding {
  readonly code: VerifyCode
  readonly severity: VerifySeverity
  readonly found: string
  readonly wanted: string
  readonly remedy: string
  readonly topic?: string
  readonly partition?: number
  readonly role?: string
  readonly broker?: number
}

const severities: readonly VerifySeverity[] = ['error', 'warning', 'info']
/** One cause can show in thousands of roles. */
const mostOfOneCode = 20

/** The findings with the worst first; of one code and severity no more than twenty, and how many more there were. */
export function orderedFindings(findings: readonly VerifyFinding[]): readonly VerifyFinding[] {
  const groups = new Map<string, VerifyFinding[]>()
  for (const finding of findings) {
    const key = `${severities.indexOf(finding.severity)} ${finding.code}`
    const group = groups.get(key)
    if (group === undefined) groups.set(key, [finding])
    else group.push(finding)
  }
  return severities.flatMap((_, severity) =>
    [...groups].filter(([key]) => key.startsWith(`${severity} `)).flatMap(([, group]) => shortened(group)),
  )
}

function shortened(group: readonly VerifyFinding[]): readonly VerifyFinding[] {
  const kept = group.slice(0, mostOfOneCode)
  const last = kept.at(-1)
  if (last === undefined || group.length <= mostOfOneCode) return group
  return [...kept.slice(0, -1), { ...last, found: `${last.found}; and ${group.length - mostOfOneCode} more like it` }]
}

/** That something could not be looked at, and what would let it be. */
export function notChecked(
  what: string,
  asked: Exclude<Asked<unknown>, { readonly kind: 'answered' }>,
  where: Pick<VerifyFinding, 'topic' | 'partition' | 'role' | 'broker'> = {},
): VerifyFinding {
  const remedy = (): string => {
    if (asked.kind === 'forbidden') {
      return `grant ${asked.operation} on ${asked.resource} to this principal, or check as one that has it`
    }
    if (asked.kind === 'unsupported') return 'upgrade the brokers'
    return 'check again; if it stays so, look at the brokers'
  }
  return {
    code: 'not-checked',
    severity: 'info',
    found: `${what} could not be looked at: ${asked.reason}`,
    wanted: 'an answer',
    remedy: remedy(),
    ...where,
  }
}

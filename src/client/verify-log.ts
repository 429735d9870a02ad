/**
 * What a check makes of the records of the coordination topic: whose they are, where they are, how old they are.
 *
 * Pure over its own fold: it must not ask anything. It uses wall clocks, whose readings it compares with minutes of patience, and so decides
 * nothing that a term could rest on.
 */
import type { SettledRecord } from '../cluster/markers.js'
import type { PartitionScan } from '../cluster/scan.js'
import type { LeaseEntry } from '../election/lease-entry.js'
import type { LeasePolicy } from '../election/policy.js'
import { readRecord } from '../election/record.js'
import type { Finding, RegistrationEntry, RoleState } from '../election/role-state.js'
import { applyLook, applyRecord, emptyRoleState, forgetBelow, wantsLook } from '../election/role-state.js'
import type { Role } from '../format/names.js'
import { rolePartition } from '../format/partition.js'
import type { VerifyFinding } from './verify-finding.js'
import { notChecked } from './verify-finding.js'

/** What a look at a role showed. */
export interface RoleLook {
  readonly found: boolean
  readonly producerId: bigint
  readonly producerEpoch: number
  /** Monotonic ms. */
  readonly sentAt: number
}

export interface LogContext {
  readonly topic: string
  /** This process's wall clock, in ms since 1970. */
  readonly now: number
  readonly policy: LeasePolicy
  readonly looks: ReadonlyMap<string, RoleLook>
  /** `transactional.id.expiration.ms`; undefined where the brokers' settings may not be read. */
  readonly idExpirationMs: number | undefined
}

interface Counted {
  readonly kind: 'foreign-record' | 'unreadable-record' | 'misplaced'
  readonly partition: number
  readonly role: string | undefined
  readonly firstOffset: bigint
  readonly reason: string
  count: number
}

const shortLeaseMs = 15_000
const lastEpochs = 30_000
const greatestClockDifferenceMs = 10_000
const greatestStepBackMs = 1_000
/** A member that lives challenges within one lease of its slot. */
const leasesOfPatience = 3
/** The share of an id's expiry after which a silent role is told. */
const expiryShare = 0.75

/** Records as they are read, folded as every member folds them. */
export class LogReading {
  readonly #partitions: number
  readonly #states = new Map<Role, RoleState>()
  readonly #counted = new Map<string, Counted>()

  constructor(partitions: number) {
    this.#partitions = partitions
  }

  /** The roles of which anything was read in the right place. */
  get roles(): readonly Role[] {
    return [...this.#states.keys()]
  }

  /** Takes the next settled records of a partition; nothing below `settledBelow` can still settle. */
  take(partition: number, records: readonly SettledRecord[], settledBelow: bigint): void {
    for (const record of records) {
      const read = readRecord(record)
      if (read.kind === 'unreadable-key') {
        this.#count('unreadable-record', partition, { role: undefined, offset: read.offset, reason: read.reason })
        continue
      }
      const { role } = read
      const place = rolePartition(role, this.#partitions)
      if (place !== partition) {
        this.#count('misplaced', partition, { role, offset: record.offset, reason: String(place) })
        continue
      }
      const { state, finding } = applyRecord(this.#states.get(role) ?? emptyRoleState(role), read)
      if (finding !== undefined) this.#count(finding.kind, partition, finding)
      this.#states.set(role, forgetBelow(state, settledBelow))
    }
  }

  /** Everything that can be told of the records, with what the looks showed. */
  findings(scans: readonly PartitionScan[], context: LogContext): readonly VerifyFinding[] {
    const states = [...this.#states.values()].map((state) => this.#looked(state, context.looks.get(state.role)))
    const now = Math.max(context.now, ...scans.map(({ newestAppendTime }) => Number(newestAppendTime ?? 0n)))
    return [
      ...scans.flatMap((scan) => judgeScan(scan, context)),
      ...[...this.#counted.values()].map((counted) => this.#told(counted, context.topic)),
      ...states.flatMap((state) => judgeRole(state, { ...context, now })),
      ...judgeOwnLease(context.policy),
    ]
  }

  #looked(state: RoleState, look: RoleLook | undefined): RoleState {
    if (look === undefined) return state
    const { state: named, findings } = applyLook(state, look)
    for (const finding of findings) this.#count(finding.kind, rolePartition(state.role, this.#partitions), finding)
    return named
  }

  #count(kind: Counted['kind'], partition: number, { role, offset, reason }: Omit<Finding, 'kind'>): void {
    const key = `${kind} ${partition} ${role ?? ''}`
    const known = this.#counted.get(key)
    if (known !== undefined) known.count += 1
    else this.#counted.set(key, { kind, partition, role, firstOffset: offset, reason, count: 1 })
  }

  #told({ kind, partition, role, firstOffset, reason, count }: Counted, topic: string): VerifyFinding {
    const where = { topic, partition, ...(role === undefined ? {} : { role }) }
    const records = `${count === 1 ? 'a record' : `${count} records`}, the first at offset ${firstOffset}`
    if (kind === 'misplaced') {
      return {
        code: 'partition-count',
        severity: 'error',
        found: `${records}, of a role whose place is partition ${reason} of ${this.#partitions}`,
        wanted: 'every record of a role in its one partition',
        remedy:
          'the topic was given partitions, or another program places keys otherwise: stop all members, and begin with a new topic whose count never changes',
        ...where,
      }
    }
    const isForeign = kind === 'foreign-record'
    return {
      code: kind,
      severity: 'warning',
      found: `${records}: ${reason}`,
      wanted: isForeign ? 'leases written by those who lead, in transactions' : 'the frozen format',
      remedy: 'it counts for nothing; find out who writes to the topic, and take WRITE from whoever is no member',
      ...where,
    }
  }
}

function judgeScan(scan: PartitionScan, { topic, now }: LogContext): readonly VerifyFinding[] {
  const { partition, problem, undecodable, widestStepBack, newestAppendTime } = scan
  const where = { topic, partition }
  const findings: VerifyFinding[] = []
  const [first] = undecodable
  if (problem !== undefined) {
    findings.push(notChecked('the rest of the partition', { kind: 'unanswered', reason: problem }, where))
  }
  if (first !== undefined) {
    findings.push({
      code: 'unreadable-record',
      severity: 'warning',
      found: `${undecodable.length === 1 ? 'a batch' : `${undecodable.length} batches`}, the first at offset ${first.offset}: ${first.reason}`,
      wanted: 'batches without compression, or with gzip',
      remedy: 'set compression.type=uncompressed on the topic, and compression off in whatever writes there',
      ...where,
    })
  }
  if (widestStepBack !== undefined && widestStepBack.ms > greatestStepBackMs) {
    findings.push({
      code: 'clock',
      severity: 'warning',
      found: `append times went back by ${widestStepBack.ms} ms at offset ${widestStepBack.offset}`,
      wanted: 'brokers whose clocks agree and never step',
      remedy: 'see to the time synchronisation of the brokers: a standby may wait a lease longer than needed',
      ...where,
    })
  }
  const aheadMs = newestAppendTime === undefined ? 0 : Number(newestAppendTime) - now
  if (aheadMs > greatestClockDifferenceMs) {
    findings.push({
      code: 'clock',
      severity: 'warning',
      found: `the broker's clock is at least ${aheadMs} ms ahead of this process's`,
      wanted: `less than ${greatestClockDifferenceMs} ms`,
      remedy: 'see to the time synchronisation of this machine and of the brokers',
      ...where,
    })
  }
  return findings
}

function judgeRole(state: RoleState, context: LogContext): readonly VerifyFinding[] {
  const look = context.looks.get(state.role)
  return [
    ...judgeLease(state, context),
    ...judgeRegistrations(state, context),
    ...(look?.found === true ? judgeId(state, look, context) : []),
  ]
}

function judgeLease({ role, lease }: RoleState, { topic }: LogContext): readonly VerifyFinding[] {
  if (lease?.kind !== 'lease') return []
  const findings: VerifyFinding[] = []
  if (lease.lengthMs < shortLeaseMs)
    findings.push(shortLease(`${lease.member} leads with ${lease.lengthMs} ms`, { role }))
  const differenceMs = lease.appendTime === undefined ? 0 : Number(lease.grantedAt - lease.appendTime)
  if (Math.abs(differenceMs) > greatestClockDifferenceMs) {
    findings.push({
      code: 'clock',
      severity: 'warning',
      found: `the clock of ${lease.member} is ${Math.abs(differenceMs)} ms ${differenceMs > 0 ? 'ahead of' : 'behind'} the broker's`,
      wanted: `less than ${greatestClockDifferenceMs} ms`,
      remedy: 'see to the time synchronisation of that machine; nothing is fenced by it, but what it tells misleads',
      topic,
      role,
    })
  }
  return findings
}

function judgeOwnLease({ leaseMs }: LeasePolicy): readonly VerifyFinding[] {
  return leaseMs < shortLeaseMs ? [shortLease(`leaseMs = ${leaseMs}`, {})] : []
}

function shortLease(found: string, where: { readonly role?: string }): VerifyFinding {
  return {
    code: 'short-lease',
    severity: 'info',
    found,
    wanted: `at least ${shortLeaseMs} ms`,
    remedy: 'accept that a broker crash, which takes Kafka 12 to 14 s, ends such a term, or make the lease longer',
    ...where,
  }
}

/** A member that lives would have challenged long ago, or the role is wedged. */
function judgeRegistrations(state: RoleState, { topic, now, policy }: LogContext): readonly VerifyFinding[] {
  const { role, registrations, lease } = state
  const endedAt = endOf(lease)
  if (wantsLook(state)) return []
  // Times by the brokers' clocks alone can tell an age.
  if (endedAt === undefined || registrations.some(({ appendTime }) => appendTime === undefined)) return []
  const lengthMs = lease?.kind === 'lease' ? lease.lengthMs : policy.leaseMs
  const patienceMs = leasesOfPatience * lengthMs + registrations.length * policy.staggerMs
  const since = ({ appendTime }: RegistrationEntry): number => Math.max(endedAt, Number(appendTime ?? 0n))
  const dead = registrations.filter((registration) => now - since(registration) > patienceMs)
  const [first] = dead
  if (first === undefined) return []
  const waiting = dead.filter(({ member }) => lease?.kind !== 'lease' || member !== lease.member)
  const names = dead.slice(0, 5).map(({ member }) => member)
  return [
    {
      code: 'dead-registration',
      severity: waiting.length > 0 ? 'warning' : 'info',
      found: `${dead.length} registered (${names.join(', ')}${dead.length > names.length ? ', ...' : ''}), the first at offset ${first.offset}, and nobody leads since ${Math.round((now - since(first)) / 1_000)} s`,
      wanted: 'a leader, or no registration',
      remedy:
        'see whether those processes run: if not, start one, and it sweeps them; if so, the role may be wedged or they are cut off',
      topic,
      role,
    },
  ]
}

/** When the role came to be without a leader, in ms since 1970 by the broker's clock; undefined where that cannot be told. */
function endOf(lease: LeaseEntry | undefined): number | undefined {
  if (lease === undefined) return 0
  if (lease.appendTime === undefined || lease.kind === 'unreadable') return undefined
  return Number(lease.appendTime) + (lease.kind === 'lease' ? lease.lengthMs : 0)
}

function judgeId(
  { role, lease }: RoleState,
  { producerId, producerEpoch }: RoleLook,
  { now, idExpirationMs }: LogContext,
): readonly VerifyFinding[] {
  const findings: VerifyFinding[] = []
  if (producerEpoch > lastEpochs) {
    findings.push({
      code: 'epoch-near-exhaustion',
      severity: 'info',
      found: `producer id ${producerId} is in epoch ${producerEpoch} of 32767`,
      wanted: 'nothing: the coordinator goes on with another producer id',
      remedy: 'find out why the role changed hands so often; order terms, never tokens',
      role,
    })
  }
  const lastUse = lease?.appendTime === undefined ? undefined : Number(lease.appendTime)
  if (idExpirationMs !== undefined && lastUse !== undefined && now - lastUse > expiryShare * idExpirationMs) {
    findings.push({
      code: 'id-near-expiry',
      severity: 'info',
      found: `unused since ${Math.round((now - lastUse) / 1_000)} s`,
      wanted: `use within transactional.id.expiration.ms = ${idExpirationMs}`,
      remedy: 'nothing: the next leader gets another producer id, and terms go on rising',
      role,
    })
  }
  return findings
}

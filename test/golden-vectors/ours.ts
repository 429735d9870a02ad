/**
 * What this library makes of a fold or a decision of the shared rules, in the words of the vectors.
 *
 * A vector knows offsets and wall clocks; the library goes by receipts on its own monotonic clock and by the headers of batches and
 * records. The staging says what of that a vector leaves open. Nothing here computes an expected value.
 */
import { expiryOf } from '../../src/election/lease-entry.js'
import type { Receipt } from '../../src/election/receipt.js'
import { type LogRecord, readRecord } from '../../src/election/record.js'
import { applyRecord, emptyRoleState, type RoleState } from '../../src/election/role-state.js'
import { evaluate, holderOf, roster, type Self } from '../../src/election/succession.js'
import { encodeIncarnation, type Incarnation, incarnationHeader } from '../../src/format/headers.js'
import { decodeKey, encodeKey } from '../../src/format/key.js'
import { decodeLease, encodeLease } from '../../src/format/lease.js'
import { parseMemberId, parseRole } from '../../src/format/names.js'
import { encodeRegistration } from '../../src/format/registration.js'
import { FencingToken } from '../../src/format/token.js'
import { isTombstone } from '../../src/format/tombstone.js'
import { type DecisionVector, type FoldVector, unhex } from './vectors.js'

/** What a fold vector says came out. */
export type FoldOutcome = Pick<FoldVector, 'lease' | 'roster'>

/** The library's fold of the vector's records, each written as its own port would: leases in a transaction under their token. */
export function ourFold(vector: FoldVector): FoldOutcome {
  const role = parseRole(vector.role)
  const pairs = new Map<string, FencingToken>()
  const named = new Set<bigint>()
  const records = vector.records.map(({ offset, key, value }): LogRecord => {
    const bytes = value === null ? null : unhex(value)
    const decoded = decodeKey(unhex(key))
    if (decoded.kind === 'registration') return recordOf(BigInt(offset), unhex(key), bytes)
    if (!isTombstone(bytes)) pairs.set(decoded.role, decodeLease(bytes).token)
    // Whoever resigns does it under the token that it holds.
    const writer = pairs.get(decoded.role) ?? FencingToken.of(0n, 0)
    named.add(writer.producerId)
    return { ...recordOf(BigInt(offset), unhex(key), bytes), transactional: true, ...pairOf(writer) }
  })
  let state = emptyRoleState(role, { named })
  for (const record of records) {
    const read = readRecord(record)
    if (read.kind === 'unreadable-key' || read.role !== role) continue
    const applied = applyRecord(state, read)
    if (applied.finding !== undefined) throw new Error(`${vector.id}: ${applied.finding.reason}`)
    state = applied.state
  }
  return foldOutcome(state)
}

function foldOutcome(state: RoleState): FoldOutcome {
  const holder = holderOf(state)
  const ranks = new Map(roster(state).map((entry) => [entry.registration, entry.rank]))
  const { lease } = state
  return {
    lease:
      lease?.kind === 'lease'
        ? {
            member: lease.member,
            producer_id: String(lease.token.producerId),
            producer_epoch: lease.token.producerEpoch,
            granted_at: String(lease.grantedAt),
            deadline: String(lease.deadline),
            offset: String(lease.offset),
          }
        : null,
    roster: state.registrations.map((entry) => ({
      member: entry.member,
      offset: String(entry.offset),
      registered_at: String(entry.registeredAt),
      rank: entry === holder ? null : (ranks.get(entry) ?? null),
    })),
  }
}

/** What a decision vector leaves open, and this library asks. */
export interface Staging {
  /** Who wrote the lease: another port, `self`, an earlier process of the same id. */
  readonly leaseOf: 'other-port' | 'self' | 'predecessor'
  /** Whether this process registered. `gone`: it did, and the registration in the vector's roster is no more, if there is one. */
  readonly registered: 'yes' | 'not-yet' | 'gone'
  /** When the lease was read: as it was granted, or only now. */
  readonly leaseRead: 'when-granted' | 'now'
  /** Whether a resignation was read just now, where there is no lease. */
  readonly resigned: boolean
}

export const usualStaging: Staging = {
  leaseOf: 'other-port',
  registered: 'yes',
  leaseRead: 'when-granted',
  resigned: false,
}

/** What a decision vector says came out. */
export type DecisionOutcome = Pick<DecisionVector, 'decision' | 'instant'> | { readonly decision: 'superseded' }

/** The library's decision. Registrations are read at the instant that they name. */
export function ourDecision(vector: DecisionVector, staging: Staging): DecisionOutcome {
  const own = vector.roster.find((entry) => entry.member === vector.self)
  // Instants are counted from one near those that matter, since the library's are no 64-bit integers.
  const origin = BigInt(vector.lease?.granted_at ?? own?.registered_at ?? vector.now)
  const monotonic = (wall: string): number => Number(BigInt(wall) - origin)
  const wall = (instant: number): string => String(origin + BigInt(instant))
  const now = monotonic(vector.now)

  const incarnation = incarnationOf('self', BigInt(own?.offset ?? 1000))
  const state = stateOf(vector, staging, incarnation, monotonic)
  const receipt = state.registrations.find((entry) => entry.member === vector.self)
  const self: Self = {
    memberId: parseMemberId(vector.self),
    incarnation,
    ownRegistration: staging.registered === 'not-yet' ? undefined : (receipt ?? goneReceipt),
    token: vector.holds === null ? undefined : FencingToken.parse(vector.holds),
    endedTokens: [],
  }
  const leaseMs = vector.lease === null ? 30_000 : lengthOf(vector.lease)
  const policy = { leaseMs, renewIntervalMs: leaseMs / 3, staggerMs: vector.stagger_ms, transactionTimeoutMs: leaseMs }
  const evaluation = evaluate(state, self, now, policy)
  switch (evaluation.decision) {
    case 'superseded':
      return { decision: 'superseded' }
    case 'register':
      return { decision: 'register', instant: null }
    case 'hold': {
      const expiry = expiryOf(state.lease, self.ownRegistration, leaseMs)
      return { decision: 'hold', instant: expiry === undefined ? null : wall(expiry) }
    }
    case 'challenge':
      // At once, whoever it is that holds its own role: there is no slot to wait for.
      return { decision: 'challenge', instant: evaluation.by === 'slot' ? wall(evaluation.slot) : vector.now }
    case 'wait':
      return { decision: 'wait', instant: evaluation.until === undefined ? null : wall(evaluation.until) }
  }
}

/** An own registration that was seen long ago and is gone. */
const goneReceipt: Receipt = { offset: 0n, receivedAt: -3_600_000, leaderEpoch: -1, appendTime: undefined }

function stateOf(
  vector: DecisionVector,
  staging: Staging,
  own: Incarnation,
  monotonic: (wall: string) => number,
): RoleState {
  const role = parseRole('controller')
  const records: LogRecord[] = vector.roster.map((entry) => {
    const member = parseMemberId(entry.member)
    const key = encodeKey({ kind: 'registration', role, member })
    const value = encodeRegistration({ member, registeredAt: BigInt(entry.registered_at) })
    const record = recordOf(BigInt(entry.offset), key, value, monotonic(entry.registered_at))
    return entry.member === vector.self ? written(record, own) : record
  })
  const offset = 1_000_000n
  const key = encodeKey({ kind: 'lease', role })
  const { lease } = vector
  const token =
    lease === null ? FencingToken.of(0n, 0) : FencingToken.of(BigInt(lease.producer_id), lease.producer_epoch)
  if (lease !== null) {
    const value = encodeLease({
      member: parseMemberId(lease.member),
      token,
      grantedAt: BigInt(lease.granted_at),
      deadline: BigInt(lease.deadline),
    })
    const readAt = monotonic(staging.leaseRead === 'now' ? vector.now : lease.granted_at)
    const record = { ...recordOf(offset, key, value, readAt), transactional: true, ...pairOf(token) }
    if (staging.leaseOf === 'other-port') records.push(record)
    else records.push(written(record, staging.leaseOf === 'self' ? own : incarnationOf('predecessor', -1n)))
  } else if (staging.resigned) {
    const record = recordOf(offset, key, null, monotonic(vector.now))
    records.push({ ...record, transactional: true, ...pairOf(token) })
  }
  return records.reduce(
    (state, record) => applyRecord(state, readRecord(record)).state,
    emptyRoleState(role, { named: [token.producerId] }),
  )
}

function lengthOf({ granted_at, deadline }: { readonly granted_at: string; readonly deadline: string }): number {
  return Math.max(1, Number(BigInt(deadline) - BigInt(granted_at)))
}

function incarnationOf(name: 'self' | 'predecessor', birth: bigint): Incarnation {
  return { id: new Uint8Array(16).fill(name.length), birth, registeredAt: 0n }
}

function written(record: LogRecord, incarnation: Incarnation): LogRecord {
  return { ...record, headers: [[incarnationHeader, encodeIncarnation(incarnation)]] }
}

function pairOf({ producerId, producerEpoch }: FencingToken): Pick<LogRecord, 'producerId' | 'producerEpoch'> {
  return { producerId, producerEpoch }
}

/** A record that another port wrote outside a transaction. */
function recordOf(offset: bigint, key: Uint8Array, value: Uint8Array | null, receivedAt = 0): LogRecord {
  return {
    offset,
    key,
    value,
    headers: [],
    transactional: false,
    producerId: -1n,
    producerEpoch: -1,
    receivedAt,
    leaderEpoch: -1,
    appendTime: undefined,
  }
}

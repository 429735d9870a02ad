/**
 * Builders for the tests of the election: records as they come from the log, through the real codecs, with only the fields that a test
 * is about. Offsets and instants are given by each test; nothing here computes an expected value.
 */
import type { LeaseEntry } from '../../src/election/lease-entry.js'
import { type LeasePolicy, leasePolicy } from '../../src/election/policy.js'
import type { Receipt } from '../../src/election/receipt.js'
import { type LogRecord, type ReadRecord, readRecord } from '../../src/election/record.js'
import { applyRecord, emptyRoleState, type RoleState } from '../../src/election/role-state.js'
import type { Self } from '../../src/election/succession.js'
import {
  encodeIncarnation,
  encodeTerm,
  type Header,
  type Incarnation,
  incarnationHeader,
  termHeader,
} from '../../src/format/headers.js'
import { encodeKey } from '../../src/format/key.js'
import { encodeLease } from '../../src/format/lease.js'
import { type MemberId, parseMemberId, parseRole, type Role } from '../../src/format/names.js'
import { encodeRegistration } from '../../src/format/registration.js'
import { FencingToken } from '../../src/format/token.js'

export const role: Role = parseRole('controller')

/** Lease 30 s, renewal 10 s, stagger 5 s. */
export const policy: LeasePolicy = leasePolicy({})

/** The incarnation of `name` that was born at offset `birth`. */
export function incarnation(name: string, birth: number): Incarnation {
  const id = new Uint8Array(16)
  for (let index = 0; index < name.length && index < 16; index++) id[index] = name.charCodeAt(index)
  return { id, birth: BigInt(birth), registeredAt: 1_700_000_000_000n }
}

export function token(text: string): FencingToken {
  return FencingToken.parse(text)
}

interface ReceiptOptions {
  /** Monotonic ms of the receipt; 0 when it does not matter. */
  readonly at?: number
  readonly leaderEpoch?: number
  /** Undefined = no LogAppendTime. */
  readonly appendTime?: number
}

interface RegistrationOptions extends ReceiptOptions {
  /** Absent = another port's. */
  readonly of?: Incarnation
}

/** The registration of `name` at `offset`. */
export function registration(offset: number, name: string, options: RegistrationOptions = {}): ReadRecord {
  const member = parseMemberId(name)
  return read(offset, options, {
    key: encodeKey({ kind: 'registration', role, member }),
    value: encodeRegistration({ member, registeredAt: 1_700_000_000_000n }),
    headers: headersOf(options.of),
  })
}

export function registrationTombstone(offset: number, name: string, options: ReceiptOptions = {}): ReadRecord {
  return read(offset, options, {
    key: encodeKey({ kind: 'registration', role, member: parseMemberId(name) }),
    value: null,
  })
}

export function unreadableRegistration(offset: number, name: string): ReadRecord {
  return read(
    offset,
    {},
    {
      key: encodeKey({ kind: 'registration', role, member: parseMemberId(name) }),
      value: new Uint8Array([9, 9]),
    },
  )
}

export interface LeaseOptions extends ReceiptOptions {
  readonly member?: string
  /** The claim, `id:epoch`. */
  readonly token?: string
  /** The batch header's pair; the claim when absent. */
  readonly header?: string
  readonly lengthMs?: number
  readonly term?: number
  /** Absent = another port's. */
  readonly of?: Incarnation
  readonly transactional?: boolean
}

/** A committed lease of `member` ('node-1') under `token` ('100:0'), 30 s long. */
export function lease(offset: number, options: LeaseOptions = {}): ReadRecord {
  const claim = token(options.token ?? '100:0')
  const grantedAt = 1_700_000_000_000n
  const deadline = grantedAt + BigInt(options.lengthMs ?? 30_000)
  const headers = headersOf(options.of)
  const withTerm = options.term === undefined ? headers : [...headers, termOf(options.term)]
  return read(offset, options, {
    key: encodeKey({ kind: 'lease', role }),
    value: encodeLease({ member: parseMemberId(options.member ?? 'node-1'), token: claim, grantedAt, deadline }),
    headers: withTerm,
    ...writer(options, options.token ?? '100:0'),
  })
}

export function leaseTombstone(offset: number, options: LeaseOptions = {}): ReadRecord {
  return read(offset, options, {
    key: encodeKey({ kind: 'lease', role }),
    value: null,
    headers: headersOf(options.of),
    ...writer(options, '100:0'),
  })
}

export function unreadableLease(offset: number, options: LeaseOptions = {}): ReadRecord {
  return read(offset, options, {
    key: encodeKey({ kind: 'lease', role }),
    value: new Uint8Array([0, 1]),
    headers: headersOf(options.of),
    ...writer(options, '100:0'),
  })
}

/** Folds records in the order given; the producer ids 100 and 200 are named unless told otherwise. */
export function fold(records: readonly ReadRecord[], named: readonly bigint[] = [100n, 200n]): RoleState {
  return foldOn(emptyRoleState(role, { named }), records)
}

export function foldOn(state: RoleState, records: readonly ReadRecord[]): RoleState {
  return records.reduce((before, record) => applyRecord(before, record).state, state)
}

/** The receipt of an own registration. */
export function receipt(offset: number, at: number, options: ReceiptOptions = {}): Receipt {
  return {
    offset: BigInt(offset),
    receivedAt: at,
    leaderEpoch: options.leaderEpoch ?? 3,
    appendTime: options.appendTime === undefined ? undefined : BigInt(options.appendTime),
  }
}

/** `name` of `of`, whose registration was first seen as `ownRegistration`. */
export function self(
  name: string,
  of: Incarnation,
  ownRegistration: Receipt | undefined,
  more: Partial<Pick<Self, 'token' | 'endedTokens'>> = {},
): Self {
  return { memberId: id(name), incarnation: of, ownRegistration, token: undefined, endedTokens: [], ...more }
}

export function id(name: string): MemberId {
  return parseMemberId(name)
}

/** The state's entry, which must be of `kind`. */
export function entryOf<Kind extends LeaseEntry['kind']>(
  state: RoleState,
  kind: Kind,
): Extract<LeaseEntry, { readonly kind: Kind }> {
  const entry = state.lease
  if (entry?.kind !== kind) throw new Error(`The lease key holds ${entry?.kind ?? 'nothing'}, not ${kind}`)
  return entry as Extract<LeaseEntry, { readonly kind: Kind }>
}

export function logRecord(offset: number, fields: Partial<LogRecord>): LogRecord {
  return {
    offset: BigInt(offset),
    key: null,
    value: null,
    headers: [],
    transactional: false,
    producerId: -1n,
    producerEpoch: -1,
    receivedAt: 0,
    leaderEpoch: 3,
    appendTime: undefined,
    ...fields,
  }
}

function read(offset: number, options: ReceiptOptions, fields: Partial<LogRecord>): ReadRecord {
  return readRecord(
    logRecord(offset, {
      receivedAt: options.at ?? 0,
      leaderEpoch: options.leaderEpoch ?? 3,
      appendTime: options.appendTime === undefined ? undefined : BigInt(options.appendTime),
      ...fields,
    }),
  )
}

function writer(options: LeaseOptions, claim: string): Partial<LogRecord> {
  const header = token(options.header ?? claim)
  return {
    transactional: options.transactional ?? true,
    producerId: header.producerId,
    producerEpoch: header.producerEpoch,
  }
}

function headersOf(of: Incarnation | undefined): readonly Header[] {
  return of === undefined ? [] : [[incarnationHeader, encodeIncarnation(of)]]
}

function termOf(term: number): Header {
  return [termHeader, encodeTerm(BigInt(term))]
}

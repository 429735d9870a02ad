/**
 * The library's format against every golden vector of it, both ways. Folds and decisions: `shared-rules.test.ts`.
 *
 * The expected values come from the files alone; nothing here computes one with the code under test.
 */
import { describe, expect, it } from 'vitest'
import { isCoordinationError } from '../../src/errors.js'
import {
  compareIncarnations,
  decodeIncarnation,
  decodeTerm,
  encodeIncarnation,
  encodeTerm,
} from '../../src/format/headers.js'
import { type CoordinationKey, decodeKey, encodeKey } from '../../src/format/key.js'
import { decodeLease, encodeLease } from '../../src/format/lease.js'
import { parseMemberId, parseRole } from '../../src/format/names.js'
import { rolePartition } from '../../src/format/partition.js'
import { decodeRegistration, encodeRegistration } from '../../src/format/registration.js'
import { FencingToken } from '../../src/format/token.js'
import { isTombstone } from '../../src/format/tombstone.js'
import { murmur2 } from '../format/murmur2.js'
import { hex, unhex, vectorsOf } from './vectors.js'

describe('keys', () => {
  it.each(vectorsOf<{ kind: 'registration' | 'lease'; role: string; member: string; bytes: string }>('keys'))(
    '$id',
    (vector) => {
      const role = parseRole(vector.role)
      const key: CoordinationKey =
        vector.kind === 'lease'
          ? { kind: 'lease', role }
          : { kind: vector.kind, role, member: parseMemberId(vector.member) }
      expect(hex(encodeKey(key))).toBe(vector.bytes)
      expect(decodeKey(unhex(vector.bytes))).toStrictEqual(key)
    },
  )
})

describe('registrations', () => {
  it.each(vectorsOf<{ member: string; registered_at: string; bytes: string }>('registrations'))('$id', (vector) => {
    const registration = { member: parseMemberId(vector.member), registeredAt: BigInt(vector.registered_at) }
    expect(hex(encodeRegistration(registration))).toBe(vector.bytes)
    expect(decodeRegistration(unhex(vector.bytes))).toStrictEqual(registration)
  })
})

describe('leases', () => {
  it.each(
    vectorsOf<{
      member: string
      producer_id: string
      producer_epoch: number
      granted_at: string
      deadline: string
      bytes: string
    }>('leases'),
  )('$id', (vector) => {
    const lease = {
      member: parseMemberId(vector.member),
      token: FencingToken.of(BigInt(vector.producer_id), vector.producer_epoch),
      grantedAt: BigInt(vector.granted_at),
      deadline: BigInt(vector.deadline),
    }
    expect(hex(encodeLease(lease))).toBe(vector.bytes)
    expect(decodeLease(unhex(vector.bytes))).toStrictEqual(lease)
  })
})

describe('tombstones', () => {
  it.each(vectorsOf<{ value: string | null; tombstone: boolean }>('tombstones'))('$id', (vector) => {
    expect(isTombstone(vector.value === null ? null : unhex(vector.value))).toBe(vector.tombstone)
  })
})

describe('partitions', () => {
  it.each(vectorsOf<{ role: string; murmur2: number; partitions: number; partition: number }>('partitions'))(
    '$id',
    (vector) => {
      expect(rolePartition(vector.role, vector.partitions)).toBe(vector.partition)
      expect(murmur2(Buffer.from(vector.role, 'utf8'))).toBe(vector.murmur2)
    },
  )
})

type TokenVector =
  | { id: string; check: 'text'; producer_id: string; producer_epoch: number; text: string }
  | { id: string; check: 'order'; left: string; right: string; compare: -1 | 0 | 1 }
  | { id: string; check: 'refused'; text: string }

function tokenOrNone(text: string): FencingToken {
  return text === '-1:-1' ? FencingToken.NO_EPOCH : FencingToken.parse(text)
}

describe('tokens', () => {
  it.each(vectorsOf<TokenVector>('tokens'))('$id', (vector) => {
    if (vector.check === 'text') {
      const token = FencingToken.of(BigInt(vector.producer_id), vector.producer_epoch)
      expect(token.toString()).toBe(vector.text)
      expect(FencingToken.parse(vector.text)).toStrictEqual(token)
    } else if (vector.check === 'order') {
      const left = tokenOrNone(vector.left)
      const right = tokenOrNone(vector.right)
      expect(FencingToken.compare(left, right)).toBe(vector.compare)
      expect(left.supersedes(right)).toBe(vector.compare === 1)
      expect(left.equals(right)).toBe(vector.compare === 0)
    } else {
      expect(vector.check).toBe('refused')
      expect(() => FencingToken.parse(vector.text)).toThrow(/must read like/)
    }
  })
})

/** What our messages say for each reason; the files hold the words that all ports share. */
const saysReason: Record<string, RegExp> = {
  truncated: /: truncated, \d+ bytes are needed/,
  'trailing-bytes': /: trailing bytes, \d+ of them/,
  'unknown-version': /: unknown version -?\d+/,
  'unknown-kind': /: unknown kind -?\d+/,
  'negative-length': /: negative length -\d+/,
  'empty-name': /: empty name/,
  'overlong-name': /: overlong name of \d+ bytes/,
  'invalid-utf8': /: invalid UTF-8/,
  'lease-member': /: a lease key names a member/,
  'negative-producer-id': /: negative producer id -\d+/,
  'negative-producer-epoch': /: negative producer epoch -\d+/,
}

const decoders = { key: decodeKey, registration: decodeRegistration, lease: decodeLease }

describe('malformed', () => {
  const vectors = vectorsOf<{
    decoder: keyof typeof decoders
    bytes: string
    part: string
    offset: number
    reason: string
  }>('malformed')

  it.each(vectors)('$id', (vector) => {
    let thrown: unknown
    try {
      decoders[vector.decoder](unhex(vector.bytes))
    } catch (error) {
      thrown = error
    }
    if (!isCoordinationError(thrown, 'FORMAT')) throw thrown ?? new Error('these bytes were accepted')
    expect({ part: thrown.part, offset: thrown.offset }).toStrictEqual({ part: vector.part, offset: vector.offset })
    expect(thrown.message).toMatch(saysReason[vector.reason] ?? `no message is known for ${vector.reason}`)
  })

  it('has every reason', () => {
    expect([...new Set(vectors.map((vector) => vector.reason))].sort()).toStrictEqual(Object.keys(saysReason).sort())
  })
})

type HeaderVector =
  | { id: string; check: 'incarnation'; random: string; birth: string; registered_at: string; bytes: string }
  | { id: string; check: 'incarnation-refused'; bytes: string }
  | { id: string; check: 'incarnation-order'; left: string; right: string; compare: -1 | 0 | 1 }
  | { id: string; check: 'term'; term: string; bytes: string }
  | { id: string; check: 'term-refused'; bytes: string }

describe('headers', () => {
  it.each(vectorsOf<HeaderVector>('headers'))('$id', (vector) => {
    if (vector.check === 'incarnation') {
      const incarnation = {
        id: unhex(vector.random),
        birth: BigInt(vector.birth),
        registeredAt: BigInt(vector.registered_at),
      }
      expect(hex(encodeIncarnation(incarnation))).toBe(vector.bytes)
      expect(decodeIncarnation(unhex(vector.bytes))).toStrictEqual(incarnation)
    } else if (vector.check === 'incarnation-refused') {
      expect(decodeIncarnation(unhex(vector.bytes))).toBeUndefined()
    } else if (vector.check === 'incarnation-order') {
      const left = decodeIncarnation(unhex(vector.left))
      const right = decodeIncarnation(unhex(vector.right))
      if (left === undefined || right === undefined) throw new Error('both sides are incarnations')
      expect(compareIncarnations(left, right)).toBe(vector.compare)
      expect(compareIncarnations(right, left)).toBe(0 - vector.compare)
    } else if (vector.check === 'term') {
      expect(hex(encodeTerm(BigInt(vector.term)))).toBe(vector.bytes)
      expect(decodeTerm(unhex(vector.bytes))).toBe(BigInt(vector.term))
    } else {
      expect(vector.check).toBe('term-refused')
      expect(decodeTerm(unhex(vector.bytes))).toBeUndefined()
    }
  })
})

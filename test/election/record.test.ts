import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { readRecord } from '../../src/election/record.js'
import { incarnationHeader, termHeader } from '../../src/format/headers.js'
import { encodeKey } from '../../src/format/key.js'
import {
  id,
  incarnation,
  lease,
  leaseTombstone,
  logRecord,
  registration,
  registrationTombstone,
  role,
  token,
  unreadableLease,
  unreadableRegistration,
} from './support.js'

const leaseKey = encodeKey({ kind: 'lease', role })
const registrationKey = encodeKey({ kind: 'registration', role, member: id('node-1') })

describe('readRecord', () => {
  it('reads a registration with its incarnation, and one of another port without', () => {
    const of = incarnation('a', 7)
    expect(registration(8, 'node-1', { of })).toMatchObject({
      kind: 'registration',
      role: 'controller',
      member: 'node-1',
      incarnation: of,
      receipt: { offset: 8n },
    })
    expect(registration(8, 'node-1')).toMatchObject({ kind: 'registration', incarnation: undefined })
  })

  it('reads a lease with claim, header pair and term', () => {
    const record = lease(20, { token: '100:3', header: '100:5', term: 17 })
    expect(record).toMatchObject({
      kind: 'lease',
      lease: { member: 'node-1', token: token('100:3') },
      writer: { transactional: true, producerId: 100n, producerEpoch: 5 },
      termHeader: 17n,
    })
  })

  it.each([
    ['null', null],
    ['of zero length', new Uint8Array(0)],
  ])('reads a value %s as a tombstone', (_name, value) => {
    expect(readRecord(logRecord(1, { key: registrationKey, value })).kind).toBe('registration-tombstone')
    expect(readRecord(logRecord(1, { key: leaseKey, value })).kind).toBe('lease-tombstone')
    expect(registrationTombstone(1, 'node-1').kind).toBe('registration-tombstone')
    expect(leaseTombstone(1).kind).toBe('lease-tombstone')
  })

  it('says what is wrong with a value, and keeps role and member', () => {
    expect(unreadableRegistration(4, 'node-1')).toMatchObject({
      kind: 'unreadable-registration',
      member: 'node-1',
      reason: expect.stringContaining('registration'),
    })
    expect(unreadableLease(4)).toMatchObject({
      kind: 'unreadable-lease',
      role: 'controller',
      reason: expect.stringContaining('lease'),
    })
  })

  it.each([
    ['without a key', null],
    ['with a key of another version', new Uint8Array([0, 1, 0, 0, 0, 1, 65, 0, 0])],
    ['with an empty key', new Uint8Array(0)],
  ])('finds the key of a record %s unreadable', (_name, key) => {
    expect(readRecord(logRecord(9, { key }))).toMatchObject({
      kind: 'unreadable-key',
      offset: 9n,
      reason: expect.stringMatching(/./),
    })
  })

  it('takes malformed headers for absent', () => {
    const headers = [
      [incarnationHeader, new Uint8Array(31)],
      [termHeader, new TextEncoder().encode('007')],
    ] as const
    const valid = lease(1)
    if (valid.kind !== 'lease') throw new Error('not a lease')
    const read = readRecord(logRecord(1, { key: leaseKey, value: null, headers }))
    expect(read).toMatchObject({ kind: 'lease-tombstone', incarnation: undefined })
  })

  it('never throws', () => {
    const bytes = fc.option(fc.uint8Array({ maxLength: 60 }))
    const key = fc.oneof(bytes, fc.constantFrom(leaseKey, registrationKey))
    const headers = fc.array(fc.tuple(fc.constantFrom(incarnationHeader, termHeader, 'x'), bytes), { maxLength: 3 })
    const kinds = new Set<string>()
    fc.assert(
      fc.property(key, bytes, headers, (anyKey, value, anyHeaders) => {
        kinds.add(readRecord(logRecord(1, { key: anyKey, value, headers: anyHeaders })).kind)
      }),
      { numRuns: 500 },
    )
    expect([...kinds]).toEqual(expect.arrayContaining(['unreadable-key', 'unreadable-lease', 'lease-tombstone']))
  })
})

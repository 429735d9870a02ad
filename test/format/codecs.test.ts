/**
 * The codecs of key, registration and lease: round trips, and decoders that are total. That the bytes are the right ones is
 * what the golden vectors prove.
 */
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { isCoordinationError } from '../../src/errors.js'
import { type CoordinationKey, decodeKey, encodeKey } from '../../src/format/key.js'
import { decodeLease, encodeLease, type Lease } from '../../src/format/lease.js'
import { type MemberId, parseMemberId, parseRole, type Role } from '../../src/format/names.js'
import { decodeRegistration, encodeRegistration, type Registration } from '../../src/format/registration.js'
import { FencingToken } from '../../src/format/token.js'

const name = fc.string({ unit: 'binary', minLength: 1, maxLength: 62 })
const role = name.map(parseRole)
const member = name.map(parseMemberId)
const time = fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n })
const token = fc
  .tuple(fc.bigInt({ min: 0n, max: 2n ** 63n - 1n }), fc.integer({ min: 0, max: 32767 }))
  .map(([producerId, producerEpoch]) => FencingToken.of(producerId, producerEpoch))

const keys: fc.Arbitrary<CoordinationKey> = fc.oneof(
  fc.record({ kind: fc.constant('registration' as const), role, member }, { noNullPrototype: true }),
  fc.record({ kind: fc.constant('lease' as const), role }, { noNullPrototype: true }),
)
const registrations: fc.Arbitrary<Registration> = fc.record({ member, registeredAt: time }, { noNullPrototype: true })
const leases: fc.Arbitrary<Lease> = fc.record(
  { member, token, grantedAt: time, deadline: time },
  { noNullPrototype: true },
)

/** One codec as the tests below need it, with the parts that its errors may name. */
interface Codec {
  readonly thing: string
  readonly parts: readonly string[]
  readonly encodings: fc.Arbitrary<Uint8Array>
  readonly decode: (bytes: Uint8Array) => unknown
  readonly recode: (bytes: Uint8Array) => Uint8Array
}

const codecs: Codec[] = [
  {
    thing: 'key',
    parts: ['version', 'kind', 'role', 'member', 'end'],
    encodings: keys.map(encodeKey),
    decode: decodeKey,
    recode: (bytes) => encodeKey(decodeKey(bytes)),
  },
  {
    thing: 'registration',
    parts: ['version', 'member', 'registered_at', 'end'],
    encodings: registrations.map(encodeRegistration),
    decode: decodeRegistration,
    recode: (bytes) => encodeRegistration(decodeRegistration(bytes)),
  },
  {
    thing: 'lease',
    parts: ['version', 'member', 'producer_id', 'producer_epoch', 'granted_at', 'deadline', 'end'],
    encodings: leases.map(encodeLease),
    decode: decodeLease,
    recode: (bytes) => encodeLease(decodeLease(bytes)),
  },
]

/** What a decoder makes of any bytes: the same bytes again, or a refusal that says where. Anything else fails the test. */
function outcome(codec: Codec, bytes: Uint8Array): 'read' | 'refused' {
  let recoded: Uint8Array
  try {
    recoded = codec.recode(bytes)
  } catch (error) {
    if (!isCoordinationError(error, 'FORMAT')) throw error
    const [thing, field] = error.part.split('.')
    expect(thing).toBe(codec.thing)
    expect(codec.parts).toContain(field)
    expect(error.offset).toBeGreaterThanOrEqual(0)
    expect(error.offset).toBeLessThanOrEqual(bytes.byteLength)
    expect(error.message).toContain(`${error.part} at byte ${error.offset} of ${bytes.byteLength}: `)
    return 'refused'
  }
  // One value has one encoding, so what is read is read whole: no byte goes unlooked at.
  expect([...recoded]).toStrictEqual([...bytes])
  return 'read'
}

describe('round trips', () => {
  it('keep every key', () => {
    fc.assert(
      fc.property(keys, (key) => {
        expect(decodeKey(encodeKey(key))).toStrictEqual(key)
      }),
    )
  })

  it('keep every registration', () => {
    fc.assert(
      fc.property(registrations, (registration) => {
        expect(decodeRegistration(encodeRegistration(registration))).toStrictEqual(registration)
      }),
    )
  })

  it('keep every lease', () => {
    fc.assert(
      fc.property(leases, (lease) => {
        expect(decodeLease(encodeLease(lease))).toStrictEqual(lease)
      }),
    )
  })
})

describe.each(codecs)('the decoder of a $thing', (codec) => {
  it('is total over random bytes', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 80 }), (bytes) => {
        outcome(codec, bytes)
      }),
      { numRuns: 2000 },
    )
  })

  it('is total over random bytes behind a true beginning', () => {
    const bytes = fc
      .tuple(codec.encodings, fc.nat(), fc.uint8Array({ maxLength: 40 }))
      .map(([sound, cut, tail]) => Uint8Array.from([...sound.subarray(0, cut % (sound.length + 1)), ...tail]))
    fc.assert(
      fc.property(bytes, (mutated) => {
        outcome(codec, mutated)
      }),
      { numRuns: 2000 },
    )
  })

  it('is total over sound bytes with one changed', () => {
    const seen = new Set<string>()
    fc.assert(
      fc.property(codec.encodings, fc.nat(), fc.integer({ min: 1, max: 255 }), (sound, place, change) => {
        const mutated = Uint8Array.from(sound)
        const at = place % mutated.length
        mutated[at] = (mutated[at] ?? 0) ^ change
        seen.add(outcome(codec, mutated))
      }),
      { numRuns: 2000 },
    )
    expect([...seen].sort()).toStrictEqual(['read', 'refused'])
  })

  it('refuses every prefix of sound bytes, and any byte behind them', () => {
    fc.assert(
      fc.property(codec.encodings, fc.nat({ max: 255 }), (sound, extra) => {
        for (let size = 0; size < sound.length; size++) {
          expect(outcome(codec, sound.subarray(0, size))).toBe('refused')
        }
        expect(outcome(codec, Uint8Array.from([...sound, extra]))).toBe('refused')
      }),
      { numRuns: 50 },
    )
  })

  it('reads the part of a larger memory that it is given, and no more', () => {
    fc.assert(
      fc.property(codec.encodings, fc.uint8Array({ maxLength: 9 }), (sound, around) => {
        const memory = Uint8Array.from([...around, ...sound, ...around])
        const view = memory.subarray(around.length, around.length + sound.length)
        expect(codec.decode(view)).toStrictEqual(codec.decode(sound))
      }),
    )
  })
})

describe('encoders refuse what no decoder would read', () => {
  const aRole = parseRole('controller')
  const aMember = parseMemberId('node-1')
  const aToken = FencingToken.of(4242n, 7)

  it.each<[string, () => unknown, string]>([
    ['a role never parsed', () => encodeKey({ kind: 'lease', role: '' as Role }), 'role'],
    [
      'a member never parsed',
      () => encodeKey({ kind: 'registration', role: aRole, member: '\ud83d' as MemberId }),
      'memberId',
    ],
    ['a time above int64', () => encodeRegistration({ member: aMember, registeredAt: 2n ** 63n }), 'registeredAt'],
    [
      'a grant below int64',
      () => encodeLease({ member: aMember, token: aToken, grantedAt: -(2n ** 63n) - 1n, deadline: 0n }),
      'grantedAt',
    ],
    [
      'a deadline above int64',
      () => encodeLease({ member: aMember, token: aToken, grantedAt: 0n, deadline: 2n ** 64n }),
      'deadline',
    ],
    [
      'a token never minted',
      () => encodeLease({ member: aMember, token: FencingToken.NO_EPOCH, grantedAt: 0n, deadline: 0n }),
      'token',
    ],
  ])('%s', (_what, encode, option) => {
    let thrown: unknown
    try {
      encode()
    } catch (error) {
      thrown = error
    }
    expect(thrown).toMatchObject({ code: 'CONFIG', option })
  })
})

import { gzipSync } from 'node:zlib'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import type { ProducedBatch, ProducedRecord, RecordHeader } from '../../src/cluster/connection.js'
import { crc32c } from '../../src/kafka/crc32c.js'
import { MalformedError } from '../../src/kafka/protocol/reader.js'
import { decodeBatches, encodeBatch } from '../../src/kafka/record-batch.js'

const int64 = fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n })
const bytes = fc.option(fc.uint8Array({ maxLength: 300 }))
const header: fc.Arbitrary<RecordHeader> = fc.tuple(fc.string({ unit: 'grapheme' }), bytes)
const record: fc.Arbitrary<ProducedRecord> = fc.record({
  key: bytes,
  value: bytes,
  headers: fc.array(header, { maxLength: 4 }),
  timestamp: int64,
})
const batch: fc.Arbitrary<ProducedBatch> = fc.record({
  producerId: int64,
  producerEpoch: fc.integer({ min: -1, max: 32767 }),
  baseSequence: fc.integer({ min: -1, max: 2 ** 31 - 1 }),
  transactional: fc.boolean(),
  records: fc.array(record, { minLength: 1, maxLength: 8 }),
})

const one: ProducedBatch = {
  producerId: 4242n,
  producerEpoch: 7,
  baseSequence: 3,
  transactional: true,
  records: [{ key: Buffer.from('k'), value: Buffer.from('v'), headers: [['h', null]], timestamp: 1_700_000_000_000n }],
}

function plain(value: Uint8Array | null): number[] | null {
  return value === null ? null : [...value]
}

function ascending(one: bigint, other: bigint): number {
  if (one === other) return 0
  return one < other ? -1 : 1
}

function plainHeaders(headers: readonly RecordHeader[]): unknown[] {
  return headers.map(([key, value]) => [key, plain(value)])
}

/** Puts the checksum right behind a change. */
function sealed(changed: Buffer): Buffer {
  changed.writeUInt32BE(crc32c(changed.subarray(21)), 17)
  return changed
}

function changed(change: (bytes: Buffer) => void): Buffer {
  const copy = Buffer.from(encodeBatch(one))
  change(copy)
  return sealed(copy)
}

/** A batch with other record bytes, an attribute word and a record count of choice. */
function withRecords(records: Uint8Array, attributes: number, count: number): Buffer {
  const copy = Buffer.concat([encodeBatch(one).subarray(0, 61), records])
  copy.writeInt32BE(copy.length - 12, 8)
  copy.writeInt16BE(attributes, 21)
  copy.writeInt32BE(count, 57)
  return sealed(copy)
}

describe('CRC-32C', () => {
  test('has the check value of its specification', () => {
    expect(crc32c(Buffer.from('123456789')).toString(16)).toBe('e3069283')
  })
})

describe('an encoded batch', () => {
  test('has the bytes of the specification', () => {
    const encoded = encodeBatch(one).toString('hex')
    const body = [
      '0010', // transactional
      '00000000', // last offset delta
      '0000018bcfe56800', // base timestamp
      '0000018bcfe56800', // max timestamp
      '0000000000001092', // producer id
      '0007', // producer epoch
      '00000003', // base sequence
      '00000001', // count
      '16', // length 11: attributes, timestamp delta, offset delta, key, value, one header with a null value
      '000000026b027602026801',
    ].join('')
    const checksum = crc32c(Buffer.from(body, 'hex')).toString(16).padStart(8, '0')
    const length = (4 + 1 + 4 + body.length / 2).toString(16).padStart(8, '0')
    expect(encoded).toBe(`0000000000000000${length}ffffffff02${checksum}${body}`)
  })

  test('comes back as it was, and is the same bytes each time', () => {
    fc.assert(
      fc.property(batch, (original) => {
        // A delta of timestamps is 64 bits wide as well, so times may not lie further apart than that.
        const base = original.records[0]?.timestamp ?? 0n
        fc.pre(original.records.every(({ timestamp }) => BigInt.asIntN(64, timestamp - base) === timestamp - base))
        const encoded = encodeBatch(original)
        expect(encodeBatch(structuredClone(original)).equals(encoded)).toBe(true)
        const [decoded, ...rest] = decodeBatches(encoded)
        expect(rest).toEqual([])
        expect(decoded).toMatchObject({
          baseOffset: 0n,
          lastOffset: BigInt(original.records.length - 1),
          producerId: original.producerId,
          producerEpoch: original.producerEpoch,
          transactional: original.transactional,
          logAppendTime: false,
          control: undefined,
          maxTimestamp: original.records
            .map(({ timestamp }) => timestamp)
            .sort(ascending)
            .at(-1),
        })
        expect(decoded?.undecodable).toBeUndefined()
        expect(
          decoded?.records.map((it) => [it.offset, plain(it.key), plain(it.value), plainHeaders(it.headers)]),
        ).toEqual(
          original.records.map((it, index) => [
            BigInt(index),
            plain(it.key),
            plain(it.value),
            plainHeaders(it.headers),
          ]),
        )
      }),
    )
  })

  test('needs a record', () => {
    expect(() => encodeBatch({ ...one, records: [] })).toThrow('without records')
  })
})

describe('decoding', () => {
  test('offsets, leader epoch and timestamp type are those that the broker wrote', () => {
    const stamped = changed((copy) => {
      copy.writeBigInt64BE(1000n, 0)
      copy.writeInt32BE(5, 12)
      copy.writeInt16BE(0x18, 21)
    })
    expect(decodeBatches(stamped)).toMatchObject([
      { baseOffset: 1000n, lastOffset: 1000n, partitionLeaderEpoch: 5, logAppendTime: true, transactional: true },
    ])
    expect(decodeBatches(stamped)[0]?.records[0]?.offset).toBe(1000n)
  })

  test('a last batch that is cut off anywhere is left out', () => {
    const whole = encodeBatch(one)
    const two = Buffer.concat([whole, whole])
    for (let length = whole.length; length < two.length; length += 1) {
      expect(decodeBatches(two.subarray(0, length))).toHaveLength(1)
    }
    expect(decodeBatches(two)).toHaveLength(2)
    expect(decodeBatches(Buffer.alloc(0))).toEqual([])
  })

  test('any changed byte behind the checksum is refused', () => {
    const whole = encodeBatch(one)
    for (let at = 17; at < whole.length; at += 1) {
      const copy = Buffer.from(whole)
      copy.writeUInt8(copy.readUInt8(at) ^ 0x40, at)
      expect(() => decodeBatches(copy)).toThrow(MalformedError)
    }
  })

  test.each([0, -1, 4])('a length of %s is refused', (length) => {
    const copy = Buffer.from(encodeBatch(one))
    copy.writeInt32BE(length, 8)
    expect(() => decodeBatches(copy)).toThrow(MalformedError)
  })

  test('a batch that compaction emptied is kept, with the offsets it covers, whatever it was compressed with', () => {
    for (const attributes of [0x10, 0x14]) {
      const emptied = withRecords(new Uint8Array(0), attributes, 0)
      emptied.writeInt32BE(9, 23)
      expect(decodeBatches(sealed(emptied))).toMatchObject([
        { baseOffset: 0n, lastOffset: 9n, records: [], control: undefined },
      ])
      expect(decodeBatches(emptied)[0]?.undecodable).toBeUndefined()
    }
  })

  test.each([
    ['00000000', 'abort'],
    ['00000001', 'commit'],
    ['00000002', 'other'],
    ['0000', 'other'],
  ])('a control batch with the key %s is %s, without records', (key, control) => {
    const marker = { key: Buffer.from(key, 'hex'), value: Buffer.alloc(6), headers: [], timestamp: 0n }
    const encoded = Buffer.from(encodeBatch({ ...one, records: [marker] }))
    encoded.writeInt16BE(0x30, 21)
    expect(decodeBatches(sealed(encoded))).toMatchObject([{ control, records: [], transactional: true }])
  })

  test('the key of an abort marker in a batch of data decides nothing', () => {
    const looksLikeMarker = { key: Buffer.alloc(4), value: null, headers: [], timestamp: 0n }
    expect(decodeBatches(encodeBatch({ ...one, records: [looksLikeMarker] }))[0]?.control).toBeUndefined()
  })

  test('gzip is read', () => {
    const records = encodeBatch(one).subarray(61)
    const [decoded] = decodeBatches(withRecords(gzipSync(records), 0x11, 1))
    expect(decoded?.undecodable).toBeUndefined()
    expect(plain(decoded?.records[0]?.value ?? null)).toEqual([...Buffer.from('v')])
  })

  test.each([
    [0x12, 'snappy'],
    [0x13, 'lz4'],
    [0x14, 'zstd'],
    [0x17, 'codec 7'],
  ])('another compression (attributes %i) is named %s, and its place in the log is known', (attributes, name) => {
    const [decoded] = decodeBatches(withRecords(Buffer.from('xyz'), attributes, 1))
    expect(decoded).toMatchObject({ records: [], lastOffset: 0n, producerId: 4242n })
    expect(decoded?.undecodable).toContain(name)
  })

  test('bytes that are no records, though whole, are undecodable and no more', () => {
    for (const [records, attributes, count] of [
      [Buffer.from('not gzip'), 0x11, 1],
      [Buffer.from('ff', 'hex'), 0x10, 1],
      [encodeBatch(one).subarray(61), 0x10, 2],
      [Buffer.concat([encodeBatch(one).subarray(61), Buffer.alloc(1)]), 0x10, 1],
    ] as const) {
      expect(decodeBatches(withRecords(records, attributes, count))).toMatchObject([
        { records: [], undecodable: expect.stringContaining('cannot be read') },
      ])
    }
  })

  test('an old message format is named', () => {
    const old = Buffer.from(encodeBatch(one))
    old.writeInt8(1, 16)
    expect(decodeBatches(old)).toMatchObject([{ undecodable: expect.stringContaining('format 1'), producerId: -1n }])
  })

  test('what is kept of a record does not keep the response in memory', () => {
    const response = Buffer.concat(Array.from({ length: 2000 }, () => encodeBatch(one)))
    const kept = decodeBatches(response)[0]?.records[0]?.value
    expect(kept?.buffer).not.toBe(response.buffer)
    expect(kept?.buffer.byteLength).toBeLessThan(response.length / 10)
  })

  test('any bytes give batches or a malformed error, and nothing else', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 200 }), fc.nat(75), (noise, at) => {
        const copy = Buffer.concat([encodeBatch(one), Buffer.from(noise)])
        copy.set(noise.subarray(0, Math.max(0, copy.length - at)), Math.min(at, copy.length))
        try {
          expect(Array.isArray(decodeBatches(copy))).toBe(true)
        } catch (error) {
          expect(error).toBeInstanceOf(MalformedError)
        }
      }),
    )
  })
})

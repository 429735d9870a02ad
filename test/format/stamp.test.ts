/** The stamp of a guarded record: its three headers, and a reading that is total. */
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { Header } from '../../src/format/headers.js'
import { parseRole } from '../../src/format/names.js'
import { readStamp, stampHeaders } from '../../src/format/stamp.js'
import { FencingToken } from '../../src/format/token.js'

const bytes = (text: string): Uint8Array => new TextEncoder().encode(text)
const stamp = { role: parseRole('prod.röle'), term: 4711n, token: FencingToken.of(4242n, 7) }

describe('a stamp', () => {
  it('is three headers in text', () => {
    expect(stampHeaders(stamp).map(([key, value]) => [key, new TextDecoder().decode(value)])).toStrictEqual([
      ['mandate-role', 'prod.röle'],
      ['mandate-term', '4711'],
      ['mandate-token', '4242:7'],
    ])
  })

  it('reads back among other headers, in any order', () => {
    const headers: Header[] = [['trace', null], ...stampHeaders(stamp), ['trace', bytes('x')]]
    expect(readStamp(headers)).toStrictEqual(stamp)
    expect(readStamp([...headers].reverse())).toStrictEqual(stamp)
  })

  it('is read from the last of several', () => {
    const forged = stampHeaders({ role: parseRole('other'), term: 1n, token: FencingToken.of(1n, 1) })
    expect(readStamp([...forged, ...stampHeaders(stamp)])).toStrictEqual(stamp)
    expect(readStamp([...stampHeaders(stamp), ['mandate-term', bytes('odd')]])).toBeUndefined()
  })

  it.each(['mandate-role', 'mandate-term', 'mandate-token'])('is none without %s, or with an odd one', (missing) => {
    const others = stampHeaders(stamp).filter(([key]) => key !== missing)
    expect(readStamp(others)).toBeUndefined()
    for (const value of [null, bytes(''), bytes('\ufeff'.repeat(90)), Uint8Array.of(0xff)]) {
      expect(readStamp([...others, [missing, value]])).toBeUndefined()
    }
  })

  it('is never an error, whatever the headers', () => {
    const value = fc.option(fc.oneof(fc.uint8Array({ maxLength: 30 }), fc.constantFrom('0', '7', '4242:7').map(bytes)))
    const key = fc.constantFrom('mandate-role', 'mandate-term', 'mandate-token', 'other')
    fc.assert(
      fc.property(fc.array(fc.tuple(key, value), { maxLength: 8 }), (headers) => {
        const read = readStamp(headers)
        if (read !== undefined) expect(readStamp(stampHeaders(read))).toStrictEqual(read)
      }),
      { numRuns: 2000 },
    )
  })
})

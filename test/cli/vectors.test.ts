/** Each thing that can be wrong with what a port printed, made on the published lines and seen in the report. */
import { readFileSync } from 'node:fs'
import { describe, expect, test } from 'vitest'
import { compareVectors, summaryOf, type VectorsReport } from '../../src/cli/vectors.js'
import { projectPath } from '../support/project-root.js'

const published = readFileSync(projectPath('golden-vectors', 'v0', 'vectors.tsv'), 'utf8')
const lines = published.trimEnd().split('\n')
const total = lines.length - 1

const bytesOf = (text: string): Uint8Array => new TextEncoder().encode(text)

function reportOf(printed: string): VectorsReport {
  const compared = compareVectors(published, bytesOf(printed))
  if (compared.kind === 'unreadable') throw new Error(compared.reason)
  return compared
}

const textsOf = (printed: string): readonly string[] => reportOf(printed).findings.map(({ text }) => text)

function lineOf(vector: string): string {
  const line = lines.find((one) => one.startsWith(`${vector}\t`))
  if (line === undefined) throw new Error(`There is no vector ${vector}`)
  return line
}

/** The published lines with `before` replaced by `after` in the line of `vector`. */
function changed(vector: string, before: string, after: string): string {
  const line = lineOf(vector)
  const other = line.replace(before, after)
  if (other === line) throw new Error(`${vector} does not hold ${before}`)
  return published.replace(line, other)
}

describe('lines that are right', () => {
  test('are all counted', () => {
    const report = reportOf(published)
    expect(report).toEqual({ kind: 'compared', vectors: total, right: total, headersLeftOut: 0, findings: [] })
    expect(summaryOf(report)).toBe(`${total} vectors: ${total} right`)
  })

  test('may come in any order and without an end of the last one', () => {
    const [first = '', ...rest] = lines
    expect(textsOf([first, ...rest.toReversed()].join('\n'))).toEqual([])
  })

  test('may leave out the headers, whichever count the first line has', () => {
    const [first = '', ...rest] = lines
    const others = rest.filter((line) => !line.startsWith('headers/'))
    const leftOut = rest.length - others.length
    expect(leftOut).toBeGreaterThan(20)
    for (const opening of [first, `vectors\t0\t${others.length}\t123`]) {
      const report = reportOf(`${[opening, ...others].join('\n')}\n`)
      expect(report).toMatchObject({ right: others.length, headersLeftOut: leftOut, findings: [] })
      expect(summaryOf(report)).toBe(
        `${total} vectors: ${others.length} right, ${leftOut} of this library's headers left out`,
      )
    }
  })
})

describe('a line that differs', () => {
  test.each([
    [
      'a byte of a lease',
      'leases/given',
      '310000000000001092',
      '310000010000001092',
      'byte 12 (lease.producer_id): 01 instead of 00',
    ],
    ['its version', 'leases/given', '\t00000006', '\t01000006', 'byte 0 (lease.version): 01 instead of 00'],
    ['its name', 'leases/given', '6f64652d310000', '6f64652d320000', 'byte 9 (lease.member): 32 instead of 31'],
    ['a length', 'keys/given-registration', '00066e', '00056e', 'byte 17 (key.member): 05 instead of 06'],
    [
      'a byte too few',
      'registrations/given',
      'e56800\t',
      'e568\t',
      'byte 17 (registration.registered_at): nothing instead of 00',
    ],
    ['a byte too many', 'keys/given-lease', '720000\t', '72000000\t', 'byte 18 (key.end): 00 instead of nothing'],
    [
      'bytes that are malformed on purpose',
      'malformed/key-overlong-role',
      '\t0000',
      '\t0100',
      'byte 0 (key.version): 01 instead of 00',
    ],
    [
      'bytes in upper case',
      'registrations/given',
      '\t000000066e6f',
      '\t000000066E6f',
      'hex in upper case; it is lower case',
    ],
    ['bytes that are none', 'registrations/given', '\t00000006', '\t0000000g', '"0000000g'],
    ['an incarnation', 'headers/incarnation-plain', '1267', '1268', 'byte 23 (incarnation.birth): 68 instead of 67'],
    ['a name', 'keys/registration-nfc', '\tc3a9\tc3a9', '\tc3a9\t65cc81', 'member: "e\\u0301" instead of "\\u00e9"'],
    [
      'a name that is no text',
      'keys/registration-nfc',
      '\tc3a9\tc3a9',
      '\tc3a9\tc3',
      'member: c3, which is not UTF-8, instead of',
    ],
    [
      'a name in the open',
      'keys/given-lease',
      '636f6e74726f6c6c6572\t\t',
      'controller\t\t',
      'role: "controller", which is not lower-case hex, instead of "controller"',
    ],
    ['a number', 'partitions/given-controller', '\t12\t', '\t11\t', 'partition: 11 instead of 12'],
    ['a refusal', 'malformed/key-kind-2', 'unknown-kind', 'truncated', 'reason: truncated instead of unknown-kind'],
    [
      'an acceptance',
      'malformed/key-kind-2',
      'key.kind\t2\tunknown-kind',
      'accepted\t-\t-',
      'part: accepted instead of key.kind',
    ],
    [
      'a token that was taken',
      'tokens/refused-no-colon',
      '3432343237',
      'accepted',
      'text: accepted instead of "42427"',
    ],
    ['a term that was taken', 'headers/term-refused-sign', '2b37', 'accepted', 'accepted instead of 2b37'],
    ['an order', 'tokens/order-self', '\t0\t', '\t1\t', 'compare: 1 instead of 0'],
    ['a tombstone', 'tombstones/null', 'true', 'false', 'tombstone: false instead of true'],
    ['null and nothing', 'tombstones/zero-length', '\t\ttrue', '\t-\ttrue', 'value: - instead of nothing'],
    [
      "a record's key",
      'folds/one-member',
      '0,0000',
      '0,0100',
      'records[0].key: byte 0 (key.version): 01 instead of 00',
    ],
    [
      "a record's registration",
      'folds/one-member',
      ',00000001610000018b',
      ',00000001610000018c',
      'records[0].value: byte 8 (registration.registered_at): 8c instead of 8b',
    ],
    [
      "a record's lease",
      'folds/lease-alone',
      '10920007',
      '10920008',
      'records[0].value: byte 14 (lease.producer_epoch): 08 instead of 07',
    ],
    ['a rank', 'folds/one-member', ',0\t', ',1\t', 'roster[0].rank: 1 instead of 0'],
    ["a lease's member", 'folds/lease-alone', '\t61,4242', '\t62,4242', 'lease.member: "b" instead of "a"'],
    [
      'no lease',
      'folds/lease-alone',
      '\t61,4242,7,1700000000000,1700000030000,0\t',
      '\t-\t',
      'lease: - instead of "61,4242',
    ],
    ['a short roster', 'folds/three-members', ';62,3,1700000000000,2', '', 'roster: 2 elements instead of 3'],
    ['a short element', 'folds/one-member', ',0\t', '\t', 'roster[0]: 3 fields instead of 4'],
    [
      'an instant',
      'decisions/rank-0-last-millisecond',
      'wait\t1700000030000',
      'wait\t1700000030001',
      'instant: 1700000030001 instead of 1700000030000',
    ],
    ['a decision', 'decisions/rank-0-last-millisecond', 'wait', 'challenge', 'decision: challenge instead of wait'],
    [
      'a token that is held',
      'decisions/granted-now',
      '343234323a37',
      '343234323a38',
      'holds: "4242:8" instead of "4242:7"',
    ],
    ['a column too many', 'tombstones/null', 'true', 'true\t1', '5 columns instead of 4'],
  ])('in %s', (_name, vector, before, after, expected) => {
    const report = reportOf(changed(vector, before, after))
    expect(report.findings.map(({ text }) => text)[0]).toContain(`${vector}: ${expected}`)
    expect(report.findings.every((finding) => finding.kind === 'differs' && finding.vector === vector)).toBe(true)
    expect(report.right).toBe(total - 1)
    expect(summaryOf(report)).toBe(`${total} vectors: ${total - 1} right, 1 differ`)
  })

  test('in its check alone is said to be right but for it', () => {
    const check = lineOf('tombstones/null').split('\t').at(-1) ?? ''
    expect(textsOf(changed('tombstones/null', check, '7'))).toEqual([
      `tombstones/null: check: 7 instead of ${check}, over columns that are right`,
    ])
  })

  test('with anything at all in it is told in short lines of ASCII', () => {
    const check = lineOf('tombstones/null').split('\t').at(-1) ?? ''
    const long = '7'.repeat(1e5)
    expect(textsOf(changed('tombstones/null', check, '\u001b[2J'))).toEqual([
      `tombstones/null: check: "\\u001b[2J" instead of ${check}, over columns that are right`,
    ])
    for (const [before, after] of [
      [check, long],
      ['true', long],
      ['true', `\u001b${long}`],
    ] as const) {
      expect(textsOf(changed('tombstones/null', before, after))[0]).toMatch(/^[ -~]{50,300}$/)
    }
    expect(textsOf(changed('keys/given-lease', '636f6e', `c3${'28'.repeat(1e5)}`))[0]).toMatch(/^[ -~]{50,300}$/)
  })

  test('in several columns has them all', () => {
    expect(textsOf(changed('malformed/key-kind-2', 'key.kind\t2', 'key.role\t4'))).toEqual([
      'malformed/key-kind-2: part: key.role instead of key.kind',
      'malformed/key-kind-2: offset: 4 instead of 2',
    ])
  })
})

describe('lines that are', () => {
  const dropped = published.replace(`${lineOf('leases/given')}\n`, '')

  test('missing are named', () => {
    const report = reportOf(dropped)
    expect(report.findings).toEqual([{ kind: 'missing', vector: 'leases/given', text: 'leases/given: not printed' }])
    expect(summaryOf(report)).toBe(`${total} vectors: ${total - 1} right, 1 missing`)
  })

  test('unknown are named with their place', () => {
    const report = reportOf(`${published}leases/new\t1\t2\n`)
    expect(report.findings.map(({ kind, text }) => [kind, text])).toEqual([
      ['unknown', `"leases/new" (line ${total + 2}): no such vector`],
    ])
    expect(summaryOf(report)).toBe(`${total} vectors: ${total} right, 1 unknown`)
    expect(textsOf(`${published}\n`)).toEqual([`line ${total + 2} is empty`])
  })

  test('doubled are named, whether right or not', () => {
    const report = reportOf(`${published}${lineOf('leases/given')}\n`)
    expect(report.findings.map(({ kind, text }) => [kind, text])).toEqual([
      ['doubled', `leases/given: printed again in line ${total + 2}`],
    ])
    expect(summaryOf(report)).toBe(`${total} vectors: ${total} right, 1 doubled`)
  })

  test('counted wrongly by the first line are told', () => {
    const wrong = published.replace(/^vectors\t0\t\d+/, 'vectors\t0\t5')
    expect(textsOf(wrong)).toEqual([`first line: it says 5 vectors, ${total} follow`])
    expect(summaryOf(reportOf(wrong))).toContain('wrong count in the first line')
    expect(textsOf(published.replace(lines[0] ?? '', `vectors\t0\t${total}\t7`))[0]).toContain('first line: check')
  })
})

describe('input that is no list of vectors', () => {
  test.each([
    ['empty', new Uint8Array(), 'the input is empty'],
    ['not UTF-8', Uint8Array.from([0xff, 0xfe, 0x76, 0]), 'the input is not UTF-8; the lines are ASCII'],
    ['another version', bytesOf('vectors\t1\t3\t5\n'), 'the first line says version 1; these vectors are of version 0'],
    ['no first line', bytesOf(`${lines[1]}\n`), 'the first line is "keys/given-registration'],
    ['half a first line', bytesOf('vectors\t0\n'), 'the first line is "vectors\\t0"'],
    ['a byte order mark', bytesOf(`\ufeff${published}`), 'the first line is "\\ufeffvectors'],
    ['lines of Windows', bytesOf(published.replaceAll('\n', '\r\n')), 'the lines end in CR LF; they end in LF alone'],
  ])('such as %s is refused', (_name, printed, reason) => {
    const compared = compareVectors(published, printed)
    if (compared.kind !== 'unreadable') throw new Error('it was compared')
    expect(compared.reason).toContain(reason)
  })
})

/**
 * The implementations in four languages against the published vectors, and each of them against vectors that somebody changed:
 * a verifier that waves a flipped byte through would prove nothing. Then the commands that people run.
 */
import { spawnSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { murmur2 } from '../format/murmur2.js'
import { defaultKafkaVersion, kafkaArtifacts } from '../kafka/artifacts.js'
import { brokersAvailability } from '../kafka/requirements.js'
import { projectPath } from '../support/project-root.js'
import { type ReadyVerifier, verifiers } from './verifiers.js'

const published = readFileSync(projectPath('golden-vectors', 'v0', 'vectors.tsv'))
const lines = published.toString('latin1').trimEnd().split('\n')
const total = lines.length - 1

const isCi = process.env.CI === 'true'

function lineOf(vector: string): string {
  const line = lines.find((one) => one.startsWith(`${vector}\t`))
  if (line === undefined) throw new Error(`There is no vector ${vector}`)
  return line
}

/** `line` with the lowest bit of one byte flipped. No byte of the file becomes a line feed by that. */
function flipped(line: string, at: number): string {
  return line.slice(0, at) + String.fromCharCode(line.charCodeAt(at) ^ 1) + line.slice(at + 1)
}

function changed(vector: string, change: (line: string) => string): Buffer {
  const line = lineOf(vector)
  return Buffer.from(published.toString('latin1').replace(`${line}\n`, change(line)), 'latin1')
}

/** Flips the last byte of `part`, which the line of `vector` holds. */
function flippedIn(vector: string, part: string): Buffer {
  const line = lineOf(vector)
  const at = line.indexOf(part)
  if (at < 0) throw new Error(`${vector} does not hold ${part}`)
  return changed(vector, () => `${flipped(line, at + part.length - 1)}\n`)
}

const checkOf = (vector: string): string => lineOf(vector).split('\t').at(-1) ?? ''

/** What was done to the vectors, the result, and what must be named. */
const changes: readonly (readonly [what: string, lines: Buffer, named: string])[] = [
  ['a name', flippedIn('keys/given-registration', '636f6e74726f6c6c6572'), 'keys/given-registration'],
  ['a member', flippedIn('keys/registration-nfc', '\tc3a9\tc3a9'), 'keys/registration-nfc'],
  ['the bytes of a key', flippedIn('keys/given-lease', '00000001000a636f6e'), 'keys/given-lease'],
  ['the bytes of a registration', flippedIn('registrations/given', '018bcfe568'), 'registrations/given'],
  ['the bytes of a lease', flippedIn('leases/given', '00000000000010920007'), 'leases/given'],
  ['a producer id', flippedIn('leases/given', '\t4242'), 'leases/given'],
  ['a tombstone', flippedIn('tombstones/null', 'true'), 'tombstones/null'],
  [
    'a hash',
    flippedIn('partitions/given-controller', lineOf('partitions/given-controller').split('\t')[2] ?? ''),
    'partitions/given-controller',
  ],
  ['a token', flippedIn('tokens/text-given', '4242'), 'tokens/text-given'],
  ['an order', flippedIn('tokens/order-epoch-decides', '\t-1'), 'tokens/order-epoch-decides'],
  ['malformed bytes', flippedIn('malformed/key-kind-2', '\t00000002'), 'malformed/key-kind-2'],
  ['a part', flippedIn('malformed/key-kind-2', 'key.kind'), 'malformed/key-kind-2'],
  ['an offset', flippedIn('malformed/key-kind-2', 'key.kind\t2'), 'malformed/key-kind-2'],
  ['a header', flippedIn('headers/incarnation-plain', '000102'), 'headers/incarnation-plain'],
  ["the key of a fold's record", flippedIn('folds/three-members', '1,00000000000a63'), 'folds/three-members'],
  ["the value of a fold's record", flippedIn('folds/lease-alone', '1092'), 'folds/lease-alone'],
  ["the offset of a fold's record", flippedIn('folds/lease-alone', '\t0'), 'folds/lease-alone'],
  ["a fold's rank", flippedIn('folds/three-members', '1700000000000,2'), 'folds/three-members'],
  [
    "a decision's instant",
    flippedIn('decisions/rank-0-last-millisecond', 'wait\t1700000030000'),
    'decisions/rank-0-last-millisecond',
  ],
  [
    "a decision's clock",
    flippedIn('decisions/rank-0-last-millisecond', '1700000029999'),
    'decisions/rank-0-last-millisecond',
  ],
  [
    "a decision's rule",
    flippedIn('decisions/rank-0-last-millisecond', 'slot-after-lease'),
    'decisions/rank-0-last-millisecond',
  ],
  ['a check', flippedIn('leases/given', checkOf('leases/given')), 'leases/given'],
  ['a tab', flippedIn('leases/given', '4242\t'), 'leases/given'],
]

function checked(columns: readonly string[]): string {
  const text = columns.join('\t')
  return `${text}\t${murmur2(Buffer.from(text, 'latin1'))}`
}

const first = (count: number): string => checked(['vectors', '0', String(count)])

/** A published line with one part of it replaced, under an id of its own and with a check that fits. */
function madeOf(vector: string, before: string, after: string): string {
  const [id = '', ...columns] = lineOf(vector).split('\t').slice(0, -1)
  const text = columns.join('\t')
  if (!text.includes(before)) throw new Error(`${vector} does not hold ${before}`)
  return checked([`${id}-made`, ...text.replace(before, () => after).split('\t')])
}

/** Lines that cannot be read, whatever their check says: nothing is printed for them. */
const unreadable: readonly (readonly [what: string, line: string])[] = [
  ['no partitions', madeOf('partitions/given-controller', '\t16\t', '\t0\t')],
  ['a negative number of partitions', madeOf('partitions/given-controller', '\t16\t', '\t-16\t')],
  ['partitions of 33 bits', madeOf('partitions/given-controller', '\t16\t', '\t2147483648\t')],
  ['a time of 65 bits', madeOf('registrations/given', '1700000000000', '9223372036854775808')],
  ['a time that is none', madeOf('registrations/given', '1700000000000', '1.7e12')],
  ['a time with a blank', madeOf('registrations/given', '1700000000000', ' 1700000000000')],
  ['a time of a million digits', madeOf('registrations/given', '1700000000000', '1'.repeat(1e6))],
  ['no time', madeOf('registrations/given', '1700000000000', '')],
  ['an epoch of 17 bits', madeOf('leases/given', '\t7\t', '\t32768\t')],
  ['a negative producer id', madeOf('leases/given', '4242', '-1')],
  ['a member that is not UTF-8', madeOf('registrations/given', '6e6f64652d31\t', 'c328\t')],
  ['half a byte', madeOf('registrations/given', '6e6f64652d31\t', '6e6f64652d3\t')],
  ['hex with a blank', madeOf('tombstones/one-zero-byte', '00', '0 0')],
  ['a key that decodes not at all', madeOf('keys/given-lease', '00000001', '00010001')],
  ['a lease key that names a member', madeOf('keys/given-lease', '72\t\t', '72\t61\t')],
  ['a kind that is none', madeOf('keys/given-lease', 'lease', 'leash')],
  ['a decoder that is none', madeOf('malformed/key-kind-2', 'key', 'lock')],
  ['a check that is none', madeOf('tokens/text-given', 'text', 'test')],
  ['a check of another file', madeOf('tokens/text-given', 'text', 'term')],
  ['a token that is none', madeOf('tokens/order-epoch-decides', '3a', '3b')],
  ['a header that is a byte short', madeOf('headers/incarnation-order-self', '00', '')],
  ['a term that is none', madeOf('headers/term-zero', '30', '2d')],
  ['a column too few', madeOf('tombstones/null', '\ttrue', '')],
  ['a column too many', madeOf('tombstones/null', '\ttrue', '\ttrue\ttrue')],
  ['no columns', 'tombstones/null-made'],
  ['an unknown file', madeOf('tombstones/null', 'true', 'true').replace('tombstones', 'stones')],
  ['a fold of an empty role', madeOf('folds/three-members', '636f6e74726f6c6c6572\t', '\t')],
  ['a fold of an overlong role', madeOf('folds/three-members', '636f6e74726f6c6c6572\t', `${'6e'.repeat(250)}\t`)],
  ["a fold's record out of order", madeOf('folds/three-members', ';2,', ';4,')],
  ["a fold's record at the offset of another", madeOf('folds/three-members', ';2,', ';1,')],
  ["a fold's record without a value", madeOf('folds/lease-alone', ',00000001', ';00000001')],
  ['an empty own name', madeOf('decisions/rank-0-just-granted', '\t62\t', '\t\t')],
  ['held by nothing readable', madeOf('decisions/granted-now', '343234323a37', '343234323b37')],
  ['held by a token that is not UTF-8', madeOf('decisions/granted-now', '343234323a37', 'ff')],
  ['an empty holder', madeOf('decisions/rank-0-just-granted', '\t61,4242', '\t,4242')],
  ['a holder with an epoch of 17 bits', madeOf('decisions/rank-0-just-granted', '4242,7', '4242,32768')],
  ['an overlong member', madeOf('decisions/rank-0-just-granted', '63,3,', `${'6e'.repeat(250)},3,`)],
  ['a roster out of order', madeOf('decisions/rank-0-just-granted', '62,2,', '62,4,')],
  ['a roster with an offset twice', madeOf('decisions/rank-0-just-granted', '62,2,', '62,1,')],
  ['a roster with a member twice', madeOf('decisions/rank-0-just-granted', '63,3,', '61,3,')],
  ['a stagger of 33 bits', madeOf('decisions/rank-0-just-granted', '\t5000\t', '\t2147483648\t')],
  ['a slot of 65 bits', madeOf('decisions/rank-1-at-the-deadline', ',1700000030000', ',9223372036854775807')],
]

/** Lines of which there is another way to write them, and how they are printed. */
const canonical: readonly (readonly [what: string, line: string, printed: string])[] = [
  ['+4242', madeOf('tokens/text-given', '4242', '+4242'), madeOf('tokens/text-given', '4242', '4242')],
  ['007', madeOf('decisions/granted-now', '4242,7', '4242,007'), madeOf('decisions/granted-now', '7', '7')],
  ['-0', madeOf('folds/lease-alone', '\t0,', '\t-0,'), madeOf('folds/lease-alone', '0', '0')],
  ['a stagger of +5000', madeOf('decisions/alone', '\t5000', '\t+5000'), madeOf('decisions/alone', '7', '7')],
  ['upper-case hex of a name', madeOf('folds/role-nfd', '65cc81', '65CC81'), madeOf('folds/role-nfd', '0', '0')],
  ['upper-case hex of a value', madeOf('tombstones/lease', 'dd', 'DD'), madeOf('tombstones/lease', 'dd', 'dd')],
]

describe.each(verifiers)('$language', ({ language, missing, prepare }) => {
  describe.skipIf(missing !== undefined && !isCi)(missing === undefined ? 'is here' : `cannot run: ${missing}`, () => {
    let verifier: ReadyVerifier
    beforeAll(() => {
      if (missing !== undefined) throw new Error(`${language} cannot be run: ${missing}`)
      verifier = prepare()
    })

    test('prints every published line as it is', () => {
      const { stdout, stderr, status } = verifier.run(published)
      expect(stdout.equals(published)).toBe(true)
      expect(stderr.trimEnd().split('\n').at(-1)).toBe(`${total} vectors, 0 differ`)
      expect(status).toBe(0)
    })

    test.each(changes)('notices a flipped bit in %s', (_what, input, named) => {
      const { stdout, stderr, status } = verifier.run(input)
      expect(status).not.toBe(0)
      expect(stdout.equals(input)).toBe(false)
      expect(stderr).toMatch(new RegExp(`^${named}\\b`, 'm'))
      expect(stderr.trimEnd().split('\n').at(-1)).toBe(`${total} vectors, 1 differ`)
    })

    // One flip in every line at once: each must be seen. The strides put it at other places of the lines each time.
    test.each([0, 7, 19, 64, 128, 211])('notices a flip in every vector, %i bytes on', (offset) => {
      const [first = '', ...vectors] = lines
      const all = vectors.map((line, index) => flipped(line, (index * 7919 + offset) % line.length))
      const { stderr, status } = verifier.run(Buffer.from(`${[first, ...all].join('\n')}\n`, 'latin1'))
      expect(status).not.toBe(0)
      expect(stderr.trimEnd().split('\n').at(-1)).toBe(`${total} vectors, ${total} differ`)
    })

    test('says of each line that it cannot read that it cannot, and goes on', () => {
      const input = [first(unreadable.length), ...unreadable.map(([, line]) => line), ''].join('\n')
      const { stdout, stderr, status } = verifier.run(Buffer.from(input, 'latin1'))
      const said = stderr.split('\n').filter((line) => line.includes(': not readable: '))
      expect(said.map((line) => line.split(':')[0])).toEqual(unreadable.map(([, line]) => line.split('\t')[0]))
      expect(stdout.toString('latin1')).toBe(`${first(unreadable.length)}\n`)
      expect(stderr.trimEnd().split('\n').at(-1)).toBe(`${unreadable.length} vectors, ${unreadable.length} differ`)
      expect(status).toBe(1)
    })

    test('prints numbers and bytes in the one way there is, however they were written', () => {
      const input = [first(canonical.length), ...canonical.map(([, line]) => line), ''].join('\n')
      const { stdout, stderr, status } = verifier.run(Buffer.from(input, 'latin1'))
      const printed = [first(canonical.length), ...canonical.map(([, , line]) => line), '']
      expect(stdout.toString('latin1').split('\n')).toEqual(printed)
      expect(stderr.trimEnd().split('\n').at(-1)).toBe(`${canonical.length} vectors, ${canonical.length} differ`)
      expect(status).toBe(1)
    })

    test('takes what is not UTF-8 for no token, and prints it', () => {
      const refused = checked(['tokens/refused-made', 'refused', 'ff3a37'])
      const input = Buffer.from(`${first(1)}\n${refused}\n`)
      expect(verifier.run(input)).toMatchObject({ stdout: input, status: 0 })
    })

    test('notices CR LF, and bytes that are no text', () => {
      const garbage = Buffer.from(Array.from({ length: 4096 }, (_, at) => (at * 7919 + (at >> 3)) % 256))
      for (const input of [Buffer.from(published.toString('latin1').replaceAll('\n', '\r\n'), 'latin1'), garbage]) {
        const { stderr, status } = verifier.run(input)
        const [, count, differ] = /^(\d+) vectors, (\d+) differ$/.exec(stderr.trimEnd().split('\n').at(-1) ?? '') ?? []
        expect(differ).toBe(count)
        expect(status).toBe(1)
      }
    })

    test('says which file it cannot read', () => {
      const { stdout, stderr, status } = verifier.run(Buffer.alloc(0), ['no-such-file'])
      expect(stderr.trimEnd().split('\n')).toHaveLength(1)
      expect(stderr).toMatch(/no such file/i)
      expect(stdout).toHaveLength(0)
      expect(status).toBe(1)
    })

    test.each([
      ['a dropped line', changed('leases/given', () => '')],
      ['a doubled line', changed('leases/given', (line) => `${line}\n${line}\n`)],
      ['a dropped first line', Buffer.from(`${lines.slice(1).join('\n')}\n`, 'latin1')],
      [
        'a flip in the first line',
        Buffer.from(published.toString('latin1').replace('vectors\t0\t', 'vectors\t1\t'), 'latin1'),
      ],
      [
        'another count',
        Buffer.from(published.toString('latin1').replace(`\t${total}\t`, `\t${total + 1}\t`), 'latin1'),
      ],
      [
        'an unknown kind of vector',
        Buffer.from(published.toString('latin1').replaceAll('\nfolds/', '\nfalds/'), 'latin1'),
      ],
      ['an empty line', changed('leases/given', (line) => `${line}\n\n`)],
      ['nothing', Buffer.alloc(0)],
    ])('notices %s', (_what, input) => {
      const { stderr, status } = verifier.run(input)
      expect(status).not.toBe(0)
      expect(stderr).not.toBe('')
    })
  })
})

describe('Java beside kafka-clients', () => {
  const availability = brokersAvailability()
  const java = verifiers.find(({ language }) => language === 'Java')

  test.skipIf(!availability.available && !isCi)("has Kafka's own murmur2 for every role", async () => {
    const { classpath } = await kafkaArtifacts(defaultKafkaVersion)
    if (java === undefined) throw new Error('There is a Java verifier')
    const { stderr, status } = java.prepare({ classpath }).run(published)
    expect(stderr).not.toContain('not compared')
    expect(status).toBe(0)
  })
})

describe('npm run vectors', () => {
  const folder = mkdtempSync(join(tmpdir(), 'mandate-vectors-'))
  afterAll(() => rmSync(folder, { recursive: true, force: true }))

  /** What the script prints, run as npm runs it: from the project, called from `folder`. */
  function vectors(args: readonly string[], options: { input?: Buffer; env?: NodeJS.ProcessEnv } = {}) {
    const run = spawnSync(process.execPath, [projectPath('build', 'test', 'golden-vectors', 'main.js'), ...args], {
      encoding: 'utf8',
      input: options.input ?? '',
      env: { ...process.env, INIT_CWD: folder, ...options.env },
    })
    return { code: run.status, printed: run.stdout.trimEnd().split('\n'), said: run.stderr.trimEnd() }
  }

  test('says of each verifier that it is right, or not here', () => {
    const { code, printed } = vectors([])
    const expected = verifiers.map(({ language, missing }) =>
      missing === undefined ? `${language}: ${total} vectors, ok` : `${language}: not here (${missing})`,
    )
    expect(printed).toEqual(expected)
    expect(code).toBe(isCi && verifiers.some(({ missing }) => missing !== undefined) ? 1 : 0)
  })

  test('takes a missing toolchain for a failure in CI only', () => {
    const env = { PATH: folder, JAVA_HOME: '' }
    const atHome = vectors([], { env: { ...env, CI: '' } })
    expect(atHome.printed).toContain('Go: not here (no go on the PATH)')
    expect(atHome.code).toBe(0)
    expect(vectors([], { env: { ...env, CI: 'true' } }).code).toBe(1)
  })

  test('verify compares a file of the caller, or standard input', () => {
    writeFileSync(join(folder, 'right.tsv'), published)
    for (const run of [vectors(['verify', 'right.tsv']), vectors(['verify', '-'], { input: published })]) {
      expect(run).toEqual({ code: 0, printed: [`${total} vectors: ${total} right`], said: '' })
    }
    writeFileSync(join(folder, 'wrong.tsv'), flippedIn('leases/given', '000000000000109200'))
    const { code, printed } = vectors(['verify', join(folder, 'wrong.tsv')])
    expect(printed).toEqual([
      'leases/given: byte 18 (lease.producer_epoch): 01 instead of 00',
      `${total} vectors: ${total - 1} right, 1 differ`,
    ])
    expect(code).toBe(1)
  })

  test('verify says clearly what it cannot use', () => {
    expect(vectors(['verify', 'absent.tsv']).said).toContain('absent.tsv cannot be read: ENOENT')
    expect(vectors(['verify', '-']).said).toBe('standard input: the input is empty')
    writeFileSync(join(folder, 'utf16.tsv'), Buffer.from(`\ufeff${published.toString('latin1')}`, 'utf16le'))
    expect(vectors(['verify', 'utf16.tsv']).said).toBe('utf16.tsv: the input is not UTF-8; the lines are ASCII')
    const other = published.toString('latin1').replace('vectors\t0', 'vectors\t1')
    expect(vectors(['verify', '-'], { input: Buffer.from(other) }).said).toContain('says version 1')
    for (const args of [['verify'], ['verify', 'a', 'b'], ['check']]) {
      expect(vectors(args)).toMatchObject({ code: 2, said: expect.stringContaining('Usage: npm run vectors') })
    }
    expect(vectors(['verify', dirname(folder)]).code).toBe(2)
  })
})

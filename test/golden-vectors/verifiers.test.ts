/**
 * The implementations in four languages against the published vectors, and each of them against vectors that somebody changed:
 * a verifier that waves a flipped byte through would prove nothing. Then the commands that people run.
 */
import { spawnSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
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

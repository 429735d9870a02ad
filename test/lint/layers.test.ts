/**
 * Each rule of biome.json that holds a layer, shown to refuse what it is for and to pass what is meant. All cases are linted
 * in one run, in a folder of their own that has this project's configuration.
 */
import { execFileSync } from 'node:child_process'
import { cpSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { projectPath } from '../support/project-root.js'

const clock = [
  'export const a: number = Date.now()',
  'export const b: object = new Date()',
  'export const c: number = performance.now()',
  'export const d: unknown = setTimeout(() => {}, 1)',
  'export const e: unknown = setInterval(() => {}, 1)',
  'export const f: unknown = setImmediate(() => {})',
  'export const g: string = crypto.randomUUID()',
  'export const h: number = Math.random()',
  'export const i: bigint = process.hrtime.bigint()',
  'export const j: AbortSignal = AbortSignal.timeout(1)',
  'export const k: unknown = globalThis.setTimeout',
] as const

const use = (...specifiers: readonly string[]): readonly string[] =>
  specifiers.map((specifier, index) => `export { name as name${index} } from '${specifier}'`)

const timeOfNode = ['node:timers', 'node:timers/promises', 'node:crypto', 'node:perf_hooks', 'crypto']

/** Of each file: lines that must be refused, one by one, and lines that must pass. */
const cases: Readonly<Record<string, { readonly refused: readonly string[]; readonly passed: readonly string[] }>> = {
  'src/format/any.ts': {
    refused: [
      ...clock,
      ...use('../election/a.js', '../cluster/a.js', '../kafka/a.js', '../client/a.js', '../runtime.js', '../index.js'),
      ...use('./../client/a.js', 'node:fs', 'node:buffer', 'murmurhash', 'kafkajs', 'crc-32', ...timeOfNode),
      "export const l: unknown = import('../client/a.js')",
      'export const m: unknown = Buffer.alloc(1)',
    ],
    passed: [...use('./other.js', '../errors.js'), 'export const n: number = Math.max(1, 2)'],
  },
  'src/format/partition.ts': {
    refused: use('../election/a.js', 'node:fs', 'kafkajs'),
    passed: use('murmurhash', './other.js', '../errors.js'),
  },
  'src/election/any.ts': {
    refused: [
      ...clock,
      ...use('../cluster/a.js', '../kafka/a.js', '../client/a.js', '../runtime.js', '../format/../client/a.js'),
      ...use('node:fs', 'murmurhash', 'kafkajs', ...timeOfNode),
      'export const m: unknown = Buffer.alloc(1)',
      'export const n: unknown = process.env',
    ],
    passed: use('./other.js', '../format/key.js', '../errors.js'),
  },
  'src/cluster/any.ts': {
    refused: [
      ...clock,
      ...use('../election/a.js', '../kafka/a.js', '../client/a.js', '../testing/a.js', '../index.js'),
      ...use('node:net', 'murmurhash', 'kafkajs', 'crc-32', ...timeOfNode),
    ],
    passed: use('./connection.js', '../format/key.js', '../errors.js', '../linked-signal.js', '../runtime.js'),
  },
  'src/kafka/any.ts': {
    refused: [
      ...clock,
      ...use('../cluster/follower.js', '../client/a.js', '../election/a.js', '../format/a.js', '../testing/a.js'),
      ...use('murmurhash', ...timeOfNode),
      "import { Kafka } from 'kafkajs'",
      "import 'kafkajs'",
      "import { type Admin } from 'kafkajs'",
      "export const l: unknown = import('kafkajs')",
      "export { Kafka as Other } from 'kafkajs'",
    ],
    passed: [
      ...use('./other.js', './protocol/fetch.js', '../cluster/connection.js', '../errors.js', '../runtime.js'),
      ...use('crc-32/crc32c.js', 'node:net', 'node:zlib'),
      "import type { Kafka as KafkaType } from 'kafkajs'",
      "export type { Kafka as Exported } from 'kafkajs'",
      'export const kafka: KafkaType | Kafka | undefined = undefined',
    ],
  },
  'src/kafka/protocol/any.ts': {
    refused: [
      ...clock,
      ...use('../../cluster/follower.js', '../../client/a.js', '../../format/a.js', 'murmurhash', ...timeOfNode),
    ],
    passed: use('./fetch.js', '../record-batch.js', '../../cluster/connection.js', '../../errors.js'),
  },
  'src/client/any.ts': {
    refused: [
      ...clock,
      ...use('../kafka/dialer.js', '../testing/a.js', '../cli/a.js', '../metrics/a.js', '../schema-registry/a.js'),
      ...use('../index.js', 'kafkajs', 'murmurhash', 'crc-32', ...timeOfNode),
    ],
    passed: use('./connect.js', '../cluster/follower.js', '../election/a.js', '../format/key.js', '../runtime.js'),
  },
  'src/client/connect.ts': {
    refused: [...clock, ...use('../testing/a.js', '../cli/a.js', 'kafkajs', 'murmurhash', ...timeOfNode)],
    passed: use('../kafka/dialer.js', '../cluster/connection.js'),
  },
  'src/cli/any.ts': {
    refused: [
      ...clock,
      ...use('../cluster/a.js', '../kafka/a.js', '../testing/a.js', 'murmurhash', 'crc-32', ...timeOfNode),
    ],
    passed: [
      ...use('./other.js', '../client/a.js', '../election/a.js', '../format/a.js', '../errors.js', '../runtime.js'),
      ...use('../index.js', 'kafkajs', 'node:fs', 'node:util'),
    ],
  },
  'src/index.ts': {
    refused: [
      ...clock,
      ...use('./cli/a.js', 'kafkajs', 'murmurhash', 'crc-32', ...timeOfNode),
      "export * from './client/a.js'",
      "export * as all from './client/a.js'",
      "export type * from './client/a.js'",
      'export default 1',
    ],
    passed: use('./client/a.js', './format/key.js', './errors.js'),
  },
  'src/runtime.ts': { refused: [], passed: [...clock, ...use(...timeOfNode)] },
  'test/any.ts': {
    refused: ["export * from './other.js'"],
    passed: [...clock, ...use('kafkajs', '../src/kafka/a.js')],
  },
}

interface Diagnostic {
  readonly location: { readonly path: string; readonly start: { readonly line: number } }
}

describe('the layer rules', () => {
  const folder = mkdtempSync(join(tmpdir(), 'mandate-lint-'))
  const refusedLines = new Map<string, Set<number>>()

  beforeAll(() => {
    cpSync(projectPath('biome.json'), join(folder, 'biome.json'))
    cpSync(projectPath('test', 'lint'), join(folder, 'test', 'lint'), { recursive: true })
    for (const [path, { refused, passed }] of Object.entries(cases)) {
      mkdirSync(dirname(join(folder, path)), { recursive: true })
      writeFileSync(join(folder, path), [...refused, ...passed].join('\n'))
      refusedLines.set(path, new Set())
    }
    const biome = projectPath('node_modules', '.bin', 'biome')
    let report = ''
    try {
      const paths = Object.keys(cases)
      execFileSync(
        biome,
        [
          'lint',
          '--vcs-enabled=false',
          '--max-diagnostics=none',
          '--reporter=json',
          '--diagnostic-level=error',
          ...paths,
        ],
        { cwd: folder, encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] },
      )
    } catch (error) {
      if (!(error instanceof Error && 'stdout' in error)) throw error
      report = String(error.stdout)
    }
    const { diagnostics }: { diagnostics: readonly Diagnostic[] } = JSON.parse(report)
    for (const { location } of diagnostics) refusedLines.get(location.path)?.add(location.start.line)
  })

  afterAll(() => rmSync(folder, { recursive: true, force: true }))

  test.each(Object.entries(cases))('%s', (path, { refused, passed }) => {
    const lines = [...refused, ...passed]
    const found = lines.filter((_, index) => refusedLines.get(path)?.has(index + 1))
    expect(found).toEqual(refused)
  })
})

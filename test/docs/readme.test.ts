/**
 * That the README says what the source does: its tables, its programs, its links and its versions.
 *
 * The lists below are typed by the source, so a code, option or field that the source gains or loses does not compile here before
 * it fails there.
 */
import { existsSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import ts from 'typescript'
import { describe, expect, test } from 'vitest'
import type { DiagnosticMessages, DiagnosticName } from '../../src/client/diagnostics.js'
import { diagnosticChannelName } from '../../src/client/diagnostics.js'
import type { ClientOptions } from '../../src/client/options.js'
import { settingsOf } from '../../src/client/options.js'
import type { VerifyCode } from '../../src/client/verify-finding.js'
import type { ErrorCode, ErrorDetails, FencedReason } from '../../src/errors.js'
import * as mandate from '../../src/index.js'
import { systemRuntime } from '../../src/runtime.js'
import { projectRoot } from '../support/project-root.js'

const readme = textOf('README.md')
const manifest: {
  engines: { node: string }
  peerDependencies: { kafkajs: string }
  scripts: Record<string, string>
  files: string[]
} = JSON.parse(textOf('package.json'))

type Fields<T> = { [Field in keyof T]-?: true }

const errorFields: { [Code in ErrorCode]: Fields<ErrorDetails[Code]> } = {
  FENCED: { role: true, member: true, token: true, term: true, reason: true, successor: true },
  LEASE_EXPIRED: { role: true, member: true, token: true, term: true },
  SUPERSEDED: { role: true, member: true },
  TERM_ENDED: { role: true, member: true, token: true, term: true },
  RESIGNED: { role: true, member: true, token: true, term: true },
  CLOSED: {},
  COMMIT_UNKNOWN: { role: true },
  TRANSACTION_ABORTED: { role: true },
  REFUSED: { topic: true, partition: true, kafkaCode: true },
  FORMAT: { part: true, offset: true },
  CONFIG: { option: true },
  TOPIC: { topic: true, setting: true, found: true, wanted: true },
  UNAUTHORIZED: { operation: true, resource: true, kafkaCode: true },
  WEDGED: { role: true, partitions: true },
  UNSUPPORTED: { wanted: true },
  TRANSPORT: { retriable: true, kafkaCode: true },
}

const fencedReasons: Record<FencedReason, true> = {
  takeover: true,
  'transaction-timeout': true,
  'external-mint': true,
  unknown: true,
}

const termFields = { role: true, member: true, token: true, term: true } as const

const channelFields: { [Name in DiagnosticName]: Fields<DiagnosticMessages[Name]> } = {
  acquired: { ...termFields, staggerMs: true, detectMs: true, mintMs: true, firstLeaseMs: true },
  renewed: { ...termFields, durationMs: true, remainingMs: true },
  'renewal-late': { ...termFields, sinceConfirmedMs: true },
  lost: { ...termFields, code: true, error: true },
  resigned: { ...termFields, durationMs: true, outcome: true },
  challenge: { role: true, member: true, by: true, outcome: true, reason: true },
  transaction: { ...termFields, outcome: true, records: true, durationMs: true },
  'foreign-record': { role: true, partition: true, offset: true, reason: true },
  'unreadable-record': { role: true, partition: true, offset: true, reason: true },
  reread: { partition: true, state: true },
}

const verifyCodes: Record<VerifyCode, true> = {
  'broker-unreachable': true,
  'api-unsupported': true,
  'transaction-version': true,
  'transaction-log': true,
  'transaction-timeout': true,
  'topic-missing': true,
  'topic-setting': true,
  'topic-replication': true,
  'partition-unavailable': true,
  'partition-count': true,
  'permission-missing': true,
  'write-held-widely': true,
  clock: true,
  'hanging-transaction': true,
  'foreign-record': true,
  'unreadable-record': true,
  'dead-registration': true,
  'epoch-near-exhaustion': true,
  'id-near-expiry': true,
  'short-lease': true,
  'not-checked': true,
}

const settings = settingsOf({ kafka: {} })

/** What the library does where an option is left out; undefined where the README says so in words. */
const optionDefaults: { [Option in keyof Required<ClientOptions>]: unknown } = {
  kafka: undefined,
  runtime: undefined,
  memberId: undefined,
  topic: settings.topic,
  createTopic: settings.createTopic,
  partitions: settings.partitions,
  replicationFactor: settings.replicationFactor,
  leaseMs: settings.policy.leaseMs,
  renewIntervalMs: settings.policy.renewIntervalMs,
  staggerMs: settings.policy.staggerMs,
  transactionTimeoutMs: settings.policy.transactionTimeoutMs,
  requestTimeoutMs: settings.requestTimeoutMs,
  maxQueuedBytes: settings.maxQueuedBytes,
  stampRecords: settings.stampRecords,
  logger: settings.logger,
}

describe('the tables of the README', () => {
  test('name every error code with its fields', () => {
    const rows = tableOf('## Errors')
    expect(Object.fromEntries(rows.map(([code, , , fields]) => [unquoted(code), namesIn(fields)]))).toEqual(
      fieldLists(errorFields),
    )
  })

  test('say what the caller does about each code', () => {
    for (const [code, when, action] of tableOf('## Errors'))
      expect([code, when !== '', action !== '']).toEqual([code, true, true])
  })

  test('explain every reason of FENCED', () => {
    const errors = sectionOf('## Errors')
    for (const reason of Object.keys(fencedReasons)) expect(errors).toContain(`\`${reason}\``)
  })

  test('name every option', () => {
    const named = tableOf('## Options').map(([option]) => unquoted(option))
    expect(named.toSorted()).toEqual(Object.keys(optionDefaults).toSorted())
    for (const option of named) expect(() => settingsOf({ kafka: {}, [option]: undefined })).not.toThrow()
  })

  test('give the defaults that the source has', () => {
    const told = Object.fromEntries(
      tableOf('## Options').map(([option, , byDefault]) => [unquoted(option), defaultIn(byDefault)]),
    )
    expect(told).toEqual(optionDefaults)
    expect(settings.runtime).toBe(systemRuntime)
    expect(settings.memberId).toContain(`-${process.pid}-`)
  })

  test('name every diagnostics channel with its fields', () => {
    const told = Object.fromEntries(
      tableOf('## Watching from outside').map(([channel, , fields]) => [unquoted(channel), namesIn(fields)]),
    )
    const published = Object.entries(fieldLists(channelFields)).map(([name, fields]) => [
      diagnosticChannelName(name as DiagnosticName),
      fields,
    ])
    expect(told).toEqual(Object.fromEntries(published))
  })

  test('name every code of a check', () => {
    const told = tableOf('## Checking a cluster').map(([code]) => unquoted(code))
    expect(told).toEqual(Object.keys(verifyCodes))
  })

  test('give the supported versions of the manifest', () => {
    const versions = sectionOf('## Supported versions')
    expect(versions).toContain(`| Node.js | ${manifest.engines.node.replace('>=', '')} or newer`)
    expect(versions).toContain(`\`${manifest.peerDependencies.kafkajs}\``)
  })
})

describe('the programs of the README', () => {
  test('are the files that they claim to be', () => {
    const quoted = [...readme.matchAll(/<!-- (examples\/\S+) -->\n```\w+\n([\s\S]*?)```\n/g)]
    expect(quoted.map(([, path]) => path)).toContain('examples/first.mjs')
    for (const [, path = '', text] of quoted) expect(text).toBe(textOf(path))
  })

  test('import only what the package exports', () => {
    const imported = [...readme.matchAll(/import \{([^}]*)\} from 'mandate'/g)].flatMap(([, names = '']) =>
      names.split(',').map((name) => name.trim()),
    )
    expect(imported).toContain('CoordinationClient')
    for (const name of imported) expect(Object.keys(mandate)).toContain(name)
  })

  test('compile against the public types', () => {
    const snippets = [...readme.matchAll(/(?<!-->\n)```(?:js|ts)\n([\s\S]*?)```\n/g)].map(([, code = '']) => code)
    expect(snippets.length).toBeGreaterThan(3)
    expect(compileErrors(snippets)).toEqual([])
    expect(compileErrors(["await leadership.send({ topic: 'commands', acks: 1 })\n"])).not.toEqual([])
  })

  test('are started by commands that exist', () => {
    const commands = [...readme.matchAll(/npm (?:run )?([a-z:]+)/g)].map(([, name = '']) => name)
    const own = commands.filter((name) => !['ci', 'pack', 'install', 'registry'].includes(name))
    expect(own).toContain('demo')
    for (const name of own) expect(Object.keys(manifest.scripts)).toContain(name)
  })
})

describe('the pages of the project', () => {
  const pages = ['README.md', 'CHANGELOG.md', 'src/DESIGN.md', 'test/README.md', 'golden-vectors/README.md']

  test.each(pages)('%s has no dead link', (page) => {
    const text = textOf(page)
    const anchors = [...text.matchAll(/^#+ (.*)$/gm)].map(([, title = '']) => `#${slug(title)}`)
    for (const [, target = ''] of text.matchAll(/\]\(([^)\s]+)\)/g)) {
      if (target.startsWith('#')) expect(anchors).toContain(target)
      else if (!target.startsWith('https:'))
        expect([target, existsSync(join(projectRoot, dirname(page), target))]).toEqual([target, true])
    }
  })

  test('the design page defines the invariants that the source cites', () => {
    const design = textOf('src/DESIGN.md')
    const cited = new Set(
      ts.sys
        .readDirectory(join(projectRoot, 'src'), ['.ts'])
        .flatMap((path) => [...readFileSync(path, 'utf8').matchAll(/\bI(?:1[0-2]|[1-9])\b/g)].map(([name]) => name)),
    )
    expect(cited.size).toBeGreaterThan(8)
    for (const name of cited) expect(design).toMatch(new RegExp(`^- \\*\\*${name}\\*\\* `, 'm'))
  })

  test('the design page maps files that exist, and every folder', () => {
    const rows = tableOf('## House', textOf('src/DESIGN.md'))
    const named = rows.flatMap(([place, text]) => {
      const folder = unquoted(place).endsWith('/') ? unquoted(place) : ''
      const files = folder === '' ? [unquoted(place)] : []
      return [...files, ...[...(text ?? '').matchAll(/`([\w-]+\.ts)`/g)].map(([, file]) => `${folder}${file}`)]
    })
    expect(named.length).toBeGreaterThan(20)
    for (const path of named) expect([path, existsSync(join(projectRoot, 'src', path))]).toEqual([path, true])
    const places = rows.map(([place]) => unquoted(place))
    const folders = ts.sys.getDirectories(join(projectRoot, 'src'))
    for (const folder of folders) expect(places).toContain(`${folder}/`)
  })
})

function textOf(path: string): string {
  return readFileSync(join(projectRoot, path), 'utf8')
}

function sectionOf(heading: string, text: string = readme): string {
  const start = text.indexOf(`\n${heading}\n`)
  expect(start, heading).toBeGreaterThan(-1)
  const end = text.indexOf('\n## ', start + 1)
  return text.slice(start, end < 0 ? undefined : end)
}

/** The body cells of the first table of a section. */
function tableOf(heading: string, text: string = readme): readonly (readonly string[])[] {
  const lines = sectionOf(heading, text).split('\n')
  const first = lines.findIndex((line) => line.startsWith('| ---'))
  const body = lines.slice(first + 1)
  const rows = body.slice(
    0,
    body.findIndex((line) => !line.startsWith('|')),
  )
  return rows.map((row) =>
    row
      .split('|')
      .slice(1, -1)
      .map((cell) => cell.trim()),
  )
}

function unquoted(cell: string | undefined): string {
  return (cell ?? '').replaceAll('`', '')
}

function namesIn(cell: string | undefined): readonly string[] {
  return [...(cell ?? '').matchAll(/`(\w+)`/g)].map(([, name = '']) => name).toSorted()
}

function fieldLists(fields: Record<string, object>): Record<string, readonly string[]> {
  return Object.fromEntries(Object.entries(fields).map(([name, list]) => [name, Object.keys(list).toSorted()]))
}

/** The value of a default's cell: a literal in code, or a part of the lease; undefined where it is told in words. */
function defaultIn(cell: string | undefined): unknown {
  const code = /^`([^`]+)`$/.exec(cell ?? '')?.[1]
  if (code === undefined) return undefined
  const part = /^leaseMs(?: \/ (\d))?$/.exec(code)
  if (part !== null) return settings.policy.leaseMs / Number(part[1] ?? 1)
  if (/^\d+$/.test(code)) return Number(code)
  return code === 'true' ? true : code
}

function slug(title: string): string {
  return title
    .toLowerCase()
    .replace(/[^\w\- ]/g, '')
    .replaceAll(' ', '-')
}

/** What the compiler says of snippets that are given the names that the README's text introduces. */
function compileErrors(snippets: readonly string[]): readonly string[] {
  const prelude = [
    "import { CoordinationClient, StaleTermGuard, type Leadership } from './src/index.js'",
    'declare const client: CoordinationClient',
    "declare const consumer: import('kafkajs').Consumer",
  ]
  const sources = new Map(
    snippets.map((code, index) => {
      const declares = /(?:const|using) leadership\b/.test(code) ? [] : ['declare const leadership: Leadership']
      return [join(projectRoot, `readme-${index}.mts`), [...prelude, ...declares, code].join('\n')]
    }),
  )
  const config = ts.readConfigFile(join(projectRoot, 'tsconfig.json'), ts.sys.readFile)
  const { options } = ts.parseJsonConfigFileContent(
    { ...config.config, include: [], files: ['src/index.ts'] },
    ts.sys,
    projectRoot,
  )
  const compilerOptions = { ...options, noUnusedLocals: false, isolatedDeclarations: false, declaration: false }
  const host = ts.createCompilerHost(compilerOptions)
  const { getSourceFile, fileExists, readFile } = host
  host.fileExists = (path) => sources.has(path) || fileExists(path)
  host.readFile = (path) => sources.get(path) ?? readFile(path)
  host.getSourceFile = (path, languageVersion, ...rest) => {
    const text = sources.get(path)
    return text === undefined
      ? getSourceFile(path, languageVersion, ...rest)
      : ts.createSourceFile(path, text, languageVersion)
  }
  const program = ts.createProgram([...sources.keys()], compilerOptions, host)
  return ts.getPreEmitDiagnostics(program).map(({ file, messageText }) => {
    const message = ts.flattenDiagnosticMessageText(messageText, '\n')
    return `${file === undefined ? '' : `${file.fileName.slice(projectRoot.length)}: `}${message}`
  })
}

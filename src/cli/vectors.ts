/**
 * Compares what another implementation printed for the golden vectors with the published ones, and says where they part.
 *
 * Both are lines in the layout of `vectors.tsv` (golden-vectors/README.md). Pure: it opens no file and computes no vector, so
 * that what it says rests on the published lines alone.
 */
import { fieldAt, type Layout } from './vector-layouts.js'

/** One way in which the printed lines are not the published ones. */
export interface VectorFinding {
  readonly kind: 'differs' | 'missing' | 'unknown' | 'doubled' | 'count'
  /** `file/id`; for a count the word `vectors`, with which the first line begins. */
  readonly vector: string
  /** Everything a person needs: the vector, the column, the byte and what it belongs to. */
  readonly text: string
}

/** What came of a comparison. It went well if there is no finding. */
export interface VectorsReport {
  readonly kind: 'compared'
  /** How many vectors are published. */
  readonly vectors: number
  /** How many of them were printed as they are. */
  readonly right: number
  /** How many vectors of the headers, which are this library's alone, were left out. */
  readonly headersLeftOut: number
  readonly findings: readonly VectorFinding[]
}

/** Input that is no list of vectors, and why. */
export interface VectorsUnreadable {
  readonly kind: 'unreadable'
  readonly reason: string
}

/** How a column is written; a list has elements of several columns each. */
type Column =
  | { readonly name: string; readonly holds: 'plain' | 'text' }
  | { readonly name: string; readonly holds: 'bytes'; readonly layout: Layout | undefined }
  | { readonly name: string; readonly holds: 'list'; readonly of: (element: readonly string[]) => readonly Column[] }

/** So many characters of one column are enough to find it. */
const mostQuoted = 120

const plain = (name: string): Column => ({ name, holds: 'plain' })
const text = (name: string): Column => ({ name, holds: 'text' })
const bytes = (name: string, layout?: Layout): Column => ({ name, holds: 'bytes', layout })
const list = (name: string, ...columns: readonly Column[]): Column => ({ name, holds: 'list', of: () => columns })

const leaseColumns = ['producer_id', 'producer_epoch', 'granted_at', 'deadline'].map(plain)
const rosterColumns = [text('member'), plain('offset'), plain('registered_at')]

/** A record of a fold: its key tells what its value is. */
function recordColumns([, key = '']: readonly string[]): readonly Column[] {
  const isLease = key.slice(4, 8) === '0001'
  return [plain('offset'), bytes('key', 'key'), bytes('value', isLease ? 'lease' : 'registration')]
}

const malformedLayouts: Readonly<Record<string, Layout>> = { key: 'key', registration: 'registration', lease: 'lease' }

/** The columns of a published line after its name and before its check. Its first column tells the checks of a file apart. */
function columnsOf(file: string, first: string): readonly Column[] {
  switch (file) {
    case 'keys':
      return [plain('kind'), text('role'), text('member'), bytes('bytes', 'key')]
    case 'registrations':
      return [text('member'), plain('registered_at'), bytes('bytes', 'registration')]
    case 'leases':
      return [text('member'), ...leaseColumns, bytes('bytes', 'lease')]
    case 'tombstones':
      return [bytes('value'), plain('tombstone')]
    case 'partitions':
      return [text('role'), plain('murmur2'), plain('partitions'), plain('partition')]
    case 'malformed':
      return [plain('decoder'), bytes('bytes', malformedLayouts[first]), ...['part', 'offset', 'reason'].map(plain)]
    case 'folds':
      return [
        plain('rule'),
        text('role'),
        { name: 'records', holds: 'list', of: recordColumns },
        list('lease', text('member'), ...leaseColumns, plain('offset')),
        list('roster', ...rosterColumns, plain('rank')),
      ]
    case 'decisions':
      return [
        plain('rule'),
        text('self'),
        text('holds'),
        list('lease', text('member'), ...leaseColumns),
        list('roster', ...rosterColumns),
        ...['now', 'stagger_ms', 'decision', 'instant'].map(plain),
      ]
    case 'tokens':
      return [plain('check'), ...tokenColumns(first)]
    case 'headers':
      return [plain('check'), ...headerColumns(first)]
    default:
      return []
  }
}

function tokenColumns(check: string): readonly Column[] {
  if (check === 'text') return [plain('producer_id'), plain('producer_epoch'), text('text')]
  if (check === 'order') return [text('left'), text('right'), plain('compare')]
  return [text('text')]
}

function headerColumns(check: string): readonly Column[] {
  switch (check) {
    case 'incarnation':
      return [bytes('random'), plain('birth'), plain('registered_at'), bytes('bytes', 'incarnation')]
    case 'incarnation-order':
      return [bytes('left', 'incarnation'), bytes('right', 'incarnation'), plain('compare')]
    case 'term':
      return [plain('term'), bytes('bytes')]
    default:
      return [bytes('bytes')]
  }
}

/** The printed lines against the text of the published `vectors.tsv`. Lines may come in any order. */
export function compareVectors(published: string, printed: Uint8Array): VectorsReport | VectorsUnreadable {
  const given = linesOf(printed)
  if (typeof given === 'string') return { kind: 'unreadable', reason: given }
  const [publishedFirst = '', ...publishedLines] = published.trimEnd().split('\n')
  const [first = '', ...lines] = given
  const version = publishedFirst.split('\t')[1] ?? ''
  const refusal = refusalOf(first, version)
  if (refusal !== undefined) return { kind: 'unreadable', reason: refusal }

  const expected = new Map(publishedLines.map((line) => [nameOf(line), line]))
  const findings: VectorFinding[] = []
  const counted = countFinding(first, publishedFirst, lines.length, expected.size)
  if (counted !== undefined) findings.push({ kind: 'count', vector: 'vectors', text: counted })

  const seen = new Set<string>()
  let right = 0
  for (const [index, line] of lines.entries()) {
    const vector = nameOf(line)
    const known = expected.get(vector)
    if (known === undefined) {
      const shown = line === '' ? `line ${index + 2} is empty` : `${quoted(vector)} (line ${index + 2}): no such vector`
      findings.push({ kind: 'unknown', vector, text: shown })
    } else if (seen.has(vector)) {
      findings.push({ kind: 'doubled', vector, text: `${vector}: printed again in line ${index + 2}` })
    } else {
      seen.add(vector)
      const differences = line === known ? [] : differencesOf(vector, known, line)
      if (differences.length === 0) right++
      for (const difference of differences) findings.push({ kind: 'differs', vector, text: `${vector}: ${difference}` })
    }
  }
  const missing = [...expected.keys()].filter((vector) => !seen.has(vector))
  const isHeader = (vector: string): boolean => vector.startsWith('headers/')
  for (const vector of missing.filter((one) => !isHeader(one))) {
    findings.push({ kind: 'missing', vector, text: `${vector}: not printed` })
  }
  return {
    kind: 'compared',
    vectors: expected.size,
    right,
    headersLeftOut: missing.filter(isHeader).length,
    findings,
  }
}

/** The last line for a person: how many vectors, and what became of them. */
export function summaryOf(report: VectorsReport): string {
  const count = (kind: VectorFinding['kind']): number =>
    new Set(report.findings.filter((finding) => finding.kind === kind).map((finding) => finding.vector)).size
  const parts = [`${report.right} right`]
  if (count('differs') > 0) parts.push(`${count('differs')} differ`)
  if (count('missing') > 0) parts.push(`${count('missing')} missing`)
  if (count('unknown') > 0) parts.push(`${count('unknown')} unknown`)
  if (count('doubled') > 0) parts.push(`${count('doubled')} doubled`)
  if (count('count') > 0) parts.push('wrong count in the first line')
  if (report.headersLeftOut > 0) parts.push(`${report.headersLeftOut} of this library's headers left out`)
  return `${report.vectors} vectors: ${parts.join(', ')}`
}

/** The lines, or why there are none. */
function linesOf(printed: Uint8Array): readonly string[] | string {
  if (printed.length === 0) return 'the input is empty'
  let decoded: string
  try {
    decoded = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(printed)
  } catch {
    return 'the input is not UTF-8; the lines are ASCII'
  }
  if (decoded.includes('\r\n')) return 'the lines end in CR LF; they end in LF alone'
  const lines = decoded.split('\n')
  if (lines.at(-1) === '') lines.pop()
  return lines
}

function refusalOf(first: string, version: string): string | undefined {
  const [word, given, count] = first.split('\t')
  if (word !== 'vectors' || given === undefined || count === undefined) {
    return `the first line is ${quoted(first)}; it is "vectors", ${version}, the number of vectors and the check, with tabs between them`
  }
  if (given !== version) return `the first line says version ${worded(given)}; these vectors are of version ${version}`
  return undefined
}

function countFinding(first: string, publishedFirst: string, printed: number, published: number): string | undefined {
  if (first === publishedFirst) return undefined
  const count = first.split('\t')[2] ?? ''
  // A port that leaves out the headers may count what it prints.
  if (count === String(published)) return `first line: check: ${difference('plain', first, publishedFirst)}`
  return count === String(printed) ? undefined : `first line: it says ${worded(count)} vectors, ${printed} follow`
}

/** Every column that differs; the check is told only where nothing else is wrong. */
function differencesOf(vector: string, published: string, printed: string): readonly string[] {
  const [, ...expected] = published.split('\t')
  const [, ...given] = printed.split('\t')
  if (given.length !== expected.length) return [`${given.length + 1} columns instead of ${expected.length + 1}`]
  const columns = columnsOf(vector.split('/')[0] ?? '', expected[0] ?? '')
  const found = columns.flatMap((column, index) => within(column, given[index] ?? '', expected[index] ?? ''))
  if (found.length > 0) return found
  return [`check: ${difference('plain', given.at(-1) ?? '', expected.at(-1) ?? '')}, over columns that are right`]
}

/** What differs in one column, `at` being where it stands in a list. */
function within(column: Column, given: string, expected: string, at = ''): readonly string[] {
  if (given === expected) return []
  const name = `${at}${column.name}`
  if (column.holds === 'bytes') {
    const prefix = name === 'bytes' ? '' : `${name}: `
    return [`${prefix}${differingByte(given, expected, column.layout)}`]
  }
  if (column.holds !== 'list') return [`${name}: ${difference(column.holds, given, expected)}`]
  if (given === '-' || expected === '-') return [`${name}: ${difference('plain', given, expected)}`]
  const elements = elementsOf(given)
  const wanted = elementsOf(expected)
  if (elements.length !== wanted.length) {
    return [`${name}: ${elements.length} elements instead of ${wanted.length}`]
  }
  const isOne = column.name === 'lease'
  return wanted.flatMap((element, index) => {
    const place = isOne ? name : `${name}[${index}]`
    const fields = elements[index] ?? []
    if (fields.length !== element.length) return [`${place}: ${fields.length} fields instead of ${element.length}`]
    return column
      .of(element)
      .flatMap((one, field) => within(one, fields[field] ?? '', element[field] ?? '', `${place}.`))
  })
}

function elementsOf(value: string): readonly (readonly string[])[] {
  return value === '' ? [] : value.split(';').map((element) => element.split(','))
}

function difference(holds: 'plain' | 'text', given: string, expected: string): string {
  const show = (value: string): string => {
    if (holds === 'text') return textOf(value)
    return value === '' ? 'nothing' : worded(value)
  }
  return `${show(given)} instead of ${show(expected)}`
}

/** The first byte that differs, with the field of the layout it belongs to. */
function differingByte(given: string, expected: string, layout: Layout | undefined): string {
  if (isWord(given) || isWord(expected)) return difference('plain', given, expected)
  if (!/^(?:[0-9a-f]{2})*$/.test(given)) {
    return given.toLowerCase() === expected ? 'hex in upper case; it is lower case' : `${quoted(given)} is not hex`
  }
  const size = expected.length / 2
  let at = 0
  while (at < size && byteAt(given, at) === byteAt(expected, at)) at++
  const field = layout === undefined ? '' : ` (${fieldAt(layout, bytesOf(expected), at)})`
  return `byte ${at}${field}: ${byteAt(given, at) || 'nothing'} instead of ${byteAt(expected, at) || 'nothing'}`
}

/** What stands for no value, and for a refusal that did not come. */
function isWord(value: string): boolean {
  return value === '-' || value === 'accepted'
}

function byteAt(hex: string, at: number): string {
  return hex.slice(at * 2, at * 2 + 2)
}

function bytesOf(hex: string): Uint8Array {
  return Uint8Array.from(hex.match(/../g) ?? [], (byte) => Number.parseInt(byte, 16))
}

/** A text column as the text that it is, so far as it is one. */
function textOf(value: string): string {
  if (value === '' || isWord(value)) return value === '' ? quoted('') : value
  if (!/^(?:[0-9a-f]{2})+$/.test(value)) return `${quoted(value)}, which is not lower-case hex,`
  try {
    return quoted(new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytesOf(value)))
  } catch {
    return `${worded(value)}, which is not UTF-8,`
  }
}

/** A word or number as it is, anything else in quotes, as is what would fill the screen. */
function worded(value: string): string {
  return /^[\w.-]+$/.test(value) && value.length <= mostQuoted ? value : quoted(value)
}

/** In quotes and ASCII only, so that names that look alike do not. */
function quoted(value: string): string {
  const escaped = (unit: string): string => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`
  const shown = value.length > mostQuoted ? `${value.slice(0, mostQuoted)}...` : value
  return JSON.stringify(shown).replace(/[^ -~]/g, escaped)
}

function nameOf(line: string): string {
  return line.split('\t', 1)[0] ?? ''
}

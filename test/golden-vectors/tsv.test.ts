/**
 * `vectors.tsv` holds the vectors of the JSON files and nothing else, in the order of `digest.txt`. The lines are written here once
 * more, from the JSON by the layout of golden-vectors/README.md, so that a mistake of Python's writer does not stand alone.
 */
import { describe, expect, it } from 'vitest'
import { murmur2 } from '../format/murmur2.js'
import { readVectorsFile, vectorsOf } from './vectors.js'

type Value = string | number | boolean | null | readonly Fields[] | Fields
interface Fields {
  readonly [name: string]: Value
}

const textOf = (value: Value): string => (value === null ? '-' : String(value))
const hexOf = (value: Value): string => (value === null ? '-' : Buffer.from(String(value), 'utf8').toString('hex'))

/** Names of roles and members, and texts of tokens: the fields that are hex because they may hold anything. */
const textFields = ['role', 'member', 'self', 'holds', 'text']

function column(file: string, name: string, value: Value): string {
  const isToken = file === 'tokens' && (name === 'left' || name === 'right')
  if (Array.isArray(value)) return value.map((element: Fields) => fieldsOf(file, element).join(',')).join(';')
  if (typeof value === 'object' && value !== null) return fieldsOf(file, value as Fields).join(',')
  return textFields.includes(name) || isToken ? hexOf(value) : textOf(value)
}

/** The files have their fields in the order of the columns. */
function fieldsOf(file: string, fields: Fields): readonly string[] {
  return Object.entries(fields)
    .filter(([name]) => name !== 'id')
    .map(([name, value]) => column(file, name, value))
}

function lineOf(columns: readonly string[]): string {
  const text = columns.join('\t')
  return `${text}\t${murmur2(Buffer.from(text, 'ascii'))}`
}

describe('vectors.tsv', () => {
  const names = readVectorsFile('v0', 'digest.txt')
    .trimEnd()
    .split('\n')
    .map((line) => line.split('  ')[1] ?? '')
  const files = [...new Set(names.map((name) => name.split('/')[0] ?? ''))]
  const lines = readVectorsFile('v0', 'vectors.tsv').split('\n')

  it('is ASCII, with a line feed at the end of each line and nowhere else', () => {
    expect(readVectorsFile('v0', 'vectors.tsv')).toMatch(/^[\t\n\x20-\x7e]*\n$/)
    expect(lines.at(-1)).toBe('')
    expect(lines).toHaveLength(names.length + 2)
  })

  it('has the vectors of the JSON files, line by line', () => {
    const vectors = new Map<string, readonly [file: string, vector: Fields]>(
      files.flatMap((file) =>
        vectorsOf<Fields>(file).map((vector) => [`${file}/${vector.id}`, [file, vector] as const] as const),
      ),
    )
    const expected = names.map((name) => {
      const [file, vector] = vectors.get(name) ?? []
      if (file === undefined || vector === undefined) throw new Error(`${name} is in digest.txt alone`)
      return lineOf([name, ...fieldsOf(file, vector)])
    })
    expect(lines).toStrictEqual([lineOf(['vectors', '0', String(names.length)]), ...expected, ''])
  })
})

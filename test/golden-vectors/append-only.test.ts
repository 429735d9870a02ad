/** The vectors against change: the digest has each of them, the pin holds the digest, and the second implementation holds all. */
import { spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { readdirSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { projectPath } from '../support/project-root.js'
import { readVectorsFile, vectorsOf } from './vectors.js'

/** The lines of digest.txt that are published. Move it forward when vectors are added; it never moves back. */
const pinned = { vectors: 672, sha256: 'a137bcc174c8ffeee09a2113b84671114d2c1c40d7236bab892c380ce27e4725' }

/** Where the pin stood before folds and decisions were published: what it holds may never move. */
const pinnedFirst = { vectors: 421, sha256: '70959b6647b0bbdaa9c0fca1c098cfb313980e123f48d5b482e444fdcdd7f952' }

const sha256 = (text: string): string => createHash('sha256').update(text, 'utf8').digest('hex')

function canonical(value: unknown): string {
  return JSON.stringify(value, (_key, field: unknown) =>
    typeof field === 'object' && field !== null && !Array.isArray(field)
      ? Object.fromEntries(Object.entries(field).sort(([a], [b]) => (a < b ? -1 : 1)))
      : field,
  )
}

describe('append-only', () => {
  const files = readdirSync(projectPath('golden-vectors', 'v0'))
    .filter((file) => file.endsWith('.json'))
    .map((file) => file.replace(/\.json$/, ''))
  const lines = readVectorsFile('v0', 'digest.txt').trimEnd().split('\n')

  it('has one digest line for each vector and one vector for each line', () => {
    const actual = files.flatMap((file) =>
      vectorsOf<object>(file).map((vector) => `${sha256(canonical(vector))}  ${file}/${vector.id}`),
    )
    expect([...lines].sort()).toStrictEqual(actual.sort())
    expect(new Set(lines.map((line) => line.split('  ')[1])).size).toBe(lines.length)
  })

  it('still opens with every line that was published', () => {
    for (const pin of [pinnedFirst, pinned]) {
      const published = `${lines.slice(0, pin.vectors).join('\n')}\n`
      expect({ vectors: published.trimEnd().split('\n').length, sha256: sha256(published) }).toStrictEqual(pin)
    }
  })

  it('pins every line', () => {
    expect({ vectors: lines.length, sha256: sha256(`${lines.join('\n')}\n`) }).toStrictEqual(pinned)
  })

  it('keeps what was published with the format', () => {
    const bytesOf = (file: string, id: string): string | undefined =>
      vectorsOf<{ bytes: string }>(file).find((vector) => vector.id === id)?.bytes
    expect(bytesOf('keys', 'given-registration')).toBe('00000000000a636f6e74726f6c6c657200066e6f64652d31')
    expect(bytesOf('keys', 'given-lease')).toBe('00000001000a636f6e74726f6c6c65720000')
    expect(bytesOf('registrations', 'given')).toBe('000000066e6f64652d310000018bcfe56800')
    expect(bytesOf('leases', 'given')).toBe('000000066e6f64652d31000000000000109200070000018bcfe568000000018bcfe5dd30')
  })
})

describe('the second implementation', () => {
  it('agrees with every vector', (context) => {
    const python = spawnSync('python3', ['--version'])
    if (python.error !== undefined && process.env.CI !== 'true') {
      context.skip('python3 is not on the path: the second implementation of the format was not run')
    }
    const script = projectPath('golden-vectors', 'verify', 'mandate_vectors.py')
    const run = spawnSync('python3', ['-B', script, 'check'], { encoding: 'utf8' })
    expect(run.error).toBeUndefined()
    expect(run.stdout).toMatch(new RegExp(`^${pinned.vectors} vectors, 0 faults$`, 'm'))
    expect(run.status).toBe(0)
  })
})

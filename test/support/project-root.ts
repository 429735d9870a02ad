/**
 * Where the project is, for files that are not compiled: the same answer for a source under test/ and for its compiled
 * copy under build/, which lie at different depths.
 */
import { existsSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

function find(): string {
  let folder = dirname(fileURLToPath(import.meta.url))
  for (;;) {
    const candidate = join(folder, 'package.json')
    if (existsSync(candidate) && JSON.parse(readFileSync(candidate, 'utf8')).name === 'mandate') return folder
    const parent = dirname(folder)
    if (parent === folder) throw new Error(`No package.json of "mandate" above ${fileURLToPath(import.meta.url)}`)
    folder = parent
  }
}

/** Absolute path of the folder that holds package.json. */
export const projectRoot: string = find()

/** Absolute path of a file of the project, given in parts from its root. */
export function projectPath(...parts: readonly string[]): string {
  return join(projectRoot, ...parts)
}

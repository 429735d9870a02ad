/**
 * The independent implementations of golden-vectors/verify, made ready and run: what each needs, how it is compiled, what it
 * prints for given lines. They share no code with the library or with one another.
 *
 * Compiled programs are kept under build/, by the digest of their source.
 */
import { spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, readFileSync, renameSync, rmSync } from 'node:fs'
import { delimiter, join } from 'node:path'
import { findProgram } from '../kafka/requirements.js'
import { projectPath } from '../support/project-root.js'

/** What a verifier did with the lines that it was given. */
export interface VerifierRun {
  readonly stdout: Buffer
  readonly stderr: string
  readonly status: number | null
}

/** A verifier that can be run here. */
export interface ReadyVerifier {
  /** Runs it over the bytes of a `vectors.tsv`, given on its standard input, or over a file that `more` arguments name. */
  run(lines: Uint8Array, more?: readonly string[]): VerifierRun
}

export interface Verifier {
  readonly language: string
  /** A sentence that names what is not there; undefined where the verifier can run. */
  readonly missing: string | undefined
  /** Compiles it where that is needed. Throws with the compiler's words when it does not compile. */
  prepare(options?: { readonly classpath?: string }): ReadyVerifier
}

interface Recipe {
  readonly language: string
  readonly source: string
  /** The first is what it runs or is compiled with. */
  readonly programs: readonly string[]
  /** Arguments that compile the source into a folder; absent where nothing is compiled. */
  readonly compile?: (source: string, folder: string) => readonly string[]
  /** The command that runs what is in the folder. */
  readonly command: (source: string, folder: string, classpath: string | undefined) => readonly [string, ...string[]]
}

const recipes: readonly Recipe[] = [
  {
    language: 'Python',
    source: 'mandate_vectors.py',
    programs: ['python3'],
    command: (source) => ['python3', '-B', source, 'verify'],
  },
  {
    language: 'Go',
    source: 'mandate_vectors.go',
    programs: ['go'],
    compile: (source, folder) => ['build', '-o', join(folder, 'mandate-vectors'), source],
    command: (_source, folder) => [join(folder, 'mandate-vectors')],
  },
  {
    language: 'Java',
    source: 'MandateVectors.java',
    programs: ['javac', 'java'],
    compile: (source, folder) => ['-d', folder, source],
    command: (_source, folder, classpath) => [
      'java',
      '-cp',
      classpath === undefined ? folder : `${folder}${delimiter}${classpath}`,
      'MandateVectors',
    ],
  },
  {
    language: 'Rust',
    source: 'mandate_vectors.rs',
    programs: ['rustc'],
    compile: (source, folder) => ['-O', '--edition', '2021', '-o', join(folder, 'mandate-vectors'), source],
    command: (_source, folder) => [join(folder, 'mandate-vectors')],
  },
]

/** All four, whether they can run here or not. */
export const verifiers: readonly Verifier[] = recipes.map(verifierOf)

function verifierOf(recipe: Recipe): Verifier {
  const { language, programs } = recipe
  const absent = programs.filter((program) => findProgram(program) === undefined)
  return {
    language,
    missing: absent.length === 0 ? undefined : `no ${absent.join(', no ')} on the PATH`,
    prepare: ({ classpath } = {}) => {
      const source = projectPath('golden-vectors', 'verify', recipe.source)
      const folder = compiled(recipe, source)
      const [program, ...args] = recipe.command(source, folder, classpath)
      return {
        run: (lines, more = []) => {
          const { error, stdout, stderr, status } = spawnSync(findProgram(program) ?? program, [...args, ...more], {
            input: lines,
            maxBuffer: 2 ** 26,
          })
          if (error !== undefined) throw error
          return { stdout, stderr: stderr.toString('utf8'), status }
        },
      }
    },
  }
}

/** The folder with what was compiled from the source as it is. */
function compiled({ language, programs, compile }: Recipe, source: string): string {
  const digest = createHash('sha256').update(readFileSync(source)).digest('hex').slice(0, 12)
  const folder = projectPath('build', 'golden-vectors', `${language.toLowerCase()}-${digest}`)
  const [compiler] = programs
  if (compile === undefined || compiler === undefined || existsSync(folder)) return folder
  // Made aside and moved into place whole, so that another process never finds half of it.
  const draft = `${folder}.${process.pid}`
  rmSync(draft, { recursive: true, force: true })
  mkdirSync(draft, { recursive: true })
  const { error, status, stderr } = spawnSync(findProgram(compiler) ?? compiler, compile(source, draft))
  if (error !== undefined) throw error
  if (status !== 0) throw new Error(`${compiler} ended with ${status} on ${source}:\n${stderr.toString('utf8')}`)
  try {
    renameSync(draft, folder)
  } catch (error) {
    // Another process was first; what it made is the same.
    rmSync(draft, { recursive: true, force: true })
    if (!existsSync(folder)) throw error
  }
  return folder
}

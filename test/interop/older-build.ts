/**
 * A build of an earlier commit of this project, for suites in which two versions of it meet.
 *
 * The commit's sources come out of git's history into `build/older/<commit>/`, and the project's own `tsc` compiles what the member
 * program needs there, once: a commit never changes. It runs on the dependencies of the current tree.
 */
import { execFile, execFileSync } from 'node:child_process'
import { existsSync, mkdirSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { describe, test } from 'vitest'
import { projectPath, projectRoot } from '../support/project-root.js'

const run = promisify(execFile)

/** The member program, as its path below the folder that a build lies in. */
export const memberProgram = 'test/client/programs/member.js'

/** Where a commit's build lies, relative to `build/`; the programs in it are what `Child.start` takes, behind a slash. */
export function olderFolder(commit: string): string {
  return `older/${commit}/compiled`
}

/** Builds it where it is not there yet. Rejects with what git or the compiler said. */
export async function buildOlder(commit: string): Promise<void> {
  const folder = projectPath('build', 'older', commit)
  if (existsSync(folder)) return
  // Made aside and moved into place whole, so that another process never finds half of it.
  const draft = `${folder}.${process.pid}`
  rmSync(draft, { recursive: true, force: true })
  mkdirSync(draft, { recursive: true })
  const archive = join(draft, 'sources.tar')
  await run('git', ['archive', '-o', archive, commit, 'package.json', 'tsconfig.json', 'src', 'test'], {
    cwd: projectRoot,
  })
  await run('tar', ['-xf', archive, '-C', draft])
  rmSync(archive)
  symlinkSync(projectPath('node_modules'), join(draft, 'node_modules'))
  const options = { noEmit: false, outDir: 'compiled', declaration: false, isolatedDeclarations: false }
  const files = [memberProgram.replace(/\.js$/, '.ts')]
  writeFileSync(
    join(draft, 'tsconfig.member.json'),
    JSON.stringify({ extends: './tsconfig.json', compilerOptions: options, files, include: [] }),
  )
  try {
    await run(
      process.execPath,
      [projectPath('node_modules', 'typescript', 'bin', 'tsc'), '-p', 'tsconfig.member.json'],
      {
        cwd: draft,
      },
    )
  } catch (error) {
    throw new Error(`${commit} does not compile: ${Object(error).stdout}`)
  }
  try {
    renameSync(draft, folder)
  } catch (error) {
    // Another process was first; what it made is the same.
    rmSync(draft, { recursive: true, force: true })
    if (!existsSync(folder)) throw error
  }
}

/** The identity that git gives to the folder `src` of a commit. */
export function sourcesOf(commit: string): string {
  return execFileSync('git', ['rev-parse', `${commit}:src`], { cwd: projectRoot, encoding: 'utf8' }).trim()
}

/** A `describe` for suites that need that commit: without it in the history they are skipped, with the reason; under CI they fail. */
export function describeWithHistory(name: string, commit: string, suite: () => void): void {
  const missing = missingHistory(commit)
  if (missing === undefined) describe(name, suite)
  else if (process.env.CI === 'true') {
    describe(name, () => {
      test('has the history to build an earlier commit from', () => {
        throw new Error(missing)
      })
    })
  } else describe.skip(`${name} (skipped: ${missing})`, suite)
}

function missingHistory(commit: string): string | undefined {
  try {
    execFileSync('git', ['cat-file', '-e', `${commit}:src`], { cwd: projectRoot, stdio: 'ignore' })
    return undefined
  } catch {
    return `no git, or no commit ${commit} in its history: clone the repository, and where that clone is shallow: git fetch --unshallow`
  }
}

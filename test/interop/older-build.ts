/**
 * A build of an earlier commit of this project, for suites in which two versions of it meet.
 *
 * The commit's sources lie in `earlier/<commit>.tar.gz`, so that a clone without history can build them; they are unpacked into
 * `build/older/<commit>/`, and the project's own `tsc` compiles what the member program needs there, once: a commit never changes. It
 * runs on the dependencies of the current tree.
 */
import { execFile } from 'node:child_process'
import { existsSync, mkdirSync, readFileSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { projectPath } from '../support/project-root.js'

const run = promisify(execFile)

/** The member program, as its path below the folder that a build lies in. */
export const memberProgram = 'test/client/programs/member.js'

/** Where a commit's build lies, relative to `build/`; the programs in it are what `Child.start` takes, behind a slash. */
export function olderFolder(commit: string): string {
  return `older/${commit}/compiled`
}

/** Builds it where it is not there yet. Rejects with what the archiver or the compiler said. */
export async function buildOlder(commit: string): Promise<void> {
  const folder = projectPath('build', 'older', commit)
  if (existsSync(folder)) return
  // Made aside and moved into place whole, so that another process never finds half of it.
  const draft = `${folder}.${process.pid}`
  rmSync(draft, { recursive: true, force: true })
  mkdirSync(draft, { recursive: true })
  await run('tar', ['-xzf', archiveOf(commit), '-C', draft])
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

/** The text of a source file of that build. */
export function earlierSource(commit: string, path: string): string {
  return readFileSync(projectPath('build', 'older', commit, path), 'utf8')
}

function archiveOf(commit: string): string {
  return projectPath('test', 'interop', 'earlier', `${commit}.tar.gz`)
}

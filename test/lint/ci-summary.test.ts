import { spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, expect, test } from 'vitest'
import { projectPath } from '../support/project-root.js'

const folder = mkdtempSync(join(tmpdir(), 'mandate-summary-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

interface ReportedFile {
  readonly status: string
  readonly tests: readonly string[]
}

/** The exit code and the last line for a report of these files and this exit code of the test command. */
function summary(
  files: readonly ReportedFile[] | undefined,
  commandStatus: string,
): { code: number | null; last: string } {
  const path = join(folder, `${files === undefined ? 'absent' : 'report'}.json`)
  if (files !== undefined) {
    const testResults = files.map(({ status, tests }, index) => ({
      name: `file-${index}`,
      status,
      message: '',
      assertionResults: tests.map((outcome) => ({ status: outcome, fullName: outcome })),
    }))
    writeFileSync(path, JSON.stringify({ testResults }))
  }
  const run = spawnSync(process.execPath, [projectPath('.ci', 'summary.mjs'), path, commandStatus], {
    encoding: 'utf8',
  })
  return { code: run.status, last: run.stdout.trimEnd().split('\n').at(-1) ?? '' }
}

describe('what CI says last', () => {
  test('passes only when every test ran and passed', () => {
    const passed = { status: 'passed', tests: ['passed', 'passed'] }
    expect(summary([passed], '0')).toEqual({ code: 0, last: '2 passed, 0 failed' })
    expect(summary([passed], '1')).toEqual({ code: 1, last: '2 passed, 0 failed' })
    expect(summary([passed, { status: 'passed', tests: ['skipped'] }], '0')).toEqual({
      code: 1,
      last: '2 passed, 0 failed',
    })
    expect(summary([passed, { status: 'passed', tests: ['todo'] }], '0').code).toBe(1)
  })

  test('counts failed tests, and a file that failed as a whole as one', () => {
    const failed = { status: 'failed', tests: ['passed', 'failed'] }
    expect(summary([failed], '1')).toEqual({ code: 1, last: '1 passed, 1 failed' })
    expect(summary([failed, { status: 'failed', tests: [] }], '1')).toEqual({ code: 1, last: '1 passed, 2 failed' })
  })

  test('fails when nothing was run', () => {
    expect(summary([], '0')).toEqual({ code: 1, last: '0 passed, 0 failed' })
    expect(summary(undefined, '0')).toEqual({ code: 1, last: '0 passed, 0 failed' })
  })
})

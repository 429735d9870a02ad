/**
 * Reads vitest's JSON report and the exit code of the test command, and says in the last line what came of it. A file that
 * failed as a whole counts as one failed test; a skipped test, or a run without tests, is a failure of the run.
 */
import { existsSync, readFileSync } from 'node:fs'

const [path = '', status = '1'] = process.argv.slice(2)
const files = existsSync(path) ? JSON.parse(readFileSync(path, 'utf8')).testResults : []
const tests = files.flatMap((file) => file.assertionResults.map((test) => ({ ...test, file: file.name })))
const passed = tests.filter((test) => test.status === 'passed').length
const failed = tests.filter((test) => test.status === 'failed').length
const skipped = tests.filter((test) => test.status !== 'passed' && test.status !== 'failed')
const broken = files.filter(
  (file) => file.status === 'failed' && !file.assertionResults.some((test) => test.status === 'failed'),
)

for (const test of skipped) console.error(`Skipped: ${test.fullName} (${test.file})`)
for (const file of broken) console.error(`Failed as a whole: ${file.name}: ${file.message}`)
if (tests.length === 0) console.error(`No test was run (report: ${path})`)
if (status !== '0') console.error(`The test command ended with ${status}`)

const allFailed = failed + broken.length
if (status !== '0' || allFailed > 0 || skipped.length > 0 || passed === 0) process.exitCode = 1
console.log(`${passed} passed, ${allFailed} failed`)

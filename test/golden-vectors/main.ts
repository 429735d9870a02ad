/**
 * `npm run vectors`: runs every verifier whose toolchain is here and compares what it prints with the published vectors.
 * `npm run vectors -- verify FILE`: compares what another port printed; FILE may be - for standard input.
 *
 * The exit code is 0 only if everything is right; 2 says that the arguments or the input could not be used.
 */
import { readFileSync } from 'node:fs'
import { resolve } from 'node:path'
import { compareVectors, summaryOf, type VectorsReport } from '../../src/cli/vectors.js'
import { projectPath } from '../support/project-root.js'
import { type Verifier, verifiers } from './verifiers.js'

const usage = `Usage: npm run vectors                      runs the verifiers of golden-vectors/verify
       npm run vectors -- verify FILE|-    compares what another port printed with the published vectors`

/** So many findings of one verifier are enough to begin with. */
const mostShown = 20

function main(args: readonly string[]): number {
  const published = readFileSync(projectPath('golden-vectors', 'v0', 'vectors.tsv'))
  const [command, file, ...more] = args
  if (command === undefined) return runVerifiers(published)
  if (command === 'verify' && file !== undefined && more.length === 0) return verifyFile(published, file)
  console.error(usage)
  return 2
}

function runVerifiers(published: Buffer): number {
  let failed = false
  for (const verifier of verifiers) {
    if (verifier.missing !== undefined) {
      console.log(`${verifier.language}: not here (${verifier.missing})`)
      // A toolchain may be missing on somebody's machine, not where changes are judged.
      failed ||= process.env.CI === 'true'
    } else if (!runVerifier(verifier, published)) failed = true
  }
  return failed ? 1 : 0
}

function runVerifier(verifier: Verifier, published: Buffer): boolean {
  const { stdout, stderr, status } = verifier.prepare().run(published)
  const report = compareVectors(published.toString('utf8'), stdout)
  if (report.kind === 'compared' && report.findings.length === 0 && report.headersLeftOut === 0 && status === 0) {
    console.log(`${verifier.language}: ${report.vectors} vectors, ok`)
    return true
  }
  console.log(`${verifier.language}: differs (exit code ${status})`)
  if (report.kind === 'compared') showFindings(report)
  else console.log(`  ${report.reason}`)
  if (stderr !== '') console.log(`  its own words:\n${indented(stderr.trimEnd().split('\n').slice(-mostShown))}`)
  return false
}

function verifyFile(published: Buffer, file: string): number {
  let printed: Buffer
  try {
    // npm runs scripts in the folder of package.json; the caller's own is in INIT_CWD.
    printed = readFileSync(file === '-' ? 0 : resolve(process.env.INIT_CWD ?? '.', file))
  } catch (error) {
    console.error(`${file} cannot be read: ${error instanceof Error ? error.message : String(error)}`)
    return 2
  }
  const report = compareVectors(published.toString('utf8'), printed)
  if (report.kind === 'unreadable') {
    console.error(`${file === '-' ? 'standard input' : file}: ${report.reason}`)
    return 2
  }
  for (const { text } of report.findings) console.log(text)
  console.log(summaryOf(report))
  return report.findings.length === 0 ? 0 : 1
}

function showFindings(report: VectorsReport): void {
  const shown = report.findings.slice(0, mostShown).map(({ text }) => text)
  const more = report.findings.length - shown.length
  console.log(indented([...shown, ...(more > 0 ? [`and ${more} more`] : []), summaryOf(report)]))
}

function indented(lines: readonly string[]): string {
  return lines.map((line) => `  ${line}`).join('\n')
}

process.exitCode = main(process.argv.slice(2))

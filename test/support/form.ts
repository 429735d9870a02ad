/**
 * How long the repeating suites run: the short form by default, the long one under `MANDATE_TEST_FORM=long` (`npm run test:long`).
 *
 * A suite asserts the same in both forms; only its count differs. What it counted or timed it prints with `tell`.
 */

import { type TestOptions, test } from 'vitest'

/** Whether this run is the long form. */
export const isLongForm: boolean = process.env.MANDATE_TEST_FORM === 'long'

/** A test that this form of a suite has, or leaves out altogether: one that is skipped would count as such. */
export function testWhere(isPartOfForm: boolean, name: string, options: TestOptions, body: () => Promise<void>): void {
  if (isPartOfForm) test(name, options, body)
}

/** How many rounds to run. */
export function rounds(short: number, long: number): number {
  return isLongForm ? long : short
}

/** Prints a result of measurement or counting: durations are told, seldom asserted. */
export function tell(line: string): void {
  process.stdout.write(`    ${line}\n`)
}

/** Nearest-rank percentile, `share` in 0..1, of a list that is not empty. */
export function percentile(values: readonly number[], share: number): number {
  const sorted = [...values].sort((a, b) => a - b)
  const value = sorted[Math.max(0, Math.ceil(share * sorted.length) - 1)]
  if (value === undefined) throw new Error('a percentile of nothing')
  return value
}

/**
 * What acquires leave behind in their process: 200 that share one signal, then 2,000 rounds of acquire and resign (200 in the short form).
 * No warning about listeners, no growing heap, as many sockets and timers at the end as at the start, and the process ends by itself.
 */
import { describe, expect, test } from 'vitest'
import { describeWithKafka, freshName } from '../kafka/suites.js'
import { Child, type ChildEvent } from '../support/child.js'
import { percentile, rounds, tell } from '../support/form.js'
import { kinds } from '../support/kinds.js'
import type { Holding, RoundsSetup } from './programs/rounds.js'

/** Growth of the heap per round that is taken for noise: one closure or promise that stays takes more. */
const noiseBytes = 100

interface Outcome {
  readonly waited: ChildEvent
  readonly measured: readonly Holding[]
  readonly warnings: readonly ChildEvent[]
  /** Bytes per round. */
  readonly growth: number
  readonly stderr: string
}

/** The median between neighbouring measurements: what each round keeps shows in all of them, a table that the runtime doubles in one. */
function growthOf(measured: readonly Holding[]): number {
  // The first rounds fill caches that stay.
  const later = measured.slice(1)
  const growths = later.slice(1).map((late, index) => {
    const early = later[index] as Holding
    return (late.heapBytes - early.heapBytes) / (late.round - early.round)
  })
  return percentile(growths, 0.5)
}

async function run(setup: RoundsSetup): Promise<Outcome> {
  const child = Child.start('test/core/programs/rounds.js', {
    arguments: [JSON.stringify(setup)],
    // Compiled code is kept on the heap too, and grows for a thousand rounds.
    nodeArguments: ['--expose-gc', '--no-opt', '--no-sparkplug'],
  })
  try {
    const waited = await child.next('waited', 120_000)
    const { measured } = (await child.next('measured', 240_000)) as ChildEvent & { measured: readonly Holding[] }
    await child.next('closed')
    expect(await child.ended, 'it ends by itself').toEqual({ code: 0, signal: null })
    return {
      waited,
      measured,
      warnings: child.events.filter(({ event }) => event === 'warning'),
      growth: growthOf(measured),
      stderr: child.stderr,
    }
  } finally {
    await child.kill()
  }
}

describe.each(kinds())('rounds of one process: $name', ({ name, kind }) => {
  describeWithKafka('acquire and resign', kind, (cluster) => {
    test('leave nothing behind', { timeout: 400_000 }, async () => {
      const waits = 200
      const count = rounds(200, 2_000)
      const setup = { brokers: cluster().bootstrap, topic: freshName('coordination'), waits, rounds: count, leak: 0 }
      const { waited, measured, warnings, growth, stderr } = await run(setup)
      tell(`${name}: ${growth.toFixed(0)} bytes of heap a round, over ${count} rounds`)
      expect(waited.rejected, 'each with the reason of the signal').toBe(waits)
      expect(warnings).toEqual([])
      expect(stderr).toBe('')
      const [, ...later] = measured
      expect(new Set(later.map(({ sockets }) => sockets)).size, JSON.stringify(measured)).toBe(1)
      expect(Math.max(...later.map(({ timers }) => timers)), JSON.stringify(measured)).toBeLessThanOrEqual(
        Math.max(...measured.slice(0, 2).map(({ timers }) => timers)),
      )
      expect(growth).toBeLessThan(noiseBytes)
    })
  })
})

describe.each(kinds().slice(0, 1))('the measurement of rounds: $name', ({ kind }) => {
  describeWithKafka('of a process that leaks', kind, (cluster) => {
    test('sees what it keeps, and the warning', { timeout: 120_000 }, async () => {
      const setup = { brokers: cluster().bootstrap, topic: freshName('coordination'), waits: 1, rounds: 100, leak: 500 }
      const { warnings, growth } = await run(setup)
      expect(growth).toBeGreaterThan(noiseBytes)
      expect(warnings.map((warning) => warning.name)).toContain('MaxListenersExceededWarning')
    })
  })
})

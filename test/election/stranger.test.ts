import { describe, expect, it } from 'vitest'
import type { Look } from '../../src/election/look.js'
import { judgeStranger, type StrangerMemory } from '../../src/election/stranger.js'
import { token } from './support.js'

interface Step {
  /** When the look is sent; it is answered 2 ms later. */
  readonly at: number
  readonly pair?: string
  readonly found?: boolean
  readonly read?: boolean
  readonly lastErrorAt?: number
  readonly expected: readonly [verdict: 'mint' | 'wait', until: number]
}

const slot = 10_000
const leaseMs = 30_000

function run(steps: readonly Step[]): void {
  let memory: StrangerMemory | undefined
  for (const step of steps) {
    const { producerId, producerEpoch } = token(step.pair ?? '100:7')
    const answeredAt = step.at + 2
    const look: Look = {
      state: 'Empty',
      producerId,
      producerEpoch,
      found: step.found ?? true,
      sentAt: step.at,
      answeredAt,
    }
    const judgement = judgeStranger(memory, look, {
      now: answeredAt,
      lastErrorAt: step.lastErrorAt,
      slot,
      leaseMs,
      readToEndSinceLastLook: step.read ?? true,
    })
    expect([judgement.verdict, judgement.until], `the look sent at ${step.at}`).toEqual(step.expected)
    memory = judgement.memory
  }
}

describe('judgeStranger', () => {
  it('mints after the pair stood for a second, read to the end after both looks, and is still there', () => {
    run([
      { at: 10_000, read: false, expected: ['wait', 11_002] },
      { at: 11_002, expected: ['wait', 11_004] },
      { at: 11_005, expected: ['mint', 11_007] },
    ])
  })

  it('counts no look that came sooner than a second, however many records asked for one', () => {
    run([
      { at: 10_000, expected: ['wait', 11_002] },
      { at: 10_300, expected: ['wait', 11_002] },
      { at: 11_001, expected: ['wait', 11_002] },
      { at: 11_002, expected: ['wait', 11_004] },
      { at: 11_005, expected: ['mint', 11_007] },
    ])
  })

  it('starts again when the pair moved on', () => {
    run([
      { at: 10_000, expected: ['wait', 11_002] },
      { at: 11_002, pair: '100:8', expected: ['wait', 12_004] },
      { at: 12_004, pair: '100:8', expected: ['wait', 12_006] },
      { at: 12_007, pair: '100:9', expected: ['wait', 13_009] },
    ])
  })

  it('starts again after an error of partition or coordinator: its owner could not write either', () => {
    run([
      { at: 10_000, expected: ['wait', 11_002] },
      { at: 11_002, lastErrorAt: 10_002, expected: ['wait', 12_004] },
      { at: 12_004, lastErrorAt: 10_002, expected: ['wait', 12_006] },
      { at: 12_007, lastErrorAt: 12_006, expected: ['wait', 13_009] },
    ])
  })

  it('is not disturbed by an error of before', () => {
    run([
      { at: 10_000, lastErrorAt: 9_000, expected: ['wait', 11_002] },
      { at: 11_002, lastErrorAt: 9_000, expected: ['wait', 11_004] },
      { at: 11_005, lastErrorAt: 9_000, expected: ['mint', 11_007] },
    ])
  })

  it('counts a look only if the log was read to its end after it', () => {
    run([
      { at: 10_000, expected: ['wait', 11_002] },
      { at: 11_002, read: false, expected: ['wait', 12_004] },
      { at: 12_004, expected: ['wait', 12_006] },
      { at: 12_010, read: false, expected: ['wait', 12_012] },
      { at: 12_015, expected: ['mint', 12_017] },
    ])
  })

  it('mints anyway one lease length past the slot, against a port that mints for ever without a lease', () => {
    const looks = Array.from({ length: 30 }, (_, index): Step => {
      const at = 10_000 + index * 1000
      return { at, pair: `100:${10 + index}`, expected: ['wait', Math.min(at + 1002, 40_002)] }
    })
    run([...looks, { at: 40_000, pair: '100:90', expected: ['mint', 40_002] }])
  })

  it('gives that length from the first stranger when the slot is long past', () => {
    run([
      { at: 500_000, pair: '100:1', expected: ['wait', 501_002] },
      { at: 530_000, pair: '100:2', expected: ['mint', 530_002] },
    ])
    run([
      { at: 500_000, pair: '100:1', expected: ['wait', 501_002] },
      { at: 529_999, pair: '100:2', expected: ['wait', 530_002] },
    ])
  })

  it('takes an unknown id for a pair of its own', () => {
    run([
      { at: 10_000, found: false, expected: ['wait', 11_002] },
      { at: 11_002, found: false, expected: ['wait', 11_004] },
      { at: 11_005, found: true, pair: '100:0', expected: ['wait', 12_007] },
    ])
  })
})

/** The one lane: one job at a time, urgent ones first, and nobody waits for ever. */
import { describe, expect, test } from 'vitest'
import type { Job } from '../../src/client/lane.js'
import { Lane } from '../../src/client/lane.js'
import { settled } from '../support/manual-runtime.js'

function begin() {
  const log: string[] = []
  const urgent: Job[] = []
  const lane = new Lane(() => urgent.shift())
  const finish = new Map<string, () => void>()
  const job = (name: string): Job => ({
    run: async () => {
      log.push(`${name} begins`)
      await new Promise<void>((resolve) => finish.set(name, resolve))
      log.push(`${name} ends`)
    },
    refuse: (error) => log.push(`${name} refused: ${String(error)}`),
  })
  return { lane, log, urgent, job, end: (name: string) => finish.get(name)?.() }
}

describe('a lane', () => {
  test('runs one job at a time, in order', async () => {
    const { lane, log, job, end } = begin()
    lane.add(job('a'))
    lane.add(job('b'))
    await settled()
    expect(log).toEqual(['a begins'])
    end('a')
    await settled()
    expect(log).toEqual(['a begins', 'a ends', 'b begins'])
    end('b')
    await settled()
    expect(log.at(-1)).toBe('b ends')
  })

  test('lets an urgent job go before those that wait, never into the one under way', async () => {
    const { lane, log, urgent, job, end } = begin()
    lane.add(job('a'))
    lane.add(job('b'))
    await settled()
    urgent.push(job('renewal'))
    lane.wake()
    await settled()
    expect(log).toEqual(['a begins'])
    end('a')
    await settled()
    expect(log.at(-1)).toBe('renewal begins')
    end('renewal')
    await settled()
    expect(log.at(-1)).toBe('b begins')
  })

  test('lets a job that waits go after each urgent one, however many are due', async () => {
    const { lane, log, urgent, job, end } = begin()
    urgent.push(job('first renewal'), job('second renewal'), job('third renewal'))
    lane.add(job('a'))
    for (const name of ['first renewal', 'a', 'second renewal']) {
      await settled()
      expect(log.at(-1)).toBe(`${name} begins`)
      end(name)
    }
    await settled()
    // With nobody waiting, urgent ones follow each other.
    expect(log.at(-1)).toBe('third renewal begins')
  })

  test('wakes for an urgent job when idle', async () => {
    const { lane, log, urgent, job } = begin()
    urgent.push(job('renewal'))
    lane.wake()
    await settled()
    expect(log).toEqual(['renewal begins'])
  })

  test('misses no job that comes in the tick in which it goes idle', async () => {
    const { lane, log, job, end } = begin()
    lane.add({
      run: () => Promise.resolve(),
      refuse: () => undefined,
    })
    const drained = lane.drained().then(() => lane.add(job('late')))
    await settled()
    await drained
    expect(log).toEqual(['late begins'])
    end('late')
    await settled()
    lane.add(job('later'))
    await settled()
    expect(log.at(-1)).toBe('later begins')
  })

  test('shows the last job that has not begun', async () => {
    const { lane, job } = begin()
    expect(lane.last).toBeUndefined()
    const [a, b] = [job('a'), job('b')]
    lane.add(a)
    lane.add(b)
    expect(lane.last).toBe(b)
    await settled()
    expect(lane.last).toBe(b)
  })

  test('is drained when nothing is under way or waiting', async () => {
    const { lane, job, end } = begin()
    await lane.drained()
    lane.add(job('a'))
    lane.add(job('b'))
    let drained = 0
    for (let count = 0; count < 2; count++) {
      void lane.drained().then(() => {
        drained += 1
      })
    }
    await settled()
    end('a')
    await settled()
    expect(drained).toBe(0)
    end('b')
    await settled()
    expect(drained).toBe(2)
  })

  test('that was stopped refuses who waits and who comes, with the first reason, asks for nothing urgent, and lets the one under way end', async () => {
    const { lane, log, urgent, job, end } = begin()
    lane.add(job('a'))
    lane.add(job('b'))
    await settled()
    urgent.push(job('renewal'))
    lane.stop('lost')
    lane.stop('again')
    lane.add(job('c'))
    lane.wake()
    expect(log).toEqual(['a begins', 'b refused: lost', 'c refused: lost'])
    end('a')
    await settled()
    expect(log).toEqual(['a begins', 'b refused: lost', 'c refused: lost', 'a ends'])
    await lane.drained()
  })
})

/** The bound on bytes that wait: first come first served, one of any size alone, nobody left behind. */
import { describe, expect, test } from 'vitest'
import { ByteBudget } from '../../src/client/byte-budget.js'
import { settled } from '../support/manual-runtime.js'

const never = new AbortController().signal

function begin(most: number) {
  const budget = new ByteBudget(most)
  const entered: string[] = []
  const releases = new Map<string, () => void>()
  const take = (name: string, bytes: number, signal = never): Promise<void> =>
    budget.take(bytes, signal).then(
      (release) => {
        entered.push(name)
        releases.set(name, release)
      },
      (error: unknown) => {
        entered.push(`${name} left: ${String(error)}`)
      },
    )
  return { take, entered, release: (name: string) => releases.get(name)?.() }
}

describe('a budget of bytes', () => {
  test('lets in what fits, and the rest in the order in which it came', async () => {
    const { take, entered, release } = begin(10)
    void take('a', 6)
    void take('b', 4)
    void take('c', 5)
    void take('d', 1)
    await settled()
    expect(entered).toEqual(['a', 'b'])
    release('b')
    await settled()
    // c does not fit, and d, which would, does not overtake it.
    expect(entered).toEqual(['a', 'b'])
    release('a')
    await settled()
    expect(entered).toEqual(['a', 'b', 'c', 'd'])
  })

  test('lets in one of any size when it is alone', async () => {
    const { take, entered, release } = begin(10)
    void take('huge', 1_000)
    void take('a', 1)
    await settled()
    expect(entered).toEqual(['huge'])
    release('huge')
    await settled()
    expect(entered).toEqual(['huge', 'a'])
  })

  test('lets go of those whose signal aborts, with its reason, and lets in whom they held up', async () => {
    const { take, entered, release } = begin(10)
    const abort = new AbortController()
    void take('a', 6)
    void take('big', 9, abort.signal)
    void take('small', 3)
    await settled()
    abort.abort('enough')
    await settled()
    expect(entered).toEqual(['a', 'big left: enough', 'small'])
    release('a')
    release('small')
    void take('b', 10)
    await settled()
    expect(entered.at(-1)).toBe('b')
  })

  test('refuses whom it would have to wait for when the signal has aborted', async () => {
    const { take, entered } = begin(10)
    void take('a', 10)
    void take('b', 1, AbortSignal.abort('enough'))
    await settled()
    expect(entered).toEqual(['a', 'b left: enough'])
  })
})

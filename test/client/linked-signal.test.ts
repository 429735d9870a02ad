import { getEventListeners } from 'node:events'
import { describe, expect, test } from 'vitest'
import { linkedSignal, whenAborted } from '../../src/client/linked-signal.js'

describe('a linked signal', () => {
  test('aborts with the reason of whichever source aborts first', () => {
    const [first, second] = [new AbortController(), new AbortController()]
    const { signal } = linkedSignal([first.signal, undefined, second.signal])
    second.abort('second')
    first.abort('first')
    expect(signal.reason).toBe('second')
  })

  test('of a source that has aborted is aborted from the start', () => {
    const { signal } = linkedSignal([undefined, AbortSignal.abort('early'), new AbortController().signal])
    expect(signal.aborted).toBe(true)
    expect(signal.reason).toBe('early')
  })

  test('no longer follows its sources once it is unlinked, and leaves no listener on them', () => {
    const source = new AbortController()
    const kept = linkedSignal([source.signal])
    const { signal, unlink } = linkedSignal([source.signal])
    unlink()
    unlink()
    expect(getEventListeners(source.signal, 'abort')).toHaveLength(1)
    source.abort()
    expect(signal.aborted).toBe(false)
    expect(kept.signal.aborted).toBe(true)
    kept.unlink()
    expect(getEventListeners(source.signal, 'abort')).toEqual([])
  })

  test('puts one listener on a source that hundreds share, and tells all of them', () => {
    const source = new AbortController()
    const linked = Array.from({ length: 300 }, () => linkedSignal([source.signal]))
    expect(getEventListeners(source.signal, 'abort')).toHaveLength(1)
    source.abort('all')
    expect(linked.every(({ signal }) => signal.reason === 'all')).toBe(true)
  })
})

test('whenAborted calls each callback once, and only those that were not let go', () => {
  const source = new AbortController()
  const calls: string[] = []
  const callback = (): void => {
    calls.push('same')
  }
  whenAborted(source.signal, callback)
  const release = whenAborted(source.signal, callback)
  whenAborted(source.signal, () => calls.push('other'))
  release()
  source.abort()
  expect(calls).toEqual(['same', 'other'])
})

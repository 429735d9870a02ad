/** One signal out of several, which lets go of its sources. */
import { getEventListeners } from 'node:events'
import { describe, expect, test } from 'vitest'
import { linkedSignal, whenAborted } from '../../src/linked-signal.js'

const listenersOf = (signal: AbortSignal): number => getEventListeners(signal, 'abort').length

describe('a linked signal', () => {
  test('aborts once, with the reason of the first source', () => {
    const [one, other] = [new AbortController(), new AbortController()]
    const { signal } = linkedSignal([one.signal, undefined, other.signal])
    other.abort('second')
    one.abort('first')
    expect(signal.reason).toBe('second')
  })

  test('is aborted from the start where a source is', () => {
    const { signal, unlink } = linkedSignal([undefined, AbortSignal.abort('before')])
    expect(signal.reason).toBe('before')
    unlink()
  })

  test('leaves no listener behind, however many calls shared a source, and one while they do', () => {
    const source = new AbortController()
    const links = Array.from({ length: 1_000 }, () => linkedSignal([source.signal]))
    expect(listenersOf(source.signal)).toBe(1)
    for (const { unlink } of links) unlink()
    expect(listenersOf(source.signal)).toBe(0)
    source.abort('late')
    expect(links.some(({ signal }) => signal.aborted)).toBe(false)
  })

  test('does not abort after it was unlinked, while another of the same source does', () => {
    const source = new AbortController()
    const [gone, kept] = [linkedSignal([source.signal]), linkedSignal([source.signal])]
    gone.unlink()
    gone.unlink()
    source.abort('now')
    expect(gone.signal.aborted).toBe(false)
    expect(kept.signal.reason).toBe('now')
  })
})

test('a callback that lets go of another while the signal aborts is obeyed', () => {
  const source = new AbortController()
  const called: string[] = []
  let letGo: () => void = () => undefined
  whenAborted(source.signal, () => {
    called.push('first')
    letGo()
  })
  letGo = whenAborted(source.signal, () => called.push('second'))
  source.abort()
  expect(called).toEqual(['first'])
})

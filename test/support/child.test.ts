import { afterEach, describe, expect, test } from 'vitest'
import { Child } from './child.js'

const program = 'test/support/child-echo.js'
const started: Child[] = []

function start(...args: string[]): Child {
  const child = Child.start(program, { arguments: args })
  started.push(child)
  return child
}

afterEach(async () => {
  await Promise.all(started.splice(0).map((child) => child.kill()))
})

describe('a child process', () => {
  test('gives its events in order, each once, whether awaited before or after they came', async () => {
    const child = start('a', 'b')
    expect(await child.next('ready')).toEqual({ event: 'ready', arguments: ['a', 'b'] })
    const first = child.next('echo')
    const second = child.next('echo')
    child.send({ do: 'echo', value: 1 })
    child.send({ do: 'echo', value: 2 })
    child.send({ do: 'echo', value: 3 })
    expect([(await first).value, (await second).value, (await child.next('echo')).value]).toEqual([1, 2, 3])
  })

  test('tells its exit code', async () => {
    const child = start()
    child.send({ do: 'end' })
    expect(await child.ended).toEqual({ code: 7, signal: null })
    await expect(child.next('more')).rejects.toThrow('said no "more"; it ended with code 7')
  })

  test('ends with a failure on a promise that nobody handled, and tells what it said', async () => {
    const child = start()
    const waiting = expect(child.next('never')).rejects.toThrow('nobody handles this')
    child.send({ do: 'reject' })
    await waiting
    expect((await child.ended).code).toBe(1)
  })

  test('says nothing while stopped', async () => {
    const child = start()
    await child.next('ready')
    child.stop()
    child.send({ do: 'echo', value: 1 })
    await expect(child.next('echo', 200)).rejects.toThrow('said no "echo" within 200 ms')
    child.continue()
    expect((await child.next('echo')).value).toBe(1)
  })

  test('a line that is no event fails whoever waits', async () => {
    const child = start()
    await child.next('ready')
    const waiting = expect(child.next('echo')).rejects.toThrow('No event: not an event')
    child.send({ do: 'mumble' })
    await waiting
  })

  test('a kill tells the signal', async () => {
    const child = start()
    await child.next('ready')
    expect(await child.kill()).toEqual({ code: null, signal: 'SIGKILL' })
  })
})

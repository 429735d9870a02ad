/** A machine that was suspended is noticed within a second of waking; nothing runs while nobody listens. */
import { describe, expect, test } from 'vitest'
import { ClockWatch } from '../../src/client/clock-watch.js'
import { ManualRuntime } from '../support/manual-runtime.js'

describe('the clock watch', () => {
  test('calls every listener once when the clocks have moved apart, forward or back', async () => {
    const runtime = new ManualRuntime()
    const watch = new ClockWatch(runtime)
    let [one, other] = [0, 0]
    watch.listen(() => {
      one += 1
    })
    watch.listen(() => {
      other += 1
    })
    await runtime.pass(5_000)
    expect([one, other]).toEqual([0, 0])
    runtime.stepWall(60_000)
    await runtime.pass(5_000)
    expect([one, other]).toEqual([1, 1])
    runtime.stepWall(-60_000)
    await runtime.pass(1_000)
    expect([one, other]).toEqual([2, 2])
  })

  test('takes a small step for drift', async () => {
    const runtime = new ManualRuntime()
    let calls = 0
    new ClockWatch(runtime).listen(() => {
      calls += 1
    })
    runtime.stepWall(900)
    await runtime.pass(5_000)
    expect(calls).toBe(0)
  })

  test('sets one timer for all, and none once nobody listens', async () => {
    const runtime = new ManualRuntime()
    const watch = new ClockWatch(runtime)
    expect(runtime.pendingTimers).toBe(0)
    const unlisten = [watch.listen(() => undefined), watch.listen(() => undefined)]
    expect(runtime.pendingTimers).toBe(1)
    await runtime.pass(3_000)
    expect(runtime.pendingTimers).toBe(1)
    for (const one of unlisten) one()
    for (const one of unlisten) one()
    expect(runtime.pendingTimers).toBe(0)
  })

  test('that nobody listened to while the clock was set tells nobody who comes later', async () => {
    const runtime = new ManualRuntime()
    const watch = new ClockWatch(runtime)
    watch.listen(() => undefined)()
    runtime.stepWall(60_000)
    let calls = 0
    watch.listen(() => {
      calls += 1
    })
    await runtime.pass(3_000)
    expect(calls).toBe(0)
  })

  test('lets a listener go while it calls them', async () => {
    const runtime = new ManualRuntime()
    const watch = new ClockWatch(runtime)
    const unlisten = watch.listen(() => unlisten())
    runtime.stepWall(60_000)
    await runtime.pass(2_000)
    expect(runtime.pendingTimers).toBe(0)
  })
})

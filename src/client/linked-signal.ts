/**
 * One signal out of several, with a way to let go of them: `AbortSignal.any` keeps what it made for as long as its sources live, which
 * a signal shared by thousands of calls makes a leak.
 */

/** Aborts with the reason of the first of `signals` to abort. `unlink` removes every listener. */
export function linkedSignal(signals: readonly (AbortSignal | undefined)[]): {
  readonly signal: AbortSignal
  unlink(): void
} {
  const controller = new AbortController()
  const links: (() => void)[] = []
  for (const source of signals) {
    if (source === undefined) continue
    if (source.aborted) {
      controller.abort(source.reason)
      break
    }
    const onAbort = (): void => controller.abort(source.reason)
    source.addEventListener('abort', onAbort, { once: true })
    links.push(() => source.removeEventListener('abort', onAbort))
  }
  return {
    signal: controller.signal,
    unlink() {
      for (const link of links.splice(0)) link()
    },
  }
}

/**
 * One signal out of several, and waits that a signal ends, with a way to let go of them: `AbortSignal.any` keeps what it made for as
 * long as its sources live, which a signal shared by thousands of calls makes a leak.
 *
 * However many calls share a signal, they put one listener on it, so that Node sees no leak where there is none.
 */

const callbacksOf = new WeakMap<AbortSignal, { readonly callbacks: Set<() => void>; readonly listener: () => void }>()

/** Calls `callback` once when `signal`, which is not aborted yet, aborts. Returns how to let go of it. */
export function whenAborted(signal: AbortSignal, callback: () => void): () => void {
  const shared = callbacksOf.get(signal) ?? share(signal)
  // A wrapper, so that the same callback may be given twice.
  const call = (): void => callback()
  shared.callbacks.add(call)
  return () => {
    shared.callbacks.delete(call)
    if (shared.callbacks.size > 0 || callbacksOf.get(signal) !== shared) return
    callbacksOf.delete(signal)
    signal.removeEventListener('abort', shared.listener)
  }
}

function share(signal: AbortSignal): { readonly callbacks: Set<() => void>; readonly listener: () => void } {
  const callbacks = new Set<() => void>()
  const listener = (): void => {
    callbacksOf.delete(signal)
    for (const callback of callbacks) callback()
    callbacks.clear()
  }
  const shared = { callbacks, listener }
  callbacksOf.set(signal, shared)
  signal.addEventListener('abort', listener, { once: true })
  return shared
}

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
    links.push(whenAborted(source, () => controller.abort(source.reason)))
  }
  return {
    signal: controller.signal,
    unlink() {
      for (const unlink of links.splice(0)) unlink()
    },
  }
}

/** `promise`, or the signal's reason as soon as it aborts; `promise` itself goes on. */
export function withSignal<T>(promise: Promise<T>, signal: AbortSignal | undefined): Promise<T> {
  if (signal === undefined) return promise
  if (signal.aborted) {
    promise.catch(() => undefined)
    return Promise.reject(signal.reason)
  }
  return new Promise((resolve, reject) => {
    const unlink = whenAborted(signal, () => reject(signal.reason))
    promise.then(resolve, reject).finally(unlink)
  })
}

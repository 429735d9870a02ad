/** Waiting for a signal that may have aborted before anybody waited. */

/** Resolves once `signal` has aborted, however long ago. */
export function aborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve()
    else signal.addEventListener('abort', () => resolve(), { once: true })
  })
}

/**
 * Leads a role for ever: contends, runs the work while the term lasts, waits until it settled, contends again.
 *
 * Never two works of a role at a time. It must not reach into a leadership beyond its public side, `abortWork` and `ended`.
 */
import { isCoordinationError } from '../errors.js'
import { withSignal } from '../linked-signal.js'
import type { Runtime } from '../runtime.js'
import { sleep } from '../runtime.js'
import type { Leadership } from './leadership.js'
import { isHopeless } from './term-errors.js'

/** What `lead` needs of its client. */
export interface LeadTools {
  readonly runtime: Runtime
  acquire(signal: AbortSignal): Promise<Leadership>
  /** Tells that a work threw after its term had ended, so that its error is not what `lead` rejects with. */
  tellDropped(error: unknown): void
}

const shortestBackoffMs = 100
/** How long the longest back-off after a loss is. */
export const longestBackoffMs = 5_000

/** Resolves with the work's value, or with undefined once the caller's signal aborted and everything was wound up. */
export async function leadForEver<T>(
  tools: LeadTools,
  work: (leadership: Leadership) => Promise<T>,
  signal: AbortSignal,
): Promise<T | undefined> {
  for (let losses = 0; !signal.aborted; ) {
    let leadership: Leadership
    try {
      leadership = await tools.acquire(signal)
    } catch (error) {
      if (signal.aborted) return undefined
      throw error
    }
    const ledSince = tools.runtime.monotonicNow()
    const settled = await runWork(tools, leadership, work, signal)
    // A term that lasted says nothing bad about the next one.
    if (tools.runtime.monotonicNow() - ledSince > leadership.leaseMs) losses = 0
    const { ended } = leadership
    if (signal.aborted) {
      await leadership.resign()
      return settled.kind === 'returned' ? settled.value : undefined
    }
    if (ended === undefined || ended.code === 'RESIGNED') {
      await leadership.resign()
      if (settled.kind === 'threw') throw settled.error
      return settled.value
    }
    if (isHopeless(ended)) throw ended
    if (settled.kind === 'threw' && !isCoordinationError(settled.error)) tools.tellDropped(settled.error)
    if (ended.code !== 'TERM_ENDED') {
      const ceiling = Math.min(shortestBackoffMs * 2 ** Math.min(losses, 10), longestBackoffMs)
      losses += 1
      await sleep(tools.runtime, ceiling / 2 + (tools.runtime.random() * ceiling) / 2, signal).catch(() => undefined)
    }
  }
  return undefined
}

type Settled<T> = { readonly kind: 'returned'; readonly value: T } | { readonly kind: 'threw'; readonly error: unknown }

/** Runs the work to its end. After the caller's abort it is waited for no longer than the lease lasts. */
async function runWork<T>(
  { runtime }: LeadTools,
  leadership: Leadership,
  work: (leadership: Leadership) => Promise<T>,
  signal: AbortSignal,
): Promise<Settled<T | undefined>> {
  const onAbort = (): void => leadership.abortWork(signal.reason)
  if (signal.aborted) onAbort()
  signal.addEventListener('abort', onAbort, { once: true })
  const settled: Promise<Settled<T>> = (async () => await work(leadership))().then(
    (value): Settled<T> => ({ kind: 'returned', value }),
    (error: unknown): Settled<T> => ({ kind: 'threw', error }),
  )
  const waited = new AbortController()
  try {
    return await withSignal(settled, signal)
  } catch {
    const lapse = sleep(runtime, leadership.leaseMs, waited.signal).then(
      (): Settled<undefined> => ({ kind: 'returned', value: undefined }),
    )
    lapse.catch(() => undefined)
    return await Promise.race([settled, lapse])
  } finally {
    waited.abort()
    signal.removeEventListener('abort', onAbort)
  }
}

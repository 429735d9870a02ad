/**
 * Finds out whether the broker cannot finish a term's last transaction, while the term still waits for it: the coordinator answers
 * CONCURRENT_TRANSACTIONS for too long, and a look shows a transaction that is being finished.
 *
 * It names the cause of what follows and ends nothing: a broker's return ends most wedges, and the term goes on if it comes in time.
 */
import type { CoordinatorKey } from '../cluster/coordinator.js'
import { isBeingFinished } from '../election/look.js'
import type { CoordinationError } from '../errors.js'
import type { Role } from '../format/names.js'
import type { Timer } from '../runtime.js'
import type { Services } from './services.js'
import type { Unfinished } from './term-errors.js'
import { wedgedError } from './term-errors.js'

/** How long an unfinished transaction is taken for normal, in ms. */
export const wedgedAfterMs = 5_000
const lookAgainMs = 1_000

/** The watch of one term. */
export class WedgeWatch {
  readonly #services: Services
  readonly #role: Role
  readonly #signal: AbortSignal
  readonly #onFound: (error: CoordinationError) => void
  #timer: Timer | undefined
  #found: CoordinationError | undefined

  /** `signal` ends its looks; `onFound` is told once for each wedge. */
  constructor(services: Services, role: Role, signal: AbortSignal, onFound: (error: CoordinationError) => void) {
    this.#services = services
    this.#role = role
    this.#signal = signal
    this.#onFound = onFound
  }

  /** The `WEDGED` that was found, as long as the coordinator has answered nothing better since. */
  get error(): CoordinationError | undefined {
    return this.#busySince === undefined ? undefined : this.#found
  }

  /** Runs `act`, a transaction or a seal, and watches until it settles. A short lease, of which `remainingMs` are left, is watched closer. */
  async during<T>(remainingMs: number, act: () => Promise<T>): Promise<T> {
    const patienceMs = Math.min(wedgedAfterMs, remainingMs / 2)
    this.#wait(patienceMs, patienceMs)
    try {
      return await act()
    } finally {
      this.#timer?.cancel()
      this.#timer = undefined
    }
  }

  get #busySince(): number | undefined {
    return this.#services.coordinators.busySince(this.#key)
  }

  get #key(): CoordinatorKey {
    return { keyType: 'transaction', key: this.#role }
  }

  #wait(delayMs: number, patienceMs: number): void {
    const timer = this.#services.runtime.setTimer(delayMs, () => void this.#check(timer, patienceMs))
    this.#timer = timer
  }

  async #check(timer: Timer, patienceMs: number): Promise<void> {
    const { runtime } = this.#services
    const now = runtime.monotonicNow()
    const busyForMs = now - (this.#busySince ?? now)
    if (busyForMs < patienceMs) {
      this.#wait(patienceMs - busyForMs, patienceMs)
      return
    }
    // Without an answer nothing is known, and the next look may have one.
    const unfinished = await this.#look().catch(() => undefined)
    // Whatever it was asked for has settled since, or has begun anew.
    if (this.#timer !== timer) return
    const isNew = this.error === undefined
    if (unfinished !== undefined) this.#found = wedgedError(this.#role, unfinished)
    this.#wait(lookAgainMs, patienceMs)
    if (isNew && this.error !== undefined) this.#onFound(this.error)
  }

  /**
   * On the work channel: a seal that waits keeps the turn on the other, and nothing is minted by what this shows. Undefined where
   * the coordinator is finishing nothing.
   */
  async #look(): Promise<Unfinished | undefined> {
    const { runtime, connection, coordinators } = this.#services
    const bound = { deadline: runtime.monotonicNow() + lookAgainMs, signal: this.#signal }
    const resource = `transactional id '${this.#role}'`
    const node = await coordinators.find(this.#key, { operation: 'Describe', resource }, bound)
    const { transactions } = await connection.request(
      node,
      'work',
      { api: 'DescribeTransactions', transactionalIds: [this.#role] },
      { deadline: coordinators.requestDeadline({ deadline: Number.POSITIVE_INFINITY }) },
    )
    const [description] = transactions
    if (description === undefined || !isBeingFinished({ found: true, state: description.state })) return undefined
    const { state, topics } = description
    return {
      state,
      partitions: topics.flatMap(({ topic, partitions }) => partitions.map((partition) => `${topic}-${partition}`)),
    }
  }
}

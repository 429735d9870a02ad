/**
 * What a `transact` callback holds: sends in call order within one transaction, closed at its end or when its budget passes.
 *
 * It must not begin, commit or abort: the leadership does. A send that failed dooms the transaction, even if the callback swallows the
 * error.
 */
import type { Bound } from '../cluster/schedule.js'
import type { GroupOffsets, Transaction } from '../cluster/transaction.js'
import { coordinationError } from '../errors.js'
import type { Role } from '../format/names.js'
import { whenAborted } from '../linked-signal.js'
import type { Runtime } from '../runtime.js'
import type { GuardedOffsets, GuardedRecord, PlacedSend, PreparedSend, RecordPosition } from './records.js'
import { layOut, placeSend, positionsOf, prepareOffsets } from './records.js'

/** What a `transact` callback writes with. Refused after the callback's end, or after its budget. */
export interface TransactionScope {
  /** Produces within the transaction; visible to committed readers only after it commits. Errors as `Leadership.send`. */
  send(record: GuardedRecord): Promise<readonly RecordPosition[]>
  /** Commits consumer offsets with the transaction. The broker checks the token, not the group's generation (KIP-447). */
  sendOffsets(offsets: GuardedOffsets): Promise<void>
}

/** What the scope needs of its leadership. */
export interface ScopeTools {
  prepare(record: GuardedRecord): PreparedSend
  partitionCount(topic: string, atLeast: number): Promise<number>
  /** Where messages without key and partition go, modulo the topic's count. */
  fallback(): number
  /** What the caller is told of a failed send. */
  explain(error: unknown): Promise<unknown>
}

type Operation = { reject(error: unknown): void } & (
  | { readonly kind: 'send'; readonly prepared: PreparedSend; resolve(positions: readonly RecordPosition[]): void }
  | { readonly kind: 'offsets'; readonly offsets: GroupOffsets; resolve(): void }
)

type SendOperation = Extract<Operation, { kind: 'send' }>

/** One `transact` call's side of its transaction. */
export class GuardedTransaction implements TransactionScope {
  readonly #role: Role
  readonly #transaction: Transaction
  readonly #bound: Bound
  readonly #tools: ScopeTools
  readonly #waiting: Operation[] = []
  #pumping: Promise<void> | undefined
  #closed: unknown
  #failure: { readonly error: unknown } | undefined

  constructor(role: Role, transaction: Transaction, bound: Bound, tools: ScopeTools) {
    this.#role = role
    this.#transaction = transaction
    this.#bound = bound
    this.#tools = tools
  }

  /**
   * Runs the callback and settles every send of it. Throws what the callback threw, what doomed the transaction, or the reason of
   * `over`, the end of the term, which a callback that hangs would not notice.
   */
  async run<T>(work: () => Promise<T>, runtime: Runtime, over: AbortSignal): Promise<T> {
    let overrun: (error: unknown) => void = () => undefined
    const cutShort = new Promise<never>((_resolve, reject) => {
      overrun = (error) => {
        this.#closed = error
        reject(error)
      }
    })
    const timer = runtime.setTimer(this.#bound.deadline - runtime.monotonicNow(), () =>
      overrun(this.#aborted('its time was up: timeoutMs, or what leaves room for a renewal')),
    )
    const unlisten = whenAborted(over, () => overrun(over.reason))
    try {
      const result = await Promise.race([work(), cutShort])
      await this.#pumping
      if (this.#failure !== undefined) throw this.#failure.error
      return result
    } finally {
      timer.cancel()
      unlisten()
      this.#closed ??= this.#aborted('it was used after its callback had ended')
      for (const operation of this.#waiting.splice(0)) operation.reject(this.#closed)
      await this.#pumping
    }
  }

  send(record: GuardedRecord): Promise<readonly RecordPosition[]> {
    return handled(
      new Promise((resolve, reject) => {
        if (this.#closed !== undefined) throw this.#closed
        const prepared = this.#orDoom(() => this.#tools.prepare(record))
        this.#enqueue({ kind: 'send', prepared, resolve, reject })
      }),
    )
  }

  sendOffsets(offsets: GuardedOffsets): Promise<void> {
    return handled(
      new Promise((resolve, reject) => {
        if (this.#closed !== undefined) throw this.#closed
        const prepared = this.#orDoom(() => prepareOffsets(offsets))
        this.#enqueue({ kind: 'offsets', offsets: prepared, resolve, reject })
      }),
    )
  }

  #aborted(why: string): Error {
    return coordinationError('TRANSACTION_ABORTED', `A transaction of '${this.#role}' was aborted: ${why}`, {
      role: this.#role,
    })
  }

  /** What `check` gives; its error dooms the transaction, for the caller may not await what was refused. */
  #orDoom<T>(check: () => T): T {
    try {
      return check()
    } catch (error) {
      this.#failure ??= { error }
      throw error
    }
  }

  #enqueue(operation: Operation): void {
    this.#waiting.push(operation)
    this.#pumping ??= this.#pump()
  }

  async #pump(): Promise<void> {
    try {
      // A turn later, so that sends of one tick share a Produce.
      await Promise.resolve()
      for (let next = this.#waiting.shift(); next !== undefined; next = this.#waiting.shift()) {
        if (next.kind === 'offsets') await this.#commitOffsets(next)
        else await this.#sendTogether([next, ...this.#takeSends()])
      }
    } finally {
      // In the tick that found nothing waiting: an operation that comes later starts a pump of its own.
      this.#pumping = undefined
    }
  }

  #takeSends(): readonly SendOperation[] {
    const sends: SendOperation[] = []
    for (let next = this.#waiting[0]; next?.kind === 'send'; next = this.#waiting[0]) {
      sends.push(next)
      this.#waiting.shift()
    }
    return sends
  }

  async #sendTogether(operations: readonly SendOperation[]): Promise<void> {
    const placed: { readonly operation: SendOperation; readonly at: PlacedSend }[] = []
    for (const operation of operations) {
      try {
        const { prepared } = operation
        const count = await this.#tools.partitionCount(prepared.topic, prepared.partitionsNamed)
        placed.push({ operation, at: placeSend(prepared, count, this.#tools.fallback()) })
      } catch (error) {
        this.#failure ??= { error }
        operation.reject(error)
      }
    }
    if (placed.length === 0) return
    const layout = layOut(placed.map(({ at }) => at))
    await this.#attempt(
      placed.map(({ operation }) => operation),
      async () => {
        const offsets = await this.#transaction.send(layout.entries, this.#bound)
        placed.forEach(({ operation }, call) => {
          operation.resolve(positionsOf(layout, call, offsets))
        })
      },
    )
  }

  async #commitOffsets(operation: Extract<Operation, { kind: 'offsets' }>): Promise<void> {
    await this.#attempt([operation], async () => {
      await this.#transaction.sendOffsets(operation.offsets, this.#bound)
      operation.resolve()
    })
  }

  async #attempt(operations: readonly Operation[], act: () => Promise<void>): Promise<void> {
    try {
      if (this.#failure !== undefined) throw this.#failure.error
      await act()
    } catch (error) {
      this.#failure ??= { error }
      const explained = await this.#tools.explain(error)
      for (const operation of operations) operation.reject(explained)
    }
  }
}

/** The transaction reports the failure too, so a caller that does not await a send must not end the process. */
function handled<T>(promise: Promise<T>): Promise<T> {
  promise.catch(() => undefined)
  return promise
}

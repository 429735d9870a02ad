/**
 * The connection seam by script: each API's answers are given in order, and every request that came is kept.
 *
 * It holds the seam's contract where a flow rests on it: deadlines by the runtime, resets of a channel that timed out,
 * `onlyIfIdle` in the same tick. An API without a script fails the test that asked.
 */
import type {
  ApiName,
  ApiRequest,
  ApiResponse,
  Channel,
  ClusterConnection,
  Node,
  RequestFailureKind,
  RequestOptions,
} from '../../src/cluster/connection.js'
import { RequestFailure } from '../../src/cluster/connection.js'
import type { ManualRuntime } from './manual-runtime.js'

/** A request as it came. */
export interface SeenRequest<A extends ApiName = ApiName> {
  readonly node: Node | 'seed'
  readonly channel: Channel
  readonly request: ApiRequest<A>
  readonly options: RequestOptions
  readonly at: number
}

/** How a request fails instead of being answered. */
export interface Failing {
  readonly fails: RequestFailureKind
  readonly written: boolean
}

/**
 * An answer; a failure; `'silent'`: written and never answered, so that its deadline ends it; or a function of the request that
 * gives one of these.
 */
export type Step<A extends ApiName> = ApiResponse<A> | Failing | 'silent' | ((seen: SeenRequest<A>) => Reply<A>)
type Settled<A extends ApiName> = ApiResponse<A> | Failing | 'silent'
type Reply<A extends ApiName> = Settled<A> | Promise<Settled<A>>

interface Pending {
  readonly node: Node | 'seed'
  readonly channel: Channel
  readonly fail: (kind: RequestFailureKind) => void
}

/** An answer was lost: the request left this process and its connection broke. */
export const lost: Failing = { fails: 'closed', written: true }
/** No connection: the request never left this process. */
export const unreachable: Failing = { fails: 'unreachable', written: false }

export class ScriptedConnection implements ClusterConnection {
  readonly seen: SeenRequest[] = []
  readonly resets: { readonly node: number; readonly channel: Channel }[] = []
  readonly #runtime: ManualRuntime
  readonly #steps = new Map<ApiName, Step<ApiName>[]>()
  readonly #standing = new Map<ApiName, Step<ApiName>>()
  readonly #pending = new Set<Pending>()
  #closed = false

  constructor(runtime: ManualRuntime) {
    this.#runtime = runtime
  }

  /** Answers the next requests of `api`, one step each. */
  next<A extends ApiName>(api: A, ...steps: Step<A>[]): this {
    const queue = this.#steps.get(api) ?? []
    queue.push(...(steps as unknown as Step<ApiName>[]))
    this.#steps.set(api, queue)
    return this
  }

  /** Answers every request of `api` for which there is no next step. */
  always<A extends ApiName>(api: A, step: Step<A>): this {
    this.#standing.set(api, step as unknown as Step<ApiName>)
    return this
  }

  /** The requests of one API that came, in order. */
  of<A extends ApiName>(api: A): readonly SeenRequest<A>[] {
    return this.seen.filter(({ request }) => request.api === api) as unknown as readonly SeenRequest<A>[]
  }

  /** The APIs in the order in which they came, without those that only look something up. */
  get order(): readonly ApiName[] {
    const lookups: readonly ApiName[] = ['Metadata', 'FindCoordinator', 'ApiVersions']
    return this.seen.map(({ request }) => request.api).filter((api) => !lookups.includes(api))
  }

  /** Requests that have no outcome yet. */
  get underWay(): number {
    return this.#pending.size
  }

  request<A extends ApiName>(
    node: Node | 'seed',
    channel: Channel,
    request: ApiRequest<A> & { readonly api: A },
    options: RequestOptions,
  ): Promise<ApiResponse<A>> {
    if (this.#closed) return Promise.reject(failure({ fails: 'closed', written: false }))
    const isBusy = [...this.#pending].some((other) => isSame(other, node, channel))
    if (options.onlyIfIdle === true && isBusy) return Promise.reject(failure({ fails: 'not-idle', written: false }))
    const seen: SeenRequest<A> = { node, channel, request, options, at: this.#runtime.monotonicNow() }
    this.seen.push(seen as unknown as SeenRequest)
    if (options.deadline <= this.#runtime.monotonicNow()) {
      return Promise.reject(failure({ fails: 'timeout', written: false }))
    }
    const step = (this.#steps.get(request.api)?.shift() ?? this.#standing.get(request.api)) as unknown as
      | Step<A>
      | undefined
    if (step === undefined) return Promise.reject(new Error(`the script has no answer to ${request.api}`))
    return new Promise((resolve, reject) => {
      const settle = (finish: () => void): void => {
        if (!this.#pending.delete(pending)) return
        timer.cancel()
        finish()
      }
      const pending: Pending = {
        node,
        channel,
        fail: (kind) => settle(() => reject(failure({ fails: kind, written: true }))),
      }
      const timer = this.#runtime.setTimer(options.deadline - this.#runtime.monotonicNow(), () => {
        settle(() => {
          if (node !== 'seed') this.reset(node, channel)
          reject(failure({ fails: 'timeout', written: true }))
        })
      })
      this.#pending.add(pending)
      const take = (reply: Settled<A>): void => {
        if (reply === 'silent') return
        if (isFailing(reply)) settle(() => reject(failure(reply)))
        else settle(() => resolve(reply))
      }
      Promise.resolve(typeof step === 'function' ? step(seen) : step).then(take, (error: unknown) =>
        settle(() => reject(error)),
      )
    })
  }

  reset(node: Node, channel: Channel): void {
    this.resets.push({ node: node.id, channel })
    for (const pending of [...this.#pending]) if (isSame(pending, node, channel)) pending.fail('closed')
  }

  close(): void {
    this.#closed = true
    for (const pending of [...this.#pending]) pending.fail('closed')
  }
}

function isSame(pending: Pending, node: Node | 'seed', channel: Channel): boolean {
  const idOf = (one: Node | 'seed'): number | 'seed' => (one === 'seed' ? one : one.id)
  return pending.channel === channel && idOf(pending.node) === idOf(node)
}

function isFailing(reply: object): reply is Failing {
  return 'fails' in reply
}

function failure({ fails, written }: Failing): RequestFailure {
  return new RequestFailure(fails, `${fails} by script`, { written })
}

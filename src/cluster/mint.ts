/**
 * Looks, mints and seals: the requests that go over the `mint` channel, one in flight per broker, each in its turn.
 *
 * It keeps I10's mechanics: a plain mint is written in the tick in which it is called or not at all, and is never repeated. It must not
 * decide whether to mint; the contender does, in the tick of a look's answer.
 */
import type { Runtime } from '../runtime.js'
import type { ClusterConnection, Node, TransactionDescription } from './connection.js'
import { RequestFailure } from './connection.js'
import type { Answered, Coordinators } from './coordinator.js'
import { throwIfHopeless, transactionKey } from './coordinator.js'
import { dispositionOf, refusalError } from './error-table.js'
import { OperatingFailure } from './operating-failure.js'
import type { Bound, Waiting } from './schedule.js'
import { backoffMs, isPast, pause, waitWithin } from './schedule.js'

/** A producer id with its epoch, as InitProducerId answers them. */
export interface ProducerPair {
  readonly producerId: bigint
  readonly producerEpoch: number
}

/** What the coordinator said of a role, and when it was asked (monotonic ms). */
export interface LookAnswer extends ProducerPair {
  /** False when the coordinator does not know the transactional id (105). */
  readonly found: boolean
  readonly state: string
  readonly partitions: readonly string[]
  readonly sentAt: number
  readonly answeredAt: number
}

/** What came of one plain mint. */
export type MintOutcome =
  | { readonly kind: 'minted'; readonly pair: ProducerPair }
  /** The coordinator is finishing another transaction: look again. */
  | { readonly kind: 'look-again' }
  /** Nothing was minted, or nobody knows: look again after a back-off. `unknown` when an answer was lost. */
  | { readonly kind: 'failed'; readonly unknown: boolean; readonly cause: unknown }

/** Who goes first among those that wait for a turn at one broker: seals before challenges. */
export type TurnPriority = 'seal' | 'challenge'

interface Waiter {
  readonly priority: TurnPriority
  readonly turn: Waiting<void>
}

interface Desk {
  taken: boolean
  readonly waiting: Waiter[]
  fastestLookMs: number | undefined
}

/** Hands out turns on the `mint` channel of each broker. */
export class Minting {
  readonly #connection: ClusterConnection
  readonly #coordinators: Coordinators
  readonly #runtime: Runtime
  readonly #desks = new Map<number, Desk>()

  constructor(connection: ClusterConnection, coordinators: Coordinators, runtime: Runtime) {
    this.#connection = connection
    this.#coordinators = coordinators
    this.#runtime = runtime
  }

  /** Waits for the `mint` channel of the role's coordinator. The holder must `release()` it. */
  async takeTurn(role: string, priority: TurnPriority, bound: Bound): Promise<Turn> {
    const node = await this.#coordinators.find(
      transactionKey(role),
      { operation: 'Describe', resource: `transactional id '${role}'` },
      bound,
    )
    bound.signal?.throwIfAborted()
    const desk = this.#deskOf(node)
    if (desk.taken) await this.#wait(desk, priority, bound)
    else desk.taken = true
    return new Turn(this.#connection, this.#coordinators, this.#runtime, role, node, desk, () => this.#passOn(desk))
  }

  /**
   * One look of its own at a role, repeated until it is answered.
   *
   * @throws the last failure, when the bound ends it first.
   */
  async look(role: string, bound: Bound): Promise<LookAnswer> {
    for (let attempt = 0; ; attempt++) {
      const turn = await this.takeTurn(role, 'challenge', bound)
      try {
        return await turn.look(bound)
      } catch (error) {
        if (!(error instanceof LookFailure) || isPast(this.#runtime, bound)) throw error
      } finally {
        turn.release()
      }
      await pause(this.#runtime, backoffMs(this.#runtime, attempt), bound)
    }
  }

  #deskOf(node: Node): Desk {
    const known = this.#desks.get(node.id)
    if (known !== undefined) return known
    const desk: Desk = { taken: false, waiting: [], fastestLookMs: undefined }
    this.#desks.set(node.id, desk)
    return desk
  }

  async #wait(desk: Desk, priority: TurnPriority, bound: Bound): Promise<void> {
    const waiter: Waiter = {
      priority,
      turn: waitWithin(
        this.#runtime,
        bound,
        () => new LookFailure('No turn on the coordinator came in time', undefined),
      ),
    }
    const firstChallenge = desk.waiting.findIndex((other) => other.priority === 'challenge')
    if (priority === 'seal' && firstChallenge >= 0) desk.waiting.splice(firstChallenge, 0, waiter)
    else desk.waiting.push(waiter)
    try {
      await waiter.turn.ended
    } catch (error) {
      const place = desk.waiting.indexOf(waiter)
      if (place >= 0) desk.waiting.splice(place, 1)
      // It was handed the turn after its wait had ended.
      else this.#passOn(desk)
      throw error
    }
  }

  #passOn(desk: Desk): void {
    const next = desk.waiting.shift()
    if (next === undefined) desk.taken = false
    else next.turn.resolve()
  }
}

/** A look that was not answered, or answered with a code that says "later". */
export class LookFailure extends OperatingFailure {
  override readonly name = 'LookFailure'

  constructor(message: string, cause: unknown) {
    super(message, cause === undefined ? undefined : { cause })
  }
}

/** The right to use a broker's `mint` channel until it is released. */
export class Turn {
  readonly #connection: ClusterConnection
  readonly #coordinators: Coordinators
  readonly #runtime: Runtime
  readonly #role: string
  readonly #node: Node
  readonly #desk: Desk
  #release: (() => void) | undefined

  constructor(
    connection: ClusterConnection,
    coordinators: Coordinators,
    runtime: Runtime,
    role: string,
    node: Node,
    desk: Desk,
    release: () => void,
  ) {
    this.#connection = connection
    this.#coordinators = coordinators
    this.#runtime = runtime
    this.#role = role
    this.#node = node
    this.#desk = desk
    this.#release = release
  }

  /** Round trip of the fastest look that this broker answered, in ms; undefined before the first. */
  get fastestLookMs(): number | undefined {
    return this.#desk.fastestLookMs
  }

  /** Gives the turn back; a second time does nothing. */
  release(): void {
    this.#release?.()
    this.#release = undefined
  }

  /**
   * Asks the coordinator once what it knows of the role.
   *
   * @throws LookFailure when it may be asked again; CoordinationError when that is hopeless.
   */
  async look(bound: Bound): Promise<LookAnswer> {
    const attempted = { operation: 'Describe', resource: `transactional id '${this.#role}'` }
    bound.signal?.throwIfAborted()
    const sentAt = this.#runtime.monotonicNow()
    let description: TransactionDescription | undefined
    try {
      const response = await this.#connection.request(
        this.#node,
        'mint',
        { api: 'DescribeTransactions', transactionalIds: [this.#role] },
        { deadline: this.#coordinators.requestDeadline(bound) },
      )
      description = response.transactions.find(({ transactionalId }) => transactionalId === this.#role)
    } catch (error) {
      if (!(error instanceof RequestFailure)) throw error
      this.#noteError()
      throwIfHopeless(error, attempted)
      throw new LookFailure(`The coordinator of '${this.#role}' did not answer: ${error.message}`, error)
    }
    const answeredAt = this.#runtime.monotonicNow()
    if (description === undefined)
      throw new LookFailure(`The coordinator's answer did not name '${this.#role}'`, undefined)
    const disposition = dispositionOf('DescribeTransactions', description.errorCode)
    if (disposition === 'ok' || disposition === 'absent') {
      const roundTrip = answeredAt - sentAt
      this.#desk.fastestLookMs = Math.min(this.#desk.fastestLookMs ?? roundTrip, roundTrip)
      return lookAnswer(description, disposition === 'ok', sentAt, answeredAt)
    }
    const refusal = refusalError('DescribeTransactions', description.errorCode, attempted)
    if (disposition === 'fatal') throw refusal
    this.#noteError()
    throw new LookFailure(refusal.message, refusal)
  }

  /**
   * Sends one plain mint in this tick, or nothing where the channel is not idle (I10). Never repeated: each would depose again.
   *
   * @throws CoordinationError when no mint can succeed.
   */
  async mint(transactionTimeoutMs: number, deadline: number): Promise<MintOutcome> {
    const attempted = { operation: 'Write', resource: `transactional id '${this.#role}'` }
    try {
      const response = await this.#connection.request(
        this.#node,
        'mint',
        {
          api: 'InitProducerId',
          transactionalId: this.#role,
          transactionTimeoutMs,
          producerId: -1n,
          producerEpoch: -1,
        },
        { deadline, onlyIfIdle: true },
      )
      const disposition = dispositionOf('InitProducerId', response.errorCode)
      if (disposition === 'ok') return { kind: 'minted', pair: pairOf(response) }
      if (disposition === 'retry-now') return { kind: 'look-again' }
      const refusal = refusalError('InitProducerId', response.errorCode, attempted)
      if (disposition === 'fatal') throw refusal
      this.#noteError()
      return { kind: 'failed', unknown: false, cause: refusal }
    } catch (error) {
      if (!(error instanceof RequestFailure)) throw error
      this.#noteError()
      throwIfHopeless(error, attempted)
      return { kind: 'failed', unknown: error.written, cause: error }
    }
  }

  #noteError(): void {
    this.#desk.fastestLookMs = undefined
    this.#coordinators.noteError(transactionKey(this.#role))
    this.#coordinators.forget(transactionKey(this.#role))
  }
}

/**
 * Mints as a compare-and-swap on `expected`, a pair that this caller alone holds (I3): the second mint of an acquire, and the seal.
 * It is repeated until answered, which is safe: a repetition of a success answers the same new pair. Undefined = somebody else
 * minted, or the coordinator no longer knows the pair.
 *
 * @throws Unanswered when the bound ends it first.
 */
export async function mintExpecting(
  coordinators: Coordinators,
  role: string,
  expected: ProducerPair,
  transactionTimeoutMs: number,
  bound: Bound,
): Promise<ProducerPair | undefined> {
  const attempted = { operation: 'Write', resource: `transactional id '${role}'` }
  const answered: Answered<'InitProducerId'> = await coordinators.ask(
    transactionKey(role),
    'mint',
    {
      api: 'InitProducerId',
      transactionalId: role,
      transactionTimeoutMs,
      producerId: expected.producerId,
      producerEpoch: expected.producerEpoch,
    },
    ({ errorCode }) => errorCode,
    attempted,
    bound,
  )
  if (answered.disposition === 'ok') return pairOf(answered.response)
  if (answered.disposition === 'fenced') return undefined
  throw refusalError('InitProducerId', answered.errorCode, attempted)
}

/** A description of a transactional id as the answer to a look. */
export function lookAnswer(
  { state, producerId, producerEpoch, topics }: TransactionDescription,
  found: boolean,
  sentAt: number,
  answeredAt: number,
): LookAnswer {
  const partitions = topics.flatMap(({ topic, partitions: indexes }) => indexes.map((index) => `${topic}-${index}`))
  return { found, state, producerId, producerEpoch, partitions, sentAt, answeredAt }
}

function pairOf({ producerId, producerEpoch }: ProducerPair): ProducerPair {
  return { producerId, producerEpoch }
}

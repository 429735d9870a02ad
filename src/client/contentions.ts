/**
 * All contentions of a client: one per role, aborted promptly and wound up behind their callers' backs, and the leaderships that came of
 * them.
 *
 * It must not know how a role is won: `contender.ts` does.
 */
import { transportError } from '../cluster/coordinator.js'
import { leasePolicy } from '../election/policy.js'
import type { CoordinationError } from '../errors.js'
import { coordinationError, isCoordinationError } from '../errors.js'
import type { Role } from '../format/names.js'
import { linkedSignal, withSignal } from '../linked-signal.js'
import { sleep } from '../runtime.js'
import type { WonTerm } from './challenge.js'
import { Contender } from './contender.js'
import type { CoordinationLog } from './coordination-log.js'
import type { Campaign } from './health.js'
import { Leadership } from './leadership.js'
import type { LeaseOptions } from './options.js'
import { checkAcquireOptions, leaseOptionsOf } from './options.js'
import type { Services } from './services.js'

/** Options of `acquire`, `tryAcquire` and `lead`. The lease options override the client's for this role. */
export interface AcquireOptions extends LeaseOptions {
  /** Ends the wait: `acquire` and `tryAcquire` reject with its reason; `lead` winds up and resolves. */
  readonly signal?: AbortSignal
}

interface Contention {
  readonly options: AcquireOptions
  readonly signal: AbortSignal
  readonly onePass: boolean
  /** Called when the leadership that came of it has ended. */
  readonly onEnd: () => void
}

/** An aborted contention's caller waits no longer than this for what it leaves behind to be taken back. */
const promptMs = 150

/** The contentions and leaderships of one client. */
export class Contentions {
  readonly #services: Services
  readonly #closing: AbortSignal
  /** The contention or leadership of each role, each under a claim of its own. */
  readonly #contended = new Map<Role, object>()
  /** Aborted contentions whose last requests are still under way: the next contention for their role waits for them. */
  readonly #windingUp = new Map<Role, Promise<unknown>>()
  readonly #leaderships = new Set<Leadership>()
  readonly #underWay = new Set<Promise<void>>()

  /** `closing` aborts every contention. */
  constructor(services: Services, closing: AbortSignal) {
    this.#services = services
    this.#closing = closing
  }

  /** Contends for the role; undefined only with `onePass`. */
  contend(role: Role, options: AcquireOptions, onePass: boolean): Promise<Leadership | undefined> {
    const contention = this.#contend(role, options, onePass)
    this.#track(contention)
    return contention
  }

  /** Resigns every leadership and resolves when nothing of any contention is under way. */
  async resignAll(): Promise<void> {
    // A resignation is refused to a caller inside `transact`; the rest of the client is wound up all the same.
    await Promise.all([...this.#leaderships].map((leadership) => leadership.resign().catch(() => undefined)))
    while (this.#underWay.size > 0) await Promise.all(this.#underWay)
  }

  /** Ends every leadership that is left, without a word to the cluster. */
  abandonAll(error: CoordinationError): void {
    for (const leadership of [...this.#leaderships]) leadership.abandon(error)
  }

  async #contend(role: Role, options: AcquireOptions, onePass: boolean): Promise<Leadership | undefined> {
    checkAcquireOptions(options)
    options.signal?.throwIfAborted()
    if (this.#contended.has(role)) {
      throw coordinationError(
        'CONFIG',
        `This client contends for '${role}' already, or leads it; wait for that, or use a client of its own`,
        { option: 'role' },
      )
    }
    const claim = {}
    this.#contended.set(role, claim)
    const letGo = (): void => {
      if (this.#contended.get(role) === claim) this.#contended.delete(role)
    }
    const { signal, unlink } = linkedSignal([options.signal, this.#closing])
    const previous = this.#windingUp.get(role)
    const contention = this.#winAfter(previous, role, { options, signal, onePass, onEnd: letGo })
    const wound = this.#windUp(contention, signal).finally(unlink)
    this.#track(wound)
    try {
      const leadership = await withSignal(contention, signal)
      if (!signal.aborted) {
        if (leadership === undefined) letGo()
        return leadership
      }
    } catch (error) {
      if (!signal.aborted) {
        letGo()
        throw transportError(error)
      }
    }
    const allWound = Promise.all([previous, wound])
    this.#windingUp.set(role, allWound)
    void allWound.then(() => {
      if (this.#windingUp.get(role) === allWound) this.#windingUp.delete(role)
    })
    letGo()
    await this.#promptly(wound)
    throw signal.reason
  }

  /** Waits until the contention has come to its end; a role that was won although it was aborted is resigned. */
  async #windUp(contention: Promise<Leadership | undefined>, signal: AbortSignal): Promise<void> {
    const leadership = await contention.catch(() => undefined)
    if (signal.aborted) await leadership?.resign()
  }

  async #winAfter(
    previous: Promise<unknown> | undefined,
    role: Role,
    contention: Contention,
  ): Promise<Leadership | undefined> {
    if (previous !== undefined) await withSignal(previous, contention.signal)
    return await this.#win(role, contention)
  }

  async #win(role: Role, { options, signal, onePass, onEnd }: Contention): Promise<Leadership | undefined> {
    const { settings } = this.#services
    const policy = leasePolicy({ ...settings.leaseOptions, ...leaseOptionsOf(options) })
    let opened: CoordinationLog | undefined
    const campaign = this.#services.health.campaign(role, policy, () => opened?.lastAnswerAt(role))
    try {
      const log = await this.#openLog(signal, onePass, campaign)
      opened = log
      const won = await this.#winBy(new Contender(this.#services, log, role, policy, signal, campaign), onePass)
      if (won === undefined) {
        campaign.gone()
        return undefined
      }
      const leadership: Leadership = new Leadership(this.#services, won, () => {
        this.#leaderships.delete(leadership)
        if (leadership.ended === undefined || leadership.isResigning) campaign.gone()
        else campaign.stopped(leadership.ended)
        onEnd()
      })
      campaign.led(() => leadership.health)
      this.#leaderships.add(leadership)
      leadership.begin()
      return leadership
    } catch (error) {
      if (signal.aborted || onePass) campaign.gone()
      else campaign.stopped(error)
      throw error
    }
  }

  async #winBy(contender: Contender, onePass: boolean): Promise<WonTerm | undefined> {
    try {
      const won = await contender.run(onePass)
      if (won === undefined) await contender.withdraw()
      return won
    } catch (error) {
      if (!isCoordinationError(error, 'SUPERSEDED')) await contender.withdraw()
      throw error
    }
  }

  /** The log, however long the cluster takes to answer; with `onePass` one try. */
  async #openLog(signal: AbortSignal, onePass: boolean, campaign: Campaign): ReturnType<Services['log']> {
    const { runtime } = this.#services
    for (;;) {
      try {
        return await this.#services.log({ deadline: Number.POSITIVE_INFINITY, signal })
      } catch (error) {
        const isPassing = isCoordinationError(error, 'TRANSPORT') && error.retriable
        if (signal.aborted || onePass || !isPassing) throw error
        campaign.failed(error)
        this.#services.diagnostics.warn({ err: error }, 'the coordination topic could not be opened; trying again')
        await sleep(runtime, 500 + runtime.random() * 500, signal)
      }
    }
  }

  /** Waits for something that must not hold up its caller for long; `close` waits for the rest. */
  async #promptly(task: Promise<void>): Promise<void> {
    const done = new AbortController()
    await Promise.race([task, sleep(this.#services.runtime, promptMs, done.signal).catch(() => undefined)])
    done.abort()
  }

  /** Lets `close` wait for a task. */
  #track(task: Promise<unknown>): void {
    const settled = task.then(
      () => undefined,
      () => undefined,
    )
    this.#underWay.add(settled)
    void settled.then(() => this.#underWay.delete(settled))
  }
}

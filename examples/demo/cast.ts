/**
 * The demo's members as processes under watch: starts them, keeps what they tell, and lets the story wait for something to
 * become true of it.
 *
 * A member that ends unasked ends the demo. Nothing is repeated, and nothing is judged here.
 */
import { setTimeout as delay } from 'node:timers/promises'
import { Child, type ChildEnd } from '../../test/support/child.js'
import { type MemberCommand, type MemberEvent, type MemberTask, machineNow, type Write, writeOf } from './events.js'

/** A term, as its leader told of it. */
export interface Term {
  readonly member: Member
  readonly token: string
  readonly term: bigint
  /** When it began, on the machine's clock in ms. */
  readonly at: number
}

/** How long the story waits for one thing to happen, in ms. */
export const longestWaitMs = 20_000
const forEverMs = 2 ** 31 - 1

/** One process of the cast. */
export class Member {
  readonly name: string
  readonly ended: Promise<ChildEnd>
  /** When it last began to resign, on the machine's clock in ms. */
  resigningAt: number | undefined
  readonly #child: Child

  constructor(task: MemberTask) {
    this.name = task.memberId
    this.#child = Child.start('examples/demo/member.js', { arguments: [JSON.stringify(task)] })
    this.ended = this.#child.ended
  }

  get pid(): number {
    return this.#child.pid
  }

  /** What it wrote to standard error: nothing, unless something went wrong. */
  get complaint(): string {
    return this.#child.stderr.trim()
  }

  /** The next thing that it says. Rejects when it has ended. */
  async next(): Promise<MemberEvent> {
    const event: unknown = await this.#child.nextWhere(() => true, forEverMs, 'event')
    return event as MemberEvent
  }

  tell(command: MemberCommand['do']): void {
    this.#child.send({ do: command } satisfies MemberCommand)
  }
  stop(): void {
    this.#child.stop()
  }
  wake(): void {
    this.#child.continue()
  }
  async kill(): Promise<void> {
    await this.#child.kill('SIGKILL')
  }
}

/** All processes of one run, and all that they told. */
export class Cast {
  readonly members: readonly Member[]
  /** When the processes were started, on the machine's clock in ms. */
  readonly startedAt: number = machineNow()
  /** In the order in which they were told of. */
  readonly terms: Term[] = []
  readonly writes: Write[] = []
  readonly #dismissed = new Set<Member>()
  readonly #watchers = new Set<() => void>()
  readonly #signal: AbortSignal
  #failure: Error | undefined

  /** `signal` ends every wait. */
  constructor(tasks: readonly MemberTask[], signal: AbortSignal) {
    this.#signal = signal
    this.members = tasks.map((task) => new Member(task))
    for (const member of this.members) void this.#listen(member)
    signal.addEventListener('abort', () => this.#notify(), { once: true })
  }

  /** The other members that have not been dismissed. */
  othersThan(member: Member): readonly Member[] {
    return this.members.filter((other) => other !== member && !this.#dismissed.has(other))
  }

  /** A member may end from now on. */
  dismiss(member: Member): void {
    this.#dismissed.add(member)
  }

  /** Writes of a term that ended this way. */
  writesOf(term: Term, outcome: Write['outcome']): readonly Write[] {
    return this.writes.filter((write) => write.term === term.term && write.outcome === outcome)
  }

  /** Resolves with what `found` answers, as soon as that is not undefined; rejects, naming `what`, after 20 s. */
  async until<T>(what: string, found: () => T | undefined): Promise<T> {
    let expired = false
    const timer = setTimeout(() => {
      expired = true
      this.#notify()
    }, longestWaitMs)
    try {
      for (;;) {
        this.#signal.throwIfAborted()
        if (this.#failure !== undefined) throw this.#failure
        const value = found()
        if (value !== undefined) return value
        if (expired) throw new Error(`It was awaited for ${longestWaitMs} ms and did not happen: ${what}`)
        await new Promise<void>((resolve) => this.#watchers.add(resolve))
      }
    } finally {
      clearTimeout(timer)
    }
  }

  /** Resolves after `delayMs`; rejects where `until` would. */
  async breathe(delayMs: number): Promise<void> {
    await delay(delayMs, undefined, { signal: this.#signal }).catch(() => undefined)
    this.#signal.throwIfAborted()
    if (this.#failure !== undefined) throw this.#failure
  }

  /** Kills whoever is left; resolves when all are gone. */
  async end(): Promise<void> {
    for (const member of this.members) this.dismiss(member)
    await Promise.all(this.members.map((member) => member.kill()))
  }

  async #listen(member: Member): Promise<void> {
    for (;;) {
      let event: MemberEvent
      try {
        event = await member.next()
      } catch {
        if (!this.#dismissed.has(member))
          this.#failure ??= new Error(`${member.name} ended unasked. ${member.complaint}`)
        this.#notify()
        return
      }
      if (event.event === 'write') this.writes.push(writeOf(member.name, event.write))
      else if (event.event === 'resigning') member.resigningAt = event.at
      else this.terms.push({ member, token: event.token, term: BigInt(event.term), at: event.at })
      this.#notify()
    }
  }

  #notify(): void {
    const watchers = [...this.#watchers]
    this.#watchers.clear()
    for (const watcher of watchers) watcher()
  }
}

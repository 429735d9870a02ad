/**
 * A member of a mixed fleet, of whatever implementation, as a process that contends by itself and says what it does.
 *
 * All speak one protocol of JSON lines, so a suite need not know whom it talks to: ports by their own programs, ours by
 * `programs/own-member.ts`. Instants are of the machine's wall clock, the only one that all of them can tell.
 */
import { afterEach, expect } from 'vitest'
import { Child, type ChildEvent } from '../support/child.js'
import { projectPath } from '../support/project-root.js'
import { type Port, type Program, portProgram } from './port-program.js'

export type Implementation = 'mandate' | Port

/** What a member is started with. */
export interface FleetMemberSetup {
  readonly bootstrap: readonly string[]
  readonly topic: string
  readonly partition: number
  readonly role: string
  readonly memberId: string
  readonly leaseMs: number
  readonly renewMs: number
  readonly staggerMs: number
  /** The topic to write guarded records to (partition 0) while it leads. */
  readonly commands?: string
  readonly writeEveryMs?: number
}

/** The value of a guarded record, as JSON; `n` counts from 1 in each term. */
export interface Written {
  readonly member: string
  readonly token: string
  readonly n: number
}

export type FleetCommand =
  /** Answers its own view of the role. */
  | { readonly do: 'status' }
  /** Answers `resigned` once the lease's tombstone is committed; it does not contend until `contend`. */
  | { readonly do: 'resign' }
  | { readonly do: 'contend' }
  /**
   * Ends the process with exit code 0. A port leaves its registration and lease as they are; ours gives them up. The end of its
   * input is the same.
   */
  | { readonly do: 'stop' }

/** A member's view of the role; `term` is the smallest offset at which it saw the token since another. */
export interface FleetStatus {
  readonly holder: string | null
  readonly token: string | null
  readonly term: string | null
  readonly deadline: string | null
  /** In offset order; no rank where the member holds the role. */
  readonly roster: readonly { readonly memberId: string; readonly offset: string; readonly rank: number | null }[]
}

/** A term that began: `at` is in ms since 1970. */
export interface Leading {
  readonly token: string
  readonly at: number
}

export interface FleetFailure {
  readonly name: string
  readonly message: string
}

/** A JVM that compiles its program on a busy machine takes that long at most. */
const answerMs = 30_000
const running = new Set<FleetMember>()

export class FleetMember {
  readonly child: Child
  readonly implementation: Implementation
  readonly memberId: string
  #lastId = 0

  private constructor(child: Child, implementation: Implementation, memberId: string) {
    this.child = child
    this.implementation = implementation
    this.memberId = memberId
    running.add(this)
  }

  /** Starts it; it contends from then on. Resolves when it follows the partition. */
  static async start(implementation: Implementation, setup: FleetMemberSetup): Promise<FleetMember> {
    const program = implementation === 'mandate' ? ownProgram() : await portProgram(implementation)
    const child = Child.run(setup.memberId, program.command, [...program.arguments, JSON.stringify(setup)])
    const member = new FleetMember(child, implementation, setup.memberId)
    await child.next('ready', answerMs)
    return member
  }

  /** What came of a command, whether it succeeded or not. */
  async ask(command: FleetCommand): Promise<{ readonly value: unknown; readonly error: FleetFailure | undefined }> {
    this.#lastId += 1
    const id = this.#lastId
    this.child.send({ id, ...command })
    const said = await this.child.nextWhere(
      (event) => event.event === 'answer' && event.id === id,
      answerMs,
      `answer to ${JSON.stringify(command)}`,
    )
    return { value: said.value, error: said.error as FleetFailure | undefined }
  }

  /** The value of a command that has to succeed. */
  async call(command: FleetCommand): Promise<unknown> {
    const { value, error } = await this.ask(command)
    if (error !== undefined) throw new Error(`${this.memberId} failed to ${command.do}: ${JSON.stringify(error)}`)
    return value
  }

  async status(): Promise<FleetStatus> {
    return (await this.call({ do: 'status' })) as FleetStatus
  }

  /** The next term that it leads and no earlier call took. */
  async leads(timeoutMs: number = answerMs): Promise<Leading> {
    const { token, at } = await this.child.next('leading', timeoutMs)
    return { token: String(token), at: Number(at) }
  }

  /** Resolves with its `n`th guarded write of the term. */
  async hasWritten(token: string, n: number): Promise<void> {
    const isIt = (event: ChildEvent): boolean => event.event === 'wrote' && event.token === token && event.n === n
    await this.child.nextWhere(isIt, answerMs, `write ${n} under ${token}`)
  }

  /** Resolves when it has lost that term, with its reason: the name of an exception, or the code of an error. */
  async loses(token: string): Promise<string> {
    const isIt = (event: ChildEvent): boolean => event.event === 'lost' && event.token === token
    const { reason } = await this.child.nextWhere(isIt, answerMs, `loss of ${token}`)
    return String(reason)
  }

  /** Everything of that name that it has said so far. */
  said(name: string): readonly ChildEvent[] {
    return this.child.events.filter(({ event }) => event === name)
  }

  /** Lets it end by itself, and sees that it does so with exit code 0. */
  async end(): Promise<void> {
    running.delete(this)
    this.child.endInput()
    expect({ end: await this.child.ended, stderr: this.child.stderr }).toMatchObject({ end: { code: 0, signal: null } })
  }

  /** Ends it with SIGKILL, stopped or not. */
  async kill(): Promise<void> {
    running.delete(this)
    expect(await this.child.kill()).toEqual({ code: null, signal: 'SIGKILL' })
  }
}

/** To be called once in a suite: members that a failed test left behind are killed. */
export function discardFleetAfterEach(): void {
  afterEach(async () => {
    await Promise.all([...running].map((member) => member.kill()))
  })
}

function ownProgram(): Program {
  const path = projectPath('build', 'test', 'interop', 'programs', 'own-member.js')
  return { command: process.execPath, arguments: ['--unhandled-rejections=strict', path] }
}

/**
 * What the live suites share: members as processes that always come to an end, topics, what a committed reader sees, and roles that
 * share a partition.
 *
 * Nothing here repeats or forgives: a member that does not end by itself, with exit code 0, fails its test.
 */
import { afterEach, expect } from 'vitest'
import { type RawRecord, readCommittedLog } from '../../../examples/demo/raw-log.js'
import type { GuardedRecord } from '../../../src/index.js'
import { parseRole, rolePartition } from '../../../src/index.js'
import { freshName } from '../../kafka/suites.js'
import { Child, type ChildEvent } from '../../support/child.js'
import { makeTopics } from '../../support/topics.js'
import type { Command, MemberFailure, MemberSetup } from './member.js'

/** The coordination topic's default name and partition count. */
export const coordinationTopic = '__coordination_state'
const coordinationPartitions = 16

/** What came of a command; instants in ms on the machine's monotonic clock. */
export interface Answer {
  readonly startedAt: number
  readonly at: number
  readonly value: unknown
  readonly error: MemberFailure | undefined
}

/** A term as it travels in JSON. */
export interface TermText {
  readonly role: string
  readonly memberId: string
  readonly token: string
  readonly term: string
}

const started = new Set<Member>()

/** A running member. It ends with its test, at the latest. */
export class Member {
  readonly child: Child
  readonly memberId: string
  #lastId = 0

  private constructor(setup: MemberSetup, program: string) {
    // The process tells which program it runs, whatever that program says.
    const told = 'console.log(JSON.stringify({ event: "runs", path: process.argv[1] }))'
    const nodeArguments = ['--import', `data:text/javascript,${encodeURIComponent(told)}`]
    this.child = Child.start(program, { arguments: [JSON.stringify(setup)], nodeArguments })
    this.memberId = setup.memberId
    started.add(this)
  }

  /** Starts a member and waits until it listens. Another build of the program is one below `build/`. */
  static async start(setup: MemberSetup, program: string = 'test/client/programs/member.js'): Promise<Member> {
    const member = new Member(setup, program)
    await member.child.next('ready')
    return member
  }

  /** What came of a command, whether it succeeded or not. */
  async ask(command: Command, timeoutMs: number = 30_000): Promise<Answer> {
    this.#lastId += 1
    const id = this.#lastId
    this.child.send({ id, ...command })
    const said = await this.child.nextWhere(
      (event) => event.event === 'answer' && event.id === id,
      timeoutMs,
      `answer to ${JSON.stringify(command)}`,
    )
    return {
      startedAt: Number(said.startedAt),
      at: Number(said.at),
      value: said.value,
      error: said.error as MemberFailure | undefined,
    }
  }

  /** The value of a command that has to succeed. */
  async call(command: Command, timeoutMs?: number): Promise<unknown> {
    const { value, error } = await this.ask(command, timeoutMs)
    if (error !== undefined) throw new Error(`${this.memberId} failed to ${command.do}: ${JSON.stringify(error)}`)
    return value
  }

  /** The failure of a command that has to fail. */
  async failureOf(command: Command, timeoutMs?: number): Promise<MemberFailure> {
    const { value, error } = await this.ask(command, timeoutMs)
    if (error === undefined) throw new Error(`${this.memberId} did ${command.do}: ${JSON.stringify(value)}`)
    return error
  }

  /** Acquires the role and answers its term, with the instant at which it led. */
  async acquire(role: string, timeoutMs?: number): Promise<TermText & { readonly at: number }> {
    const { value, error, at } = await this.ask({ do: 'acquire', role }, timeoutMs)
    if (error !== undefined) throw new Error(`${this.memberId} failed to acquire: ${JSON.stringify(error)}`)
    return { ...(value as TermText), at }
  }

  /** Everything of that name that it has said so far. */
  said(name: string): readonly ChildEvent[] {
    return this.child.events.filter(({ event }) => event === name)
  }

  /** Lets it end by itself, and sees that it does so cleanly. */
  async end(): Promise<void> {
    started.delete(this)
    this.child.endInput()
    const end = await Promise.race([this.child.ended, lapse(30_000)])
    if (end === undefined) await this.child.kill()
    expect({ end, stderr: this.child.stderr }).toEqual({ end: { code: 0, signal: null }, stderr: '' })
  }

  /** Ends it with SIGKILL. */
  async kill(): Promise<void> {
    started.delete(this)
    expect(await this.child.kill()).toEqual({ code: null, signal: 'SIGKILL' })
  }

  /** Ends what is left of it when its test has failed. */
  async discard(): Promise<void> {
    await this.child.kill()
  }
}

function lapse(ms: number): Promise<undefined> {
  return new Promise((resolve) => setTimeout(resolve, ms, undefined).unref())
}

/** To be called once in a suite: members that a failed test left behind are killed. */
export function discardMembersAfterEach(): void {
  afterEach(async () => {
    await Promise.all([...started].map((member) => member.discard()))
    started.clear()
  })
}

/** Makes a topic for guarded records under a fresh name. */
export async function guardedTopic(bootstrap: readonly string[], partitions: number = 1): Promise<string> {
  const topic = freshName('commands')
  await makeTopics(bootstrap, [{ topic, numPartitions: partitions }])
  return topic
}

/** A record of one message, for a topic of one partition. */
export function oneRecord(topic: string, value: string): GuardedRecord {
  return { topic, messages: [{ key: 'k', value }] }
}

/** Now, on the clock that members tell `at` by. */
export function monotonicNow(): number {
  return Number(process.hrtime.bigint()) / 1e6
}

/** Resolves as soon as `by` sees `memberId` in the role's queue; `check` may refuse each status that it sees until then. */
export async function seenWaiting(
  by: Member,
  role: string,
  memberId: string,
  check: (status: unknown) => void = () => undefined,
): Promise<void> {
  for (;;) {
    const status = await by.call({ do: 'describe', role })
    check(status)
    const { roster } = status as { roster: readonly { memberId: string }[] }
    if (roster.some((waiting) => waiting.memberId === memberId)) return
  }
}

/** What a committed reader of the topic sees, in order of offset. */
export async function committedRecords(bootstrap: readonly string[], topic: string): Promise<readonly RawRecord[]> {
  const records = await readCommittedLog(bootstrap, topic)
  return records.filter(({ outcome }) => outcome === 'committed')
}

/** Values of records as text. */
export function valuesOf(records: readonly RawRecord[]): readonly string[] {
  return records.map(({ value }) => String(value))
}

/** The partition of the coordination topic that holds the role. */
export function partitionOfRole(role: string): number {
  return rolePartition(parseRole(role), coordinationPartitions)
}

/** A fresh role whose records share a partition with those of `role`. */
export function neighbourOf(role: string): string {
  for (;;) {
    const name = freshName('neighbour')
    if (partitionOfRole(name) === partitionOfRole(role)) return name
  }
}

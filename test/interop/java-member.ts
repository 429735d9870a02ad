/**
 * Runs `JavaMember.java`, a member made of Kafka's own Java producer, as a process of its own.
 *
 * It is launched from source against the classpath of the broker's artifacts, so it needs what brokers need. A member that does not end
 * by itself, with exit code 0, fails its test.
 */
import { expect } from 'vitest'
import { defaultKafkaVersion, kafkaArtifacts } from '../kafka/artifacts.js'
import { Child } from '../support/child.js'
import { projectPath } from '../support/project-root.js'

/** What it can be told; `partition` is 0 by default. Transactions are begun and ended by command. */
export type JavaCommand =
  /** InitProducerId; answers the minted token, which `lease` claims from then on. */
  | { readonly do: 'init' }
  /** Answers the token that its producer uses now. */
  | { readonly do: 'token' }
  | { readonly do: 'begin' | 'commit' | 'abort' }
  | {
      readonly do: 'send'
      readonly topic: string
      readonly partition?: number
      readonly key: string
      readonly value: string
    }
  /** A plain registration of its member id. */
  | { readonly do: 'register'; readonly topic: string; readonly partition?: number }
  /** A lease of that length from now, in the open transaction. */
  | { readonly do: 'lease'; readonly topic: string; readonly partition?: number; readonly leaseMs: number }
  /** The lease's tombstone, in the open transaction. */
  | { readonly do: 'resign'; readonly topic: string; readonly partition?: number }

/** A failure: the simple name of the Java exception, and its message. */
export interface JavaFailure {
  readonly name: string
  readonly message: string
}

const answerMs = 30_000

export class JavaMember {
  readonly child: Child
  #lastId = 0

  private constructor(child: Child) {
    this.child = child
  }

  /** Starts it and waits until it listens: a second or two. Its producer is of the Kafka version that brokers run by default. */
  static async start(setup: {
    readonly bootstrap: readonly string[]
    readonly role: string
    readonly memberId: string
  }): Promise<JavaMember> {
    const { java, classpath } = await kafkaArtifacts(defaultKafkaVersion)
    const flags = ['-XX:TieredStopAtLevel=1', '-Dorg.slf4j.simpleLogger.defaultLogLevel=off', '-cp', classpath]
    const program = projectPath('test', 'interop', 'JavaMember.java')
    const { bootstrap, role, memberId } = setup
    const child = Child.run('JavaMember', java, [...flags, program, bootstrap.join(), role, memberId])
    const member = new JavaMember(child)
    await child.next('ready', answerMs)
    return member
  }

  /** What came of a command, whether it succeeded or not. */
  async ask(command: JavaCommand): Promise<{ readonly value: unknown; readonly error: JavaFailure | undefined }> {
    this.#lastId += 1
    const id = this.#lastId
    this.child.send({ id, ...command })
    const said = await this.child.nextWhere(
      (event) => event.event === 'answer' && event.id === id,
      answerMs,
      `answer to ${JSON.stringify(command)}`,
    )
    return { value: said.value, error: said.error as JavaFailure | undefined }
  }

  /** The value of a command that has to succeed. */
  async call(command: JavaCommand): Promise<unknown> {
    const { value, error } = await this.ask(command)
    if (error !== undefined) throw new Error(`JavaMember failed to ${command.do}: ${error.name}: ${error.message}`)
    return value
  }

  /** The failure of a command that has to fail. */
  async failureOf(command: JavaCommand): Promise<JavaFailure> {
    const { value, error } = await this.ask(command)
    if (error === undefined) throw new Error(`JavaMember did ${command.do}: ${JSON.stringify(value)}`)
    return error
  }

  /** Lets it end by itself, and sees that it does so cleanly. */
  async end(): Promise<void> {
    this.child.endInput()
    expect(await this.child.ended).toEqual({ code: 0, signal: null })
  }

  /** Ends what is left of it when its test has failed. */
  async discard(): Promise<void> {
    await this.child.kill()
  }
}

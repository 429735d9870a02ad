/**
 * Runs a compiled program of this project as a process of its own and talks to it in JSON lines: events from its standard
 * output, commands to its standard input.
 *
 * An event that is not an object with a string `event` is an error of the program, and so is its end while something is
 * awaited. Nothing here hides or repeats anything.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { existsSync } from 'node:fs'
import { createInterface } from 'node:readline'
import { projectPath } from './project-root.js'

/** One line of the program's standard output. */
export interface ChildEvent {
  readonly event: string
  readonly [field: string]: unknown
}

/** How the program ended: its exit code, or the signal that ended it. */
export interface ChildEnd {
  readonly code: number | null
  readonly signal: NodeJS.Signals | null
}

export interface ChildOptions {
  readonly arguments?: readonly string[]
  readonly environment?: Readonly<Record<string, string>>
  /** Options of `node` beside `--unhandled-rejections=strict`. */
  readonly nodeArguments?: readonly string[]
}

interface Waiter {
  readonly matches: (event: ChildEvent) => boolean
  readonly resolve: (event: ChildEvent) => void
  readonly reject: (error: Error) => void
}

/** A running program. End it, or let it end, before the test does. */
export class Child {
  /** Everything it said, in order. */
  readonly events: ChildEvent[] = []
  /** Resolves when the process is gone and all its output is read. */
  readonly ended: Promise<ChildEnd>
  readonly #name: string
  readonly #process: ChildProcess
  readonly #waiters = new Set<Waiter>()
  readonly #taken = new Set<ChildEvent>()
  #stderr = ''
  #end: ChildEnd | undefined
  #malformed: string | undefined

  private constructor(name: string, child: ChildProcess) {
    this.#name = name
    this.#process = child
    child.stderr?.setEncoding('utf8').on('data', (text: string) => {
      this.#stderr += text
    })
    // A command sent to a process that has just ended is lost like any other; its end is what tests look at.
    child.stdin?.on('error', () => {})
    if (child.stdout !== null) createInterface({ input: child.stdout }).on('line', (line) => this.#receive(line))
    this.ended = new Promise((resolve, reject) => {
      child.once('error', reject)
      child.once('close', (code, signal) => {
        this.#end = { code, signal }
        live.delete(child)
        for (const waiter of this.#waiters) waiter.reject(this.#failure('ended'))
        this.#waiters.clear()
        resolve(this.#end)
      })
    })
  }

  /** Starts `build/<program>`, such as `test/client/member.js`; `npm run build:all` must have compiled it. */
  static start(program: string, options: ChildOptions = {}): Child {
    const path = projectPath('build', program)
    if (!existsSync(path)) throw new Error(`${path} is not there; run: npm run build:all`)
    const nodeArguments = ['--unhandled-rejections=strict', ...(options.nodeArguments ?? []), path]
    return Child.run(program, process.execPath, [...nodeArguments, ...(options.arguments ?? [])], options.environment)
  }

  /** Runs any command that talks in the same JSON lines; `name` names it in errors. */
  static run(
    name: string,
    command: string,
    commandArguments: readonly string[],
    environment?: Readonly<Record<string, string>>,
  ): Child {
    const child = spawn(command, commandArguments, {
      stdio: ['pipe', 'pipe', 'pipe'],
      env: { ...process.env, ...environment },
    })
    live.add(child)
    endWithThisProcess()
    return new Child(name, child)
  }

  get pid(): number {
    return this.#process.pid ?? 0
  }

  /** What it wrote to standard error. */
  get stderr(): string {
    return this.#stderr
  }

  /**
   * The next event of that name that no earlier `next` took, which may have come already. Rejects when none came within
   * `timeoutMs` or the process ends first, with what it wrote to standard error.
   */
  next(name: string, timeoutMs: number = 30_000): Promise<ChildEvent> {
    return this.nextWhere((event) => event.event === name, timeoutMs, `"${name}"`)
  }

  /** As `next`, by a predicate; `described` names it in the error. */
  nextWhere(matches: (event: ChildEvent) => boolean, timeoutMs: number, described: string): Promise<ChildEvent> {
    const already = this.events.find((event) => !this.#taken.has(event) && matches(event))
    if (already !== undefined) {
      this.#taken.add(already)
      return Promise.resolve(already)
    }
    if (this.#end !== undefined || this.#malformed !== undefined) {
      return Promise.reject(this.#failure(`said no ${described}`))
    }
    return new Promise((resolve, reject) => {
      const settle = (): void => {
        clearTimeout(timer)
        this.#waiters.delete(waiter)
      }
      const waiter: Waiter = {
        matches,
        resolve: (event) => {
          settle()
          resolve(event)
        },
        reject: (error) => {
          settle()
          reject(error)
        },
      }
      const timer = setTimeout(
        () => waiter.reject(this.#failure(`said no ${described} within ${timeoutMs} ms`)),
        timeoutMs,
      )
      this.#waiters.add(waiter)
    })
  }

  /** Sends one command as a JSON line. */
  send(command: object): void {
    this.#process.stdin?.write(`${JSON.stringify(command)}\n`)
  }

  /** Ends its standard input, by which a program may know that no command follows. */
  endInput(): void {
    this.#process.stdin?.end()
  }

  /** SIGSTOP. */
  stop(): void {
    this.#signal('SIGSTOP')
  }

  /** SIGCONT. */
  continue(): void {
    this.#signal('SIGCONT')
  }

  /** Sends a signal (default SIGKILL) and resolves when the process is gone; resolves at once when it has ended already. */
  async kill(signal: NodeJS.Signals = 'SIGKILL'): Promise<ChildEnd> {
    if (this.#end === undefined) this.#process.kill(signal)
    return await this.ended
  }

  #signal(signal: NodeJS.Signals): void {
    if (!this.#process.kill(signal)) throw this.#failure(`could not take ${signal}`)
  }

  #receive(line: string): void {
    let event: unknown
    try {
      event = JSON.parse(line)
    } catch {
      event = undefined
    }
    if (typeof event !== 'object' || event === null || !('event' in event) || typeof event.event !== 'string') {
      this.#malformed = line
      for (const waiter of [...this.#waiters]) waiter.reject(this.#failure('said what is no event'))
      return
    }
    const said = event as ChildEvent
    this.events.push(said)
    for (const waiter of this.#waiters) {
      if (!waiter.matches(said)) continue
      this.#taken.add(said)
      waiter.resolve(said)
      return
    }
  }

  #failure(what: string): Error {
    const end = this.#end === undefined ? '' : `; it ended with ${this.#end.signal ?? `code ${this.#end.code}`}`
    const malformed = this.#malformed === undefined ? '' : `\nNo event: ${this.#malformed}`
    return new Error(`${this.#name} (pid ${this.pid}) ${what}${end}${malformed}\n${this.#stderr}`.trimEnd())
  }
}

const live = new Set<ChildProcess>()
let armed = false

function endWithThisProcess(): void {
  if (armed) return
  armed = true
  process.once('exit', () => {
    for (const child of live) child.kill('SIGKILL')
  })
}

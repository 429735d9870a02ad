/**
 * Runs a program of the examples as a newcomer would, in a process of its own, and reads what it prints line by line.
 *
 * Its lines are for people; programs that speak JSON lines are run by test/support/child.ts.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { createInterface } from 'node:readline'
import { projectPath, projectRoot } from '../support/project-root.js'

const forAWhileMs = 30_000

export class Program {
  readonly lines: string[] = []
  /** Resolves with the exit code, null after a signal, when all output is read. */
  readonly ended: Promise<number | null>
  readonly #process: ChildProcess
  readonly #watchers = new Set<() => void>()
  #stderr = ''

  /** `brokers` is its KAFKA_BROKERS; undefined = the environment names no cluster. */
  constructor(path: string, brokers: readonly string[] | undefined) {
    const { KAFKA_BROKERS: _named, KAFKA_BOOTSTRAP_SERVERS: _alsoNamed, ...environment } = process.env
    this.#process = spawn(process.execPath, ['--unhandled-rejections=strict', projectPath(path)], {
      cwd: projectRoot,
      stdio: ['ignore', 'pipe', 'pipe'],
      env: brokers === undefined ? environment : { ...environment, KAFKA_BROKERS: brokers.join(',') },
    })
    const { stdout, stderr } = this.#process
    stderr?.setEncoding('utf8').on('data', (text: string) => {
      this.#stderr += text
    })
    if (stdout !== null) {
      createInterface({ input: stdout }).on('line', (line) => {
        this.lines.push(line)
        this.#notify()
      })
    }
    this.ended = new Promise((resolve, reject) => {
      this.#process.once('error', reject)
      this.#process.once('close', (code) => resolve(code))
    })
    void this.ended.then(
      () => this.#notify(),
      () => this.#notify(),
    )
  }

  get output(): string {
    return `${this.lines.join('\n')}\n${this.#stderr}`
  }
  get stderr(): string {
    return this.#stderr
  }

  /** The first match of a line, once there is one. Rejects, with its output, when it ends or 30 s pass before. */
  async line(pattern: RegExp): Promise<RegExpExecArray> {
    let isOver = false
    const timer = setTimeout(() => {
      isOver = true
      this.#notify()
    }, forAWhileMs)
    try {
      for (;;) {
        const ended = isOver || this.#process.exitCode !== null || this.#process.signalCode !== null
        for (const line of this.lines) {
          const match = pattern.exec(line)
          if (match !== null) return match
        }
        if (ended) throw new Error(`No line like ${pattern}\n${this.output}`)
        await new Promise<void>((resolve) => this.#watchers.add(resolve))
      }
    } finally {
      clearTimeout(timer)
    }
  }

  signal(signal: NodeJS.Signals): void {
    this.#process.kill(signal)
  }

  /** Ends it if it has not ended. */
  async end(): Promise<void> {
    if (this.#process.exitCode === null) this.#process.kill('SIGKILL')
    await this.ended
  }

  #notify(): void {
    const watchers = [...this.#watchers]
    this.#watchers.clear()
    for (const watcher of watchers) watcher()
  }
}

/**
 * The one lane of a leadership: jobs run one at a time, in the order they came, except that an urgent one goes first. Two urgent ones in a
 * row leave no job waiting: where each takes longer than the time to the next, nothing else would ever run.
 *
 * It must not know what a job does. A job settles its own callers; what it throws ends nothing here.
 */

/** One turn in the lane. */
export interface Job {
  run(): Promise<void>
  /** Called instead of `run` when the lane was stopped first. */
  refuse(error: unknown): void
}

/** Runs jobs until it is stopped. */
export class Lane {
  readonly #urgent: () => Job | undefined
  readonly #jobs: Job[] = []
  readonly #idleWaiters: (() => void)[] = []
  #running = false
  #stopped: { readonly error: unknown } | undefined

  /** `urgent` is asked before each job, unless the one before was urgent and others wait; it answers with one that goes first. */
  constructor(urgent: () => Job | undefined) {
    this.#urgent = urgent
  }

  /** The job that would run last, if it has not begun. */
  get last(): Job | undefined {
    return this.#jobs.at(-1)
  }

  add(job: Job): void {
    if (this.#stopped !== undefined) {
      job.refuse(this.#stopped.error)
      return
    }
    this.#jobs.push(job)
    this.wake()
  }

  /** Lets the lane look for an urgent job, if it is idle. */
  wake(): void {
    if (this.#running) return
    this.#running = true
    void this.#run()
  }

  /** Resolves when no job is under way or waiting. */
  drained(): Promise<void> {
    if (!this.#running) return Promise.resolve()
    return new Promise((resolve) => this.#idleWaiters.push(resolve))
  }

  /** Refuses all waiting and later jobs; the one under way goes on. */
  stop(error: unknown): void {
    this.#stopped ??= { error }
    for (const job of this.#jobs.splice(0)) job.refuse(error)
  }

  async #run(): Promise<void> {
    // A turn later, so that calls of one tick share what they can.
    await Promise.resolve()
    let wasUrgent = false
    for (;;) {
      const isOthersTurn: boolean = wasUrgent && this.#jobs.length > 0
      const urgent: Job | undefined = this.#stopped === undefined && !isOthersTurn ? this.#urgent() : undefined
      const job = urgent ?? this.#jobs.shift()
      if (job === undefined) break
      wasUrgent = urgent !== undefined
      await job.run()
    }
    this.#running = false
    for (const resolve of this.#idleWaiters.splice(0)) resolve()
  }
}

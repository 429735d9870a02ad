/**
 * Who leads a fleet now, by what its members say.
 *
 * Members lead unasked too, and what two of them say may arrive in any order, so terms are ordered by their instants.
 */
import type { FleetMember, Leading } from './fleet-member.js'

/** A term as its member told it. */
export interface FleetTerm extends Leading {
  readonly by: FleetMember
}

export class FleetTerms {
  readonly #longestMs: number
  readonly #waiters = new Set<() => void>()
  #newest: FleetTerm | undefined

  /** A member that does not lead for `longestMs` is not followed any further. */
  constructor(longestMs: number) {
    this.#longestMs = longestMs
  }

  /** Takes note of every term of the member, until its process ends. */
  follow(by: FleetMember): void {
    const next = (): void => {
      by.leads(this.#longestMs).then(
        (leading) => {
          this.#add({ ...leading, by })
          next()
        },
        () => undefined,
      )
    }
    next()
  }

  /** The newest term, once it is a later one than `last`. */
  async after(last: FleetTerm | undefined): Promise<FleetTerm> {
    while (this.#newest === undefined || this.#newest.token === last?.token) {
      await new Promise<void>((resolve) => this.#waiters.add(resolve))
    }
    return this.#newest
  }

  #add(term: FleetTerm): void {
    if (this.#newest !== undefined && term.at < this.#newest.at) return
    this.#newest = term
    for (const resolve of this.#waiters) resolve()
    this.#waiters.clear()
  }
}

/**
 * A consumer's guard against what an older term sent: it remembers the greatest term it has seen of each role.
 *
 * Needed where stamped records are consumed without the broker's help: stock kafkajs consumers let aborted records through,
 * and a device behind a consumer may get an old command late. It compares terms, never tokens, which have no order, and it
 * looks at nothing but headers. It does no I/O and has no clock.
 */
import { utf8 } from '../format/bytes.js'
import { type Header, roleHeader, termHeader, tokenHeader } from '../format/headers.js'
import type { Role } from '../format/names.js'
import { readStamp } from '../format/stamp.js'

/** One value of a header as consumers hand it out. */
type HeaderValue = Uint8Array | string | null | undefined

/** Headers of a consumed record: kafkajs's shape (several values of one key are an array), or pairs in record order. */
export type ConsumedHeaders = Readonly<Record<string, HeaderValue | readonly HeaderValue[]>> | readonly Header[]

/**
 * What becomes of a record: `admitted` = of the greatest term seen of its role, or a greater one; `stale` = of an older term,
 * to be dropped; `unstamped` = no stamp, or none that can be read, so nothing is known: the caller's policy decides.
 */
export type Admission = 'admitted' | 'stale' | 'unstamped'

/**
 * Drops what an older term of a role sent.
 *
 * One guard per place at which records have their effect (a device, a table), fed in the order of arrival. It starts empty: the
 * first record of a role is admitted whatever its term, so a target that outlives the process keeps the term itself.
 *
 * What it does not do: a stamp is a claim. Whoever may WRITE to the consumed topic can forge one, and a single forged term of
 * 2^62 makes every true record of that role `stale` from then on; a forged role name costs memory, since one term is
 * remembered for each role name ever seen. Give WRITE on a guarded topic to members only.
 *
 * @example
 * const guard = new StaleTermGuard()
 * await consumer.run({
 *   eachMessage: async ({ message }) => {
 *     if (guard.admit(message.headers) === 'admitted') await act(message.value)
 *   },
 * })
 */
export class StaleTermGuard {
  readonly #greatestTerms: Map<Role, bigint> = new Map()

  /** Judges one record by its headers and remembers its term. Never throws; no headers are no stamp. */
  admit(headers: ConsumedHeaders | null | undefined): Admission {
    const stamp = readStamp(stampPairs(headers))
    if (stamp === undefined) return 'unstamped'
    const greatest = this.#greatestTerms.get(stamp.role)
    if (greatest !== undefined && stamp.term < greatest) return 'stale'
    this.#greatestTerms.set(stamp.role, stamp.term)
    return 'admitted'
  }
}

function stampPairs(headers: ConsumedHeaders | null | undefined): readonly Header[] {
  if (headers === null || headers === undefined) return []
  if (isPairs(headers)) return headers
  return [roleHeader, termHeader, tokenHeader].map((name): Header => {
    const values = Object.hasOwn(headers, name) ? headers[name] : undefined
    // Of several values the last one counts, as in `headerValue`.
    const value = isValues(values) ? values.at(-1) : values
    if (typeof value === 'string') return [name, utf8(value)]
    return [name, value instanceof Uint8Array ? value : null]
  })
}

function isPairs(headers: ConsumedHeaders): headers is readonly Header[] {
  return Array.isArray(headers)
}

function isValues(values: HeaderValue | readonly HeaderValue[]): values is readonly HeaderValue[] {
  return Array.isArray(values)
}

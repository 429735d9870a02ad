/**
 * Judges a run by what lies in its topic, against what its writers were told: a list of violations, empty when all of it holds.
 *
 * A pure function over records that raw-log.ts has read. It believes no writer and no library, and must not be lenient: what it
 * cannot explain is a violation. The demo's exit code rests on it.
 */
import { type Write, writeHeader } from './events.js'
import { headerText, type RawRecord } from './raw-log.js'

/** What is known of a run beside its log. */
export interface Run {
  readonly role: string
  /** Every guarded write that a writer told of. */
  readonly writes: readonly Write[]
  /** Terms whose leader was killed: what it wrote last, it could not tell. */
  readonly killedTerms: readonly bigint[]
}

export interface Verdict {
  /** Sentences; none when the run holds. */
  readonly violations: readonly string[]
  /** How many committed records each term has, terms ascending. */
  readonly committedByTerm: ReadonlyMap<bigint, number>
  readonly aborted: number
  readonly refusedAfterWaking: number
}

/** A run proves something only if it has this many terms of this many committed records each. */
export const leastTerms = 3
export const leastCommittedPerTerm = 50

/** Judges the records of the guarded topic, in offset order within each partition, as raw-log.ts reads them. */
export function check(records: readonly RawRecord[], run: Run): Verdict {
  const committed = records.filter(({ outcome }) => outcome === 'committed')
  const committedByTerm = countByTerm(committed)
  const refusedAfterWaking = run.writes.filter(({ outcome, afterWaking }) => outcome === 'refused' && afterWaking)
  return {
    violations: [
      ...unguarded(records),
      ...badStamps(committed, run.role),
      ...olderAfterNewer(committed),
      ...mixedTokens(committed),
      ...toldOtherwise(committed, run),
      ...tooLittle(committedByTerm, refusedAfterWaking.length),
    ],
    committedByTerm,
    aborted: records.filter(({ outcome }) => outcome === 'aborted').length,
    refusedAfterWaking: refusedAfterWaking.length,
  }
}

/** Every record is in a transaction, and every transaction has ended. */
function unguarded(records: readonly RawRecord[]): string[] {
  return records.flatMap((record) => {
    if (record.outcome === 'plain') return [`${place(record)} was written outside a transaction`]
    return record.outcome === 'open' ? [`${place(record)} is in a transaction that never ended`] : []
  })
}

/** A committed record names the role, a term and the very token that its batch was written under. */
function badStamps(committed: readonly RawRecord[], role: string): string[] {
  return committed.flatMap((record) => {
    const stampedRole = headerText(record, 'mandate-role')
    const token = headerText(record, 'mandate-token')
    const written = `${record.producerId}:${record.producerEpoch}`
    return [
      ...(stampedRole === role ? [] : [`${place(record)} names the role ${stampedRole}, not ${role}`]),
      ...(termOf(record) === undefined ? [`${place(record)} names no term`] : []),
      ...(token === written ? [] : [`${place(record)} names the token ${token}, and was written under ${written}`]),
    ]
  })
}

/** The claim of the whole library: in no partition does a committed record of an older term follow one of a newer term. */
function olderAfterNewer(committed: readonly RawRecord[]): string[] {
  const newest = new Map<number, bigint>()
  return committed.flatMap((record) => {
    const term = termOf(record)
    const before = newest.get(record.partition)
    if (term === undefined) return []
    if (before !== undefined && term < before) return [`${place(record)} of term ${term} follows one of term ${before}`]
    newest.set(record.partition, term)
    return []
  })
}

/** A term has one token, and a token one term. */
function mixedTokens(committed: readonly RawRecord[]): string[] {
  const tokenOfTerm = new Map<bigint, string>()
  const termOfToken = new Map<string, bigint>()
  return committed.flatMap((record) => {
    const term = termOf(record)
    const token = headerText(record, 'mandate-token')
    if (term === undefined || token === undefined) return []
    const otherToken = tokenOfTerm.get(term) ?? token
    const otherTerm = termOfToken.get(token) ?? term
    tokenOfTerm.set(term, otherToken)
    termOfToken.set(token, otherTerm)
    return [
      ...(otherToken === token ? [] : [`${place(record)}: term ${term} has two tokens, ${otherToken} and ${token}`]),
      ...(otherTerm === term ? [] : [`${place(record)}: token ${token} has two terms, ${otherTerm} and ${term}`]),
    ]
  })
}

/** What writers were told is what is there: committed once and where they were told, else not at all. */
function toldOtherwise(committed: readonly RawRecord[], { writes, killedTerms }: Run): string[] {
  const found = new Map<string, RawRecord[]>()
  const violations: string[] = []
  for (const record of committed) {
    const id = headerText(record, writeHeader) ?? ''
    const same = found.get(id)
    if (same === undefined) found.set(id, [record])
    else same.push(record)
  }
  const told = new Set<string>()
  for (const { id, term, outcome, code, position } of writes) {
    if (told.has(id)) violations.push(`Write ${id} was told twice`)
    told.add(id)
    const [record, ...more] = found.get(id) ?? []
    if (more.length > 0) violations.push(`Write ${id} was committed ${more.length + 1} times`)
    if (outcome === 'committed') {
      if (record === undefined) violations.push(`Write ${id} was reported as committed, and is not in the log`)
      else if (record.partition !== position?.partition || record.offset !== position.offset) {
        violations.push(`${place(record)} holds write ${id}, which was reported as committed elsewhere`)
      } else if (termOf(record) !== term) {
        violations.push(`${place(record)} holds write ${id} of term ${term} under another term`)
      }
    } else if (record !== undefined && outcome !== 'unknown') {
      violations.push(`${place(record)} is committed, and its writer was told ${outcome} (${code})`)
    }
  }
  for (const [id, records] of found) {
    const stray = told.has(id) ? [] : records.filter((record) => !killedTerms.includes(termOf(record) ?? -1n))
    violations.push(...stray.map((record) => `${place(record)} is committed, and no living writer told of it`))
  }
  return violations
}

function tooLittle(committedByTerm: ReadonlyMap<bigint, number>, refusedAfterWaking: number): string[] {
  const full = [...committedByTerm.values()].filter((count) => count >= leastCommittedPerTerm)
  const counts = [...committedByTerm].map(([term, count]) => `term ${term}: ${count}`).join(', ') || 'no term'
  return [
    ...(full.length >= leastTerms
      ? []
      : [`${leastTerms} terms of ${leastCommittedPerTerm} committed records are wanted, there are ${counts}`]),
    ...(refusedAfterWaking > 0 ? [] : ['No write of a woken process was refused']),
  ]
}

function countByTerm(committed: readonly RawRecord[]): ReadonlyMap<bigint, number> {
  const counts = new Map<bigint, number>()
  for (const record of committed) {
    const term = termOf(record)
    if (term !== undefined) counts.set(term, (counts.get(term) ?? 0) + 1)
  }
  return new Map([...counts].sort(([a], [b]) => (a < b ? -1 : 1)))
}

function termOf(record: RawRecord): bigint | undefined {
  const text = headerText(record, 'mandate-term')
  return text !== undefined && /^\d{1,19}$/.test(text) ? BigInt(text) : undefined
}

function place({ topic, partition, offset }: RawRecord): string {
  return `Record ${topic}-${partition}@${offset}`
}

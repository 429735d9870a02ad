/**
 * Judges the run of a mixed fleet by what lies in its two topics, against what its members and an observer told: a list of
 * violations, empty when all of it holds.
 *
 * Pure, over what raw-log.ts has read. It knows nothing of implementations but which members are ours, and must not be lenient.
 */
import type { RawRecord } from '../../examples/demo/raw-log.js'
import type { Authority } from '../../src/index.js'
import { type RoleInLog, tokensInOrder } from '../support/coordination-topic.js'
import type { Written } from './fleet-member.js'

/** One answer of an observer; its instants are of the wall clock that records are stamped by. */
export interface Observation {
  readonly startedAt: number
  readonly endedAt: number
  /** Undefined where it saw no lease. */
  readonly token: string | undefined
  readonly authority: Authority
}

export interface FleetRun {
  readonly role: RoleInLog
  /** Everything in the topic of guarded records, in offset order. */
  readonly commands: readonly RawRecord[]
  /** Every write that a member was told to be committed. */
  readonly told: readonly Written[]
  /** The member ids whose epoch is constant for a term (I4). */
  readonly ours: ReadonlySet<string>
  readonly observations: readonly Observation[]
}

interface Command extends Written {
  readonly offset: bigint
  readonly pair: string
  readonly at: bigint
}

/** Sentences; none when the run holds. */
export function violationsOf(run: FleetRun): readonly string[] {
  const commands = committedCommands(run.commands)
  const order = tokensInOrder(run.role)
  return [
    ...unguarded(run.commands),
    ...termsThatFall(order),
    ...olderAfterNewer(commands, order),
    ...underAnotherPair(commands, order, run.ours),
    ...brokenCounts(commands),
    ...toldOtherwise(commands, run.told),
    ...falselySuperseded(commands, run),
    ...falselyCurrent(run),
  ]
}

type Order = ReturnType<typeof tokensInOrder>

function committedCommands(records: readonly RawRecord[]): readonly Command[] {
  return records
    .filter(({ outcome }) => outcome === 'committed')
    .map(({ offset, value, producerId, producerEpoch, timestamp }) => {
      const written: Written = JSON.parse(String(value))
      return { ...written, offset, pair: `${producerId}:${producerEpoch}`, at: timestamp }
    })
}

function unguarded(records: readonly RawRecord[]): readonly string[] {
  return records.flatMap(({ offset, outcome }) =>
    outcome === 'plain' || outcome === 'open'
      ? [`Record ${offset} is ${outcome}: no guarded write that has ended`]
      : [],
  )
}

/** Each token leads once, and each later one under a greater term. */
function termsThatFall(order: Order): readonly string[] {
  const seen = new Set<string>()
  return order.flatMap(({ token, term }, index) => {
    const before = order[index - 1]
    const again = seen.has(token) ? [`Token ${token} led twice`] : []
    seen.add(token)
    return before === undefined || term > before.term ? again : [...again, `Term ${term} follows ${before.term}`]
  })
}

/** The claim: no committed write of an older term lies behind one of a newer term. */
function olderAfterNewer(commands: readonly Command[], order: Order): readonly string[] {
  const terms = new Map(order.map(({ token, term }) => [token, term]))
  let newest = -1n
  return commands.flatMap((command) => {
    const term = terms.get(command.token)
    if (term === undefined) return [`${named(command)} is of a token that never led`]
    if (term < newest) return [`${named(command)} of term ${term} follows one of term ${newest}`]
    newest = term
    return []
  })
}

/**
 * Ours are written under the token itself; others' under their token's producer id, at an epoch from the minted one to below that of
 * the next token: from there on it is the successor's pair.
 */
function underAnotherPair(commands: readonly Command[], order: Order, ours: ReadonlySet<string>): readonly string[] {
  return commands.flatMap((command) => {
    if (command.pair === command.token) return []
    const [minted, used] = [pairOf(command.token), pairOf(command.pair)]
    const next = order[order.findIndex(({ token }) => token === command.token) + 1]
    const end = next === undefined ? undefined : pairOf(next.token)
    const isAbove = used.producerId === minted.producerId && used.epoch > minted.epoch
    const isBelowNext = end === undefined || end.producerId !== used.producerId || used.epoch < end.epoch
    return isAbove && isBelowNext && !ours.has(command.member)
      ? []
      : [`${named(command)} was written under ${command.pair}; the next token is ${next?.token ?? 'not there'}`]
  })
}

/** Of each term, the writes 1, 2, 3 ... lie there in that order. */
function brokenCounts(commands: readonly Command[]): readonly string[] {
  const last = new Map<string, number>()
  return commands.flatMap((command) => {
    const expected = (last.get(command.token) ?? 0) + 1
    last.set(command.token, command.n)
    return command.n === expected ? [] : [`${named(command)} is there where write ${expected} belongs`]
  })
}

function toldOtherwise(commands: readonly Command[], told: readonly Written[]): readonly string[] {
  const there = new Set(commands.map(idOf))
  return told
    .filter((written) => !there.has(idOf(written)))
    .map((written) => `Write ${idOf(written)} was told as committed, and is not there`)
}

/** A token under which something was sent later, and committed, was not superseded. */
function falselySuperseded(commands: readonly Command[], { role, observations }: FleetRun): readonly string[] {
  const lastSent = new Map<string, bigint>()
  const sent = (token: string, at: bigint): void => {
    if (at > (lastSent.get(token) ?? -1n)) lastSent.set(token, at)
  }
  for (const { token, at } of commands) sent(token, at)
  for (const { token, raw } of role.leases) if (token !== undefined) sent(token, raw.timestamp)
  return observations.flatMap(({ token, authority, endedAt }) => {
    const later = lastSent.get(token ?? '')
    if (authority !== 'superseded' || later === undefined || later <= endedAt) return []
    return [`Token ${token} was called superseded at ${endedAt}, and wrote at ${later}`]
  })
}

/** A token whose successor had written its first lease before the question is not current. */
function falselyCurrent({ role, observations }: FleetRun): readonly string[] {
  const succeededAt = new Map<string, bigint>()
  let current: string | undefined
  for (const { token, raw } of role.leases) {
    if (token === undefined || token === current) continue
    if (current !== undefined) succeededAt.set(current, raw.timestamp)
    current = token
  }
  return observations.flatMap(({ token, authority, startedAt }) => {
    const end = succeededAt.get(token ?? '')
    if (authority !== 'current' || end === undefined || end >= startedAt) return []
    return [`Token ${token} was called current at ${startedAt}, and its successor led at ${end}`]
  })
}

function pairOf(text: string): { readonly producerId: bigint; readonly epoch: number } {
  const [producerId = '', epoch = ''] = text.split(':')
  return { producerId: BigInt(producerId), epoch: Number(epoch) }
}

function idOf({ member, token, n }: Written): string {
  return `${member}/${token}/${n}`
}

function named(command: Command): string {
  return `Record ${command.offset}, write ${idOf(command)},`
}

/**
 * The story that the demo tells: a leader is killed, the next one is stopped and woken, the third one resigns.
 *
 * Each act waits until what it shows has happened, and throws where it did not. What the log says of it all is judged by
 * checker.ts at the end, apart from what was told here.
 */
import type { CoordinationClient, LeadershipStatus } from '../../src/index.js'
import { type Cast, longestWaitMs, type Member, type Term } from './cast.js'
import { leastCommittedPerTerm } from './checker.js'
import { machineNow, type Write } from './events.js'
import { addPartitionUnder } from './old-token.js'

/** What the story is played on. */
export interface Stage {
  readonly cast: Cast
  /** A client that never contends: it only describes. */
  readonly observer: CoordinationClient
  readonly role: string
  readonly commandsTopic: string
  readonly bootstrap: readonly string[]
  readonly leaseMs: number
  readonly tell: (line: string) => void
}

/** More than the checker wants, so that no term is short by a write that a signal cut off. */
const writesPerTerm = leastCommittedPerTerm + 25
const lookEveryMs = 50
/** Within this time a leader makes some writes, so a signal after a random part of it meets any instant of one. */
const anyInstantMs = 10

/** Plays it all; answers the terms whose leader was killed. */
export async function play(stage: Stage): Promise<{ readonly killedTerms: readonly bigint[] }> {
  const first = await acquired(stage, undefined)
  const startedIn = ms(first.at - stage.cast.startedAt)
  stage.tell(`${first.member.name} leads ${startedIn} after the processes started: ${named(first)}`)
  await waiting(stage, stage.cast.othersThan(first.member))
  await commanded(stage, first)

  const second = await killed(stage, first)
  await commanded(stage, second)

  const third = await stoppedAndWoken(stage, second)
  const fourth = await resigned(stage, third)
  await commanded(stage, fourth)

  await described(stage, fourth)
  return { killedTerms: [first.term] }
}

async function killed(stage: Stage, leader: Term): Promise<Term> {
  const { cast, tell } = stage
  cast.dismiss(leader.member)
  tell('')
  tell(`${leader.member.name} is killed with kill -9, in the middle of its writing`)
  await cast.breathe(Math.random() * anyInstantMs)
  const at = machineNow()
  await leader.member.kill()
  const next = await acquired(stage, leader)
  tell(`${next.member.name} leads ${ms(next.at - at)} later: ${named(next)}`)
  tell(`  (its lease of ${stage.leaseMs} ms had to run out: nobody can tell a dead leader from a silent one)`)
  return next
}

async function stoppedAndWoken(stage: Stage, leader: Term): Promise<Term> {
  const { cast, tell } = stage
  const { member } = leader
  tell('')
  tell(`${member.name} is stopped with SIGSTOP, in the middle of its writing, and believes that it leads`)
  await cast.breathe(Math.random() * anyInstantMs)
  const at = machineNow()
  member.stop()
  const next = await acquired(stage, leader)
  tell(`${next.member.name} leads ${ms(next.at - at)} later: ${named(next)}`)
  await commanded(stage, next)
  await cast.breathe(Math.max(0, at + stage.leaseMs + lookEveryMs - machineNow()))

  tell('')
  tell(
    `${member.name} is woken with SIGCONT after ${ms(machineNow() - at)}, and writes under its old token ${leader.token}`,
  )
  const toldBefore = cast.writes.length
  member.wake()
  member.tell('write')
  const write = await cast.until(`${member.name} tells of its write after waking`, () =>
    cast.writes.find((one) => one.member === member.name && one.afterWaking),
  )
  if (write.outcome !== 'refused' || (write.code !== 'LEASE_EXPIRED' && write.code !== 'FENCED')) {
    throw new Error(`The write of the woken ${member.name} was not refused: ${write.outcome} ${write.code ?? ''}`)
  }
  tell(`  its write is refused: ${write.code}`)
  await refusedByHand(stage, leader)

  const before = cast.writesOf(next, 'committed').length
  await waiting(stage, [member])
  // It contends again only after its work has settled, so by now it has told of every write.
  const caught = cast.writes.slice(toldBefore).find((one) => one.member === member.name && !one.afterWaking)
  if (caught !== undefined) {
    const reason = caught.code === undefined ? '' : ` (${caught.code})`
    tell(`  the write that the stop caught under way: ${caught.outcome}${reason}`)
  }
  await cast.until(`${next.member.name} goes on`, () => cast.writesOf(next, 'committed')[before + 10])
  if (cast.terms.at(-1) !== next) throw new Error(`${next.member.name} was deposed when ${member.name} woke up`)
  tell(`${next.member.name} leads on in term ${next.term}; ${member.name} waits at the end of the queue`)
  return next
}

async function refusedByHand({ role, commandsTopic, bootstrap, tell }: Stage, leader: Term): Promise<void> {
  const answer = await addPartitionUnder(leader.token, role, commandsTopic, bootstrap)
  tell(`  AddPartitionsToTxn by hand under ${leader.token}: the broker answers ${answer.code} ${answer.name}`)
  const fenced = ['PRODUCER_FENCED', 'INVALID_PRODUCER_EPOCH', 'INVALID_PRODUCER_ID_MAPPING']
  if (!fenced.includes(answer.name)) throw new Error(`The broker did not refuse the old token ${leader.token}`)
}

async function resigned(stage: Stage, leader: Term): Promise<Term> {
  const { cast, tell } = stage
  const { member } = leader
  cast.dismiss(member)
  tell('')
  tell(`${member.name} resigns`)
  member.tell('resign')
  const next = await acquired(stage, leader)
  const at = await cast.until(`${member.name} says when it resigned`, () => member.resigningAt)
  tell(`${next.member.name} leads: handed over in ${ms(next.at - at)}, ${named(next)}`)
  await endedWell(member)
  return next
}

async function described(stage: Stage, leader: Term): Promise<void> {
  const { cast, observer, role, tell } = stage
  const status = await observer.describe(role)
  const { state, holder, token, term, authority, lease, roster } = status
  tell('')
  tell(`describe('${role}'), asked by a process that does not take part:`)
  tell(`  ${state} by ${holder}, token ${token}, term ${term}; the token is ${authority} for the broker`)
  tell(`  lease ends in ${ms(lease?.expiresInMs ?? 0)} unless renewed; waiting: ${names(status) || 'nobody'}`)
  const isRight =
    state === 'held' &&
    holder === leader.member.name &&
    `${token}` === leader.token &&
    term === leader.term &&
    authority === 'current' &&
    roster.length === 0
  if (!isRight) throw new Error(`describe does not say that ${leader.member.name} leads in term ${leader.term} alone`)
  cast.dismiss(leader.member)
  leader.member.tell('end')
  await endedWell(leader.member)
  const after = await observer.describe(role)
  if (after.state !== 'vacant') throw new Error(`${leader.member.name} has ended, and the role is ${after.state}`)
  tell(`${leader.member.name} ends cleanly; the role is vacant`)
}

/** The term that follows `before`. */
async function acquired({ cast }: Stage, before: Term | undefined): Promise<Term> {
  const index = before === undefined ? 0 : cast.terms.indexOf(before) + 1
  const term = await cast.until('a member leads', () => cast.terms[index])
  if (before !== undefined && term.term <= before.term) {
    throw new Error(`Term ${term.term} of ${term.member.name} does not rise above term ${before.term}`)
  }
  return term
}

/** Waits until the leader has committed enough, and tells how long one write took. */
async function commanded({ cast, tell }: Stage, leader: Term): Promise<void> {
  const what = `${leader.member.name} commits ${writesPerTerm} commands`
  await cast.until(what, () => cast.writesOf(leader, 'committed')[writesPerTerm - 1])
  const committed = cast.writesOf(leader, 'committed')
  const aborted = cast.writesOf(leader, 'aborted').length
  tell(`  ${committed.length} guarded commands committed, median ${ms(median(committed))}`)
  if (aborted > 0) tell(`  ${aborted} given up by its own code after the record was sent: aborted`)
}

/** Waits until these members, and no others, are in the queue. */
async function waiting({ cast, observer, role, tell }: Stage, members: readonly Member[]): Promise<void> {
  const expected = members.map(({ name }) => name).sort()
  const giveUpAt = machineNow() + longestWaitMs
  for (;;) {
    const status = await observer.describe(role)
    const found = status.roster.map(({ memberId }): string => memberId).sort()
    if (found.join() === expected.join()) {
      tell(`  in the queue: ${names(status)}`)
      return
    }
    if (machineNow() > giveUpAt) throw new Error(`Not ${expected} but ${found} wait for the role`)
    await cast.breathe(lookEveryMs)
  }
}

async function endedWell(member: Member): Promise<void> {
  const { code, signal } = await member.ended
  if (code !== 0 || member.complaint !== '') {
    throw new Error(`${member.name} ended with ${signal ?? `code ${code}`}. ${member.complaint}`)
  }
}

function named({ token, term }: Term): string {
  return `token ${token}, term ${term}`
}

function names({ roster }: LeadershipStatus): string {
  return roster.map(({ memberId, rank }) => `${memberId} (rank ${rank})`).join(', ')
}

function median(writes: readonly Write[]): number {
  const durations = writes.map(({ durationMs }) => durationMs).sort((a, b) => a - b)
  return durations[Math.floor(durations.length / 2)] ?? Number.NaN
}

function ms(duration: number): string {
  return duration < 10 ? `${duration.toFixed(1)} ms` : `${Math.round(duration)} ms`
}

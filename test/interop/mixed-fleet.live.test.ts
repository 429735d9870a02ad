/**
 * A fleet of all implementations through many take-overs, crashes and resignations in turn, while every leader writes and an observer of
 * ours describes: then the raw log must show that the role's terms did not mix, and that nobody was told anything else.
 *
 * Some take-overs come unasked: ports challenge after a resignation whatever their rank, so two may mint, and the first one's term
 * ends at once. That is theirs to have; whose writes count must be as clear as ever, so the checker forgives nothing for it.
 */
import { setTimeout as delay } from 'node:timers/promises'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { readCommittedLog } from '../../examples/demo/raw-log.js'
import { describeWithKafka } from '../kafka/suites.js'
import { type RoleInLog, tokensInOrder } from '../support/coordination-topic.js'
import { rounds, tell } from '../support/form.js'
import { kinds } from '../support/kinds.js'
import { type Observation, violationsOf } from './fleet-checker.js'
import { discardFleetAfterEach, type FleetMember, type Implementation, type Written } from './fleet-member.js'
import { deadlineOf, FleetStage, shortLease, tellTimes } from './fleet-stage.js'
import { type FleetTerm, FleetTerms } from './fleet-terms.js'
import { describeWithPorts, ports } from './port-program.js'

const takeOvers = rounds(6, 50)
/** Leaves the processor to the members. */
const betweenDescribesMs = 5
/** What each leader writes at least before it is to go. */
const leastWritten = 3
const fleet: readonly (readonly [memberId: string, implementation: Implementation])[] = [
  ['ours-1', 'mandate'],
  ...ports.map((port) => [port, port] as const),
  ['ours-2', 'mandate'],
]

const longestMs = 60_000 + takeOvers * 15_000

interface TakeOver {
  readonly way: 'kill' | 'resign'
  /** When it was killed, or told to resign. */
  readonly askedAt: number
  readonly from: FleetTerm
  readonly to: FleetTerm
}

describe.each(kinds())('mixed fleet: $name', ({ name, kind }) => {
  describeWithKafka('on one role', kind, (cluster) => {
    let stage: FleetStage
    beforeEach(async () => {
      stage = await FleetStage.open(cluster().bootstrap)
    })
    afterEach(() => stage.close())
    discardFleetAfterEach()

    describeWithPorts(`of ours, ${ports.join(' and ')}`, ports, () => {
      test(`keeps its terms apart over ${takeOvers} take-overs`, { timeout: longestMs }, async () => {
        const terms = new FleetTerms(longestMs)
        const living = new Set<FleetMember>()
        const everyone: FleetMember[] = []
        const start = async (memberId: string, implementation: Implementation): Promise<void> => {
          const member = await stage.start(implementation, memberId, shortLease)
          living.add(member)
          everyone.push(member)
          terms.follow(member)
        }
        for (const [memberId, implementation] of fleet) await start(memberId, implementation)
        const watching = watch(stage)
        const done: TakeOver[] = []
        // Who went last stays away over the next take-over, or two ports would pass the role to and fro.
        let comeBack = async (): Promise<unknown> => undefined
        let leader = await terms.after(undefined)
        while (done.length < takeOvers) {
          const { by, token } = leader
          const overtaken = terms.after(leader)
          // A term that ends unasked has perhaps no such write.
          const hasWritten = by.hasWritten(token, leastWritten).then(() => undefined)
          hasWritten.catch(() => undefined)
          const unasked = await Promise.race([overtaken, hasWritten])
          if (unasked !== undefined) {
            leader = unasked
            continue
          }
          // Half-way out of step, because who leads next goes round as evenly: else a port would only ever be killed, or only resign.
          const step = done.length + (done.length < takeOvers / 2 ? 0 : 1)
          const way = step % 2 === 0 ? 'kill' : 'resign'
          const askedAt = Date.now()
          if (way === 'kill') {
            living.delete(by)
            await by.kill()
          } else if ((await by.ask({ do: 'resign' })).error !== undefined) {
            // Its term had ended before it could.
            leader = await overtaken
            continue
          }
          done.push({ way, askedAt, from: leader, to: await overtaken })
          leader = await overtaken
          await comeBack()
          comeBack = () => (way === 'kill' ? start(by.memberId, by.implementation) : by.call({ do: 'contend' }))
        }
        const observations = await watching.end()
        for (const member of living) await member.end()

        const role = await stage.log()
        const commands = await readCommittedLog(stage.bootstrap, stage.commands)
        const told = everyone.flatMap(toldBy)
        const ours = new Set(fleet.filter(([, one]) => one === 'mandate').map(([memberId]) => memberId))
        expect(violationsOf({ role, commands, told, ours, observations })).toEqual([])

        const order = tokensInOrder(role)
        report(name, done, role, observations)
        tell(`${order.length} terms, ${told.length} writes told, ${observations.length} statuses`)
        expect(order.length).toBeGreaterThan(takeOvers)
        expect(told.length).toBeGreaterThanOrEqual(leastWritten * takeOvers)
        const led = new Set(
          everyone.filter((member) => member.said('leading').length > 0).map((one) => one.implementation),
        )
        expect([...led].sort(), 'each has led').toEqual(['mandate', ...ports].sort())
        const current = new Set(
          observations.filter(({ authority }) => authority === 'current').map(({ token }) => token),
        )
        expect(current.size, 'the observer saw what it was to judge').toBeGreaterThan(takeOvers / 2)
      })
    })
  })
})

function toldBy(member: FleetMember): readonly Written[] {
  return member.said('wrote').map(({ token, n }) => ({ member: member.memberId, token: String(token), n: Number(n) }))
}

/** Describes the role without an end, until `end`. */
function watch(stage: FleetStage): { end(): Promise<readonly Observation[]> } {
  const observations: Observation[] = []
  let isOver = false
  const watching = (async () => {
    while (!isOver) {
      const startedAt = Date.now()
      const { token, authority } = await stage.describe()
      observations.push({ startedAt, endedAt: Date.now(), token: token?.toString(), authority })
      await delay(betweenDescribesMs)
    }
  })()
  return {
    end: async () => {
      isOver = true
      await watching
      return observations
    },
  }
}

/**
 * Prints how long each kind of take-over took: from the call of a resignation, and from the deadline of a dead leader's last lease. Who
 * led before that deadline had minted before the leader was dead.
 */
function report(name: string, done: readonly TakeOver[], role: RoleInLog, observations: readonly Observation[]): void {
  const times = new Map<string, number[]>()
  let early = 0
  for (const { way, askedAt, from, to } of done) {
    const label = `${name}, ${way}: ${from.by.implementation} to ${to.by.implementation}`
    const took = to.at - (way === 'resign' ? askedAt : deadlineOf(role, from.token))
    if (took < 0) early += 1
    else times.set(label, [...(times.get(label) ?? []), took])
  }
  for (const [label, list] of [...times].sort()) tellTimes(label, list)
  const counts = new Map<string, number>()
  for (const { authority } of observations) counts.set(authority, (counts.get(authority) ?? 0) + 1)
  tell(`${early} were under way before a kill; described: ${[...counts].map((count) => count.join(' ')).join(', ')}`)
}

/**
 * Two versions of this library on one role: an earlier commit and the current build, each a process, take over from each other and
 * describe each other, and the broker refuses what the deposed one of either version writes.
 *
 * The earlier commit is pinned below. To move it forward, by hand and after a change of records or rules was released: pack a commit of that
 * release, whose member program must know the commands that are used here, delete the earlier archive, and put the hash below.
 *
 *     git archive <commit> package.json tsconfig.json src test/client/programs/member.ts test/support/aborted.ts |
 *       gzip -9n > test/interop/earlier/<commit>.tar.gz
 */
import { readFileSync } from 'node:fs'
import { beforeAll, describe, expect, test } from 'vitest'
import { headerText, readCommittedLog } from '../../examples/demo/raw-log.js'
import { discardMembersAfterEach, guardedTopic, Member, seenWaiting, type TermText } from '../client/programs/live.js'
import { describeWithKafka, freshName } from '../kafka/suites.js'
import { roleInLog, tokensInOrder } from '../support/coordination-topic.js'
import { rounds, tell } from '../support/form.js'
import { kinds } from '../support/kinds.js'
import { projectPath } from '../support/project-root.js'
import { buildOlder, earlierSource, memberProgram, olderFolder } from './older-build.js'

const earlierCommit = '06c76156291c1b39f04f2c5415e7375edffa1b2b'

type Version = 'old' | 'new'
type Ending = 'resigns' | 'is killed' | 'is stopped and wakes'

const programs: Readonly<Record<Version, string>> = {
  old: `${olderFolder(earlierCommit)}/${memberProgram}`,
  new: memberProgram,
}
/** Nobody's lease runs out. */
const longLease = { leaseMs: 30_000 }
const shortLease = { leaseMs: 3_000, renewIntervalMs: 500, staggerMs: 250 }
const turns = rounds(1, 10)
const orders: readonly (readonly [Version, Version])[] = [
  ['old', 'new'],
  ['new', 'old'],
]
const endings: readonly Ending[] = ['resigns', 'is killed', 'is stopped and wakes']

describe('two versions', () => {
  beforeAll(() => buildOlder(earlierCommit))

  describe.each(kinds())('$name', ({ name, kind }) => {
    describeWithKafka('on one role', kind, (cluster) => {
      discardMembersAfterEach()

      /** A member of that build, as the process itself tells. */
      async function start(version: Version, memberId: string, lease: object): Promise<Member> {
        const setup = { brokers: cluster().bootstrap, memberId, ...lease }
        const member = await Member.start(setup, programs[version])
        const { path } = await member.child.next('runs')
        expect(path).toMatch(new RegExp(`/build/${programs[version]}$`))
        return member
      }

      for (const [first, second] of orders) {
        for (const ending of endings) {
          test(`${first} leads and ${ending}, ${second} leads next (turns: ${turns})`, {
            timeout: 180_000,
          }, async () => {
            const { bootstrap } = cluster()
            const role = freshName('versions')
            const commands = await guardedTopic(bootstrap)
            const lease = ending === 'resigns' ? longLease : shortLease
            const observers = [await start('old', 'observer-old', lease), await start('new', 'observer-new', lease)]
            const led: TermText[] = []
            const waits: number[] = []

            /** Its term is new, it writes under it, and both versions call it the leader. */
            async function leads(member: Member, term: TermText): Promise<void> {
              expect(term.memberId).toBe(member.memberId)
              led.push(term)
              const written = member.ask({ do: 'write', role, topic: commands }, 120_000)
              // The member's end, too, ends what it was asked.
              written.catch(() => undefined)
              await member.child.next('wrote')
              for (const observer of observers) {
                expect(await observer.call({ do: 'describe', role })).toMatchObject({
                  state: 'held',
                  holder: term.memberId,
                  token: term.token,
                  term: term.term,
                  termExact: true,
                  authority: 'current',
                })
              }
              await member.child.next('wrote')
            }

            // They follow the role from before its first record, so the age of each lease is proven to them.
            for (const observer of observers) {
              expect(await observer.call({ do: 'describe', role })).toMatchObject({ state: 'vacant' })
            }
            let leader = await start(first, `${first}-0`, lease)
            await leads(leader, await leader.acquire(role))
            let versions: readonly [Version, Version] = [first, second]
            for (let turn = 1; turn <= turns; turn++) {
              const [leading, waiting] = versions
              const successor = await start(waiting, `${waiting}-${turn}`, lease)
              const acquired = successor.acquire(role, 60_000)
              for (const observer of observers) await seenWaiting(observer, role, successor.memberId)
              const startedAt = Number(process.hrtime.bigint()) / 1e6
              if (ending === 'resigns') expect(await leader.call({ do: 'resign', role })).toBe('resigned')
              else if (ending === 'is killed') await leader.kill()
              else leader.child.stop()
              const term = await acquired
              waits.push(term.at - startedAt)
              await leads(successor, term)
              if (ending === 'is stopped and wakes') await wakes(leader)
              if (ending !== 'is killed') await leader.end()
              leader = successor
              versions = [waiting, leading]
            }
            tell(
              `${name}, ${first} leads first and ${ending}: ${waits.map((ms) => ms.toFixed(0)).join(', ')} ms to the next leader`,
            )
            await leader.call({ do: 'resign', role })
            await Promise.all([leader, ...observers].map((member) => member.end()))

            const order = tokensInOrder(await roleInLog(bootstrap, '__coordination_state', role))
            expect(order.map(({ token, term }) => ({ token, term: term.toString() }))).toEqual(
              led.map(({ token, term }) => ({ token, term })),
            )
            const terms = led.map(({ term }) => BigInt(term))
            expect(terms, 'terms strictly rise').toEqual([...new Set(terms)].sort((a, b) => (a < b ? -1 : 1)))
            const committed = (await readCommittedLog(bootstrap, commands)).filter(
              ({ outcome }) => outcome === 'committed',
            )
            const written = committed.map((record) => headerText(record, 'mandate-term'))
            expect(
              written.filter((term, index) => term !== written[index - 1]),
              'no write of an older term behind one of a newer',
            ).toEqual(led.map(({ term }) => term))
          })
        }
      }

      /** Its process goes on after another leads: its writes are refused, and it learns that its term is over. */
      async function wakes(member: Member): Promise<void> {
        member.child.continue()
        await member.child.next('refused')
        const { error } = await member.child.next('over')
        expect(['FENCED', 'LEASE_EXPIRED']).toContain(Object(error).code)
      }

      test('the control: they are two, and of different sources', async () => {
        const file = 'src/client/client.ts'
        expect(earlierSource(earlierCommit, file), 'move the pin').not.toBe(readFileSync(projectPath(file), 'utf8'))
        const [old, young] = [await start('old', 'one', longLease), await start('new', 'two', longLease)]
        expect(new Set([old, young].map(({ child }) => child.events[0]?.path)).size).toBe(2)
        await Promise.all([old.end(), young.end()])
      })
    })
  })
})

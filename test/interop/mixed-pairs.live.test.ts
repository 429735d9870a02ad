/**
 * Ours and one member of another port on one role, each a process: they wait for each other, take over from each other, fence each
 * other and read each other's records alike.
 *
 * Members lead by their own rules and write guarded records all the while; what happened is judged by the raw log.
 */
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { headerText, readCommittedLog } from '../../examples/demo/raw-log.js'
import { decodeKey } from '../../src/index.js'
import { describeWithKafka } from '../kafka/suites.js'
import { registeredMembers, tokensInOrder } from '../support/coordination-topic.js'
import { isLongForm, rounds, testWhere } from '../support/form.js'
import { kinds } from '../support/kinds.js'
import { mintByHand } from '../support/look.js'
import { discardFleetAfterEach, type Implementation } from './fleet-member.js'
import { deadlineOf, FleetStage, longLease, shortLease, tellTimes } from './fleet-stage.js'
import { JavaMember } from './java-member.js'
import { describeWithPorts, type Port, ports } from './port-program.js'

/** As this library, kafka-clients and franz-go name the refusal of a pair that is not the newest. */
const fencedNames = /^(FENCED|ProducerFenced|InvalidProducerEpoch|PRODUCER_FENCED|INVALID_PRODUCER_EPOCH)/
const handOvers = rounds(2, 20)
/** The short form has the crashes of the queue. */
const crashes = 6

describe.each(kinds())('mixed pairs: $name', ({ name, kind }) => {
  describeWithKafka('on one role', kind, (cluster) => {
    let stage: FleetStage
    beforeEach(async () => {
      stage = await FleetStage.open(cluster().bootstrap)
    })
    afterEach(() => stage.close())
    discardFleetAfterEach()

    for (const port of ports) describeWithPorts(`ours and ${port}`, [port], () => withPort(port))

    function withPort(port: Port): void {
      test(`hand over by resigning, ${handOvers} times each way`, { timeout: 120_000 }, async () => {
        const ours = await stage.start('mandate', 'ours', longLease)
        const led = [(await ours.leads()).token]
        const theirs = await stage.start(port, 'theirs', longLease)
        await stage.untilQueue(['theirs'])
        const toTheirs: number[] = []
        const toOurs: number[] = []
        for (let turn = 0; turn < handOvers; turn++) {
          await ours.hasWritten(led.at(-1) ?? '', 2)
          const toThem = Date.now()
          const [next] = await Promise.all([theirs.leads(), ours.call({ do: 'resign' })])
          toTheirs.push(next.at - toThem)
          led.push(next.token)
          await ours.call({ do: 'contend' })
          await stage.untilQueue(['ours'])
          await theirs.hasWritten(next.token, 2)
          const toUs = Date.now()
          const [back] = await Promise.all([ours.leads(), theirs.call({ do: 'resign' })])
          toOurs.push(back.at - toUs)
          led.push(back.token)
          // A lease that is committed, and whose marker is not written yet, is none to a reader up to the last stable offset: it would mint
          // at once. The next transaction begins only behind the marker.
          await ours.hasWritten(back.token, 1)
          await theirs.call({ do: 'contend' })
        }
        tellTimes(`${name}, resign: ours to ${port}`, toTheirs)
        tellTimes(`${name}, resign: ${port} to ours`, toOurs)

        const order = tokensInOrder(await stage.log())
        expect(order.map(({ token }) => token)).toEqual(led)
        expect(order.map(({ term }) => term)).toEqual([...order.map(({ term }) => term)].sort((a, b) => Number(a - b)))
        expect([...ours.said('lost'), ...theirs.said('lost')]).toEqual([])
        await Promise.all([ours.end(), theirs.end()])
      })

      testWhere(isLongForm, `take over from a dead one, ${crashes} times each way`, { timeout: 240_000 }, async () => {
        const led: string[] = []
        const toTheirs: number[] = []
        const toOurs: number[] = []
        let ours = await stage.start('mandate', 'ours', shortLease)
        led.push((await ours.leads()).token)
        let theirs = await stage.start(port, 'theirs', shortLease)
        for (let turn = 0; turn < crashes; turn++) {
          await stage.untilQueue(['theirs'])
          await ours.kill()
          const next = await theirs.leads()
          toTheirs.push(next.at - deadlineOf(await stage.log(), led.at(-1)))
          led.push(next.token)
          ours = await stage.start('mandate', 'ours', shortLease)
          await stage.untilQueue(['ours'])
          await theirs.kill()
          const back = await ours.leads()
          toOurs.push(back.at - deadlineOf(await stage.log(), led.at(-1)))
          led.push(back.token)
          // A port's dead process leaves its registration; ours swept it with its first lease.
          expect(registeredMembers(await stage.log())).toEqual(['ours'])
          theirs = await stage.start(port, 'theirs', shortLease)
        }
        tellTimes(`${name}, kill: ours to ${port}, past the deadline`, toTheirs)
        tellTimes(`${name}, kill: ${port} to ours, past the deadline`, toOurs)
        expect(Math.min(...toTheirs, ...toOurs), 'nobody was early').toBeGreaterThanOrEqual(0)
        expect(tokensInOrder(await stage.log()).map(({ token }) => token)).toEqual(led)
        await Promise.all([ours.end(), theirs.end()])
      })

      test.each(['mandate', port] as const)(
        'refuse the writes of a deposed leader of %s that wakes',
        async (deposed) => {
          const old = await stage.start(deposed, 'old', shortLease)
          const before = await old.leads()
          const next = await stage.start(deposed === 'mandate' ? port : 'mandate', 'next', shortLease)
          await stage.untilQueue(['next'])
          await old.hasWritten(before.token, 3)
          old.child.stop()
          const after = await next.leads()
          await next.hasWritten(after.token, 3)
          if (deposed !== 'mandate') await old.child.next('registered')
          old.child.continue()
          const reason = await old.loses(before.token)
          // Where the stop fell between a request and its answer, its own deadline may be noticed first.
          if (!['LEASE_EXPIRED', 'DeadlineExceeded'].includes(reason)) expect(reason).toMatch(fencedNames)
          await next.hasWritten(after.token, Number(next.said('wrote').at(-1)?.n ?? 0) + 3)

          const log = await readCommittedLog(stage.bootstrap, stage.commands)
          const tokens = log
            .filter(({ outcome }) => outcome === 'committed')
            .map(({ value }) => String(JSON.parse(String(value)).token))
          const changes = tokens.filter((token, index) => token !== tokens[index - 1])
          expect(changes, 'nothing of the old term is committed behind the first of the new one').toEqual([
            before.token,
            after.token,
          ])
          // It comes back to the queue: ours, and a port whose registration we swept, by registering again.
          await stage.untilQueue(['old'])
          if (deposed !== 'mandate') await old.child.next('registered')
          const [again] = await Promise.all([old.leads(), next.call({ do: 'resign' })])
          expect(tokensInOrder(await stage.log()).map(({ token }) => token)).toEqual([
            before.token,
            after.token,
            again.token,
          ])
          await Promise.all([old.end(), next.end()])
        },
      )

      test.each<readonly Implementation[]>([
        ['mandate', port],
        [port, 'mandate'],
      ])('lead in the order of their offsets: %s before %s', async (...queue) => {
        const holder = await stage.start('mandate', 'holder', shortLease)
        const { token } = await holder.leads()
        const waiting = []
        for (const [index, implementation] of queue.entries()) {
          waiting.push(await stage.start(implementation, `${index}-${implementation}`, shortLease))
          await stage.untilQueue(waiting.map(({ memberId }) => memberId))
        }
        const ranked = waiting.map(({ memberId }, rank) => ({ memberId, rank }))
        for (const member of waiting) {
          const { roster } = await stage.untilAgreed(member)
          expect(roster.filter(({ rank }) => rank !== null)).toMatchObject(ranked)
        }
        const [first, second] = waiting
        if (first === undefined || second === undefined) throw new Error('two wait')
        await holder.kill()
        const next = await first.leads()
        expect(second.said('leading')).toEqual([])
        await first.hasWritten(next.token, 1)
        await first.kill()
        const last = await second.leads()
        await second.hasWritten(last.token, 1)

        const log = await stage.log()
        expect(tokensInOrder(log).map((entry) => entry.token)).toEqual([token, next.token, last.token])
        for (const [late, to, of] of [
          [next.at - deadlineOf(log, token), first, 'mandate'],
          [last.at - deadlineOf(log, next.token), second, first.implementation],
        ] as const) {
          tellTimes(`${name}, kill: ${of} to ${to.implementation}, past the deadline`, [late])
          expect(late).toBeGreaterThanOrEqual(0)
        }
        // A dead leader's registration goes with the first lease of ours.
        if (second.implementation === 'mandate') expect(registeredMembers(log)).not.toContain(first.memberId)
        await second.end()
      })

      test('never show a healthy leader of theirs as superseded, nor a fenced one as current', async () => {
        const theirs = await stage.start(port, 'theirs', shortLease)
        const { token } = await theirs.leads()
        const seen = new Map<string, number>()
        const least = 50
        await stage.until(
          () => theirs.said('wrote').length >= least && [...seen.values()].reduce((sum, one) => sum + one, 0) >= least,
          ({ authority, holder }) => {
            expect(holder).toBe('theirs')
            seen.set(authority, (seen.get(authority) ?? 0) + 1)
          },
        )
        expect(theirs.said('lost')).toEqual([])
        expect([...seen.keys()], 'the control: it is seen at all, and not as superseded').not.toContain('superseded')
        expect(seen.get('current') ?? 0).toBeGreaterThan(0)

        theirs.child.stop()
        await mintByHand(stage.bootstrap, stage.role)
        for (let looks = 0; looks < least; looks++) {
          const { holder, current, authority } = await stage.describe()
          expect({ holder, current }).toEqual({ holder: 'theirs', current: false })
          if (kind.transactionVersion < 2) expect(authority).toBe('superseded')
          expect(await stage.observer.checkToken(stage.role, token)).not.toBe('current')
        }
        theirs.child.continue()
        expect(await theirs.loses(token)).toMatch(fencedNames)
        await theirs.end()
      })

      test('read a role with everything in its history alike', async () => {
        const aborter = await JavaMember.start({ bootstrap: stage.bootstrap, role: stage.role, memberId: 'aborter' })
        const { partition } = stage
        await aborter.call({ do: 'init' })
        await aborter.call({ do: 'register', topic: stage.topic, partition })
        await aborter.call({ do: 'begin' })
        await aborter.call({ do: 'lease', topic: stage.topic, partition, leaseMs: 600_000 })
        await aborter.call({ do: 'abort' })
        await aborter.end()
        const first = await stage.start('mandate', 'ours', shortLease)
        await first.leads()
        const theirs = await stage.start(port, 'theirs', longLease)
        await stage.untilQueue(['theirs'])
        const [ledByThem] = await Promise.all([theirs.leads(), first.call({ do: 'resign' })])
        await first.end()
        expect((await stage.untilAgreed(theirs)).token).toBe(ledByThem.token)

        const ours = await stage.start('mandate', 'ours', longLease)
        await stage.untilQueue(['ours'])
        const [led] = await Promise.all([ours.leads(), theirs.call({ do: 'resign' })])
        await theirs.call({ do: 'contend' })
        // One that has watched, and one that reads all of it now.
        const late = await stage.start(port, 'late', longLease)
        await late.child.next('registered')
        await stage.until(({ roster }) => roster.some(({ memberId }) => memberId === 'late'))
        const expected = {
          holder: 'ours',
          token: led.token,
          term: tokensInOrder(await stage.log())
            .at(-1)
            ?.term.toString(),
        }
        expect(await stage.untilAgreed(theirs)).toMatchObject(expected)
        expect(await stage.untilAgreed(late)).toMatchObject(expected)
        expect((await late.status()).roster.map(({ memberId }) => memberId).sort()).toEqual(['late', 'ours', 'theirs'])

        // The control: all of that was there to be read wrongly.
        const records = (await readCommittedLog(stage.bootstrap, stage.topic)).filter(
          ({ key }) => key !== null && decodeKey(key).role === stage.role,
        )
        const kindOf = ({ key }: { key: Buffer | null }): string => (key === null ? '' : decodeKey(key).kind)
        expect(records.filter((record) => kindOf(record) === 'lease' && record.outcome === 'aborted')).not.toEqual([])
        for (const recordKind of ['registration', 'lease']) {
          const ofKind = records.filter((record) => kindOf(record) === recordKind && record.outcome !== 'aborted')
          expect(ofKind.filter(({ value }) => value === null)).not.toEqual([])
          expect(ofKind.filter((record) => headerText(record, 'mandate-incarnation') !== undefined)).not.toEqual([])
          expect(ofKind.filter(({ headers }) => headers.length === 0)).not.toEqual([])
        }
        await Promise.all([ours.end(), theirs.end(), late.end()])
      })
    }
  })
})

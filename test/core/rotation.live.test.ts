/**
 * A leader made of Kafka's Java producer, whose epoch rises at each commit until its producer id runs out and rotates, while its lease
 * goes on naming the pair that it minted: it is healthy all along, and nobody may take it for deposed (I7).
 */
import { Kafka, logLevel } from 'kafkajs'
import { afterEach, describe, expect, test } from 'vitest'
import { CoordinationClient } from '../../src/index.js'
import { JavaMember } from '../interop/java-member.js'
import { describeWithKafka, freshName } from '../kafka/suites.js'
import { tell } from '../support/form.js'
import { kinds, knowsTransactionVersion2 } from '../support/kinds.js'
import { lookAt } from '../support/look.js'
import { untilSettled } from './doubt.js'
import { lastEpoch, mintUntil } from './mints.js'

const commits = 8
const longLeaseMs = 60_000
const lastLeaseMs = 3_000

if (!knowsTransactionVersion2) {
  test('there is none before transaction.version 2: the epoch does not rise at a commit', () => {
    expect(kinds().map(({ kind }) => kind.transactionVersion)).toEqual([0])
  })
}

describe.each(kinds().filter(({ kind }) => kind.transactionVersion === 2))('$name', ({ kind }) => {
  describeWithKafka('a Java leader whose producer id runs out', kind, (cluster) => {
    const topic = freshName('coordination')
    const clients: CoordinationClient[] = []
    const members: JavaMember[] = []

    afterEach(async () => {
      await Promise.all(members.splice(0).map((member) => member.discard()))
      await Promise.all(clients.splice(0).map((client) => client.close()))
    })

    function clientOf(memberId: string): CoordinationClient {
      const kafka = new Kafka({ brokers: [...cluster().bootstrap], logLevel: logLevel.NOTHING })
      const client = new CoordinationClient({ kafka, memberId, topic, partitions: 1, leaseMs: lastLeaseMs })
      clients.push(client)
      return client
    }

    test('stays the holder for everybody, and is followed by a greater term', { timeout: 120_000 }, async () => {
      const { bootstrap } = cluster()
      const role = freshName('rotating')
      const observer = clientOf('observer')
      await observer.describe(role)
      const [address = ''] = bootstrap
      await mintUntil(address, role, lastEpoch - commits / 2)

      const java = await JavaMember.start({ bootstrap, role, memberId: 'java' })
      members.push(java)
      const minted = String(await java.call({ do: 'init' }))
      await java.call({ do: 'register', topic })
      const renew = async (leaseMs: number): Promise<string> => {
        await java.call({ do: 'begin' })
        await java.call({ do: 'lease', topic, leaseMs })
        await java.call({ do: 'commit' })
        return String(await java.call({ do: 'token' }))
      }
      await renew(longLeaseMs)

      const standby = clientOf('standby')
      const acquired = standby.acquire(role)
      const tokens: string[] = []
      const authorities: string[] = []
      let term: bigint | undefined
      for (let commit = 1; commit <= commits; commit += 1) {
        tokens.push(await renew(longLeaseMs))
        await untilSettled(bootstrap, role)
        const status = await observer.describe(role)
        expect(status, `after commit ${commit}, under ${tokens.at(-1)}`).toMatchObject({
          state: 'held',
          holder: 'java',
        })
        expect(String(status.token)).toBe(minted)
        expect(status.authority).not.toBe('superseded')
        authorities.push(status.authority)
        term ??= status.term
        expect(status.term).toBe(term)
        const { producerId, producerEpoch } = await lookAt(bootstrap, role)
        expect(`${producerId}:${producerEpoch}`, 'nobody minted').toBe(tokens.at(-1))
      }
      const ids = new Set(tokens.map((token) => token.split(':')[0]))
      expect(ids.size, `the producer id rotated: ${tokens.join(' ')}`).toBe(2)
      tell(`minted ${minted}, then ${tokens.join(' ')}: ${authorities.join(' ')}`)

      await renew(lastLeaseMs)
      await java.child.kill()
      const leadership = await acquired
      expect(leadership.term).toBeGreaterThan(term ?? leadership.term)
      await leadership.renew()
      expect(await observer.describe(role)).toMatchObject({ holder: 'standby', authority: 'current' })
    })
  })
})

/**
 * The fleet's checker, on a run that holds and on doctored ones: a checker that cannot fail proves nothing.
 */
import { describe, expect, test } from 'vitest'
import type { RawRecord } from '../../examples/demo/raw-log.js'
import type { LeaseInLog } from '../support/coordination-topic.js'
import { type FleetRun, type Observation, violationsOf } from './fleet-checker.js'
import type { Written } from './fleet-member.js'

/** Ours, then a port whose epoch rises with each commit, then ours again. */
const terms = [
  { member: 'ours', token: '7:1', rises: false },
  { member: 'theirs', token: '7:5', rises: true },
  { member: 'ours', token: '7:20', rises: false },
] as const
const perTerm = 4

interface Doctored {
  commands: RawRecord[]
  leases: LeaseInLog[]
  told: Written[]
  observations: Observation[]
}

function record(offset: number, pair: string, value: object, at: number): RawRecord {
  const [producerId = '', epoch = ''] = pair.split(':')
  return {
    topic: 'commands',
    partition: 0,
    offset: BigInt(offset),
    timestamp: BigInt(at),
    key: null,
    value: Buffer.from(JSON.stringify(value)),
    headers: [],
    producerId: BigInt(producerId),
    producerEpoch: Number(epoch),
    transactional: true,
    outcome: 'committed',
  }
}

/** Term k begins at 1000 k; its lease lies at offset 10 k; its writes come 10 ms apart. */
function run(): Doctored {
  const made: Doctored = { commands: [], leases: [], told: [], observations: [] }
  for (const [index, { member, token, rises }] of terms.entries()) {
    const at = 1_000 * index
    const term = BigInt(10 * index)
    const raw = record(10 * index, token, {}, at)
    made.leases.push({ offset: term, token, member, term, raw })
    for (let n = 1; n <= perTerm; n++) {
      const written = { member, token, n }
      const pair = rises ? `7:${5 + n}` : token
      made.commands.push(record(made.commands.length * 2, pair, written, at + n * 10))
      made.told.push(written)
    }
    const authority = rises ? 'unknown' : 'current'
    made.observations.push({ startedAt: at + 1, endedAt: at + 2, token, authority })
    // Minted over, and not led yet.
    made.observations.push({ startedAt: at + 990, endedAt: at + 995, token, authority: 'superseded' })
  }
  return made
}

function judge({ commands, leases, told, observations }: Doctored): readonly string[] {
  const role = { leases, registrations: [] }
  const judged: FleetRun = { role, commands, told, observations, ours: new Set(['ours']) }
  return violationsOf(judged)
}

function command(doctored: Doctored, index: number): RawRecord {
  const found = doctored.commands[index]
  if (found === undefined) throw new Error(`no record ${index}`)
  return found
}

const doctorings: readonly (readonly [name: string, doctor: (run: Doctored) => void, violation: RegExp])[] = [
  [
    'a write of an older term behind one of a newer term',
    ({ commands }) => {
      commands.splice(perTerm + 1, 0, ...commands.splice(perTerm - 1, 1))
    },
    /of term 0 follows one of term 10/,
  ],
  ['a write under a token that never led', ({ leases }) => void leases.splice(1, 1), /of a token that never led/],
  [
    "a write under its successor's pair",
    (doctored) => {
      doctored.commands[7] = { ...command(doctored, 7), producerEpoch: 20 }
    },
    /under 7:20; the next token is 7:20/,
  ],
  [
    'a write of ours under a raised epoch',
    (doctored) => {
      doctored.commands[0] = { ...command(doctored, 0), producerEpoch: 2 }
    },
    /ours\/7:1\/1, was written under 7:2/,
  ],
  [
    'a write under another producer id',
    (doctored) => {
      doctored.commands[5] = { ...command(doctored, 5), producerId: 8n }
    },
    /was written under 8:/,
  ],
  ['a told write that is not there', ({ commands }) => void commands.pop(), /7:20\/4 was told as committed/],
  [
    'a told write that was aborted',
    (doctored) => {
      doctored.commands[11] = { ...command(doctored, 11), outcome: 'aborted' }
    },
    /7:20\/4 was told as committed/,
  ],
  [
    'a write that is there twice',
    (doctored) => {
      doctored.commands.splice(1, 0, command(doctored, 0))
    },
    /is there where write 2 belongs/,
  ],
  [
    'a write in no transaction',
    (doctored) => {
      doctored.commands[2] = { ...command(doctored, 2), outcome: 'plain' }
    },
    /Record 4 is plain/,
  ],
  [
    'a token that leads twice',
    ({ leases }) => {
      const [first] = leases
      if (first !== undefined) leases.push({ ...first, offset: 30n, term: 30n })
    },
    /Token 7:1 led twice/,
  ],
  [
    'a term that falls',
    ({ leases }) => {
      const last = leases[2]
      if (last !== undefined) leases[2] = { ...last, term: 5n }
    },
    /Term 5 follows 10/,
  ],
  [
    'a healthy leader called superseded before a write',
    ({ observations }) =>
      void observations.push({ startedAt: 1_010, endedAt: 1_020, token: '7:5', authority: 'superseded' }),
    /7:5 was called superseded at 1020, and wrote at 1040/,
  ],
  [
    'a healthy leader called superseded before a renewal',
    (doctored) => {
      const [first] = doctored.leases
      if (first !== undefined) doctored.leases.splice(1, 0, { ...first, raw: { ...first.raw, timestamp: 999n } })
    },
    /7:1 was called superseded at 995, and wrote at 999/,
  ],
  [
    'a fenced leader called current',
    ({ observations }) =>
      void observations.push({ startedAt: 1_001, endedAt: 1_002, token: '7:1', authority: 'current' }),
    /7:1 was called current at 1001, and its successor led at 1000/,
  ],
]

describe('the checker of mixed fleets', () => {
  test('finds nothing in a run that holds', () => {
    expect(judge(run())).toEqual([])
  })

  test.each(doctorings)('finds %s', (_name, doctor, violation) => {
    const doctored = run()
    doctor(doctored)
    expect(judge(doctored).join('\n')).toMatch(violation)
  })
})

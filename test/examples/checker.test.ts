/**
 * The demo's checker, on a run that holds and on doctored ones: a checker that cannot fail proves nothing.
 */
import { describe, expect, test } from 'vitest'
import { check, type Run } from '../../examples/demo/checker.js'
import { type Write, writeHeader } from '../../examples/demo/events.js'
import type { RawRecord } from '../../examples/demo/raw-log.js'

const role = 'controller'
const perTerm = 60
const terms = [
  { term: 3n, member: 'node-1', token: '7:0' },
  { term: 90n, member: 'node-2', token: '7:2' },
  { term: 200n, member: 'node-3', token: '8:1' },
] as const

interface Log {
  readonly records: RawRecord[]
  readonly writes: Write[]
  readonly killedTerms: bigint[]
}

function recordOf(write: Write, token: string, partition: number, offset: bigint): RawRecord {
  const [producerId = '', producerEpoch = ''] = token.split(':')
  return {
    topic: 'commands',
    partition,
    offset,
    timestamp: 1_700_000_000_000n,
    key: null,
    value: Buffer.from('open'),
    headers: Object.entries({
      [writeHeader]: write.id,
      'mandate-role': role,
      'mandate-term': `${write.term}`,
      'mandate-token': token,
    }).map(([name, value]) => [name, Buffer.from(value)]),
    producerId: BigInt(producerId),
    producerEpoch: Number(producerEpoch),
    transactional: true,
    outcome: 'committed',
  }
}

/** Three terms of 60 writes each, alternating between two partitions; the last write of each was aborted; then one refused. */
function goodLog(): Log {
  const records: RawRecord[] = []
  const writes: Write[] = []
  const next = [0n, 0n]
  const append = (write: Omit<Write, 'position'>, token: string, partition: number): void => {
    const offset = next[partition] ?? 0n
    next[partition] = offset + 2n
    const isCommitted = write.outcome === 'committed'
    const told: Write = { ...write, position: isCommitted ? { partition, offset } : undefined }
    writes.push(told)
    records.push({ ...recordOf(told, token, partition, offset), outcome: isCommitted ? 'committed' : 'aborted' })
  }
  for (const { term, member, token } of terms) {
    const common = { member, term, afterWaking: false, durationMs: 3 }
    for (let n = 0; n < perTerm; n += 1) {
      append({ ...common, id: `${member}/${n}`, outcome: 'committed', code: undefined }, token, n % 2)
    }
    append({ ...common, id: `${member}/${perTerm}`, outcome: 'aborted', code: 'changed its mind' }, token, 0)
  }
  writes.push({
    id: 'node-2/woken',
    member: 'node-2',
    term: 90n,
    outcome: 'refused',
    position: undefined,
    code: 'LEASE_EXPIRED',
    afterWaking: true,
    durationMs: 0,
  })
  return { records, writes, killedTerms: [] }
}

function judge(log: Log): readonly string[] {
  const run: Run = { role, writes: log.writes, killedTerms: log.killedTerms }
  return check(log.records, run).violations
}

/** Replaces the record at `index` by a changed copy. */
function change(log: Log, index: number, changes: Partial<RawRecord>): void {
  const record = log.records[index]
  if (record === undefined) throw new Error(`no record ${index}`)
  log.records[index] = { ...record, ...changes }
}

function withHeader(log: Log, index: number, name: string, value: string | null): void {
  const headers = (log.records[index]?.headers ?? []).filter(([key]) => key !== name)
  change(log, index, { headers: value === null ? headers : [...headers, [name, Buffer.from(value)]] })
}

/** What the refused writer sent, as if the broker had let it through at the end of partition 1. */
function staleRecord(log: Log): RawRecord {
  const write = log.writes.at(-1)
  if (write === undefined) throw new Error('no write')
  return recordOf(write, '7:2', 1, 10_000n)
}

const first = 0
const lastOfFirstTerm = perTerm - 1

describe('the checker', () => {
  test('finds nothing wrong with a run that holds', () => {
    const log = goodLog()
    const verdict = check(log.records, { role, writes: log.writes, killedTerms: [] })
    expect(verdict.violations).toEqual([])
    expect([...verdict.committedByTerm]).toEqual([
      [3n, 60],
      [90n, 60],
      [200n, 60],
    ])
    expect(verdict).toMatchObject({ aborted: 3, refusedAfterWaking: 1 })
  })

  test('allows an unknown outcome to be committed or not', () => {
    const log = goodLog()
    const write = log.writes[first]
    if (write === undefined) throw new Error('no write')
    log.writes[first] = { ...write, outcome: 'unknown', code: 'COMMIT_UNKNOWN', position: undefined }
    expect(judge(log)).toEqual([])
    log.records.splice(first, 1)
    expect(judge(log)).toEqual([])
  })

  test('allows a killed leader to have committed what it could not tell', () => {
    const log = goodLog()
    log.writes.splice(lastOfFirstTerm, 1)
    log.killedTerms.push(3n)
    expect(judge(log)).toEqual([])
  })

  const doctored: Readonly<Record<string, { readonly by: (log: Log) => void; readonly says: RegExp }>> = {
    'a stale write that came through': {
      by: (log) => log.records.push(staleRecord(log)),
      says: /commands-1@10000 of term 90 follows one of term 200/,
    },
    'a refused write that is committed, in order': {
      by: (log) => {
        const record = staleRecord(log)
        log.records.splice(2 * perTerm + 1, 0, { ...record, offset: 239n })
      },
      says: /commands-1@239 is committed, and its writer was told refused \(LEASE_EXPIRED\)/,
    },
    'an aborted write that is committed': {
      by: (log) => change(log, perTerm, { outcome: 'committed' }),
      says: /is committed, and its writer was told aborted/,
    },
    'a committed write that is lost': {
      by: (log) => log.records.splice(first, 1),
      says: /Write node-1\/0 was reported as committed, and is not in the log/,
    },
    'a committed write that was aborted after all': {
      by: (log) => change(log, first, { outcome: 'aborted' }),
      says: /Write node-1\/0 was reported as committed, and is not in the log/,
    },
    'a write that is committed twice': {
      by: (log) => {
        const record = log.records[first]
        if (record !== undefined) log.records.splice(lastOfFirstTerm, 0, { ...record, offset: 57n })
      },
      says: /Write node-1\/0 was committed 2 times/,
    },
    'a write that landed elsewhere than reported': {
      by: (log) => change(log, first, { offset: 1n }),
      says: /commands-0@1 holds write node-1\/0, which was reported as committed elsewhere/,
    },
    'a write under another term than its writer led': {
      by: (log) => withHeader(log, first, 'mandate-term', '2'),
      says: /holds write node-1\/0 of term 3 under another term/,
    },
    'a write that nobody told of': {
      by: (log) => log.writes.splice(first, 1),
      says: /is committed, and no living writer told of it/,
    },
    'a write that nobody told of, while another leader was killed': {
      by: (log) => {
        log.writes.splice(first, 1)
        log.killedTerms.push(90n)
      },
      says: /is committed, and no living writer told of it/,
    },
    'one write told twice': {
      by: (log) => {
        const write = log.writes[first]
        if (write !== undefined) log.writes.push(write)
      },
      says: /Write node-1\/0 was told twice/,
    },
    'a record outside a transaction': {
      by: (log) => change(log, first, { outcome: 'plain', transactional: false }),
      says: /commands-0@0 was written outside a transaction/,
    },
    'a transaction that never ended': {
      by: (log) => change(log, perTerm, { outcome: 'open' }),
      says: /is in a transaction that never ended/,
    },
    'a record of another role': {
      by: (log) => withHeader(log, first, 'mandate-role', 'dispatcher'),
      says: /names the role dispatcher, not controller/,
    },
    'a record without a term': {
      by: (log) => withHeader(log, first, 'mandate-term', null),
      says: /commands-0@0 names no term/,
    },
    'a record whose stamp names another token than its batch': {
      by: (log) => withHeader(log, first, 'mandate-token', '7:1'),
      says: /names the token 7:1, and was written under 7:0/,
    },
    'a term with two tokens': {
      by: (log) => {
        withHeader(log, lastOfFirstTerm, 'mandate-token', '7:1')
        change(log, lastOfFirstTerm, { producerEpoch: 1 })
      },
      says: /term 3 has two tokens, 7:0 and 7:1/,
    },
    'a token with two terms': {
      by: (log) => withHeader(log, lastOfFirstTerm, 'mandate-term', '4'),
      says: /token 7:0 has two terms, 3 and 4/,
    },
    'a term that is too short': {
      by: (log) => {
        log.records.splice(0, 11)
        log.writes.splice(0, 11)
      },
      says: /3 terms of 50 committed records are wanted, there are term 3: 49, term 90: 60, term 200: 60/,
    },
    'no term at all': {
      by: (log) => {
        log.records.splice(0)
        log.writes.splice(0, log.writes.length - 1)
      },
      says: /there are no term/,
    },
    'no write refused after waking': {
      by: (log) => log.writes.pop(),
      says: /No write of a woken process was refused/,
    },
    'only a write refused before waking': {
      by: (log) => {
        const write = log.writes.pop()
        if (write !== undefined) log.writes.push({ ...write, afterWaking: false })
      },
      says: /No write of a woken process was refused/,
    },
  }

  for (const [what, { by, says }] of Object.entries(doctored)) {
    test(`finds ${what}`, () => {
      const log = goodLog()
      by(log)
      expect(judge(log)).toContainEqual(expect.stringMatching(says))
    })
  }
})

import { describe, expect, it } from 'vitest'
import type { ReadRecord } from '../../src/election/record.js'
import { applyRecord, emptyRoleState, type RoleState } from '../../src/election/role-state.js'
import { parseRole, type Role } from '../../src/format/names.js'
import { incarnation, lease, registration } from './support.js'

describe('speed', () => {
  it('a renewal costs the same in a role of a thousand members, and a million take seconds at most', () => {
    const roles = Array.from({ length: 5 }, (_, index) => parseRole(`role-${index}`))
    const states = new Map<Role, RoleState>(roles.map((role) => [role, emptyRoleState(role, { named: [100n] })]))
    const apply = (role: Role, record: ReadRecord): void => {
      const state = states.get(role)
      if (state === undefined || record.kind === 'unreadable-key') throw new Error('not a record of a role')
      states.set(role, applyRecord(state, { ...record, role }).state)
    }
    for (const role of roles) {
      for (let index = 0; index < 1000; index++) apply(role, registration(index + 1, `member-${index}`))
    }
    const of = incarnation('a', 1)
    const renewals = Array.from({ length: 1000 }, (_, index) => lease(2000 + index, { token: '100:5', of, term: 2000 }))
    const total = 1_000_000
    const started = performance.now()
    for (let index = 0; index < total; index++) {
      const renewal = renewals[index % renewals.length]
      const role = roles[index % roles.length]
      if (renewal === undefined || role === undefined || renewal.kind === 'unreadable-key')
        throw new Error('no renewal')
      apply(role, { ...renewal, receipt: { ...renewal.receipt, offset: BigInt(2000 + index) } })
    }
    const elapsedMs = performance.now() - started
    console.log(`${total} renewals of ${roles.length} roles folded in ${elapsedMs.toFixed(0)} ms`)
    for (const state of states.values()) expect(state.lease).toMatchObject({ kind: 'lease', term: 2000n })
    // Ten times the aim of one second: a cost that grows with the role would take minutes.
    expect(elapsedMs).toBeLessThan(10_000)
  })
})

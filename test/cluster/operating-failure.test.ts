import { describe, expect, test } from 'vitest'
import { RequestFailure } from '../../src/cluster/connection.js'
import { transportError, Unanswered } from '../../src/cluster/coordinator.js'
import { LookFailure } from '../../src/cluster/mint.js'
import { TransactionFailure } from '../../src/cluster/transaction.js'
import { coordinationError } from '../../src/errors.js'

describe('transportError', () => {
  test.each([
    new RequestFailure('closed', 'the socket closed', { written: true }),
    new Unanswered('too late', { answerLost: false, mayBeApplied: false, lastErrorCode: 51 }, undefined),
    new LookFailure('no look', undefined),
    new TransactionFailure({ kind: 'failed' }, 'no leader'),
  ])('tells $name as TRANSPORT, with its cause', (failure) => {
    expect(transportError(failure)).toMatchObject({ code: 'TRANSPORT', retriable: true, cause: failure })
  })

  test('leaves an error of ours as it is', () => {
    const error = coordinationError('CLOSED', 'closed', {})
    expect(transportError(error)).toBe(error)
  })

  test('leaves a fault of the library as it is, for no repetition mends it', () => {
    const fault = new TypeError('undefined is not a function')
    expect(transportError(fault)).toBe(fault)
  })
})

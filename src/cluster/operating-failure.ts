/**
 * What tells the ways in which a cluster can fail from a fault of this library: only the former are ever retried or told as
 * `TRANSPORT`; the latter are thrown as they are.
 */
import { isCoordinationError } from '../errors.js'
import { RequestFailure } from './connection.js'

/** Base of the failures that flows of this folder throw to each other. */
export class OperatingFailure extends Error {}

/** Whether `error` came of the cluster or the network, and not of a fault in this library. */
export function isOperatingFailure(error: unknown): boolean {
  return error instanceof OperatingFailure || error instanceof RequestFailure || isCoordinationError(error)
}

/**
 * Which partition of the coordination topic a role lives on: `(murmur2(utf8(role)) & 0x7fffffff) % partitions`, frozen.
 *
 * By the role, never by the record's key, so that registrations and the lease of one role share a partition. The only file
 * that may import `murmurhash`, whose default export, seed and sign are traps: version 2, Kafka's seed, sign bit cut off.
 */
import murmurhash from 'murmurhash'
import { coordinationError } from '../errors.js'
import { parseRole, roleBytes } from './names.js'

const kafkaSeed = 0x9747b28c

/**
 * The partition of `role` on a topic of `partitions` partitions.
 *
 * @throws `CONFIG` for a text that names no role, or a count that is not a positive integer.
 */
export function rolePartition(role: string, partitions: number): number {
  if (!Number.isSafeInteger(partitions) || partitions < 1) {
    throw coordinationError('CONFIG', `partitions ${partitions} must be a positive integer`, { option: 'partitions' })
  }
  return keyPartition(roleBytes(parseRole(role)), partitions)
}

/** The partition in which Java's default partitioner puts a record with this key. */
export function keyPartition(key: Uint8Array, partitions: number): number {
  return (murmurhash.v2(key, kafkaSeed) & 0x7fffffff) % partitions
}

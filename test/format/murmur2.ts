/**
 * Kafka's murmur2 by hand, an oracle for the partitions of tests: it shares nothing with the package that the library uses.
 */

/** The hash of `bytes` as Kafka's `Utils.murmur2` gives it: a signed 32-bit integer. */
export function murmur2(bytes: Uint8Array): number {
  const m = 0x5bd1e995
  let hash = 0x9747b28c ^ bytes.length
  const whole = bytes.length - (bytes.length % 4)
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  for (let at = 0; at < whole; at += 4) {
    let k = Math.imul(view.getInt32(at, true), m)
    k ^= k >>> 24
    hash = Math.imul(hash, m) ^ Math.imul(k, m)
  }
  const rest = bytes.subarray(whole)
  rest.forEach((byte, index) => {
    hash ^= byte << (8 * index)
  })
  if (rest.length > 0) hash = Math.imul(hash, m)
  hash ^= hash >>> 13
  hash = Math.imul(hash, m)
  return hash ^ (hash >>> 15)
}

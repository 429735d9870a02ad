/**
 * CRC-32C (Castagnoli), the checksum of record batches: the one door to the package that computes it.
 *
 * Not `zlib.crc32`, which is another polynomial.
 */
import crc from 'crc-32/crc32c.js'

/** The checksum as an unsigned 32-bit number. */
export function crc32c(bytes: Uint8Array): number {
  return crc.buf(bytes, 0) >>> 0
}

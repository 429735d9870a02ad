/**
 * The version that every key and value opens with.
 *
 * Version 0 is frozen: a change of layout is a new version, and a decoder refuses those it does not know rather than guess.
 */
import { type ByteReader, formatError, readInt16 } from './bytes.js'

/** The version of the format that this library writes, and the only one it reads. */
export const formatVersion: number = 0

/** Reads the version. Throws `FORMAT` for one that is not known. */
export function readVersion(reader: ByteReader): void {
  const version = readInt16(reader, 'version')
  if (version !== formatVersion) throw formatError(reader, 'version', reader.offset - 2, `unknown version ${version}`)
}

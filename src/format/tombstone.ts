/**
 * What counts as "no value": the record that deletes its key.
 *
 * Its own file because it is asked before any decoder, which would refuse the empty value as truncated.
 */

/** A value of zero bytes, which is read as none. */
export type EmptyValue = Uint8Array & { readonly byteLength: 0 }

/** Whether a record's value deletes its key: null, or zero bytes long. */
export function isTombstone(value: Uint8Array | null | undefined): value is EmptyValue | null | undefined {
  return value === null || value === undefined || value.byteLength === 0
}

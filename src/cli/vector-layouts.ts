/**
 * Which field of the format a byte belongs to, for messages that name it.
 *
 * It walks over bytes that may be malformed on purpose, so it refuses nothing: what a length runs past belongs to that field.
 */

/** A layout of golden-vectors/README.md. */
export type Layout = 'key' | 'registration' | 'lease' | 'incarnation'

/** Sizes in bytes; a string is its length in two bytes, then as many. */
const layouts: Readonly<Record<Layout, readonly (readonly [field: string, size: number | 'string'])[]>> = {
  key: [
    ['version', 2],
    ['kind', 2],
    ['role', 'string'],
    ['member', 'string'],
  ],
  registration: [
    ['version', 2],
    ['member', 'string'],
    ['registered_at', 8],
  ],
  lease: [
    ['version', 2],
    ['member', 'string'],
    ['producer_id', 8],
    ['producer_epoch', 2],
    ['granted_at', 8],
    ['deadline', 8],
  ],
  incarnation: [
    ['random', 16],
    ['birth', 8],
    ['registered_at', 8],
  ],
}

/** The field to which byte `offset` of `bytes` belongs, such as `lease.producer_id`; `lease.end` behind the last one. */
export function fieldAt(layout: Layout, bytes: Uint8Array, offset: number): string {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  let end = 0
  for (const [field, size] of layouts[layout]) {
    if (size !== 'string') end += size
    else if (end + 2 > bytes.length) return `${layout}.${field}`
    else end += 2 + Math.max(0, view.getInt16(end))
    if (offset < end) return `${layout}.${field}`
  }
  return `${layout}.end`
}

/**
 * The stamp of a guarded record: three headers that say under which role, term and token it was written.
 *
 * With it a consumer, or a device behind one, drops what an older term sent (see `StaleTermGuard`). A stamp is a claim of
 * whoever may write to the topic, so it must not be taken for proof of who wrote the record: the broker's refusal of a
 * deposed leader is the proof (I1), the stamp tells apart what was committed when. Reading it is total.
 */
import { utf8, utf8Text } from './bytes.js'
import { decodeTerm, encodeTerm, type Header, headerValue, roleHeader, termHeader, tokenHeader } from './headers.js'
import { type Role, roleBytes, roleOfBytes } from './names.js'
import { type FencingToken, tokenOfText } from './token.js'

/** Under what a guarded record was written. */
export interface Stamp {
  readonly role: Role
  readonly term: bigint
  readonly token: FencingToken
}

/** The three headers of a stamp: `mandate-role`, `mandate-term`, `mandate-token`. */
export function stampHeaders(stamp: Stamp): readonly (readonly [key: string, value: Uint8Array])[] {
  return [
    [roleHeader, roleBytes(stamp.role)],
    [termHeader, encodeTerm(stamp.term)],
    [tokenHeader, utf8(stamp.token.toString())],
  ]
}

/** The stamp among a record's headers, or undefined where one of the three is missing or odd. The last duplicate counts. */
export function readStamp(headers: readonly Header[]): Stamp | undefined {
  const term = decodeTerm(headerValue(headers, termHeader))
  const roleValue = headerValue(headers, roleHeader)
  const tokenValue = headerValue(headers, tokenHeader)
  if (term === undefined || !roleValue || !tokenValue) return undefined
  const role = roleOfBytes(roleValue)
  const token = tokenOfText(utf8Text(tokenValue) ?? '')
  return role === undefined || token === undefined ? undefined : { role, term, token }
}

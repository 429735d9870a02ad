/**
 * Frames: the size and the headers around a request's and an answer's body.
 *
 * It must not know any API. An answer that leaves bytes unread is malformed, because then the versions of both ends differ.
 */
import type { ApiName, ApiRequest, ApiResponse } from '../../cluster/connection.js'
import type { Codec, Decoded } from './codec.js'
import { Reader } from './reader.js'
import { Writer } from './writer.js'

/** A whole request with request header version 2, its size in front. */
export function encodeFrame<A extends ApiName>(
  codec: Codec<A>,
  request: ApiRequest<A>,
  correlationId: number,
  clientId: string | null,
): Buffer {
  const writer = new Writer()
  writer.int32(0).int16(codec.apiKey).int16(codec.version).int32(correlationId)
  writer.nullableString(clientId).noTaggedFields()
  codec.encodeRequest(writer, request)
  writer.int32At(0, writer.length - 4)
  return writer.bytes()
}

/** The answer in `payload`, which begins behind the correlation id. Throws `MalformedError`. */
export function decodePayload<A extends ApiName>(codec: Codec<A>, payload: Buffer): Decoded<ApiResponse<A>> {
  const reader = new Reader(payload)
  if (codec.responseHeaderVersion === 1) reader.taggedFields()
  const decoded = codec.decodeResponse(reader)
  reader.expectEnd()
  return decoded
}

/**
 * What a codec is: one API at one fixed version, its request written and its answer read.
 *
 * Interface only. All versions in use are flexible (header version 2), and each is one that Kafka 3.9 to 4.4 speaks and that
 * leaves the producer epoch alone (I4).
 */
import type { ApiName, ApiRequest, ApiResponse } from '../../cluster/connection.js'
import type { Reader } from './reader.js'
import type { Writer } from './writer.js'

/** An answer and for how long the broker asks this connection to send nothing (a quota, KIP-219). */
export interface Decoded<Response> {
  readonly throttleMs: number
  readonly response: Response
}

/** One API at one version. */
export interface Codec<A extends ApiName> {
  readonly name: A
  readonly apiKey: number
  readonly version: number
  /** 0 for ApiVersions, whose answer must be readable by a client that does not know the version; else 1. */
  readonly responseHeaderVersion: 0 | 1
  /** Writes the request's body, without its header. */
  readonly encodeRequest: (writer: Writer, request: ApiRequest<A>) => void
  /** Reads the answer's body, without its header. Throws `MalformedError`. */
  readonly decodeResponse: (reader: Reader) => Decoded<ApiResponse<A>>
}

/** FindCoordinator 4: the broker that coordinates a group or a transactional id. The batched form, with one key. */
import type { Codec } from './codec.js'
import { MalformedError } from './reader.js'

export const findCoordinator: Codec<'FindCoordinator'> = {
  name: 'FindCoordinator',
  apiKey: 10,
  version: 4,
  responseHeaderVersion: 1,
  encodeRequest: (writer, request) => {
    writer.int8(request.keyType === 'transaction' ? 1 : 0)
    writer.compactArray([request.key], (_, key) => writer.compactString(key)).noTaggedFields()
  },
  decodeResponse: (reader) => {
    const throttleMs = reader.int32()
    const coordinators = reader.compactArray((coordinator) => {
      coordinator.compactString()
      const node = { id: coordinator.int32(), host: coordinator.compactString(), port: coordinator.int32() }
      const errorCode = coordinator.int16()
      const errorMessage = coordinator.compactNullableString()
      coordinator.taggedFields()
      return { errorCode, errorMessage, node }
    })
    reader.taggedFields()
    const [response] = coordinators
    if (response === undefined || coordinators.length !== 1) {
      throw new MalformedError(`one coordinator was asked for, ${coordinators.length} were answered`)
    }
    return { throttleMs, response }
  },
}

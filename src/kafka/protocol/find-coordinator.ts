/** FindCoordinator 4: the brokers that coordinate groups or transactional ids. The batched form, with one key or many. */
import type { Codec } from './codec.js'
import type { Reader } from './reader.js'
import { MalformedError } from './reader.js'
import type { Writer } from './writer.js'

const layout = { apiKey: 10, version: 4, responseHeaderVersion: 1 } as const

export const findCoordinator: Codec<'FindCoordinator'> = {
  name: 'FindCoordinator',
  ...layout,
  encodeRequest: (writer, { keyType, key }) => encodeKeys(writer, keyType, [key]),
  decodeResponse: (reader) => {
    const { throttleMs, coordinators } = decodeCoordinators(reader)
    const [coordinator] = coordinators
    if (coordinator === undefined || coordinators.length !== 1) {
      throw new MalformedError(`one coordinator was asked for, ${coordinators.length} were answered`)
    }
    const { errorCode, errorMessage, node } = coordinator
    return { throttleMs, response: { errorCode, errorMessage, node } }
  },
}

export const findCoordinators: Codec<'FindCoordinators'> = {
  name: 'FindCoordinators',
  ...layout,
  encodeRequest: (writer, { keyType, keys }) => encodeKeys(writer, keyType, keys),
  decodeResponse: (reader) => {
    const { throttleMs, coordinators } = decodeCoordinators(reader)
    const response = { coordinators: coordinators.map(({ key, errorCode, node }) => ({ key, errorCode, node })) }
    return { throttleMs, response }
  },
}

function encodeKeys(writer: Writer, keyType: 'group' | 'transaction', keys: readonly string[]): void {
  writer.int8(keyType === 'transaction' ? 1 : 0)
  writer.compactArray(keys, (_, key) => writer.compactString(key)).noTaggedFields()
}

function decodeCoordinators(reader: Reader) {
  const throttleMs = reader.int32()
  const coordinators = reader.compactArray((coordinator) => {
    const key = coordinator.compactString()
    const node = { id: coordinator.int32(), host: coordinator.compactString(), port: coordinator.int32() }
    const errorCode = coordinator.int16()
    const errorMessage = coordinator.compactNullableString()
    coordinator.taggedFields()
    return { key, errorCode, errorMessage, node }
  })
  reader.taggedFields()
  return { throttleMs, coordinators }
}

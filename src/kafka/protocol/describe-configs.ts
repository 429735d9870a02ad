/** DescribeConfigs 4: the effective configuration of one topic, or of the broker that is asked. */
import type { ApiResponse } from '../../cluster/connection.js'
import type { Codec, Decoded } from './codec.js'
import type { Reader } from './reader.js'
import { MalformedError } from './reader.js'
import type { Writer } from './writer.js'

const layout = { apiKey: 32, version: 4, responseHeaderVersion: 1 } as const
const topicResource = 2
const brokerResource = 4

export const describeConfigs: Codec<'DescribeConfigs'> = {
  name: 'DescribeConfigs',
  ...layout,
  encodeRequest: (writer, { topic }) => encodeResource(writer, topicResource, topic),
  decodeResponse: decodeResource,
}

export const describeBrokerConfigs: Codec<'DescribeBrokerConfigs'> = {
  name: 'DescribeBrokerConfigs',
  ...layout,
  encodeRequest: (writer, { broker }) => encodeResource(writer, brokerResource, String(broker)),
  decodeResponse: decodeResource,
}

function encodeResource(writer: Writer, type: number, name: string): void {
  writer.compactArray([name], (_, resource) => {
    writer.int8(type).compactString(resource)
    writer.unsignedVarint(0).noTaggedFields() // A null list of names asks for every setting.
  })
  const includeSynonyms = false
  const includeDocumentation = false
  writer.boolean(includeSynonyms).boolean(includeDocumentation).noTaggedFields()
}

function decodeResource(reader: Reader): Decoded<ApiResponse<'DescribeConfigs'>> {
  const throttleMs = reader.int32()
  const results = reader.compactArray((result) => {
    const errorCode = result.int16()
    const errorMessage = result.compactNullableString()
    result.int8()
    result.compactString()
    const configs = new Map<string, string | null>()
    result.compactArray((config) => {
      const name = config.compactString()
      configs.set(name, config.compactNullableString())
      const readOnlySourceAndSensitive = 3
      config.skip(readOnlySourceAndSensitive)
      config.compactArray((synonym) => {
        synonym.compactString()
        synonym.compactNullableString()
        synonym.int8()
        synonym.taggedFields()
      })
      config.int8()
      config.compactNullableString()
      config.taggedFields()
    })
    result.taggedFields()
    return { errorCode, errorMessage, configs }
  })
  reader.taggedFields()
  const [response] = results
  if (response === undefined || results.length !== 1) {
    throw new MalformedError(`one resource was described, ${results.length} were answered`)
  }
  return { throttleMs, response }
}

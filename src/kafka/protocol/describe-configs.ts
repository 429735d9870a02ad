/** DescribeConfigs 4: the effective configuration of one topic. */
import type { Codec } from './codec.js'
import { MalformedError } from './reader.js'

const topicResource = 2

export const describeConfigs: Codec<'DescribeConfigs'> = {
  name: 'DescribeConfigs',
  apiKey: 32,
  version: 4,
  responseHeaderVersion: 1,
  encodeRequest: (writer, request) => {
    writer.compactArray([request.topic], (_, topic) => {
      writer.int8(topicResource).compactString(topic)
      writer.unsignedVarint(0).noTaggedFields() // A null list of names asks for every setting.
    })
    const includeSynonyms = false
    const includeDocumentation = false
    writer.boolean(includeSynonyms).boolean(includeDocumentation).noTaggedFields()
  },
  decodeResponse: (reader) => {
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
      throw new MalformedError(`one topic was described, ${results.length} were answered`)
    }
    return { throttleMs, response }
  },
}

/** ApiVersions 3: which versions of which API a broker speaks, and the finalized features (KIP-482, KIP-584). */
import type { Codec } from './codec.js'
import type { Reader } from './reader.js'

const finalizedFeaturesTag = 2

export const apiVersions: Codec<'ApiVersions'> = {
  name: 'ApiVersions',
  apiKey: 18,
  version: 3,
  responseHeaderVersion: 0,
  encodeRequest: (writer) => {
    writer.compactString('mandate').compactString('0.1.0').noTaggedFields()
  },
  decodeResponse: (reader) => {
    const errorCode = reader.int16()
    const apis = reader.compactArray((api) => {
      const range = { apiKey: api.int16(), minVersion: api.int16(), maxVersion: api.int16() }
      api.taggedFields()
      return range
    })
    const throttleMs = reader.int32()
    const features = new Map<string, number>()
    reader.taggedFields((tag, field) => {
      if (tag === finalizedFeaturesTag) readFeatures(field, features)
    })
    return { throttleMs, response: { errorCode, apis, features } }
  },
}

function readFeatures(reader: Reader, features: Map<string, number>): void {
  reader.compactArray((feature) => {
    const name = feature.compactString()
    features.set(name, feature.int16())
    feature.skip(2)
    feature.taggedFields()
  })
}

/** DescribeAcls 2: every ACL that applies to one topic, by its name, a prefix of it or the wildcard. */
import type { Codec } from './codec.js'

const topicResource = 2
const matchingPatterns = 2
const anything = 1
const allow = 3

export const describeAcls: Codec<'DescribeAcls'> = {
  name: 'DescribeAcls',
  apiKey: 29,
  version: 2,
  responseHeaderVersion: 1,
  encodeRequest: (writer, { topic }) => {
    const anyPrincipal = null
    const anyHost = null
    writer.int8(topicResource).compactNullableString(topic).int8(matchingPatterns)
    writer.compactNullableString(anyPrincipal).compactNullableString(anyHost)
    writer.int8(anything).int8(anything).noTaggedFields() // Operation and permission.
  },
  decodeResponse: (reader) => {
    const throttleMs = reader.int32()
    const errorCode = reader.int16()
    const errorMessage = reader.compactNullableString()
    const bindings = reader.compactArray((resource) => {
      resource.int8()
      resource.compactString()
      resource.int8()
      const acls = resource.compactArray((acl) => {
        const principal = acl.compactString()
        acl.compactString() // Host.
        const operation = acl.int8()
        const isAllowed = acl.int8() === allow
        acl.taggedFields()
        return { principal, operation, isAllowed }
      })
      resource.taggedFields()
      return acls
    })
    reader.taggedFields()
    return { throttleMs, response: { errorCode, errorMessage, bindings: bindings.flat() } }
  },
}

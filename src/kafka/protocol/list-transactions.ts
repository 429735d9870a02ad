/** ListTransactions 1: what a broker coordinates, by state and age (KIP-664, KIP-994). */
import type { Codec } from './codec.js'

export const listTransactions: Codec<'ListTransactions'> = {
  name: 'ListTransactions',
  apiKey: 66,
  version: 1,
  responseHeaderVersion: 1,
  encodeRequest: (writer, { states, longerThanMs }) => {
    writer.compactArray(states, (_, state) => writer.compactString(state))
    writer.compactArray([], () => {}) // No producer ids: of all.
    writer.int64(BigInt(longerThanMs)).noTaggedFields()
  },
  decodeResponse: (reader) => {
    const throttleMs = reader.int32()
    const errorCode = reader.int16()
    reader.compactArray((unknownState) => unknownState.compactString())
    const transactions = reader.compactArray((transaction) => {
      const listed = {
        transactionalId: transaction.compactString(),
        producerId: transaction.int64(),
        state: transaction.compactString(),
      }
      transaction.taggedFields()
      return listed
    })
    reader.taggedFields()
    return { throttleMs, response: { errorCode, transactions } }
  },
}

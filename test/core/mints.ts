/**
 * Mints by hand, thousands of them, to bring a transactional id near the end of its epochs.
 *
 * Plain InitProducerId requests on one connection, many under way together; the broker takes them one by one. It shares nothing with src.
 */
import { WireConnection, WireWriter } from '../support/wire.js'

/** The last epoch that a mint hands out under a producer id; the next one is epoch 0 of another id. */
export const lastEpoch = 32_766

export interface MintedPair {
  readonly producerId: bigint
  readonly producerEpoch: number
}

const underWay = 200

/** Mints once, at the coordinator. */
export async function mintOnce(coordinator: WireConnection, transactionalId: string): Promise<MintedPair> {
  const body = new WireWriter().compactString(transactionalId).int32(60_000).int64(-1n).int16(-1).tags().toBuffer()
  for (;;) {
    const answer = await coordinator.request('InitProducerId', 4, body)
    answer.int32()
    const errorCode = answer.int16()
    if (errorCode === 0) return { producerId: answer.int64(), producerEpoch: answer.int16() }
    // CONCURRENT_TRANSACTIONS passes, and so does what a broker answers that begins to be the coordinator; else the test runs out.
    if (![51, 14, 15, 16].includes(errorCode)) throw new Error(`InitProducerId answered ${errorCode}`)
  }
}

/** Mints at `address` until the newest pair has the epoch `until`, and answers that pair. */
export async function mintUntil(address: string, transactionalId: string, until: number): Promise<MintedPair> {
  const connection = await WireConnection.open(address)
  try {
    let newest = await mintOnce(connection, transactionalId)
    while (newest.producerEpoch !== until) {
      if (newest.producerEpoch > until) throw new Error(`epoch ${newest.producerEpoch} is above ${until} already`)
      const count = Math.min(underWay, until - newest.producerEpoch)
      const minted = await Promise.all(Array.from({ length: count }, () => mintOnce(connection, transactionalId)))
      newest = minted.reduce((one, other) => (other.producerEpoch > one.producerEpoch ? other : one))
    }
    return newest
  } finally {
    connection.close()
  }
}

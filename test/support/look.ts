/**
 * Asks a role's transaction coordinator by hand, so that mints are counted from what the broker knows and not from what the library
 * says of itself; and mints by hand, as a stranger.
 *
 * It shares nothing with src.
 */
import { WireConnection, WireWriter } from './wire.js'

/** What the coordinator says of a transactional id. */
export interface CoordinatorView {
  /** False when it does not know the id; the other fields mean nothing then. */
  readonly found: boolean
  readonly state: string
  readonly producerId: bigint
  readonly producerEpoch: number
}

/** FindCoordinator v4 and DescribeTransactions v0, repeated while the coordinator is not there yet. */
export async function lookAt(bootstrap: readonly string[], transactionalId: string): Promise<CoordinatorView> {
  const [seed] = bootstrap
  if (seed === undefined) throw new Error('no broker to ask')
  for (;;) {
    const coordinator = await findCoordinator(seed, transactionalId)
    const view = coordinator === undefined ? undefined : await describeAt(coordinator, transactionalId)
    if (view !== undefined) return view
    await new Promise((resolve) => setTimeout(resolve, 50))
  }
}

/** Mints as a stranger would, by a plain InitProducerId v4: whoever led under the id is deposed. */
export async function mintByHand(bootstrap: readonly string[], transactionalId: string): Promise<void> {
  const [seed] = bootstrap
  const coordinator = seed === undefined ? undefined : await findCoordinator(seed, transactionalId)
  if (coordinator === undefined) throw new Error(`no coordinator of '${transactionalId}'`)
  const connection = await WireConnection.open(coordinator)
  try {
    const body = new WireWriter().compactString(transactionalId).int32(60_000).int64(-1n).int16(-1).tags().toBuffer()
    for (;;) {
      const answer = await connection.request('InitProducerId', 4, body)
      answer.int32()
      const errorCode = answer.int16()
      if (errorCode === 0) return
      // CONCURRENT_TRANSACTIONS passes once the markers of the last transaction are written.
      if (errorCode !== 51) throw new Error(`InitProducerId of '${transactionalId}' answered ${errorCode}`)
    }
  } finally {
    connection.close()
  }
}

async function findCoordinator(seed: string, transactionalId: string): Promise<string | undefined> {
  const connection = await WireConnection.open(seed)
  try {
    const body = new WireWriter()
      .int8(1)
      .compactArray([transactionalId], (writer, key) => writer.compactString(key))
      .tags()
      .toBuffer()
    const answer = await connection.request('FindCoordinator', 4, body)
    answer.int32()
    const [found] = answer.compactArray((reader) => {
      reader.compactString()
      reader.int32()
      const address = `${reader.compactString()}:${reader.int32()}`
      const errorCode = reader.int16()
      reader.compactString()
      reader.tags()
      return { address, errorCode }
    })
    return found?.errorCode === 0 ? found.address : undefined
  } finally {
    connection.close()
  }
}

async function describeAt(coordinator: string, transactionalId: string): Promise<CoordinatorView | undefined> {
  const connection = await WireConnection.open(coordinator)
  try {
    const body = new WireWriter()
      .compactArray([transactionalId], (writer, id) => writer.compactString(id))
      .tags()
      .toBuffer()
    const answer = await connection.request('DescribeTransactions', 0, body)
    answer.int32()
    const [view] = answer.compactArray((reader) => {
      const errorCode = reader.int16()
      reader.compactString()
      const state = reader.compactString() ?? ''
      reader.int32()
      reader.int64()
      const producerId = reader.int64()
      const producerEpoch = reader.int16()
      reader.compactArray((topic) => {
        topic.compactString()
        topic.compactArray((partition) => partition.int32())
        topic.tags()
      })
      reader.tags()
      return { errorCode, state, producerId, producerEpoch }
    })
    if (view === undefined) throw new Error(`DescribeTransactions did not answer for '${transactionalId}'`)
    const { errorCode, ...known } = view
    if (errorCode === 0) return { found: true, ...known }
    // TRANSACTIONAL_ID_NOT_FOUND; COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE and NOT_COORDINATOR pass.
    if (errorCode === 105) return { found: false, ...known }
    if (errorCode === 14 || errorCode === 15 || errorCode === 16) return undefined
    throw new Error(`DescribeTransactions of '${transactionalId}' answered ${errorCode}`)
  } finally {
    connection.close()
  }
}

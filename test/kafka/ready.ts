/**
 * Tells when a cluster can be used: every broker knows every other, and the coordinators of transactions and of groups
 * have loaded. It asks over plain sockets, so that it depends on no client, and leaves nothing behind but Kafka's own
 * internal topics. Suites rest on it: behind it, no first request meets a broker that is still starting.
 */
import { setTimeout as delay } from 'node:timers/promises'
import { WireConnection, WireWriter } from '../support/wire.js'

const pollMs = 50
const requestMs = 2000
const transactionalIdNotFound = 105

/** Internal topics have this many partitions, by the brokers' settings. */
export const internalPartitions = 4

/** One name for each partition of an internal topic: Kafka hashes a one-letter name to its character code. */
const names: readonly string[] = ['a', 'b', 'c', 'd']

/** Resolves when `address` answers and lists the brokers `ids`. Rejects with `signal.reason`. */
export async function untilBrokersKnown(address: string, ids: readonly number[], signal: AbortSignal): Promise<void> {
  await until(address, signal, async (connection) => {
    const brokers = await listBrokers(connection)
    const absent = ids.filter((id) => !brokers.has(id))
    return absent.length === 0 ? undefined : `broker ${absent.join(', ')} not registered`
  })
}

/** Resolves when the transaction and group coordinators of every internal partition have loaded. */
export async function untilCoordinatorsReady(address: string, signal: AbortSignal): Promise<void> {
  for (const name of names) {
    await until(address, signal, async (connection) => {
      const group = await findCoordinator(connection, 0, name)
      if (group.errorCode !== 0) return `group coordinator: code ${group.errorCode}`
      const transaction = await findCoordinator(connection, 1, name)
      if (transaction.errorCode !== 0) return `transaction coordinator: code ${transaction.errorCode}`
      const errorCode = await onConnection(transaction.address, (coordinator) => describeTransaction(coordinator, name))
      return errorCode === transactionalIdNotFound ? undefined : `transaction coordinator loading: code ${errorCode}`
    })
  }
}

/** Repeats `check` until it answers undefined; what it answered last is in the error when the signal aborts. */
async function until(
  address: string,
  signal: AbortSignal,
  check: (connection: WireConnection) => Promise<string | undefined>,
): Promise<void> {
  let last = 'never reached'
  while (!signal.aborted) {
    try {
      const missing = await onConnection(address, check)
      if (missing === undefined) return
      last = missing
    } catch (error) {
      last = error instanceof Error ? error.message : String(error)
    }
    await delay(pollMs, undefined, { signal }).catch(() => undefined)
  }
  throw new Error(`${address} is not ready (${last})`, { cause: signal.reason })
}

async function onConnection<T>(address: string, use: (connection: WireConnection) => Promise<T>): Promise<T> {
  const connection = await WireConnection.open(address)
  const timer = setTimeout(() => connection.close(), requestMs)
  try {
    return await use(connection)
  } finally {
    clearTimeout(timer)
    connection.close()
  }
}

async function listBrokers(connection: WireConnection): Promise<ReadonlySet<number>> {
  const answer = await connection.request(
    'Metadata',
    4,
    new WireWriter()
      .array([], () => {})
      .boolean(false)
      .toBuffer(),
  )
  answer.int32()
  const ids = answer.array((reader) => {
    const id = reader.int32()
    reader.string()
    reader.int32()
    reader.string()
    return id
  })
  return new Set(ids)
}

async function findCoordinator(
  connection: WireConnection,
  keyType: 0 | 1,
  key: string,
): Promise<{ errorCode: number; address: string }> {
  const answer = await connection.request('FindCoordinator', 2, new WireWriter().string(key).int8(keyType).toBuffer())
  answer.int32()
  const errorCode = answer.int16()
  answer.string()
  answer.int32()
  return { errorCode, address: `${answer.string()}:${answer.int32()}` }
}

async function describeTransaction(connection: WireConnection, transactionalId: string): Promise<number> {
  const body = new WireWriter().compactArray([transactionalId], (writer, id) => writer.compactString(id)).tags()
  const answer = await connection.request('DescribeTransactions', 0, body.toBuffer())
  answer.int32()
  return answer.compactArray((reader) => reader.int16())[0] ?? -1
}

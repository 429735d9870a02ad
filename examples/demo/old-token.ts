/**
 * Asks the broker what it thinks of a token: an AddPartitionsToTxn made by hand, as a deposed leader without any library in
 * between would send it.
 *
 * Never ask this of a token that leads: its transaction would be open from then on.
 */
import { readFileSync } from 'node:fs'
import { setTimeout as delay } from 'node:timers/promises'
import { projectPath } from '../../test/support/project-root.js'
import { WireConnection, WireWriter } from '../../test/support/wire.js'
import { machineNow } from './events.js'

const concurrentTransactions = 51
const patienceMs = 5_000

/** Kafka's answer: its code and the name that Kafka gives it. */
export interface KafkaAnswer {
  readonly code: number
  readonly name: string
}

/** Sends AddPartitionsToTxn for partition 0 of `topic` under `token` (`producerId:producerEpoch`) to the role's coordinator. */
export async function addPartitionUnder(
  token: string,
  role: string,
  topic: string,
  bootstrap: readonly string[],
): Promise<KafkaAnswer> {
  const coordinator = await findCoordinator(role, bootstrap)
  const [producerId = '', producerEpoch = ''] = token.split(':')
  const body = new WireWriter()
    .string(role)
    .int64(BigInt(producerId))
    .int16(Number(producerEpoch))
    .array([topic], (writer, name) => writer.string(name).array([0], (inner, partition) => inner.int32(partition)))
  // Version 2 is the first that may answer 90, PRODUCER_FENCED; before, an old epoch was 47.
  const giveUpAt = machineNow() + patienceMs
  return await onConnection(coordinator, async (connection) => {
    for (;;) {
      const code = await ask(connection, body.toBuffer())
      // While the coordinator completes a transaction of the role, whoever's it is, it looks at no token: ask again, as producers do.
      if (code !== concurrentTransactions || machineNow() > giveUpAt) return { code, name: nameOf(code) }
      await delay(1)
    }
  })
}

async function ask(connection: WireConnection, body: Buffer): Promise<number> {
  const answer = await connection.request('AddPartitionsToTxn', 2, body)
  answer.int32()
  const [ofTopic] = answer.array((reader) => {
    reader.string()
    return reader.array((inner) => {
      inner.int32()
      return inner.int16()
    })
  })
  const code = ofTopic?.[0]
  if (code === undefined) throw new Error('AddPartitionsToTxn was answered without a code')
  return code
}

async function findCoordinator(role: string, bootstrap: readonly string[]): Promise<string> {
  const transaction = 1
  const body = new WireWriter().string(role).int8(transaction).toBuffer()
  return await onConnection(bootstrap[0] ?? '', async (connection) => {
    const answer = await connection.request('FindCoordinator', 2, body)
    answer.int32()
    const code = answer.int16()
    answer.string()
    answer.int32()
    if (code !== 0) throw new Error(`No coordinator of '${role}' was found: Kafka's code ${code}, ${nameOf(code)}`)
    return `${answer.string()}:${answer.int32()}`
  })
}

async function onConnection<T>(address: string, use: (connection: WireConnection) => Promise<T>): Promise<T> {
  const connection = await WireConnection.open(address)
  try {
    return await use(connection)
  } finally {
    connection.close()
  }
}

function nameOf(code: number): string {
  const known: readonly { code: number; name: string }[] = JSON.parse(
    readFileSync(projectPath('test', 'cluster', 'kafka-errors.json'), 'utf8'),
  )
  return known.find((error) => error.code === code)?.name ?? 'a code that Kafka has no name for'
}

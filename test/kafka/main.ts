/**
 * `npm run kafka -- --nodes 1|3 --transaction-version 0|2 [--kafka-version X]`: a Kafka to work against.
 *
 * Prints one line `KAFKA_BROKERS=...` on standard output when the cluster can be used, and ends it on SIGINT or SIGTERM.
 */
import { parseArgs } from 'node:util'
import { defaultKafkaVersion } from './artifacts.js'
import { type KafkaCluster, type KafkaKind, startCluster } from './cluster.js'
import { brokersAvailability } from './requirements.js'

const usage = `Usage: npm run kafka -- [--nodes 1|3] [--transaction-version 0|2] [--kafka-version X]
  --nodes                how many brokers (default 1)
  --transaction-version  level of the feature transaction.version (default 2)
  --kafka-version        a published version (default ${defaultKafkaVersion}); before 4.0 only with --transaction-version 0`

/** What the command line asks for. Throws an `Error` that names the flag and what it takes. */
function readArguments(args: readonly string[]): KafkaKind | 'help' {
  const { values } = parseArgs({
    args: [...args],
    options: {
      nodes: { type: 'string', default: '1' },
      'transaction-version': { type: 'string', default: '2' },
      'kafka-version': { type: 'string', default: defaultKafkaVersion },
      help: { type: 'boolean', default: false },
    },
  })
  if (values.help) return 'help'
  const { nodes, 'transaction-version': transactionVersion, 'kafka-version': kafkaVersion } = values
  if (nodes !== '1' && nodes !== '3') throw new Error(`--nodes takes 1 or 3, not "${nodes}"`)
  if (transactionVersion !== '0' && transactionVersion !== '2') {
    throw new Error(`--transaction-version takes 0 or 2, not "${transactionVersion}"`)
  }
  if (!/^\d+\.\d+\.\d+$/.test(kafkaVersion))
    throw new Error(`--kafka-version takes a version such as 4.1.2, not "${kafkaVersion}"`)
  if (transactionVersion === '2' && kafkaVersion.startsWith('3.')) {
    throw new Error(`Kafka ${kafkaVersion} has no transaction version 2; add --transaction-version 0`)
  }
  return { nodes: nodes === '1' ? 1 : 3, transactionVersion: transactionVersion === '0' ? 0 : 2, kafkaVersion }
}

async function main(): Promise<number> {
  let kind: KafkaKind | 'help'
  try {
    kind = readArguments(process.argv.slice(2))
  } catch (error) {
    console.error(`${error instanceof Error ? error.message : String(error)}\n${usage}`)
    return 2
  }
  if (kind === 'help') {
    console.log(usage)
    return 0
  }
  const availability = brokersAvailability()
  if (!availability.available) {
    console.error(`Cannot start a Kafka here: ${availability.missing}`)
    return 1
  }
  const interrupted = new Promise<void>((resolve) => {
    process.on('SIGINT', resolve)
    process.on('SIGTERM', resolve)
  })
  const starting = startCluster(kind)
  const first = await Promise.race([starting, interrupted])
  const cluster: KafkaCluster = first ?? (await starting)
  if (first !== undefined) {
    console.log(`KAFKA_BROKERS=${cluster.bootstrap.join(',')}`)
    await interrupted
  }
  await cluster.stop()
  return 0
}

process.exitCode = await main().catch((error: unknown) => {
  console.error(error)
  return 1
})

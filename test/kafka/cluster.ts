/**
 * Starts a real Kafka of one or three combined KRaft nodes on free loopback ports and in data folders of its own, and
 * kills, pauses, resumes, stops and restarts single nodes.
 *
 * Whatever it starts ends with it: at `stop()`, when this process exits or is interrupted, and, because each broker
 * watches its standard input, even when this process is killed. It uses no shell and never repeats a failed start.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { closeSync, mkdirSync, mkdtempSync, openSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { defaultKafkaVersion, type KafkaArtifacts, kafkaArtifacts } from './artifacts.js'
import { internalPartitions, untilBrokersKnown, untilCoordinatorsReady } from './ready.js'

export type TransactionVersion = 0 | 2

/** What sets one cluster apart from another. */
export interface KafkaKind {
  readonly nodes: 1 | 3
  /** The finalized level of the feature `transaction.version` (KIP-890). */
  readonly transactionVersion: TransactionVersion
  /** Default: `defaultKafkaVersion`. Before 4.0 only transaction version 0 exists. */
  readonly kafkaVersion?: string
}

export interface KafkaClusterOptions extends KafkaKind {
  /** Broker settings by Kafka's names, over the harness's own. */
  readonly overrides?: Readonly<Record<string, string>>
  /**
   * Users and their passwords: opens a second listener on each node, `saslPort`, that takes them by SASL/PLAIN without TLS.
   * Its settings go by `listener.name.sasl.plain.` in `overrides`, such as `connections.max.reauth.ms`.
   */
  readonly saslUsers?: Readonly<Record<string, string>>
  /** Arguments for `java` in place of the harness's, which are chosen for a fast start and not for throughput. */
  readonly jvmArguments?: readonly string[]
}

/** One node of a running cluster. Its port stays the same through restarts. */
export interface KafkaNode {
  readonly id: number
  readonly port: number
  /** Port of the SASL listener; undefined without `saslUsers`. */
  readonly saslPort: number | undefined
  /** Of the running process, or of the last one. */
  readonly pid: number
  /** SIGKILL; resolves when the process is gone. */
  kill(): Promise<void>
  /** SIGSTOP. */
  pause(): Promise<void>
  /** SIGCONT. */
  resume(): Promise<void>
  /** SIGTERM, a controlled shutdown; resolves when the process is gone, which is enforced after 30 s. */
  stop(): Promise<void>
  /** Starts a killed or stopped node on the data it had; resolves when it is registered again. */
  start(): Promise<void>
}

/** A running cluster. */
export interface KafkaCluster {
  readonly kind: KafkaKind
  /** `host:port` of every node. */
  readonly bootstrap: readonly string[]
  readonly nodes: readonly KafkaNode[]
  /** Kills every node and removes its data. */
  stop(): Promise<void>
}

const readyMs = 120_000
const controlledShutdownMs = 30_000
const logTailLines = 40

/** A start is worth more than a peak here: C1 only, the smallest collector, class data sharing where there is an archive. */
const fastStartArguments: readonly string[] = [
  '-Xms256m',
  '-Xmx512m',
  '-XX:+UseSerialGC',
  '-XX:TieredStopAtLevel=1',
  '-Xshare:auto',
]

/**
 * Starts a cluster and resolves when it can be used (see ready.ts). Rejects, with the tail of the broker's log, when a node
 * ends or is not ready within two minutes; then nothing is left running.
 */
export async function startCluster(options: KafkaClusterOptions): Promise<KafkaCluster> {
  const version = options.kafkaVersion ?? defaultKafkaVersion
  const featureExists = Number(version.split('.')[0]) >= 4
  if (options.transactionVersion !== 0 && !featureExists) {
    throw new Error(
      `Kafka ${version} has no transaction.version ${options.transactionVersion}; ask for 0, or for 4.0 or newer`,
    )
  }
  const artifacts = await kafkaArtifacts(version)
  const folder = mkdtempSync(join(tmpdir(), `mandate-kafka-${process.pid}-`))
  const ports = await freePorts(options.nodes * 3)
  const ids = Array.from({ length: options.nodes }, (_, index) => index + 1)
  const portsOf = (index: number): BrokerPorts => {
    const [port = 0, controller = 0, sasl = 0] = ports.slice(index * 3)
    return { port, controller, sasl: options.saslUsers === undefined ? undefined : sasl }
  }
  const voters = ids.map((id, index) => `${id}@127.0.0.1:${portsOf(index).controller}`).join(',')
  const feature = featureExists ? ['--feature', `transaction.version=${options.transactionVersion}`] : []
  const nodes = ids.map((id, index) => {
    const settings = {
      ...commonSettings(options.nodes, voters),
      ...nodeSettings(id, portsOf(index), join(folder, `${id}`, 'data')),
      ...saslSettings(options.saslUsers),
      ...options.overrides,
    }
    const jvmArguments = options.jvmArguments ?? fastStartArguments
    return new BrokerProcess({
      id,
      ports: portsOf(index),
      folder: join(folder, `${id}`),
      artifacts,
      jvmArguments,
      settings,
      feature,
    })
  })
  const bootstrap = nodes.map((node) => `127.0.0.1:${node.port}`)
  const stop = async (): Promise<void> => {
    await Promise.all(nodes.map((node) => node.kill()))
    rmSync(folder, { recursive: true, force: true, maxRetries: 3 })
  }
  try {
    await Promise.all(
      nodes.map((node) => node.launch((signal) => untilBrokersKnown(`127.0.0.1:${node.port}`, ids, signal))),
    )
    await Promise.all(
      nodes.map((node) => node.watch((signal) => untilCoordinatorsReady(`127.0.0.1:${node.port}`, signal))),
    )
  } catch (error) {
    await stop()
    throw error
  }
  return {
    kind: { nodes: options.nodes, transactionVersion: options.transactionVersion, kafkaVersion: version },
    bootstrap,
    nodes,
    stop,
  }
}

function commonSettings(nodes: number, voters: string): Record<string, string> {
  const minimumInSync = nodes === 1 ? '1' : '2'
  return {
    'process.roles': 'broker,controller',
    'controller.quorum.voters': voters,
    'controller.listener.names': 'CONTROLLER',
    'inter.broker.listener.name': 'PLAINTEXT',
    'listener.security.protocol.map': 'CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SASL:SASL_PLAINTEXT',
    'default.replication.factor': `${nodes}`,
    'offsets.topic.num.partitions': `${internalPartitions}`,
    'offsets.topic.replication.factor': `${nodes}`,
    'transaction.state.log.num.partitions': `${internalPartitions}`,
    'transaction.state.log.replication.factor': `${nodes}`,
    'transaction.state.log.min.isr': minimumInSync,
    'share.coordinator.state.topic.replication.factor': `${nodes}`,
    'share.coordinator.state.topic.min.isr': minimumInSync,
    // Kafka looks every 10 s, so a transaction of a 3 s lease would outlive its timeout by three leases.
    'transaction.abort.timed.out.transaction.cleanup.interval.ms': '1000',
    'group.initial.rebalance.delay.ms': '0',
  }
}

interface BrokerPorts {
  readonly port: number
  readonly controller: number
  readonly sasl: number | undefined
}

function nodeSettings(id: number, ports: BrokerPorts, dataFolder: string): Record<string, string> {
  const clients = [`PLAINTEXT://127.0.0.1:${ports.port}`]
  if (ports.sasl !== undefined) clients.push(`SASL://127.0.0.1:${ports.sasl}`)
  return {
    'node.id': `${id}`,
    listeners: [...clients, `CONTROLLER://127.0.0.1:${ports.controller}`].join(','),
    'advertised.listeners': clients.join(','),
    'log.dirs': dataFolder,
  }
}

function saslSettings(users: Readonly<Record<string, string>> | undefined): Record<string, string> {
  if (users === undefined) return {}
  const entries = Object.entries(users).map(([name, password]) => `user_${name}="${password}"`)
  const login = 'org.apache.kafka.common.security.plain.PlainLoginModule'
  return {
    'sasl.enabled.mechanisms': 'PLAIN',
    'listener.name.sasl.plain.sasl.jaas.config': `${login} required ${entries.join(' ')};`,
  }
}

interface BrokerOptions {
  readonly id: number
  readonly ports: BrokerPorts
  readonly folder: string
  readonly artifacts: KafkaArtifacts
  readonly jvmArguments: readonly string[]
  readonly settings: Readonly<Record<string, string>>
  /** Arguments of StorageTool that fix the transaction version. */
  readonly feature: readonly string[]
}

/** Any value does, as long as all nodes of a cluster have it: 16 bytes in URL-safe base64. */
const clusterId = 'bWFuZGF0ZS1jbHVzdGVyLQ'

class BrokerProcess implements KafkaNode {
  readonly id: number
  readonly port: number
  readonly saslPort: number | undefined
  readonly #options: BrokerOptions
  readonly #logPath: string
  #child: ChildProcess | undefined
  #gone: Promise<unknown> = Promise.resolve()
  #formatted = false

  constructor(options: BrokerOptions) {
    this.id = options.id
    this.port = options.ports.port
    this.saslPort = options.ports.sasl
    this.#options = options
    this.#logPath = join(options.folder, 'broker.log')
  }

  get pid(): number {
    return this.#child?.pid ?? 0
  }

  get #running(): boolean {
    return this.#child !== undefined && this.#child.exitCode === null && this.#child.signalCode === null
  }

  /** Starts the process, formatting its data folder the first time, and resolves when `ready` does. */
  async launch(ready: (signal: AbortSignal) => Promise<void>): Promise<void> {
    if (this.#running) throw new Error(`Broker ${this.id} is running already (pid ${this.pid})`)
    const { folder, artifacts, jvmArguments, settings, feature } = this.#options
    mkdirSync(folder, { recursive: true })
    const properties = join(folder, 'server.properties')
    writeFileSync(
      properties,
      Object.entries(settings)
        .map(([name, value]) => `${name}=${value}\n`)
        .join(''),
    )
    const format = this.#formatted ? [] : ['format', '-t', clusterId, '-c', properties, ...feature]
    this.#formatted = true
    const log = openSync(this.#logPath, 'a')
    const child = spawn(
      artifacts.java,
      [
        ...jvmArguments,
        '-Dorg.slf4j.simpleLogger.showDateTime=true',
        '-cp',
        artifacts.classpath,
        'BrokerUnderWatch',
        properties,
        folder,
        ...format,
      ],
      { stdio: ['pipe', log, log] },
    )
    closeSync(log)
    this.#child = child
    this.#gone = once(child, 'exit').finally(() => running.delete(child))
    running.add(child)
    endWithThisProcess()
    await this.watch(ready)
  }

  /** Resolves when `ready` does; rejects with the log's tail as soon as the process ends, or after two minutes. */
  async watch(ready: (signal: AbortSignal) => Promise<void>): Promise<void> {
    const ended = new AbortController()
    const timeout = AbortSignal.timeout(readyMs)
    void this.#gone.then(
      () => ended.abort(new Error('the process has ended')),
      (error: unknown) => ended.abort(error),
    )
    try {
      await ready(AbortSignal.any([ended.signal, timeout]))
    } catch (error) {
      throw new Error(`Broker ${this.id} did not get ready. Its log ends:\n${this.#logTail()}`, { cause: error })
    }
  }

  async start(): Promise<void> {
    await this.launch(async (signal) => {
      await untilBrokersKnown(`127.0.0.1:${this.port}`, [this.id], signal)
      await untilCoordinatorsReady(`127.0.0.1:${this.port}`, signal)
    })
  }

  async kill(): Promise<void> {
    await this.#end('SIGKILL')
  }

  async stop(): Promise<void> {
    const enforce = setTimeout(() => this.#child?.kill('SIGKILL'), controlledShutdownMs)
    try {
      await this.#end('SIGTERM')
    } finally {
      clearTimeout(enforce)
    }
  }

  async pause(): Promise<void> {
    this.#signal('SIGSTOP')
  }

  async resume(): Promise<void> {
    this.#signal('SIGCONT')
  }

  async #end(signal: NodeJS.Signals): Promise<void> {
    if (this.#running) this.#child?.kill(signal)
    await this.#gone
  }

  #signal(signal: NodeJS.Signals): void {
    if (!this.#running) throw new Error(`Broker ${this.id} is not running, so it cannot take ${signal}`)
    this.#child?.kill(signal)
  }

  #logTail(): string {
    return readFileSync(this.#logPath, 'utf8').trimEnd().split('\n').slice(-logTailLines).join('\n')
  }
}

const running = new Set<ChildProcess>()
let armed = false

/** Ends every broker with this process, paused ones included, which cannot see the end of their input. */
function endWithThisProcess(): void {
  if (armed) return
  armed = true
  const endAll = (): void => {
    for (const child of running) child.kill('SIGKILL')
  }
  process.once('exit', endAll)
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
    process.once(signal, () => {
      // A program with a handler of its own decides about its end; without one the signal keeps its meaning.
      if (process.listenerCount(signal) > 0) return
      endAll()
      process.kill(process.pid, signal)
    })
  }
}

const handedOut = new Set<number>()

/**
 * Ports that nobody listens on, below the ranges that systems give to outgoing connections: a client's socket must not
 * take the port of a broker that is down.
 */
async function freePorts(count: number): Promise<readonly number[]> {
  const ports: number[] = []
  while (ports.length < count) {
    const port = 14_000 + Math.floor(Math.random() * 18_000)
    if (handedOut.has(port) || !(await isFree(port))) continue
    handedOut.add(port)
    ports.push(port)
  }
  return ports
}

function isFree(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const server = createServer()
    server.once('error', () => resolve(false))
    server.listen(port, '127.0.0.1', () => server.close(() => resolve(true)))
  })
}

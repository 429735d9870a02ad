/**
 * The one owner of the clusters that suites share. Test files run in processes of their own, so it listens on a loopback
 * port, starts a cluster of a kind when the first suite asks for it, and ends all of them with the whole run.
 *
 * It also finds out once what this machine offers, so that no test file has to.
 */
import { createServer, type IncomingMessage } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { TestProject } from 'vitest/node'
import { type KafkaCluster, startCluster } from './cluster.js'
import { brokersAvailability, type KafkaAvailability, namedBrokers } from './requirements.js'

/** What a suite is told. */
export interface KafkaSetup {
  /** Where clusters are asked for. */
  readonly control: string
  /** Brokers that the environment names. */
  readonly named: readonly string[] | null
  /** Whether clusters can be started. */
  readonly brokers: KafkaAvailability
}

declare module 'vitest' {
  export interface ProvidedContext {
    kafka: KafkaSetup
  }
}

/** A cluster that all suites of one purpose share. */
export interface SharedKind {
  readonly nodes: 1 | 3
  readonly transactionVersion: 0 | 2
  readonly kafkaVersion?: string
  /**
   * Suites that name the same purpose share a cluster of their own. One that kills or pauses brokers names one, so that it
   * harms nobody else.
   */
  readonly purpose?: string
}

export type NodeAction = 'kill' | 'pause' | 'resume' | 'stop' | 'start'

export interface ControlRequest {
  readonly kind: SharedKind
  /** What to do to one node; without it the cluster is only described, and started where it is not running. */
  readonly node?: { readonly id: number; readonly action: NodeAction }
}

export interface ControlAnswer {
  readonly bootstrap: readonly string[]
  readonly nodes: readonly { readonly id: number; readonly port: number; readonly pid: number }[]
}

/** Called by vitest before any suite; what it returns is called behind the last one. */
export async function setup(project: TestProject): Promise<() => Promise<void>> {
  const clusters = new Map<string, Promise<KafkaCluster>>()
  const server = createServer((request, response) => {
    void handle(request, clusters).then(
      (answer) => response.end(JSON.stringify(answer)),
      (error: unknown) => {
        response.statusCode = 500
        response.end(error instanceof Error ? error.message : String(error))
      },
    )
  })
  server.requestTimeout = 0
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  project.provide('kafka', {
    control: `http://127.0.0.1:${port}`,
    named: namedBrokers() ?? null,
    brokers: brokersAvailability(),
  })
  return async () => {
    server.close()
    server.closeAllConnections()
    for (const cluster of await Promise.allSettled(clusters.values())) {
      if (cluster.status === 'fulfilled') await cluster.value.stop()
    }
  }
}

async function handle(request: IncomingMessage, clusters: Map<string, Promise<KafkaCluster>>): Promise<ControlAnswer> {
  const chunks: Buffer[] = []
  for await (const chunk of request) chunks.push(chunk as Buffer)
  const { kind, node }: ControlRequest = JSON.parse(Buffer.concat(chunks).toString())
  const key = JSON.stringify([kind.nodes, kind.transactionVersion, kind.kafkaVersion, kind.purpose])
  let starting = clusters.get(key)
  if (starting === undefined) {
    starting = startCluster(kind)
    clusters.set(key, starting)
  }
  const cluster = await starting
  if (node !== undefined) {
    const target = cluster.nodes.find((candidate) => candidate.id === node.id)
    if (target === undefined) throw new Error(`No broker ${node.id} in a cluster of ${cluster.nodes.length}`)
    await target[node.action]()
  }
  return { bootstrap: cluster.bootstrap, nodes: cluster.nodes.map(({ id, port, pid }) => ({ id, port, pid })) }
}

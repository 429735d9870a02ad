/**
 * How a suite gets a Kafka: clusters that all suites share, and blocks that are skipped, with the reason in their name,
 * where there is none. Under CI a block that cannot run is a failing test, so that nothing is skipped unseen.
 *
 * A shared cluster belongs to everybody: name topics, groups and roles freshly, and harm its brokers only in a cluster of
 * a purpose of your own (see `SharedKind`).
 */
import { randomBytes } from 'node:crypto'
import { beforeAll, describe, inject, test } from 'vitest'
import type { KafkaNode } from './cluster.js'
import type { ControlAnswer, ControlRequest, NodeAction, SharedKind } from './global-setup.js'
import type { KafkaAvailability } from './requirements.js'

/** A running cluster of another process: everything but its end is the same. */
export interface SharedCluster {
  readonly bootstrap: readonly string[]
  /** Empty for a cluster that the environment names: its brokers are not ours to harm. */
  readonly nodes: readonly KafkaNode[]
}

const known = new Map<string, Promise<SharedCluster>>()

/** The running cluster of a kind: the same one in every test file, started at first use. */
export function sharedCluster(kind: SharedKind): Promise<SharedCluster> {
  const key = JSON.stringify(kind)
  let cluster = known.get(key)
  if (cluster === undefined) {
    const { named } = inject('kafka')
    cluster = named !== null && kindCanBeNamed(kind) ? Promise.resolve({ bootstrap: named, nodes: [] }) : ask(kind)
    known.set(key, cluster)
  }
  return cluster
}

/** A name that no other test uses: for topics, groups and roles. */
export function freshName(stem: string): string {
  return `${stem}-${randomBytes(4).toString('hex')}`
}

/**
 * A `describe` with a shared cluster of `kind`: `cluster()` answers it within hooks and tests. A one-node kind without a
 * purpose or version runs on the cluster that the environment names, where it names one.
 */
export function describeWithKafka(name: string, kind: SharedKind, suite: (cluster: () => SharedCluster) => void): void {
  const { named, brokers } = inject('kafka')
  const availability: KafkaAvailability = named !== null && kindCanBeNamed(kind) ? { available: true } : brokers
  describeWhere(availability, name, () => {
    let cluster: SharedCluster | undefined
    beforeAll(async () => {
      cluster = await sharedCluster(kind)
    })
    suite(() => {
      if (cluster === undefined) throw new Error('cluster() is answered within hooks and tests only')
      return cluster
    })
  })
}

/** A `describe` for suites that start clusters of their own with `startCluster`. */
export function describeWithBrokers(name: string, suite: () => void): void {
  describeWhere(inject('kafka').brokers, name, suite)
}

function describeWhere(availability: KafkaAvailability, name: string, suite: () => void): void {
  if (availability.available) describe(name, suite)
  else if (process.env.CI === 'true') {
    describe(name, () => {
      test('has a Kafka to run on', () => {
        throw new Error(availability.missing)
      })
    })
  } else describe.skip(`${name} (skipped: ${availability.missing})`, suite)
}

function kindCanBeNamed(kind: SharedKind): boolean {
  return kind.nodes === 1 && kind.purpose === undefined && kind.kafkaVersion === undefined
}

async function ask(kind: SharedKind): Promise<SharedCluster> {
  let answer = await control({ kind })
  const nodes = answer.nodes.map(({ id, port }): KafkaNode => {
    const act = async (action: NodeAction): Promise<void> => {
      answer = await control({ kind, node: { id, action } })
    }
    return {
      id,
      port,
      saslPort: undefined,
      get pid() {
        return answer.nodes.find((node) => node.id === id)?.pid ?? 0
      },
      kill: () => act('kill'),
      pause: () => act('pause'),
      resume: () => act('resume'),
      stop: () => act('stop'),
      start: () => act('start'),
    }
  })
  return { bootstrap: answer.bootstrap, nodes }
}

async function control(request: ControlRequest): Promise<ControlAnswer> {
  const response = await fetch(inject('kafka').control, { method: 'POST', body: JSON.stringify(request) })
  const text = await response.text()
  if (!response.ok) throw new Error(text)
  return JSON.parse(text)
}

/**
 * The connection seam on kafkajs: the channels of one client, each made at first use.
 *
 * It only finds the channel; `channel.ts` keeps the deadlines and `link.ts` the socket. It never touches kafkajs's cluster
 * metadata and never closes anything of the user's `Kafka`, which lends its configuration alone.
 */
import {
  type ApiName,
  type ApiRequest,
  type ApiResponse,
  type Channel as ChannelName,
  type ClusterConnection,
  type Node,
  RequestFailure,
  type RequestOptions,
} from '../cluster/connection.js'
import type { Runtime } from '../runtime.js'
import { Channel } from './channel.js'
import { brokerPoolOf, type KafkajsBrokerPool } from './kafkajs-internals.js'
import type { Destination } from './link.js'
import type { Codec } from './protocol/codec.js'
import { codecs } from './protocol/codecs.js'

const mintIdleCloseMs = 60_000

/**
 * Sends requests with the sockets, TLS, SASL and brokers of the user's kafkajs `Kafka`. Opens nothing until the first request.
 *
 * Throws `CONFIG` or `UNSUPPORTED` when `kafka` is not a kafkajs 2.2 `Kafka`.
 */
export function openKafkaConnection(options: {
  readonly kafka: unknown
  readonly runtime: Runtime
}): ClusterConnection {
  return new KafkaConnection(brokerPoolOf(options.kafka), options.runtime)
}

class KafkaConnection implements ClusterConnection {
  readonly #brokers: KafkajsBrokerPool
  readonly #runtime: Runtime
  readonly #channels = new Map<string, Channel>()
  #closed = false

  constructor(brokers: KafkajsBrokerPool, runtime: Runtime) {
    this.#brokers = brokers
    this.#runtime = runtime
  }

  request<A extends ApiName>(
    node: Node | 'seed',
    channel: ChannelName,
    request: ApiRequest<A> & { readonly api: A },
    options: RequestOptions,
  ): Promise<ApiResponse<A>> {
    if (this.#closed) {
      const message = `${request.api} was not sent: the connection to the cluster was closed`
      return Promise.reject(new RequestFailure('closed', message, { written: false }))
    }
    return this.#channel(node, channel).request(codecOf<A>(request), request, options)
  }

  reset(node: Node, channel: ChannelName): void {
    this.#channels.get(keyOf(node, channel))?.reset('closed', `channel ${channel} to broker ${node.id} was reset`)
  }

  close(): void {
    this.#closed = true
    for (const channel of this.#channels.values()) channel.reset('closed', 'the connection to the cluster was closed')
    this.#channels.clear()
  }

  #channel(destination: Destination, name: ChannelName): Channel {
    const key = keyOf(destination, name)
    const known = this.#channels.get(key)
    if (known !== undefined) return known
    const channel = new Channel({
      brokers: this.#brokers,
      runtime: this.#runtime,
      destination,
      name,
      idleCloseMs: name === 'mint' ? mintIdleCloseMs : undefined,
    })
    this.#channels.set(key, channel)
    return channel
  }
}

/** A broker that moved to another address gets channels of its own: those to its old address break by themselves. */
function keyOf(destination: Destination, channel: ChannelName): string {
  if (destination === 'seed') return `seed ${channel}`
  return `${destination.id} ${destination.host} ${destination.port} ${channel}`
}

/** The request's `api` is its name, which the type system cannot follow through the table. */
function codecOf<A extends ApiName>(request: { readonly api: ApiName }): Codec<A> {
  return codecs[request.api] as unknown as Codec<A>
}

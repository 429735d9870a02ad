/**
 * In-process clients on one coordination topic, what each of them reported, and how they all come to an end.
 */
import { Kafka, logLevel } from 'kafkajs'
import type { ClientOptions, LeadershipStatus } from '../../src/index.js'
import { CoordinationClient } from '../../src/index.js'

/** A record that a client reported, by its offset. */
export interface Report {
  readonly event: 'foreign-record' | 'unreadable-record'
  readonly offset: bigint
  readonly role: string | undefined
}

/** A client and what it reported. */
export interface Watched {
  readonly client: CoordinationClient
  readonly reports: readonly Report[]
  readonly warnings: readonly string[]
}

/** Clients of one topic. Close it. */
export class Stage {
  readonly kafka: Kafka
  readonly #options: Partial<ClientOptions>
  readonly #clients: CoordinationClient[] = []

  constructor(bootstrap: readonly string[], options: Partial<ClientOptions>) {
    this.kafka = new Kafka({ brokers: [...bootstrap], logLevel: logLevel.NOTHING })
    this.#options = options
  }

  client(memberId: string, options: Partial<ClientOptions> = {}): Watched {
    const reports: Report[] = []
    const warnings: string[] = []
    const ignore = (): void => undefined
    const warn = (fields: object, message: string): void => {
      warnings.push(message)
      const { event, offset, role } = fields as { event?: Report['event']; offset?: string; role?: string }
      if (event !== undefined && offset !== undefined) reports.push({ event, offset: BigInt(offset), role })
    }
    const logger = { debug: ignore, info: ignore, warn, error: ignore }
    const client = new CoordinationClient({ kafka: this.kafka, memberId, logger, ...this.#options, ...options })
    this.#clients.push(client)
    return { client, reports, warnings }
  }

  async close(): Promise<void> {
    await Promise.all(this.#clients.map((client) => client.close()))
  }
}

/** Of a status, what a forgery would have to change. */
export function who({ holder, token, term, authority }: LeadershipStatus): object {
  return { holder, token: token?.toString(), term, authority }
}

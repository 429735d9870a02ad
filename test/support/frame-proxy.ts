/**
 * A network between one client and real brokers that misbehaves on demand. It listens on one port per broker, understands
 * Kafka's frames and redirects advertised addresses, so that every connection of the client goes through it.
 *
 * It keeps what TCP promises: frames of a connection stay in order in each direction, so what is held or delayed holds up
 * what follows it, and frames that the client sent before it closed still arrive, even long after. Faults are chosen when a
 * request arrives. To treat two clients differently give each a proxy of its own. No TLS; SASL passes.
 */
import { connect, createServer, type Server, type Socket } from 'node:net'
import { setTimeout as delay } from 'node:timers/promises'
import { advertisesAddresses, redirectAddresses } from './frame-addresses.js'
import {
  type ApiKeyName,
  answerBodyOffset,
  apiName,
  FrameSplitter,
  framed,
  isFlexible,
  parseAddress,
  WireReader,
} from './wire.js'

/** What happens to a request or to its answer. */
export type Fault =
  /** The broker gets it later. */
  | { readonly do: 'delay'; readonly ms: number }
  /** The broker never gets it. */
  | { readonly do: 'drop' }
  /** The broker gets it when it is released, whether or not the client is still there. */
  | { readonly do: 'hold' }
  /** The connection is cut before the broker gets it. */
  | { readonly do: 'cut' }
  /** The broker applies it, and its answer is lost. */
  | { readonly do: 'dropAnswer' }
  /** The broker applies it, and its answer comes later. */
  | { readonly do: 'delayAnswer'; readonly ms: number }
  /** The broker applies it, and its answer comes when it is released. */
  | { readonly do: 'holdAnswer' }
  /** The broker applies it, and the connection is cut in place of the answer. */
  | { readonly do: 'cutAnswer' }
  /** The client gets another body in place of the broker's, in the same version. */
  | { readonly do: 'rewriteAnswer'; readonly rewrite: (body: Buffer) => Buffer }

export interface RequestMatch {
  /** Default: every API. */
  readonly api?: ApiKeyName
  readonly when?: (request: ProxiedRequest) => boolean
  /** How many matching requests pass first (default 0). */
  readonly skip?: number
  /** How many are then treated (default 1). */
  readonly times?: number
}

/** A request that arrived at the proxy. */
export interface ProxiedRequest {
  /** Undefined for an API that wire.ts does not name. */
  readonly api: ApiKeyName | undefined
  readonly apiKey: number
  readonly apiVersion: number
  readonly clientId: string | null
  /** `host:port` of the broker it is for. */
  readonly broker: string
  /** What follows the header. */
  readonly body: Buffer
  /** Whether `text` occurs in the body as UTF-8: a role's name, a topic's. */
  mentions(text: string): boolean
  /** The body of the broker's own answer: from here on the broker has applied it. Rejects if it will never come. */
  readonly answered: Promise<Buffer>
  /** Lets a held request, or a held answer, go on. */
  release(): void
}

/** A fault that has been laid. Rules are tried in the order they were laid; the first that matches is the only one used. */
export interface Rule {
  /** The requests that were treated, in order of arrival. */
  readonly treated: readonly ProxiedRequest[]
  /** Resolves with the n-th treated request (default the first) when it has arrived. */
  hit(n?: number): Promise<ProxiedRequest>
  /** Releases what was held so far. */
  release(): void
  /** Treats no further request; what is held stays so. */
  remove(): void
}

/** A disturbance that lasts until it is lifted. */
export interface Disturbance {
  lift(): void
}

export type Direction = 'toBroker' | 'toClient' | 'both'

interface Exchange {
  readonly request: ProxiedRequest
  readonly correlationId: number
  readonly frame: Buffer
  readonly fault: Fault | undefined
  readonly released: Promise<void>
  readonly answer: (body: Buffer) => void
  readonly lost: (error: Error) => void
}

interface Silence {
  readonly direction: Direction
  readonly broker: string | undefined
  readonly lifted: Promise<void>
}

interface ActiveRule extends Rule {
  take(request: ProxiedRequest): Fault | undefined
  fail(error: Error): void
}

/** Starts a proxy in front of the brokers of `bootstrap`; others are added when an answer advertises them. */
export async function startFrameProxy(bootstrap: readonly string[]): Promise<FrameProxy> {
  const proxy = new FrameProxy()
  for (const broker of bootstrap) await proxy.addressOf(broker)
  return proxy
}

export class FrameProxy {
  readonly #listeners = new Map<string, Promise<{ server: Server; port: number }>>()
  readonly #addresses: string[] = []
  readonly #connections = new Set<ProxiedConnection>()
  readonly #rules: ActiveRule[] = []
  readonly #silences = new Set<Silence>()
  readonly #blocked = new Set<{ readonly broker: string | undefined }>()
  readonly #counts = new Map<ApiKeyName, number>()
  readonly #waiters = new Set<{
    readonly api: ApiKeyName
    readonly n: number
    readonly resolve: (request: ProxiedRequest) => void
    readonly reject: (error: Error) => void
  }>()
  readonly #closed = new AbortController()

  /** `host:port` of the proxy's port for each broker. */
  get bootstrap(): readonly string[] {
    return this.#addresses
  }

  /** The proxy's own `host:port` for a broker's, which is opened where it is new. */
  async addressOf(broker: string): Promise<string> {
    let listener = this.#listeners.get(broker)
    if (listener === undefined) {
      listener = this.#listen(broker)
      this.#listeners.set(broker, listener)
    }
    return `127.0.0.1:${(await listener).port}`
  }

  /** Lays a fault. */
  rule(match: RequestMatch, fault: Fault): Rule {
    const rule = activeRule(match, fault)
    this.#rules.push(rule)
    return rule
  }

  /** How many requests of an API have arrived. */
  count(api: ApiKeyName): number {
    return this.#counts.get(api) ?? 0
  }

  /** Resolves with the next request of an API that arrives from now on, or with the n-th from now on. */
  seen(api: ApiKeyName, n: number = 1): Promise<ProxiedRequest> {
    const seen = new Promise<ProxiedRequest>((resolve, reject) => {
      this.#waiters.add({ api, n: this.count(api) + n, resolve, reject })
    })
    seen.catch(ignoredUnlessAwaited)
    return seen
  }

  /**
   * Carries nothing in a direction, as a network that lost its way: connections stay and new ones are accepted. What was
   * sent meanwhile arrives when the silence is lifted.
   */
  silence(direction: Direction, broker?: string): Disturbance {
    let lift: () => void = () => {}
    const lifted = new Promise<void>((resolve) => {
      lift = resolve
    })
    const silence: Silence = { direction, broker, lifted }
    this.#silences.add(silence)
    return {
      lift: () => {
        this.#silences.delete(silence)
        lift()
      },
    }
  }

  /** Resets all of the client's connections (to one broker). What it had sent still arrives, what is held when released. */
  cut(broker?: string): void {
    for (const connection of [...this.#connections]) {
      if (broker === undefined || connection.broker === broker) connection.cut()
    }
  }

  /** Cuts all connections (to one broker), and each new one as soon as it is made, until lifted. */
  block(broker?: string): Disturbance {
    const block = { broker }
    this.#blocked.add(block)
    this.cut(broker)
    return { lift: () => this.#blocked.delete(block) }
  }

  /** Ends all connections and listeners. Whoever still waits for a request is rejected. */
  async close(): Promise<void> {
    const closed = new Error('The proxy is closed')
    this.#closed.abort(closed)
    for (const connection of this.#connections) connection.destroy()
    for (const waiter of this.#waiters) waiter.reject(closed)
    for (const rule of this.#rules) rule.fail(closed)
    for (const listener of this.#listeners.values()) {
      const { server } = await listener
      await new Promise((resolve) => server.close(resolve))
    }
  }

  #listen(broker: string): Promise<{ server: Server; port: number }> {
    return new Promise((resolve, reject) => {
      const server = createServer({ noDelay: true }, (client) => this.#accept(broker, client))
      server.once('error', reject)
      server.listen(0, '127.0.0.1', () => {
        const address = server.address()
        const port = typeof address === 'object' && address !== null ? address.port : 0
        this.#addresses.push(`127.0.0.1:${port}`)
        resolve({ server, port })
      })
    })
  }

  #accept(broker: string, client: Socket): void {
    for (const block of this.#blocked) {
      if (block.broker === undefined || block.broker === broker) {
        client.resetAndDestroy()
        return
      }
    }
    const connection = new ProxiedConnection(broker, client, {
      arrived: (request) => this.#arrived(request),
      passable: (direction) => this.#passable(direction, broker),
      redirect: async ({ host, port }) => parseAddress(await this.addressOf(`${host}:${port}`)),
      ended: () => this.#connections.delete(connection),
      closed: this.#closed.signal,
    })
    this.#connections.add(connection)
  }

  #arrived(request: ProxiedRequest): Fault | undefined {
    if (request.api !== undefined) {
      const count = this.count(request.api) + 1
      this.#counts.set(request.api, count)
      for (const waiter of this.#waiters) {
        if (waiter.api !== request.api || waiter.n !== count) continue
        this.#waiters.delete(waiter)
        waiter.resolve(request)
      }
    }
    for (const rule of this.#rules) {
      const fault = rule.take(request)
      if (fault !== undefined) return fault
    }
    return undefined
  }

  async #passable(direction: 'toBroker' | 'toClient', broker: string): Promise<void> {
    for (;;) {
      const silence = [...this.#silences].find(
        (candidate) =>
          (candidate.direction === 'both' || candidate.direction === direction) &&
          (candidate.broker === undefined || candidate.broker === broker),
      )
      if (silence === undefined) return
      await silence.lifted
    }
  }
}

/** What a test did not wait for does not fail it: an answer that it lost on purpose, a request that never came. */
function ignoredUnlessAwaited(): void {}

function activeRule(match: RequestMatch, fault: Fault): ActiveRule {
  const treated: ProxiedRequest[] = []
  const waiters = new Set<{ n: number; resolve: (request: ProxiedRequest) => void; reject: (error: Error) => void }>()
  let toSkip = match.skip ?? 0
  let left = match.times ?? 1
  return {
    treated,
    hit(n = 1) {
      const already = treated[n - 1]
      if (already !== undefined) return Promise.resolve(already)
      const hit = new Promise<ProxiedRequest>((resolve, reject) => waiters.add({ n, resolve, reject }))
      hit.catch(ignoredUnlessAwaited)
      return hit
    },
    release() {
      for (const request of treated) request.release()
    },
    remove() {
      left = 0
    },
    take(request) {
      if (left === 0 || (match.api !== undefined && match.api !== request.api)) return undefined
      if (match.when !== undefined && !match.when(request)) return undefined
      if (toSkip > 0) {
        toSkip -= 1
        return undefined
      }
      left -= 1
      treated.push(request)
      for (const waiter of waiters) {
        if (waiter.n !== treated.length) continue
        waiters.delete(waiter)
        waiter.resolve(request)
      }
      return fault
    },
    fail(error) {
      for (const waiter of waiters) waiter.reject(error)
      waiters.clear()
    },
  }
}

interface ConnectionHooks {
  readonly arrived: (request: ProxiedRequest) => Fault | undefined
  readonly passable: (direction: 'toBroker' | 'toClient') => Promise<void>
  readonly redirect: (address: { host: string; port: number }) => Promise<{ host: string; port: number }>
  readonly ended: () => void
  readonly closed: AbortSignal
}

/** One connection of the client and its counterpart to the broker; each direction is a queue. */
class ProxiedConnection {
  readonly broker: string
  readonly #client: Socket
  readonly #hooks: ConnectionHooks
  readonly #underWay = new Map<number, Exchange>()
  #upstream: Socket
  #toBroker: Promise<void> = Promise.resolve()
  #toClient: Promise<void> = Promise.resolve()
  #undelivered = 0
  /** Set when a request was lost with the connection: what followed it is lost too. */
  #severed = false

  constructor(broker: string, client: Socket, hooks: ConnectionHooks) {
    this.broker = broker
    this.#client = client
    this.#hooks = hooks
    this.#upstream = this.#dial()
    const splitter = new FrameSplitter()
    client.on('data', (chunk) => {
      for (const frame of splitter.push(chunk)) this.#receive(frame)
    })
    client.on('error', () => {})
    client.on('close', () => this.#settle())
  }

  /** Resets the client's side. What it had sent still arrives. */
  cut(): void {
    this.#client.resetAndDestroy()
  }

  /** Ends both sides at once. */
  destroy(): void {
    this.#severed = true
    this.#client.resetAndDestroy()
    this.#upstream.destroy()
  }

  #dial(): Socket {
    const upstream = connect({ ...parseAddress(this.broker), noDelay: true })
    const splitter = new FrameSplitter()
    upstream.on('data', (chunk) => {
      for (const frame of splitter.push(chunk)) this.#receiveAnswer(frame)
    })
    upstream.on('error', () => {})
    upstream.on('close', () => {
      for (const exchange of this.#underWay.values()) exchange.lost(new Error(`${this.broker} closed the connection`))
      this.#underWay.clear()
      this.#toClient = this.#toClient.then(async () => {
        // A silent network does not carry the end of a connection either.
        await this.#hooks.passable('toClient')
        if (this.#upstream === upstream) this.#client.destroy()
        this.#settle()
      })
    })
    return upstream
  }

  #receive(frame: Buffer): void {
    const exchange = this.#exchange(frame)
    this.#undelivered += 1
    this.#toBroker = this.#toBroker
      .then(() => this.#deliverRequest(exchange))
      .catch((error) => this.#fail(error))
      .finally(() => {
        this.#undelivered -= 1
        this.#settle()
      })
  }

  #exchange(frame: Buffer): Exchange {
    const reader = new WireReader(frame)
    const apiKey = reader.int16()
    const apiVersion = reader.int16()
    const correlationId = reader.int32()
    const clientId = reader.string()
    if (isFlexible(apiKey, apiVersion)) reader.tags()
    const body = frame.subarray(reader.offset)
    let answer: (body: Buffer) => void = () => {}
    let lost: (error: Error) => void = () => {}
    let release: () => void = () => {}
    const answered = new Promise<Buffer>((resolve, reject) => {
      answer = resolve
      lost = reject
    })
    answered.catch(ignoredUnlessAwaited)
    const released = new Promise<void>((resolve) => {
      release = resolve
    })
    const request: ProxiedRequest = {
      api: apiName(apiKey),
      apiKey,
      apiVersion,
      clientId,
      broker: this.broker,
      body,
      mentions: (text) => body.includes(text),
      answered,
      release,
    }
    const fault = this.#hooks.arrived(request)
    return { request, correlationId, frame, fault, released, answer, lost }
  }

  async #deliverRequest(exchange: Exchange): Promise<void> {
    const { fault } = exchange
    if (fault?.do === 'delay') await delay(fault.ms, undefined, { signal: this.#hooks.closed })
    if (fault?.do === 'hold') await exchange.released
    await this.#hooks.passable('toBroker')
    if (fault?.do === 'drop') {
      exchange.lost(new Error('The proxy dropped the request'))
      return
    }
    if (fault?.do === 'cut') {
      this.#severed = true
      this.cut()
    }
    // A late copy finds its way by another connection when its own has died.
    if (!this.#severed && this.#upstream.destroyed && fault !== undefined) this.#upstream = this.#dial()
    if (this.#severed || this.#upstream.destroyed) {
      exchange.lost(new Error('The connection ended before the broker had the request'))
      return
    }
    this.#underWay.set(exchange.correlationId, exchange)
    this.#upstream.write(framed(exchange.frame))
  }

  #receiveAnswer(frame: Buffer): void {
    const correlationId = frame.readInt32BE(0)
    const exchange = this.#underWay.get(correlationId)
    if (exchange === undefined) return
    this.#underWay.delete(correlationId)
    const at = answerBodyOffset(exchange.request.apiKey, exchange.request.apiVersion, frame)
    const header = frame.subarray(0, at)
    const body = frame.subarray(at)
    exchange.answer(body)
    this.#settle()
    this.#toClient = this.#toClient
      .then(() => this.#deliverAnswer(exchange, header, body))
      .catch((error) => this.#fail(error))
  }

  async #deliverAnswer({ request, fault, released }: Exchange, header: Buffer, answer: Buffer): Promise<void> {
    if (fault?.do === 'delayAnswer') await delay(fault.ms, undefined, { signal: this.#hooks.closed })
    if (fault?.do === 'holdAnswer') await released
    await this.#hooks.passable('toClient')
    if (fault?.do === 'dropAnswer') return
    if (fault?.do === 'cutAnswer') {
      this.cut()
      return
    }
    let body = answer
    if (advertisesAddresses(request.apiKey)) {
      body = await redirectAddresses(request.apiKey, request.apiVersion, body, this.#hooks.redirect)
    }
    if (fault?.do === 'rewriteAnswer') body = fault.rewrite(body)
    if (!this.#client.destroyed) this.#client.write(framed(Buffer.concat([header, body])))
  }

  /** Ends the broker's side when the client's has ended and nothing is left to be delivered or looked at. */
  #settle(): void {
    if (!this.#client.destroyed) return
    if (this.#upstream.destroyed) {
      if (this.#undelivered === 0) this.#hooks.ended()
    } else if (this.#undelivered === 0 && !this.#awaitsTreatedAnswer()) this.#upstream.end()
  }

  /** A treated request's answer is waited for even without the client, because a test may look at it. */
  #awaitsTreatedAnswer(): boolean {
    return [...this.#underWay.values()].some(({ fault }) => fault !== undefined)
  }

  /** An answer that the proxy cannot treat is the test's failure: it surfaces as an unhandled rejection. */
  #fail(error: unknown): void {
    if (this.#hooks.closed.aborted) return
    this.#client.destroy()
    throw error
  }
}

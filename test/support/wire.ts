/**
 * Kafka's wire protocol by hand, for tests: a socket that carries one frame and waits for its answer, and a writer and a
 * reader of Kafka's primitive types.
 *
 * It shares nothing with src/kafka, so that a test can check the library against bytes that the library did not make.
 */
import { connect, type Socket } from 'node:net'

/** API keys by Kafka's names, as far as this project meets them. */
export const apiKeys = {
  Produce: 0,
  Fetch: 1,
  ListOffsets: 2,
  Metadata: 3,
  OffsetCommit: 8,
  OffsetFetch: 9,
  FindCoordinator: 10,
  JoinGroup: 11,
  Heartbeat: 12,
  LeaveGroup: 13,
  SyncGroup: 14,
  DescribeGroups: 15,
  ListGroups: 16,
  SaslHandshake: 17,
  ApiVersions: 18,
  CreateTopics: 19,
  DeleteTopics: 20,
  DeleteRecords: 21,
  InitProducerId: 22,
  AddPartitionsToTxn: 24,
  AddOffsetsToTxn: 25,
  EndTxn: 26,
  WriteTxnMarkers: 27,
  TxnOffsetCommit: 28,
  DescribeAcls: 29,
  CreateAcls: 30,
  DescribeConfigs: 32,
  AlterConfigs: 33,
  SaslAuthenticate: 36,
  CreatePartitions: 37,
  ElectLeaders: 43,
  IncrementalAlterConfigs: 44,
  DescribeProducers: 61,
  DescribeTransactions: 65,
  ListTransactions: 66,
} as const

export type ApiKeyName = keyof typeof apiKeys

/** First version of each API whose headers carry tagged fields; an API that is absent here is never sent in one. */
const firstFlexibleVersion: Readonly<Partial<Record<ApiKeyName, number>>> = {
  Produce: 9,
  Fetch: 12,
  ListOffsets: 6,
  Metadata: 9,
  OffsetCommit: 8,
  OffsetFetch: 6,
  FindCoordinator: 3,
  JoinGroup: 6,
  Heartbeat: 4,
  LeaveGroup: 4,
  SyncGroup: 4,
  DescribeGroups: 5,
  ListGroups: 3,
  ApiVersions: 3,
  CreateTopics: 5,
  DeleteTopics: 4,
  DeleteRecords: 2,
  InitProducerId: 2,
  AddPartitionsToTxn: 3,
  AddOffsetsToTxn: 3,
  EndTxn: 3,
  WriteTxnMarkers: 1,
  TxnOffsetCommit: 3,
  DescribeAcls: 2,
  CreateAcls: 2,
  DescribeConfigs: 4,
  AlterConfigs: 2,
  SaslAuthenticate: 2,
  CreatePartitions: 2,
  ElectLeaders: 2,
  IncrementalAlterConfigs: 1,
  DescribeProducers: 0,
  DescribeTransactions: 0,
  ListTransactions: 0,
}

const nameByKey: ReadonlyMap<number, ApiKeyName> = new Map(
  (Object.entries(apiKeys) as [ApiKeyName, number][]).map(([name, key]) => [key, name]),
)

/** Kafka's name of an API key, or undefined for one that `apiKeys` lacks. */
export function apiName(apiKey: number): ApiKeyName | undefined {
  return nameByKey.get(apiKey)
}

/** Whether requests and answers of this version carry tagged fields in their headers. */
export function isFlexible(apiKey: number, apiVersion: number): boolean {
  const name = nameByKey.get(apiKey)
  const first = name === undefined ? undefined : firstFlexibleVersion[name]
  return first !== undefined && apiVersion >= first
}

/** Bytes of a Kafka body, appended in order. */
export class WireWriter {
  readonly #parts: Buffer[] = []

  #number(size: number, write: (part: Buffer) => void): this {
    const part = Buffer.alloc(size)
    write(part)
    this.#parts.push(part)
    return this
  }
  int8(value: number): this {
    return this.#number(1, (part) => part.writeInt8(value))
  }
  int16(value: number): this {
    return this.#number(2, (part) => part.writeInt16BE(value))
  }
  int32(value: number): this {
    return this.#number(4, (part) => part.writeInt32BE(value))
  }
  int64(value: bigint): this {
    return this.#number(8, (part) => part.writeBigInt64BE(value))
  }
  boolean(value: boolean): this {
    return this.int8(value ? 1 : 0)
  }
  unsignedVarint(value: number): this {
    let rest = value
    while (rest > 0x7f) {
      this.#parts.push(Buffer.of((rest & 0x7f) | 0x80))
      rest >>>= 7
    }
    this.#parts.push(Buffer.of(rest))
    return this
  }
  bytes(value: Uint8Array): this {
    this.#parts.push(Buffer.from(value))
    return this
  }
  /** int16 length + UTF-8; null is length -1. */
  string(value: string | null): this {
    if (value === null) return this.int16(-1)
    const text = Buffer.from(value)
    return this.int16(text.length).bytes(text)
  }
  /** Unsigned varint of length + 1, then UTF-8; null is 0. */
  compactString(value: string | null): this {
    if (value === null) return this.unsignedVarint(0)
    const text = Buffer.from(value)
    return this.unsignedVarint(text.length + 1).bytes(text)
  }
  array<T>(items: readonly T[], write: (writer: this, item: T) => void): this {
    this.int32(items.length)
    for (const item of items) write(this, item)
    return this
  }
  compactArray<T>(items: readonly T[], write: (writer: this, item: T) => void): this {
    this.unsignedVarint(items.length + 1)
    for (const item of items) write(this, item)
    return this
  }
  /** No tagged fields. */
  tags(): this {
    return this.unsignedVarint(0)
  }
  toBuffer(): Buffer {
    return Buffer.concat(this.#parts)
  }
}

/** Reads a Kafka body from its start; every method throws a `RangeError` where the bytes end too early. */
export class WireReader {
  readonly #bytes: Buffer
  #offset = 0

  constructor(bytes: Buffer) {
    this.#bytes = bytes
  }
  /** Position of the next byte to be read. */
  get offset(): number {
    return this.#offset
  }
  get remaining(): number {
    return this.#bytes.length - this.#offset
  }
  #advance(size: number): number {
    const at = this.#offset
    if (size < 0 || at + size > this.#bytes.length) {
      throw new RangeError(`${size} bytes wanted at ${at}, ${this.#bytes.length - at} left`)
    }
    this.#offset += size
    return at
  }
  int8(): number {
    return this.#bytes.readInt8(this.#advance(1))
  }
  int16(): number {
    return this.#bytes.readInt16BE(this.#advance(2))
  }
  int32(): number {
    return this.#bytes.readInt32BE(this.#advance(4))
  }
  int64(): bigint {
    return this.#bytes.readBigInt64BE(this.#advance(8))
  }
  boolean(): boolean {
    return this.int8() !== 0
  }
  unsignedVarint(): number {
    let value = 0
    for (let shift = 0; shift <= 28; shift += 7) {
      const byte = this.#bytes.readUInt8(this.#advance(1))
      value |= (byte & 0x7f) << shift
      if (byte < 0x80) return value >>> 0
    }
    throw new RangeError(`A varint at ${this.#offset} is longer than five bytes`)
  }
  bytes(length: number): Buffer {
    const at = this.#advance(length)
    return this.#bytes.subarray(at, at + length)
  }
  string(): string | null {
    const length = this.int16()
    return length < 0 ? null : this.bytes(length).toString()
  }
  compactString(): string | null {
    const length = this.unsignedVarint()
    return length === 0 ? null : this.bytes(length - 1).toString()
  }
  array<T>(read: (reader: this) => T): T[] {
    const items: T[] = []
    for (let left = this.int32(); left > 0; left -= 1) items.push(read(this))
    return items
  }
  compactArray<T>(read: (reader: this) => T): T[] {
    const items: T[] = []
    for (let left = this.unsignedVarint() - 1; left > 0; left -= 1) items.push(read(this))
    return items
  }
  /** Passes over tagged fields. */
  tags(): void {
    for (let left = this.unsignedVarint(); left > 0; left -= 1) {
      this.unsignedVarint()
      this.bytes(this.unsignedVarint())
    }
  }
}

/** A frame without its length: header and body of a request. */
export function encodeRequest(
  apiKey: number,
  apiVersion: number,
  correlationId: number,
  clientId: string | null,
  body: Buffer,
): Buffer {
  const writer = new WireWriter().int16(apiKey).int16(apiVersion).int32(correlationId).string(clientId)
  if (isFlexible(apiKey, apiVersion)) writer.tags()
  return writer.bytes(body).toBuffer()
}

/** A frame with its length in front, as it travels. */
export function framed(frame: Uint8Array): Buffer {
  return new WireWriter().int32(frame.length).bytes(frame).toBuffer()
}

/** Cuts a stream of bytes into frames; `push` answers those that are complete. */
export class FrameSplitter {
  #pending: Buffer = Buffer.alloc(0)

  push(chunk: Buffer): Buffer[] {
    this.#pending = this.#pending.length === 0 ? chunk : Buffer.concat([this.#pending, chunk])
    const frames: Buffer[] = []
    while (this.#pending.length >= 4) {
      const length = this.#pending.readInt32BE(0)
      if (this.#pending.length < 4 + length) break
      frames.push(this.#pending.subarray(4, 4 + length))
      this.#pending = this.#pending.subarray(4 + length)
    }
    return frames
  }
}

/** Where the body of an answer begins in its frame: behind the correlation id and, where flexible, the tagged fields. */
export function answerBodyOffset(apiKey: number, apiVersion: number, frame: Buffer): number {
  const reader = new WireReader(frame)
  reader.int32()
  // ApiVersions keeps the plain header for ever, so that a client can read the answer of a broker of any age.
  if (apiKey !== apiKeys.ApiVersions && isFlexible(apiKey, apiVersion)) reader.tags()
  return reader.offset
}

interface Waiting {
  readonly apiKey: number
  readonly apiVersion: number
  readonly resolve: (body: WireReader) => void
  readonly reject: (error: Error) => void
}

/** A plain connection to one broker. Requests may be under way together; they are matched by correlation id. */
export class WireConnection {
  /** Resolves when the connection has ended, by whichever side. */
  readonly closed: Promise<void>
  readonly #socket: Socket
  readonly #waiting = new Map<number, Waiting>()
  #correlationId = 0

  private constructor(socket: Socket) {
    this.#socket = socket
    const splitter = new FrameSplitter()
    socket.on('data', (chunk) => {
      for (const frame of splitter.push(chunk)) this.#answer(frame)
    })
    socket.on('error', (error) => this.#fail(error))
    this.closed = new Promise((resolve) => {
      socket.on('close', () => {
        this.#fail(new Error('The broker closed the connection'))
        resolve()
      })
    })
  }

  /** Connects, or rejects with the socket's error. */
  static open(address: string): Promise<WireConnection> {
    const { host, port } = parseAddress(address)
    return new Promise((resolve, reject) => {
      const socket = connect({ host, port, noDelay: true })
      socket.once('error', reject)
      socket.once('connect', () => {
        socket.off('error', reject)
        resolve(new WireConnection(socket))
      })
    })
  }

  #answer(frame: Buffer): void {
    const correlationId = frame.readInt32BE(0)
    const waiting = this.#waiting.get(correlationId)
    if (waiting === undefined) return
    this.#waiting.delete(correlationId)
    waiting.resolve(new WireReader(frame.subarray(answerBodyOffset(waiting.apiKey, waiting.apiVersion, frame))))
  }

  #fail(error: Error): void {
    for (const waiting of this.#waiting.values()) waiting.reject(error)
    this.#waiting.clear()
  }

  /** Sends one request and resolves with a reader of the answer's body. */
  request(api: ApiKeyName, apiVersion: number, body: Buffer): Promise<WireReader> {
    const apiKey = apiKeys[api]
    this.#correlationId += 1
    const correlationId = this.#correlationId
    return new Promise((resolve, reject) => {
      if (this.#socket.destroyed) {
        reject(new Error('The connection is closed'))
        return
      }
      this.#waiting.set(correlationId, { apiKey, apiVersion, resolve, reject })
      this.#socket.write(framed(encodeRequest(apiKey, apiVersion, correlationId, 'wire-test', body)))
    })
  }

  close(): void {
    this.#socket.destroy()
  }
}

/** Host and port of `host:port`. */
export function parseAddress(address: string): { host: string; port: number } {
  const colon = address.lastIndexOf(':')
  const port = Number(address.slice(colon + 1))
  if (colon < 1 || !Number.isInteger(port)) throw new Error(`"${address}" is not host:port`)
  return { host: address.slice(0, colon), port }
}

/**
 * A broker that does as a test says: it counts its connections, keeps every request it got, and answers by script.
 *
 * By default it answers ApiVersions as kafkajs asks it and is silent to everything else.
 */
import { once } from 'node:events'
import { createServer, type Server, type Socket } from 'node:net'
import { apiKeys, apiName, FrameSplitter, framed, isFlexible, WireReader, WireWriter } from '../support/wire.js'

export interface ScriptedRequest {
  readonly api: string
  readonly version: number
  readonly socket: Socket
  /** Sends this request's answer; `body` is what follows the headers. */
  readonly answer: (body: Buffer) => void
}

export type Script = (request: ScriptedRequest) => void

export interface ScriptedBroker {
  readonly port: number
  readonly requests: ScriptedRequest[]
  /** Every socket that was ever accepted, in order. */
  readonly sockets: Socket[]
  /** Resolves with the first request of this API that is not yet taken. */
  taken(api: string): Promise<ScriptedRequest>
  /** Resolves when no accepted socket is open any more. */
  allClosed(): Promise<void>
  stop(): Promise<void>
}

export type Ranges = readonly (readonly [apiKey: number, minVersion: number, maxVersion: number])[]

export const usualRanges: Ranges = Object.values(apiKeys).map((key) => [key, 0, 20] as const)

/** The body of an ApiVersions answer in the versions 1 and 2, which kafkajs asks for. */
export function versionsAnswer(ranges: Ranges = usualRanges, throttleMs = 0): Buffer {
  return new WireWriter()
    .int16(0)
    .array(ranges, (writer, range) => {
      for (const number of range) writer.int16(number)
    })
    .int32(throttleMs)
    .toBuffer()
}

export function answerVersions(request: ScriptedRequest): boolean {
  if (request.api !== 'ApiVersions' || request.version > 2) return false
  request.answer(versionsAnswer())
  return true
}

/** The body of an EndTxn answer. */
export function endTxnAnswer(errorCode: number, throttleMs = 0): Buffer {
  return new WireWriter().int32(throttleMs).int16(errorCode).tags().toBuffer()
}

export async function startScriptedBroker(script: Script = answerVersions): Promise<ScriptedBroker> {
  const requests: ScriptedRequest[] = []
  const sockets: Socket[] = []
  const open = new Set<Socket>()
  const untaken: ScriptedRequest[] = []
  let changed: () => void = () => {}

  const server: Server = createServer((socket) => {
    sockets.push(socket)
    open.add(socket)
    socket.on('error', () => {})
    socket.on('close', () => {
      open.delete(socket)
      changed()
    })
    const splitter = new FrameSplitter()
    socket.on('data', (chunk) => {
      for (const frame of splitter.push(chunk)) {
        const request = requestOf(frame, socket)
        requests.push(request)
        untaken.push(request)
        script(request)
        changed()
      }
    })
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const address = server.address()
  if (address === null || typeof address === 'string') throw new Error('a TCP server has a port')

  async function until<Found>(find: () => Found | undefined): Promise<Found> {
    for (;;) {
      const found = find()
      if (found !== undefined) return found
      await new Promise<void>((resolve) => {
        const before = changed
        changed = () => {
          before()
          resolve()
        }
      })
    }
  }

  return {
    port: address.port,
    requests,
    sockets,
    taken: (api) =>
      until(() => {
        const at = untaken.findIndex((request) => request.api === api)
        return at < 0 ? undefined : untaken.splice(at, 1)[0]
      }),
    allClosed: async () => {
      await until(() => (open.size === 0 ? true : undefined))
    },
    stop: async () => {
      for (const socket of open) socket.destroy()
      server.close()
      await once(server, 'close')
    },
  }
}

function requestOf(frame: Buffer, socket: Socket): ScriptedRequest {
  const reader = new WireReader(frame)
  const apiKey = reader.int16()
  const version = reader.int16()
  const correlationId = reader.int32()
  return {
    api: apiName(apiKey) ?? `api ${apiKey}`,
    version,
    socket,
    answer: (body) => {
      const header = new WireWriter().int32(correlationId)
      if (apiKey !== apiKeys.ApiVersions && isFlexible(apiKey, version)) header.tags()
      socket.write(framed(header.bytes(body).toBuffer()))
    },
  }
}

/**
 * Replaces the broker addresses in an answer's body, so that a client goes on through the proxy: Metadata v0-v12 and
 * FindCoordinator v0-v6. Everything else in the bytes stays as it was.
 *
 * Produce from v10 and Fetch from v16 can name a new leader in tagged fields (KIP-951); neither this project nor kafkajs
 * sends those versions, and `advertisesAddresses` says nothing of them.
 */
import { apiKeys, isFlexible, WireReader, WireWriter } from './wire.js'

export interface Address {
  readonly host: string
  readonly port: number
}

/** The address to be told in place of the one the broker advertises. */
export type Redirect = (address: Address) => Promise<Address>

export function advertisesAddresses(apiKey: number): boolean {
  return apiKey === apiKeys.Metadata || apiKey === apiKeys.FindCoordinator
}

/** The body with every advertised address redirected. Throws where the version is newer than this file knows. */
export async function redirectAddresses(
  apiKey: number,
  apiVersion: number,
  body: Buffer,
  redirect: Redirect,
): Promise<Buffer> {
  if (apiKey === apiKeys.Metadata && apiVersion <= 12) return await redirectMetadata(apiVersion, body, redirect)
  if (apiKey === apiKeys.FindCoordinator && apiVersion <= 6)
    return await redirectCoordinators(apiVersion, body, redirect)
  throw new Error(`The proxy cannot redirect addresses in version ${apiVersion} of API ${apiKey}`)
}

async function redirectMetadata(apiVersion: number, body: Buffer, redirect: Redirect): Promise<Buffer> {
  const flexible = isFlexible(apiKeys.Metadata, apiVersion)
  const reader = new WireReader(body)
  const writer = new WireWriter()
  if (apiVersion >= 3) writer.int32(reader.int32())
  const count = flexible ? reader.unsignedVarint() - 1 : reader.int32()
  if (flexible) writer.unsignedVarint(count + 1)
  else writer.int32(count)
  for (let index = 0; index < count; index += 1) {
    writer.int32(reader.int32())
    await copyAddress(flexible, reader, writer, redirect)
    if (apiVersion >= 1) copyString(flexible, reader, writer)
    if (flexible) copyTags(reader, writer)
  }
  return writer.bytes(reader.bytes(reader.remaining)).toBuffer()
}

async function redirectCoordinators(apiVersion: number, body: Buffer, redirect: Redirect): Promise<Buffer> {
  const flexible = isFlexible(apiKeys.FindCoordinator, apiVersion)
  const reader = new WireReader(body)
  const writer = new WireWriter()
  if (apiVersion >= 1) writer.int32(reader.int32())
  if (apiVersion <= 3) {
    writer.int16(reader.int16())
    if (apiVersion >= 1) copyString(flexible, reader, writer)
    writer.int32(reader.int32())
    await copyAddress(flexible, reader, writer, redirect)
  } else {
    const count = reader.unsignedVarint() - 1
    writer.unsignedVarint(count + 1)
    for (let index = 0; index < count; index += 1) {
      copyString(true, reader, writer)
      writer.int32(reader.int32())
      await copyAddress(true, reader, writer, redirect)
      writer.int16(reader.int16())
      copyString(true, reader, writer)
      copyTags(reader, writer)
    }
  }
  return writer.bytes(reader.bytes(reader.remaining)).toBuffer()
}

async function copyAddress(
  flexible: boolean,
  reader: WireReader,
  writer: WireWriter,
  redirect: Redirect,
): Promise<void> {
  const host = (flexible ? reader.compactString() : reader.string()) ?? ''
  const port = reader.int32()
  // "No coordinator" is an empty host with port -1.
  const told = port > 0 ? await redirect({ host, port }) : { host, port }
  if (flexible) writer.compactString(told.host)
  else writer.string(told.host)
  writer.int32(told.port)
}

function copyString(flexible: boolean, reader: WireReader, writer: WireWriter): void {
  if (flexible) writer.compactString(reader.compactString())
  else writer.string(reader.string())
}

function copyTags(reader: WireReader, writer: WireWriter): void {
  const count = reader.unsignedVarint()
  writer.unsignedVarint(count)
  for (let index = 0; index < count; index += 1) {
    const tag = reader.unsignedVarint()
    const size = reader.unsignedVarint()
    writer.unsignedVarint(tag).unsignedVarint(size).bytes(reader.bytes(size))
  }
}

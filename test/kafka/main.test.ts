import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, readdirSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { afterEach, describe, expect, test } from 'vitest'
import { projectPath } from '../support/project-root.js'
import { WireConnection } from '../support/wire.js'
import { describeWithBrokers } from './suites.js'

const children: ChildProcess[] = []

function start(...args: readonly string[]): ChildProcess {
  const child = spawn(process.execPath, [projectPath('build', 'test', 'kafka', 'main.js'), ...args])
  children.push(child)
  return child
}

async function run(...args: readonly string[]): Promise<{ code: number; said: string }> {
  const child = start(...args)
  let said = ''
  child.stderr?.on('data', (chunk) => {
    said += chunk
  })
  const [code] = await once(child, 'close')
  return { code, said }
}

/** Starts a cluster and answers its only address. */
async function startOne(): Promise<{ child: ChildProcess; address: string }> {
  const child = start('--nodes', '1', '--transaction-version', '0')
  if (child.stdout === null) throw new Error('no standard output')
  const [line] = await once(createInterface({ input: child.stdout }), 'line')
  expect(line).toMatch(/^KAFKA_BROKERS=127\.0\.0\.1:\d+$/)
  return { child, address: String(line).replace('KAFKA_BROKERS=', '') }
}

/** Data folders of the clusters that a process started: they are named by it. */
function foldersOf(pid: number | undefined): readonly string[] {
  return readdirSync(tmpdir()).filter((name) => name.startsWith(`mandate-kafka-${pid}-`))
}

afterEach(async () => {
  for (const child of children.splice(0)) child.kill('SIGKILL')
})

describe('npm run kafka', () => {
  test.each([
    [['--nodes', '2'], '--nodes takes 1 or 3, not "2"'],
    [['--transaction-version', '1'], '--transaction-version takes 0 or 2, not "1"'],
    [['--kafka-version', 'latest'], '--kafka-version takes a version such as'],
    [['--kafka-version', '3.9.1'], 'Kafka 3.9.1 has no transaction version 2; add --transaction-version 0'],
    [['--brokers', '1'], "Unknown option '--brokers'"],
  ])('%j is refused with a reason', async (args, reason) => {
    const { code, said } = await run(...args)
    expect(code).toBe(2)
    expect(said).toContain(reason)
    expect(said).toContain('Usage: npm run kafka')
  })
})

describeWithBrokers('npm run kafka with brokers', () => {
  test('prints where it is, and ends what it started when it is asked to', async () => {
    const { child, address } = await startOne()
    const connection = await WireConnection.open(address)
    connection.close()
    expect(foldersOf(child.pid).length).toBe(1)
    child.kill('SIGTERM')
    const [code] = await once(child, 'exit')
    expect(code).toBe(0)
    await expect(WireConnection.open(address)).rejects.toThrow('ECONNREFUSED')
    expect(foldersOf(child.pid)).toEqual([])
  })

  test('leaves no broker and no data behind when it is killed', async () => {
    const { child, address } = await startOne()
    const connection = await WireConnection.open(address)
    const [folder = ''] = foldersOf(child.pid)
    expect(existsSync(join(tmpdir(), folder, '1', 'data'))).toBe(true)
    child.kill('SIGKILL')
    // Only the broker's own end closes the connection, and it removes its data before it ends.
    await connection.closed
    expect(foldersOf(child.pid)).toEqual([])
  })
})

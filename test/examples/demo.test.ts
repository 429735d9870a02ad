/**
 * The demo as a newcomer runs it: it holds again and again, on a Kafka of its own and on one that is there, and whatever happens
 * it leaves nothing behind.
 */
import { connect } from 'node:net'
import { setTimeout as delay } from 'node:timers/promises'
import { Kafka, logLevel } from 'kafkajs'
import { describe, expect, test } from 'vitest'
import { describeWithBrokers, describeWithKafka } from '../kafka/suites.js'
import { rounds, tell } from '../support/form.js'
import { Program } from './program.js'

const demo = 'build/examples/demo/main.js'
const oneRunMs = 120_000

/** What a run that holds says, in this order. */
const story: readonly RegExp[] = [
  /^node-\d leads \d+ ms after the processes started: token \d+:\d+, term \d+$/,
  /^ {2}in the queue: node-\d \(rank 0\), node-\d \(rank 1\)$/,
  /^ {2}\d+ guarded commands committed, median [\d.]+ ms$/,
  /^node-\d is killed with kill -9/,
  /^node-\d leads \d+ ms later: token/,
  /^ {2}\d+ guarded commands committed/,
  /^node-\d is stopped with SIGSTOP/,
  /^node-\d leads \d+ ms later: token/,
  /^ {2}\d+ guarded commands committed/,
  /^node-\d is woken with SIGCONT after \d+ ms/,
  /^ {2}its write is refused: (LEASE_EXPIRED|FENCED)$/,
  /^ {2}AddPartitionsToTxn by hand under \d+:\d+: the broker answers \d+ [A-Z_]+$/,
  /^node-\d resigns$/,
  /^node-\d leads: handed over in [\d.]+ ms, token \d+:\d+, term \d+$/,
  /^ {2}\d+ guarded commands committed/,
  /^describe\('controller/,
  /^ {2}held by node-\d, token \d+:\d+, term \d+; the token is current for the broker$/,
  /^ {2}term \d+: \d+ committed$/,
  /^ {2}no committed record of an older term follows one of a newer term$/,
  /^All of it held\.$/,
]

async function expectHeld(program: Program): Promise<void> {
  expect(await program.ended, program.output).toBe(0)
  expect(program.stderr).toBe('')
  const said = program.lines.map((line) => line.replace(/^ *\d+ ms {2}/, ''))
  let from = 0
  for (const pattern of story) {
    const at = said.findIndex((line, index) => index >= from && pattern.test(line))
    expect(at, `${pattern} from line ${from} on in\n${program.output}`).toBeGreaterThanOrEqual(0)
    from = at + 1
  }
  expect(program.lines.filter((line) => line.length > 100)).toEqual([])
}

/** The process ids that the demo told of. */
async function memberPids(program: Program): Promise<readonly number[]> {
  const [, pids = ''] = await program.line(/\(pid ([\d, ]+)\) compete for/)
  return pids.split(', ').map(Number)
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return true
  } catch {
    return false
  }
}

function isListening(address: string): Promise<boolean> {
  const [host = '', port = ''] = address.split(':')
  return new Promise((resolve) => {
    const socket = connect({ host, port: Number(port) })
    socket.once('connect', () => {
      socket.destroy()
      resolve(true)
    })
    socket.once('error', () => resolve(false))
  })
}

async function topicsOf(bootstrap: readonly string[]): Promise<readonly string[]> {
  const admin = new Kafka({ brokers: [...bootstrap], logLevel: logLevel.NOTHING }).admin()
  await admin.connect()
  try {
    return await admin.listTopics()
  } finally {
    await admin.disconnect()
  }
}

describeWithBrokers('the demo on a Kafka of its own', () => {
  test('holds, and ends its Kafka and its processes', { timeout: oneRunMs }, async () => {
    const startedAt = performance.now()
    const program = new Program(demo, undefined)
    try {
      const [, address = ''] = await program.line(/Kafka answers on (\S+)$/)
      expect(await isListening(address)).toBe(true)
      const pids = await memberPids(program)
      expect(pids).toHaveLength(3)
      await expectHeld(program)
      expect(pids.filter(isAlive)).toEqual([])
      expect(await isListening(address)).toBe(false)
      tell(`the demo took ${Math.round(performance.now() - startedAt)} ms`)
    } finally {
      await program.end()
    }
  })

  test('ends its Kafka and its processes when it is interrupted', { timeout: oneRunMs }, async () => {
    const program = new Program(demo, undefined)
    try {
      const [, address = ''] = await program.line(/Kafka answers on (\S+)$/)
      const pids = await memberPids(program)
      await program.line(/ is stopped with SIGSTOP/)
      program.signal('SIGINT')
      expect(await program.ended, program.output).toBe(1)
      expect(program.lines.at(-1)).toMatch(/FAILED: Stopped by SIGINT$/)
      expect(pids.filter(isAlive)).toEqual([])
      expect(await isListening(address)).toBe(false)
    } finally {
      await program.end()
    }
  })
})

describeWithKafka('the demo on a named cluster', { nodes: 1, transactionVersion: 2 }, (cluster) => {
  const inARow = rounds(4, 20)

  test(`holds ${inARow} times in a row, and removes its topics`, { timeout: inARow * oneRunMs }, async () => {
    for (let round = 1; round <= inARow; round += 1) {
      const startedAt = performance.now()
      const program = new Program(demo, cluster().bootstrap)
      try {
        const [, suffix = ''] = await program.line(/compete for 'controller-(\w+)'$/)
        await expectHeld(program)
        expect((await topicsOf(cluster().bootstrap)).filter((topic) => topic.includes(suffix))).toEqual([])
        tell(`round ${round} of the demo took ${Math.round(performance.now() - startedAt)} ms`)
      } finally {
        await program.end()
      }
    }
  })

  test('leaves no process behind when it is killed', { timeout: oneRunMs }, async () => {
    const program = new Program(demo, cluster().bootstrap)
    try {
      const pids = await memberPids(program)
      await program.line(/node-\d leads/)
      program.signal('SIGKILL')
      await program.ended
      const giveUpAt = performance.now() + 30_000
      while (pids.some(isAlive) && performance.now() < giveUpAt) await delay(50)
      expect(pids.filter(isAlive)).toEqual([])
    } finally {
      await program.end()
    }
  })
})

describe('the demo without a Kafka', () => {
  test('says in one line that it could not reach the cluster it was given', { timeout: oneRunMs }, async () => {
    const program = new Program(demo, ['127.0.0.1:1'])
    try {
      expect(await program.ended, program.output).toBe(1)
      expect(program.stderr).toBe('')
      expect(program.lines.at(-1)).toMatch(/FAILED: .*127\.0\.0\.1:1/)
      expect(program.output).not.toMatch(/^\s+at /m)
    } finally {
      await program.end()
    }
  })
})

/**
 * The members of other ports, as commands to run: `PortMember.java` on kafka-clients, launched from source against the broker's
 * artifacts, and `go/` on franz-go, built into `build/` once per test file.
 *
 * A port is added here and nowhere else: every suite of this folder runs on all of `ports`.
 */
import { execFile } from 'node:child_process'
import { mkdirSync, renameSync } from 'node:fs'
import { promisify } from 'node:util'
import { describe, test } from 'vitest'
import { defaultKafkaVersion, kafkaArtifacts } from '../kafka/artifacts.js'
import { findProgram } from '../kafka/requirements.js'
import { projectPath } from '../support/project-root.js'

const run = promisify(execFile)

/** A command that takes the member's setup, as JSON, for its last argument. */
export interface Program {
  readonly command: string
  readonly arguments: readonly string[]
}

export type Port = 'java' | 'go'

/** The ports that suites run on; where there is no Go, those that need one are skipped, and fail under CI. */
export const ports: readonly Port[] = ['java', 'go']

const programs: Readonly<Record<Port, () => Promise<Program>>> = { java: javaMember, go: goMember }
const ready = new Map<Port, Promise<Program>>()

/** How to start a member of the port; what must be built is built at first use. */
export function portProgram(port: Port): Promise<Program> {
  let program = ready.get(port)
  if (program === undefined) {
    program = programs[port]()
    ready.set(port, program)
  }
  return program
}

/** A `describe` that needs the ports; a broker's requirements are those of Java. */
export function describeWithPorts(name: string, needed: readonly Port[], suite: () => void): void {
  if (!needed.includes('go') || goCommand() !== undefined) describe(name, suite)
  else if (process.env.CI === 'true') {
    describe(name, () => {
      test('has a Go to build its member with', () => {
        throw new Error('no go on the PATH')
      })
    })
  } else describe.skip(`${name} (skipped: no go on the PATH)`, suite)
}

async function javaMember(): Promise<Program> {
  const { java, classpath } = await kafkaArtifacts(defaultKafkaVersion)
  const flags = ['-XX:TieredStopAtLevel=1', '-Dorg.slf4j.simpleLogger.defaultLogLevel=off', '-cp', classpath]
  return { command: java, arguments: [...flags, projectPath('test', 'interop', 'PortMember.java')] }
}

async function goMember(): Promise<Program> {
  const go = goCommand()
  if (go === undefined) throw new Error('no go on the PATH')
  const folder = projectPath('build', 'interop')
  const [command, draft] = [`${folder}/go-member`, `${folder}/go-member.${process.pid}`]
  mkdirSync(folder, { recursive: true })
  // Made aside and moved into place, because another process may be running what is there.
  await run(go, ['build', '-buildvcs=false', '-o', draft, '.'], { cwd: projectPath('test', 'interop', 'go') })
  renameSync(draft, command)
  return { command, arguments: [] }
}

function goCommand(): string | undefined {
  return findProgram('go')
}

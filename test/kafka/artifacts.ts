/**
 * What a broker needs to run, made ready once per Kafka version and kept under build/kafka: its classpath, resolved by
 * Maven, and the launcher, compiled against it. After that a start asks Maven for nothing and works offline.
 *
 * Only the download may be repeated here; nothing that a test judges rests on a second try.
 */
import { execFile } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { delimiter, join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { promisify } from 'node:util'
import { projectPath } from '../support/project-root.js'
import { findProgram } from './requirements.js'

const run = promisify(execFile)
const downloadTries = 3

const pomPath = projectPath('test', 'kafka', 'pom.xml')
const pom = readFileSync(pomPath, 'utf8')

/** The Kafka version that a cluster runs unless it asks for another: the pom's `kafka.version`. */
export const defaultKafkaVersion: string = /<kafka\.version>(.+?)<\/kafka\.version>/.exec(pom)?.[1] ?? ''

export interface KafkaArtifacts {
  /** Path of `java`. */
  readonly java: string
  /** Ready for `java -cp`. */
  readonly classpath: string
}

const ready = new Map<string, Promise<KafkaArtifacts>>()

/** The artifacts of one Kafka version, downloaded and compiled at first use. Rejects with Maven's or javac's last lines. */
export function kafkaArtifacts(version: string): Promise<KafkaArtifacts> {
  let artifacts = ready.get(version)
  if (artifacts === undefined) {
    artifacts = prepare(version)
    ready.set(version, artifacts)
  }
  return artifacts
}

async function prepare(version: string): Promise<KafkaArtifacts> {
  const java = required('java')
  const launcher = projectPath('test', 'kafka', 'java', 'BrokerUnderWatch.java')
  const digest = createHash('sha256').update(pom).update(readFileSync(launcher)).digest('hex').slice(0, 12)
  const folder = projectPath('build', 'kafka', `${version}-${digest}`)
  const classes = join(folder, 'classes')
  const kept = join(folder, 'classpath')
  if (existsSync(kept)) {
    const jars = readFileSync(kept, 'utf8')
    if (jars.split(delimiter).every((jar) => existsSync(jar)))
      return { java, classpath: [classes, jars].join(delimiter) }
  }
  // Made aside and moved into place whole, so that another process never finds half of it.
  const draft = `${folder}.${process.pid}`
  rmSync(draft, { recursive: true, force: true })
  mkdirSync(join(draft, 'classes'), { recursive: true })
  const jars = await resolveClasspath(version, join(draft, 'maven-classpath'))
  await run(required('javac'), ['-d', join(draft, 'classes'), '-cp', jars, launcher])
  writeFileSync(join(draft, 'classpath'), jars)
  rmSync(folder, { recursive: true, force: true })
  try {
    renameSync(draft, folder)
  } catch (error) {
    // Another process was first; what it made is the same.
    rmSync(draft, { recursive: true, force: true })
    if (!existsSync(kept)) throw error
  }
  return { java, classpath: [classes, jars].join(delimiter) }
}

async function resolveClasspath(version: string, output: string): Promise<string> {
  const goals = ['-q', '-B', '-f', pomPath, `-Dkafka.version=${version}`]
  for (let attempt = 1; ; attempt += 1) {
    try {
      await run(required('mvn'), [...goals, 'dependency:build-classpath', `-Dmdep.outputFile=${output}`])
      return readFileSync(output, 'utf8').trim()
    } catch (error) {
      if (attempt === downloadTries) {
        const said = error instanceof Error && 'stdout' in error ? String(error.stdout) : ''
        throw new Error(
          `Maven could not fetch Kafka ${version} in ${downloadTries} tries; is that version published and Maven set up?\n` +
            said.split('\n').slice(0, 12).join('\n'),
          { cause: error },
        )
      }
      await delay(2000 * attempt)
    }
  }
}

function required(program: 'java' | 'javac' | 'mvn'): string {
  const path = findProgram(program)
  if (path === undefined) throw new Error(`${program} is not on the PATH; brokers need a JDK 17 or newer and Maven`)
  return path
}

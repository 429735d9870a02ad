/**
 * What this machine offers to suites that need a Kafka: a cluster named by the environment, or the programs to start one.
 *
 * It starts nothing but `java -version`, and decides nothing: whether a suite is skipped or fails is its caller's matter.
 */
import { spawnSync } from 'node:child_process'
import { accessSync, constants } from 'node:fs'
import { delimiter, join } from 'node:path'

export const minimumJavaVersion = 17

/** `missing` is a sentence that names what is not there. */
export type KafkaAvailability = { readonly available: true } | { readonly available: false; readonly missing: string }

/** Brokers of the cluster that KAFKA_BROKERS, else KAFKA_BOOTSTRAP_SERVERS, names; undefined where neither does. */
export function namedBrokers(environment: NodeJS.ProcessEnv = process.env): readonly string[] | undefined {
  const named = environment.KAFKA_BROKERS || environment.KAFKA_BOOTSTRAP_SERVERS
  const brokers = named?.split(',').map((broker) => broker.trim())
  return brokers?.some((broker) => broker !== '') ? brokers.filter((broker) => broker !== '') : undefined
}

/** Path of an executable: under JAVA_HOME for the JDK's own, else on the PATH; undefined where there is none. */
export function findProgram(name: string, environment: NodeJS.ProcessEnv = process.env): string | undefined {
  const folders = (environment.PATH ?? '').split(delimiter)
  if (name.startsWith('java') && environment.JAVA_HOME) folders.unshift(join(environment.JAVA_HOME, 'bin'))
  for (const folder of folders) {
    const path = join(folder, name)
    try {
      accessSync(path, constants.X_OK)
      return path
    } catch {
      // Not in this folder.
    }
  }
  return undefined
}

/** Whether brokers can be started here: a JDK 17 or newer and Maven. */
export function brokersAvailability(environment: NodeJS.ProcessEnv = process.env): KafkaAvailability {
  const missing = ['java', 'javac', 'mvn'].filter((name) => findProgram(name, environment) === undefined)
  if (missing.length > 0) {
    return {
      available: false,
      missing: `no ${missing.join(', no ')} on the PATH (a JDK 17 or newer and Maven start brokers)`,
    }
  }
  const version = javaVersion(environment)
  if (version === undefined || version < minimumJavaVersion) {
    return {
      available: false,
      missing: `java is version ${version ?? 'unknown'}, Kafka needs ${minimumJavaVersion} or newer`,
    }
  }
  return { available: true }
}

/** Whether a one-node cluster can be had here: one named by the environment, or one that can be started. */
export function kafkaAvailability(environment: NodeJS.ProcessEnv = process.env): KafkaAvailability {
  if (namedBrokers(environment) !== undefined) return { available: true }
  const brokers = brokersAvailability(environment)
  if (brokers.available) return brokers
  return {
    available: false,
    missing: `${brokers.missing}, and neither KAFKA_BROKERS nor KAFKA_BOOTSTRAP_SERVERS names a cluster`,
  }
}

function javaVersion(environment: NodeJS.ProcessEnv): number | undefined {
  const java = findProgram('java', environment)
  if (java === undefined) return undefined
  const said = spawnSync(java, ['-version'], { encoding: 'utf8' })
  const major = /version "(\d+)/.exec(`${said.stderr}${said.stdout}`)?.[1]
  return major === undefined ? undefined : Number(major)
}

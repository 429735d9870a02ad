/**
 * `npm run kafka:errors [-- X]`: writes test/cluster/kafka-errors.json, every error code that kafka-clients of version X
 * (default: the newest that was published) knows. The error table is tested against that file.
 */
import { execFileSync } from 'node:child_process'
import { mkdirSync, writeFileSync } from 'node:fs'
import { dirname } from 'node:path'
import { projectPath } from '../support/project-root.js'
import { kafkaArtifacts } from './artifacts.js'

/** Codes are only ever added, so the newest list covers brokers of every version. */
const newestKafkaVersion = '4.4.0'
const output = projectPath('test', 'cluster', 'kafka-errors.json')
const version = process.argv[2] ?? newestKafkaVersion
const { java, classpath } = await kafkaArtifacts(version)
const program = projectPath('test', 'kafka', 'java', 'DumpErrors.java')
const dump = execFileSync(java, ['-cp', classpath, program], { encoding: 'utf8' })
const count: number = JSON.parse(dump).length
mkdirSync(dirname(output), { recursive: true })
writeFileSync(output, dump)
console.log(`${count} codes of Kafka ${version} in ${output}`)

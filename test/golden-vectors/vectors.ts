/** The published vectors as their files have them. What each field means stands in golden-vectors/README.md. */
import { readFileSync } from 'node:fs'
import { projectPath } from '../support/project-root.js'

/** The text of a file of golden-vectors. */
export function readVectorsFile(...parts: readonly string[]): string {
  return readFileSync(projectPath('golden-vectors', ...parts), 'utf8')
}

/** The vectors of one file, as `T` says that they are. */
export function vectorsOf<T>(file: string): (T & { id: string })[] {
  return JSON.parse(readVectorsFile('v0', `${file}.json`))
}

export interface LeaseFields {
  readonly member: string
  readonly producer_id: string
  readonly producer_epoch: number
  readonly granted_at: string
  readonly deadline: string
}

export interface FoldVector {
  readonly id: string
  readonly rule: string
  readonly role: string
  readonly records: readonly { readonly offset: string; readonly key: string; readonly value: string | null }[]
  readonly lease: (LeaseFields & { readonly offset: string }) | null
  readonly roster: readonly {
    readonly member: string
    readonly offset: string
    readonly registered_at: string
    readonly rank: number | null
  }[]
}

export interface DecisionVector {
  readonly id: string
  readonly rule: string
  readonly self: string
  readonly holds: string | null
  readonly lease: LeaseFields | null
  readonly roster: readonly { readonly member: string; readonly offset: string; readonly registered_at: string }[]
  readonly now: string
  readonly stagger_ms: number
  readonly decision: 'register' | 'hold' | 'challenge' | 'wait'
  readonly instant: string | null
}

/** Bytes of lower-case hex. */
export function unhex(text: string): Uint8Array {
  return new Uint8Array(Buffer.from(text, 'hex'))
}

export function hex(bytes: Uint8Array): string {
  return Buffer.from(bytes).toString('hex')
}

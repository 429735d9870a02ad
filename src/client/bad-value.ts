/**
 * The one sentence in which the library refuses what it was called with: the thing, its value, and what is wanted instead.
 *
 * It must not decide what is wrong, and it must not show the content of an object, which may be a record's payload or credentials.
 */
import { type CoordinationError, coordinationError } from '../errors.js'

/** `CONFIG` with the name as its `option`. */
export function badValue(name: string, value: unknown, wanted: string): CoordinationError {
  return coordinationError('CONFIG', `${name} is ${shown(value)}, wanted ${wanted}`, { option: name })
}

/** `CONFIG` for a name that nothing is known of, most often a slip of the pen. */
export function unknownName(name: string, owner: string, known: ReadonlySet<string>): CoordinationError {
  return coordinationError('CONFIG', `${name} of ${owner} is not known; there may be ${[...known].join(', ')}`, {
    option: name,
  })
}

function shown(value: unknown): string {
  if (typeof value === 'string')
    return value.length > 60 ? `${JSON.stringify(value.slice(0, 60))}...` : JSON.stringify(value)
  if (typeof value === 'function') return 'a function'
  if (Array.isArray(value)) return value.length === 0 ? 'an empty list' : 'a list'
  return typeof value === 'object' && value !== null ? 'an object' : String(value)
}

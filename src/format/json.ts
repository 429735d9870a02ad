/**
 * JSON for values that hold 64-bit numbers: the one helper by which public values with a `bigint` print.
 *
 * `JSON.stringify` throws on a `bigint`, and a number would lose digits above 2^53, so such a value carries a `toJSON` that
 * gives them as decimal text. It is for data only: plain objects, arrays and primitives, and objects with a `toJSON` of their
 * own, without cycles. It must not change what it is given, which may be the caller's.
 */

/** How a value looks in JSON: each `bigint` as decimal text, each object with a `toJSON` as what that gives. */
export type JsonOf<T> = T extends bigint
  ? string
  : T extends string | number | boolean | null | undefined
    ? T
    : T extends { toJSON(): infer J }
      ? J
      : T extends readonly (infer E)[]
        ? readonly JsonOf<E>[]
        : { readonly [K in keyof T]: JsonOf<T[K]> }

/** A value that prints as JSON; `toJSON` is not enumerable, so it shows neither in a loop nor in a comparison. */
export type WithJson<T> = T & { toJSON(): JsonOf<T> }

/**
 * A frozen copy of `value` that prints as JSON, and so does each plain object and array in it, down to the last.
 * What has a `toJSON` of its own is kept as it is.
 */
export function withJson<T extends object>(value: T): WithJson<T> {
  return frozenCopy(value) as WithJson<T>
}

function frozenCopy(value: unknown): unknown {
  if (!isPlain(value)) return value
  const copy: object = Array.isArray(value)
    ? value.map(frozenCopy)
    : Object.fromEntries(Object.entries(value).map(([key, field]) => [key, frozenCopy(field)]))
  Object.defineProperty(copy, 'toJSON', { value: toJson })
  return Object.freeze(copy)
}

/** An array or an object literal that does not print by itself. */
function isPlain(value: unknown): value is object {
  if (typeof value !== 'object' || value === null || 'toJSON' in value) return false
  return Array.isArray(value) || Object.getPrototypeOf(value) === Object.prototype
}

// One function for all, so that a value costs a property and not a closure.
function toJson(this: object): unknown {
  // JSON.stringify asks the `toJSON` of what is returned here no second time, but does so for each field.
  if (Array.isArray(this)) return this.map(textOf)
  return Object.fromEntries(Object.entries(this).map(([key, field]) => [key, textOf(field)]))
}

function textOf(value: unknown): unknown {
  if (typeof value === 'bigint') return value.toString()
  if (typeof value === 'object' && value !== null && 'toJSON' in value && typeof value.toJSON === 'function') {
    return value.toJSON()
  }
  return value
}

/**
 * The fencing token: the producer id and epoch that one InitProducerId minted for a role.
 *
 * It is the *identity* of a term and no more. It must not be used to tell which of two leaders is the later one: ids are
 * handed out in blocks, and an exhausted or expired id is replaced by any other, smaller ones included. The term orders.
 */
import { coordinationError } from '../errors.js'
import { maxInt16, maxInt64 } from './bytes.js'

const tokenText = /^(0|[1-9]\d{0,18}):(0|[1-9]\d{0,4})$/

/** A minted producer id and epoch. Immutable, and equal to another by its two numbers. */
export class FencingToken {
  /** Ranks below every minted token and is equal to none; stands for "no token yet". No lease can carry it. */
  static readonly NO_EPOCH: FencingToken = new FencingToken(-1n, -1)

  readonly producerId: bigint
  readonly producerEpoch: number

  private constructor(producerId: bigint, producerEpoch: number) {
    this.producerId = producerId
    this.producerEpoch = producerEpoch
    Object.freeze(this)
  }

  /**
   * The token of a pair that the broker answered.
   *
   * @throws `CONFIG` for a producer id outside 0..2^63-1 or an epoch outside 0..32767.
   */
  static of(producerId: bigint, producerEpoch: number): FencingToken {
    if (typeof producerId !== 'bigint' || producerId < 0n || producerId > maxInt64) {
      throw coordinationError('CONFIG', `producer id ${producerId} of a token must be a bigint in 0..${maxInt64}`, {
        option: 'producerId',
      })
    }
    if (!Number.isInteger(producerEpoch) || producerEpoch < 0 || producerEpoch > maxInt16) {
      throw coordinationError(
        'CONFIG',
        `producer epoch ${producerEpoch} of a token must be an integer in 0..${maxInt16}`,
        {
          option: 'producerEpoch',
        },
      )
    }
    // -0 would differ from 0 in a strict comparison and in nothing else.
    return new FencingToken(producerId, producerEpoch + 0)
  }

  /**
   * The token of its text form, such as `4242:7`: two decimals without sign, blanks or leading zeros.
   *
   * @throws `CONFIG` for any other text, the one of `NO_EPOCH` included.
   */
  static parse(text: string): FencingToken {
    const token = tokenOfText(text)
    if (token !== undefined) return token
    throw coordinationError('CONFIG', `token ${JSON.stringify(text)} must read like 4242:7, producer id and epoch`, {
      option: 'token',
    })
  }

  /**
   * -1, 0 or 1 by producer id, then epoch: the order that every port of this format shares for sorting.
   *
   * Not a fencing order: the later of two leaders may well have the smaller token. Compare terms for that.
   */
  static compare(a: FencingToken, b: FencingToken): -1 | 0 | 1 {
    if (a.producerId !== b.producerId) return a.producerId < b.producerId ? -1 : 1
    if (a.producerEpoch !== b.producerEpoch) return a.producerEpoch < b.producerEpoch ? -1 : 1
    return 0
  }

  /** Whether this sorts above `other`, as in `compare`. Not a fencing order: compare terms for that. */
  supersedes(other: FencingToken): boolean {
    return FencingToken.compare(this, other) > 0
  }

  /** Whether both are the same pair, and so of the same term of a role. */
  equals(other: FencingToken): boolean {
    return this.producerId === other.producerId && this.producerEpoch === other.producerEpoch
  }

  /** `producerId:producerEpoch`, such as `4242:7`. */
  toString(): string {
    return `${this.producerId}:${this.producerEpoch}`
  }

  /** The text form. */
  toJSON(): string {
    return this.toString()
  }
}

/** The token of its text form, or undefined for a text that is none. */
export function tokenOfText(text: string): FencingToken | undefined {
  const match = typeof text === 'string' ? tokenText.exec(text) : null
  if (match === null) return undefined
  const producerId = BigInt(match[1] ?? '')
  const producerEpoch = Number(match[2])
  if (producerId > maxInt64 || producerEpoch > maxInt16) return undefined
  return FencingToken.of(producerId, producerEpoch)
}

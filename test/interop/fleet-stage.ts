/**
 * One role on one topic for which members of several implementations contend, and an observer of ours that looks on.
 *
 * What it waits for is what members and log show; it waits for no time to pass.
 */
import { Kafka, logLevel } from 'kafkajs'
import { CoordinationClient, decodeLease, type LeadershipStatus } from '../../src/index.js'
import { guardedTopic, partitionOfRole } from '../client/programs/live.js'
import { freshName } from '../kafka/suites.js'
import { type RoleInLog, roleInLog } from '../support/coordination-topic.js'
import { percentile, tell } from '../support/form.js'
import { FleetMember, type FleetMemberSetup, type FleetStatus, type Implementation } from './fleet-member.js'

export type Timings = Pick<FleetMemberSetup, 'leaseMs' | 'renewMs' | 'staggerMs'>

/** Nobody leads because a lease ran out. */
export const longLease: Timings = { leaseMs: 60_000, renewMs: 20_000, staggerMs: 1_000 }
/** Crashes are taken over soon, and a busy machine renews in time. */
export const shortLease: Timings = { leaseMs: 3_000, renewMs: 700, staggerMs: 500 }

export class FleetStage {
  readonly bootstrap: readonly string[]
  readonly topic: string
  readonly role: string
  /** That of the role. */
  readonly partition: number
  /** Where leaders write to, every 20 ms. */
  readonly commands: string
  readonly observer: CoordinationClient

  private constructor(bootstrap: readonly string[], commands: string) {
    this.bootstrap = bootstrap
    this.commands = commands
    this.topic = freshName('coordination')
    this.role = freshName('fleet')
    this.partition = partitionOfRole(this.role)
    const kafka = new Kafka({ brokers: [...bootstrap], logLevel: logLevel.NOTHING })
    this.observer = new CoordinationClient({ kafka, topic: this.topic, memberId: 'observer' })
  }

  /** Makes the topics; the observer follows the role from before its first record. End it by `close`. */
  static async open(bootstrap: readonly string[]): Promise<FleetStage> {
    const stage = new FleetStage(bootstrap, await guardedTopic(bootstrap))
    await stage.observer.describe(stage.role)
    return stage
  }

  start(implementation: Implementation, memberId: string, timings: Timings): Promise<FleetMember> {
    const { bootstrap, topic, role, partition, commands } = this
    const setup = { bootstrap, topic, partition, role, memberId, commands, writeEveryMs: 20, ...timings }
    return FleetMember.start(implementation, setup)
  }

  /** What the observer says of the role now. */
  describe(): Promise<LeadershipStatus> {
    return this.observer.describe(this.role)
  }

  /** Describes until `isReached`; every status on the way goes to `check`. */
  async until(
    isReached: (status: LeadershipStatus) => boolean,
    check: (status: LeadershipStatus) => void = () => undefined,
  ): Promise<LeadershipStatus> {
    for (;;) {
      const status = await this.describe()
      check(status)
      if (isReached(status)) return status
    }
  }

  /** Resolves when exactly these members wait, in this order. */
  async untilQueue(queue: readonly string[]): Promise<void> {
    await this.until(({ roster }) => roster.map(({ memberId }) => memberId).join() === queue.join())
  }

  /** Resolves with the first view of the member that is the observer's too; nothing may be under way that goes on changing it. */
  async untilAgreed(member: FleetMember): Promise<FleetStatus> {
    for (;;) {
      const [seen, described] = [await member.status(), asSeen(await this.describe())]
      if (JSON.stringify(withoutHolder(seen)) === JSON.stringify(described)) return seen
    }
  }

  log(): Promise<RoleInLog> {
    return roleInLog(this.bootstrap, this.topic, this.role)
  }

  async close(): Promise<void> {
    await this.observer.close()
  }
}

/** Ours as a port tells its own: no field of it may say something else. */
export function asSeen({ holder, token, term, lease, roster }: LeadershipStatus): FleetStatus {
  return {
    holder: holder ?? null,
    token: token?.toString() ?? null,
    term: term?.toString() ?? null,
    deadline: lease?.deadline.toString() ?? null,
    roster: roster.map(({ memberId, offset, rank }) => ({ memberId, offset: offset.toString(), rank })),
  }
}

/** Those who wait; `describe` tells of no others. */
function withoutHolder(status: FleetStatus): FleetStatus {
  const { holder, token, term, deadline, roster } = status
  return { holder, token, term, deadline, roster: roster.filter(({ rank }) => rank !== null) }
}

/** The deadline that the last committed lease of a token names, in ms since 1970. */
export function deadlineOf({ leases }: RoleInLog, token: string | undefined): number {
  const value = leases.findLast((lease) => lease.token === token)?.raw.value
  if (value == null) throw new Error(`no lease of ${token}`)
  return Number(decodeLease(value).deadline)
}

/** Prints durations of a kind. */
export function tellTimes(what: string, times: readonly number[]): void {
  const [least, median, most] = [0, 0.5, 1].map((share) => percentile(times, share).toFixed(0))
  tell(`${what}: min ${least}, median ${median}, max ${most} ms (${times.length})`)
}

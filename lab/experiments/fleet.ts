// Worker processes of an experiment: started, sampled, killed and stopped together or one by one.

import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Child } from '../bench/children.js'
import type { DependencyMessage, FleetAssignment, FleetSample, ProfileAnswer, ProfileMessage } from './fleet-child.js'
import { Histogram } from './histogram.js'
import type { TopFunction } from './profile.js'
import type { CallSplit } from './split.js'
import type { StoreCounts } from './store-watch.js'

const CHILD = new URL('./fleet-child.js', import.meta.url)
const DEADLINE_MS = 3 * 3_600_000

/** The setup of a fleet's workers. All but the URL has a default that fits most experiments. */
export interface FleetOptions extends Partial<Omit<FleetAssignment, 'url' | 'record'>> {
  readonly url: string
  readonly processes: number
  /** Records runs, one file for each process. Default false. */
  readonly records?: boolean
}

interface Member {
  readonly child: Child
  /** Its last sample. A killed process sends no more. */
  last: StoreCounts
  lastCpuUs: number
  lastWaitedUs: number
  lastRepeated: number
}

export interface FleetTotals {
  readonly counts: StoreCounts
  /** The settled jobs of every process that was ever started. */
  readonly settledByProcess: readonly number[]
  readonly claims: Histogram
  readonly claimSplits: readonly CallSplit[]
  readonly late: Histogram
  readonly running: number
  readonly repeatedEffects: number
  readonly cpuUs: number
  /** How long their main threads have waited for a processor. */
  readonly waitedUs: number
}

const NOTHING: StoreCounts = {
  succeeded: 0,
  retried: 0,
  dead: 0,
  released: 0,
  cancelled: 0,
  lost: 0,
  claims: 0,
  claimedJobs: 0,
  emptyClaims: 0,
}

export class Fleet {
  readonly #options: FleetOptions
  readonly #folder: string
  readonly #gone: Member[] = []
  readonly #starting = new Set<Child>()
  #living: Member[] = []
  #started = 0

  private constructor(options: FleetOptions, folder: string) {
    this.#options = options
    this.#folder = folder
  }

  /** Starts the processes. Each is connected and claims nothing before `start()`. */
  static async open(options: FleetOptions): Promise<Fleet> {
    const fleet = new Fleet(options, await mkdtemp(join(tmpdir(), 'holdfast-fleet-')))
    try {
      await Promise.all(Array.from({ length: options.processes }, () => fleet.#launch()))
    } catch (error) {
      await fleet.close()
      throw error
    }
    return fleet
  }

  async #launch(): Promise<Member> {
    const { processes: _, records, ...given } = this.#options
    const assignment: FleetAssignment = {
      queues: ['gen', 'default'],
      slots: 64,
      prefetch: null,
      claimBatch: null,
      leaseMs: null,
      drainMs: null,
      holdMs: null,
      plainMs: [0, 0],
      types: [],
      dependencyUrl: null,
      hasEffects: false,
      extends: true,
      record: records ? join(this.#folder, `runs-${this.#started}`) : null,
      ...given,
    }
    this.#started++
    const child = new Child(CHILD, assignment, { name: 'a worker process', deadlineMs: DEADLINE_MS })
    const member = { child, last: NOTHING, lastCpuUs: 0, lastWaitedUs: 0, lastRepeated: 0 }
    this.#starting.add(child)
    await child.hear('ready')
    // It answers only now.
    this.#starting.delete(child)
    this.#living.push(member)
    return member
  }

  /** The process that `terminateFirst` would end. */
  get firstPid(): number {
    return this.#living[0]!.child.pid
  }

  /** The files with records of runs. */
  get records(): readonly string[] {
    return this.#options.records
      ? Array.from({ length: this.#started }, (_, index) => join(this.#folder, `runs-${index}`))
      : []
  }

  /** Lets all processes claim. */
  start(): void {
    for (const { child } of this.#living) child.send({ kind: 'start' })
  }

  /** The counts of all so far, and the times since the last sample. */
  async sample(): Promise<FleetTotals> {
    const claims = new Histogram()
    const late = new Histogram()
    const claimSplits: CallSplit[] = []
    let running = 0
    await Promise.all(
      this.#living.map(async (member) => {
        try {
          const answer = await member.child.ask<FleetSample>({ kind: 'sample' })
          member.last = answer.counts
          member.lastCpuUs = answer.cpuUs
          member.lastWaitedUs = answer.waitedUs
          member.lastRepeated = answer.repeatedEffects
          claims.merge(answer.claims)
          for (const split of answer.claimSplits) claimSplits.push(split)
          late.merge(answer.late)
          running += answer.running
        } catch {
          // It was killed before it could answer, so its last sample counts.
        }
      }),
    )
    const all = [...this.#gone, ...this.#living]
    const sum = (read: (member: Member) => number) => all.reduce((total, member) => total + read(member), 0)
    const names = Object.keys(NOTHING) as (keyof StoreCounts)[]
    const counts = Object.fromEntries(
      names.map((name) => [name, sum(({ last }) => last[name])]),
    ) as unknown as StoreCounts
    return {
      counts,
      settledByProcess: all.map(({ last }) => last.succeeded + last.retried + last.dead),
      claims,
      claimSplits,
      late,
      running,
      repeatedEffects: sum(({ lastRepeated }) => lastRepeated),
      cpuUs: sum(({ lastCpuUs }) => lastCpuUs),
      waitedUs: sum(({ lastWaitedUs }) => lastWaitedUs),
    }
  }

  /** Takes the dependency of the flapping jobs down, or brings it back. */
  async setDependency(isDown: boolean): Promise<void> {
    const message: DependencyMessage = { kind: 'dependency', isDown }
    await Promise.all(this.#living.map(({ child }) => child.ask(message)))
  }

  /** A profile of the first process over a while. */
  async profile(ms: number): Promise<readonly TopFunction[]> {
    const message: ProfileMessage = { kind: 'profile', ms }
    const { child } = this.#living[0]!
    child.send(message)
    return (await child.hear<ProfileAnswer>('profiled')).top
  }

  /** Kills the oldest process, as the end of a machine would, and starts another in its place. */
  async replaceKilled(): Promise<void> {
    const member = this.#living.shift()!
    this.#gone.push(member)
    await member.child.kill()
    const { child } = await this.#launch()
    child.send({ kind: 'start' })
  }

  /** Tells the first process to end, as a deploy would, and resolves with the milliseconds it took. */
  async terminateFirst(): Promise<number> {
    const member = this.#living.shift()!
    this.#gone.push(member)
    const beganMs = performance.now()
    process.kill(member.child.pid, 'SIGTERM')
    await member.child.ended()
    return performance.now() - beganMs
  }

  /** Lets all processes finish their jobs and end. Their records stay until `close()`. */
  async stop(): Promise<void> {
    const members = this.#living
    this.#living = []
    this.#gone.push(...members)
    for (const { child } of members) child.send({ kind: 'stop' })
    await Promise.all(members.map(({ child }) => child.ended()))
  }

  /** Kills the remaining processes. Records stay until `close()`. */
  async kill(): Promise<void> {
    const children = [...this.#starting, ...this.#living.splice(0).map(({ child }) => child)]
    await Promise.all(children.map((child) => child.kill()))
  }

  /** Kills the remaining processes and removes the records. */
  async close(): Promise<void> {
    await this.kill()
    await rm(this.#folder, { recursive: true, force: true })
  }
}

/** Starts a fleet for `work` and ends it afterwards. */
export async function withFleet<T>(options: FleetOptions, work: (fleet: Fleet) => Promise<T>): Promise<T> {
  const fleet = await Fleet.open(options)
  try {
    return await work(fleet)
  } finally {
    await fleet.close()
  }
}

// The processes of a run of failovers: producers, workers, and one that is both.

import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { Child } from '../bench/children.js'
import type { AcceptedLine, PartyLines, RunLine } from './lines.js'
import { readLines } from './lines.js'
import type { PartyAssignment, PartyPace, PartySample } from './party-child.js'

const CHILD = new URL('./party-child.js', import.meta.url)
const DEADLINE_MS = 3 * 3_600_000

/** Who takes part, and the share of the load each enqueues. */
const CAST = [
  { name: 'producer', share: 0.5, slots: 0 },
  { name: 'both', share: 0.5, slots: 32 },
  { name: 'worker', share: 0, slots: 64 },
] as const
/** Lines of a story, and how long one is, at most. */
const STORY_MAX = 400
const STORY_LINE_MAX = 400
/** The one that is killed in some rounds. */
const MORTAL = 'producer'

interface Party {
  readonly name: string
  readonly share: number
  readonly slots: number
  readonly child: Child
  readonly record: string
  /** Bytes of its record that were read. */
  read: number
}

interface PartiesOptions {
  readonly url: string
  /** Where the records go. */
  readonly folder: string
  readonly hasMemory: boolean
}

/** What they wrote down since the last reading. */
export interface Written extends PartyLines {
  readonly acceptedByKilled: readonly AcceptedLine[]
}

export class Parties {
  readonly #options: PartiesOptions
  #living: Party[] = []
  #killed: Party[] = []
  #started = 0
  #perSecond = 0

  private constructor(options: PartiesOptions) {
    this.#options = options
  }

  static async open(options: PartiesOptions): Promise<Parties> {
    const parties = new Parties(options)
    try {
      // The first makes the tables.
      for (const { name } of CAST) await parties.#launch(name)
    } catch (error) {
      await parties.close()
      throw error
    }
    return parties
  }

  async #launch(name: string): Promise<void> {
    const { share, slots } = CAST.find((one) => one.name === name)!
    const number = this.#started++
    const { url, folder, hasMemory } = this.#options
    const record = join(folder, `${name}-${number}`)
    const assignment: PartyAssignment = { ...{ url, name: `${name}-${number}`, record, slots, hasMemory } }
    const child = new Child(CHILD, assignment, { name: `the process "${name}"`, deadlineMs: DEADLINE_MS })
    this.#living.push({ name, share, slots, child, record, read: 0 })
    await child.hear('ready')
  }

  /** Sets how many jobs are enqueued in a second by all of them. */
  async setPace(perSecond: number): Promise<void> {
    this.#perSecond = perSecond
    await Promise.all(this.#living.map((party) => this.#sendPace(party)))
  }

  async #sendPace({ child, share }: Party): Promise<void> {
    await child.ask({ kind: 'pace', perSecond: this.#perSecond * share } as PartyPace)
  }

  /** Kills the producer, as the end of its machine would. */
  async kill(): Promise<void> {
    const killed = this.#living.find(({ name }) => name === MORTAL)!
    this.#living = this.#living.filter((party) => party !== killed)
    this.#killed.push(killed)
    await killed.child.kill()
  }

  /** Starts another producer in place of the killed one. */
  async replaceKilled(): Promise<void> {
    for (const name of new Set(this.#killed.map((party) => party.name)))
      if (this.#living.every((party) => party.name !== name)) await this.#launch(name)
  }

  /** What each that lives has counted. */
  async sample(): Promise<ReadonlyMap<string, PartySample>> {
    const samples = this.#living.map(
      async ({ child, record }) => [record, await child.ask<PartySample>({ kind: 'sample' })] as const,
    )
    return new Map(await Promise.all(samples))
  }

  /** Reads what was written down since the last time. */
  async read(): Promise<Written> {
    const [accepted, acceptedByKilled]: AcceptedLine[][] = [[], []]
    const [began, succeeded]: RunLine[][] = [[], []]
    for (const party of [...this.#living, ...this.#killed]) {
      const { lines, next } = await readLines(party.record, party.read)
      party.read = next
      const to = this.#killed.includes(party) ? acceptedByKilled! : accepted!
      for (const line of lines.accepted) to.push(line)
      for (const line of lines.began) began!.push(line)
      for (const line of lines.succeeded) succeeded!.push(line)
    }
    return { accepted: accepted!, acceptedByKilled: acceptedByKilled!, began: began!, succeeded: succeeded! }
  }

  /** Everything that the processes wrote down about these jobs and about the servers, in the order of time. */
  async story(ids: readonly string[], sinceMs: number): Promise<readonly string[]> {
    const told: { readonly atMs: number; readonly text: string }[] = []
    for (const { name, record } of [...this.#living, ...this.#killed]) {
      for (const line of (await readFile(record, 'utf8')).split('\n')) {
        const isEvent = line.startsWith('event ')
        if (!isEvent && !ids.some((id) => line.includes(id))) continue
        const atMs = Number(isEvent ? line.split(' ')[1] : line.match(/ (\d{13})(?: |$)/)?.[1])
        if (atMs >= sinceMs) told.push({ atMs, text: `${atMs} ${name}: ${line.slice(0, STORY_LINE_MAX)}` })
      }
    }
    return told
      .sort((one, other) => one.atMs - other.atMs)
      .map(({ text }) => text)
      .slice(0, STORY_MAX)
  }

  async close(): Promise<void> {
    await Promise.all([...this.#living, ...this.#killed].map(({ child }) => child.kill()))
  }
}

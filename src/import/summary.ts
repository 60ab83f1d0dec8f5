// What an import counts. ◄── run.ts

import { type ImportSystem, type LeftThere, OLD_KINDS, type OldJob, type OldKind } from './contract.js'

/** Found is the sum of the others. */
interface KindCounts {
  readonly found: number
  /** Written by this import, or with a dry run: would be. */
  readonly imported: number
  /** An import that was interrupted had written them already. */
  readonly alreadyThere: number
  /** A worker of the old system, or another import, took them first. */
  readonly gone: number
  /** Left where they are, for the reasons in `skipped`. */
  readonly skipped: number
}

/** A reason, how many it concerns, and the first of them. */
export interface Reasons {
  readonly what: string
  readonly count: number
  readonly examples: readonly string[]
}

interface ScheduleCounts {
  readonly found: number
  readonly imported: number
  readonly alreadyThere: number
  readonly skipped: number
}

/** The answer of an import. */
export interface ImportSummary {
  readonly system: ImportSystem
  readonly source: string
  readonly dryRun: boolean
  /** It was asked to stop before its end. */
  readonly interrupted: boolean
  readonly jobs: Readonly<Record<OldKind, KindCounts>>
  readonly schedules: ScheduleCounts
  /** What is left to the old system, counted at the end. */
  readonly left: LeftThere
  /** Why jobs and schedules were skipped. */
  readonly skipped: readonly Reasons[]
  /** What imported jobs and schedules had that has no counterpart here. */
  readonly withoutCounterpart: readonly Reasons[]
}

type Count = 'imported' | 'alreadyThere' | 'gone' | 'skipped'

const REASONS_MAX = 100
const EXAMPLES_MAX = 3
/** Jobs that stay are met again in the next pass. Beyond this number they may be counted twice. */
const REMEMBERED_MAX = 1_000_000

/** Counts while an import runs. */
export class ImportTally {
  readonly #jobs = new Map<OldKind, Map<Count, number>>(OLD_KINDS.map((kind) => [kind, new Map()]))
  readonly #schedules = new Map<Count, number>()
  readonly #skipped = new Map<string, { count: number; examples: string[] }>()
  readonly #lacks = new Map<string, { count: number; examples: string[] }>()
  readonly #stayed = new Set<string>()

  /** Counts a job. */
  job(kind: OldKind, count: Count, by = 1): void {
    add(this.#jobs.get(kind)!, count, by)
  }

  /** Counts a job that stays, once. */
  stays(old: OldJob, why: string): void {
    const name = `${old.queue} ${old.key}`
    if (this.#stayed.has(name)) return
    if (this.#stayed.size < REMEMBERED_MAX) this.#stayed.add(name)
    this.job(old.kind, 'skipped')
    addReason(this.#skipped, `job: ${why}`, old.id)
  }

  /** Whether a job was counted as one that stays. */
  hasStayed({ queue, key }: Pick<OldJob, 'queue' | 'key'>): boolean {
    return this.#stayed.has(`${queue} ${key}`)
  }

  lacks(what: readonly string[], example: string): void {
    for (const each of what) addReason(this.#lacks, each, example)
  }

  schedule(count: Exclude<Count, 'gone'>): void {
    add(this.#schedules, count, 1)
  }

  scheduleStays(name: string, why: string): void {
    this.schedule('skipped')
    addReason(this.#skipped, `schedule: ${why}`, name)
  }

  get imported(): number {
    return OLD_KINDS.reduce((sum, kind) => sum + (this.#jobs.get(kind)!.get('imported') ?? 0), 0)
  }

  get done(): number {
    return OLD_KINDS.reduce((sum, kind) => sum + sumOf(this.#jobs.get(kind)!), 0)
  }

  summary(rest: Pick<ImportSummary, 'system' | 'source' | 'dryRun' | 'interrupted' | 'left'>): ImportSummary {
    const of = (counts: ReadonlyMap<Count, number>) => {
      const count = (name: Count) => counts.get(name) ?? 0
      return {
        found: sumOf(counts),
        imported: count('imported'),
        alreadyThere: count('alreadyThere'),
        gone: count('gone'),
        skipped: count('skipped'),
      }
    }
    const { gone: _, ...schedules } = of(this.#schedules)
    const jobs = Object.fromEntries(OLD_KINDS.map((kind) => [kind, of(this.#jobs.get(kind)!)]))
    return {
      system: rest.system,
      source: rest.source,
      dryRun: rest.dryRun,
      interrupted: rest.interrupted,
      jobs: jobs as Record<OldKind, KindCounts>,
      schedules,
      left: rest.left,
      skipped: reasonsOf(this.#skipped),
      withoutCounterpart: reasonsOf(this.#lacks),
    }
  }
}

function add(counts: Map<Count, number>, count: Count, by: number): void {
  counts.set(count, (counts.get(count) ?? 0) + by)
}

function sumOf(counts: ReadonlyMap<Count, number>): number {
  return [...counts.values()].reduce((sum, count) => sum + count, 0)
}

function addReason(reasons: Map<string, { count: number; examples: string[] }>, what: string, example: string): void {
  const name = reasons.has(what) || reasons.size < REASONS_MAX ? what : 'other reasons'
  const known = reasons.get(name) ?? { count: 0, examples: [] }
  known.count++
  if (known.examples.length < EXAMPLES_MAX) known.examples.push(example)
  reasons.set(name, known)
}

function reasonsOf(reasons: ReadonlyMap<string, { count: number; examples: string[] }>): Reasons[] {
  return [...reasons].map(([what, { count, examples }]) => ({ what, count, examples }))
}

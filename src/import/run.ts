// An import from its beginning to its count: what an earlier one left, then the jobs batch by batch, then the schedules.
// ◄── contract.ts · next: plan.ts

import type { Queryable } from '../core/job-store.js'
import type { Store } from '../core/store.js'
import type { Holdfast } from '../holdfast.js'
import { OLD_KINDS, type OldJob, type OldRef, type Planned, type Source } from './contract.js'
import { type PlanTerms, planJob } from './plan.js'
import { importSchedules } from './schedules.js'
import { type ImportSummary, ImportTally } from './summary.js'
import { writeBatch } from './target.js'

/** How an import is made. */
export interface ImportOptions extends Omit<PlanTerms, 'source' | 'mark'> {
  readonly schedules: 'copy' | 'move' | 'skip'
  readonly dryRun: boolean
  /** Jobs in one transaction, from 1 to BATCH_MAX. */
  readonly batch: number
  /** For the audit log. */
  readonly by: string
  /** Ends it after the batch that it works on. */
  readonly signal: AbortSignal
  /** Called after each batch with the number of jobs so far. */
  readonly onProgress: (done: number) => void
}

export interface ImportTarget {
  readonly store: Store
  readonly holdfast: Holdfast
}

// Each pass finds what came free during the one before: retries of jobs that ran, and what producers still send there.
const PASSES_MAX = 20

/** Imports, and counts. What is written twice is there once: it may be stopped and run again at any time. */
export async function runImport(source: Source, target: ImportTarget, options: ImportOptions): Promise<ImportSummary> {
  const transfer = new Transfer(source, target.store, options)
  await source.check()
  if (!options.dryRun) await transfer.finishParked()
  for (let pass = 1; pass <= PASSES_MAX && !options.signal.aborted; pass++) {
    const before = transfer.tally.imported
    await transfer.pass()
    if (options.dryRun || transfer.tally.imported === before) break
  }
  if (options.schedules !== 'skip' && !options.signal.aborted) {
    await importSchedules(source, target, options, transfer.tally)
  }
  return transfer.tally.summary({
    system: source.system,
    source: source.name,
    dryRun: options.dryRun,
    interrupted: options.signal.aborted,
    left: await source.left(),
  })
}

const NONE: ReadonlySet<string> = new Set()

class Transfer {
  readonly tally = new ImportTally()
  readonly #source: Source
  readonly #store: Store
  readonly #options: ImportOptions
  readonly #terms: PlanTerms

  constructor(source: Source, store: Store, options: ImportOptions) {
    this.#source = source
    this.#store = store
    this.#options = options
    const { types, queues, failed } = options
    const mark = store.parts?.mark ?? ((id: string) => id)
    this.#terms = { source: source.name, types, queues, failed, mark }
  }

  /** Goes on with what an earlier import has taken: writes it, under the ids of then, and lets go of it. */
  async finishParked(): Promise<void> {
    const { batch, signal } = this.#options
    while (!signal.aborted) {
      const parked = await this.#source.parked(batch)
      const nowMs = await this.#store.now()
      const planned = parked.flatMap(({ old, takenAtMs }) => this.#plan(old, takenAtMs, nowMs) ?? [])
      // What cannot be written stays parked, and is counted.
      if (planned.length === 0) return
      const jobs = planned.map(({ job }) => job)
      const ids = jobs.map(({ id }) => id)
      // The answer of an enqueue does not say it: one that is repeated is answered as the first was.
      const known = new Set(await this.#store.among(ids, [...new Set(jobs.map(({ queue }) => queue))]))
      await this.#write(planned, known)
      await this.#source.confirm(planned.map(({ old }) => old))
      this.#options.onProgress(this.tally.done)
    }
  }

  /** Every job that waits now, once. */
  async pass(): Promise<void> {
    const kinds = OLD_KINDS.filter((kind) => kind !== 'failed' || this.#terms.failed !== 'skip')
    let after: string | null = null
    do {
      const page = await this.#source.list(kinds, after)
      for (const refs of piecesOf(page.refs, this.#options.batch)) {
        if (this.#options.signal.aborted) return
        await (this.#options.dryRun ? this.#look(refs) : this.#move(refs))
        this.#options.onProgress(this.tally.done)
      }
      after = page.next
    } while (after !== null)
  }

  async #look(refs: readonly OldRef[]): Promise<void> {
    const nowMs = await this.#store.now()
    const olds = await this.#source.look(refs)
    for (const old of olds) if (this.#plan(old, nowMs, nowMs) !== null) this.tally.job(old.kind, 'imported')
    this.#countGone(refs, new Set(olds.map(nameOf)))
  }

  async #move(refs: readonly OldRef[]): Promise<void> {
    const takenAtMs = await this.#store.now()
    // Whatever else a source does with a plan, a job has either stayed, or was written, or a worker has it.
    const met = new Set<string>()
    await this.#source.move({
      refs,
      takenAtMs,
      plan: (old, at) => {
        const planned = this.#plan(old, at, takenAtMs)
        if (planned === null) met.add(nameOf(old))
        return planned
      },
      write: async (planned, tx) => {
        await this.#write(planned, NONE, tx)
        for (const { old } of planned) met.add(nameOf(old))
      },
    })
    this.#countGone(refs, met)
  }

  #countGone(refs: readonly OldRef[], met: ReadonlySet<string>): void {
    for (const ref of refs) if (!met.has(nameOf(ref))) this.tally.job(ref.kind, 'gone')
  }

  #plan(old: OldJob, takenAtMs: number, nowMs: number): Planned | null {
    const plan = planJob(old, this.#terms, takenAtMs, nowMs)
    if ('skip' in plan) {
      this.tally.stays(old, plan.skip)
      return null
    }
    // With a dry run nothing is written after this.
    if (this.#options.dryRun) this.tally.lacks(plan.lacks, old.id)
    else this.#lacks.set(plan.planned.job.id, plan.lacks)
    return plan.planned
  }

  /** Of the jobs that are being written. */
  readonly #lacks = new Map<string, readonly string[]>()

  async #write(planned: readonly Planned[], known: ReadonlySet<string>, tx?: Queryable): Promise<void> {
    const withoutKey = await writeBatch(this.#store, planned, tx)
    for (const { old, job } of planned) {
      const isNew = !known.has(job.id)
      this.tally.job(old.kind, isNew ? 'imported' : 'alreadyThere')
      if (!isNew) continue
      const lost = withoutKey.has(job.id) ? ['a key that another job holds here: written without it'] : []
      this.tally.lacks([...(this.#lacks.get(job.id) ?? []), ...lost], old.id)
    }
    this.#lacks.clear()
  }
}

function nameOf({ queue, id }: Pick<OldRef, 'queue' | 'id'>): string {
  return `${queue}\n${id}`
}

function* piecesOf<T>(all: readonly T[], size: number): Generator<readonly T[]> {
  for (let from = 0; from < all.length; from += size) yield all.slice(from, from + size)
}

// Back-pressure: which jobs are one too many for their queue or group. ◄── enqueue.ts
//
// Enqueues count nothing while a queue has no bound. With one, a process counts up to the bound when what it counted last and what it has
// sent since may reach half of it. Between two processes a little more may get through.

import { TRACKS_MAX } from '../../core/flow/job-flow.js'
import type { FlowRefusal } from '../../core/flow/views.js'
import { keyName } from '../../core/held-keys.js'
import type { Enqueued, NewJob } from '../../core/job.js'
import type { Database } from './database.js'
import { IS_OF_JOB } from './key-rows.js'
import { quietMs } from './replace.js'
import { arrayOf, readMs, statement } from './statement.js'
import { waysOf } from './tracks.js'

/** How long the bounds of queues are remembered, and a count that was far from the bound. */
const REMEMBERED_MS = 1_000
const COUNTED_MS = 250

interface Bound {
  readonly depth: number | null
  readonly groupDepth: number | null
  readonly onFull: 'reject' | 'wait'
  /** What was ready at the last count, and what this process has sent since. */
  ready: number
  countedMs: number
}

const BOUNDS = statement(
  'bounds_of_queues',
  'SELECT flows.queue, flows.depth, flows.group_depth, flows.on_full FROM :schema.flows WHERE flows.depth IS NOT NULL OR flows.group_depth IS NOT NULL LIMIT 10000',
)
const COUNT_QUEUE = statement(
  'count_ready_of_queue',
  `
SELECT (SELECT count(*) FROM (SELECT FROM :schema.ready WHERE ready.queue = $1 LIMIT $2::integer) AS few)
     + (SELECT count(*) FROM (SELECT FROM :schema.held
                               WHERE held.track = ANY (ARRAY(SELECT tracks.track FROM :schema.tracks WHERE tracks.queue = $1))
                               LIMIT $2) AS few)`,
)
const COUNT_GROUPS = statement(
  'count_ready_of_groups',
  `
SELECT asked.name,
       (SELECT count(*) FROM (SELECT FROM :schema.held
                               WHERE held.track = ANY (ARRAY(SELECT tracks.track FROM :schema.tracks WHERE tracks.queue = $1))
                                 AND held.group_name = asked.name
                               LIMIT $3::integer) AS few)
  FROM unnest($2::text[]) AS asked (name)`,
)
const KNOWN = statement('known_of_full', 'SELECT id::text FROM :schema.jobs WHERE id = ANY ($1::uuid[])')
const HOLDERS = statement(
  'keys_of_full',
  `
SELECT asked.id::text
  FROM unnest($2::uuid[], $3::text[], $4::text[]) AS asked (id, queue, key)
  JOIN :schema.keys ON keys.queue = asked.queue AND keys.key = asked.key
 WHERE keys.expires_at > coalesce($1::timestamptz, clock_timestamp()) OR ${IS_OF_JOB}`,
)
// The sets of limits that no job can be written with. ($3: how many sets a queue may have.)
const REFUSED_SETS = statement(
  'sets_refused_of_full',
  `
SELECT way.number
  FROM unnest($1::text[], $2::text[]) WITH ORDINALITY AS way (queue, limits, number)
 WHERE EXISTS (SELECT FROM unnest(way.limits::text[]) AS named (name)
                WHERE NOT starts_with(named.name, 'type:')
                  AND NOT EXISTS (SELECT FROM :schema.limits WHERE limits.name = named.name))
    OR (SELECT count(*) FILTER (WHERE tracks.limits = way.limits::text[]) = 0 AND count(*) >= $3::integer
          FROM :schema.tracks
         WHERE tracks.queue = way.queue AND NOT tracks.forgotten)`,
)

/** What was counted for the jobs of a batch in one queue. */
interface Counted {
  readonly bound: Bound
  readonly byGroup: ReadonlyMap<string, number>
}

/** What tells which jobs of a batch are not written, whether or not there is room for them. */
interface Known {
  /** Which of its jobs, and of their parents, exist. */
  readonly ids: ReadonlySet<string>
  /** Those of its jobs whose key another job holds. */
  readonly held: ReadonlySet<string>
  /** Those of its jobs that are refused for their limits. */
  readonly refused: ReadonlySet<string>
}

export class FullQueues {
  readonly #db: Database
  #bounds = new Map<string, Bound>()
  #readMs = Number.NEGATIVE_INFINITY

  constructor(db: Database) {
    this.#db = db
  }

  /** The bounds of a queue were changed here. */
  forget(): void {
    this.#readMs = Number.NEGATIVE_INFINITY
  }

  /** Which of these jobs are one too many. Null, and not a promise, when no queue has a bound. */
  refuse(jobs: readonly NewJob[]): Promise<ReadonlyMap<string, FlowRefusal> | null> | null {
    const isFresh = performance.now() - this.#readMs < REMEMBERED_MS
    if (isFresh && !jobs.some(({ queue }) => this.#bounds.has(queue))) return null
    return this.#refuse(jobs, isFresh)
  }

  async #refuse(jobs: readonly NewJob[], isFresh: boolean): Promise<ReadonlyMap<string, FlowRefusal> | null> {
    if (!isFresh) await this.#read()
    const counted = new Map<string, Counted>()
    for (const queue of new Set(jobs.map((job) => job.queue))) {
      const bound = this.#bounds.get(queue)
      const ready = jobs.filter((job) => job.queue === queue && isReadyNow(job))
      if (bound !== undefined && ready.length > 0) counted.set(queue, await this.#count(queue, bound, ready))
    }
    let { refusals, depths } = fill(jobs, counted, null)
    // There is room even if all of them are written, as almost always. Otherwise those that are not written must not count.
    if (refusals.size > 0) ({ refusals, depths } = fill(jobs, counted, await this.#look(jobs)))
    for (const [bound, ready] of depths) bound.ready = ready
    return refusals.size === 0 ? null : refusals
  }

  async #read(): Promise<void> {
    const rows = await this.#db.send('enqueue', BOUNDS, [])
    const known = this.#bounds
    this.#bounds = new Map(
      rows.map(([queue, depth, groupDepth, onFull]) => {
        const { ready = 0, countedMs = Number.NEGATIVE_INFINITY } = known.get(queue!) ?? {}
        const bounds = { depth: readMs(depth), groupDepth: readMs(groupDepth), onFull: onFull as Bound['onFull'] }
        return [queue!, { ...bounds, ready, countedMs }]
      }),
    )
    this.#readMs = performance.now()
  }

  async #count(queue: string, bound: Bound, jobs: readonly NewJob[]): Promise<Counted> {
    const { depth, groupDepth } = bound
    const nowMs = performance.now()
    if (depth !== null && (bound.ready + jobs.length > depth / 2 || nowMs - bound.countedMs > COUNTED_MS)) {
      const [[ready] = []] = await this.#db.send('enqueue', COUNT_QUEUE, [queue, depth])
      bound.ready = Number(ready)
      bound.countedMs = nowMs
    }
    const names = new Set(jobs.flatMap(({ flow }) => flow?.group ?? []))
    if (groupDepth === null || names.size === 0) return { bound, byGroup: new Map() }
    const rows = await this.#db.send('enqueue', COUNT_GROUPS, [queue, arrayOf([...names]), groupDepth])
    return { bound, byGroup: new Map(rows.map(([name, count]) => [name!, Number(count)])) }
  }

  async #look(jobs: readonly NewJob[]): Promise<Known> {
    const ids = new Set(jobs.flatMap(({ id, after }) => [id, ...after]))
    const keyed = jobs.filter(({ idempotencyKey }) => idempotencyKey !== null)
    const ways = waysOf(jobs)
    const [known, held, refused] = await Promise.all([
      this.#db.send('enqueue', KNOWN, [arrayOf([...ids])]),
      this.#db.send('enqueue', HOLDERS, [
        this.#db.now(),
        arrayOf(keyed.map(({ id }) => id)),
        arrayOf(keyed.map(({ queue }) => queue)),
        arrayOf(keyed.map(({ idempotencyKey }) => idempotencyKey!.key)),
      ]),
      this.#db.send('enqueue', REFUSED_SETS, [
        arrayOf(ways.sets.map(({ queue }) => queue)),
        arrayOf(ways.sets.map(({ limits }) => arrayOf(limits))),
        TRACKS_MAX,
      ]),
    ])
    const sets = new Set(refused.map(([number]) => Number(number)))
    return {
      ids: new Set(known.map(([id]) => id!)),
      held: new Set(held.map(([id]) => id!)),
      refused: new Set(jobs.filter((job) => sets.has(ways.numberOf(job) ?? 0)).map(({ id }) => id)),
    }
  }
}

interface Filled {
  readonly refusals: ReadonlyMap<string, FlowRefusal>
  /** What each queue has when the others are written. */
  readonly depths: ReadonlyMap<Bound, number>
}

/** Goes through a batch in its order, and lets each job take a place that is left. `known` is null for all of them being written. */
function fill(jobs: readonly NewJob[], counted: ReadonlyMap<string, Counted>, known: Known | null): Filled {
  const refusals = new Map<string, FlowRefusal>()
  const depths = new Map([...counted.values()].map(({ bound }) => [bound, bound.ready]))
  const groups = new Map([...counted].map(([queue, { byGroup }]) => [queue, new Map(byGroup)]))
  const ids = new Set(known?.ids)
  const keys = new Set<string>()
  // Such a job is answered by what it meets: itself, the job that has its key, why it is refused, or the parent that is not there.
  const isLeftOut = (job: NewJob, { held, refused }: Known) =>
    ids.has(job.id) ||
    held.has(job.id) ||
    keys.has(keyName(job) ?? '') ||
    refused.has(job.id) ||
    !job.after.every((parent) => ids.has(parent))
  for (const job of jobs) {
    if (known !== null && isLeftOut(job, known)) continue
    const { bound } = counted.get(job.queue) ?? {}
    if (bound !== undefined && isReadyNow(job)) {
      const inGroups = groups.get(job.queue)!
      const refusal = refusalOf(job, bound, { depth: depths.get(bound)!, inGroups })
      if (refusal !== null) {
        refusals.set(job.id, refusal)
        continue
      }
      depths.set(bound, depths.get(bound)! + 1)
      const group = job.flow?.group ?? null
      if (group !== null) inGroups.set(group, (inGroups.get(group) ?? 0) + 1)
    }
    ids.add(job.id)
    const key = keyName(job)
    if (key !== null) keys.add(key)
  }
  return { refusals, depths }
}

function refusalOf(
  { queue, flow }: NewJob,
  { depth: maxDepth, groupDepth, onFull }: Bound,
  { depth, inGroups }: { readonly depth: number; readonly inGroups: ReadonlyMap<string, number> },
): FlowRefusal | null {
  if (maxDepth !== null && depth >= maxDepth) return { code: 'queue_full', queue, maxDepth, onFull }
  const group = flow?.group ?? null
  if (groupDepth === null || group === null || (inGroups.get(group) ?? 0) < groupDepth) return null
  return { code: 'group_full', queue, group, maxDepth: groupDepth, onFull }
}

function isReadyNow(job: NewJob): boolean {
  return job.when === null && job.after.length === 0 && quietMs(job) === null
}

/** Writes those that are not too many; the others are answered as refused. */
export async function answerFull(
  jobs: readonly NewJob[],
  refusals: ReadonlyMap<string, FlowRefusal>,
  write: (rest: readonly NewJob[]) => Promise<readonly Enqueued[]>,
): Promise<readonly Enqueued[]> {
  const rest = jobs.filter(({ id }) => !refusals.has(id))
  const written = await write(rest)
  const answers = new Map(rest.map((job, index) => [job.id, written[index]!]))
  return jobs.map(({ id }) => answers.get(id) ?? { id, refused: refusals.get(id)! })
}

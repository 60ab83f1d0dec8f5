// claim, of queues that have flow control: one call of claim_flow for each, one after the other. ◄── store.ts

import { isHoldfastError } from '../../core/errors.js'
import type { JobFlow } from '../../core/flow/job-flow.js'
import type { FlowState } from '../../core/flow/views.js'
import type { ClaimedJob } from '../../core/job.js'
import type { Claim, ClaimRequest } from '../../core/job-store.js'
import { claimPlain, type PlainClaim } from './claim.js'
import { readClaimedJob } from './claimed-job.js'
import type { Database } from './database.js'
import { LOCK_NOT_AVAILABLE } from './errors.js'
import type { Floors } from './floors.js'
import { FlowFloors } from './flow-floors.js'
import { readQueueLimits } from './options-column.js'
import { arrayOf, type Row, readJson, readMs, type Statement, statement } from './statement.js'
import { removeJobless } from './strays.js'

const COLUMNS = `id, fence, $2, type, priority, attempt, crashes, payload, version, created_ms, options, tags, settings, waited_ms, now_ms, more,
       wait_ms, array_to_json(took), array_to_json(probed), array_to_json(batched), floors`

/** Exported for the test that counts the pages it reads. */
export const CLAIM_FLOW: Statement = statement(
  'claim_flow',
  `
SELECT ${COLUMNS}
  FROM :schema.claim_flow_25($1::timestamptz, $2, $3::integer, $4::text[], $5::float8, $6, $7::integer[], $8::bigint[], $9::text[], $10::integer[], $11::integer)`,
)

/** The same, which waits for locks for PATIENCE_MS and not for the two seconds of its connection. */
const CLAIM_FLOW_BRIEFLY: Statement = statement(
  'claim_flow_briefly',
  `
WITH patience AS MATERIALIZED (
  SELECT pg_catalog.set_config('lock_timeout', $12, true) AS ms
)
SELECT ${COLUMNS}
  FROM patience                                               -- the claim asks for it, so that it is set first
 CROSS JOIN LATERAL :schema.claim_flow_25($1::timestamptz, $2, CASE WHEN patience.ms <> '' THEN $3::integer END, $4::text[], $5::float8, $6,
                                          $7::integer[], $8::bigint[], $9::text[], $10::integer[], $11::integer)`,
)

/** How long to wait for the locks of a queue while others wait for this claim: jobs that it has leased already, or the other queues of a worker
 *  because this one could not be locked the last time. A claim holds these locks for a few milliseconds. */
const PATIENCE_MS = 100
/** How long a queue is left alone that could not be locked: twice as long each time, between these. */
const ALONE_MS = 50
const ALONE_MS_MAX = 1_000

/** What a plain job of such a queue is given: its settlement frees a slot, and must wake those who wait for it. */
const COUNTED: JobFlow = { group: null, limits: [], cost: 1 }

/** How much a claim asks of one queue, as in ClaimRequest. */
type Amount = Required<Pick<ClaimRequest['queues'][number], 'limit' | 'ahead'>>

/** A process's claims. It knows the queues with flow control from earlier answers; a wrong guess costs a second statement. */
export class Claims {
  readonly #db: Database
  readonly #floors: Floors
  readonly #onFound: (queue: string) => void
  readonly #flowQueues = new Set<string>()
  readonly #flowFloors: FlowFloors
  /** Queues that could not be locked, because a transaction of somebody else has their rows. */
  readonly #locked = new Map<string, { readonly times: number; readonly untilMs: number }>()

  constructor(db: Database, floors: Floors, onFound: (queue: string) => void) {
    this.#db = db
    this.#floors = floors
    this.#onFound = onFound
    this.#flowFloors = new FlowFloors(onFound)
  }

  /** The contract's `claim`. */
  async claim(request: ClaimRequest): Promise<Claim> {
    const isKnown = ({ queue }: { readonly queue: string }) => this.#flowQueues.has(queue)
    const others = request.queues.filter((asked) => !isKnown(asked))
    const plain = others.length > 0 || request.queues.length === 0 ? await this.#plain(request, others) : null
    if (plain !== null && this.#flowQueues.size === 0) return withoutQueues(plain)
    const amounts = new Map<string, Amount>()
    for (const { queue, limit, ahead = 0 } of request.queues.filter(isKnown)) {
      const sum = amounts.get(queue) ?? { limit: 0, ahead: 0 }
      amounts.set(queue, { limit: sum.limit + limit, ahead: sum.ahead + ahead })
    }
    if (plain !== null && amounts.size === 0) return withoutQueues(plain)
    return this.#withFlow(request, plain, amounts)
  }

  async #plain(request: ClaimRequest, queues: ClaimRequest['queues']): Promise<PlainClaim> {
    const plain = await claimPlain(this.#db, this.#floors, { ...request, queues }, this.#onFound)
    for (const queue of plain.flowQueues) this.#flowQueues.add(queue)
    return plain
  }

  async #withFlow(
    request: ClaimRequest,
    plain: PlainClaim | null,
    amounts: ReadonlyMap<string, Amount>,
  ): Promise<Claim> {
    const claims: Claim[] = plain === null ? [] : [plain]
    const unanswered: FlowState[] = []
    for (const [queue, amount] of amounts) {
      const hasJobs = claims.some(({ jobs }) => jobs.length > 0)
      const answer = await this.#unlessLocked(
        request,
        { queue, ...amount },
        { hasJobs, isHeldUp: unanswered.length > 0 },
      )
      if ('jobs' in answer) claims.push(answer)
      else unanswered.push(answer)
    }
    // The store's time belongs to every answer.
    if (claims.length === 0) claims.push(withoutQueues(await this.#plain(request, [])))
    return merged(request, [...claims, { jobs: [], nowMs: claims.at(-1)!.nowMs, waitedMs: null, flow: unanswered }])
  }

  /**
   * Claims from one queue, or says when to ask again. A queue that cannot be locked is left alone for a while and then asked briefly, so that the other
   * queues of the worker do not wait for it, nor jobs that this claim has leased already. The first time is an error, which tells about it.
   */
  async #unlessLocked(
    request: ClaimRequest,
    asked: ClaimRequest['queues'][number],
    { hasJobs, isHeldUp }: { readonly hasJobs: boolean; readonly isHeldUp: boolean },
  ): Promise<Claim | FlowState> {
    const { queue } = asked
    const locked = this.#locked.get(queue)
    const aloneMs = locked === undefined ? 0 : Math.ceil(locked.untilMs - performance.now())
    // One of these for each call: each may take as long as its patience.
    if (aloneMs > 0 || (locked !== undefined && isHeldUp)) {
      return { queue, more: false, waitMs: Math.max(ALONE_MS, aloneMs) }
    }
    const isBrief = hasJobs || locked !== undefined
    try {
      const claim = await this.#one(request, asked, isBrief)
      this.#locked.delete(queue)
      return claim
    } catch (error) {
      const waitMs = isLockTimeout(error) ? this.#leaveAlone(queue) : null
      // Jobs that were leased already must not be lost with this error: the next claim meets it again.
      if (hasJobs || (waitMs !== null && isBrief)) return { queue, more: waitMs === null, waitMs }
      throw error
    }
  }

  #leaveAlone(queue: string): number {
    const times = (this.#locked.get(queue)?.times ?? 0) + 1
    const waitMs = Math.min(ALONE_MS_MAX, ALONE_MS * 2 ** Math.min(times, 10))
    this.#locked.set(queue, { times, untilMs: performance.now() + waitMs })
    return waitMs
  }

  async #one(
    request: ClaimRequest,
    { queue, limit, ahead = 0 }: ClaimRequest['queues'][number],
    isBrief: boolean,
  ): Promise<Claim> {
    const { types, leaseMs, worker, batches = [] } = request
    const from = this.#floors.isOn ? this.#flowFloors.of(queue, performance.now()) : this.#flowFloors.off()
    const asked = [this.#db.now(), queue, limit, types === null ? null : arrayOf(types), leaseMs, worker]
    const batched = [arrayOf(batches.map(({ type }) => type)), arrayOf(batches.map(({ max }) => max))]
    const values = [...asked, ...from.values, ...(batches.length === 0 ? [null, null] : batched), ahead]
    const rows = isBrief
      ? await this.#db.send('claim', CLAIM_FLOW_BRIEFLY, [...values, `${PATIENCE_MS}ms`])
      : await this.#db.send('claim', CLAIM_FLOW, values)
    if (rows.length > 0) {
      this.#flowFloors.learn(this.#db, from, readJson(rows.at(-1)!.at(-1)))
      return readClaim(this.#db, queue, rows)
    }
    // It has no flow control any more.
    this.#flowQueues.delete(queue)
    const plain = await this.#plain(request, [{ queue, limit }])
    this.#flowQueues.delete(queue)
    return withoutQueues(plain)
  }
}

function isLockTimeout(error: unknown): boolean {
  return isHoldfastError(error) && error.details.sqlState === LOCK_NOT_AVAILABLE
}

function withoutQueues({ jobs, nowMs, waitedMs }: PlainClaim): Claim {
  return { jobs, nowMs, waitedMs }
}

async function readClaim(db: Database, queue: string, rows: readonly Row[]): Promise<Claim> {
  const last = rows.at(-1)!
  const [settings, , now, more, waitMs, took, probed, batched] = last.slice(12)
  const limits = readJson(probed) as string[]
  const queueLimits = readQueueLimits(settings)
  const places = new Map((readJson(took) as string[]).map((id, index) => [id, index]))
  const inOrder = new Array<ClaimedJob | undefined>(places.size)
  const jobless: { id: string; fence: number; queue: string }[] = []
  let waitedMs: number | null = null
  for (const row of rows.slice(0, -1)) {
    const [id, fence, , , , , , payload] = row
    if (payload === null) {
      jobless.push({ id: id!, fence: Number(fence), queue })
      continue
    }
    inOrder[places.get(id!)!] = readClaimedJob(row, queueLimits, COUNTED)
    waitedMs = Math.max(waitedMs ?? 0, Number(row[13]))
  }
  if (jobless.length > 0) await removeJobless(db, jobless)
  const jobs = inOrder.filter((job) => job !== undefined)
  const state: FlowState = { queue, more: more === 't', waitMs: readMs(waitMs) }
  const flow = [limits.length === 0 ? state : { ...state, probed: limits }]
  const ids = readJson(batched) as string[]
  return { jobs: ids.length === 0 ? jobs : marked(jobs, new Set(ids)), nowMs: Math.round(Number(now)), waitedMs, flow }
}

/** The jobs, those of a batch with its size. A group gives one batch in a claim. */
function marked(jobs: readonly ClaimedJob[], batched: ReadonlySet<string>): readonly ClaimedJob[] {
  const sizes = new Map<string | null, number>()
  const groupOf = (job: ClaimedJob) => (batched.has(job.id) ? job.flow!.group : null)
  for (const job of jobs) sizes.set(groupOf(job), (sizes.get(groupOf(job)) ?? 0) + 1)
  return jobs.map((job) => (batched.has(job.id) ? { ...job, batch: sizes.get(groupOf(job))! } : job))
}

/** One answer for the whole request, in the order of its queues. */
function merged({ queues }: ClaimRequest, claims: readonly Claim[]): Claim {
  const places = new Map<string, number>()
  for (const { queue } of queues) if (!places.has(queue)) places.set(queue, places.size)
  const placeOf = ({ queue }: { readonly queue: string }) => places.get(queue)!
  const flow = claims.flatMap((one) => one.flow ?? []).sort((one, other) => placeOf(one) - placeOf(other))
  const waits = claims.flatMap(({ waitedMs }) => (waitedMs === null ? [] : [waitedMs]))
  return {
    jobs: claims.flatMap(({ jobs }) => jobs).sort((one, other) => placeOf(one) - placeOf(other)),
    nowMs: claims.at(-1)!.nowMs,
    waitedMs: waits.length === 0 ? null : Math.max(...waits),
    ...(flow.length === 0 ? {} : { flow }),
  }
}

// A program that does nothing but flow control, on the store itself and as fast as it goes: 3 queues with 5 tracks, a limit of 7 over three
// of them, a group with settings of its own, one that is paused, ordered groups over two tracks, retries, cancels, open transactions,
// rollbacks, and leases of 150 ms and less that are lost on purpose. Rounds of it follow each other until the time is over. Each is checked as chaos is. A round
// that makes no progress is written down as the server sees it, and ends the run.

import { mkdir, mkdtemp } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import pg from 'pg'
import { isHoldfastError } from '../../src/core/errors.js'
import { idMaker } from '../../src/core/id.js'
import type { ClaimedJob, NewJob, SettledJob } from '../../src/core/job.js'
import type { Random } from '../../src/core/ports.js'
import type { Store } from '../../src/core/store.js'
import { openHoldfast } from '../../src/holdfast.js'
import { postgresStore } from '../../src/stores/postgres/index.js'
import { systemPorts } from '../../src/system-ports.js'
import { seededRandom } from '../../src/testing/seeded-random.js'
import { Promote } from '../../src/upkeep/promote.js'
import { Rescue } from '../../src/upkeep/rescue.js'
import { Recorder } from '../gen/recorder.js'
import { checkHistory } from '../history/check.js'
import type { HistoryEvent, RunBegun } from '../history/events.js'
import { smallestOffender, writeStory } from '../history/story.js'
import type { Verdict } from '../history/verdict.js'
import { openAndCloseForSure } from '../interrupt.js'
import { say } from '../say.js'
import { PostgresServer } from '../servers/postgres.js'
import { readRecords, writeHistory } from './files.js'
import { readChanges, readFinal } from './postgres/collect.js'
import { WITNESS, watchSchema } from './postgres/watch.js'
import { sleep } from './sleep.js'
import { writeStandStill } from './stand-still.js'

const SCHEMA = 'holdfast'
const QUEUES = ['a', 'b', 'c'] as const
const CLAIMERS = 6
const PRODUCERS = 4
const LEASES_MS = [150, 80, 12]
/** A round that has neither claimed nor settled for this long stands still. */
const STILL_MS = 20_000
const ROUND_MS_MAX = 300_000
const newId = idMaker(Date.now, systemPorts.random)

export interface Mix2Settings {
  readonly seed: number
  readonly minutes: number
  /** Jobs of each round. */
  readonly jobs: number
}

/** What one round came to, or all of them together. */
export interface Mix2Result {
  readonly seed: number
  readonly rounds: number
  readonly seconds: number
  readonly jobs: number
  readonly starts: number
  readonly orderedPairs: number
  readonly filled: number
  readonly rescues: number
  readonly retries: number
  readonly repaired: number
  readonly violationCount: number
  readonly violations: Verdict['violations']
  readonly story: string | null
  /** Where the round that failed was written down, or null. */
  readonly stoodStill: string | null
  readonly folder: string
}

/** Runs rounds until the time is over or one fails. */
export async function runMix2(settings: Mix2Settings, keep: string | null): Promise<Mix2Result> {
  const began = performance.now()
  const folder = keep ?? (await mkdtemp(join(tmpdir(), 'holdfast-mix2-')))
  await mkdir(folder, { recursive: true })
  const options = { settings: { track_commit_timestamp: 'on' } }
  const [server, close] = await openAndCloseForSure(
    () => PostgresServer.open(options),
    (opened) => opened.close(),
  )
  let total = { ...NOTHING, seed: settings.seed, folder }
  try {
    // At least one: a run without a round would look like a good one.
    do {
      const round = await new Round(server, settings.seed + total.rounds, { jobs: settings.jobs, folder }).run()
      total = added(total, round, (performance.now() - began) / 1_000)
      say(`mix2: ${lineOf(total)}`)
    } while (isGood(total) && performance.now() - began < settings.minutes * 60_000)
    return total
  } finally {
    await close()
  }
}

/** No violation, and no round stood still. */
export function isGood({ violationCount, stoodStill }: Mix2Result): boolean {
  return violationCount === 0 && stoodStill === null
}

const NOTHING: Mix2Result = {
  ...{
    seed: 0,
    rounds: 0,
    seconds: 0,
    jobs: 0,
    starts: 0,
    orderedPairs: 0,
    filled: 0,
    rescues: 0,
    retries: 0,
    repaired: 0,
  },
  ...{ violationCount: 0, violations: [], story: null, stoodStill: null, folder: '' },
}

function added(total: Mix2Result, round: Ended, seconds: number): Mix2Result {
  const { counts, violations, violationCount } = round.verdict
  return {
    ...{
      ...total,
      seconds,
      rounds: total.rounds + 1,
      jobs: total.jobs + counts.jobs,
      starts: total.starts + counts.claims,
    },
    orderedPairs: total.orderedPairs + counts.flow.ordered,
    filled: total.filled + counts.flow.filled,
    rescues: total.rescues + counts.rescues,
    retries: total.retries + counts.retries,
    repaired: total.repaired + counts.flow.repaired,
    ...{
      violationCount: total.violationCount + violationCount,
      violations,
      story: round.story,
      stoodStill: round.stoodStill,
    },
  }
}

/** The result, for people. */
export function showMix2(result: Mix2Result): string {
  const violations = result.violations.map(
    ({ invariant, job, message }) => `  ${invariant}: ${job ?? 'no job'}: ${message}`,
  )
  const story = result.story === null ? [] : ['', result.story]
  const kept = !isGood(result) ? [`the histories are in ${result.folder}`] : []
  return [lineOf(result), ...violations.slice(0, 10), ...story, ...kept].join('\n')
}

function lineOf(result: Mix2Result): string {
  const { rounds, seconds, jobs, starts, rescues, retries, orderedPairs, filled, repaired } = result
  const worked = `${rounds} rounds in ${seconds.toFixed(0)} s, ${jobs} jobs, ${starts} starts, ${rescues} lost leases, ${retries} retries`
  const kept = `limits reached ${filled} times, ${orderedPairs} ordered pairs, ${repaired} repaired, ${result.violationCount} violations`
  return `${worked}; ${kept}${result.stoodStill === null ? '' : `; stood still: ${result.stoodStill}`}`
}

interface Ended {
  readonly verdict: Verdict
  readonly story: string | null
  readonly stoodStill: string | null
}

class Round {
  readonly #server: PostgresServer
  readonly #seed: number
  readonly #jobs: number
  readonly #folder: string
  readonly #stop = new AbortController()
  #recorder!: Recorder
  /** Claims and settlements so far: while it grows, the round goes on. */
  #progress = 0
  #made = 0

  constructor(
    server: PostgresServer,
    seed: number,
    { jobs, folder }: { readonly jobs: number; readonly folder: string },
  ) {
    this.#server = server
    this.#seed = seed
    this.#jobs = jobs
    this.#folder = join(folder, `round-${seed}`)
  }

  async run(): Promise<Ended> {
    await mkdir(this.#folder, { recursive: true })
    this.#recorder = new Recorder(join(this.#folder, 'mix2.jsonl'), { process: 'mix2', processRun: 1 })
    const stores = await this.#prepare()
    const [first, second] = stores as [Store, Store]
    const working = [
      ...stores.flatMap((store, number) => [this.#claim(store, number), this.#claim(store, number + stores.length)]),
      this.#keepUp(first),
      this.#keepUp(second),
      this.#change(second),
    ]
    const producing = Array.from({ length: PRODUCERS }, (_, number) =>
      this.#produce(stores[number % stores.length]!, number),
    )
    const stoodStill = await this.#watch(Promise.all(producing))
    this.#stop.abort()
    await Promise.all([...working, ...producing])
    for (const store of stores) await store.close()
    this.#recorder.close()
    return this.#judge(stoodStill)
  }

  async #prepare(): Promise<Store[]> {
    await this.#query(`DROP SCHEMA IF EXISTS "${SCHEMA}" CASCADE; DROP SCHEMA IF EXISTS ${WITNESS} CASCADE`)
    const stores: Store[] = []
    for (let number = 0; number < CLAIMERS / 2; number++) {
      stores.push(await postgresStore(this.#server.url, { schema: SCHEMA, deadlineMs: 10_000 }))
    }
    const sql = await this.#connect()
    await watchSchema(sql, SCHEMA)
    await sql.end()
    const holdfast = await openHoldfast(await postgresStore(this.#server.url, { schema: SCHEMA }), { upkeep: false })
    await holdfast.setLimit('seven', { concurrency: 7 })
    await holdfast.setQueue('a', { groups: { concurrency: 2 } })
    await holdfast.setQueue('b', { groups: { ordered: true } })
    await holdfast.setQueue('c', { groups: { ordered: true, onRetry: 'pass' } })
    await holdfast.setGroup('a', 'g0', { concurrency: 4, weight: 2 })
    await holdfast.pauseGroup('a', 'g3')
    await holdfast.close()
    return stores
  }

  /** Enqueues: one by one, several together, in transactions that stay open for a while and then commit or roll back. */
  async #produce(store: Store, number: number): Promise<void> {
    const random = seededRandom((this.#seed * 31 + number) >>> 0)
    const sql = await this.#connect()
    const most = this.#jobs / PRODUCERS
    for (let made = 0; made < most && !this.#stop.signal.aborted; ) {
      const jobs = Array.from({ length: random.float() < 0.3 ? 8 : 1 }, () => this.#job(random))
      made += jobs.length
      const isOpen = random.float() < 0.15
      for (const job of jobs) this.#recorder.write({ ev: 'enqueue.invoke', key: keyOf(job), idempotencyKey: null })
      const isRolledBack = isOpen && random.float() < 0.4
      if (isOpen) await sql.query('BEGIN')
      const written = await unlessBusy(store.enqueue(jobs, isOpen ? { tx: sql } : {}))
      if (isOpen) {
        await sleep(random.float() * 80)
        // A transaction in which a statement failed rolls back, whatever it is told.
        await sql.query(isRolledBack || written === null ? 'ROLLBACK' : 'COMMIT')
        store.wake(jobs.map(({ queue }) => queue))
      }
      for (const { id, ...job } of jobs) {
        const key = keyOf(job)
        if (written === null) this.#recorder.write({ ev: 'enqueue.info', key, job: null })
        else if (isRolledBack) this.#recorder.write({ ev: 'enqueue.fail', key, job: null })
        else this.#recorder.write({ ev: 'enqueue.ok', key, job: id, created: true })
      }
      await sleep(random.float() * 10)
    }
    await sql.end()
  }

  #job(random: Random): NewJob {
    const queue = QUEUES[Math.floor(random.float() * 3)]!
    const group = `g${Math.floor(random.float() * (queue === 'a' ? 12 : 5))}`
    const hasLimit = queue === 'c' ? random.float() < 0.999 : random.float() < 0.5
    const key = `${this.#seed}-${++this.#made}`
    const flow = { group, limits: hasLimit ? ['seven'] : [], cost: 1 }
    const when = random.float() < 0.05 ? { delayMs: Math.floor(random.float() * 200) } : null
    return {
      ...{ id: newId(), queue, type: 'mix', payload: JSON.stringify({ key }), version: 1, flow, when },
      ...{ priority: random.float() < 0.2 ? 5 : 0, limits: { maxAttempts: 200 }, idempotencyKey: null },
      ...{ after: [], onParentDead: 'cancel', tags: [], trace: null },
    }
  }

  /** Claims and settles; loses some leases, settles others too late. */
  async #claim(store: Store, number: number): Promise<void> {
    const random = seededRandom((this.#seed * 77 + number) >>> 0)
    const under = new Set<Promise<void>>()
    while (!this.#stop.signal.aborted) {
      const queues = QUEUES.map((queue) => ({ queue, limit: 1 + Math.floor(random.float() * 6) }))
      const leaseMs = LEASES_MS[Math.floor(random.float() ** 2 * LEASES_MS.length)]!
      const claim = await unlessBusy(store.claim({ queues, types: null, worker: `mix-${number}`, leaseMs }))
      const jobs = claim?.jobs ?? []
      this.#progress += jobs.length
      for (const job of jobs) {
        const ended: Promise<void> = this.#end(store, job, random).finally(() => under.delete(ended))
        under.add(ended)
      }
      await sleep(jobs.length === 0 ? 5 + random.float() * 20 : random.float() * 3)
    }
    await Promise.all(under)
  }

  async #end(store: Store, job: ClaimedJob, random: Random): Promise<void> {
    const { id, fence, queue, flow, attempt, crashes } = job
    const luck = random.float()
    if (luck < 0.05) return
    await sleep(luck < 0.1 ? 200 : random.float() * 15)
    const settlement =
      luck < 0.2 && attempt < 100
        ? ({ state: 'retrying', attempt, crashes, delayMs: Math.floor(random.float() * 60) } as const)
        : luck < 0.23
          ? ({ state: 'ready', attempt: attempt - 1, crashes } as const)
          : luck < 0.24
            ? ({ state: 'dead', attempt, crashes, reason: 'dropped' } as const)
            : ({ state: 'succeeded', attempt, crashes } as const)
    const told = { result: null, error: null, ranMs: 1, idempotencyKey: null }
    const settled: SettledJob = { id, fence, queue, settlement, ...told, ...(flow === undefined ? {} : { flow }) }
    if ((await unlessBusy(store.settle([settled]))) !== null) this.#progress++
  }

  /** Upkeep, at a pace that fits leases this short. */
  async #keepUp(store: Store): Promise<void> {
    const emit = () => {}
    const repairs = async (limit: number) => {
      const promotion = await store.promote(limit)
      if (promotion.repaired !== undefined) this.#recorder.write({ ev: 'flow.repaired', count: promotion.repaired })
      return promotion
    }
    const watched = { ...store, promote: repairs }
    const promote = new Promote({ store: watched, ports: systemPorts, emit })
    const rescue = new Rescue({ store, ports: systemPorts, emit, holdMs: 0, onDueIn: () => {} })
    while (!this.#stop.signal.aborted) {
      await unlessBusy(promote.step())
      await unlessBusy(rescue.step())
      await sleep(20)
    }
  }

  /** Pauses and resumes, changes limits, cancels. */
  async #change(store: Store): Promise<void> {
    const random = seededRandom(this.#seed)
    while (!this.#stop.signal.aborted) {
      const group = `g${Math.floor(random.float() * 5)}`
      const luck = random.float()
      if (luck < 0.3) {
        await unlessBusy(store.pauseGroup('a', group, 'mix2'))
        await sleep(random.float() * 200)
        await unlessBusy(store.resumeGroup('a', group, 'mix2'))
      } else if (luck < 0.5) {
        const concurrency = 2 + Math.floor(random.float() * 4)
        await unlessBusy(store.setGroup('a', 'g0', { concurrency, rate: null, weight: 2 }, 'mix2'))
      } else await unlessBusy(store.resumeGroup('a', group, 'mix2'))
      await sleep(random.float() * 100)
    }
  }

  /** Waits until every job has ended. Answers with the file that says why the round stood still, or null. */
  async #watch(producing: Promise<unknown>): Promise<string | null> {
    let isMade = false
    void producing.then(() => {
      isMade = true
    })
    const sql = await this.#connect()
    const began = performance.now()
    let last = { progress: -1, at: began }
    try {
      for (;;) {
        await sleep(100)
        if (isMade && (await left(sql)) === 0) return null
        const now = performance.now()
        if (this.#progress !== last.progress) last = { progress: this.#progress, at: now }
        if (now - last.at < STILL_MS && now - began < ROUND_MS_MAX) continue
        const file = join(this.#folder, 'stood-still.json')
        say(`mix2: round ${this.#seed} stands still: ${await writeStandStill(sql, SCHEMA, file)}`)
        return file
      }
    } finally {
      await sql.end()
    }
  }

  async #judge(stoodStill: string | null): Promise<Ended> {
    const sql = await this.#connect()
    const events: HistoryEvent[] = [runOf(this.#seed)]
    for await (const event of readChanges(sql)) events.push(event)
    for (const event of await readFinal(sql, SCHEMA)) events.push(event)
    await sql.end()
    for (const event of await readRecords(this.#folder)) events.push(event)
    const verdict = checkHistory(events)
    if (verdict.ok && stoodStill === null) return { verdict, story: null, stoodStill }
    await writeHistory(this.#folder, events)
    const job = smallestOffender(events, verdict)
    return { verdict, story: job === null ? null : writeStory(events, job), stoodStill }
  }

  async #connect(): Promise<pg.Client> {
    const sql = new pg.Client({ connectionString: this.#server.url, application_name: 'mix2' })
    await sql.connect()
    return sql
  }

  async #query(text: string): Promise<void> {
    const sql = await this.#connect()
    await sql.query(text)
    await sql.end()
  }
}

/** What came of a call, or null when the store was too busy to answer in time: it may or may not have happened. */
async function unlessBusy<T>(call: Promise<T>): Promise<T | null> {
  try {
    return await call
  } catch (error) {
    if (isHoldfastError(error) && error.retryable) return null
    throw error
  }
}

async function left(sql: pg.Client): Promise<number> {
  const tables = ['ready', 'held', 'running', 'scheduled', 'blocked'].map(
    (table) => `(SELECT count(*) FROM "${SCHEMA}".${table})`,
  )
  const { rows } = await sql.query<{ left: number }>(`SELECT (${tables.join(' + ')})::float8 AS left`)
  return rows[0]!.left
}

function keyOf({ payload }: Pick<NewJob, 'payload'>): string {
  return (JSON.parse(payload) as { key: string }).key
}

function runOf(seed: number): RunBegun {
  return {
    ...{
      ev: 'run',
      seed: String(seed),
      commit: null,
      leaseMs: Math.max(...LEASES_MS),
      rescueMs: 60_000,
      healedAt: null,
    },
    ...{ faults: [{ index: 0, kind: 'lost lease' }], drainMs: ROUND_MS_MAX, schedules: [] },
    flow: { visibleMs: 500, heldMs: null, allowanceMs: 0 },
    busy: { jobs: 1, expiries: 0, unknownAnswers: 0 },
  }
}

// Many callers with one key while its job is claimed, settled, cancelled and lost, through several stores whose connections are cut.

import pg from 'pg'
import { afterAll, describe, expect, test } from 'vitest'
import { HoldfastError, isHoldfastError } from '../../src/core/errors.js'
import { idMaker } from '../../src/core/id.js'
import type { ClaimedJob, NewJob, SettledJob } from '../../src/core/job.js'
import type { Store } from '../../src/core/store.js'
import { postgresStore } from '../../src/stores/postgres/index.js'
import { seededRandom } from '../../src/testing/seeded-random.js'
import {
  cancelled,
  dead,
  keyed,
  newJob,
  OPERATOR,
  released,
  retrying,
  snoozed,
  succeeded,
} from '../../src/testing/store-suite/samples.js'
import { SERVERS } from '../support/postgres.js'

const CALLERS = 64
const CALLS_EACH = 12
/** With fewer runs nothing is shown: callers go on until there were as many, up to this many calls each. */
const RUNS_MIN = 11
const CALLS_EACH_MAX = 500
const KILLS = 25
const STORES = 4
const LEASE_MS = 30_000

/** One call: its payload, and between which moments it was made. */
interface Call {
  readonly version: number
  readonly fromMs: number
  toMs: number
  id: string
}

const KINDS = [
  { name: 'plain jobs', flow: undefined },
  { name: 'jobs of a group', flow: { group: 'acme', limits: [], cost: 1 } },
] as const

for (const [server, urlOf] of SERVERS) {
  const schema = `replace_callers_${process.pid}`

  // Without a second server on this machine there is nothing to show for it: apt-get install postgresql.
  describe.skipIf(urlOf() === undefined)(`${CALLERS} callers with one key, on ${server}`, () => {
    afterAll(async () => {
      const sql = await open(urlOf()!)
      await sql.query(`DROP SCHEMA IF EXISTS ${schema} CASCADE`)
      await sql.end()
    })

    for (const { name, flow } of KINDS) {
      test(`each get the id of a job that runs their payload or a newer one: ${name}`, {
        timeout: 120_000,
      }, async () => {
        const url = urlOf()!
        const random = seededRandom(7)
        const nextId = idMaker(() => Date.now(), random)
        const queue = name.replaceAll(' ', '_')
        const stores = await Promise.all(Array.from({ length: STORES }, () => postgresStore(url, { schema })))
        const sql = await open(url)
        const calls: Call[] = []
        const runs: { readonly id: string; readonly version: number }[] = []
        const cancels = new Set<string>()
        let waitingMax = 0
        let isOver = false
        let kills = 0

        const jobOf = (version: number): NewJob => ({
          ...newJob({ ...keyed('doc'), queue, payload: `{"version":${version}}`, tags: [`v${version}`] }),
          id: nextId(),
          replace: { waitMs: version % 3 === 0 ? 0 : 3, maxWaitMs: 20 },
          ...(flow === undefined ? {} : { flow }),
        })

        const caller = async (number: number) => {
          const store = stores[number % STORES]!
          for (let n = 0; n < CALLS_EACH || (runs.length < RUNS_MIN && n < CALLS_EACH_MAX); n++) {
            const call: Call = { version: calls.length + 1, fromMs: performance.now(), toMs: Infinity, id: '' }
            calls.push(call)
            const job = jobOf(call.version)
            const [answer] = await again(() => store.enqueue([job]))
            call.id = answer!.id
            call.toMs = performance.now()
            await new Promise((resolve) => setTimeout(resolve, random.float() * 20))
          }
        }

        const worker = async (store: Store, number: number) => {
          while (!isOver) {
            const request = { queues: [{ queue, limit: 2 }], types: null, worker: `w${number}`, leaseMs: LEASE_MS }
            // A claim whose answer was lost keeps its jobs until their leases end, which here is never: it is not cut.
            const { jobs } = await store.claim(request).catch(() => ({ jobs: [] as ClaimedJob[] }))
            for (const job of jobs) {
              runs.push({ id: job.id, version: JSON.parse(job.payload).version })
              if (random.float() < 0.1) {
                cancels.add(job.id)
                await again(() => store.cancel([job.id], OPERATOR))
              }
              await again(() => store.settle([settlementOf(job, isOver ? 1 : random.float())]))
            }
            await again(() => store.promote(100))
          }
        }

        const watcher = async () => {
          while (!isOver) {
            const { rows } = await sql.query(`${WAITING.replaceAll(':schema', schema)}`, [queue])
            waitingMax = Math.max(waitingMax, rows[0].count)
            await new Promise((resolve) => setTimeout(resolve, 5))
          }
        }

        // Not those that claim: a job that was leased by a claim whose answer was lost waits for its lease to end.
        const killer = async () => {
          const killing = await open(url)
          while (!isOver && kills < KILLS) {
            await new Promise((resolve) => setTimeout(resolve, 40))
            const { rows } = await killing.query(KILL, [`%${schema}%`])
            kills += rows.length
          }
          await killing.end()
        }

        const workers = stores.slice(0, 2).map(worker)
        const others = [watcher(), killer()]
        try {
          await Promise.all(Array.from({ length: CALLERS }, (_, number) => caller(number)))
          await drained(sql, schema, queue)
        } finally {
          isOver = true
          await Promise.all([...workers, ...others])
          await Promise.all(stores.map((store) => store.close()))
        }
        const { rows: left } = await sql.query(`SELECT id, next FROM ${schema}.keys WHERE queue = $1`, [queue])
        await sql.end()

        const lost = calls.filter((call) => !cancels.has(call.id) && !hasRun(call, calls, runs))
        expect(calls.length).toBeGreaterThanOrEqual(CALLERS * CALLS_EACH)
        expect(lost).toEqual([])
        expect(waitingMax).toBe(1)
        expect(kills).toBeGreaterThan(0)
        expect(left).toEqual([])
        expect(runs.length).toBeGreaterThanOrEqual(RUNS_MIN)
      })
    }
  })
}

/** Whether the last run of its job had its payload, or one of a call that did not end before it began. */
function hasRun(call: Call, calls: readonly Call[], runs: readonly { id: string; version: number }[]): boolean {
  const last = runs.findLast(({ id }) => id === call.id)
  if (last === undefined) return false
  return last.version === call.version || calls[last.version - 1]!.toMs >= call.fromMs
}

function settlementOf(job: ClaimedJob, chance: number): SettledJob {
  if (chance < 0.15) return retrying(job, 5)
  if (chance < 0.25) return released(job)
  if (chance < 0.35) return snoozed(job, 5)
  if (chance < 0.45) return dead(job)
  if (chance < 0.5) return cancelled(job)
  return succeeded(job)
}

// Jobs that wait and have never started.
const WAITING = `
SELECT (SELECT count(*) FROM ":schema".scheduled WHERE queue = $1 AND fence IS NULL)::integer
     + (SELECT count(*) FROM ":schema".ready WHERE queue = $1 AND fence IS NULL)::integer
     + (SELECT count(*) FROM ":schema".held WHERE queue = $1 AND fence IS NULL)::integer
     + (SELECT count(*) FROM ":schema".blocked WHERE queue = $1)::integer AS count`

const KILL = `
SELECT pg_terminate_backend(pid)
  FROM pg_stat_activity
 WHERE pid <> pg_backend_pid() AND query LIKE $1 AND query ~ '(replace_payload|enqueue|settle|promote|unblock|keys)' AND query !~ 'claim'
 ORDER BY random()
 LIMIT 1`

async function drained(sql: pg.Client, schema: string, queue: string): Promise<void> {
  const places = ['scheduled', 'ready', 'held', 'blocked', 'running']
  const text = `SELECT ${places.map((table) => `EXISTS (SELECT FROM ${schema}.${table} WHERE queue = $1)`).join(' OR ')} AS left`
  const untilMs = performance.now() + 60_000
  for (;;) {
    const { rows } = await sql.query(text, [queue])
    if (!rows[0].left) return
    if (performance.now() > untilMs) throw new HoldfastError('store_unavailable', `jobs of ${queue} are left`)
    await new Promise((resolve) => setTimeout(resolve, 20))
  }
}

/** As clients do: what may be repeated is, until it is answered. */
async function again<T>(call: () => Promise<T>): Promise<T> {
  for (;;) {
    try {
      return await call()
    } catch (error) {
      if (!isHoldfastError(error) || !error.retryable) throw error
      await new Promise((resolve) => setTimeout(resolve, 20))
    }
  }
}

async function open(url: string): Promise<pg.Client> {
  const sql = new pg.Client({ connectionString: url })
  await sql.connect()
  return sql
}

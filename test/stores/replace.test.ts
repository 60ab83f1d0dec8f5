// Debounce and replace on PostgreSQL: in callers' transactions, and under many callers whose connections are cut.

import pg from 'pg'
import { afterAll, afterEach, beforeEach, describe, expect, test } from 'vitest'
import type { NewJob } from '../../src/core/job.js'
import type { Store } from '../../src/core/store.js'
import { CLAIM } from '../../src/stores/postgres/claim.js'
import { inSchema } from '../../src/stores/postgres/statement.js'
import { type ManualClock, manualClock } from '../../src/testing/manual-clock.js'
import { claimFlow, inGroup, setFlow } from '../../src/testing/store-suite/flow-samples.js'
import {
  keyed,
  MINUTE_MS,
  newJob,
  newJobs,
  OPERATOR,
  retrying,
  SECOND_MS,
  START_MS,
  succeeded,
} from '../../src/testing/store-suite/samples.js'
import { claimIds, claimJob, claimJobs, startJob, stateOf, viewOf } from '../../src/testing/store-suite/steps.js'
import { dropSchema, openCleanStore, openPeerStore, SERVERS } from '../support/postgres.js'

const IN_5S = { waitMs: 5_000, maxWaitMs: null }
const NOW = { waitMs: 0, maxWaitMs: null }

function version(number: number, changes: Partial<NewJob> = {}): NewJob {
  return newJob({ ...keyed('doc'), replace: NOW, payload: `{"version":${number}}`, ...changes })
}

for (const [server, urlOf] of SERVERS) {
  const schema = `replace_${process.pid}`

  // Without a second server on this machine there is nothing to show for it: apt-get install postgresql.
  describe.skipIf(urlOf() === undefined)(`a payload that is replaced in a transaction, on ${server}`, () => {
    let store: Store
    let peer: Store
    let clock: ManualClock
    let tx: pg.Client
    beforeEach(async () => {
      clock = manualClock(START_MS)
      store = await openCleanStore(urlOf()!, schema, clock)
      peer = await openPeerStore(urlOf()!, schema, clock)
      tx = new pg.Client({ connectionString: urlOf()! })
      await tx.connect()
      await tx.query('BEGIN')
    })
    afterEach(() => tx.end())
    afterAll(() => dropSchema(urlOf()!, schema))

    const keyRows = async () => {
      const sql = new pg.Client({ connectionString: urlOf()! })
      await sql.connect()
      const { rows } = await sql.query(`SELECT id, next FROM ${schema}.keys`)
      await sql.end()
      return rows
    }

    test('is the job’s when the transaction commits', async () => {
      const job = version(1, { replace: IN_5S })
      await store.enqueue([job])

      const answers = await store.enqueue([version(2, { replace: IN_5S })], { tx })
      const before = await viewOf(store, job.id)
      await tx.query('COMMIT')

      expect(answers).toEqual([{ id: job.id, created: false, replaced: true, state: 'scheduled' }])
      expect(before.payload).toEqual({ version: 1 })
      expect((await viewOf(store, job.id)).payload).toEqual({ version: 2 })
    })

    test('is not the job’s when the transaction is rolled back', async () => {
      const job = version(1, { replace: IN_5S })
      await store.enqueue([job])
      await store.enqueue([version(2, { replace: IN_5S })], { tx })
      await tx.query('ROLLBACK')
      await clock.advance(5 * SECOND_MS)
      await store.promote(10)

      expect(await claimJobs(store)).toMatchObject([{ id: job.id, payload: '{"version":1}' }])
    })

    test('keeps its job from being promoted meanwhile, and no other', async () => {
      const job = version(1, { replace: IN_5S })
      const other = newJob({ when: { delayMs: 5_000 } })
      await store.enqueue([job, other])
      await store.enqueue([version(2, { replace: IN_5S })], { tx })
      await clock.advance(5 * SECOND_MS)

      expect((await store.promote(10)).promoted).toBe(1)
      expect(await claimIds(store)).toEqual([other.id])
      await tx.query('COMMIT')
      expect((await store.promote(10)).promoted).toBe(1)
      expect(await claimJobs(store)).toMatchObject([{ id: job.id, payload: '{"version":2}' }])
    })

    test('of a job that is due waits as its successor, and the job is claimed meanwhile', async () => {
      const job = version(1)
      await store.enqueue([job])
      const next = version(2)

      expect(await store.enqueue([next], { tx })).toEqual([{ id: next.id, created: true, state: 'blocked' }])
      const running = await claimJob(store)
      await tx.query('COMMIT')
      const later = await store.enqueue([version(3)])
      await store.settle([succeeded(running)])

      expect(running).toMatchObject({ id: job.id, payload: '{"version":1}' })
      expect(later).toMatchObject([{ id: next.id, replaced: true }])
      expect(await claimJobs(store)).toMatchObject([{ id: next.id, payload: '{"version":3}' }])
    })

    test('of a job of a group that is due delays no claim of the queue', async () => {
      await setFlow(store, { groups: { concurrency: 1 } })
      const job = version(1, inGroup())
      await store.enqueue([job, newJob(inGroup('other'))])
      await store.enqueue([version(2, inGroup())], { tx })

      const { jobs } = await claimFlow(store)

      expect(jobs).toHaveLength(2)
      await tx.query('COMMIT')
    })

    test('delays no settlement, neither of the job that has the key nor of its neighbours', async () => {
      const holder = await startJob(store, version(1))
      await store.enqueue(newJobs(20))
      const neighbours = await claimJobs(store)
      const next = version(2)
      await store.enqueue([next], { tx })

      const results = await store.settle([holder, ...neighbours].map((job) => succeeded(job)))
      await tx.query('COMMIT')

      expect(results.map(({ result }) => result)).toEqual(Array(21).fill('settled'))
      await store.promote(10)
      expect(await claimJobs(store)).toMatchObject([{ id: next.id, payload: '{"version":2}' }])
      expect(await keyRows()).toEqual([{ id: next.id, next: null }])
    })

    test('that is rolled back after the job has ended leaves the key free for everyone', async () => {
      const holder = await startJob(store, version(1))
      await store.enqueue([version(2)], { tx })
      await store.settle([succeeded(holder)])
      await tx.query('ROLLBACK')

      expect(await store.enqueue([newJob(keyed('doc'))])).toMatchObject([{ created: true, state: 'ready' }])
    })

    test('that is rolled back leaves the key free for the next payload', async () => {
      const holder = await startJob(store, version(1))
      await store.enqueue([version(2)], { tx })
      await store.settle([succeeded(holder)])
      await tx.query('ROLLBACK')
      const job = version(3)

      expect(await store.enqueue([job])).toEqual([{ id: job.id, created: true, state: 'ready' }])
    })

    test('of a successor keeps it from going on, delays no settlement, and is the one it runs', async () => {
      const holder = await startJob(store, version(1))
      const next = version(2)
      await store.enqueue([next])
      await store.enqueue([version(3)], { tx })

      const [settled] = await store.settle([succeeded(holder)])
      const meanwhile = await claimIds(store)
      await tx.query('COMMIT')
      await store.promote(10)

      expect([settled?.result, meanwhile]).toEqual(['settled', []])
      expect(await claimJobs(store)).toMatchObject([{ id: next.id, payload: '{"version":3}' }])
    })

    test('of a successor that is rolled back lets it go on with the payload it had', async () => {
      const holder = await startJob(store, version(1))
      const next = version(2)
      await store.enqueue([next])
      await store.enqueue([version(3)], { tx })
      await store.settle([succeeded(holder)])
      await tx.query('ROLLBACK')
      await store.promote(10)

      expect(await claimJobs(store)).toMatchObject([{ id: next.id, payload: '{"version":2}' }])
    })

    test('lets a cancel of the job be asked for, which is granted when the transaction has ended', async () => {
      const job = version(1, { replace: IN_5S })
      await store.enqueue([job])
      await store.enqueue([version(2, { replace: IN_5S })], { tx })

      expect(await peer.cancel([job.id], OPERATOR)).toEqual([{ id: job.id, result: 'asked' }])
      await tx.query('COMMIT')
      await store.promote(10)

      expect(await stateOf(store, job.id)).toBe('cancelled')
      expect(await store.enqueue([version(3)])).toMatchObject([{ created: true }])
    })

    test('keeps those waiting who replace it as well, and nobody else', async () => {
      await store.enqueue([version(1, { replace: IN_5S })])
      await store.enqueue([version(2, { replace: IN_5S })], { tx })
      const asked = version(3, { replace: IN_5S })

      const error = await peer.enqueue([asked, newJob()]).catch((cause: unknown) => cause)
      const others = await peer.enqueue([newJob(keyed('doc')), version(1, keyed('other'))])
      await tx.query('COMMIT')

      expect(error).toMatchObject({ code: 'store_unavailable', retryable: true, details: { heldIds: [asked.id] } })
      expect(others).toMatchObject([{ created: false }, { created: true }])
      expect(await peer.enqueue([asked])).toMatchObject([{ replaced: true }])
    })

    /** As a call of our own replaces the payload, but for its commit. */
    const replaceOpen = (queue: string) =>
      tx.query(
        `SELECT how FROM ${schema}.replace_payload($1, $2, 'doc', gen_random_uuid(), 't', '{"version":2}', 0::smallint, 1::smallint, NULL,
                                                   NULL, NULL, '', 0, NULL, true, NULL)`,
        [new Date(START_MS).toISOString(), queue],
      )

    test('by a call of our own is never run over by a claim: a plain job', async () => {
      const job = version(1)
      await store.enqueue([job])
      const { rows } = await replaceOpen(job.queue)
      const meanwhile = await claimIds(store)
      await tx.query('COMMIT')

      expect([rows[0].how, meanwhile]).toEqual(['replaced', []])
      expect(await claimJobs(store)).toMatchObject([{ id: job.id, payload: '{"version":2}' }])
    })

    test('by a call that ends while a claim is under way is not lost to it', async () => {
      const job = version(1)
      await store.enqueue([job])
      // The claim's view of everything is from before the call.
      await tx.query('ROLLBACK')
      await tx.query('BEGIN ISOLATION LEVEL REPEATABLE READ')
      await tx.query('SELECT 1')
      await store.enqueue([version(2)])

      const claim = [new Date(START_MS).toISOString(), `{${job.queue}}`, '{1}', null, 30_000, 'w']
      const error = await tx.query(inSchema(CLAIM.sql, schema), claim).catch((cause: unknown) => cause)

      expect(error).toMatchObject({ code: '40001' })
    })

    test('by a call of our own is never run over by a claim: a job of a group', async () => {
      await setFlow(store, { groups: { concurrency: 1 } })
      const job = version(1, inGroup())
      await store.enqueue([job])
      await replaceOpen(job.queue)
      const claiming = claimJobs(store)
      await waits(claiming)
      await tx.query('COMMIT')

      // The event of the call lets the next claim look at the group again.
      expect([...(await claiming), ...(await claimJobs(store))]).toMatchObject([
        { id: job.id, payload: '{"version":2}' },
      ])
    })

    test('of a successor is waited for by no look at it', async () => {
      const holder = await startJob(store, version(1))
      const next = version(2)
      await store.enqueue([next])
      await store.enqueue([version(3)], { tx })
      await store.settle([succeeded(holder)])
      const sql = new pg.Client({ connectionString: urlOf()! })
      await sql.connect()
      await sql.query("SET lock_timeout = '1ms'")

      const { rows } = await sql.query(`SELECT job FROM ${schema}.unblock(NULL, $1, '{}')`, [[next.id]])
      await sql.end()

      expect(rows).toEqual([])
    })

    /** Resolves when the call waits for a lock, or is over. */
    const waits = async (call: Promise<unknown>) => {
      let isOver = false
      void call.finally(() => {
        isOver = true
      })
      const sql = new pg.Client({ connectionString: urlOf()! })
      await sql.connect()
      for (let isWaiting = false; !isWaiting && !isOver; ) {
        const { rows } = await sql.query(
          `SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%${schema}%claim_flow%'`,
        )
        isWaiting = rows.length > 0
      }
      await sql.end()
    }

    test('is one of several with the handler’s own completion: the successor follows', async () => {
      const holder = await startJob(store, version(1))
      const next = version(2)
      await store.enqueue([next], { tx })
      await store.settle([succeeded(holder)], { tx })
      await tx.query('COMMIT')
      await store.promote(10)

      expect(await claimJobs(store)).toMatchObject([{ id: next.id }])
      expect(await store.enqueue([version(3)])).toMatchObject([{ created: true, state: 'blocked' }])
    })

    test('makes a first job that others replace only when it is committed', async () => {
      const job = version(1, { replace: IN_5S })
      expect(await store.enqueue([job], { tx })).toMatchObject([{ id: job.id, created: true, state: 'scheduled' }])
      expect(await store.enqueue([version(2, { replace: IN_5S })], { tx })).toMatchObject([
        { id: job.id, replaced: true },
      ])
      await tx.query('COMMIT')

      expect((await viewOf(store, job.id)).payload).toEqual({ version: 2 })
    })

    test('of a job that retries keeps its time', async () => {
      const job = version(1)
      await store.enqueue([job])
      await store.settle([retrying(await claimJob(store), MINUTE_MS)])

      expect(await store.enqueue([version(2)], { tx })).toMatchObject([{ id: job.id, state: 'retrying' }])
      await tx.query('COMMIT')
      expect((await viewOf(store, job.id)).runAt).toEqual(new Date(START_MS + MINUTE_MS))
    })
  })
}

// What somebody can do who has the password of a role and writes statements of their own: each is refused, or harms nobody else.

import pg from 'pg'
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import { decide } from '../../src/core/decide.js'
import { resolveLimits } from '../../src/core/limits.js'
import { NO_TALLY } from '../../src/core/operating.js'
import type { Store } from '../../src/core/store.js'
import { postgresStore } from '../../src/stores/postgres/index.js'
import { ROLES, type RoleName } from '../../src/stores/postgres/rights.js'
import { rolesScript } from '../../src/stores/postgres/roles.js'
import { dead, newId, newJob, succeeded } from '../../src/testing/store-suite/samples.js'
import { claimIds, claimJob, enqueueJob } from '../../src/testing/store-suite/steps.js'
import { SERVERS } from '../support/postgres.js'

const schema = `hostile_${process.pid}`
const prefix = `hostile_${process.pid}`
const DENIED = '42501'
const LATER_MS = 60_000

for (const [server, urlOf] of SERVERS) {
  // Without a second server on this machine there is nothing to show for it: apt-get install postgresql.
  describe.skipIf(urlOf() === undefined)(`a hostile role on ${server}`, { timeout: LATER_MS }, () => {
    const clients = new Map<RoleName, pg.Client>()
    let sql: pg.Client
    let store: Store
    let producing: Store

    beforeAll(async () => {
      sql = new pg.Client({ connectionString: urlOf()! })
      await sql.connect()
      store = await postgresStore(urlOf()!, { schema })
      const script = rolesScript({ schema, prefix })
      await sql.query(script.sql)
      await sql.query(script.sql)
      for (const role of ROLES) {
        await sql.query(`CREATE ROLE ${prefix}_${role}_login LOGIN IN ROLE ${script.roles[role]}`)
        const client = new pg.Client({ connectionString: urlAs(role) })
        await client.connect()
        await client.query(`SET search_path = ${schema}`)
        clients.set(role, client)
      }
      producing = await postgresStore(urlAs('producer'), { schema })
    }, LATER_MS)

    afterAll(async () => {
      await Promise.all([...clients.values()].map((client) => client.end()))
      await Promise.all([store.close(), producing.close()])
      await sql.query(`DROP SCHEMA ${schema} CASCADE`)
      for (const role of ROLES) await sql.query(`DROP ROLE ${prefix}_${role}_login`)
      for (const role of ['owner', ...ROLES]) {
        await sql.query(`DROP OWNED BY ${prefix}_${role}; DROP ROLE ${prefix}_${role}`)
      }
      await sql.end()
    })

    function urlAs(role: RoleName): string {
      return urlOf()!.replace('holdfast@', `${prefix}_${role}_login@`)
    }

    const READY = 'INSERT INTO ready (id, position, since, priority, moved, queue, type'
    const refused: readonly (readonly [string, RoleName, (id: string) => string])[] = [
      ['a second row for a job', 'producer', (id) => `${READY}) VALUES ('${id}', 1, now(), 0, false, 'q', 't')`],
      ['a moved row', 'producer', () => `${READY}) VALUES ('${newId()}', 1, now(), 0, true, 'q', 't')`],
      [
        'a row with a fence',
        'producer',
        () => `${READY}, fence) VALUES ('${newId()}', 1, now(), 0, false, 'q', 't', 9)`,
      ],
      [
        'a time for a job that is there',
        'producer',
        (id) =>
          `INSERT INTO scheduled (id, run_at, priority, attempt, crashes, retrying, queue, type) VALUES ('${id}', now(), 0, 0, 0, false, 'q', 't')`,
      ],
      [
        'a block for a job that is there',
        'producer',
        (id) =>
          `INSERT INTO blocked (id, priority, cancel_with_parents, queue, type) VALUES ('${id}', 0, true, 'q', 't')`,
      ],
      [
        'another parent for a job that is there',
        'producer',
        (id) => `INSERT INTO parents VALUES ('${newId()}', '${id}')`,
      ],
      ['removing blocked jobs', 'producer', () => 'DELETE FROM blocked'],
      ['removing links', 'producer', () => 'DELETE FROM parents'],
      ['removing announced looks', 'producer', () => 'DELETE FROM link_checks'],
      ['removing ready jobs', 'producer', () => 'DELETE FROM ready'],
      [
        'an ending',
        'producer',
        (id) =>
          `INSERT INTO finished (id, finished_at, attempt, crashes, ending) VALUES ('${id}', now(), 1, 0, 'cancelled')`,
      ],
      ['a lease', 'producer', (id) => `INSERT INTO running SELECT '${id}'`],
      ['taking over a key', 'producer', (id) => `INSERT INTO keys VALUES ('q', 'mine', '${id}')`],
      ['removing keys', 'producer', () => 'DELETE FROM keys'],
      ['changing keys', 'producer', () => 'UPDATE keys SET expires_at = now()'],
      ['reading payloads', 'producer', () => 'SELECT payload FROM jobs'],
      ['moving the sequence', 'producer', () => `SELECT setval('positions', 1)`],
      ['opening days', 'producer', () => `SELECT open_day('2031-01-01')`],
      ['an audit line', 'producer', () => `INSERT INTO audit (at, actor, action) VALUES (now(), 'admin', 'x')`],
      ['an audit line of admin', 'worker', () => `INSERT INTO audit (at, actor, action) VALUES (now(), 'admin', 'x')`],
      ['changing audit lines', 'worker', () => `UPDATE audit SET actor = 'x'`],
      ['removing audit lines', 'worker', () => 'DELETE FROM audit'],
      ['removing audit lines', 'operator', () => 'DELETE FROM audit'],
      ['making an API key', 'worker', () => `INSERT INTO api_keys (id) VALUES ('x')`],
      ['writing anything', 'viewer', () => `INSERT INTO queues (name) VALUES ('x')`],
      ['calling functions', 'viewer', () => `SELECT unblock(NULL, '{}', '{}')`],
    ]
    test.each(refused)('%s is refused to %s', async (_what, role, statement) => {
      const id = await enqueueJob(store, { queue: 'target' })

      await expect(clients.get(role)!.query(statement(id))).rejects.toMatchObject({ code: DENIED })
    })

    test.each(['-infinity', 'infinity', '294276-01-01'])(
      'a job due at %s, which promote cannot count with, is refused',
      async (time) => {
        const columns = 'id, run_at, priority, attempt, crashes, retrying, queue, type'
        const row = `INSERT INTO scheduled (${columns}) VALUES ('${newId()}', '${time}', 0, 0, 0, false, 'q', 't')`

        await expect(clients.get('producer')!.query(row)).rejects.toMatchObject({ code: '23514' })
        expect(await store.promote(10)).toMatchObject({ promoted: 0 })
      },
    )

    test('freeing expired keys touches none that is held, whatever time is given', async () => {
      const queue = newId()
      const job = newJob({ queue, idempotencyKey: { key: 'held', ttlMs: null } })
      const lasting = newJob({ queue, idempotencyKey: { key: 'held for an hour', ttlMs: 3_600_000 } })
      await store.enqueue([job, lasting])

      await clients.get('producer')!.query(`SELECT free_expired_keys('infinity', $1, $2, $3)`, [
        [queue, queue],
        ['held', 'held for an hour'],
        [newId(), newId()],
      ])

      const again = [job, lasting].map(({ idempotencyKey }) => newJob({ queue, idempotencyKey }))
      expect(await producing.enqueue(again)).toMatchObject([
        { id: job.id, created: false },
        { id: lasting.id, created: false },
      ])
    })

    test('asking which keys are in writing takes none', async () => {
      const queue = newId()
      await clients.get('producer')!.query('SELECT keys_in_writing($1, $2, 10)', [[queue], ['free']])

      expect(await producing.enqueue([newJob({ queue, idempotencyKey: { key: 'free', ttlMs: null } })])).toMatchObject([
        { created: true },
      ])
    })

    const LOCKS = ['SHARE', 'SHARE ROW EXCLUSIVE', 'EXCLUSIVE', 'ACCESS EXCLUSIVE']
    test.each(LOCKS)('a producer cannot lock the table of keys in %s mode', async (mode) => {
      const producer = clients.get('producer')!
      await producer.query('BEGIN')
      const locked = await producer.query(`LOCK TABLE keys IN ${mode} MODE`).catch((error) => error)
      await producer.query('ROLLBACK')

      expect(locked).toMatchObject({ code: DENIED })
    })

    test('a key that has expired is taken by the next job', async () => {
      const queue = newId()
      const key = { key: 'short', ttlMs: 1 }
      await producing.enqueue([newJob({ queue, idempotencyKey: key })])
      await sql.query('SELECT pg_sleep(0.02)')

      expect(await producing.enqueue([newJob({ queue, idempotencyKey: key })])).toMatchObject([{ created: true }])
    })

    test('a key that a producer wrote for no job is taken by the next job', async () => {
      const [queue, key] = [newId(), 'order:1']
      await clients
        .get('producer')!
        .query(`INSERT INTO keys (queue, key, id) VALUES ('${queue}', '${key}', '${newId()}')`)
      const job = newJob({ queue, idempotencyKey: { key, ttlMs: null } })

      expect(await producing.enqueue([job])).toMatchObject([{ id: job.id, created: true, state: 'ready' }])
      expect(await store.enqueue([newJob({ queue, idempotencyKey: job.idempotencyKey })])).toMatchObject([
        { id: job.id, created: false },
      ])
    })

    test('two rows for a new job of its own do not stop the claims of the queue', async () => {
      const queue = newId()
      const [first, own] = [newJob({ queue }), newId()]
      await store.enqueue([first])
      await clients.get('producer')!.query(
        `WITH job AS (INSERT INTO jobs (id, created_at, position, priority, version, queue, type, payload)
                      VALUES ('${own}', now(), 7, 0, 1, '${queue}', 't', '{}'))
         INSERT INTO ready (id, position, since, priority, moved, queue, type)
         SELECT '${own}', 7, now(), 0, false, '${queue}', 't' FROM generate_series(1, 3)`,
      )
      const last = await enqueueJob(store, { queue })

      expect(await claimIds(store, { queue, limit: 10 })).toEqual([own, first.id, last])
    })

    const HOSTILE: readonly (readonly [string, Readonly<Record<string, string>>])[] = [
      ['options that are null', { options: `'null'` }],
      ['options that are a list', { options: `'[1, "x"]'` }],
      ['a retry that is null', { options: `'{"limits":{"retry":null}}'` }],
      ['a retry that is after the end of time', { options: retryOf('1e300') }],
      ['a retry before the beginning of time', { options: retryOf('-1e15') }],
      ['a retry of words', { options: retryOf('"soon"') }],
      [
        'a backoff without steps',
        { options: `'{"limits":{"retry":{"backoff":[],"baseMs":1,"capMs":1,"jitter":true}}}'` },
      ],
      ['no attempts at all', { options: `'{"limits":{"maxAttempts":-1,"timeoutMs":"x","maxAgeMs":-5}}'` }],
      ['parts of the wrong kind', { options: `'{"key":5,"after":"x","trace":[],"schedule":null,"onParentDead":1}'` }],
      ['tags that are null', { tags: `'{NULL,x}'` }],
      ['tags in tags', { tags: `'{{a,b},{c,d}}'` }],
      ['a version that never was', { version: '-32768' }],
      ['a payload that is a word', { payload: `'"x"'` }],
      ['no type', { type: `''` }],
    ]
    function retryOf(ms: string): string {
      return `'{"limits":{"retry":{"backoff":"fixed","baseMs":${ms},"capMs":${ms},"jitter":false}}}'`
    }
    test.each(HOSTILE)('a job with %s keeps no other from being claimed, rescued or listed', async (_what, given) => {
      const [queue, own] = [newId(), newId()]
      const usual = { version: '1', type: `'work'`, payload: `'{}'`, options: 'NULL', tags: 'NULL' }
      const { version, type, payload, options, tags } = { ...usual, ...given }
      const innocent = await enqueueJob(store, { queue })
      await clients.get('producer')!.query(
        `WITH job AS (INSERT INTO jobs (id, created_at, position, priority, version, queue, type, payload, options, tags)
                      VALUES ('${own}', now(), 7, 0, ${version}, '${queue}', ${type}, ${payload}, ${options}, ${tags}))
         INSERT INTO ready (id, position, since, priority, moved, queue, type) VALUES ('${own}', 7, now(), 0, false, '${queue}', ${type})`,
      )

      const { jobs } = await store.claim({ queues: [{ queue, limit: 10 }], types: null, worker: 'w', leaseMs: 1 })
      await sql.query('SELECT pg_sleep(0.02)')
      const expired = (await store.expired(1_000)).jobs.filter((job) => job.queue === queue)
      const settled = expired.map((job) => {
        const limits = resolveLimits(job.limits, job.queueLimits)
        const failed = { kind: 'failed', retryable: true, delayMs: null } as const
        const settlement = decide({ ...job, limits }, failed, Date.now(), Math.random)
        return {
          id: job.id,
          fence: job.fence,
          queue,
          settlement,
          result: null,
          error: null,
          ranMs: null,
          idempotencyKey: job.idempotencyKey,
        }
      })
      const results = await store.settle(settled, { onlyExpired: true })
      const listed = await store.list({ filter: { queues: [queue] }, limit: 10, before: null })

      expect(jobs.map(({ id }) => id)).toEqual([own, innocent])
      expect(new Set(results.map(({ id, result }) => `${id} ${result}`))).toEqual(
        new Set([`${own} settled`, `${innocent} settled`]),
      )
      expect(listed.jobs.map(({ id }) => id).sort()).toEqual([own, innocent].sort())
    })

    test.each(["'infinity'", "'-infinity'", "'294276-01-01'", "'4000-01-01 BC'"])(
      'a job made at %s, which nobody could show, is refused',
      async (time) => {
        const row = `INSERT INTO jobs (id, created_at, position, priority, version, queue, type, payload) VALUES ('${newId()}', ${time}, 7, 0, 1, 'q', 't', '{}')`
        const place = `INSERT INTO ready (id, position, since, priority, moved, queue, type) VALUES ('${newId()}', 7, ${time}, 0, false, 'q', 't')`

        await expect(clients.get('producer')!.query(row)).rejects.toMatchObject({ code: '23514' })
        await expect(clients.get('producer')!.query(place)).rejects.toMatchObject({ code: '23514' })
      },
    )

    test('unblock called with the ids and the time of its choice moves nothing before its parents', async () => {
      const queue = newId()
      const parent = await enqueueJob(store, { queue })
      const child = await enqueueJob(store, { queue, after: [parent], when: { delayMs: 3_600_000 } })
      const producer = clients.get('producer')!

      await producer.query(
        `SELECT unblock('2099-01-01', ARRAY['${child}']::uuid[], ARRAY['${child}', '${parent}']::uuid[])`,
      )
      const before = await store.get(child)
      await store.settle([succeeded(await claimJob(store, { queue }))])
      await producer.query(`SELECT unblock('2099-01-01', ARRAY['${child}']::uuid[], '{}')`)

      expect(before).toMatchObject({ state: 'blocked' })
      expect(await store.get(child)).toMatchObject({ state: 'scheduled' })
    })

    test('a child of a job that has ended goes on though its producer may remove nothing', async () => {
      const queue = newId()
      const [done, died] = [await enqueueJob(store, { queue }), await enqueueJob(store, { queue })]
      await store.settle([succeeded(await claimJob(store, { queue })), dead(await claimJob(store, { queue }))])

      const children = await producing.enqueue([newJob({ queue, after: [done] }), newJob({ queue, after: [died] })])

      expect(children).toMatchObject([{ state: 'ready' }, { state: 'cancelled' }])
    })

    test('a queue whose making a producer leaves open keeps nobody from enqueueing to it or to others', async () => {
      const queue = newId()
      const producer = clients.get('producer')!
      await producer.query('BEGIN')
      await producer.query(`INSERT INTO queues (name) VALUES ('${queue}')`)
      try {
        const held = await Promise.all([1, 2, 3].map(() => store.enqueue([newJob({ queue })])))
        const other = await store.enqueue([newJob({ queue: newId() })])

        expect([...held, other].map(([answer]) => answer)).toMatchObject(Array(4).fill({ created: true }))
      } finally {
        await producer.query('ROLLBACK')
      }
      await vi.waitUntil(async () => {
        await store.enqueue([newJob({ queue })])
        return (await store.queues()).some(({ name }) => name === queue)
      }, LATER_MS)
    })

    test('a producer makes a thousand queues and no more, in whatever name, and others make theirs', async () => {
      const producer = clients.get('producer')!
      const flood = (from: number, to: number) =>
        producer.query(
          `INSERT INTO queues (name, created_by, created_at)
           SELECT 'flood-' || number, 'key 1', '-infinity' FROM generate_series(${from}, ${to}) AS number`,
        )
      const mine = `SELECT count(*)::integer AS count FROM ${schema}.queues WHERE created_by = 'role ${prefix}_producer_login'`
      const made = (await sql.query(mine)).rows[0].count as number

      await expect(flood(1, 30_000)).rejects.toMatchObject({ code: '54000' })
      await flood(1, 1_000 - made)
      await expect(flood(1_001, 1_001)).rejects.toMatchObject({ code: '54000' })
      const refused: unknown = await producing.enqueue([newJob({ queue: 'one-more' })]).catch((error: unknown) => error)

      expect(refused).toMatchObject({ code: 'too_many_queues', details: { max: 1_000 } })
      expect((refused as Error).message).toMatch(/one-more cannot be made: .*may only enqueue/)
      expect(await producing.enqueue([newJob({ queue: 'flood-1' })])).toMatchObject([{ created: true }])
      expect(await store.enqueue([newJob({ queue: 'one-more' })])).toMatchObject([{ created: true }])
      await clients.get('worker')!.query(`INSERT INTO queues (name) VALUES ('of-a-worker')`)
      const odd = `SELECT FROM ${schema}.queues WHERE created_by = 'key 1' OR created_at = '-infinity'`
      expect((await sql.query(odd)).rowCount).toBe(0)
      await sql.query(`DELETE FROM ${schema}.queues WHERE name LIKE 'flood-%'`)
    })

    test('a producer only adds to what was enqueued, now, in queues there are, and never past what can be counted', async () => {
      const producer = clients.get('producer')!
      const queue = newId()
      await producing.enqueue([newJob({ queue })])
      const most = '9223372036854775807'
      const tally = (name: string) =>
        producer.query(
          `SELECT tally('2031-01-01', ARRAY['${name}'], ARRAY[${most}]${`, ARRAY[${most}]`.repeat(7)}, ARRAY['NaN'::float8], ARRAY['Infinity'::float8])`,
        )

      await expect(producer.query(`UPDATE tallies SET enqueued = ${most}`)).rejects.toMatchObject({ code: DENIED })
      await expect(producer.query('BEGIN; LOCK TABLE tallies IN ACCESS EXCLUSIVE MODE')).rejects.toMatchObject({
        code: DENIED,
      })
      await producer.query('ROLLBACK')
      for (let times = 0; times < 3; times++) await tally(queue)
      await tally('unheard-of')
      await store.tally([{ ...NO_TALLY, queue, enqueued: 1, dead: 2 }])

      const sinceMs = (await store.now()) - 60_000
      const points = await store.series({ queue, sinceMs: sinceMs - (sinceMs % 10_000), stepMs: 10_000 })
      expect(points.reduce((sum, { dead: died }) => sum + died, 0)).toBe(2)
      const { rows } = await sql.query(
        `SELECT queue, run_ms_total::text AS ran FROM ${schema}.tallies WHERE at > now() + interval '1 hour' OR queue = 'unheard-of' OR run_ms_total <> 0`,
      )
      expect(rows).toEqual([])
    })

    test('a worker writes audit lines in the name of whose bulk action is open, and no longer', async () => {
      const worker = clients.get('worker')!
      const line = `INSERT INTO audit (at, actor, action) VALUES (now(), 'grace', 'x')`
      const filter = { states: ['dead'] } as const
      const { id } = await store.startBulk({
        id: newId(),
        action: 'discard',
        filter,
        by: 'grace',
        perSecond: null,
        limit: 1,
        expected: null,
      })

      await worker.query(line)
      await store.cancelBulk(id, 'grace')

      await expect(worker.query(line)).rejects.toMatchObject({ code: DENIED })
    })
  })
}

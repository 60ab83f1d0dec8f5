// What the login of a role can do to flow control with statements of its own: stop nobody's queue, limit or group, and let nothing loose.

import pg from 'pg'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { NO_LIMIT } from '../../src/core/flow/settings.js'
import type { Store } from '../../src/core/store.js'
import { postgresStore } from '../../src/stores/postgres/index.js'
import { ROLES, type RoleName } from '../../src/stores/postgres/rights.js'
import { rolesScript } from '../../src/stores/postgres/roles.js'
import { flowOf } from '../../src/testing/store-suite/flow-samples.js'
import { dead, newId, newJob } from '../../src/testing/store-suite/samples.js'
import { claimIds, claimJob, enqueueJob } from '../../src/testing/store-suite/steps.js'
import { SERVERS } from '../support/postgres.js'

const schema = `hostile_flow_${process.pid}`
const prefix = `hostile_flow_${process.pid}`
const DENIED = '42501'
const LATER_MS = 60_000
const DAY_MS = 86_400_000
const LONG = 'x'.repeat(201)
const BREAKER = { failures: 0.5, of: 4, withinMs: 10_000, cooldownMs: 5_000, probes: 2 }

for (const [server, urlOf] of SERVERS) {
  // Without a second server on this machine there is nothing to show for it: apt-get install postgresql.
  describe.skipIf(urlOf() === undefined)(`flow control and roles on ${server}`, { timeout: LATER_MS }, () => {
    const clients = new Map<RoleName, pg.Client>()
    let sql: pg.Client
    let store: Store
    let working: Store
    let producing: Store

    beforeAll(async () => {
      sql = new pg.Client({ connectionString: urlOf()! })
      await sql.connect()
      store = await postgresStore(urlOf()!, { schema })
      const script = rolesScript({ schema, prefix })
      await sql.query(script.sql)
      for (const role of ROLES) {
        await sql.query(`CREATE ROLE ${prefix}_${role}_login LOGIN IN ROLE ${script.roles[role]}`)
        const client = new pg.Client({ connectionString: urlAs(role) })
        await client.connect()
        await client.query(`SET search_path = ${schema}`)
        clients.set(role, client)
      }
      await sql.query(`SET search_path = ${schema}`)
      working = await postgresStore(urlAs('worker'), { schema })
      producing = await postgresStore(urlAs('producer'), { schema })
    }, LATER_MS)

    afterAll(async () => {
      await Promise.all([...clients.values()].map((client) => client.end()))
      await Promise.all([store.close(), working.close(), producing.close()])
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

    const by = (role: RoleName, statement: string, values: unknown[] = []) =>
      clients.get(role)!.query(statement, values)

    /** A limit that an operator has set, with everything it can have. */
    async function aLimit(): Promise<string> {
      const name = newId()
      const rate = { limit: 1, perMs: 1_000, burst: 1, counts: 'starts' } as const
      await store.setLimit(name, { ...NO_LIMIT, concurrency: 3, rate, breaker: BREAKER }, 'ada')
      return name
    }

    async function limitOf(name: string) {
      return (await store.limits()).find((limit) => limit.name === name)!
    }

    const HELD = 'INSERT INTO held (id, position, since, track, priority, queue, group_name, type)'
    const KEEP = (name: string, settings: string, rest: string) =>
      `SELECT keep_limit(NULL, '${name}', 'definition', '${settings}', NULL, ${rest})`
    const PLAIN = '{"concurrency":null,"rate":null,"adaptive":null,"breaker":null}'
    const refused: readonly (readonly [string, RoleName, (limit: string) => string])[] = [
      ['lifting a limit', 'worker', (limit) => `UPDATE limits SET concurrency = 1000 WHERE name = '${limit}'`],
      ['filling a bucket', 'worker', (limit) => `UPDATE limits SET empty_at = '-Infinity' WHERE name = '${limit}'`],
      ['opening a breaker by hand', 'worker', (limit) => `UPDATE limits SET forced = 'open' WHERE name = '${limit}'`],
      ['removing limits', 'worker', () => 'DELETE FROM limits'],
      ['a limit of its own', 'worker', () => KEEP(newId(), PLAIN, '1, NULL, NULL, NULL, false, NULL')],
      ['the limit of a queue', 'worker', () => KEEP('queue:q', PLAIN, '1, NULL, NULL, NULL, false, NULL')],
      ['what an operator has set', 'worker', (limit) => KEEP(limit, PLAIN, '1, NULL, NULL, NULL, false, NULL')],
      [
        'a rate that no claim can count with',
        'worker',
        () =>
          KEEP(
            'type:t',
            '{"concurrency":null,"rate":{"limit":1,"perMs":0,"burst":1,"counts":"starts"},"adaptive":null,"breaker":null}',
            'NULL, 1, 0, 1, false, NULL',
          ),
      ],
      ['settings that nobody can show', 'worker', () => KEEP('type:t', '5', 'NULL, NULL, NULL, NULL, false, NULL')],
      ['a history', 'worker', (limit) => `SELECT note_breaker('${limit}', 0, 'open', 'open', 0, 0, 'ada')`],
      ['a history', 'worker', () => 'DELETE FROM breaker_moves'],
      [
        'the breaker of a limit that has none',
        'worker',
        () => `SELECT keep_breaker('none of these', 'open', 0, 0, 1, 0, '{}', 0, 0)`,
      ],
      ['a level beyond its bounds', 'worker', (limit) => `SELECT keep_level('${limit}', '{"level":9}', 9)`],
      ['pausing a group', 'worker', () => `INSERT INTO groups (queue, group_name, paused) VALUES ('q', 'g', true)`],
      ['resuming a group', 'worker', () => 'UPDATE groups SET paused = false, stopped_by = NULL'],
      ['removing groups', 'worker', () => 'DELETE FROM groups'],
      ['the turn of a queue', 'worker', () => 'UPDATE flows SET turn = 9223372036854775807'],
      ['flow control of a queue', 'worker', () => 'UPDATE flows SET concurrency = 0'],
      ['a nap', 'worker', () => `INSERT INTO naps (until, track, group_name) VALUES ('Infinity', 1, 'g')`],
      ['removing turns', 'worker', () => 'DELETE FROM rotation'],
      ['removing events', 'worker', () => 'DELETE FROM arrivals'],
      ['a track', 'worker', () => `UPDATE tracks SET limits = '{}'`],
      ...(['limits', 'groups', 'flows', 'tracks', 'rotation', 'naps', 'breaker_moves', 'places'] as const).map(
        (table) => [`removing rows of ${table}`, 'producer', () => `DELETE FROM ${table}`] as const,
      ),
      ['lifting a limit', 'producer', () => 'UPDATE limits SET concurrency = NULL'],
      ['the turn of a queue', 'producer', () => 'UPDATE flows SET turn = 0'],
      ['a pause', 'producer', () => `INSERT INTO groups (queue, group_name, paused) VALUES ('q', 'g', true)`],
      ['a nap', 'producer', () => `INSERT INTO naps (until, track, group_name) VALUES ('Infinity', 1, 'g')`],
      ['a turn', 'producer', () => `INSERT INTO rotation (turn, track, group_name) VALUES (0, 1, 'g')`],
      ['claiming', 'producer', () => `SELECT claim_flow_25(NULL, 'q', 1, NULL, 1000, 'w', '{}', '{}', NULL, NULL, 0)`],
      ['holding off', 'producer', (limit) => `SELECT move_limits(NULL, '{${limit}}', '{9e15}', '{0}', '{NULL}')`],
      [
        'stopping a group',
        'producer',
        () => `SELECT move_groups(NULL, '{q}', '{g}', '{NULL}', '{9e15}', '{0}', '{NULL}')`,
      ],
      ['pruning', 'producer', () => `SELECT prune_flow(NULL, '', '', 1)`],
      ['reading events', 'producer', () => 'SELECT * FROM arrivals'],
      [
        'a group with a name that is too long',
        'producer',
        () => `${HELD} VALUES ('${newId()}', 1, now(), 1, 0, 'q', '${LONG}', 't')`,
      ],
      ['an event with a name that is too long', 'producer', () => `INSERT INTO arrivals VALUES (1, 1, '${LONG}')`],
      [
        'a job for later with a name that is too long',
        'producer',
        () =>
          `INSERT INTO scheduled (id, run_at, priority, attempt, crashes, retrying, queue, type, track, group_name) VALUES ('${newId()}', now(), 0, 0, 0, false, 'q', 't', 1, '${LONG}')`,
      ],
      [
        'a blocked job with a name that is too long',
        'producer',
        () =>
          `INSERT INTO blocked (id, priority, cancel_with_parents, queue, type, track, group_name) VALUES ('${newId()}', 0, true, 'q', 't', 1, '${LONG}')`,
      ],
      ['setting a limit', 'viewer', () => KEEP('type:t', PLAIN, 'NULL, NULL, NULL, NULL, false, NULL')],
    ]
    test.each(refused)('%s is refused to %s', async (_what, role, statement) => {
      const limit = await aLimit()
      await store.setLimit('none of these', NO_LIMIT, 'ada')

      await expect(by(role, statement(limit))).rejects.toMatchObject({ code: DENIED })
    })

    test('a worker that reports an outcome opens a breaker for one cool-down, whatever it writes', async () => {
      const limit = await aLimit()
      const far = Date.UTC(2099, 0)

      await by('worker', `SELECT keep_breaker($1, 'open', ${far}, ${far + 9e12}, 1000, 0, '{}', 0, 4)`, [limit])

      const { position, since, probeAt, opens, history } = (await limitOf(limit)).breaker!
      expect({ position, opens }).toEqual({ position: 'open', opens: 1 })
      expect(since.getTime()).toBeLessThan(Date.now() + 60_000)
      expect(probeAt!.getTime()).toBeLessThan(Date.now() + 11 * 60_000)
      expect(history).toMatchObject([{ from: 'closed', to: 'open', failed: 4, by: null }])
    })

    test('a worker cannot move a breaker that an operator holds', async () => {
      const limit = await aLimit()
      await store.forceBreaker(limit, 'open', 'ada')

      await expect(
        by('worker', `SELECT keep_breaker($1, 'closed', 0, NULL, 0, 0, '{}', 9, 0)`, [limit]),
      ).rejects.toMatchObject({ code: DENIED })
      expect((await limitOf(limit)).breaker).toMatchObject({ position: 'open', forced: 'open' })
    })

    test('a worker holds off the limits its job names, for a day at most, and no others', async () => {
      const [own, stranger, queue] = [await aLimit(), await aLimit(), newId()]
      const id = await enqueueJob(store, { queue, flow: { group: null, limits: [own], cost: 1 } })

      await by('worker', `SELECT move_limits('2099-01-01', $1, '{Infinity,Infinity,NaN}', '{0,0,NaN}', $2)`, [
        [own, stranger, `queue:other`],
        [id, id, id],
      ])

      expect((await limitOf(own)).until!.getTime()).toBeLessThan(Date.now() + DAY_MS + 60_000)
      expect((await limitOf(stranger)).until).toBeNull()
    })

    test.each([
      ['a queue whose groups go on', { ordered: true, onDead: 'continue' as const }, 'acme'],
      ['the group of another job', { ordered: true, onDead: 'stop' as const }, 'stranger'],
    ])('a worker cannot stop %s', async (_what, groups, group) => {
      const queue = newId()
      await store.setQueue(queue, { limits: {}, flow: flowOf({ groups }) }, 'ada')
      const id = await enqueueJob(store, { queue, flow: { group: 'acme', limits: [], cost: 1 } })
      const other = await enqueueJob(store, { queue, flow: { group: 'stranger', limits: [], cost: 1 } })

      await by('worker', `SELECT move_groups(NULL, $1, $2, $3, '{0}', '{0}', $3)`, [[queue], [group], [id]])

      expect(new Set(await claimIds(store, { queue }))).toEqual(new Set([id, other]))
    })

    test('a job that dies in the hands of a worker stops its group', async () => {
      const queue = newId()
      await store.setQueue(queue, { limits: {}, flow: flowOf({ groups: { ordered: true, onDead: 'stop' } }) }, 'ada')
      const flow = { group: 'acme', limits: [], cost: 1 }
      const id = await enqueueJob(producing, { queue, flow })
      await enqueueJob(producing, { queue, flow })

      await working.settle([dead(await claimJob(working, { queue }))])

      expect(await claimIds(working, { queue })).toEqual([])
      const { groups } = await store.groups({ queue, prefix: '', after: null, limit: 10 })
      expect(groups).toMatchObject([{ group: 'acme', paused: true, stoppedBy: id }])
    })

    test('a worker that prunes with a time of its own removes nothing early', async () => {
      const queue = newId()
      const rate = { limit: 1, perMs: 3_600_000, burst: 1, counts: 'starts' } as const
      await store.setQueue(queue, { limits: {}, flow: flowOf({ groups: { rate } }) }, 'ada')
      for (let index = 0; index < 2; index++) {
        await enqueueJob(store, { queue, flow: { group: 'acme', limits: [], cost: 1 } })
      }
      expect(await claimIds(working, { queue })).toHaveLength(1)

      await by('worker', `SELECT prune_flow('2099-01-01', '', '', 100000)`)

      expect((await sql.query('SELECT FROM groups WHERE queue = $1', [queue])).rowCount).toBe(1)
      expect(await claimIds(working, { queue })).toEqual([])
    })

    test('a worker that claims with a time of its own takes no tokens of tomorrow', async () => {
      const [limit, queue] = [await aLimit(), newId()]
      const flow = { group: null, limits: [limit], cost: 1 }
      await store.enqueue([newJob({ queue, flow }), newJob({ queue, flow }), newJob({ queue, flow })])

      const claim = `SELECT id FROM claim_flow_25('2099-01-01', $1, 10, NULL, 60000, 'w', '{}', '{}', NULL, NULL, 0)`
      const first = (await by('worker', claim, [queue])).rows.filter(({ id }) => id !== null)
      const second = (await by('worker', claim, [queue])).rows.filter(({ id }) => id !== null)

      expect([first.length, second.length]).toEqual([1, 0])
      const { rows } = await sql.query('SELECT empty_at FROM limits WHERE name = $1', [limit])
      expect(rows[0].empty_at).toBeLessThan(Date.now() + 60_000)
    })

    test('events of groups without jobs keep nobody waiting for long', async () => {
      const queue = newId()
      const flow = { group: 'acme', limits: [], cost: 1 }
      await enqueueJob(store, { queue, flow })
      expect(await claimIds(store, { queue })).toHaveLength(1)
      const [{ track }] = (await sql.query('SELECT track FROM tracks WHERE queue = $1', [queue])).rows
      await by(
        'producer',
        `INSERT INTO arrivals SELECT -9223372036854775808, ${track}, 'junk ' || number FROM generate_series(1, 20000) AS number`,
      )
      const id = await enqueueJob(store, { queue, flow })

      const taken: string[] = []
      for (let claims = 0; claims < 5 && taken.length === 0; claims++) taken.push(...(await claimIds(store, { queue })))

      expect(taken).toEqual([id])
    })

    test.each([
      ['without a job', `VALUES ('${newId()}', -9223372036854775808, now(), $1::integer, 32767, 'q', 'acme', 't')`],
      [
        'of the track of another queue',
        `VALUES ('${newId()}', 9223372036854775807, now(), $1::integer, 0, 'elsewhere', 'acme', 't')`,
      ],
      ['of no track', `VALUES ('${newId()}', 1, now(), 0 * $1::integer, 0, 'q', 'acme', 't')`],
    ])('a row %s stops no claim', async (_what, row) => {
      const queue = newId()
      const id = await enqueueJob(store, { queue, flow: { group: 'acme', limits: [], cost: 1 } })
      const [{ track }] = (await sql.query('SELECT track FROM tracks WHERE queue = $1', [queue])).rows

      await by('producer', `${HELD} ${row}`, [track])

      expect(await claimIds(working, { queue })).toContain(id)
      expect((await working.promote(10)).promoted).toBe(0)
      await sql.query(`DELETE FROM held WHERE group_name = 'acme'`)
    })

    test('a job whose row says it costs the world empties a bucket by no more than a job may cost', async () => {
      const [limit, queue, own] = [newId(), newId(), newId()]
      const rate = { limit: 1_000_000_000, perMs: 1_000, burst: 1_000_000_000, counts: 'cost' } as const
      await store.setLimit(limit, { ...NO_LIMIT, rate }, 'ada')
      const flow = { group: null, limits: [limit], cost: 1 }
      await enqueueJob(store, { queue, flow })
      await claimIds(store, { queue })
      const [{ track }] = (await sql.query('SELECT track FROM tracks WHERE queue = $1', [queue])).rows
      await by(
        'producer',
        `WITH job AS (INSERT INTO jobs (id, created_at, position, priority, version, queue, type, payload, options)
                      VALUES ('${own}', now(), 7, 0, 1, '${queue}', 't', '{}', '{"flow":{"group":null,"limits":["${limit}"],"cost":9999999999}}'))
         ${HELD} VALUES ('${own}', 7, now(), ${track}, 0, '${queue}', '', 't')`,
      )

      await by('producer', `INSERT INTO arrivals VALUES (1, ${track}, '')`)

      expect(await claimIds(store, { queue })).toEqual([own])

      const { rows } = await sql.query('SELECT empty_at FROM limits WHERE name = $1', [limit])
      expect(rows[0].empty_at).toBeLessThan(Date.now() + 2_000)
    })

    test('jobs of a flow go from producer to worker with a limit, a rate, a breaker and a stop', async () => {
      const [limit, queue] = [await aLimit(), newId()]
      const flow = { group: 'acme', limits: [limit], cost: 1 }
      await producing.enqueue([newJob({ queue, flow }), newJob({ queue, flow })])
      const job = await claimJob(working, { queue })

      await working.settle([{ ...dead(job), flow, holdOff: { scope: 'group', afterMs: 60_000 }, spent: 3 }])
      const moves = await working.observe([{ limit, ok: 0, failed: 4, overloaded: 0 }])

      expect(moves).toMatchObject([{ from: 'closed', to: 'open' }])
      expect(await claimIds(working, { queue })).toEqual([])
      const { groups } = await store.groups({ queue, prefix: '', after: null, limit: 10 })
      expect(groups[0]!.until!.getTime()).toBeGreaterThan(Date.now() + 30_000)
    })
  })
}

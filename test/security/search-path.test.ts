// A role that may create objects in public must not get our statements to use them: the same calls with hostile tables, types,
// functions and operators of the same names beside ours.

import pg from 'pg'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { Store } from '../../src/core/store.js'
import { postgresStore } from '../../src/stores/postgres/index.js'
import { testServerUrl } from '../support/postgres.js'
import { CALLS, type CallName } from './calls.js'

const schema = `path_${process.pid}`
const database = `path_${process.pid}`
const mallory = `mallory_${process.pid}`

// Each fits the arguments of our statements at least as well as the server's own. Each of them fails when it is called.
const HOSTILE = `
CREATE FUNCTION public.trap() RETURNS text LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'hijacked'; END $$;
CREATE FUNCTION public.nextval(text) RETURNS bigint LANGUAGE sql AS $$ SELECT public.trap()::bigint $$;
CREATE FUNCTION public.format(text, text) RETURNS text LANGUAGE sql AS $$ SELECT public.trap() $$;
CREATE FUNCTION public.format(text, text, text) RETURNS text LANGUAGE sql AS $$ SELECT public.trap() $$;
CREATE FUNCTION public.unnest(text[]) RETURNS SETOF text LANGUAGE sql AS $$ SELECT public.trap() $$;
CREATE FUNCTION public.unnest(uuid[]) RETURNS SETOF uuid LANGUAGE sql AS $$ SELECT public.trap()::uuid $$;
CREATE FUNCTION public.hashtextextended(text, integer) RETURNS bigint LANGUAGE sql AS $$ SELECT public.trap()::bigint $$;
CREATE FUNCTION public.to_timestamp(numeric) RETURNS timestamptz LANGUAGE sql AS $$ SELECT public.trap()::timestamptz $$;
CREATE FUNCTION public.over(numeric, integer) RETURNS numeric LANGUAGE sql AS $$ SELECT public.trap()::numeric $$;
CREATE FUNCTION public.over(float8, integer) RETURNS float8 LANGUAGE sql AS $$ SELECT public.trap()::float8 $$;
CREATE FUNCTION public.meet(text[], text[]) RETURNS boolean LANGUAGE sql AS $$ SELECT public.trap()::boolean $$;
CREATE OPERATOR public.* (LEFTARG = numeric, RIGHTARG = integer, FUNCTION = public.over);
CREATE OPERATOR public./ (LEFTARG = float8, RIGHTARG = integer, FUNCTION = public.over);
CREATE OPERATOR public.* (LEFTARG = float8, RIGHTARG = integer, FUNCTION = public.over);
CREATE OPERATOR public.&& (LEFTARG = text[], RIGHTARG = text[], FUNCTION = public.meet);
CREATE TYPE public.ending AS ENUM ('hijacked');
CREATE DOMAIN public.uuid AS text CHECK (public.trap() IS NULL);
CREATE DOMAIN public.regclass AS text CHECK (public.trap() IS NULL);
CREATE TABLE public.jobs (id integer);
CREATE TABLE public.ready (id integer);
CREATE TABLE public.pg_class (oid integer, relname text, relowner oid);
CREATE TABLE public.pg_stat_activity (pid integer)`

describe('hostile objects in public', () => {
  let admin: pg.Client
  let sql: pg.Client
  let store: Store

  beforeAll(async () => {
    admin = new pg.Client({ connectionString: testServerUrl() })
    await admin.connect()
    await admin.query(`CREATE ROLE ${mallory} LOGIN`)
    // A database of their own: these things would trap the other tests as well.
    await admin.query(`CREATE DATABASE ${database}`)
    const url = testServerUrl().replace('/postgres', `/${database}`)
    sql = new pg.Client({ connectionString: url })
    await sql.connect()
    await sql.query(`GRANT CREATE, USAGE ON SCHEMA public TO ${mallory}`)
    const attacker = new pg.Client({ connectionString: url.replace('holdfast@', `${mallory}@`) })
    await attacker.connect()
    await attacker.query(HOSTILE)
    await attacker.end()
    store = await postgresStore(url, { schema })
  }, 60_000)

  afterAll(async () => {
    await store.close()
    await sql.end()
    await admin.query(`DROP DATABASE ${database} WITH (FORCE)`)
    await admin.query(`DROP ROLE ${mallory}`)
    await admin.end()
  }, 60_000)

  test('the traps catch a connection that uses them', async () => {
    const caught = sql.query(`SELECT nextval('${schema}.positions')`)

    await expect(caught).rejects.toThrow('hijacked')
  })

  test.each(Object.keys(CALLS) as CallName[])(
    'change nothing for %s',
    async (name) => {
      await expect(CALLS[name](store, store)).resolves.not.toThrow()
    },
    60_000,
  )

  test('change nothing for a job enqueued in the transaction of a caller with public in its search path', async () => {
    const { newJob } = await import('../../src/testing/store-suite/samples.js')
    const parent = newJob({ queue: 'mine' })
    await sql.query('BEGIN')

    await store.enqueue([parent], { tx: sql })
    await store.enqueue([newJob({ queue: 'mine', after: [parent.id] })], { tx: sql })
    await sql.query('COMMIT')

    const { jobs } = await store.list({ filter: { queues: ['mine'] }, limit: 10, before: null })
    expect(jobs.map(({ state }) => state).sort()).toEqual(['blocked', 'ready'])
  })
})

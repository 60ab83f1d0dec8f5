// Roles with no more rights than they need: what each may do works through the library, everything else is refused, and the
// server's own answer about every object equals the list the script was made from.

import pg from 'pg'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { isHoldfastError } from '../../src/core/errors.js'
import type { HoldfastEvent } from '../../src/core/events.js'
import type { Store } from '../../src/core/store.js'
import { connect, defineJob } from '../../src/index.js'
import { postgresStore } from '../../src/stores/postgres/index.js'
import {
  FUNCTION_RIGHTS,
  type Right,
  ROLES,
  type RoleName,
  SEQUENCE_RIGHTS,
  TABLE_RIGHTS,
} from '../../src/stores/postgres/rights.js'
import { rolesScript } from '../../src/stores/postgres/roles.js'
import { newJob } from '../../src/testing/store-suite/samples.js'
import { SERVERS } from '../support/postgres.js'
import { ALLOWED, CALLS, type CallName, PAYLOAD_FILTER } from './calls.js'

const schema = `roles_${process.pid}`
const prefix = `part_${process.pid}`
const LATER_MS = 60_000

function loginOf(role: RoleName | 'owner'): string {
  return `${prefix}_${role}_login`
}

for (const [server, urlOf] of SERVERS) {
  // Without a second server on this machine there is nothing to show for it: apt-get install postgresql.
  describe.skipIf(urlOf() === undefined)(`roles on ${server}`, () => {
    const urlAs = (role: RoleName | 'owner') => urlOf()!.replace('holdfast@', `${loginOf(role)}@`)
    const stores = new Map<RoleName | 'owner', Store>()
    let sql: pg.Client

    beforeAll(async () => {
      sql = new pg.Client({ connectionString: urlOf()! })
      await sql.connect()
      await (await postgresStore(urlOf()!, { schema })).close()
      const script = rolesScript({ schema, prefix })
      await sql.query(script.sql)
      // Again: it finds everything as it should be.
      await sql.query(script.sql)
      for (const role of ['owner', ...ROLES] as const) {
        await sql.query(`CREATE ROLE ${loginOf(role)} LOGIN IN ROLE ${script.roles[role]}`)
        stores.set(role, await postgresStore(urlAs(role), { schema }))
      }
    }, LATER_MS)

    afterAll(async () => {
      await Promise.all([...stores.values()].map((store) => store.close()))
      await sql.query(`DROP SCHEMA ${schema} CASCADE`)
      for (const role of ['owner', ...ROLES] as const) {
        await sql.query(`DROP ROLE ${loginOf(role)}`)
        await sql.query(`DROP OWNED BY ${prefix}_${role}; DROP ROLE ${prefix}_${role}`)
      }
      await sql.end()
    })

    // A sample that is there is not taken again.
    beforeEach(async () => {
      await sql.query(`DELETE FROM ${schema}.samples`)
    })

    const names = Object.keys(CALLS) as CallName[]
    for (const role of ROLES) {
      test.each(names.filter((name) => ALLOWED[role].has(name)))(
        `${role} may %s`,
        async (name) => {
          await expect(CALLS[name](stores.get(role)!, stores.get('owner')!)).resolves.not.toThrow()
        },
        LATER_MS,
      )

      test.each(names.filter((name) => !ALLOWED[role].has(name)))(
        `${role} may not %s`,
        async (name) => {
          const refused = CALLS[name](stores.get(role)!, stores.get('owner')!)

          await expect(refused).rejects.toMatchObject({
            code: 'access_denied',
            message: expect.stringMatching(/permission denied for \w+ \w+ \(42501\); .*holdfast migrate roles/),
          })
        },
        LATER_MS,
      )
    }

    test.each(['producer', 'viewer'] as const)('%s cannot ask for payloads', async (role) => {
      const refused = stores.get(role)!.list({ filter: PAYLOAD_FILTER, limit: 1, before: null })

      await expect(refused).rejects.toMatchObject({ code: 'access_denied' })
    })

    test('each role has exactly the listed grants on every table and sequence', async () => {
      expect(await tableRights(sql)).toEqual(listedTableRights())
      expect(await sequenceRights(sql)).toEqual(listedSequenceRights())
    })

    test('only the owner may create in the schema, and only listed roles call functions', async () => {
      const { rows } = await sql.query(
        `SELECT role.rolname AS role, has_schema_privilege(role.oid, $1, 'CREATE') AS create,
                has_schema_privilege(role.oid, $1, 'USAGE') AS usage,
                coalesce(array_agg(pg_proc.proname::text ORDER BY pg_proc.proname::text)
                         FILTER (WHERE has_function_privilege(role.oid, pg_proc.oid, 'EXECUTE')), '{}') AS execute
           FROM pg_roles AS role, pg_proc
          WHERE role.rolname = ANY ($2) AND pronamespace = $1::text::regnamespace
          GROUP BY role.oid, role.rolname ORDER BY role.rolname`,
        [schema, ROLES.map((role) => `${prefix}_${role}`)],
      )

      const nameOf = (call: string) => call.slice(0, call.indexOf('('))
      const callable = (role: RoleName) =>
        Object.entries(FUNCTION_RIGHTS)
          .filter(([, roles]) => roles.includes(role))
          .map(([call]) => nameOf(call))
          .sort()
      expect(rows).toEqual(
        [...ROLES]
          .sort()
          .map((role) => ({ role: `${prefix}_${role}`, create: false, usage: true, execute: callable(role) })),
      )
    })

    test('the owner, who is not a superuser, owns everything in the schema', async () => {
      const { rows } = await sql.query(
        `SELECT DISTINCT owner.rolname AS name, owner.rolsuper AS is_super
           FROM (SELECT relowner AS id FROM pg_class WHERE relnamespace = $1::text::regnamespace
                  UNION SELECT proowner FROM pg_proc WHERE pronamespace = $1::text::regnamespace
                  UNION SELECT typowner FROM pg_type WHERE typnamespace = $1::text::regnamespace
                  UNION SELECT nspowner FROM pg_namespace WHERE nspname = $1) AS object
           JOIN pg_roles AS owner ON owner.oid = object.id`,
        [schema],
      )

      expect(rows).toEqual([{ name: `${prefix}_owner`, is_super: false }])
    })

    test(
      'a job goes from producer to worker through the library',
      async () => {
        const greet = defineJob('greet', { queue: 'mail' })
        const producer = await connect(urlAs('producer'), { schema, upkeep: false })
        const working = await connect(urlAs('worker'), { schema })
        const failures: unknown[] = []
        working.on((event) => isDenied(event) && failures.push(event))
        const worker = working.worker({ queues: ['mail'], handlers: [greet.handle(async (payload) => payload)] })
        await worker.start()

        const { id } = await producer.enqueue(greet, { to: 'ada' })
        const result = await working.wait(id, { timeout: LATER_MS })

        await worker.stop()
        await Promise.all([producer.close(), working.close()])
        expect(result).toEqual({ to: 'ada' })
        expect(failures).toEqual([])
      },
      LATER_MS,
    )

    test('a day partition that the owner adds later works for producer and worker without another grant', async () => {
      const day = new Date(Date.UTC(2031, 4, 5))
      await sql.query(`SET ROLE ${prefix}_owner; SELECT ${schema}.open_day('2031-05-05'); RESET ROLE`)
      const hex = day.getTime().toString(16).padStart(12, '0')
      const id = `${hex.slice(0, 8)}-${hex.slice(8)}-7000-8000-000000000001`

      await stores.get('producer')!.enqueue([newJob({ id, queue: 'later' })])
      const worker = stores.get('worker')!
      const { jobs } = await worker.claim({
        queues: [{ queue: 'later', limit: 1 }],
        types: null,
        worker: 'w',
        leaseMs: LATER_MS,
      })

      const { rows } = await sql.query(`SELECT tableoid::regclass::text AS part FROM ${schema}.jobs WHERE id = $1`, [
        id,
      ])
      expect(rows).toEqual([{ part: `${schema}.jobs_20310505` }])
      expect(jobs.map((job) => job.id)).toEqual([id])
    })

    test('a worker prunes what it may, and reports day partitions that only the owner can add', async () => {
      const worker = stores.get('worker')!
      const prune = () => worker.prune({ retentionMs: 7 * 86_400_000 })
      await prune()
      const today = new Date().toISOString().slice(0, 10).replaceAll('-', '')
      await sql.query(`ALTER TABLE ${schema}.jobs_${today} RENAME TO elsewhere`)

      const refused = await prune().catch((error) => error)
      const { id } = newJob()
      const [accepted] = await worker.enqueue([newJob({ id })])
      await sql.query(`ALTER TABLE ${schema}.elsewhere RENAME TO jobs_${today}`)

      expect(refused).toMatchObject({ code: 'access_denied' })
      expect(refused.message).toMatch(/takes the ownership of its tables.*partitions of \d{4}-\d\d-\d\d are missing/)
      expect(accepted).toMatchObject({ id, created: true })
    })
  })
}

test('an invalid prefix is refused', () => {
  for (const bad of ['', 'A', 'a b', 'x"; DROP', 'pg_x', 'a'.repeat(49)]) {
    expect(() => rolesScript({ schema: 'holdfast', prefix: bad })).toThrow(/prefix must be 1 to 48 characters/)
  }
})

function isDenied(event: HoldfastEvent): boolean {
  return event.name === 'store.failed' && isHoldfastError(event.error, 'access_denied')
}

const RIGHTS: readonly Right[] = ['SELECT', 'INSERT', 'UPDATE', 'DELETE']

/** Lines such as `jobs producer SELECT (id, …)`: one for each right, whole or on some columns. */
async function tableRights(sql: pg.Client): Promise<string[]> {
  const { rows } = await sql.query<{ line: string }>(
    `SELECT format('%s %s %s%s', relname, role, privilege,
                   CASE WHEN has_table_privilege($3 || '_' || role, pg_class.oid, privilege) THEN ''
                        ELSE format(' (%s)', columns.names) END) AS line
       FROM pg_class
      CROSS JOIN unnest($2::text[]) AS role
      CROSS JOIN unnest(ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE', 'TRUNCATE', 'REFERENCES', 'TRIGGER']) AS privilege
      CROSS JOIN LATERAL (
        SELECT string_agg(attname, ', ' ORDER BY attname) AS names
          FROM pg_attribute
         WHERE attrelid = pg_class.oid AND attnum > 0 AND NOT attisdropped
           AND privilege IN ('SELECT', 'INSERT', 'UPDATE', 'REFERENCES')
           AND has_column_privilege($3 || '_' || role, pg_class.oid, attnum,
                                    CASE WHEN privilege IN ('SELECT', 'INSERT', 'UPDATE', 'REFERENCES') THEN privilege ELSE 'SELECT' END)
      ) AS columns
      WHERE relnamespace = $1::text::regnamespace
        AND relkind IN ('r', 'p', 'v', 'm')
        AND (has_table_privilege($3 || '_' || role, pg_class.oid, privilege) OR columns.names IS NOT NULL)`,
    [schema, ROLES, prefix],
  )
  return rows.map(({ line }) => line).sort()
}

function listedTableRights(): string[] {
  const lines = Object.entries(TABLE_RIGHTS).flatMap(([table, rights]) =>
    ROLES.flatMap((role) =>
      rights[role].map((grant) => {
        if (typeof grant === 'string') return `${table} ${role} ${grant}`
        return `${table} ${role} ${grant.right} (${[...grant.columns].sort().join(', ')})`
      }),
    ),
  )
  expect(lines.every((line) => RIGHTS.some((right) => line.includes(right)))).toBe(true)
  return lines.sort()
}

async function sequenceRights(sql: pg.Client): Promise<string[]> {
  const { rows } = await sql.query<{ line: string }>(
    `SELECT format('%s %s %s', relname, role, privilege) AS line
       FROM pg_class
      CROSS JOIN unnest($2::text[]) AS role
      CROSS JOIN unnest(ARRAY['USAGE', 'SELECT', 'UPDATE']) AS privilege
      WHERE relnamespace = $1::text::regnamespace AND relkind = 'S'
        AND has_sequence_privilege($3 || '_' || role, pg_class.oid, privilege)`,
    [schema, ROLES, prefix],
  )
  return rows.map(({ line }) => line).sort()
}

function listedSequenceRights(): string[] {
  return Object.entries(SEQUENCE_RIGHTS)
    .flatMap(([sequence, roles]) => roles.map((role) => `${sequence} ${role} USAGE`))
    .sort()
}

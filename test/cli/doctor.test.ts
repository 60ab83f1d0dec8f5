import pg from 'pg'
import { describe, expect, test } from 'vitest'
import { checksOf, durabilityOf } from '../../src/cli/doctor/checks.js'
import type { Facts } from '../../src/cli/doctor/inspect.js'
import { checkOutbox } from '../../src/cli/doctor/redis-checks.js'
import { defineJob } from '../../src/client/define-job.js'
import type { Horizon, PostgresHealth } from '../../src/core/operating.js'
import { openTestStore } from './store.js'
import { run } from './support.js'

const store = openTestStore('doctor')

const SETTINGS: PostgresHealth['settings'] = {
  synchronousCommit: 'on',
  synchronousCommitOfRole: 'on',
  fsync: true,
  fullPageWrites: true,
  autovacuum: true,
  maxConnections: 100,
  statementTimeout: 'none',
  readOnlyByDefault: false,
}

const POSTGRES: PostgresHealth = {
  versionNumber: 180_001,
  schemaVersion: 2,
  schema: 'holdfast',
  settings: SETTINGS,
  connections: 12,
  inRecovery: false,
  databaseBytes: 1,
  roundTripMs: 1,
  hasPooler: false,
  postponedDays: [],
  tables: [],
}

/** A store in which all is well, but for what is given. */
function factsWith(
  postgres: Partial<PostgresHealth> = {},
  settings: Partial<PostgresHealth['settings']> = {},
  more: Partial<Facts> = {},
): Facts {
  const all = { ...POSTGRES, ...postgres, settings: { ...SETTINGS, ...settings } }
  return {
    migrations: { schema: 'holdfast', applied: [{ number: 1, name: 'first', appliedAt: new Date(0) }], missing: [] },
    health: { kind: 'postgres', version: 'PostgreSQL 18.1', isDurable: true, nowMs: 0, postgres: all },
    clockOffsetMs: 3,
    overview: { nowMs: 0, queues: [], total: 0, isExact: true },
    ...more,
  }
}

const HOLDER: NonNullable<Horizon['holder']> = {
  pid: 4711,
  user: 'app',
  application: 'psql',
  state: 'idle in transaction',
  since: new Date(0),
  queryStart: null,
  kind: 'transaction',
}

describe('the checks', () => {
  test('all are ok where nothing is wrong', () => {
    const checks = checksOf(factsWith())

    expect(checks.filter(({ level }) => level !== 'ok')).toEqual([])
    expect(checks.length).toBeGreaterThan(10)
    expect(durabilityOf(factsWith())).toContain("is on the server's disk and survives a crash of workers, server and")
  })

  test.each([
    { name: 'fsync', level: 'failed', fix: 'ALTER SYSTEM SET fsync = on;', facts: factsWith({}, { fsync: false }) },
    {
      name: 'full_page_writes',
      level: 'failed',
      fix: 'ALTER SYSTEM SET full_page_writes = on;',
      facts: factsWith({}, { fullPageWrites: false }),
    },
    {
      name: 'retention',
      level: 'warning',
      fix: "holdfast jobs list --filter 'state:dead'  # requeue or discard them",
      facts: factsWith({ postponedDays: [{ day: '2026-03-01', why: 'more than 100000 of its jobs are dead' }] }),
    },
    {
      name: 'synchronous_commit',
      level: 'failed',
      fix: 'ALTER ROLE CURRENT_USER SET synchronous_commit = on;',
      facts: factsWith({}, { synchronousCommit: 'off' }),
    },
    {
      name: 'synchronous_commit',
      level: 'warning',
      fix: 'ALTER ROLE CURRENT_USER SET synchronous_commit = on;',
      facts: factsWith({}, { synchronousCommitOfRole: 'local' }),
    },
    { name: 'writable', level: 'failed', fix: 'the primary', facts: factsWith({ inRecovery: true }) },
    {
      name: 'writable',
      level: 'failed',
      fix: 'SET default_transaction_read_only = off;',
      facts: factsWith({}, { readOnlyByDefault: true }),
    },
    {
      name: 'schema',
      level: 'failed',
      fix: 'holdfast migrate up --schema holdfast',
      facts: factsWith(
        {},
        {},
        { migrations: { schema: 'holdfast', applied: [], missing: [{ number: 1, name: 'a' }] } },
      ),
    },
    { name: 'version', level: 'failed', fix: 'PostgreSQL 15', facts: factsWith({ versionNumber: 140_012 }) },
    { name: 'autovacuum', level: 'failed', fix: 'SET autovacuum = on;', facts: factsWith({}, { autovacuum: false }) },
    {
      name: 'horizon',
      level: 'failed',
      fix: 'SELECT pg_terminate_backend(4711);',
      facts: factsWith({ horizon: { ageMs: 7_200_000, xids: 5_000_000, holder: HOLDER } }),
    },
    {
      name: 'horizon',
      level: 'warning',
      fix: 'pg_replication_slots',
      facts: factsWith({ horizon: { ageMs: 600_000, xids: 5, holder: { ...HOLDER, kind: 'slot' } } }),
    },
    {
      name: 'dead rows',
      level: 'warning',
      fix: 'VACUUM (ANALYZE) "holdfast"."ready";',
      facts: factsWith({
        tables: [{ name: 'ready', liveRows: 10, deadRows: 900_000, bytes: 1, lastVacuumAt: null }],
      }),
    },
    { name: 'pooler', level: 'warning', fix: 'session mode', facts: factsWith({ hasPooler: true }) },
    { name: 'connections', level: 'warning', fix: 'max_connections = 200', facts: factsWith({ connections: 85 }) },
    { name: 'connections', level: 'failed', fix: 'max_connections = 200', facts: factsWith({ connections: 99 }) },
    {
      name: 'statement_timeout',
      level: 'warning',
      fix: 'RESET statement_timeout;',
      facts: factsWith({}, { statementTimeout: '5s' }),
    },
    {
      name: 'schedules',
      level: 'warning',
      fix: 'holdfast schedules list',
      facts: factsWith({}, {}, { late: { name: 'nightly', queue: 'reports', lateMs: 20_000, count: 3 } }),
    },
    {
      name: 'schedules',
      level: 'warning',
      fix: 'holdfast schedules resume nightly',
      facts: factsWith({}, {}, { late: null, ahead: { name: 'nightly', count: 2 } }),
    },
    { name: 'clock', level: 'warning', fix: 'timedatectl', facts: factsWith({}, {}, { clockOffsetMs: -90_000 }) },
  ])('$name is $level, and how to fix it is printed: $fix', ({ name, level, fix, facts }) => {
    const check = checksOf(facts).find((candidate) => candidate.name === name)

    expect(check).toMatchObject({ level })
    expect(check!.fix.join('\n')).toContain(fix)
  })

  test('an outbox is a warning when its rows wait for long, and fails when PostgreSQL is away', () => {
    const calm = {
      isReachable: true,
      schema: 'holdfast',
      waiting: 3,
      isExact: true,
      oldestMs: 800,
      refused: 0,
      roundTripMs: 1,
    }

    const levels = [{}, { oldestMs: 40_000 }, { oldestMs: 400_000 }, { refused: 1 }, { isReachable: false }].map(
      (changes) => checkOutbox({ ...calm, ...changes }).level,
    )

    expect(levels).toEqual(['ok', 'warning', 'failed', 'warning', 'failed'])
  })

  test.each([
    { facts: factsWith({}, { fsync: false }), says: 'a power cut may lose jobs and damage the whole database' },
    { facts: factsWith({}, { synchronousCommit: 'off' }), says: 'loses jobs it accepted in about the last second' },
    { facts: factsWith({}, { synchronousCommit: 'local' }), says: 'a failover may lose the newest' },
    { facts: factsWith({}, { fullPageWrites: false }), says: 'may still damage pages' },
  ])('the sentence about durability: $says', ({ facts, says }) => {
    expect(durabilityOf(facts)).toContain(says)
  })
})

describe('doctor', () => {
  test('says what durability the store really has, how to fix it, and exits with 7', async () => {
    const text = await store.holdfastCommand(['doctor'])
    const answer = await store.json(['doctor'], 7)

    // The server of the tests skips fsync.
    expect(text.code).toBe(7)
    expect(text.stdout).toMatch(/^durability {2}An accepted job survives a crash of a worker/m)
    expect(text.stdout).toMatch(/^FAILED {3}fsync +off: /m)
    expect(text.stdout).toMatch(/^ +ALTER SYSTEM SET fsync = on;$/m)
    expect(text.stdout).toMatch(/^ok {7}synchronous_commit +on: /m)
    expect(text.stderr).toMatch(/^\d+ checks: 2 failed, /)
    expect(answer).toMatchObject({ isDurable: false, isHealthy: false, version: expect.stringContaining('PostgreSQL') })
  })

  test('names who holds a transaction open, for how long, and how to end it', async () => {
    const holder = new pg.Client({ connectionString: store.url, application_name: 'forgotten-report' })
    await holder.connect()
    const { rows } = await holder.query('SELECT pg_backend_pid() AS pid')
    const { pid } = rows[0] as { pid: number }
    await holder.query('BEGIN ISOLATION LEVEL REPEATABLE READ')
    await holder.query('SELECT count(*) FROM pg_class')
    try {
      // Something must have happened since, or there is nothing it keeps from removal.
      await store.holdfast.enqueue('later', null, { delay: '1h' })

      const quiet = await store.holdfastCommand(['doctor'])
      const check = await horizonOnceHeld()
      const text = await store.holdfastCommand(['doctor', '--horizon-warn', '1s'])

      expect(quiet.stdout).toMatch(/^ok +horizon /m)
      expect(check).toMatchObject({ level: 'warning', fix: [`SELECT pg_terminate_backend(${pid});`] })
      expect(check.text).toMatch(
        new RegExp(`^an open transaction \\(pid ${pid}, user \\S+, forgotten-report, idle in transaction\\) has kept`),
      )
      expect(check.text).toMatch(/dead rows from being removed for \d+(\.\d)? s/)
      expect(text.stdout).toContain(`pid ${pid}`)
    } finally {
      await holder.end()
    }
  })

  /** Asks until the transaction is old enough. */
  async function horizonOnceHeld(): Promise<{ level: string; text: string; fix: string[] }> {
    for (let tries = 0; ; tries++) {
      const { stdout } = await store.holdfastCommand(['doctor', '--horizon-warn', '1s', '--json'])
      const { checks } = JSON.parse(stdout) as {
        checks: { name: string; level: string; text: string; fix: string[] }[]
      }
      const check = checks.find(({ name }) => name === 'horizon')!
      if (check.level !== 'ok' || tries === 30) return check
    }
  }

  test('names the schedule whose tick has waited longest', async () => {
    const sql = new pg.Client({ connectionString: store.url })
    await sql.connect()
    // One that no process can read stays due.
    const late = `INSERT INTO "${store.schema}".schedules (name, settings, next_at)
      VALUES ('forgotten', '{"name":"forgotten","queue":"reports","cron":"none","zone":"UTC"}', clock_timestamp() - interval '1 hour')`
    await sql.query(late)
    try {
      const { stdout } = await store.holdfastCommand(['doctor'])

      expect(stdout).toMatch(/^warning +schedules +"forgotten" of reports should have fired \d+ (min|h) ago/m)
    } finally {
      await sql.query(`DELETE FROM "${store.schema}".schedules WHERE name = 'forgotten'`)
      await sql.end()
    }
  })

  test('names a schedule that waits because the clock was ahead when it fired, until it is resumed', async () => {
    const sql = new pg.Client({ connectionString: store.url })
    await sql.connect()
    await store.holdfast.schedule('early', { cron: '0 4 * * *', job: 'work' })
    const inDays = (days: number) => `clock_timestamp() + interval '${days} days'`
    await sql.query(
      `UPDATE "${store.schema}".schedules SET last_at = ${inDays(4)}, next_at = ${inDays(5)} WHERE name = 'early'`,
    )
    await sql.end()

    const before = await store.holdfastCommand(['doctor'])
    await store.holdfastCommand(['schedules', 'pause', 'early'])
    await store.holdfastCommand(['schedules', 'resume', 'early'])
    const after = await store.holdfastCommand(['doctor'])
    await store.holdfast.unschedule('early')

    expect(before.stdout).toMatch(/^warning +schedules +"early" fired last when the server's clock was ahead/m)
    expect(after.stdout).toMatch(/^ok +schedules /m)
  })

  test('reports a row that another program wrote into the queue and a claim removed', async () => {
    const sql = new pg.Client({ connectionString: store.url })
    await sql.connect()
    const before = await store.holdfastCommand(['doctor'])
    await store.holdfast.enqueue('strayed', null, { queue: 'strayed' })
    await sql.query(`INSERT INTO "${store.schema}".ready SELECT * FROM "${store.schema}".ready WHERE queue = 'strayed'`)
    await sql.end()
    const strayed = defineJob('strayed', { queue: 'strayed' })
    const worker = store.holdfast.worker({ queues: ['strayed'], handlers: [strayed.handle(() => {})] })
    await worker.tick()
    await worker.stop()

    const after = await store.holdfastCommand(['doctor'])

    expect(before.stdout).toMatch(/^ok +strays +no row was removed/m)
    expect(after.stdout).toMatch(/^warning +strays +a row that should not have been there was removed from the queue/m)
    expect(after.stdout).toContain('holdfast audit --action remove_stray')
  })

  test('a role that commits without waiting, or may only read, is reported with how to fix it', async () => {
    const role = `doctor_${process.pid}`
    const sql = new pg.Client({ connectionString: store.url })
    await sql.connect()
    const reaching = new URL(store.url)
    reaching.username = role
    reaching.password = 'secret'
    try {
      await sql.query(`CREATE ROLE ${role} LOGIN SUPERUSER PASSWORD 'secret'`)
      await sql.query(`ALTER ROLE ${role} SET synchronous_commit = off`)
      const careless = await store.holdfastCommand(['doctor', '--url', reaching.href])
      await sql.query(`ALTER ROLE ${role} SET default_transaction_read_only = on`)
      const reader = await store.holdfastCommand(['doctor', '--url', reaching.href])

      expect(careless.stdout).toMatch(/^warning +synchronous_commit +off on the server; Holdfast turns it on/m)
      expect(careless.stdout).toContain('ALTER ROLE CURRENT_USER SET synchronous_commit = on;')
      expect(reader.code).toBe(7)
      expect(reader.stdout).toMatch(/^FAILED +writable +default_transaction_read_only is on/m)
      expect(`${careless.stdout}${reader.stdout}`).not.toContain('secret')
    } finally {
      await sql.query(`DROP ROLE IF EXISTS ${role}`)
      await sql.end()
    }
  })

  test('a missing schema is reported, and not created', async () => {
    const answer = await store.json(['doctor', '--schema', `${store.schema}_none`], 7)
    const again = await store.json(['migrate', 'status', '--schema', `${store.schema}_none`], 7)

    expect(answer).toMatchObject({ checks: [{ name: 'schema', level: 'failed' }] })
    expect(again).toMatchObject({ applied: [] })
  })

  test('the memory store fails, and an unreachable store cannot be checked', async () => {
    const memory = await run(['doctor', '--url', 'memory:'])
    const unreachable = await run(['doctor', '--url', 'postgres://127.0.0.1:1/none'])

    expect(memory.code).toBe(7)
    expect(memory.stdout).toContain('every job is lost when the process ends')
    expect(unreachable.code).toBe(4)
  })
})

describe('migrate', () => {
  test('sql prints a script that does what the command would do', async () => {
    const schema = `${store.schema}_sql`
    const { stdout } = await run(['migrate', 'sql', '--schema', schema])
    const sql = new pg.Client({ connectionString: store.url })
    await sql.connect()
    await sql.query(stdout)

    const status = await store.json(['migrate', 'status', '--schema', schema])
    const rest = await store.holdfastCommand(['migrate', 'sql', '--missing', '--schema', schema])
    await sql.query(`DROP SCHEMA "${schema}" CASCADE`)
    await sql.end()

    expect(status).toMatchObject({ schema, missing: [] })
    expect(rest.stdout).toBe('-- nothing is missing\n')
  })
})

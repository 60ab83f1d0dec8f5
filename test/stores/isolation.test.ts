// The levels a role may set for its transactions: ours say their own, also where a pooler drops what was said at the start.

import pg from 'pg'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { PgBouncer } from '../../lab/servers/pgbouncer.js'
import { PostgresServer, programsOf15 } from '../../lab/servers/postgres.js'
import type { Store } from '../../src/core/store.js'
import { connect, defineJob } from '../../src/index.js'
import { postgresStore } from '../../src/stores/postgres/index.js'
import { manualClock } from '../../src/testing/manual-clock.js'
import { DAY_MS, idAt, newJobs, QUEUE, retrying, START_MS, succeeded } from '../../src/testing/store-suite/samples.js'
import { claimJobs, pruneAll } from '../../src/testing/store-suite/steps.js'

const DAYS = 4
const LEVELS = ['read committed', 'repeatable read', 'serializable'] as const
const WAYS = ['direct', 'behind a pooler'] as const
const VERSIONS: [string, string | null][] = [['18', null]]
// Where Debian's server is not installed there is nothing to show for 15: apt-get install postgresql.
if (programsOf15() !== null) VERSIONS.push(['15', programsOf15()])

// F46 of docs/findings/chaos.md.
describe.each(VERSIONS)('PostgreSQL %s', (_version, programs) => {
  let server: PostgresServer
  let sql: pg.Client
  let pooler: PgBouncer
  const users = LEVELS.map((level) => level.replace(' ', '_'))

  beforeAll(async () => {
    server = await PostgresServer.open({ settings: { fsync: 'off' }, ...(programs === null ? {} : { programs }) })
    const settings = { ignore_startup_parameters: 'options' }
    pooler = await PgBouncer.open({ target: server.port, poolSize: 10, users, settings })
    sql = new pg.Client({ connectionString: server.url })
    await sql.connect()
    for (const [index, level] of LEVELS.entries()) {
      await sql.query(`CREATE ROLE ${users[index]} LOGIN SUPERUSER`)
      await sql.query(`ALTER ROLE ${users[index]} SET default_transaction_isolation = '${level}'`)
    }
  }, 60_000)

  afterAll(async () => {
    await sql.end()
    await pooler.close()
    await server.close()
  }, 60_000)

  describe.each(WAYS)('%s', (way) => {
    const urlOf = (level: (typeof LEVELS)[number]): string => {
      const { port } = way === 'direct' ? server : pooler
      return `postgres://${level.replace(' ', '_')}@127.0.0.1:${port}/postgres`
    }

    test.each(LEVELS)(
      'a role with %s connects from three places concurrently to a new schema',
      async (level) => {
        for (let round = 0; round < 3; round++) {
          const stores = await Promise.all([1, 2, 3].map(() => postgresStore(urlOf(level), { schema: 'fresh' })))

          await Promise.all(stores.map((store) => store.close()))
          await sql.query('DROP SCHEMA fresh CASCADE')
        }
      },
      60_000,
    )

    test.each(LEVELS)(
      'a role with %s drops days beside running jobs, and every live job stays',
      async (level) => {
        const clock = manualClock(START_MS)
        const schema = 'pruned'
        const [store, peer] = await Promise.all([1, 2].map(() => postgresStore(urlOf(level), { schema, clock })))
        const ids: string[] = []
        for (let day = 0; day < DAYS; day++) {
          await store!.prune({ retentionMs: 30 * DAY_MS })
          const [live, done] = [QUEUE, 'done'].map((queue) =>
            newJobs(30, { queue }).map((job) => ({ ...job, id: idAt(clock.now()) })),
          )
          await store!.enqueue([...live!, ...done!])
          await store!.settle((await claimJobs(store!, { queue: 'done' })).map((job) => succeeded(job)))
          ids.push(...live!.map(({ id }) => id))
          await clock.advance(DAY_MS)
        }
        await clock.advance(20 * DAY_MS)

        const dropped = await pruneBesideWork(store!, peer!)

        const views = await Promise.all(ids.map((id) => store!.get(id)))
        await sql.query(
          `ALTER TABLE ${schema}.ready ADD COLUMN level text DEFAULT current_setting('transaction_isolation')`,
        )
        await store!.enqueue(newJobs(1))
        const { rows } = await sql.query(`SELECT level FROM ${schema}.ready`)
        await Promise.all([store!.close(), peer!.close()])
        await sql.query(`DROP SCHEMA ${schema} CASCADE`)
        expect(dropped).toBeGreaterThan(0)
        expect(views.filter((view) => view === null)).toEqual([])
        expect(countBy(views.map((view) => view!.state))).toEqual({ succeeded: 60, retrying: 40, running: 20 })
        expect(rows).toEqual([{ level: 'read committed' }])
      },
      120_000,
    )
  })
})

/** Claims and settles everything in small pieces, while days are dropped; returns how many days went. */
async function pruneBesideWork(store: Store, peer: Store): Promise<number> {
  let isWorking = true
  const work = async () => {
    for (;;) {
      const jobs = await claimJobs(store, { limit: 6, leaseMs: 90 * DAY_MS })
      if (jobs.length === 0) break
      const settled = jobs.flatMap((job, index) => {
        if (index < 3) return [succeeded(job)]
        return index < 5 ? [retrying(job, 90 * DAY_MS)] : []
      })
      const answers = await store.settle(settled)
      expect(answers.every((answer) => 'state' in answer)).toBe(true)
    }
    isWorking = false
  }
  const dropped = new Set<string>()
  const prune = async () => {
    while (isWorking && dropped.size < DAYS)
      for (const day of (await peer.prune({ retentionMs: DAY_MS })).days) dropped.add(day)
  }
  await Promise.all([work(), prune()])
  // On a busy machine a day may be locked at every look so far.
  for (const day of (await pruneAll(peer, DAY_MS)).days) dropped.add(day)
  return dropped.size
}

function countBy(words: readonly string[]): Record<string, number> {
  const counts: Record<string, number> = {}
  for (const word of words) counts[word] = (counts[word] ?? 0) + 1
  return counts
}

describe('a caller’s own transaction', () => {
  let server: PostgresServer
  beforeAll(async () => {
    server = await PostgresServer.open({ settings: { fsync: 'off' } })
  }, 60_000)
  afterAll(() => server.close(), 60_000)

  test.each(LEVELS)('at %s takes jobs, plain ones and those with keys and parents', async (level) => {
    const holdfast = await connect(server.url, { schema: 'own', upkeep: false })
    const client = new pg.Client({ connectionString: server.url })
    await client.connect()
    const parent = await holdfast.enqueue('work', {})

    await client.query(`BEGIN ISOLATION LEVEL ${level}`)
    await client.query('SELECT 1')
    const made = [
      await holdfast.enqueue('work', {}, { tx: client }),
      await holdfast.enqueue('work', {}, { tx: client, idempotencyKey: `key ${level}` }),
      await holdfast.enqueue('work', {}, { tx: client, after: [parent.id] }),
    ]
    await client.query('COMMIT')

    const states = await Promise.all(made.map(async ({ id }) => (await holdfast.get(id))?.state))
    await client.end()
    await holdfast.close()
    expect(states).toEqual(['ready', 'ready', 'blocked'])
  })

  test.each(LEVELS)(
    'at %s that meets a key taken since it began gets the holder, or has to be run again',
    async (level) => {
      const holdfast = await connect(server.url, { schema: 'own', upkeep: false })
      const client = new pg.Client({ connectionString: server.url })
      await client.connect()
      await client.query(`BEGIN ISOLATION LEVEL ${level}`)
      await client.query('SELECT count(*) FROM own.jobs')
      const holder = await holdfast.enqueue('work', {}, { idempotencyKey: `taken ${level}` })

      const late = await holdfast
        .enqueue('work', {}, { tx: client, idempotencyKey: `taken ${level}` })
        .then(({ id }) => id)
        .catch(({ code }: { code: string }) => code)
      await client.query('ROLLBACK')
      await client.end()
      await holdfast.close()

      expect(late).toBe(level === 'read committed' ? holder.id : '40001')
    },
  )

  test.each(LEVELS)(
    'at %s settles its job once, with its effect',
    async (level) => {
      const holdfast = await connect(server.url, { schema: 'own' })
      const work = defineJob<{ level: string }>('charge', {
        queue: 'charges',
        maxAttempts: 20,
        retry: { backoff: 'fixed', base: '10ms' },
      })
      const setup = new pg.Client({ connectionString: server.url })
      await setup.connect()
      await setup.query('CREATE TABLE IF NOT EXISTS public.charges (job uuid)')
      const worker = holdfast.worker({
        queues: ['charges'],
        lease: '1s',
        heartbeat: '100ms',
        handlers: [
          work.handle(async (_payload, ctx) => {
            const client = new pg.Client({ connectionString: server.url })
            await client.connect()
            try {
              await client.query(`BEGIN ISOLATION LEVEL ${level}`)
              await client.query('INSERT INTO public.charges VALUES ($1)', [ctx.id])
              // The lease may be extended meanwhile, which a stricter level takes for a conflict: then all of it is run again.
              await ctx.complete(client)
              await client.query('COMMIT')
            } finally {
              await client.end()
            }
          }),
        ],
      })
      await worker.start()

      const made = await holdfast.enqueueMany(Array.from({ length: 20 }, () => [work, { level }] as const))
      await Promise.all(made.map(({ id }) => holdfast.wait(id, { timeout: '30s' })))
      const { rows } = await setup.query(
        'SELECT count(*)::int AS n, count(DISTINCT job)::int AS jobs FROM public.charges',
      )
      await setup.query('DROP TABLE public.charges')
      await setup.end()
      await holdfast.close()

      expect(rows).toEqual([{ n: 20, jobs: 20 }])
    },
    60_000,
  )
})

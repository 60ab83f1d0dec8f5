// The adapters against the real packages: a commit leaves the job and settles it, a rollback does neither.

import { createRequire } from 'node:module'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import pg from 'pg'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { fromDrizzle, fromKnex, fromKysely, fromPg, fromPostgresJs, fromTypeOrm } from '../src/adapters/index.js'
import { connect, defineJob, type Holdfast, type Queryable } from '../src/index.js'
import { failure } from './handlers/stores.js'
import { testServerUrl } from './support/postgres.js'

const SCHEMA = `adapters_${process.pid}`
const charge = defineJob<{ note: string }>('charge', { maxAttempts: 1, tags: ['a "quoted" tag'] })
const payload = { note: 'it\'s {"quoted"}, $1 and ? and \\ — ünïcode' }

const resolve = createRequire(join(import.meta.dirname, '..', 'lab', 'toolbox', 'package.json')).resolve
// biome-ignore lint/suspicious/noExplicitAny: the packages are installed apart, so their types are not here
const load = async (name: string): Promise<any> => import(pathToFileURL(resolve(name)).href)

/** Runs the body in a transaction, which commits unless the body throws. */
type InTransaction = (body: (tx: Queryable) => Promise<void>) => Promise<unknown>

interface Library {
  readonly inTransaction: InTransaction
  /** What is no transaction, which the adapter refuses. */
  readonly outside: () => unknown
  readonly close: () => Promise<unknown>
}

const LIBRARIES: Readonly<Record<string, () => Promise<Library>>> = {
  async pg() {
    const pool = new pg.Pool({ connectionString: testServerUrl(), max: 2 })
    return {
      async inTransaction(body) {
        const client = await pool.connect()
        try {
          await client.query('BEGIN')
          await body(fromPg(client))
          await client.query('COMMIT')
        } catch (error) {
          await client.query('ROLLBACK')
          throw error
        } finally {
          client.release()
        }
      },
      outside: () => fromPg(pool as never),
      close: () => pool.end(),
    }
  },
  async 'postgres.js'() {
    const { default: postgres } = await load('postgres')
    const sql = postgres(testServerUrl(), { max: 2, onnotice: () => {} })
    return {
      inTransaction: (body) => sql.begin((inside: never) => body(fromPostgresJs(inside))),
      outside: () => fromPostgresJs(sql),
      close: () => sql.end(),
    }
  },
  async 'Drizzle on pg'() {
    const { drizzle } = await load('drizzle-orm/node-postgres')
    const { sql } = await load('drizzle-orm')
    const pool = new pg.Pool({ connectionString: testServerUrl(), max: 2 })
    const db = drizzle(pool)
    return {
      inTransaction: (body) => db.transaction((tx: never) => body(fromDrizzle(tx, sql))),
      outside: () => fromDrizzle(db, sql),
      close: () => pool.end(),
    }
  },
  async 'Drizzle on postgres.js'() {
    const { default: postgres } = await load('postgres')
    const { drizzle } = await load('drizzle-orm/postgres-js')
    const { sql } = await load('drizzle-orm')
    const client = postgres(testServerUrl(), { max: 2, onnotice: () => {} })
    const db = drizzle(client)
    return {
      inTransaction: (body) => db.transaction((tx: never) => body(fromDrizzle(tx, sql))),
      outside: () => fromDrizzle(db, sql),
      close: () => client.end(),
    }
  },
  async Kysely() {
    const { Kysely, PostgresDialect } = await load('kysely')
    const db = new Kysely({
      dialect: new PostgresDialect({ pool: new pg.Pool({ connectionString: testServerUrl(), max: 2 }) }),
    })
    return {
      inTransaction: (body) => db.transaction().execute((trx: never) => body(fromKysely(trx))),
      outside: () => fromKysely(db),
      close: () => db.destroy(),
    }
  },
  async Knex() {
    const { default: knex } = await load('knex')
    const db = knex({ client: 'pg', connection: testServerUrl(), pool: { min: 0, max: 2 } })
    return {
      inTransaction: (body) => db.transaction((trx: never) => body(fromKnex(trx))),
      outside: () => fromKnex(db),
      close: () => db.destroy(),
    }
  },
  async TypeORM() {
    const { DataSource } = await load('typeorm')
    const source = await new DataSource({ type: 'postgres', url: testServerUrl(), driver: pg }).initialize()
    return {
      inTransaction: (body) => source.transaction((manager: never) => body(fromTypeOrm(manager))),
      outside: () => fromTypeOrm(source.manager),
      close: () => source.destroy(),
    }
  },
}

let holdfast: Holdfast

beforeAll(async () => {
  holdfast = await connect(testServerUrl(), { schema: SCHEMA })
})

afterAll(async () => {
  await holdfast.close()
  const client = new pg.Client({ connectionString: testServerUrl() })
  await client.connect()
  await client.query(`DROP SCHEMA ${SCHEMA} CASCADE`)
  await client.end()
})

describe.each(Object.keys(LIBRARIES))('%s', (name) => {
  let library: Library

  beforeAll(async () => {
    library = await LIBRARIES[name]!()
  })

  afterAll(() => library?.close())

  test('a commit leaves the jobs that were enqueued in it, and a rollback none', async () => {
    const ids: string[] = []
    const enqueue = async (tx: Queryable) => {
      ids.push((await holdfast.enqueue(charge, payload, { tx })).id)
      ids.push(
        (await holdfast.enqueue(charge, payload, { tx, idempotencyKey: `${name} ${ids.length}`, delay: '1h' })).id,
      )
      ids.push((await holdfast.enqueue(charge, payload, { tx, after: ids.at(-1)!, priority: -7 })).id)
    }

    await library.inTransaction(enqueue)
    const rolledBack = await failure(
      library.inTransaction(async (tx) => {
        await enqueue(tx)
        throw new Error('no')
      }),
    )
    const jobs = await Promise.all(ids.map((id) => holdfast.get(id)))

    expect(rolledBack).toMatchObject({ message: 'no' })
    expect(jobs.map((job) => job?.state ?? null)).toEqual(['ready', 'scheduled', 'blocked', null, null, null])
    for (const job of jobs.slice(0, 3)) expect(job).toMatchObject({ payload, tags: charge.tags })
    for (const id of ids.slice(0, 3).reverse()) await holdfast.cancel(id)
  })

  test('complete() settles the job exactly if the transaction commits', async () => {
    const outcomes = new Map<string, boolean>()
    const job = defineJob<{ commit: boolean }, { note: string }>(`complete.${name.replaceAll(' ', '_')}`, {
      maxAttempts: 1,
    })
    const handler = job.handle(async ({ commit }, ctx) => {
      await library.inTransaction(async (tx) => {
        await ctx.complete(tx, payload)
        outcomes.set(ctx.id, commit)
        if (!commit) throw new Error('rolled back')
      })
      return undefined as never
    })
    const worker = holdfast.worker({ handlers: [handler] })
    await worker.start()

    const result = await (await holdfast.enqueue(job, { commit: true })).wait()
    const error = await failure((await holdfast.enqueue(job, { commit: false })).wait())
    await worker.stop()

    expect(result).toEqual(payload)
    expect(error).toMatchObject({ code: 'job_dead', details: { error: { message: 'rolled back' } } })
    expect([...outcomes.values()]).toEqual([true, false])
  })

  test('what is no transaction is refused', () => {
    expect(() => library.outside()).toThrow(/takes .*/)
  })
})

test('what is nothing of the kind is refused with what is expected', () => {
  for (const adapt of [fromPg, fromPostgresJs, fromDrizzle, fromKysely, fromKnex, fromTypeOrm]) {
    expect(() => (adapt as (tx: unknown) => Queryable)(7)).toThrow(/takes .*got 7/)
  }
})

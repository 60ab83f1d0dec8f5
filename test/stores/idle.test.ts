// A process that has nothing to do leaves the server alone. The server itself counts: pg_stat_statements has every statement that it ran,
// pg_stat_activity every connection.

import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'
import { afterAll, beforeAll, describe, test } from 'vitest'
import { PostgresServer } from '../../lab/servers/postgres.js'
import { type ConnectOptions, connect, defineJob, type Holdfast } from '../../src/index.js'

const MINUTE_MS = 60_000
/** The rest has begun when no more connections than these are open, and nothing was asked for this long. */
const STILL_MS = 10_000
/** The connections of the producer are of no matter: that nothing is asked says enough. */
const PRODUCER_TOO = Number.POSITIVE_INFINITY
/** The rest begins ten seconds after the last job; connections of the heartbeat's thread end a little later. A busy machine takes longer. */
const RESTS_WITHIN_MS = 90_000

let server: PostgresServer

beforeAll(async () => {
  server = await PostgresServer.open({
    settings: {
      fsync: 'off',
      shared_preload_libraries: 'pg_stat_statements',
      'pg_stat_statements.track_utility': 'on',
    },
  })
}, 60_000)

afterAll(async () => {
  await server.close()
})

/** A database of its own for each test, because they wait for minutes, and so they wait side by side. */
async function openDatabase(name: string) {
  const creating = new pg.Client({ connectionString: server.url })
  await creating.connect()
  await creating.query(`CREATE DATABASE ${name}`)
  await creating.end()
  const url = new URL(server.url)
  url.pathname = name
  const admin = new pg.Client({ connectionString: url.href, application_name: 'counting' })
  await admin.connect()
  await admin.query('CREATE EXTENSION pg_stat_statements')
  const opened: Holdfast[] = []
  const { rows: databases } = await admin.query('SELECT oid FROM pg_database WHERE datname = current_database()')
  const countConnections = async (): Promise<number> => {
    const { rows } = await admin.query(
      "SELECT count(*)::int AS count FROM pg_stat_activity WHERE application_name LIKE 'holdfast%' AND datname = current_database()",
    )
    return rows[0].count
  }
  const readStatements = async (): Promise<readonly { readonly calls: number; readonly query: string }[]> => {
    const { rows } = await admin.query(
      "SELECT calls::int, query FROM pg_stat_statements WHERE dbid = $1 AND query NOT LIKE '%pg_stat_%' AND query NOT LIKE '%pg_database%' ORDER BY calls DESC",
      [databases[0].oid],
    )
    return rows
  }
  return {
    async open(options: ConnectOptions = {}): Promise<Holdfast> {
      const holdfast = await connect(url.href, options)
      opened.push(holdfast)
      return holdfast
    },
    /** Resolves when the process rests: few connections are open, and nothing was asked for a while. */
    async untilItRests(connectionsMax: number): Promise<void> {
      let [calls, stillSinceMs] = [-1, Date.now()]
      for (const endMs = Date.now() + RESTS_WITHIN_MS; Date.now() < endMs; await sleep(1_000)) {
        const asked = sumOf(await readStatements())
        if (asked !== calls || (await countConnections()) > connectionsMax) stillSinceMs = Date.now()
        calls = asked
        if (Date.now() - stillSinceMs >= STILL_MS) return
      }
      throw new Error(`the process did not rest within ${RESTS_WITHIN_MS} ms: ${await countConnections()} connections`)
    },
    /** What the server was asked in this database during this time, and the most connections there were. */
    async countFor(ms: number): Promise<Count> {
      await admin.query('SELECT pg_stat_statements_reset(0, $1)', [databases[0].oid])
      let connections = 0
      for (const endMs = Date.now() + ms; Date.now() < endMs; ) {
        connections = Math.max(connections, await countConnections())
        await sleep(Math.min(1_000, endMs - Date.now()))
      }
      const rows = await readStatements()
      return {
        statements: sumOf(rows),
        connections,
        texts: rows.map(({ calls, query }) => `${calls} × ${query.replace(/\s+/g, ' ').slice(0, 100)}`),
      }
    },
    async close() {
      await Promise.all(opened.map((holdfast) => holdfast.close()))
      await admin.end()
    },
  }
}

function sumOf(rows: readonly { readonly calls: number }[]): number {
  return rows.reduce((sum, { calls }) => sum + calls, 0)
}

interface Ran {
  readonly id: string
  readonly atMs: number
}

async function startWorker(holdfast: Holdfast): Promise<Ran[]> {
  const ran: Ran[] = []
  const work = defineJob('work').handle(async (_, { id }) => void ran.push({ id, atMs: Date.now() }))
  await holdfast.worker({ handlers: [work] }).start()
  return ran
}

interface Count {
  readonly statements: number
  readonly connections: number
  readonly texts: readonly string[]
}

describe.concurrent('an idle process with one worker', () => {
  test('sends at most 4 statements a minute over at most 3 connections, and runs a job of another process immediately', async ({
    expect,
    onTestFinished,
  }) => {
    const { open, untilItRests, countFor, close } = await openDatabase('looks')
    onTestFinished(close)
    const working = await open()
    const ran = await startWorker(working)
    const first = await working.enqueue('work')
    await working.wait(first.id)
    await untilItRests(3)

    const count = await countFor(MINUTE_MS)
    expect(count.texts).toHaveLength(1)
    expect(count.statements).toBeLessThanOrEqual(4)
    expect(count.statements).toBeGreaterThan(0)
    expect(count.connections).toBeLessThanOrEqual(3)
    expect((await working.workers()).map(({ id }) => id)).toHaveLength(1)

    const producer = await open({ upkeep: false })
    const { id } = await producer.enqueue('work')
    const atMs = Date.now()
    await expect.poll(() => ran.find((run) => run.id === id), { timeout: 5_000, interval: 10 }).toBeDefined()
    expect(ran.at(-1)!.atMs - atMs).toBeLessThan(1_000)
  }, 300_000)
})

describe.concurrent("an idle process with idle: 'sleep'", () => {
  test('sends at most one statement over one connection, wakes within a second, and is on time for timed jobs and schedules', async ({
    expect,
    onTestFinished,
  }) => {
    const { open, untilItRests, countFor, close } = await openDatabase('sleeps')
    onTestFinished(close)
    const working = await open({ idle: 'sleep' })
    const ran = await startWorker(working)
    const first = await working.enqueue('work')
    await working.wait(first.id)
    await untilItRests(1)

    const count = await countFor(20_000)
    expect(count.texts.length).toBeLessThanOrEqual(1)
    expect(count.statements).toBeLessThanOrEqual(1)
    expect(count.connections).toBeLessThanOrEqual(1)

    // A producer without upkeep: nobody but the one that sleeps can promote its job.
    const producer = await open({ upkeep: false })
    const timed = await producer.enqueue('work', {}, { delay: '3s' })
    const dueMs = Date.now() + 3_000
    await expect.poll(() => ran.find(({ id }) => id === timed.id), { timeout: 8_000, interval: 10 }).toBeDefined()
    expect(Math.abs(ran.at(-1)!.atMs - dueMs)).toBeLessThan(1_000)

    await untilItRests(PRODUCER_TOO)
    const { id } = await producer.enqueue('work')
    const atMs = Date.now()
    await expect.poll(() => ran.find((run) => run.id === id), { timeout: 5_000, interval: 10 }).toBeDefined()
    expect(ran.at(-1)!.atMs - atMs).toBeLessThan(1_000)
    expect((await producer.workers()).filter(({ seenAt }) => seenAt !== null)).toHaveLength(1)

    await untilItRests(PRODUCER_TOO)
    const before = ran.length
    await producer.schedule('every-two-seconds', { cron: '*/2 * * * * *', job: defineJob('work') })
    await expect.poll(() => ran.length - before, { timeout: 5_000 }).toBeGreaterThanOrEqual(2)
  }, 300_000)

  test('is an option that is checked', async ({ expect }) => {
    await expect(connect(server.url, { idle: 'deep' as 'sleep' })).rejects.toMatchObject({ code: 'invalid_option' })
  })
})

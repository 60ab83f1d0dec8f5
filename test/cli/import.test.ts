// holdfast import, from the real queues at their newest versions with their own workers.

import { spawnSync } from 'node:child_process'
import { join } from 'node:path'
import pg from 'pg'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { RedisServer } from '../../lab/servers/redis.js'
import { testServerUrl } from '../support/postgres.js'
import { openRedis } from '../support/redis.js'
import { missing, numbers, openScene, QUEUE, sorted } from './import-support.js'
import { makeProject, start } from './support.js'

const SYSTEMS = ['bullmq', 'pg-boss', 'graphile-worker'] as const
const HOUR_MS = 3_600_000
const PLAIN = { delayed: 0, failed: 0, delayMs: HOUR_MS, schedule: false, edge: false }

let redis: RedisServer
beforeAll(async () => {
  redis = await openRedis()
})
afterAll(() => redis.close())

describe.skipIf(missing !== null).each(SYSTEMS)('import from %s', { timeout: 60_000 }, (system) => {
  test('while its workers run, each job runs once: there or here', async () => {
    const { peer, run, work, holdfast } = await openScene(system, { redis })
    await peer.fill({ ...PLAIN, waiting: 300 })
    await peer.work()
    await expect.poll(() => peer.begun().length, { timeout: 20_000 }).toBeGreaterThan(5)

    const { jobs } = await run()

    await peer.stop()
    const again = await run()
    const imported = jobs.waiting.imported + again.jobs.waiting.imported
    const here = await work(imported)
    expect(imported).toBeGreaterThan(20)
    expect(peer.begun().length).toBeGreaterThan(5)
    expect(sorted([...peer.begun(), ...here])).toEqual(numbers(300))
    expect(await holdfast.stats()).toMatchObject({ ready: 0, dead: 0 })
  })

  test('a dry run counts everything and changes nothing', async () => {
    const { peer, run, holdfast } = await openScene(system, { redis })
    await peer.fill({ ...PLAIN, waiting: 30, delayed: 5, failed: 3 })

    const dry = await run('--dry-run')
    const nothing = await holdfast.stats()
    const { jobs } = await run()

    const counts = { alreadyThere: 0, gone: 0, skipped: 0 }
    expect(dry.jobs).toEqual({
      waiting: { found: 30, imported: 30, ...counts },
      delayed: { found: 5, imported: 5, ...counts },
      failed: { found: 3, imported: 3, ...counts },
    })
    expect(nothing).toMatchObject({ ready: 0, scheduled: 0, dead: 0 })
    expect(jobs).toEqual(dry.jobs)
  })

  test('a second import finds nothing, and writes nothing', async () => {
    const { peer, run, holdfast } = await openScene(system, { redis })
    await peer.fill({ ...PLAIN, waiting: 30, delayed: 5, failed: 3 })
    await run()

    const { jobs } = await run()

    expect([jobs.waiting.found, jobs.delayed.found, jobs.failed.found]).toEqual([0, 0, 0])
    expect(await holdfast.stats()).toMatchObject({ ready: 30, scheduled: 5, dead: 3 })
  })

  test('a failed job is dead here with its error, and runs when it is requeued', async () => {
    const { peer, run, work, holdfast } = await openScene(system, { redis })
    await peer.fill({ ...PLAIN, waiting: 0, failed: 1 })

    await run()

    const [dead] = (await holdfast.list({ filter: { states: ['dead'] } })).jobs
    expect(await holdfast.get(dead!.id)).toMatchObject({
      state: 'dead',
      reason: 'attempts',
      error: { message: expect.stringContaining('the mail server is down') },
    })
    await holdfast.requeue(dead!.id)
    expect(await work(1)).toEqual([0])
  })

  test('with --failed requeue failed jobs are ready, with --failed skip they stay', async () => {
    const { peer, run, holdfast } = await openScene(system, { redis })
    await peer.fill({ ...PLAIN, waiting: 0, failed: 2 })

    const skipped = await run('--failed', 'skip')
    const { jobs } = await run('--failed', 'requeue')

    expect(skipped.jobs.failed.found).toBe(0)
    expect(jobs.failed.imported).toBe(2)
    expect(await holdfast.stats()).toMatchObject({ ready: 2, dead: 0 })
  })

  test('time, priority, attempts and where a job comes from are kept', async () => {
    const { peer, run, holdfast } = await openScene(system, { redis })
    await peer.fill({ ...PLAIN, waiting: 11, delayed: 1, edge: true })

    await run()

    const { jobs } = await holdfast.list({ limit: 50 })
    const views = await Promise.all(jobs.map(({ id }) => holdfast.get(id)))
    const urgent = system === 'bullmq' ? -5 : 5
    expect(views.filter((view) => view!.priority === urgent)).toHaveLength(2)
    const delayed = views.find((view) => view!.state === 'scheduled')!
    expect(delayed.runAt!.getTime() - Date.now()).toBeGreaterThan(HOUR_MS - 60_000)
    expect(delayed).toMatchObject({ maxAttempts: 3, payload: { n: 11 } })
    expect(delayed.tags[0]).toMatch(new RegExp(`^${system}:`))
  })

  test('what cannot be named is skipped with what to do about it, and --map brings it over', async () => {
    const { peer, start, run, holdfast } = await openScene(system, { redis })
    await peer.fill({ ...PLAIN, waiting: 1 })
    const type = system === 'bullmq' ? 'noop' : QUEUE

    const refused = await start('--map', `${type}=send mail`).ended
    const { jobs } = await run('--map', `${type}=send_mail`)

    expect(refused.code).toBe(6)
    expect(refused.stdout).toContain('"send mail" cannot name a type: give --map')
    expect(jobs.waiting.imported).toBe(1)
    expect((await holdfast.list({ limit: 1 })).jobs[0]).toMatchObject({ type: 'send_mail' })
  })

  test('killed between taking and writing, the next import goes on, and no job is lost', async () => {
    const { peer, sql, start, run, work, target, holdfast } = await openScene(system, { redis, isApart: true })
    await peer.fill({ ...PLAIN, waiting: 60 })
    const blocker = await blockWrites(target)
    const first = start()
    await expect.poll(() => parked(system, sql), { timeout: 20_000 }).toBe(20)

    await first.kill()

    expect(await holdfast.stats()).toMatchObject({ ready: 0 })
    await blocker.end()
    const { jobs } = await run()
    // The server may still do the write that it had begun.
    expect(jobs.waiting.imported + jobs.waiting.alreadyThere).toBe(60)
    expect(sorted(await work(60))).toEqual(numbers(60))
    expect(await parked(system, sql)).toBe(0)
  })

  test('killed between writing and removing, the next import finds the jobs there, and none is doubled', async () => {
    const { peer, sql, start, run, work, target, holdfast } = await openScene(system, { redis, isApart: true })
    await peer.fill({ ...PLAIN, waiting: 60 })
    const blocker = await blockWrites(target)
    const first = start()
    await expect.poll(() => parked(system, sql), { timeout: 20_000 }).toBe(20)
    const unblock = await blockRemoval(system, sql)
    await blocker.end()
    await expect.poll(async () => (await holdfast.stats()).ready, { timeout: 20_000 }).toBe(20)

    await first.kill()

    await unblock()
    const { jobs } = await run()
    expect(jobs.waiting).toMatchObject({ found: 60, imported: 40, alreadyThere: 20 })
    expect(sorted(await work(60))).toEqual(numbers(60))
  })
})

describe.skipIf(missing !== null)('schedules', { timeout: 60_000 }, () => {
  test.each(['bullmq', 'pg-boss'] as const)(
    'of %s are copied paused, and moved: then they fire here alone',
    async (system) => {
      const { peer, run, holdfast } = await openScene(system, { redis })
      await peer.fill({ ...PLAIN, waiting: 0, schedule: true })

      const copied = await run()
      const [copy] = await holdfast.schedules()
      const moved = await run('--schedules', 'move')
      const [live] = await holdfast.schedules()
      const after = await run()

      const facts = { name: `${QUEUE}:nightly`, cron: '0 3 * * *', zone: 'Europe/Berlin', payload: { n: -1 } }
      expect(copied.schedules).toMatchObject({ found: 1, imported: 1 })
      expect(copy).toMatchObject({ ...facts, paused: true })
      expect(moved.schedules).toMatchObject({ found: 1, alreadyThere: 1 })
      expect(live).toMatchObject({ ...facts, paused: false })
      expect(after.schedules.found).toBe(0)
      // The next job that a scheduler has made belongs to it.
      expect(after.jobs.delayed.found).toBe(0)
    },
  )

  test('of graphile-worker come from its crontab', async () => {
    const { peer, run, holdfast } = await openScene('graphile-worker', { redis })
    await peer.fill({ ...PLAIN, waiting: 0 })
    const folder = await makeProject({ crontab: '0 3 * * * report ?id=nightly {"a":1}\n' })

    const { schedules } = await run('--crontab', join(folder, 'crontab'))

    expect(schedules).toMatchObject({ found: 1, imported: 1 })
    expect(await holdfast.schedules()).toMatchObject([
      { name: 'nightly', type: 'report', payload: { a: 1 }, paused: true },
    ])
  })
})

describe('bad input', () => {
  test.each([
    [['bullmq'], 2, /where is the old queue\?/],
    [['bullmq', '--from', 'postgres://localhost/x'], 2, /--from must begin with redis:\/\//],
    [['pg-boss', '--from', 'postgres://localhost/x', '--map', 'a'], 2, /--map must be old=new, got "a"/],
    [['pg-boss', '--from', 'postgres://localhost/x', '--batch', '0'], 2, /--batch must be from 1 to 5000, got 0/],
    [
      ['pg-boss', '--from', 'postgres://ada:secret@127.0.0.1:1/x'],
      4,
      /pg-boss at postgres:\/\/ada:\*\*\*@127\.0\.0\.1:1\/x cannot be read/,
    ],
    [
      ['graphile-worker', '--from', 'postgres://localhost/x', '--crontab', '/no/such'],
      3,
      /the crontab \/no\/such cannot be read/,
    ],
  ])('%j', async (args, code, why) => {
    const ended = await start(['import', ...args], { env: { HOLDFAST_URL: 'memory:' } }).ended

    expect(ended).toMatchObject({ code, stdout: '', stderr: expect.stringMatching(why) })
  })

  test('a database without the old queue is named, with its schema', async () => {
    const ended = await start(['import', 'pg-boss', '--from', testServerUrl(), '--from-schema', 'nothing_here'], {
      env: { HOLDFAST_URL: 'memory:' },
    }).ended

    expect(ended).toMatchObject({ code: 2, stderr: expect.stringContaining('schema "nothing_here" has no pg-boss') })
  })
})

function redisCli(...words: readonly string[]): string {
  return spawnSync('redis-cli', ['-p', String(redis.port), ...words], { encoding: 'utf8' }).stdout.trim()
}

/** Keeps jobs from being written, until the connection ends. */
async function blockWrites(schema: string): Promise<pg.Client> {
  const client = new pg.Client({ connectionString: testServerUrl() })
  await client.connect()
  await client.query(`BEGIN; LOCK TABLE "${schema}".jobs IN EXCLUSIVE MODE`)
  return client
}

/** How many jobs are taken and not yet removed. */
async function parked(system: (typeof SYSTEMS)[number], sql: pg.Client): Promise<number> {
  if (system === 'bullmq') return Number(redisCli('HLEN', `bull:${QUEUE}:holdfast-parked`))
  const { rows } = await sql.query("SELECT to_regclass('holdfast_import.parked') IS NOT NULL AS found")
  if (!rows[0].found) return 0
  return Number((await sql.query('SELECT count(*) FROM holdfast_import.parked')).rows[0].count)
}

/** Keeps parked jobs from being removed. */
async function blockRemoval(system: (typeof SYSTEMS)[number], sql: pg.Client): Promise<() => Promise<unknown>> {
  if (system === 'bullmq') {
    redisCli('CLIENT', 'PAUSE', '60000', 'WRITE')
    return async () => redisCli('CLIENT', 'UNPAUSE')
  }
  await sql.query('BEGIN; SELECT FROM holdfast_import.parked FOR UPDATE')
  return async () => {
    // The server would still do the removal that it had begun.
    await sql.query(
      "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'holdfast import%'",
    )
    await sql.query('ROLLBACK')
  }
}

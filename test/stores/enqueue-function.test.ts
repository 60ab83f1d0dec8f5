// enqueue() as a function of the schema: what SQL enqueues is what the library would have.

import pg from 'pg'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { connect, defineJob, type Holdfast } from '../../src/index.js'
import { rolesScript } from '../../src/stores/postgres/roles.js'
import { SERVERS } from '../support/postgres.js'

const schema = `sqlq_${process.pid}`

for (const [server, urlOf] of SERVERS) {
  // Without a second server on this machine there is nothing to show for it: apt-get install postgresql.
  describe.skipIf(urlOf() === undefined)(`enqueue in SQL on ${server}`, () => {
    let sql: pg.Client
    let holdfast: Holdfast

    beforeAll(async () => {
      sql = new pg.Client({ connectionString: urlOf()! })
      await sql.connect()
      holdfast = await connect(urlOf()!, { schema })
    }, 60_000)

    afterAll(async () => {
      await holdfast.close()
      await sql.query(`DROP SCHEMA ${schema} CASCADE`)
      await sql.end()
    })

    async function enqueue(args: string, values: unknown[] = []): Promise<string> {
      const { rows } = await sql.query(`SELECT ${schema}.enqueue(${args}) AS id`, values)
      return rows[0].id
    }

    function refused(args: string, values: unknown[] = []): Promise<{ code: string; detail: string; message: string }> {
      return enqueue(args, values).then(
        (id) => Promise.reject(new Error(`${id} was enqueued`)),
        (error) => error,
      )
    }

    test('a job runs with its payload, and a worker is woken for it', async () => {
      const add = defineJob<{ a: number; b: number }, number>('add')
      const worker = holdfast.worker({ handlers: [add.handle(({ a, b }) => a + b)], pollMin: '1m', pollMax: '1m' })
      await worker.start()
      // Once it has found nothing it looks again in a minute, or when it is woken.
      const idle = await enqueue(`'add', '{"a":1,"b":1}'`)
      await holdfast.wait(idle, { timeout: '20s' })

      const id = await enqueue(`'add', '{"a":1,"b":2}'`)

      expect(await holdfast.wait(id, { timeout: '20s' })).toBe(3)
      await worker.stop()
    })

    test('a job that was announced while nothing was received runs as soon as wake-ups arrive again', async () => {
      const deaf = defineJob('deaf', { queue: 'deaf' }).handle(() => 'ran')
      const worker = holdfast.worker({ queues: ['deaf'], handlers: [deaf], pollMin: '1m', pollMax: '1m' })
      await worker.start()
      await holdfast.wait(await enqueue(`'deaf', queue => 'deaf'`), { timeout: '15s' })

      // The wake-up is sent to nobody: the connection has ended, and the next one is not there yet.
      const { rows } = await sql.query(
        `SELECT pg_terminate_backend(pid, 10000) AS ended FROM pg_stat_activity
          WHERE application_name = 'holdfast receive wake-ups' AND query = $1`,
        [`LISTEN "holdfast ${schema}"`],
      )
      const id = await enqueue(`'deaf', queue => 'deaf'`)

      expect(rows).toEqual([{ ended: true }])
      // Less than the half minute after which a poll may come.
      expect(await holdfast.wait(id, { timeout: '15s' })).toBe('ran')
      await worker.stop()
    })

    test('every argument is that of the option of its name', async () => {
      const parent = await enqueue(`'p', queue => 'all'`)
      const id = await enqueue(
        `'all', '[1]', queue => 'all', priority => 7, delay => '1 hour', max_attempts => 3, timeout => '5 s', max_age => '1 day',
         idempotency_key => 'k', key_for => '2 hours', after => $1, on_parent_dead => 'run', tags => ARRAY['b', 'a', 'b']`,
        [[parent]],
      )
      const same = await holdfast.enqueue('all', [1], {
        ...{
          queue: 'all',
          priority: 7,
          delay: '1h',
          maxAttempts: 3,
          timeout: '5s',
          maxAge: '1d',
          tags: ['b', 'a', 'b'],
        },
        ...{ idempotencyKey: { key: 'k2', for: '2h' }, after: parent, onParentDead: 'run' },
      })

      const facts = async (of: string) => {
        const { id: _, createdAt, runAt, idempotencyKey, ...rest } = (await holdfast.get(of))!
        return { ...rest, runsAfterMs: Math.round((runAt!.getTime() - createdAt.getTime()) / 10_000) }
      }
      expect(await facts(id)).toEqual(await facts(same.id))
      expect((await holdfast.get(id))!.idempotencyKey).toBe('k')
    })

    test('an id is a UUIDv7 of now, in the order of the enqueues', async () => {
      const ids = [await enqueue(`'x'`), (await sql.query('SELECT pg_sleep(0.005)')) && (await enqueue(`'x'`))]

      expect(ids[0]).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/)
      expect(ids[0]! < ids[1]!).toBe(true)
    })

    test('the job is there exactly if the transaction commits', async () => {
      await sql.query('BEGIN')
      const id = await enqueue(`'x'`)
      await sql.query('ROLLBACK')

      expect(await holdfast.get(id)).toBeNull()
    })

    test('a trigger enqueues a job for each row', async () => {
      await sql.query(`
        CREATE TABLE ${schema}.orders (number integer);
        CREATE FUNCTION ${schema}.ship() RETURNS trigger LANGUAGE plpgsql AS
        $$ BEGIN PERFORM ${schema}.enqueue('ship', row_to_json(NEW), queue => 'orders'); RETURN NEW; END $$;
        CREATE TRIGGER ship AFTER INSERT ON ${schema}.orders FOR EACH ROW EXECUTE FUNCTION ${schema}.ship()`)
      await sql.query(`INSERT INTO ${schema}.orders SELECT generate_series(1, 3)`)

      const { jobs } = await holdfast.list({ queue: 'orders' })

      expect(jobs.map(({ type }) => type)).toEqual(['ship', 'ship', 'ship'])
      expect((await holdfast.queues()).map(({ name }) => name)).toContain('orders')
    })

    test('a key that an unfinished job holds gives that job, also one that the library enqueued', async () => {
      const first = await enqueue(`'x', idempotency_key => 'one'`)
      const { id } = await holdfast.enqueue('x', null, { idempotencyKey: 'two' })

      expect(await enqueue(`'x', idempotency_key => 'one'`)).toBe(first)
      expect(await holdfast.enqueue('x', null, { idempotencyKey: 'one' })).toMatchObject({ id: first, created: false })
      expect(await enqueue(`'x', idempotency_key => 'two'`)).toBe(id)
      await holdfast.cancel(first)
      expect(await enqueue(`'x', idempotency_key => 'one'`)).not.toBe(first)
    })

    test('concurrent enqueues with one key make one job', async () => {
      const others = await Promise.all(
        Array.from({ length: 6 }, async () => {
          const client = new pg.Client({ connectionString: urlOf()! })
          await client.connect()
          const { rows } = await client.query(`SELECT ${schema}.enqueue('x', idempotency_key => 'race') AS id`)
          await client.end()
          return rows[0].id
        }),
      )

      expect(new Set(others).size).toBe(1)
    })

    test('a job that comes after another becomes ready when that one has ended', async () => {
      const parent = await enqueue(`'x', queue => 'family'`)
      const child = await enqueue(`'y', queue => 'family', after => ARRAY['${parent}']::uuid[]`)
      const before = (await holdfast.get(child))?.state
      const worker = holdfast.worker({
        queues: ['family'],
        handlers: [
          defineJob('x', { queue: 'family' }).handle(() => 1),
          defineJob('y', { queue: 'family' }).handle(() => 2),
        ],
      })
      await worker.start()

      expect(before).toBe('blocked')
      expect(await holdfast.wait(child, { timeout: '20s' })).toBe(2)
      await worker.stop()
    })

    test('a full queue refuses, and does not for a key that is held', async () => {
      await holdfast.setQueue('small', { maxDepth: 1 })
      const first = await enqueue(`'x', queue => 'small', idempotency_key => 'k'`)

      const error = await refused(`'x', queue => 'small'`)

      expect(error).toMatchObject({ code: '53400', detail: 'holdfast: queue_full' })
      expect(error.message).toBe(
        'queue "small" is full: 1 jobs are ready, maxDepth is 1; enqueue again later, or raise maxDepth',
      )
      expect(await enqueue(`'x', queue => 'small', idempotency_key => 'k'`)).toBe(first)
      expect((await holdfast.get(await enqueue(`'x', queue => 'small', delay => '1 h'`)))?.state).toBe('scheduled')
    })

    test("a queue's limits hold for its jobs: concurrency of one runs one at a time", async () => {
      await holdfast.setQueue('narrow', { concurrency: 1 })
      const ids = [await enqueue(`'n', queue => 'narrow'`), await enqueue(`'n', queue => 'narrow'`)]
      let [running, most] = [0, 0]
      const job = defineJob('n', { queue: 'narrow' }).handle(async () => {
        most = Math.max(most, ++running)
        await new Promise((resolve) => setTimeout(resolve, 20))
        running--
      })
      const worker = holdfast.worker({ queues: ['narrow'], handlers: [job], concurrency: 4 })
      await worker.start()
      await Promise.all(ids.map((id) => holdfast.wait(id, { timeout: '20s' })))

      expect(most).toBe(1)
      await worker.stop()
    })

    const deep = '['.repeat(501) + ']'.repeat(501)
    const wide = JSON.stringify(Array.from({ length: 2_000 }, () => ['[[[', {}]))
    const cases: [name: string, args: string, detail: string, values?: unknown[]][] = [
      ['a type with a space', `'a b'`, 'invalid_name'],
      ['no type', 'NULL', 'invalid_name'],
      ['a queue with a line break', `'x', queue => E'a\\n'`, 'invalid_name'],
      ['a payload of more than 1 MiB', `'x', to_json(repeat('a', 1048576))`, 'payload_too_large'],
      ['a payload of 501 levels', `'x', $1`, 'invalid_payload', [deep]],
      ['a priority that is too high', `'x', priority => 32768`, 'invalid_option'],
      ['a time and a delay', `'x', run_at => now(), delay => '1 s'`, 'invalid_option'],
      ['a delay of less than nothing', `'x', delay => '-1 s'`, 'invalid_option'],
      ['a time that never comes', `'x', run_at => 'infinity'`, 'invalid_option'],
      ['no attempt', `'x', max_attempts => 0`, 'invalid_option'],
      ['a timeout of nothing', `'x', timeout => '0'`, 'invalid_option'],
      ['an age of a million years', `'x', max_age => '1000000 years'`, 'invalid_option'],
      ['an empty key', `'x', idempotency_key => ''`, 'invalid_option'],
      ['a key with a control character', `'x', idempotency_key => E'a\\tb'`, 'invalid_option'],
      ['a time for no key', `'x', key_for => '1 h'`, 'invalid_option'],
      ['a parent that does not exist', `'x', after => ARRAY[gen_random_uuid()]`, 'unknown_parent'],
      ['a parent that is NULL', `'x', after => ARRAY[NULL]::uuid[]`, 'invalid_option'],
      ['a word for dead parents', `'x', on_parent_dead => 'retry'`, 'invalid_option'],
      ['17 tags', `'x', tags => ARRAY(SELECT 't' || n FROM generate_series(1, 17) AS n)`, 'invalid_option'],
      ['an empty tag', `'x', tags => ARRAY['']`, 'invalid_option'],
    ]
    test.each(cases)('refuses %s and writes nothing', async (_, args, detail, values = []) => {
      const count = async () => (await sql.query(`SELECT count(*)::integer AS n FROM ${schema}.jobs`)).rows[0].n
      const before = await count()

      expect((await refused(args, values)).detail).toBe(`holdfast: ${detail}`)
      expect(await count()).toBe(before)
    })

    test('takes a payload with many brackets that is not deep', async () => {
      const id = await enqueue(`'x', $1`, [wide])

      expect((await holdfast.get(id))?.payload).toEqual(JSON.parse(wide))
    })

    test('a producer may call it, a viewer and strangers may not', async () => {
      const prefix = `sq${process.pid}`
      const { sql: script } = rolesScript({ schema, prefix })
      await sql.query(script)
      await sql.query(`CREATE ROLE ${prefix}_stranger; GRANT USAGE ON SCHEMA ${schema} TO ${prefix}_stranger`)
      const as = async (role: string, args: string) => {
        await sql.query(`SET ROLE ${prefix}_${role}`)
        try {
          return await enqueue(args)
        } finally {
          await sql.query('RESET ROLE')
        }
      }
      const parent = await as('producer', `'x', queue => 'roles', idempotency_key => 'a'`)

      expect(await as('producer', `'x', queue => 'roles', idempotency_key => 'a'`)).toBe(parent)
      expect(await as('producer', `'x', queue => 'roles', after => ARRAY['${parent}']::uuid[]`)).toMatch(
        /^[0-9a-f-]{36}$/,
      )
      expect(await as('producer', `'x', queue => 'roles', delay => '1 h'`)).toMatch(/^[0-9a-f-]{36}$/)
      expect(await as('worker', `'x'`)).toMatch(/^[0-9a-f-]{36}$/)
      await expect(as('viewer', `'x'`)).rejects.toThrow(/permission denied for function enqueue/)
      await expect(as('stranger', `'x'`)).rejects.toThrow(/permission denied for function enqueue/)
      for (const role of ['owner', 'producer', 'worker', 'operator', 'viewer', 'stranger']) {
        if (role === 'owner') await sql.query(`REASSIGN OWNED BY ${prefix}_owner TO CURRENT_USER`)
        await sql.query(`DROP OWNED BY ${prefix}_${role}; DROP ROLE ${prefix}_${role}`)
      }
    })
  })
}

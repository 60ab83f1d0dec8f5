// A mistyped schema or queue: commands refuse it and leave nothing behind.

import pg from 'pg'
import { describe, expect, test } from 'vitest'
import { openTestStore } from './store.js'
import { makeProject, run } from './support.js'

const store = openTestStore('typos')
const { holdfastCommand } = store
const ID = '01a1e9b9-0000-7000-8000-000000000001'

async function hasSchema(name: string): Promise<boolean> {
  const sql = new pg.Client({ connectionString: store.url })
  await sql.connect()
  const { rows } = await sql.query('SELECT to_regnamespace($1) IS NOT NULL AS found', [name])
  await sql.end()
  return rows[0].found
}

describe('a schema that has no tables of Holdfast', () => {
  test.each([
    'stats',
    'top',
    'tail',
    'audit',
    'jobs list',
    `jobs show ${ID}`,
    `jobs cancel ${ID}`,
    'dlq groups',
    'queues pause mail',
    'queues set mail --max-attempts 3',
    'limits set stripe --concurrency 3 --create',
    'limits open stripe --yes',
    'groups pause mail acme',
    'apply --export',
    'schedules list',
    'workers list',
    'bulk list',
    'keys create reader --scope read',
    'enqueue send_email {}',
    'schedules add nightly @daily report',
    'gen --jobs 1',
  ])('is refused by %s, which creates nothing and names the schemas that exist', async (line) => {
    const typo = `${store.schema}x`

    const { code, stdout, stderr } = await holdfastCommand([...line.split(' '), '--schema', typo])

    expect({ code, stdout }, stderr).toEqual({ code: 7, stdout: '' })
    expect(stderr).toContain(`schema "${typo}" has no tables of Holdfast in database "postgres"`)
    expect(stderr).toContain(`did you mean "${store.schema}"?`)
    expect(stderr).toContain('holdfast migrate')
    expect(stderr).toContain('code:  schema_missing')
    expect(await hasSchema(typo)).toBe(false)
  })

  test('is created by migrate; an enqueue creates that of a new embedded store', async () => {
    const schema = `${store.schema}_made`
    const folder = await makeProject()

    const migrated = await holdfastCommand(['migrate', 'up', '--schema', schema])
    const looked = await holdfastCommand(['stats', '--schema', schema])
    const enqueued = await run(['enqueue', 'send_email', '{}'], { cwd: folder })

    const sql = new pg.Client({ connectionString: store.url })
    await sql.connect()
    await sql.query(`DROP SCHEMA "${schema}" CASCADE`)
    await sql.end()
    expect([migrated.code, looked.code, enqueued.code], enqueued.stderr).toEqual([0, 0, 0])
  })

  test('is refused too when it is too old, and a command that reads does not migrate it', async () => {
    const schema = `${store.schema}_old`
    await holdfastCommand(['migrate', 'up', '--schema', schema])
    const sql = new pg.Client({ connectionString: store.url })
    await sql.connect()
    await sql.query(
      `DELETE FROM "${schema}".migrations WHERE number = (SELECT max(number) FROM "${schema}".migrations)`,
    )

    const { code, stderr } = await holdfastCommand(['stats', '--schema', schema])

    const { rows } = await sql.query(`SELECT max(number) AS newest FROM "${schema}".migrations`)
    await sql.query(`DROP SCHEMA "${schema}" CASCADE`)
    await sql.end()
    expect(code).toBe(7)
    expect(stderr).toContain(`schema "${schema}" is at migration ${rows[0].newest}, this version needs`)
    expect(stderr).toContain('holdfast migrate')
  })
})

describe('a queue that does not exist', () => {
  test.each(['queues pause mial', 'queues resume mial', 'queues set mial --max-attempts 3', 'queues remove mial'])(
    'is refused by %s with the closest name, and is not created',
    async (line) => {
      await store.holdfast.enqueue('a', {}, { queue: 'mail' })

      const { code, stdout, stderr } = await holdfastCommand(line.split(' '))

      expect({ code, stdout }, stderr).toEqual({ code: 3, stdout: '' })
      expect(stderr).toContain('there is no queue "mial"')
      expect(stderr).toContain('did you mean mail?')
      expect((await store.holdfast.queues()).map(({ name }) => name)).not.toContain('mial')
    },
  )

  test('of several queues none is changed when one is mistyped', async () => {
    await store.holdfast.enqueue('a', {}, { queue: 'mail' })

    const { code } = await holdfastCommand(['queues', 'pause', 'mail', 'mial'])

    expect(code).toBe(3)
    expect((await store.holdfast.queues()).find(({ name }) => name === 'mail')?.paused).toBe(false)
  })

  test('is created with --create, to pause or set it before its first job', async () => {
    const paused = await holdfastCommand(['queues', 'pause', 'early', '--create'])
    const set = await holdfastCommand(['queues', 'set', 'limited', '--max-attempts', '3', '--create'])

    expect([paused.code, set.code]).toEqual([0, 0])
    expect((await store.holdfast.queues()).filter(({ name }) => ['early', 'limited'].includes(name))).toMatchObject([
      { name: 'early', paused: true },
      { name: 'limited', settings: { limits: { maxAttempts: 3 } } },
    ])
  })
})

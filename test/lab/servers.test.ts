// The servers of the tests: a pair that switches roles, and a pooler in front.

import pg from 'pg'
import { afterAll, describe, expect, test } from 'vitest'
import { PgBouncer } from '../../lab/servers/pgbouncer.js'
import { programsOf15 } from '../../lab/servers/postgres.js'
import { PostgresPair } from '../../lab/servers/standby.js'

async function ask(url: string, text: string): Promise<unknown> {
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  try {
    const { rows } = await client.query({ text, rowMode: 'array' })
    return rows[0]?.[0]
  } finally {
    await client.end()
  }
}

const versions: [string, string | null][] = [['18', null]]
if (programsOf15() !== null) versions.push(['15', programsOf15()])

describe.each(versions)('a pair of PostgreSQL %s', (_, programs) => {
  let pair: PostgresPair
  afterAll(() => pair.close(), 60_000)

  test('has a standby that follows, switches roles, and takes over after a crash', async () => {
    pair = await PostgresPair.open(programs === null ? {} : { programs })
    const first = pair.primary
    await ask(first.url, 'CREATE TABLE notes AS SELECT 1 AS n')
    await pair.caughtUp()
    expect(await ask(pair.standby.url, 'SELECT count(*)::int FROM notes')).toBe(1)

    await pair.switchOver()
    expect(pair.standby).toBe(first)
    expect(await ask(first.url, 'SELECT pg_is_in_recovery()')).toBe(true)
    await ask(pair.primary.url, 'INSERT INTO notes VALUES (2)')
    await pair.caughtUp()
    expect(await ask(first.url, 'SELECT count(*)::int FROM notes')).toBe(2)

    await pair.failOver()
    expect(pair.primary).toBe(first)
    await ask(first.url, 'INSERT INTO notes VALUES (3)')
    await pair.rebuildStandby()
    expect(await ask(pair.standby.url, 'SELECT count(*)::int FROM notes')).toBe(3)
  }, 60_000)

  test('has a pooler in front that is sent to the other server while its clients stay', async () => {
    const pooler = await PgBouncer.open({ target: pair.primary.port })
    const client = new pg.Client({ connectionString: pooler.url })
    await client.connect()
    expect((await client.query('SELECT pg_is_in_recovery() AS answer')).rows[0].answer).toBe(false)

    await pooler.retarget(pair.standby.port)

    await expect
      .poll(async () => (await client.query('SELECT pg_is_in_recovery() AS answer')).rows[0].answer)
      .toBe(true)
    await client.end()
    await pooler.close()
  }, 30_000)
})

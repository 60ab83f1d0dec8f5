// Durability by name: what a commit waits for, and what a failover then loses.

import pg from 'pg'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { PostgresPair } from '../../lab/servers/standby.js'
import { describeReduced } from '../../src/core/durability.js'
import { connect, type HoldfastEvent } from '../../src/index.js'

describe('durability by name', () => {
  let pair: PostgresPair
  beforeAll(async () => {
    pair = await PostgresPair.open({ settings: { fsync: 'off' } })
  }, 60_000)
  afterAll(() => pair.close(), 60_000)

  test.each([
    ['local', 'local'],
    ['replicated', 'on'],
    ['applied', 'remote_apply'],
  ] as const)(
    '%s commits with synchronous_commit %s, and the health of the store shows both',
    async (durability, setting) => {
      const holdfast = await connect(pair.primary.url, { durability, upkeep: false })
      const { postgres } = await holdfast.health()
      await holdfast.close()

      expect(postgres).toMatchObject({ durability, settings: { synchronousCommit: setting } })
      expect(postgres?.standbys).toEqual({ connected: 1, synchronous: '' })
      const onDisk = { ...postgres!, settings: { ...postgres!.settings, fsync: true } }
      expect(describeReduced(onDisk)).toBeNull()
    },
    30_000,
  )

  test('any other name is refused before anything is opened', async () => {
    const error = await connect('postgres://nowhere.invalid/x', { durability: 'most' as never }).catch(
      (thrown) => thrown,
    )

    expect(error).toMatchObject({ code: 'invalid_option' })
    expect(error.message).toContain(`durability must be 'local', 'replicated' or 'applied', got "most"`)
  })

  test('a failover to a synchronous standby has lost nothing, so nothing is said again', async () => {
    const sql = new pg.Client({ connectionString: pair.primary.url })
    await sql.connect()
    await sql.query("ALTER SYSTEM SET synchronous_standby_names = '*'")
    await sql.query('SELECT pg_reload_conf()')
    await sql.end()
    const hosts = [pair.primary, pair.standby].map(({ port }) => `127.0.0.1:${port}`)
    const holdfast = await connect(`postgres://holdfast@${hosts.join(',')}/postgres`, {
      failoverMemory: true,
      upkeep: false,
    })
    const said: HoldfastEvent[] = []
    holdfast.on((event) => {
      if (event.name === 'failover.said') said.push(event)
    })
    await expect.poll(async () => (await holdfast.health()).postgres?.standbys?.synchronous).toBe('*')
    const jobs = await holdfast.enqueueMany('work', Array(300).fill({}))

    await pair.failOver()
    await holdfast.enqueue('work')

    await expect.poll(() => said, { timeout: 5_000 }).toMatchObject([{ jobs: 0, claims: 0, settlements: 0, inside: 0 }])
    expect((await holdfast.stats('default')).ready).toBe(jobs.length + 1)
    await holdfast.close()
  }, 30_000)
})

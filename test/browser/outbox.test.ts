// The outbox on the overview: what waits, for how long, and what was refused; and nothing where the store has none.

import { join } from 'node:path'
import pg from 'pg'
import type { Browser } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { RedisServer } from '../../lab/servers/redis.js'
import { outboxStore } from '../../src/stores/outbox/index.js'
import { redisStore } from '../../src/stores/redis/index.js'
import { dropSchema, testServerUrl } from '../support/postgres.js'
import { openRedis } from '../support/redis.js'
import { openBrowser } from './chromium.js'
import { Desk, eventually, SLOWLY } from './desk.js'

const SCHEMA = `outbox_page_${process.pid}`
/** A folder for pictures of the page, set to look at it. */
const PICTURES = process.env.HOLDFAST_PICTURES
const NOBODY = '00000000-0000-7000-8000-000000000000'

let browser: Browser
let redis: RedisServer
let client: pg.Client
let desk: Desk

beforeAll(async () => {
  browser = await openBrowser()
  redis = await openRedis()
  client = new pg.Client({ connectionString: testServerUrl() })
  await client.connect()
  const store = await outboxStore(await redisStore(redis.url), testServerUrl(), {
    schema: SCHEMA,
    retentionMs: 86_400_000,
  })
  desk = await Desk.open(browser, {}, store)
  await desk.holdfast.enqueue('greet', null, { queue: 'mail' })
}, SLOWLY.timeout)

afterAll(async () => {
  await desk.close()
  await client.end()
  await dropSchema(testServerUrl(), SCHEMA)
  await redis.close()
  await browser.close()
})

async function commit(...enqueue: (() => Promise<unknown>)[]): Promise<void> {
  await client.query('BEGIN')
  for (const each of enqueue) await each()
  await client.query('COMMIT')
}

describe('the overview of a store with an outbox', SLOWLY, () => {
  test('shows what waits, for how long, and how much was refused', async () => {
    const page = await desk.visit('/')
    const outbox = page.getByRole('region', { name: 'Outbox' })
    const figures = async () => (await outbox.getByRole('definition').allTextContents()).slice(0, 3)
    await eventually(figures).toEqual(['0', 'none waits', 'none'])

    // Nobody knows this limit, so these jobs wait in the outbox until it is set.
    const limits = ['not-set-yet']
    await commit(
      () => desk.holdfast.enqueueMany('pay', [1, 2, 3], { queue: 'mail', limits, tx: client }),
      () => desk.holdfast.enqueue('pay', 4, { queue: 'mail', after: [NOBODY], tx: client }),
    )
    await client.query(`UPDATE ${SCHEMA}.outbox SET created_at = created_at - interval '2 minutes'`)

    await eventually(figures).toEqual(['3', expect.stringMatching(/^2m/), '1'])
    expect(await outbox.getByRole('link', { name: '1' }).getAttribute('href')).toBe('/audit?action=outbox_refused')
    expect(desk.takeFaults()).toEqual([])
    await desk.closePages()
  })

  test.skipIf(PICTURES === undefined)('can be photographed', async () => {
    for (const colorScheme of ['light', 'dark'] as const) {
      for (const width of [1_280, 375]) {
        const page = await desk.visit('/', { colorScheme, viewport: { width, height: 800 } })
        await page.getByRole('region', { name: 'Outbox' }).waitFor()
        await page.screenshot({ path: join(PICTURES!, `outbox-${colorScheme}-${width}.png`) })
      }
    }
  })

  test('a key for some queues is not told of it', async () => {
    const key = await desk.server.key(['read'], ['mail'])

    expect((await desk.server.as(key, 'GET', '/v1/outbox')).status).toBe(403)
    expect((await desk.server.admin('GET', '/v1/outbox')).json.outbox).toMatchObject({ schema: SCHEMA, waiting: 3 })
  })
})

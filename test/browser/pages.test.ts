// What each page shows, in a real browser, of a store whose jobs are known; and how one gets in.

import type { Browser, Page } from 'playwright-core'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { openBrowser } from './chromium.js'
import { Desk, eventually, SLOWLY } from './desk.js'
import { fillStore, type KnownJobs } from './known-jobs.js'
import { storeKinds } from './stores.js'

let browser: Browser

beforeAll(async () => {
  browser = await openBrowser()
})

afterAll(() => browser?.close())

/** The text of a part of the page on one line. */
async function textOf(page: Page, selector: string): Promise<string> {
  const texts = await page.locator(selector).allInnerTexts()
  return texts.join(' | ').replace(/\s+/g, ' ')
}

describe.each(storeKinds('browser_pages'))('on $name', SLOWLY, ({ open, close }) => {
  let desk: Desk
  let known: KnownJobs
  // One page for all: nothing here leaves a trace, and a new profile takes longer than a look.
  let page: Page

  beforeAll(async () => {
    desk = await Desk.open(browser, { environment: { name: 'staging', colour: '#a50' } }, await open())
    known = await fillStore(desk.holdfast)
    page = await desk.blank({ timezoneId: 'Asia/Tokyo', expects: /404/ })
  })

  afterEach(() => {
    expect(desk.takeFaults()).toEqual([])
  })

  afterAll(async () => {
    await desk?.close()
    await close()
  })

  test('the overview shows warnings, counts by state, and the queues', async () => {
    await page.goto(`${desk.url}/`)

    await eventually(() => textOf(page, '.warnings')).toMatch(/4 jobs are ready in exports and no worker serves it/)
    expect(await textOf(page, '.warnings')).toMatch(/reports is paused and 2 jobs are ready/)
    await eventually(() => textOf(page, '.tiles')).toMatch(
      /Ready 6 oldest .* in exports Running 1 8 slots Retrying 1 .* Scheduled 2 1 blocked Dead 5 5 this minute/,
    )
    expect(await textOf(page, '.table tbody tr')).toMatch(/exports ?no worker 4 0 0 0 1 0/)
    expect(await textOf(page, '.environment')).toContain('staging')
    await eventually(() => page.locator('.chart[aria-label=Depth] canvas').count()).toBe(1)
  })

  test('the queues show their depth, their workers and which are paused', async () => {
    await page.goto(`${desk.url}/queues`)

    await eventually(() => textOf(page, '.table tbody')).toMatch(/billing 0 0 0 0 0 3 .*exports ?no worker 4 0 0 0 1 0/)
    expect(await textOf(page, '.table tbody')).toMatch(/reports ?paused/)
  })

  test('a queue’s page shows its numbers and its settings', async () => {
    await page.goto(`${desk.url}/queues/reports`)

    await eventually(() => textOf(page, 'h1')).toBe('reports')
    await eventually(() => textOf(page, '.tiles')).toMatch(/Ready 2 .* Scheduled 2/)
    await eventually(() => textOf(page, '.page-head')).toContain('paused')
    await eventually(() => textOf(page, '.page-body')).toMatch(/Attempts 25/)
  })

  test('the jobs are listed newest first, each with its state and its error', async () => {
    await page.goto(`${desk.url}/jobs`)

    await eventually(() => page.locator('tbody tr').count()).toBe(19)
    const rows = await page.locator('tbody tr').allInnerTexts()
    expect(rows[0]).toMatch(/ready[\s\S]*adhoc_report[\s\S]*p7/)
    expect(rows.at(-1)).toMatch(/running[\s\S]*import_orders[\s\S]*eu/)
    expect(rows.filter((row) => row.includes('DropJob: card ending'))).toHaveLength(3)
    expect(await textOf(page, '.page-count')).toBe('19')
  })

  test('a running job’s page shows progress, log, payload and who runs it', async () => {
    await page.goto(`${desk.url}/jobs/${known.ids.running}`)

    await eventually(() => textOf(page, '.explain')).toMatch(/Attempt 1 of 25 was claimed by worker worker-a/)
    const body = await textOf(page, '.page-body')
    expect(body).toMatch(/Progress 3 of 12/)
    expect(body).toMatch(/row 1: read .*row 2: read/)
    expect(body).toContain('"orders.csv"')
  })

  test('a dead job’s page shows why it died, every attempt with its stack, and hides what is secret', async () => {
    await page.goto(`${desk.url}/jobs/${known.ids.dead}`)

    await eventually(() => textOf(page, '.explain')).toMatch(/Why is it dead\?.*card ending 4001 was declined/)
    const body = await textOf(page, '.page-body')
    expect(body).toMatch(/Attempt 1 failed .*DropJob card ending 4001 was declined .* at .*known-jobs/)
    expect(body).toMatch(/card: masked last4: "4001"/)
  })

  test.each([
    ['ready', /No live worker serves queue "exports".*3 jobs of queue "exports" come before it/],
    ['blocked', /It comes after build_export .* \(ready\)/],
    ['scheduled', /It may run in .*Queue "reports" is paused/],
    ['retrying', /the warehouse does not answer/],
  ] as const)('a %s job’s page explains why it is not running', async (state, answer) => {
    await page.goto(`${desk.url}/jobs/${known.ids[state]}`)

    await eventually(() => textOf(page, '.explain .explain-summary')).toMatch(answer)
    expect(await textOf(page, '.explain h2')).toBe('Why isn’t it running?')
    expect(await textOf(page, '.page-title')).toContain(state)
  })

  test('a finished job’s page shows its result', async () => {
    await page.goto(`${desk.url}/jobs/${known.ids.succeeded}`)

    await eventually(() => textOf(page, '.panel[aria-label=Result]')).toContain('messageId: "m-1"')
  })

  test('dead letters are grouped by error', async () => {
    await page.goto(`${desk.url}/dead`)

    await eventually(() => page.locator('.group').count()).toBe(2)
    const groups = await page.locator('.group').allInnerTexts()
    expect(groups[0]).toMatch(/^3[\s\S]*DropJob[\s\S]*was declined[\s\S]*charge_card[\s\S]*in billing/)
    expect(groups[1]).toMatch(/^2[\s\S]*ECONNREFUSED[\s\S]*deliver_webhook[\s\S]*in webhooks/)
  })

  test('schedules are put in words, with the next five runs in their zone and in the reader’s', async () => {
    await page.goto(`${desk.url}/schedules`)
    const card = page.locator('.card', { hasText: 'weekly-report' })

    await card.getByRole('button', { name: 'Next runs' }).click()

    expect(await textOf(page, '.schedule-words')).toContain('At 03:00')
    expect(await textOf(page, 'thead')).toMatch(/Europe\/Berlin.*Asia\/Tokyo/)
    const runs = await card.locator('tbody tr').allInnerTexts()
    expect(runs).toHaveLength(5)
    for (const run of runs) expect(run).toMatch(/03:00[\s\S]*(10|11):00/)
  })

  test('workers show their heartbeat, their slots and what they run', async () => {
    await page.goto(`${desk.url}/workers`)

    await eventually(() => textOf(page, '.worker')).toMatch(/worker-a.* 1\/8 heartbeat .* ago .*imports email/)
    await eventually(() => textOf(page, '.worker .current-jobs')).toContain('import_orders')
  })

  test('the audit names who did what', async () => {
    await page.goto(`${desk.url}/audit`)

    await eventually(() => textOf(page, 'tbody')).toMatch(/api pause reports/)
    expect(await textOf(page, 'tbody')).toMatch(/api set schedule weekly-report/)
  })

  test('the empty bulk page says how to start one, and an unknown address shows no page', async () => {
    await page.goto(`${desk.url}/bulk`)
    await eventually(() => textOf(page, '.page-body')).toContain('No bulk actions yet')

    await page.goto(`${desk.url}/nowhere`)
    await eventually(() => textOf(page, '.page-body')).toContain('There is no such page')
    await page.goto(`${desk.url}/jobs/0190a000-0000-7000-8000-000000000000`)

    await eventually(() => textOf(page, '.page-body')).toMatch(/no(t| such| job)/i)
  })
})

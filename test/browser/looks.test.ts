// What the dashboard looks like where it once looked wrong: colours, plurals, axes, columns, and nothing cut off.

import type { Browser, Page } from 'playwright-core'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { openBrowser } from './chromium.js'
import { Desk, eventually, SLOWLY } from './desk.js'

let browser: Browser
let desk: Desk

beforeAll(async () => {
  browser = await openBrowser()
  desk = await Desk.open(browser)
  const { holdfast } = desk
  await holdfast.enqueue('send_email', null, { queue: 'mail' })
  const { id } = await holdfast.enqueue('extract', null, { queue: 'etl', delay: '2h' })
  for (let index = 0; index < 4; index++) await holdfast.enqueue('load', null, { queue: 'etl', after: [id] })
  await holdfast.enqueue('report', null, { queue: 'reports-of-the-month', delay: '1h' })
  const worker = { id: 'w', host: 'h', pid: 1, queues: ['mail'], concurrency: 1, running: 0, draining: false }
  await desk.server.store.beat({ ...worker, version: '1', types: null, jobs: [], children: null })
}, SLOWLY.timeout)

afterEach(async () => {
  await desk.closePages()
  expect(desk.takeFaults()).toEqual([])
})

afterAll(async () => {
  await desk.close()
  await browser.close()
})

/** An hour in which one job was ready and nothing else happened. */
function quietHour(): object {
  const nowMs = Math.floor(Date.now() / 10_000) * 10_000
  const empty = { running: 0, retrying: 0, scheduled: 0, blocked: 0, dead: 0 }
  const points = Array.from({ length: 90 }, (_, index) => ({
    at: new Date(nowMs - (90 - index) * 10_000).toISOString(),
    depth: { ...empty, ready: 1, oldestAgeS: index },
    ...{ enqueued: 0, claimed: 0, succeeded: 0, failed: 0, retried: 0, dead: 0, cancelled: 0, rescued: 0 },
    ...{ waitMsTotal: 0, runMsTotal: 0 },
  }))
  return { points }
}

/** Ten minutes ago another server took over. */
function oneFailover(): object {
  const at = new Date(Date.now() - 600_000).toISOString()
  const entry = { line: '1', at, actor: 'holdfast', action: 'timeline_changed', job: null, target: '2', details: null }
  return { entries: [entry], next: null }
}

async function visit(path: string, width: number): Promise<Page> {
  const page = await desk.blank({ viewport: { width, height: 900 }, expects: /willReadFrequently/ })
  await page.route('**/v1/series**', (route) => route.fulfill({ json: quietHour() }))
  await page.goto(`${desk.url}${path}`)
  return page
}

/** How many pixels of a chart have exactly the colour of a state. */
function pixelsOf(page: Page, chart: string, state: string): Promise<number> {
  return page.evaluate<number>(`(() => {
    const canvas = document.querySelector('section[aria-label="${chart}"] canvas')
    if (canvas === null) return -1
    const probe = document.createElement('span')
    probe.style.color = 'var(--state-${state})'
    document.body.append(probe)
    const wanted = getComputedStyle(probe).color.match(/[0-9.]+/g).slice(0, 3).map(Number)
    probe.remove()
    const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height)
    let count = 0
    for (let at = 0; at < data.length; at += 4) {
      if (data[at + 3] === 255 && wanted.every((value, part) => Math.abs(data[at + part] - value) <= 2)) count++
    }
    return count
  })()`)
}

/** Tables wider than their frames, and texts of tiles that do not fit. */
const CUT_OFF = `(() => {
  const isCut = ({ scrollWidth, clientWidth, scrollHeight, clientHeight }) =>
    scrollWidth > clientWidth + 1 || scrollHeight > clientHeight + 2
  const wide = [...document.querySelectorAll('.table-frame')].filter(
    (frame) => frame.firstElementChild.getBoundingClientRect().right > frame.getBoundingClientRect().right + 1,
  )
  const notes = [...document.querySelectorAll('.tile-note, .tile-value, .tile-label')].filter(isCut)
  return [...wide.map(({ className }) => className), ...notes.map(({ textContent }) => textContent)]
})()`

describe('the dashboard', SLOWLY, () => {
  test('the depth of ready jobs is drawn in the colour of ready, and nothing in that of blocked', async () => {
    const page = await visit('/', 1_280)

    await eventually(() => pixelsOf(page, 'Depth', 'ready')).toBeGreaterThan(100)
    expect(await pixelsOf(page, 'Depth', 'blocked')).toBe(0)
  })

  test('a queue has a column for each state its bar shows', async () => {
    const page = await visit('/queues', 1_280)
    const row = page.getByRole('row', { name: /etl/ })

    await eventually(() => row.getByRole('link').allTextContents()).toEqual(['etl', '0', '0', '0', '1', '4', '0'])
    expect(await row.getByRole('img').getAttribute('aria-label')).toBe('1 scheduled, 4 blocked')
    const heads = await page.getByRole('columnheader').allTextContents()
    expect(heads).toEqual(expect.arrayContaining(['Ready', 'Running', 'Retrying', 'Scheduled', 'Blocked', 'Dead']))
  })

  test('a window too narrow for these columns has what waits under the name', async () => {
    const page = await visit('/queues', 375)

    await page.getByText('1 scheduled, 4 blocked').waitFor({ state: 'visible' })
  })

  test('one worker with one slot is written in the singular', async () => {
    const page = await visit('/queues/mail', 1_280)

    await eventually(() => page.getByRole('link', { name: /^Running/ }).textContent()).toMatch(/1 worker, 1 slot$/)
  })

  test.each([360, 375, 820, 1_100, 1_240, 1_280, 1_440, 1_920])('nothing is cut off at %i pixels', async (width) => {
    for (const path of ['/', '/queues', '/queues/mail']) {
      const page = await visit(path, width)
      await page
        .locator(path === '/queues' ? '.table tbody tr' : '.tile')
        .first()
        .waitFor()

      const cut = await page.evaluate<string[]>(CUT_OFF)

      expect([path, cut]).toEqual([path, []])
    }
  })
})

test('a failover is a line on every chart, with its timeline', SLOWLY, async () => {
  const page = await desk.blank({ viewport: { width: 1280, height: 900 }, expects: /willReadFrequently/ })
  await page.route('**/v1/series**', (route) => route.fulfill({ json: quietHour() }))
  await page.route('**/v1/audit**', (route) => route.fulfill({ json: oneFailover() }))
  await page.goto(desk.url)

  const labels = () =>
    page.evaluate<string[]>(
      `[...document.querySelectorAll('.chart-canvas')].map((chart) => chart.getAttribute('aria-label'))`,
    )
  await eventually(async () => (await labels()).map((text) => / timeline 2 at /.test(text))).toEqual(
    Array(4).fill(true),
  )
  // A dashed line of the axis' colour from top to bottom, where nothing else is drawn in it.
  const dashes = await page.evaluate<number>(`(() => {
    const canvas = document.querySelector('section[aria-label="Failures"] canvas')
    const probe = document.createElement('span')
    probe.style.color = 'var(--ink-3)'
    document.body.append(probe)
    const wanted = getComputedStyle(probe).color.match(/[0-9.]+/g).slice(0, 3).map(Number)
    probe.remove()
    const { width, height } = canvas
    const { data } = canvas.getContext('2d').getImageData(0, 0, width, height)
    let most = 0
    for (let x = 0; x < width; x++) {
      let count = 0
      for (let y = 0; y < height; y++) {
        const at = 4 * (y * width + x)
        if (data[at + 3] > 200 && wanted.every((value, part) => Math.abs(data[at + part] - value) <= 24)) count++
      }
      most = Math.max(most, count)
    }
    return most / height
  })()`)
  expect(dashes).toBeGreaterThan(0.3)
})

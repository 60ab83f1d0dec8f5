// The dashboard for everybody: by keyboard alone, by listening (as far as axe can tell), and without rows that jump.

import axe from 'axe-core'
import type { Browser, Page } from 'playwright-core'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { openBrowser } from './chromium.js'
import { Desk, eventually, SLOWLY } from './desk.js'
import { fillStore, type KnownJobs } from './known-jobs.js'

let browser: Browser
let desk: Desk
let known: KnownJobs
let waiting: string

beforeAll(async () => {
  browser = await openBrowser()
  desk = await Desk.open(browser)
  await desk.holdfast.setLimit('stripe', { concurrency: 5, rate: '9/m', breaker: {} })
  await desk.holdfast.openBreaker('stripe')
  await desk.holdfast.setGroup('exports', 'acme', { weight: 3 })
  await desk.holdfast.pauseGroup('exports', 'zenith')
  const options = { queue: 'limited', group: 'acme', limits: ['stripe'] }
  for (let index = 0; index < 3; index++) waiting = (await desk.holdfast.enqueue('charge', null, options)).id
  // Last: its jobs are the newest.
  known = await fillStore(desk.holdfast)
})

afterEach(async () => {
  await desk.closePages()
  expect(desk.takeFaults()).toEqual([])
})

afterAll(async () => {
  await desk?.close()
  await browser?.close()
})

interface Violation {
  readonly id: string
  readonly impact: string | null
  readonly nodes: readonly { readonly html: string; readonly failureSummary: string }[]
}

/** What axe holds against the page as it is now, but for what is minor. */
async function violationsOf(page: Page): Promise<readonly string[]> {
  // Through the debugger, which the page's own policy does not bind.
  await page.evaluate(axe.source)
  const found = await page.evaluate<Violation[]>(
    `axe.run(document, { resultTypes: ['violations'] }).then(({ violations }) => violations)`,
  )
  return found
    .filter(({ impact }) => impact === 'serious' || impact === 'critical')
    .flatMap(({ id, nodes }) => nodes.map(({ html, failureSummary }) => `${id}: ${html} ${failureSummary}`))
}

/** The name of what has the focus, or its text. */
function focusOf(page: Page): Promise<string> {
  return page.evaluate(
    `document.activeElement.getAttribute('aria-label') ?? document.activeElement.innerText ?? document.activeElement.tagName`,
  )
}

describe('axe', SLOWLY, () => {
  test.each(['light', 'dark'] as const)('finds nothing serious on any page in the %s theme', async (colorScheme) => {
    const page = await desk.blank({ colorScheme })
    const paths = ['/', '/jobs?filter=state:dead', '/queues', '/queues/reports', '/dead', '/schedules', '/workers']
    paths.push('/limits', '/limits/stripe', '/queues/exports', `/jobs/${waiting}`)
    paths.push('/bulk', '/audit', `/jobs/${known.ids.running}`, `/jobs/${known.ids.dead}`, `/jobs/${known.ids.ready}`)

    for (const path of paths) {
      await page.goto(`${desk.url}${path}`)
      await page.locator('.page-body > :not(.waiting)').first().waitFor()

      expect([path, await violationsOf(page)]).toEqual([path, []])
    }
    await page.getByRole('button', { name: 'Cancel', exact: true }).click()
    await page.getByRole('dialog').waitFor()
    expect(['dialog', await violationsOf(page)]).toEqual(['dialog', []])
  })

  test('finds nothing serious before signing in, nor on a phone', async () => {
    const page = await desk.visit('/', { isSignedIn: false, expects: /401/, viewport: { width: 375, height: 740 } })
    await page.getByRole('heading', { name: 'Sign in to Holdfast' }).waitFor()
    expect(await violationsOf(page)).toEqual([])

    const phone = await desk.visit('/jobs', { viewport: { width: 375, height: 740 } })
    await phone.locator('tbody tr').first().waitFor()

    expect(await violationsOf(phone)).toEqual([])
  })
})

describe('the keyboard', SLOWLY, () => {
  test('shortcuts open pages, move through rows, focus the filter, and are listed', async () => {
    const page = await desk.visit('/')
    await page.locator('.tiles').waitFor()

    await page.keyboard.press('g')
    await page.keyboard.press('j')
    await page.locator('tbody tr').first().waitFor()
    await page.keyboard.press('j')
    await page.keyboard.press('j')
    await page.keyboard.press('x')
    await page.getByText('1 selected').waitFor()
    await page.keyboard.press('k')
    await page.keyboard.press('Enter')
    await page.getByRole('heading', { name: 'adhoc_report' }).waitFor()
    await page.keyboard.press('?')
    expect(await page.getByRole('dialog').textContent()).toMatch(/Keyboard shortcuts.*Overview.*Next row/)
    await page.keyboard.press('Escape')
    await page.keyboard.press('/')

    await eventually(() => focusOf(page)).toBe('Filter jobs')
    expect(new URL(page.url()).pathname).toBe('/jobs')
    await page.keyboard.type('gj')
    expect(await page.getByRole('combobox').inputValue()).toBe('gj')
  })

  test('what has the focus is marked, from the first Tab on', async () => {
    const page = await desk.visit('/queues')
    await page.locator('tbody tr').first().waitFor()

    for (let presses = 1; presses <= 12; presses++) {
      await page.keyboard.press('Tab')

      const [name, mark] = await page.evaluate<[string, string]>(`(() => {
        const style = getComputedStyle(document.activeElement)
        const isMarked = (style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) > 0) || style.boxShadow !== 'none'
        return [document.activeElement.outerHTML.slice(0, 120), isMarked ? 'marked' : 'not marked']
      })()`)
      expect([presses, name, mark]).toEqual([presses, name, 'marked'])
    }
  })

  test('a dialog keeps the focus, closes on Escape and gives it back', async () => {
    const page = await desk.visit(`/jobs/${known.ids.ready}`)
    const cancel = page.getByRole('button', { name: 'Cancel', exact: true })

    await cancel.focus()
    await page.keyboard.press('Enter')
    await page.getByRole('dialog').waitFor()
    for (let presses = 0; presses < 9; presses++) {
      await page.keyboard.press('Tab')
      // The browser's own bar may come between, never what is behind the dialog.
      const where = await page.evaluate(
        `document.activeElement === document.body || document.activeElement.closest('dialog') !== null`,
      )
      expect(where).toBe(true)
    }
    await page.keyboard.press('Escape')

    await eventually(() => page.getByRole('dialog').count()).toBe(0)
    expect(await focusOf(page)).toMatch(/Cancel/)
    expect(await desk.holdfast.get(known.ids.ready)).toMatchObject({ state: 'ready' })
  })
})

describe('live', SLOWLY, () => {
  test('a new job is announced and shown on request; no row moves under the cursor', async () => {
    const page = await desk.visit('/jobs')
    const first = page.locator('tbody tr').first()
    await first.waitFor()
    await page.locator('.live[data-status=open]').waitFor()
    const before = await page.locator('tbody tr').allInnerTexts()
    const place = await first.boundingBox()

    await desk.holdfast.enqueue('fresh_job', null, { queue: 'exports' })
    await page.getByRole('button', { name: 'Show 1 new' }).waitFor()

    expect(await page.locator('tbody tr').count()).toBe(before.length)
    expect(await first.textContent()).toContain('adhoc_report')
    expect(await first.boundingBox()).toEqual(place)
    await page.getByRole('button', { name: 'Show 1 new' }).click()
    await eventually(() => first.textContent()).toContain('fresh_job')
  })

  test('the overview’s numbers come by events, without a request of the page', async () => {
    const page = await desk.visit('/')
    const ready = page.locator('.tile', { hasText: 'Ready' })
    await page.locator('.live[data-status=open]').waitFor()
    await ready.waitFor()
    const count = async () => Number((await ready.locator('.tile-value').textContent())?.match(/\d+/)?.[0])
    const before = await count()
    // From here on only the stream can tell.
    await page.route('**/v1/queues', (route) => route.abort())

    await desk.holdfast.enqueueMany('fresh_job', [1, 2, 3], { queue: 'exports' })

    await eventually(count).toBe(before + 3)
  })
})

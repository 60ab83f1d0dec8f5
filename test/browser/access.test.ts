// Getting in, the themes, narrow screens, and where the dashboard is mounted.

import type { Browser, Page } from 'playwright-core'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { openBrowser } from './chromium.js'
import { Desk, eventually, SLOWLY } from './desk.js'
import { fillStore, type KnownJobs } from './known-jobs.js'

let browser: Browser
let desk: Desk
let known: KnownJobs

beforeAll(async () => {
  browser = await openBrowser()
  desk = await Desk.open(browser)
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

/** The colour behind everything. */
function groundOf(page: Page): Promise<string> {
  return page.evaluate('getComputedStyle(document.documentElement).backgroundColor')
}

describe('signing in', SLOWLY, () => {
  test('the printed address signs in once, leaves a cookie that scripts cannot read, and no token in the address', async () => {
    const address = `${desk.url}/?token=${desk.server.server.createToken()}`
    const page = await desk.blank({ isSignedIn: false })

    await page.goto(address)

    await page.getByRole('heading', { name: 'Overview' }).waitFor()
    expect(page.url()).toBe(`${desk.url}/`)
    const [cookie] = await page.context().cookies()
    expect(cookie).toMatchObject({ httpOnly: true, sameSite: 'Strict' })
    expect(await page.evaluate('document.cookie')).toBe('')
    const second = await desk.blank({ isSignedIn: false, expects: /401/ })
    await second.goto(address)
    await second.getByRole('heading', { name: 'Sign in to Holdfast' }).waitFor()
  })

  test('a token can be pasted, a wrong one is refused, and signing out asks again', async () => {
    const page = await desk.visit('/', { isSignedIn: false, expects: /401/ })

    await page.getByLabel('Token').fill('wrong-wrong-wrong-wrong-wrong-wrong-wrong')
    await page.getByRole('button', { name: 'Sign in' }).click()
    await page.getByText('This token is unknown').waitFor()
    await page.getByLabel('Token').fill(`${desk.url}/?token=${desk.server.server.createToken()}`)
    await page.getByRole('button', { name: 'Sign in' }).click()
    await page.getByRole('heading', { name: 'Overview' }).waitFor()
    await page.getByRole('button', { name: 'Sign out' }).click()

    await page.getByRole('heading', { name: 'Sign in to Holdfast' }).waitFor()
    expect(await page.context().cookies()).toEqual([])
  })
})

describe('the look', SLOWLY, () => {
  test('the theme follows the system until one is chosen, and the choice outlives a reload', async () => {
    const page = await desk.visit('/', { colorScheme: 'dark' })
    await page.getByRole('button', { name: 'Theme: system' }).waitFor()
    const dark = await groundOf(page)

    await page.getByRole('button', { name: 'Theme: system' }).click()
    await page.getByRole('button', { name: 'Theme: light' }).waitFor()
    await eventually(() => groundOf(page)).not.toBe(dark)
    const light = await groundOf(page)
    await page.reload()
    await page.getByRole('button', { name: 'Theme: light' }).waitFor()

    await eventually(() => groundOf(page)).toBe(light)
    await page.getByRole('button', { name: 'Theme: light' }).click()
    await eventually(() => groundOf(page)).toBe(dark)
  })

  test('no page is wider than a phone', async () => {
    const page = await desk.blank({ viewport: { width: 375, height: 740 }, hasTouch: true })
    const paths = ['/', '/jobs', '/jobs?filter=state:dead', '/queues', '/queues/reports', '/dead', '/schedules']
    paths.push('/workers', '/bulk', '/audit', `/jobs/${known.ids.running}`, `/jobs/${known.ids.dead}`)

    for (const path of paths) {
      await page.goto(`${desk.url}${path}`)
      await page.locator('.page-body > :not(.waiting)').first().waitFor()

      const [wide, main, bar] = await page.evaluate<number[]>(`[
        document.documentElement.scrollWidth,
        document.querySelector('main').scrollWidth,
        document.querySelector('.phone-bar').getBoundingClientRect().right,
      ]`)
      expect({ path, wide, main, bar }).toEqual({ path, wide: 375, main: 375, bar: 375 })
    }
    await page.getByRole('button', { name: 'More', exact: true }).tap()
    await page.getByRole('dialog').getByRole('link', { name: 'Workers' }).tap()
    await page.getByRole('heading', { name: 'Workers' }).waitFor()
  })
})

describe('mounted under a path', SLOWLY, () => {
  test('every page, file and request stays below it, also after a reload of a page within', async () => {
    const mounted = await Desk.open(browser, { basePath: '/ops/queue' })
    try {
      const { id } = await mounted.holdfast.enqueue('hello', { name: 'world' })
      const page = await mounted.blank()
      const outside: string[] = []
      page.on('request', (request) => {
        const { pathname } = new URL(request.url())
        if (!pathname.startsWith('/ops/queue/')) outside.push(pathname)
      })

      await page.goto(`${mounted.url}/`)
      await page.getByRole('link', { name: 'Jobs', exact: true }).click()
      await page.getByRole('link', { name: 'hello' }).click()
      await page.getByRole('heading', { name: 'hello' }).waitFor()
      await page.reload()
      await page.getByRole('heading', { name: 'hello' }).waitFor()

      expect(new URL(page.url()).pathname).toBe(`/ops/queue/jobs/${id}`)
      expect(outside).toEqual([])
      expect(mounted.takeFaults()).toEqual([])
    } finally {
      await mounted.close()
    }
  })
})

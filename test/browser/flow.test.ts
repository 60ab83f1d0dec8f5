// Limits, breakers and groups in the dashboard: what is shown of them, and what an operator does to them.

import type { Browser, Page } from 'playwright-core'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import type { LimitView } from '../../src/index.js'
import { dead } from '../../src/testing/store-suite/samples.js'
import { openBrowser } from './chromium.js'
import { Desk, eventually, SLOWLY } from './desk.js'
import { storeKinds } from './stores.js'

const [, , redis] = storeKinds('browser_flow')
let browser: Browser
let desk: Desk
/** Jobs of the group acme: one runs, the others wait. */
let acme: string[]
let deadId: string

const STRANGE = 'order 4711/../ü "<b>"'

beforeAll(async () => {
  browser = await openBrowser()
  desk = await Desk.open(browser, {}, await redis.open())
  const { holdfast } = desk
  await holdfast.setLimit('stripe', { concurrency: 5, rate: '100/s', breaker: { of: 4, cooldown: '5m' } })
  await holdfast.setLimit('mailer', { concurrency: { min: 2, max: 50 } })
  await holdfast.setQueue('reports', { concurrency: 8, groups: { concurrency: 1 } })
  await holdfast.setQueue('orders', { groups: { ordered: true, onDead: 'stop' } })
  acme = []
  for (let index = 0; index < 4; index++) {
    const options = { queue: 'reports', group: 'acme', limits: ['stripe'] }
    acme.push((await holdfast.enqueue(`report_${index}`, null, options)).id)
  }
  await holdfast.enqueue('report', null, { queue: 'reports', group: 'zenith' })
  for (let index = 0; index < 2; index++) await holdfast.enqueue('apply', null, { queue: 'orders', group: STRANGE })
  await claim('reports', 1)
  const [job] = await claim('orders', 1)
  deadId = job!.id
  await desk.server.store.settle([dead(job!)])
}, SLOWLY.timeout)

afterEach(async () => {
  await desk.closePages()
  expect(desk.takeFaults()).toEqual([])
})

afterAll(async () => {
  await desk?.close()
  await browser?.close()
  await redis.close()
})

async function claim(queue: string, limit: number) {
  const leaseMs = 600_000
  return (await desk.server.store.claim({ queues: [{ queue, limit }], types: null, worker: 'w', leaseMs })).jobs
}

async function limitNow(name: string): Promise<LimitView | undefined> {
  return (await desk.holdfast.limits()).find((limit) => limit.name === name)
}

function rowOf(page: Page, text: string) {
  return page.locator('tbody tr', { hasText: text })
}

/** Something that is waited for until it is given. */
function signal() {
  let give = () => {}
  const given = new Promise<void>((resolve) => {
    give = resolve
  })
  return { given, give }
}

describe('limits', SLOWLY, () => {
  test('are listed with how much of each is used', async () => {
    const page = await desk.visit('/limits')

    await eventually(() => rowOf(page, 'stripe').textContent()).toMatch(/1 \/ 5[\s\S]*100\/s[\s\S]*tokens[\s\S]*closed/)
    expect(await rowOf(page, 'mailer').textContent()).toMatch(/0 \/ ~2/)
    expect(await rowOf(page, 'queue:reports').textContent()).toMatch(/1 \/ 8[\s\S]*its queue/)
    expect(await page.getByRole('progressbar', { name: 'Running of stripe' }).getAttribute('aria-valuenow')).toBe('20')
  })

  test('a breaker is held open, held closed and released, each after a question', async () => {
    const page = await desk.visit('/limits/stripe')
    const press = async (button: string, verb: string) => {
      await page.getByRole('button', { name: button, exact: true }).click()
      await page.getByRole('dialog').getByRole('button', { name: verb }).click()
      await eventually(() => page.getByRole('dialog').count()).toBe(0)
    }

    await page.getByRole('button', { name: 'Force open', exact: true }).click()
    await page.getByRole('button', { name: 'Keep as it is' }).click()
    expect((await limitNow('stripe'))?.breaker?.forced).toBeNull()
    await press('Force open', 'Hold it open')
    await page.getByText('Held open by an operator').waitFor()
    expect((await limitNow('stripe'))?.breaker?.forced).toBe('open')
    await press('Force closed', 'Hold it closed')
    await page.getByText('Held closed by an operator').waitFor()
    await press('Release', 'Release the breaker')

    await page.getByText(/^Closed/).waitFor()
    expect((await limitNow('stripe'))?.breaker).toMatchObject({ forced: null, position: 'closed' })
  })

  test('an open breaker is shown with its probe, and in the overview', async () => {
    await desk.holdfast.setLimit('bank', { breaker: { of: 2, cooldown: '5m' } })
    const page = await desk.visit('/limits/bank')
    await page.locator('.live[data-status=open]').waitFor()
    await page.getByText('It has never opened').waitFor()

    await desk.server.store.observe([{ limit: 'bank', ok: 0, failed: 3, overloaded: 0 }])

    await eventually(() => page.locator('.breaker-panel').textContent()).toMatch(/Open since .*Probed in [34]m/)
    await page.goto(`${desk.url}/`)
    const warning = page.locator('.warning', { hasText: 'breaker of limit bank is open' })
    await warning.getByRole('link', { name: 'Open limit' }).click()
    await page.getByRole('heading', { name: 'bank' }).waitFor()
  })

  test('the page of a limit is read again when the stream says so, also while a read is under way', async () => {
    await desk.holdfast.setLimit('told', { breaker: { of: 2, cooldown: '5m' } })
    const page = await desk.blank()
    // No time passes for the page: nothing is due.
    await page.clock.setFixedTime(Date.now())
    await page.goto(`${desk.url}/limits/told`)
    await page.locator('.live[data-status=open]').waitFor()
    await page.getByText('It has never opened').waitFor()
    await desk.server.store.observe([{ limit: 'told', ok: 0, failed: 3, overloaded: 0 }])
    await page.getByText(/^Open since/).waitFor()

    // A read is answered with what was before the next change, but after the event about that.
    const isRead = signal()
    const isTold = signal()
    await page.route(
      '**/v1/limits/told',
      async (route) => {
        const response = await route.fetch()
        isRead.give()
        await isTold.given
        await route.fulfill({ response })
      },
      { times: 1 },
    )
    await page.keyboard.press('r')
    await isRead.given
    const warnings = page.waitForRequest('**/v1/warnings')
    await desk.holdfast.closeBreaker('told')
    await warnings
    isTold.give()

    await page.getByText('Held closed by an operator').waitFor()
  })

  test('the history of a breaker is a bar and a list, newest first', async () => {
    await desk.holdfast.setLimit('moved', { breaker: {} })
    const page = await desk.blank()
    const nowMs = Date.now()
    const at = (minutes: number) => new Date(nowMs - minutes * 60_000).toISOString()
    await page.route('**/v1/limits/moved', async (route) => {
      const limit = await (await route.fetch()).json()
      limit.breaker.history = [
        { at: at(1.5), from: 'half_open', to: 'closed', ok: 3, failed: 0, by: null },
        { at: at(2.5), from: 'open', to: 'half_open', ok: 0, failed: 0, by: null },
        { at: at(9.5), from: 'closed', to: 'open', ok: 0, failed: 0, by: 'key:ada' },
      ]
      await route.fulfill({ json: limit })
    })
    await page.goto(`${desk.url}/limits/moved`)

    const moves = page.locator('.breaker-move')
    await eventually(() => moves.count()).toBe(3)
    expect(await moves.first().textContent()).toMatch(/closed[\s\S]*from half open[\s\S]*0 of 3 failed[\s\S]*1m ago/)
    expect(await moves.last().textContent()).toMatch(/open[\s\S]*by key:ada[\s\S]*for 7m/)
    expect(await page.locator('.breaker-bar').getAttribute('aria-label')).toMatch(
      /^open for 7m, half open for 1m, closed for 1m/,
    )
  })

  test('who waits for a limit is shown with the number of ready jobs', async () => {
    const page = await desk.visit('/limits/stripe')

    await eventually(() => rowOf(page, 'reports').textContent()).toMatch(/reports\s*stripe\s*3/)
  })

  test('a limit is created, with mistakes named first; then changed, and removed', async () => {
    const page = await desk.visit('/limits')
    await page.getByRole('button', { name: 'New limit' }).click()
    const dialog = page.getByRole('dialog')
    const save = dialog.getByRole('button', { name: 'Create limit' })
    await dialog.getByLabel('Name').fill('no blanks')
    await dialog.getByText('a letter or digit, then').waitFor()
    await dialog.getByLabel('Name').fill('provider/eu')
    await dialog.getByLabel('Concurrency', { exact: true }).fill('0')
    await dialog.getByText('a whole number from 1 to 100,000').waitFor()
    expect(await save.isDisabled()).toBe(true)
    await dialog.getByLabel('Concurrency', { exact: true }).fill('12')
    await dialog.getByLabel('Rate', { exact: true }).fill('5/30s')
    await dialog.getByText('Breaker: hold jobs back').click()
    await dialog.getByLabel('Opens at').fill('25')
    await save.click()
    await page.getByRole('heading', { name: 'provider/eu' }).waitFor()

    expect(await limitNow('provider/eu')).toMatchObject({
      concurrency: 12,
      rate: { limit: 5, perMs: 30_000, burst: 5, counts: 'starts' },
      breaker: { settings: { failures: 0.25, of: 20 } },
    })
    await page.getByRole('button', { name: 'Edit' }).click()
    await page.getByText('Find the concurrency by itself').click()
    await dialog.getByLabel('Smallest concurrency').fill('3')
    await dialog.getByLabel('Largest concurrency').fill('9')
    await dialog.getByRole('button', { name: 'Save limit' }).click()
    await eventually(async () => (await limitNow('provider/eu'))?.adaptive).toEqual({ min: 3, max: 9 })
    expect((await limitNow('provider/eu'))?.breaker?.settings?.failures).toBe(0.25)
    await page.getByRole('button', { name: 'Remove' }).click()
    await dialog.getByRole('button', { name: 'Remove the limit' }).click()
    await eventually(() => limitNow('provider/eu')).toBeUndefined()
    await eventually(() => new URL(page.url()).pathname).toBe('/limits')
  })

  test('who may only read is offered nothing to change', async () => {
    const secret = await desk.server.key(['read'])
    const page = await desk.visit('/', { isSignedIn: false, expects: /401/ })
    await page.getByLabel(/key|token/i).fill(secret)
    await page.keyboard.press('Enter')
    await page.locator('.tiles').waitFor()

    for (const path of ['/limits', '/limits/stripe', '/queues/orders']) {
      await page.goto(`${desk.url}${path}`)
      await page.locator('.table, .figures').first().waitFor()
      const buttons = page.getByRole('button', {
        name: /New limit|Edit|Remove|Force|Release|flow control|Resume|Settings/,
      })
      expect([path, await buttons.count()]).toEqual([path, 0])
    }
  })
})

describe('groups', SLOWLY, () => {
  test('of a queue that has none are not shown while they are awaited', async () => {
    await desk.holdfast.enqueue('x', null, { queue: 'plain' })
    const page = await desk.blank()
    const asked = page.waitForRequest('**/v1/queues/plain/groups?*')
    const isSeen = signal()
    await page.route('**/v1/queues/plain/groups?*', async (route) => {
      await isSeen.given
      await route.continue()
    })
    await page.goto(`${desk.url}/queues/plain`)
    await asked
    await page.getByRole('button', { name: 'Settings', exact: true }).waitFor()

    expect(await page.getByRole('heading', { name: 'Groups' }).count()).toBe(0)
    isSeen.give()
  })

  test('are listed on the page of their queue, and paused, resumed and given settings', async () => {
    const page = await desk.visit('/queues/reports')
    const row = rowOf(page, 'zenith')
    await eventually(() => rowOf(page, 'acme').textContent()).toMatch(/acme\s*3\s*1/)
    const find = async () => (await desk.holdfast.groups('reports', { prefix: 'zenith' })).groups[0]

    await row.getByRole('button', { name: 'Pause group zenith' }).click()
    await page.getByRole('button', { name: 'Pause the group' }).click()
    await eventually(async () => (await find())?.paused).toBe(true)
    // Those that need somebody come first.
    await eventually(() => page.locator('.group-table tbody tr').first().textContent()).toMatch(/zenith[\s\S]*paused/)
    await row.getByRole('button', { name: 'Resume group zenith' }).click()
    await page.getByRole('button', { name: 'Resume the group' }).click()
    await eventually(async () => (await find())?.paused).toBe(false)
    await row.getByRole('button', { name: 'Settings of group zenith' }).click()
    await page.getByRole('dialog').getByLabel('Concurrency').fill('4')
    await page.getByRole('dialog').getByLabel('Weight').fill('3')
    await page.getByRole('button', { name: 'Save settings' }).click()

    await eventually(async () => (await find())?.override).toEqual({ concurrency: 4, rate: null, weight: 3 })
    await eventually(() => row.textContent()).toContain('4 at a time, weight 3')
  })

  test('one that stopped says by which job, and goes on when it is resumed, whatever its name', async () => {
    const page = await desk.visit('/queues/orders')
    const row = rowOf(page, STRANGE)
    await row.getByRole('link', { name: /by dead job/ }).click()
    await page.getByRole('heading', { name: 'apply' }).waitFor()
    expect(page.url()).toContain(deadId)
    await page.goto(`${desk.url}/`)
    await page.locator('.warning', { hasText: 'stopped because a job died' }).getByRole('link').click()

    await row.getByRole('button', { name: /^Resume group/ }).click()
    await page.getByRole('button', { name: 'Resume the group' }).click()

    await eventually(async () => (await desk.holdfast.groups('orders')).groups[0]).toMatchObject({
      group: STRANGE,
      paused: false,
      stoppedBy: null,
    })
  })

  test('are found by the beginning of their names', async () => {
    const groups = Array.from({ length: 12 }, (_, index) => `tenant-${index}`)
    for (const group of [...groups, '..']) await desk.holdfast.enqueue('x', null, { queue: 'tenants', group })
    const page = await desk.visit('/queues/tenants')
    const rows = page.locator('.group-table tbody tr')
    await eventually(() => rows.count()).toBe(13)

    await page.getByLabel('Find a group by the beginning of its name').fill('tenant-1')

    await eventually(() => rows.count()).toBe(3)
    await page.getByLabel('Find a group by the beginning of its name').fill('..')
    await eventually(() => rows.count()).toBe(1)
    await page.getByRole('button', { name: 'Pause group ..' }).click()
    await page.getByRole('button', { name: 'Pause the group' }).click()
    await eventually(async () => (await desk.holdfast.groups('tenants')).groups[0]).toMatchObject({
      group: '..',
      paused: true,
    })
  })
})

describe('a queue and a job', SLOWLY, () => {
  test('flow control of a queue is shown and changed; its other settings stay', async () => {
    await desk.holdfast.setQueue('shaped', { maxAttempts: 7, retention: '2d', concurrency: 3 })
    const page = await desk.visit('/queues/shaped')
    const flow = page.getByRole('region', { name: 'Flow control' })
    await eventually(() => flow.textContent()).toMatch(/Concurrency\s*3/)

    await page.getByRole('button', { name: 'Change flow control' }).click()
    const dialog = page.getByRole('dialog')
    await dialog.getByLabel('Concurrency').first().fill('')
    await dialog.getByLabel('Most ready jobs', { exact: true }).fill('500')
    await dialog.getByLabel('Aging').fill('2m')
    await dialog.getByText('Ordered: one job at a time').click()
    await dialog.getByLabel('When a job dies').selectOption('stop')
    await dialog.getByRole('button', { name: 'Save flow control' }).click()

    await eventually(() => flow.textContent()).toMatch(
      /500, then an enqueue is refused[\s\S]*a dead job stops its group/,
    )
    const settings = (await desk.holdfast.queues()).find(({ name }) => name === 'shaped')?.settings
    expect(settings).toMatchObject({
      limits: { maxAttempts: 7 },
      retentionMs: 172_800_000,
      flow: { concurrency: null, maxDepth: 500, agingMs: 120_000, groups: { ordered: true, onDead: 'stop' } },
    })
  })

  test('a job that waits shows why, its neighbours and its limits', async () => {
    const page = await desk.visit(`/jobs/${acme[2]}`)
    const lines = page.locator('.neighbour')

    await eventually(() => lines.allInnerTexts()).toEqual([
      expect.stringMatching(/report_0[\s\S]*running/),
      expect.stringMatching(/report_1[\s\S]*ready/),
      expect.stringMatching(/report_2[\s\S]*this job/),
      expect.stringMatching(/report_3[\s\S]*ready/),
    ])
    expect(await page.locator('.explain').textContent()).toContain('1 of 1 jobs of group "acme" are running')
    expect(await page.locator('.job-limits').textContent()).toMatch(
      /queue:reports[\s\S]*1 \/ 8[\s\S]*stripe[\s\S]*1 \/ 5/,
    )
    const facts = await page.locator('.job-aside').textContent()
    expect(facts).toMatch(/Group\s*acme[\s\S]*Limits\s*stripe/)
    await page.locator('.neighbour').nth(1).getByRole('link').click()
    await page.getByRole('heading', { name: 'report_1' }).waitFor()
  })
})

test('no page about flow control is wider than a phone', SLOWLY, async () => {
  await desk.holdfast.openBreaker('stripe')
  const page = await desk.blank({ viewport: { width: 375, height: 740 }, hasTouch: true })

  for (const path of ['/limits', '/limits/stripe', '/queues/reports', '/queues/orders', `/jobs/${acme[2]}`]) {
    await page.goto(`${desk.url}${path}`)
    await page.locator('.breaker, .group-table, .neighbours').first().waitFor()

    const width = await page.evaluate<number>(`document.querySelector('main').scrollWidth`)
    expect([path, width]).toEqual([path, 375])
  }
  await desk.holdfast.releaseBreaker('stripe')
})

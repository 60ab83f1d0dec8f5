// What an operator does in the dashboard, in a real browser, and what becomes of it in the store.

import type { Browser, Page } from 'playwright-core'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { openBrowser } from './chromium.js'
import { Desk, eventually, SLOWLY, until } from './desk.js'
import { deliverWebhook, fillStore, type KnownJobs } from './known-jobs.js'
import { storeKinds } from './stores.js'

let browser: Browser
let desk: Desk
let known: KnownJobs

beforeAll(async () => {
  browser = await openBrowser()
})

const [, , redis] = storeKinds('browser_operate')

beforeEach(async () => {
  desk = await Desk.open(browser, {}, await redis.open())
  known = await fillStore(desk.holdfast)
})

afterEach(async () => {
  await desk.closePages()
  const faults = desk.takeFaults()
  await desk.close()
  expect(faults).toEqual([])
})

afterAll(async () => {
  await browser?.close()
  await redis.close()
})

function rowCount(page: Page): Promise<number> {
  return page.locator('tbody tr[data-row]').count()
}

async function auditOf(action: string): Promise<readonly unknown[]> {
  const { entries } = await desk.holdfast.audit({ action })
  return entries
}

describe('the filter bar', SLOWLY, () => {
  test('each kind of term narrows the list, and the address keeps it', async () => {
    const page = await desk.visit('/jobs')
    const bar = page.getByRole('combobox', { name: 'Filter jobs' })
    const matches: readonly (readonly [filter: string, count: number])[] = [
      ['state:dead', 5],
      ['state:dead,retrying', 6],
      ['-state:dead', 14],
      ['queue:exports', 5],
      ['type:*_export', 5],
      ['type:*_export -state:blocked', 4],
      ['tag:eu', 4],
      ['tag:eu -tag:us state:dead', 3],
      ['payload.customer.id:42', 1],
      ['error:"econnrefused"', 2],
      ['reason:dropped', 3],
      ['attempt:>0 state:retrying', 1],
      ['priority:>=7', 2],
      ['key:stock:eu', 1],
      ['created:<1h', 19],
      ['created:>1h', 0],
      ['worker:worker-a*', 9],
    ]

    for (const [filter, count] of matches) {
      await bar.fill(filter)
      await bar.press('Escape')
      await bar.press('Enter')

      await eventually(async () => [filter, await rowCount(page)]).toEqual([filter, count])
      expect(new URL(page.url()).searchParams.get('filter')).toBe(filter)
    }
    await page.goto(`${desk.url}/jobs?filter=state%3Adead+tag%3Aus`)
    await eventually(() => rowCount(page)).toBe(2)
    expect(await bar.inputValue()).toBe('state:dead tag:us')
    await page.goBack()
    await eventually(() => bar.inputValue()).toBe('worker:worker-a*')
  })

  test('an invalid filter is refused with the position of the mistake', async () => {
    const page = await desk.visit('/jobs?filter=queue:email+staet:dead', { expects: /400/ })

    const problem = page.locator('.filter-problem')
    await problem.waitFor()

    expect(await problem.textContent()).toMatch(/staet/)
    expect(await page.locator('.filter-problem mark').textContent()).toBe('staet:dead')
    expect(await page.getByRole('combobox').getAttribute('aria-invalid')).toBe('true')
    expect(await rowCount(page)).toBe(0)
  })

  test('keys and values are offered while typing, and a state is one press away', async () => {
    const page = await desk.visit('/jobs')
    const bar = page.getByRole('combobox')

    await bar.pressSequentially('queue:exp')
    await page.getByRole('option', { name: /exports/ }).waitFor()
    await bar.press('ArrowDown')
    await bar.press('Enter')
    await eventually(() => bar.inputValue()).toMatch(/^queue:exports/)
    await bar.press('Escape')
    await bar.press('Enter')
    await eventually(() => rowCount(page)).toBe(5)
    await page
      .getByRole('group', { name: 'States' })
      .getByRole('button', { name: /blocked/ })
      .click()

    await eventually(() => rowCount(page)).toBe(1)
    expect(await bar.inputValue()).toBe('state:blocked queue:exports')
  })
})

describe('bulk actions', SLOWLY, () => {
  test('dead jobs are requeued by filter: counted first, done, shown with their result and in the audit', async () => {
    const payloads = Array.from({ length: 60 }, (_, n) => ({ n }))
    await desk.holdfast.enqueueMany(deliverWebhook, payloads)
    const dead = () => desk.holdfast.count({ filter: 'state:dead queue:webhooks' })
    await until(async () => (await dead()).count === 62)
    await known.worker.stop()
    const page = await desk.visit('/jobs?filter=state:dead+queue:webhooks')
    await eventually(() => rowCount(page)).toBe(50)

    await page.getByRole('checkbox', { name: 'Select all jobs shown' }).check()
    await page.getByRole('button', { name: 'All 62 matching' }).click()
    await page.getByRole('button', { name: 'Requeue', exact: true }).click()
    await page.getByText('62 jobs match').waitFor()
    expect(await dead()).toMatchObject({ count: 62 })
    await page.getByRole('button', { name: 'Requeue 62 jobs' }).click()

    await page.getByRole('heading', { name: 'Requeue: done' }).waitFor()
    expect(await page.getByRole('dialog').textContent()).toContain('62 of 62 jobs requeued')
    expect(await desk.holdfast.count({ filter: 'queue:webhooks state:ready' })).toMatchObject({ count: 62 })
    await page.getByRole('dialog').getByRole('link', { name: 'Bulk actions' }).click()
    await eventually(() => page.locator('.card').allInnerTexts()).toEqual([
      expect.stringMatching(/requeue[\s\S]*done[\s\S]*by admin[\s\S]*queue:webhooks[\s\S]*62 of 62 jobs requeued/),
    ])
    await page.goto(`${desk.url}/audit`)
    await eventually(() => page.locator('tbody').textContent()).toMatch(/admin.*bulk/)
  })

  test('a group of dead letters is requeued at the chosen rate', async () => {
    const page = await desk.visit('/dead')
    const group = page.locator('.group', { hasText: 'ECONNREFUSED' })

    await group.getByRole('button', { name: 'Requeue…' }).click()
    await page.getByText('2 jobs match').waitFor()
    await page
      .getByRole('radio', { name: '10/s' })
      .or(page.getByRole('button', { name: '10/s' }))
      .first()
      .click()
    await page.getByRole('button', { name: 'Requeue 2 jobs' }).click()

    await page.getByRole('heading', { name: 'Requeue: done' }).waitFor()
    expect(await page.getByRole('dialog').textContent()).toContain('2 of 2 jobs requeued · 10/s')
    const [bulk] = await desk.holdfast.bulks()
    expect(bulk).toMatchObject({ action: 'requeue', perSecond: 10, done: 2, by: 'admin' })
    expect(await auditOf('start bulk')).toHaveLength(1)
  })

  test('only the selected jobs are changed', async () => {
    const page = await desk.visit('/jobs?filter=state:dead+queue:billing')
    await eventually(() => rowCount(page)).toBe(3)

    await page
      .getByRole('checkbox', { name: /^Select charge_card/ })
      .first()
      .check()
    await page.getByRole('button', { name: 'Discard', exact: true }).click()
    await page.getByRole('button', { name: 'Discard 1 job' }).click()
    await page.getByText('1 job discarded').waitFor()

    expect(await desk.holdfast.count({ filter: 'state:dead queue:billing' })).toMatchObject({ count: 2 })
    expect(await desk.holdfast.count({ filter: 'state:cancelled queue:billing' })).toMatchObject({ count: 1 })
  })
})

describe('one job, one queue, one schedule', SLOWLY, () => {
  test('cancelling a running job fires its handler’s signal, and the page shows it cancelled', async () => {
    const page = await desk.visit(`/jobs/${known.ids.running}`)

    await page.getByRole('button', { name: 'Cancel', exact: true }).click()
    await page.getByRole('dialog').getByRole('button', { name: 'Cancel the job' }).click()

    await page.locator('.page-title .state[data-state=cancelled]').waitFor()
    expect(known.stopped.reason).toBe('job_cancelled')
    expect(await desk.holdfast.get(known.ids.running)).toMatchObject({ state: 'cancelled' })
  })

  test('a dead job is requeued from its page, a scheduled one run now', async () => {
    const page = await desk.visit(`/jobs/${known.ids.scheduled}`)

    await page.getByRole('button', { name: 'Run now' }).click()
    await page.locator('.page-title .state[data-state=ready]').waitFor()
    await page.goto(`${desk.url}/jobs/${known.ids.dead}`)
    await page.getByRole('button', { name: 'Requeue' }).click()

    // Its handler drops it again; the story tells both lives.
    await eventually(async () => (await desk.holdfast.get(known.ids.dead))?.attempts.length).toBe(2)
    await eventually(() => page.locator('.panel[aria-label=History]').textContent()).toMatch(/[Rr]equeued/)
  })

  test('a schedule runs now, is paused and resumed', async () => {
    const page = await desk.visit('/schedules')

    await page.getByRole('button', { name: 'Pause weekly-report' }).click()
    await page.getByRole('button', { name: 'Resume weekly-report' }).waitFor()
    expect((await desk.holdfast.schedules()).find(({ name }) => name === 'weekly-report')).toMatchObject({
      paused: true,
    })
    await page.getByRole('button', { name: 'Resume weekly-report' }).click()
    await page.getByRole('button', { name: 'Pause weekly-report' }).waitFor()
    await page.getByRole('button', { name: 'Run now: weekly-report' }).click()

    await page.getByRole('heading', { name: 'weekly_report' }).waitFor()
    expect(await desk.holdfast.count({ filter: 'type:weekly_report' })).toMatchObject({ count: 3 })
  })

  test('a queue opens from its row and its settings are changed, whatever its name may hold', async () => {
    const name = 'team/mail:eu@example.com'
    await desk.holdfast.enqueue('hello', null, { queue: name })
    const page = await desk.visit('/queues')

    await page.getByRole('link', { name, exact: true }).click()
    await page.getByRole('heading', { name, exact: true }).waitFor()
    await page.getByRole('button', { name: 'Settings' }).click()
    await page.getByRole('textbox', { name: 'Attempts' }).fill('7')
    await page.getByRole('button', { name: 'Save settings' }).click()

    await eventually(() => page.locator('.page-body').textContent()).toMatch(/Attempts\s*7/)
    await page.reload()
    // Not the one of the navigation, which is there before the page is.
    await page.locator('.page-actions').getByRole('link', { name: 'Jobs', exact: true }).click()
    await eventually(() => rowCount(page)).toBe(1)
  })

  test('a user limited to a queue cannot change its retention, but the rest', async () => {
    await desk.holdfast.setQueue('tenant', { retention: '30d' })
    const scopes = ['read', 'operate'] as const
    const { secret } = await desk.holdfast.createKey({ name: 'tenant', scopes, queues: ['tenant'] })
    const page = await desk.visit('/queues/tenant', { isSignedIn: false, expects: /401/ })
    await page.getByLabel('Token').fill(secret)
    await page.getByRole('button', { name: 'Sign in' }).click()

    await page.getByRole('button', { name: 'Settings' }).click()
    await page.getByRole('textbox', { name: 'Attempts' }).fill('7')
    expect(await page.getByRole('textbox', { name: 'Finished jobs kept' }).count()).toBe(0)
    await page.getByRole('button', { name: 'Save settings' }).click()

    await eventually(() => page.locator('.page-body').textContent()).toMatch(/Attempts\s*7/)
    const set = (await desk.holdfast.queues()).find(({ name }) => name === 'tenant')!.settings
    expect(set).toEqual({ limits: { maxAttempts: 7 }, retentionMs: 30 * 86_400_000 })
  })

  test('a queue is paused after a question, and resumed', async () => {
    const page = await desk.visit('/queues')

    await page.getByRole('button', { name: 'Pause exports' }).click()
    await page.getByText('4 ready jobs will wait').waitFor()
    await page.getByRole('button', { name: 'Pause the queue' }).click()
    await page.getByRole('button', { name: 'Resume exports' }).click()

    await page.getByRole('button', { name: 'Pause exports' }).waitFor()
    expect(await auditOf('resume')).toHaveLength(1)
  })
})

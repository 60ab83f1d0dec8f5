// More than two hundred hostile strings in every field that a page renders: none becomes anything but text.

import type { Browser, Page } from 'playwright-core'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { readSegment } from '../../dashboard/src/links.js'
import { DropJob, defineJob, type HoldfastError } from '../../src/index.js'
import { openBrowser } from './chromium.js'
import { Desk, eventually, SLOWLY, until } from './desk.js'
import { HOSTILE } from './hostile-strings.js'

/** What the library takes as a tag, a key or an actor: printable and of some length. */
const PLAIN = HOSTILE.filter((text) => text.length <= 100 && /^[^\p{Cc}\p{Cs}]+$/u.test(text))
const EVIL_NAMES = ['constructor', 'toString', 'hasOwnProperty', 'javascript:alert', 'valueOf', '0']

let browser: Browser
let desk: Desk
/** Jobs that have all the strings among them. */
const finished: string[] = []

/** A trap for whatever runs, and for what of the page could run when pressed. */
const TRAP = `
  window.ranCount = 0
  window.ran = () => { window.ranCount++ }
`
const FOUND = `({
  ran: window.ranCount,
  ownProperty: ({}).ran ?? null,
  scripts: [...document.querySelectorAll('script')].filter(({ src }) => !src.startsWith(location.origin)).length,
  links: [...document.querySelectorAll('[href], [src], [action], [srcset], [data]')]
    .flatMap((each) => ['href', 'src', 'action', 'srcset', 'data'].map((name) => each.getAttribute(name)))
    .filter((value) => value !== null && /^[^a-z#/.]*(javascript|data|vbscript|blob|file):/i.test(value)),
  handlers: [...document.querySelectorAll('*')]
    .filter((each) => each.getAttributeNames().some((name) => name.startsWith('on'))).length,
  foreign: document.querySelectorAll('iframe, object, embed, base:not([href="/"]), style, meta[http-equiv], img').length,
  root: document.querySelector('main') !== null,
})`
const NOTHING = { ran: 0, ownProperty: null, scripts: 0, links: [], handlers: 0, foreign: 0, root: true }

beforeAll(async () => {
  browser = await openBrowser()
  desk = await Desk.open(browser)
  await fill()
}, 120_000)

afterEach(async () => {
  await desk.closePages()
  expect(desk.takeFaults()).toEqual([])
})

afterAll(async () => {
  await desk?.close()
  await browser?.close()
})

/** Several to a job, or visiting them all would take a minute. */
const CHUNK = 8

interface Texts {
  readonly texts: readonly string[]
}

async function fill(): Promise<void> {
  const { holdfast } = desk
  const often = defineJob<Texts>('fails_often', {
    queue: 'hostile',
    retry: { backoff: 'fixed', base: '1ms', jitter: false },
  })
  const once = defineJob<Texts>('dies', { queue: 'dying' })
  const worker = holdfast.worker({
    concurrency: 20,
    handlers: [
      often.handle(async ({ texts }, ctx) => {
        ctx.progress(texts.join(' '))
        const text = texts[ctx.attempt - 1]
        if (text === undefined) return { texts, named: Object.fromEntries(texts.map((each) => [each, each])) }
        ctx.log(text)
        throw errorOf(text, new Error(text))
      }),
      once.handle(async ({ texts: [text = ''] }) => {
        throw errorOf(text, new DropJob(text))
      }),
    ],
  })
  for (let from = 0; from < HOSTILE.length; from += CHUNK) {
    const texts = HOSTILE.slice(from, from + CHUNK)
    const tags = texts.filter((text) => PLAIN.includes(text))
    const idempotencyKey = { key: `${from} ${tags.join(' ')}`.slice(0, 200), for: '1h' } as const
    const payload = { texts, named: Object.fromEntries(texts.map((text) => [text, { [text]: text }])) }
    finished.push((await holdfast.enqueue(often, payload, { tags, idempotencyKey })).id)
  }
  for (const text of HOSTILE)
    await holdfast.enqueue(once, { texts: [text] }, PLAIN.includes(text) ? { tags: [text] } : {})
  await worker.start()
  await until(async () => (await holdfast.count({ filter: 'state:succeeded' })).count === finished.length)
  await until(async () => (await holdfast.count({ filter: 'state:dead' })).count === HOSTILE.length)
}

function errorOf(text: string, error: Error): Error {
  error.stack = `${text}\n    at ${text} (${text}:1:1)\n    at ran (javascript:ran():1:1)`
  return Object.assign(error, { code: text })
}

/** Goes to a page without loading it anew, as a link does, and gives what is found there once `isShown` is true. */
async function look(page: Page, path: string, isShown: string): Promise<unknown> {
  return page.evaluate(`new Promise((resolve, reject) => {
    history.pushState(null, '', ${JSON.stringify(path)})
    dispatchEvent(new PopStateEvent('popstate'))
    const endsAt = Date.now() + 50_000
    const again = () => {
      if (${isShown}) resolve(${FOUND})
      else if (Date.now() > endsAt) reject(new Error('never shown: ' + location.href))
      else setTimeout(again, 5)
    }
    again()
  })`)
}

async function openTrap(expects?: RegExp): Promise<Page> {
  const page = await desk.blank(expects === undefined ? {} : { expects })
  await page.addInitScript(TRAP)
  await page.goto(`${desk.url}/`)
  await page.locator('.tiles').waitFor()
  return page
}

describe('hostile text', SLOWLY, () => {
  test('there is enough of it, and no two are alike', () => {
    expect(HOSTILE.length).toBeGreaterThan(200)
    expect(new Set(HOSTILE).size).toBe(HOSTILE.length)
  })

  test('the trap catches code that runs', async () => {
    const page = await openTrap()

    await page.evaluate(
      `document.querySelector('main').insertAdjacentHTML('beforeend', '<a href="javascript:ran()" onclick="x">x</a>'), ran()`,
    )

    expect(await page.evaluate(FOUND)).toMatchObject({ ran: 1, links: ['javascript:ran()'], handlers: 1 })
    desk.takeFaults()
  })

  test('payload, result, errors, stacks, tags, keys, log and progress of a job’s page are text', async () => {
    const page = await openTrap()

    for (const id of finished) {
      const isShown = `document.querySelector('.job-main .panel[aria-label=Result]') !== null && document.body.innerText.includes(${JSON.stringify(id)})`

      expect([id, await look(page, `/jobs/${id}`, isShown)]).toEqual([id, NOTHING])
    }
  })

  test('the rows of the list, opened too, and the groups of dead letters are text', async () => {
    const page = await openTrap()
    await page.goto(`${desk.url}/jobs?filter=state:dead`)
    const rows = () => page.locator('tbody tr[data-row]').count()
    for (let count = 50; count <= 200; count += 50) {
      await eventually(rows).toBe(count)
      if (count < 200) await page.getByRole('button', { name: 'Load older jobs' }).click()
    }
    const expanders = await page.locator('[data-expand]').count()
    expect(await page.evaluate(FOUND)).toEqual(NOTHING)
    for (let row = 0; row < expanders; row += 60) {
      await page.locator('[data-expand]').nth(row).click()
      expect(await page.evaluate(FOUND)).toEqual(NOTHING)
    }

    await page.goto(`${desk.url}/dead`)
    await page.locator('.group').first().waitFor()

    expect(await page.evaluate(FOUND)).toEqual(NOTHING)
  })

  test('actors in the audit and filters of bulk actions are text', async () => {
    const { holdfast } = desk
    for (const text of PLAIN) await holdfast.pause('dying', { by: text })
    for (const text of PLAIN.slice(0, 40)) {
      await holdfast.bulk({ action: 'cancel', filter: { errors: [[text]] } }, { by: text })
    }
    const page = await openTrap()

    await page.goto(`${desk.url}/audit`)
    await page.locator('tbody tr').nth(99).waitFor()
    expect(await page.evaluate(FOUND)).toEqual(NOTHING)
    await page.getByRole('button', { name: 'Load older lines' }).click()
    await page.locator('tbody tr').nth(150).waitFor()
    expect(await page.evaluate(FOUND)).toEqual(NOTHING)
    await page.goto(`${desk.url}/bulk`)
    await page.locator('.card').first().waitFor()

    expect(await page.evaluate(FOUND)).toEqual(NOTHING)
  })

  test('anything in an address is text', async () => {
    const page = await openTrap(/40[04]/)

    const texts = HOSTILE.filter((each) => each.length < 900).map((each) => each.replace(/\p{Cs}/gu, '?'))
    for (const text of texts) {
      const part = encodeURIComponent(text)
      // What the router decodes, then we: for names it is the name, for text with % in it some other text.
      const isTitle = `document.querySelector('h1')?.textContent === ${JSON.stringify(readSegment(decodeURI(part)))}`
      const named = await look(page, `/queues/${part}`, isTitle)

      expect([text, named]).toEqual([text, NOTHING])
    }
    for (let from = 0; from < texts.length; from += CHUNK) {
      const filter = texts.slice(from, from + CHUNK).join(' ')
      // The list, or what the server has against the filter.
      const isShown = `document.querySelector('.filter-problem, .page-body .empty, tbody') !== null`
      const filtered = await look(page, `/jobs?filter=${encodeURIComponent(filter)}`, isShown)

      expect([filter, filtered]).toEqual([filter, NOTHING])
    }
    const others = texts.filter((_, index) => index % CHUNK === 0).map((text) => encodeURIComponent(text))
    for (const part of others) {
      for (const path of [`/dead?queue=${part}`, `/audit?actor=${part}&action=${part}`, `/jobs/${part}`]) {
        const isShown = `document.querySelector('.page-body .waiting') === null && document.querySelector('h1') !== null`

        expect([path, await look(page, path, isShown)]).toEqual([path, NOTHING])
      }
    }
  })
})

describe('hostile names', SLOWLY, () => {
  test('a name that is more than letters, digits and . _ : / @ - is refused for queues, types, workers and schedules', async () => {
    const { holdfast } = desk
    const job = defineJob('named')
    const isName = (text: string) => text.length <= 100 && /^[A-Za-z0-9][A-Za-z0-9._:/@-]*$/.test(text)
    const refusal = async (call: () => unknown) => {
      try {
        await call()
        return 'taken'
      } catch (error) {
        return (error as HoldfastError).code
      }
    }

    for (const text of HOSTILE.filter((each) => !isName(each))) {
      const answers = await Promise.all([
        refusal(() => holdfast.enqueue('named', null, { queue: text })),
        refusal(() => holdfast.enqueue(text, null)),
        refusal(() => holdfast.worker({ name: text, handlers: [job.handle(async () => null)] })),
        refusal(() => holdfast.schedule(text, { cron: '0 0 * * *', job })),
      ])
      expect([text, ...answers]).toEqual([text, ...Array(4).fill('invalid_name')])
    }
  })

  test('names with a meaning in JavaScript are shown like others', async () => {
    const { holdfast } = desk
    for (const name of EVIL_NAMES) {
      await holdfast.enqueue(name, { [name]: name }, { queue: name })
      await holdfast.schedule(name, { cron: '0 3 * * *', job: name, queue: name, payload: HOSTILE.slice(0, 50) })
    }
    const job = defineJob('named', { queue: 'constructor' })
    await holdfast.worker({ name: 'constructor', handlers: [job.handle(async () => null)] }).start()
    const page = await openTrap()

    for (const path of [
      '/',
      '/queues',
      '/schedules',
      '/workers',
      '/jobs?filter=queue:constructor',
      '/queues/constructor',
    ]) {
      await page.goto(`${desk.url}${path}`)
      await page.getByText('constructor').first().waitFor()

      expect([path, await page.evaluate(FOUND)]).toEqual([path, NOTHING])
    }
    await page.goto(`${desk.url}/queues`)
    for (const name of EVIL_NAMES) await page.getByRole('link', { name, exact: true }).first().waitFor()
  })
})

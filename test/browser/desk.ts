// The built dashboard on a real server, and pages of a real browser that are watched for everything they must not do.

import { existsSync } from 'node:fs'
import { join } from 'node:path'
import type { Browser, BrowserContext, BrowserContextOptions, Page } from 'playwright-core'
import { expect, vi } from 'vitest'
import type { Store } from '../../src/core/store.js'
import type { Holdfast } from '../../src/index.js'
import type { ServerOptions } from '../../src/server/index.js'
import { TestServer } from '../server/support.js'

const WEB: string = join(import.meta.dirname, '../../dist/web')
const PATIENCE_MS = 60_000

/** For describe(): a machine under load is slow to start pages. */
export const SLOWLY: { readonly timeout: number } = { timeout: 2 * PATIENCE_MS }

/** Asks again until it is so. */
export function eventually<T>(look: () => T | Promise<T>): ReturnType<typeof expect.poll<T>> {
  return expect.poll(look, { timeout: PATIENCE_MS, interval: 50 })
}

/** Waits until it is so; for preparing, where nothing is expected yet. */
export async function until(isSo: () => Promise<boolean>): Promise<void> {
  const look = async () => {
    if (!(await isSo())) throw new Error(`it is still not so: ${isSo}`)
  }
  await vi.waitFor(look, { timeout: PATIENCE_MS, interval: 20 })
}

export interface PageOptions extends BrowserContextOptions {
  /** Default true. */
  readonly isSignedIn?: boolean
  /** Faults that belong to the test. */
  readonly expects?: RegExp
}

/** Where an operator sits: a server with the dashboard, and windows on it. */
export class Desk {
  readonly server: TestServer
  readonly #browser: Browser
  readonly #contexts = new Set<BrowserContext>()
  #faults: string[] = []

  private constructor(browser: Browser, server: TestServer) {
    this.#browser = browser
    this.server = server
  }

  static async open(browser: Browser, options: ServerOptions = {}, store?: Store): Promise<Desk> {
    if (!existsSync(join(WEB, 'index.html'))) throw new Error('dist/web is missing: run `npm run build` first')
    return new Desk(browser, await TestServer.open({ dashboard: WEB, ...options }, store, { upkeep: true }))
  }

  get holdfast(): Holdfast {
    return this.server.holdfast
  }

  get url(): string {
    return this.server.listening.url
  }

  /** A page in a new profile, at a path of the dashboard. */
  async visit(path: string, options: PageOptions = {}): Promise<Page> {
    const page = await this.blank(options)
    await page.goto(`${this.url}${path}`)
    return page
  }

  /** A page in a new profile that has not been anywhere. */
  async blank({ isSignedIn = true, expects, ...options }: PageOptions = {}): Promise<Page> {
    const context = await this.#browser.newContext({
      viewport: { width: 1280, height: 800 },
      reducedMotion: 'reduce',
      ...options,
    })
    this.#contexts.add(context)
    context.setDefaultTimeout(PATIENCE_MS)
    if (isSignedIn) {
      const [name = '', value = ''] = (await this.server.signIn()).split('=')
      await context.addCookies([{ name, value, url: this.server.origin }])
    }
    const page = await context.newPage()
    this.#watch(page, expects)
    return page
  }

  /** What the pages did that no page may do: a message on the console (a breach of the content policy is one), an error, a
   *  dialog, a request elsewhere. */
  takeFaults(): readonly string[] {
    const faults = this.#faults
    this.#faults = []
    return faults
  }

  async closePages(): Promise<void> {
    await Promise.all([...this.#contexts].map((context) => context.close()))
    this.#contexts.clear()
  }

  async close(): Promise<void> {
    await this.closePages()
    await this.server.close()
  }

  #watch(page: Page, expects: RegExp | undefined): void {
    const note = (fault: string) => {
      if (expects?.test(fault) !== true) this.#faults.push(fault)
    }
    page.on('console', (message) => {
      if (message.type() === 'error' || message.type() === 'warning') note(`console: ${message.text()}`)
    })
    page.on('pageerror', (error) => note(`error: ${error.message}`))
    page.on('dialog', (dialog) => {
      note(`dialog: ${dialog.message()}`)
      void dialog.dismiss()
    })
    page.on('popup', (popup) => note(`popup: ${popup.url()}`))
    page.on('request', (request) => {
      if (new URL(request.url()).origin !== this.server.origin) note(`request: ${request.url()}`)
    })
  }
}

// Finds the primary among several servers. All are asked concurrently; the one with the newest timeline among those that take writes is
// it. Lanes connect to that one until one of them reports a failure. Then the next of them has the servers asked again, once for all.

import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'
import { HoldfastError } from '../../core/errors.js'
import type { Access } from './access.js'
import { sqlStateOf } from './errors.js'
import { IDENTITY, readIdentity, type ServerIdentity } from './identity.js'
import type { ConnectionSettings } from './lane.js'
import type { Row } from './statement.js'

/** How long the others may still answer after the first primary has: an old one that is isolated often answers first. */
const OTHERS_MS = 150
/** How long the others may still answer after one that is no primary: one that is frozen never does, and another may be promoted meanwhile. */
const SILENT_MS = 1_000
/** Processes that lost the same server do not ask the others in the same moment. */
const JITTER_MS = 50
/** A server that does not answer within this time is passed over. */
const ANSWER_MS = 3_000

interface FinderOptions {
  /** One URL for each server. */
  readonly urls: readonly string[]
  readonly access: Access
  readonly connectMs: number
  /** Whether a server belongs to a timeline that is over. */
  readonly isStale: (identity: ServerIdentity) => boolean
}

interface Answer {
  readonly url: string
  readonly role: 'primary' | 'standby' | 'stale' | 'away'
  readonly identity: ServerIdentity | null
  /** Why it is none, in words. */
  readonly why: string
  readonly error?: unknown
}

/** The finder of one store. */
export class PrimaryFinder {
  readonly #options: FinderOptions
  /** The primary, and the one before that is asked for first. */
  #current: string | null = null
  #lastGood: string | null = null
  #finding: Promise<string> | null = null
  #hasFailed = false

  constructor(options: FinderOptions) {
    this.#options = options
  }

  /** Where the primary is. Raises `store_unavailable`, `store_read_only` or `store_stale`, all retryable, when none of the servers is one;
   *  and what is wrong with the password or the database when all of them refuse it. */
  async settings(): Promise<ConnectionSettings> {
    if (this.#current !== null) return this.#options.access.settings(this.#current)
    this.#finding ??= this.#find().finally(() => {
      this.#finding = null
    })
    return this.#options.access.settings(await this.#finding)
  }

  /** The server that was the primary failed, or takes no writes any more. */
  doubt(): void {
    this.#current = null
    this.#hasFailed = true
  }

  async #find(): Promise<string> {
    if (this.#hasFailed) await sleep(Math.random() * JITTER_MS)
    const { urls } = this.#options
    const answers = await firstAnswers(urls.map((url) => this.#ask(url)))
    const found = best(answers, this.#lastGood)
    if (found === null) throw noPrimary(answers)
    this.#current = found.url
    this.#lastGood = found.url
    return found.url
  }

  async #ask(url: string): Promise<Answer> {
    const limitMs = Math.min(ANSWER_MS, this.#options.connectMs)
    const settings = await this.#options.access.settings(url).catch((error: Error) => error)
    if (settings instanceof Error) return { url, role: 'away', identity: null, why: settings.message, error: settings }
    const client = new pg.Client({
      ...settings,
      application_name: 'holdfast find the primary',
      connectionTimeoutMillis: limitMs,
      query_timeout: limitMs,
    })
    client.on('error', () => {})
    try {
      await client.connect()
      const ask = async (text: string) => (await client.query({ text, rowMode: 'array' })).rows as Row[]
      const [[inRecovery, readOnly] = []] = await ask(
        "SELECT pg_catalog.pg_is_in_recovery()::text, pg_catalog.current_setting('transaction_read_only')",
      )
      if (inRecovery === 'true') return { url, role: 'standby', identity: null, why: 'is a standby' }
      if (readOnly === 'on') return { url, role: 'standby', identity: null, why: 'takes no writes' }
      const identity = readIdentity(await ask(IDENTITY.text).catch(() => []))
      const isStale = identity !== null && this.#options.isStale(identity)
      return isStale
        ? { url, role: 'stale', identity, why: `is of timeline ${identity.timeline}, which is over` }
        : { url, role: 'primary', identity, why: '' }
    } catch (error) {
      const why = error instanceof AggregateError ? String(error.errors[0]?.message) : (error as Error).message
      return { url, role: 'away', identity: null, why, error }
    } finally {
      void client.end().catch(() => {})
    }
  }
}

/** All answers; or those that came shortly after the first primary's. */
async function firstAnswers(asked: readonly Promise<Answer>[]): Promise<readonly Answer[]> {
  const answers: Answer[] = []
  let isFound: () => void = () => {}
  const found = new Promise<void>((resolve) => {
    isFound = resolve
  })
  let isAnswered: () => void = () => {}
  const answered = new Promise<void>((resolve) => {
    isAnswered = resolve
  })
  const all = Promise.all(
    asked.map(async (answer) => {
      answers.push(await answer)
      const { role } = answers.at(-1)!
      if (role === 'primary') isFound()
      if (role !== 'away') isAnswered()
    }),
  )
  await Promise.race([all, found.then(() => sleep(OTHERS_MS)), answered.then(() => sleep(SILENT_MS))])
  return [...answers]
}

/** The primary of the newest timeline. Of several the last good one, else the first to answer. */
function best(answers: readonly Answer[], lastGood: string | null): Answer | null {
  const primaries = answers.filter(({ role }) => role === 'primary')
  const newest = Math.max(...primaries.map(timelineOf))
  const candidates = primaries.filter((answer) => timelineOf(answer) === newest)
  return candidates.find(({ url }) => url === lastGood) ?? candidates[0] ?? null
}

function timelineOf({ identity }: Answer): number {
  return identity?.timeline ?? 0
}

function noPrimary(answers: readonly Answer[]): HoldfastError {
  const list = answers.map(({ url, why }) => `${hostOf(url)} ${why}`).join('; ')
  const cause = answers.find(({ error }) => error !== undefined)?.error
  const options = { retryable: true, cause }
  if (answers.some(({ role }) => role === 'stale')) {
    return new HoldfastError('store_stale', `no server here is the primary of the newest timeline: ${list}`, options)
  }
  if (answers.every(({ role }) => role === 'standby')) {
    return new HoldfastError('store_read_only', `no server here takes writes: ${list}; promote one`, options)
  }
  const refusal = answers.every(({ error }) => /^(28|3D)/.test(sqlStateOf(error) ?? '')) ? cause : undefined
  if (refusal !== undefined) {
    const code = sqlStateOf(refusal) === '3D000' ? 'store_refused' : 'access_denied'
    return new HoldfastError(code, `every server refuses this connection: ${list}; check user, password and database`, {
      cause,
    })
  }
  return new HoldfastError(
    'store_unavailable',
    `cannot connect to PostgreSQL: none of ${answers.length} servers is a primary: ${list}; start one, or check hosts, ports and network`,
    options,
  )
}

function hostOf(url: string): string {
  const { hostname, port } = new URL(url)
  return `${decodeURIComponent(hostname) || 'localhost'}:${port || 5432}`
}

// npm run bench -- tenants: how long one tenant's enqueues take while fifty readers poll /stats over half a million timed jobs and
// another tenant searches with slow filters; and how long they take without them, in turns in one run.

import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { Agent, request } from 'node:http'
import { createInterface } from 'node:readline'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { type Holdfast, openHoldfast } from '../../src/index.js'
import { postgresStore } from '../../src/stores/postgres/index.js'
import { openAndCloseForSure } from '../interrupt.js'
import { say } from '../say.js'
import { PostgresServer } from '../servers/postgres.js'
import type { TenantsArguments } from './arguments.js'
import { freshDatabase, POSTGRES_SETTINGS } from './database.js'
import { describeMachine, versionsOf, writeDocument } from './document.js'
import { median, type Spread, spreadOf } from './statistics.js'
import { printTable } from './table.js'

const READERS = 50
const READER_PAUSE_MS = 200
const HOSTILE = 30
const HOSTILE_JOBS = 100
const HOSTILE_BYTES = 500_000
const HOSTILE_TERMS = 18
const ENQUEUERS = 4
const ENQUEUE_PAUSE_MS = 40
const ROUNDS = 3
/** What a tenant may cost the others: the ratio of the 99th percentiles with and without it. */
const FACTOR_MAX = 2

/** The load beside the enqueues. Each part runs in turn, so that its share is known. */
const BESIDES = ['nobody', 'readers', 'hostile filters', 'readers and hostile filters'] as const
type Beside = (typeof BESIDES)[number]

interface Round {
  readonly round: number
  readonly beside: Beside
  readonly enqueue: Spread
  /** Answers that were not 201. */
  readonly refused: number
  readonly stats: Spread
  /** How many searches ended with each status or each error. */
  readonly searches: Readonly<Record<string, number>>
}

/** Measures and returns the exit code: 1 when the neighbours cost more than the factor. */
export async function tenants({ isQuick, isJson }: TenantsArguments): Promise<number> {
  const [timed, seconds] = isQuick ? [20_000, 3] : [500_000, 15]
  const [postgres, close] = await openAndCloseForSure(
    () => PostgresServer.open({ settings: POSTGRES_SETTINGS }),
    (server) => server.close(),
  )
  let server: ChildProcess | null = null
  try {
    const url = await freshDatabase(postgres.url)
    const holdfast = await openHoldfast(await postgresStore(url), { upkeep: false })
    say(`writing ${timed.toLocaleString('en')} timed jobs and ${HOSTILE_JOBS} large ones`)
    await fill(holdfast, timed)
    const keys = {
      enqueue: (await holdfast.createKey({ name: 'enqueuer', scopes: ['enqueue'], queues: ['orders'] })).secret,
      read: (await holdfast.createKey({ name: 'reader', scopes: ['read'] })).secret,
      hostile: (await holdfast.createKey({ name: 'hostile', scopes: ['read:payload'], queues: ['hostile'] })).secret,
    }
    await holdfast.close()
    const started = await startServer(url)
    server = started.child
    const rounds: Round[] = []
    await measure(started.url, keys, { round: 0, seconds: 2, beside: 'nobody' })
    for (let round = 1; round <= ROUNDS; round++) {
      for (const beside of BESIDES) rounds.push(await measure(started.url, keys, { round, seconds, beside }))
    }
    const p99 = (beside: Beside) =>
      median(rounds.filter((each) => each.beside === beside).map(({ enqueue }) => enqueue.p99 ?? Number.NaN))
    const factor = p99('readers and hostile filters') / p99('nobody')
    print(rounds, factor)
    if (isJson) {
      const [machine, versions] = [describeMachine(), await versionsOf({ postgres, redis: null })]
      const date = new Date().toISOString()
      writeDocument({ schemaVersion: 1, program: 'tenants', date, machine, versions, timed, seconds, rounds, factor })
    }
    return factor <= FACTOR_MAX ? 0 : 1
  } finally {
    server?.kill('SIGTERM')
    await close()
  }
}

async function fill(holdfast: Holdfast, timed: number): Promise<void> {
  for (let done = 0; done < timed; done += 5_000) {
    const jobs = Array.from(
      { length: 5_000 },
      (_, n) => ['later', { n: done + n }, { queue: 'later', delay: '2h' }] as const,
    )
    await holdfast.enqueueMany(jobs)
  }
  const fields = Math.floor(HOSTILE_BYTES / 50)
  for (let job = 0; job < HOSTILE_JOBS; job++) {
    const payload = Object.fromEntries(
      Array.from({ length: fields }, (_, n) => [`field${n}`, `value ${job} ${n} of a large payload`]),
    )
    await holdfast.enqueue('large', payload, { queue: 'hostile', delay: '2h' })
  }
}

async function startServer(url: string): Promise<{ readonly child: ChildProcess; readonly url: string }> {
  const main = fileURLToPath(new URL('../../src/cli/main.js', import.meta.url))
  const words = [main, 'server', '--url', url, '--port', '0', '--api-only', '--json', '--log-level', 'error']
  const child = spawn(process.execPath, words, { stdio: ['ignore', 'pipe', 'inherit'] })
  const [line] = (await once(createInterface({ input: child.stdout! }), 'line')) as [string]
  return { child, url: (JSON.parse(line) as { url: string }).url }
}

type Keys = Readonly<Record<'enqueue' | 'read' | 'hostile', string>>

async function measure(
  url: string,
  keys: Keys,
  { round, seconds, beside }: { readonly round: number; readonly seconds: number; readonly beside: Beside },
): Promise<Round> {
  const agent = new Agent({ keepAlive: true })
  const [enqueued, read] = [[] as number[], [] as number[]]
  const searches: Record<string, number> = {}
  let refused = 0
  const end = new AbortController()
  const until = async (work: () => Promise<number>) => {
    while (!end.signal.aborted) await sleep(await work())
  }
  const enqueuer = async () => {
    const beganMs = performance.now()
    const body = JSON.stringify({ type: 'order', queue: 'orders', payload: { n: enqueued.length } })
    const status = await ask(agent, { url: `${url}/v1/jobs`, key: keys.enqueue, body })
    enqueued.push(performance.now() - beganMs)
    if (status !== 201) refused++
    return ENQUEUE_PAUSE_MS
  }
  const reader = async () => {
    const beganMs = performance.now()
    await ask(agent, { url: `${url}/stats`, key: keys.read })
    read.push(performance.now() - beganMs)
    return READER_PAUSE_MS
  }
  const terms = Array.from({ length: HOSTILE_TERMS }, (_, n) => `payload.field${n * 7}:none`).join(' ')
  const hostile = async () => {
    const status = await ask(agent, { url: `${url}/v1/jobs?filter=${encodeURIComponent(terms)}`, key: keys.hostile })
    searches[status] = (searches[status] ?? 0) + 1
    return status === 429 ? 1_000 : 0
  }
  const many = (count: number, work: () => Promise<number>) => Array.from({ length: count }, () => until(work))
  const neighbours = [
    ...many(beside.includes('readers') ? READERS : 0, reader),
    ...many(beside.includes('hostile') ? HOSTILE : 0, hostile),
  ]
  await sleep(1_000)
  const enqueuers = many(ENQUEUERS, enqueuer)
  await sleep(seconds * 1_000)
  end.abort()
  await Promise.all([...enqueuers, ...neighbours])
  agent.destroy()
  say(`round ${round}, beside ${beside}: enqueue p99 ${spreadOf(enqueued).p99?.toFixed(1)} ms`)
  return { round, beside, enqueue: spreadOf(enqueued), refused, stats: spreadOf(read), searches }
}

function ask(
  agent: Agent,
  { url, key, body }: { readonly url: string; readonly key: string; readonly body?: string },
): Promise<number | string> {
  const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' }
  const sent = request(url, { agent, method: body === undefined ? 'GET' : 'POST', headers })
  return new Promise((resolve) => {
    sent.on('error', (error) => resolve((error as NodeJS.ErrnoException).code ?? error.message))
    sent.on('response', (response) => {
      response.resume()
      response.on('end', () => resolve(response.statusCode!))
    })
    sent.end(body)
  })
}

function print(rounds: readonly Round[], factor: number): void {
  printTable<Round>({
    columns: [
      { title: 'round', read: ({ round }) => round },
      { title: 'beside', read: ({ beside }) => beside },
      { title: 'enqueues', read: ({ enqueue }) => enqueue.count },
      { title: 'p50, ms', read: ({ enqueue }) => enqueue.p50, digits: 1 },
      { title: 'p99, ms', read: ({ enqueue }) => enqueue.p99, digits: 1 },
      { title: 'worst, ms', read: ({ enqueue }) => enqueue.max, digits: 1 },
      { title: 'refused', read: ({ refused }) => refused },
      { title: '/stats', read: ({ stats }) => stats.count },
      { title: '/stats p99, ms', read: ({ stats }) => stats.p99, digits: 1 },
      { title: 'searches', read: ({ searches }) => JSON.stringify(searches) },
    ],
    rows: rounds,
  })
  say(`median p99 beside them is ${factor.toFixed(2)} times that without them; the aim is ${FACTOR_MAX}`)
}

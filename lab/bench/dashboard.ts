// npm run bench -- dashboard: how long each request of the dashboard takes with a million jobs waiting and a million finished.

import { openHoldfast } from '../../src/index.js'
import { createServer } from '../../src/server/index.js'
import { postgresStore } from '../../src/stores/postgres/index.js'
import { openAndCloseForSure } from '../interrupt.js'
import { say } from '../say.js'
import { PostgresServer } from '../servers/postgres.js'
import type { DashboardArguments } from './arguments.js'
import { fillStore } from './dashboard/fill.js'
import { ask, dashboardRequests, findKnownJobs } from './dashboard/requests.js'
import { freshDatabase, POSTGRES_SETTINGS, withClient } from './database.js'
import { describeMachine, versionsOf, writeDocument } from './document.js'
import { median } from './statistics.js'
import { printTable } from './table.js'

const ROUNDS = 5
/** What an operator still perceives as immediate. */
const AIM_MS = 300
const TOKEN = 'a-token-of-the-benchmark-0123456789-abcdefgh'

interface Timed {
  readonly name: string
  readonly medianMs: number
  readonly worstMs: number
}

/** Measures and returns the exit code: 1 when a request's middle time is over the aim. */
export async function dashboard({ isQuick, isJson }: DashboardArguments): Promise<number> {
  const jobs = isQuick ? 50_000 : 1_000_000
  const [postgres, close] = await openAndCloseForSure(
    () => PostgresServer.open({ settings: POSTGRES_SETTINGS }),
    (server) => server.close(),
  )
  try {
    const url = await freshDatabase(postgres.url)
    const store = await postgresStore(url)
    say(`writing ${jobs.toLocaleString('en')} jobs that wait and as many that have ended`)
    const beganMs = performance.now()
    await withClient(url, (client) => fillStore(client, { schema: 'holdfast', waiting: jobs, finished: jobs }))
    const filledS = (performance.now() - beganMs) / 1_000
    say(`written in ${filledS.toFixed(1)} s`)
    const holdfast = await openHoldfast(store, { upkeep: false })
    const server = createServer(holdfast, { token: TOKEN })
    const timed = await time(server)
    await server.close()
    await holdfast.close()
    const slow = timed.filter(({ medianMs }) => medianMs > AIM_MS)
    print(timed, slow)
    if (isJson) {
      const [machine, versions] = [describeMachine(), await versionsOf({ postgres, redis: null })]
      const date = new Date().toISOString()
      writeDocument({ schemaVersion: 1, program: 'dashboard', date, machine, versions, jobs, filledS, timed })
    }
    return slow.length === 0 ? 0 : 1
  } finally {
    await close()
  }
}

async function time(server: ReturnType<typeof createServer>): Promise<readonly Timed[]> {
  const requests = dashboardRequests(await findKnownJobs(server, TOKEN))
  const timed: Timed[] = []
  for (const request of requests) {
    const times: number[] = []
    for (let round = 0; round < ROUNDS; round++) {
      const beganMs = performance.now()
      await ask(server, TOKEN, request)
      times.push(performance.now() - beganMs)
    }
    timed.push({ name: request.name, medianMs: median(times), worstMs: Math.max(...times) })
  }
  return timed
}

function print(timed: readonly Timed[], slow: readonly Timed[]): void {
  printTable<Timed>({
    columns: [
      { title: 'request', read: ({ name }) => name },
      { title: `median of ${ROUNDS}, ms`, read: ({ medianMs }) => medianMs, digits: 1 },
      { title: 'worst, ms', read: ({ worstMs }) => worstMs, digits: 1 },
    ],
    rows: [...timed].sort((one, other) => other.medianMs - one.medianMs),
  })
  say(slow.length === 0 ? `every request is below ${AIM_MS} ms` : `${slow.length} requests are over ${AIM_MS} ms`)
}

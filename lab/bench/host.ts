// npm run bench -- host: what handlers in children cost against handlers in the worker, in turns, and how soon the jobs of a killed child run again.

import { openAndCloseForSure } from '../interrupt.js'
import { say } from '../say.js'
import { PostgresServer } from '../servers/postgres.js'
import type { HostArguments } from './arguments.js'
import { Child } from './children.js'
import { freshDatabase, POSTGRES_SETTINGS } from './database.js'
import { describeMachine, type Machine, versionsOf, writeDocument } from './document.js'
import { type CostReport, PLACES, type Place } from './host/cost.js'
import { type Kill, killChildren } from './host/kills.js'
import { median } from './statistics.js'

const DEADLINE_MS = 300_000
/** What is aimed at: all jobs of a killed child run again within a second, and half of the kills within a tenth of that. */
const MEDIAN_MS_MAX = 100
const AGAIN_MS_MAX = 1_000

interface Cost {
  readonly payloadBytes: number
  readonly place: Place
  /** Medians over the rounds. */
  readonly workerUs: number
  readonly childrenUs: number
  readonly jobsPerS: number
}

/** Measures and returns the exit code: 1 when a kill took longer than is aimed at. The page's part is printed on stdout. */
export async function host({ isQuick, isJson }: HostArguments): Promise<number> {
  const scale = isQuick ? { jobs: 2_000, rounds: 1, kills: 2 } : { jobs: 40_000, rounds: 3, kills: 20 }
  const costs: Cost[] = []
  for (const payloadBytes of [10, 10_000]) costs.push(...(await measureCosts({ ...scale, payloadBytes })))
  const [postgres, close] = await openAndCloseForSure(
    () => PostgresServer.open({ settings: POSTGRES_SETTINGS }),
    (server) => server.close(),
  )
  try {
    const kills = await killChildren(await freshDatabase(postgres.url), scale.kills)
    const lastMs = kills.map(({ againMs }) => againMs.at(-1) ?? Number.NaN)
    const machine = describeMachine()
    if (isJson) {
      const [versions, date] = [await versionsOf({ postgres, redis: null }), new Date().toISOString()]
      writeDocument({ schemaVersion: 1, program: 'host', date, machine, versions, ...scale, costs, kills })
    } else process.stdout.write(pageOf({ ...scale, machine, costs, kills }))
    return median(lastMs) <= MEDIAN_MS_MAX && Math.max(...lastMs) <= AGAIN_MS_MAX ? 0 : 1
  } finally {
    await close()
  }
}

interface CostScale {
  readonly jobs: number
  readonly rounds: number
  readonly payloadBytes: number
}

async function measureCosts({ jobs, rounds, payloadBytes }: CostScale): Promise<Cost[]> {
  const reports = new Map<Place, CostReport[]>(PLACES.map((place) => [place, []]))
  for (let round = 1; round <= rounds; round++) {
    for (const place of PLACES) {
      const program = new URL('./host/cost-child.js', import.meta.url)
      const child = new Child(program, { place, jobs, payloadBytes }, { name: place, deadlineMs: DEADLINE_MS })
      const report = await child.hear<CostReport>('cost')
      await child.ended()
      reports.get(place)!.push(report)
      say(
        `round ${round}, ${payloadBytes} bytes, ${place}: ${Math.round(report.workerUs + report.childrenUs)} µs a job`,
      )
    }
  }
  return PLACES.map((place) => {
    const middle = (read: (report: CostReport) => number) => median(reports.get(place)!.map(read))
    return {
      payloadBytes,
      place,
      workerUs: middle(({ workerUs }) => workerUs),
      childrenUs: middle(({ childrenUs }) => childrenUs),
      jobsPerS: middle(({ jobsPerS }) => jobsPerS),
    }
  })
}

interface Results {
  readonly machine: Machine
  readonly costs: readonly Cost[]
  readonly kills: readonly Kill[]
  readonly jobs: number
  readonly rounds: number
}

/** The part of docs/findings/host.md that has the figures. */
function pageOf({ machine, costs, kills, jobs, rounds }: Results): string {
  const row = (...cells: readonly (string | number)[]) => `| ${cells.join(' | ')} |`
  const lastMs = kills.map(({ againMs }) => againMs.at(-1) ?? Number.NaN)
  const allMs = kills.flatMap(({ againMs }) => againMs)
  const whole = (value: number) => Math.round(value).toLocaleString('en')
  return [
    `${machine.cpu ?? 'Unknown processor'}, ${machine.cores} cores, Node ${machine.node}; ${new Date().toISOString().slice(0, 10)}.`,
    '',
    `Processor time for each job with an empty handler, in µs: ${whole(jobs)} jobs on the memory store, 64 slots, median of ${rounds}.`,
    '',
    row('payload, bytes', 'handlers run', 'worker', 'children', 'together', 'jobs/s'),
    row('--', '--', '--', '--', '--', '--'),
    ...costs.map(({ payloadBytes, place, workerUs, childrenUs, jobsPerS }) =>
      row(
        whole(payloadBytes),
        place,
        whole(workerUs),
        whole(childrenUs),
        whole(workerUs + childrenUs),
        whole(jobsPerS),
      ),
    ),
    '',
    `\`kill -9\` of one of two children under load, ${kills.length} times, ${allMs.length} jobs in hand: time until they began again, in ms.`,
    '',
    row('', 'median', 'longest'),
    row('--', '--', '--'),
    row('the last job of each kill', whole(median(lastMs)), whole(Math.max(...lastMs))),
    row('every job', whole(median(allMs)), whole(Math.max(...allMs))),
    '',
  ].join('\n')
}

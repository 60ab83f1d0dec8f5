// npm run bench -- fleet: a fleet of this build and one of another checkout, measured in turns on one server.

import { existsSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import { type FleetArguments, UsageError } from '../bench/arguments.js'
import { Child } from '../bench/children.js'
import { POSTGRES_SETTINGS } from '../bench/database.js'
import { describeMachine, versionsOf, writeDocument } from '../bench/document.js'
import { printTable } from '../bench/table.js'
import { openAndCloseForSure } from '../interrupt.js'
import { say } from '../say.js'
import { PostgresServer } from '../servers/postgres.js'
import type { SideAssignment, WindowMessage, WindowReport } from './side.js'
import { type Build, summariseTurns, type Turn } from './summary.js'

interface Load {
  readonly processes: number
  readonly slots: number
  readonly rates: readonly number[]
}

interface Scale {
  readonly loads: readonly Load[]
  readonly standing: number
  readonly producers: number
  readonly warmupSeconds: number
  readonly leadSeconds: number
}

const FULL: Scale = {
  loads: [
    { processes: 8, slots: 512, rates: [3_000, 7_000, 8_000] },
    { processes: 2, slots: 2_048, rates: [8_000] },
  ],
  standing: 100_000,
  producers: 2,
  warmupSeconds: 10,
  leadSeconds: 3,
}
const QUICK: Scale = {
  loads: [{ processes: 2, slots: 128, rates: [300] }],
  ...{ standing: 1_000, producers: 1, warmupSeconds: 1, leadSeconds: 1 },
}
const SEED = 1
const DEADLINE_MS = 2 * 3_600_000
const SIDE = 'lab/turns/side.js'

/** Measures both builds and returns the exit code. */
export async function compareBuilds(chosen: FleetArguments): Promise<number> {
  const modules: Readonly<Record<Build, URL>> = {
    other: findSide(chosen.against),
    this: new URL('./side.js', import.meta.url),
  }
  const scale = chosen.isQuick ? QUICK : FULL
  const [postgres, close] = await openAndCloseForSure(
    () => PostgresServer.open({ settings: POSTGRES_SETTINGS }),
    (server) => server.close(),
  )
  try {
    const turns: Turn[] = []
    for (const load of scale.loads) {
      turns.push(...(await measureLoad({ url: postgres.url, modules, scale, load, chosen })))
    }
    const table = summariseTurns(turns)
    printTable(table)
    say('Medians of the windows. "without CPU wait" is p99 of the time that is left without waiting for a processor.')
    if (chosen.isJson) {
      writeDocument({
        schemaVersion: 1,
        program: 'fleet',
        date: new Date().toISOString(),
        machine: describeMachine(),
        versions: await versionsOf({ postgres, redis: null }),
        settings: { postgres: POSTGRES_SETTINGS, scale, seed: SEED, rounds: chosen.rounds, seconds: chosen.seconds },
        rows: table.rows,
        turns,
      })
    }
    return 0
  } finally {
    await close()
  }
}

/** The module of the other build, which has to be compiled with the same lab. */
function findSide(folder: string): URL {
  const files = ['.lab', 'dist'].map((out) => join(resolve(folder), out, SIDE))
  const file = files.find(existsSync)
  if (file !== undefined) return pathToFileURL(file)
  throw new UsageError(
    `--against ${folder} has no ${SIDE} in .lab or dist: \`node scripts/other-checkout.js <commit> ${folder}\` prepares such a folder`,
  )
}

interface LoadContext {
  readonly url: string
  readonly modules: Readonly<Record<Build, URL>>
  readonly scale: Scale
  readonly load: Load
  readonly chosen: FleetArguments
}

/** Both fleets are there the whole time; the one whose turn it is not is idle. */
async function measureLoad({ url, modules, scale, load, chosen }: LoadContext): Promise<readonly Turn[]> {
  const { processes, slots, rates } = load
  const { standing, producers, leadSeconds, warmupSeconds } = scale
  const assignment: SideAssignment = { url, seed: SEED, processes, slots, producers, standing }
  const open = (build: Build) =>
    new Child(modules[build], assignment, { name: `the fleet of the ${build} build`, deadlineMs: DEADLINE_MS })
  const sides: Readonly<Record<Build, Child>> = { other: open('other'), this: open('this') }
  const turns: Turn[] = []
  try {
    await Promise.all(Object.values(sides).map((side) => side.hear('ready')))
    for (const rate of rates) {
      for (const side of Object.values(sides)) await runWindow(side, { rate, leadSeconds: 0, seconds: warmupSeconds })
      for (let round = 1; round <= chosen.rounds; round++) {
        // Each build is first as often as second.
        const order: readonly Build[] = round % 2 === 1 ? ['other', 'this'] : ['this', 'other']
        for (const build of order) {
          const report = await runWindow(sides[build], { rate, leadSeconds, seconds: chosen.seconds })
          const name = `${processes} × ${slots}, ${rate.toLocaleString('en')}/s`
          say(`round ${round} · ${name} · ${build}: ${describe(report)}`)
          turns.push({ load: name, rate, build, round, report })
        }
      }
    }
    for (const side of Object.values(sides)) side.send({ kind: 'stop' })
    await Promise.all(Object.values(sides).map((side) => side.ended()))
  } finally {
    await Promise.all(Object.values(sides).map((side) => side.kill()))
  }
  return turns
}

async function runWindow(side: Child, asked: Omit<WindowMessage, 'kind'>): Promise<Omit<WindowReport, 'kind'>> {
  side.send({ kind: 'window', ...asked } as WindowMessage)
  const { kind: _, ...report } = await side.hear<WindowReport>('measured')
  return report
}

function describe({ done, seconds, serverUs, workersUs, producersUs, claims, enqueues }: Turn['report']): string {
  const perJob = (us: number | null) => (us === null ? '–' : (us / Math.max(1, done)).toFixed(0))
  const ms = (value: number | null) => value?.toFixed(1) ?? '–'
  return (
    `${Math.round(done / seconds)} done/s · ${perJob(serverUs)} + ${perJob(workersUs)} + ${perJob(producersUs)} µs a job · ` +
    `claim ${ms(claims.p50)} / ${ms(claims.p99)} ms · enqueue ${ms(enqueues.p50)} / ${ms(enqueues.p99)} ms`
  )
}

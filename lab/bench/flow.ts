// npm run bench -- flow: what flow control costs. Backlogs with and without it are drained in turns; a claim behind many jobs that may not
// go is timed, and its pages are counted; with --against plain jobs are compared with a build from before; with --snapshot alone a snapshot is
// held while grouped jobs come and go.

import { openAndCloseForSure } from '../interrupt.js'
import { say } from '../say.js'
import { PostgresServer } from '../servers/postgres.js'
import type { FlowArguments } from './arguments.js'
import { POSTGRES_SETTINGS } from './database.js'
import { describeMachine, versionsOf, writeDocument } from './document.js'
import { type Blocked, claimBehind } from './flow/blocked.js'
import { compareWith, type PlainRatio, plainRatios } from './flow/builds.js'
import { type Drained, drainLoad } from './flow/drain.js'
import { LOADS } from './flow/loads.js'
import { groupedSnapshot } from './growth/snapshot.js'
import { median } from './statistics.js'
import { printTable, type Table } from './table.js'

const SCALES = {
  full: {
    jobs: 50_000,
    slots: 256,
    blocked: [1_000, 1_000_000],
    tries: 50,
    plain: { seconds: 5, drainJobs: 100_000, latencySamples: 0, depths: { short: 0, deep: 0 } },
  },
  quick: {
    jobs: 2_000,
    slots: 64,
    blocked: [100, 1_000],
    tries: 5,
    plain: { seconds: 1, drainJobs: 2_000, latencySamples: 0, depths: { short: 0, deep: 0 } },
  },
} as const
const PROCESSES = [1, 8]
const QUICK_GROUPS_MAX = 1_000
/** This many are drained by one process only: filling the backlog takes longer than draining it. */
const MANY_GROUPS = 1_000_000

/** Measures and returns the exit code. */
export async function flow(chosen: FlowArguments): Promise<number> {
  const [postgres, close] = await openAndCloseForSure(
    () => PostgresServer.open({ settings: POSTGRES_SETTINGS }),
    (server) => server.close(),
  )
  try {
    const results = chosen.isSnapshot
      ? { snapshot: await holdSnapshot(postgres, chosen) }
      : chosen.against === null
        ? await measureFlow(postgres, chosen)
        : await measurePlain(postgres, chosen.against, chosen)
    if (chosen.isJson) {
      writeDocument({
        schemaVersion: 1,
        program: 'flow',
        date: new Date().toISOString(),
        machine: describeMachine(),
        versions: await versionsOf({ postgres, redis: null }),
        settings: { postgres: POSTGRES_SETTINGS, rounds: chosen.rounds, ...SCALES[chosen.isQuick ? 'quick' : 'full'] },
        scale: chosen.isQuick ? 'quick' : 'full',
        ...results,
      })
    }
    return 0
  } finally {
    await close()
  }
}

async function measureFlow(
  postgres: PostgresServer,
  { isQuick, rounds, loads: names }: FlowArguments,
): Promise<object> {
  const scale = SCALES[isQuick ? 'quick' : 'full']
  const loads = LOADS.filter(
    ({ name, groups }) => names.includes(name) && !(isQuick && (groups ?? 0) > QUICK_GROUPS_MAX),
  )
  const drains: Drained[] = []
  for (let round = 1; round <= rounds; round++) {
    for (const processes of PROCESSES) {
      for (const load of loads.filter(({ groups }) => processes === 1 || (groups ?? 0) < MANY_GROUPS)) {
        const drained = await drainLoad(postgres, { load, processes, round }, scale)
        say(`round ${round} · ${processes} × ${load.name}: ${describe(drained)}`)
        drains.push(drained)
      }
    }
  }
  const shares = sharesOf(drains)
  printTable(shareTable(shares))
  say(
    'Medians of the rounds. "share" is jobs/s over those of plain jobs in the same round, "CPU share" the plain processor time over its own.',
  )
  const blocked = await claimBehind(postgres, scale.blocked, scale.tries)
  printTable(blockedTable(blocked))
  return { shares, drains, blocked }
}

async function measurePlain(
  postgres: PostgresServer,
  against: string,
  { isQuick, rounds }: FlowArguments,
): Promise<object> {
  const turns = await compareWith(postgres, { against, rounds, scale: SCALES[isQuick ? 'quick' : 'full'].plain })
  const ratios = plainRatios(turns)
  printTable(plainTable(ratios))
  say('Medians of the rounds; ratios are those of rounds, this build over the other.')
  return { ratios, turns }
}

async function holdSnapshot(postgres: PostgresServer, { isQuick, minutes }: FlowArguments): Promise<object> {
  const result = await groupedSnapshot.run({ postgres, isQuick, minutes })
  printTable(result)
  for (const note of result.notes) say(note)
  return { rows: result.rows, notes: result.notes, samples: result.samples }
}

function describe({ jobs, seconds, serverUs, nodeUs, enqueueServerUs, jobsPerCommit }: Drained): string {
  const rate = Math.round(jobs / seconds).toLocaleString('en')
  return `${rate} jobs/s · ${serverUs.toFixed(1)} µs server + ${nodeUs.toFixed(1)} µs Node a job · enqueue ${enqueueServerUs.toFixed(1)} µs server · ${jobsPerCommit.toFixed(0)} jobs a commit`
}

/** One load by one number of processes: medians, and what is left of the speed of plain jobs. */
interface FlowShare {
  readonly load: string
  readonly processes: number
  readonly jobsPerSecond: number
  readonly share: number
  readonly cpuShare: number
  readonly aim: number | null
  readonly serverUs: number
  readonly nodeUs: number
  readonly enqueueServerUs: number
  readonly enqueueNodeUs: number
  readonly walBytes: number
}

function sharesOf(drains: readonly Drained[]): readonly FlowShare[] {
  const plainOf = ({ processes, round }: Drained) =>
    drains.find((one) => one.load === LOADS[0]!.name && one.processes === processes && one.round === round)
  return PROCESSES.flatMap((processes) =>
    LOADS.flatMap(({ name, aims }) => {
      const own = drains.filter((one) => one.load === name && one.processes === processes)
      if (own.length === 0) return []
      const middle = (read: (one: Drained) => number) => median(own.map(read))
      const ratio = (read: (one: Drained) => number) => {
        const values = own.flatMap((one) => {
          const plain = plainOf(one)
          return plain === undefined ? [] : [read(one) / read(plain)]
        })
        return median(values)
      }
      return [
        {
          load: name,
          processes,
          jobsPerSecond: middle(({ jobs, seconds }) => jobs / seconds),
          share: ratio(({ jobs, seconds }) => jobs / seconds),
          cpuShare: 1 / ratio(({ serverUs, nodeUs }) => serverUs + nodeUs),
          aim: aims[processes === 1 ? 0 : 1],
          serverUs: middle(({ serverUs }) => serverUs),
          nodeUs: middle(({ nodeUs }) => nodeUs),
          enqueueServerUs: middle(({ enqueueServerUs }) => enqueueServerUs),
          enqueueNodeUs: middle(({ enqueueNodeUs }) => enqueueNodeUs),
          walBytes: middle(({ walBytes }) => walBytes),
        },
      ]
    }),
  )
}

function shareTable(rows: readonly FlowShare[]): Table<FlowShare> {
  return {
    columns: [
      { title: 'load', read: ({ load }) => load },
      { title: 'processes', read: ({ processes }) => processes },
      { title: 'jobs/s', read: ({ jobsPerSecond }) => jobsPerSecond },
      { title: 'share', read: ({ share }) => share, digits: 2 },
      { title: 'CPU share', read: ({ cpuShare }) => cpuShare, digits: 2 },
      { title: 'aim', read: ({ aim }) => aim, digits: 2 },
      { title: 'server µs', read: ({ serverUs }) => serverUs, digits: 1 },
      { title: 'Node µs', read: ({ nodeUs }) => nodeUs, digits: 1 },
      { title: 'enqueue µs', read: ({ enqueueServerUs }) => enqueueServerUs, digits: 1 },
      { title: 'Node µs', read: ({ enqueueNodeUs }) => enqueueNodeUs, digits: 1 },
      { title: 'WAL bytes', read: ({ walBytes }) => walBytes },
    ],
    rows,
  }
}

function blockedTable(rows: readonly Blocked[]): Table<Blocked> {
  return {
    columns: [
      { title: 'jobs in full groups', read: ({ blockedJobs }) => blockedJobs },
      { title: 'claims', read: ({ claims }) => claims.count },
      { title: 'median ms', read: ({ claims }) => claims.p50, digits: 2 },
      { title: 'longest ms', read: ({ claims }) => claims.max, digits: 2 },
      { title: 'pages', read: ({ pages }) => pages },
    ],
    rows,
  }
}

function plainTable(rows: readonly PlainRatio[]): Table<PlainRatio> {
  return {
    columns: [
      { title: 'measure', read: ({ measure }) => measure },
      { title: 'rounds', read: ({ rounds }) => rounds },
      { title: 'other jobs/s', read: ({ otherPerSecond }) => otherPerSecond },
      { title: 'this jobs/s', read: ({ thisPerSecond }) => thisPerSecond },
      { title: 'ratio', read: ({ jobsRatio }) => jobsRatio, digits: 3 },
      { title: 'other µs/job', read: ({ otherUs }) => otherUs, digits: 1 },
      { title: 'this µs/job', read: ({ thisUs }) => thisUs, digits: 1 },
      { title: 'ratio', read: ({ cpuRatio }) => cpuRatio, digits: 3 },
    ],
    rows,
  }
}

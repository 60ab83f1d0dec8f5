// Two builds compared: the medians of their windows, and the ratio of each.

import { column, type GrowthRow } from '../bench/growth/measure.js'
import { median } from '../bench/statistics.js'
import type { Table } from '../bench/table.js'
import type { WindowReport } from './side.js'

/** The build at `--against`, and the one that runs the command. */
export type Build = 'other' | 'this'

/** One window of one build. */
export interface Turn {
  readonly load: string
  readonly rate: number
  readonly build: Build
  readonly round: number
  readonly report: Omit<WindowReport, 'kind'>
}

const FIGURES: Readonly<Record<string, (report: Turn['report']) => number | null>> = {
  donePerSecond: ({ done, seconds }) => done / seconds,
  cpuUsPerJob: ({ serverUs, workersUs, producersUs, done }) =>
    serverUs === null || done === 0 ? null : (serverUs + workersUs + producersUs) / done,
  serverUsPerJob: ({ serverUs, done }) => (serverUs === null || done === 0 ? null : serverUs / done),
  workersUsPerJob: ({ workersUs, done }) => (done === 0 ? null : workersUs / done),
  producersUsPerJob: ({ producersUs, done }) => (done === 0 ? null : producersUs / done),
  claimP50Ms: ({ claims }) => claims.p50,
  claimP99Ms: ({ claims }) => claims.p99,
  claimOwnP99Ms: ({ claimSplit }) => claimSplit?.p99.own ?? null,
  enqueueP50Ms: ({ enqueues }) => enqueues.p50,
  enqueueP99Ms: ({ enqueues }) => enqueues.p99,
  enqueueOwnP99Ms: ({ enqueueSplit }) => enqueueSplit?.p99.own ?? null,
}

const COLUMNS = [
  column('load', 'load'),
  column('build', 'build'),
  column('windows', 'windows'),
  column('done/s', 'donePerSecond', 2),
  column('CPU µs/job', 'cpuUsPerJob', 2),
  column('server', 'serverUsPerJob', 2),
  column('workers', 'workersUsPerJob', 2),
  column('producers', 'producersUsPerJob', 2),
  column('claim p50', 'claimP50Ms', 2),
  column('p99', 'claimP99Ms', 2),
  column('without CPU wait', 'claimOwnP99Ms', 2),
  column('enqueue p50', 'enqueueP50Ms', 2),
  column('p99', 'enqueueP99Ms', 2),
  column('without CPU wait', 'enqueueOwnP99Ms', 2),
]

/** For each load a row with the medians of either build, and one with the ratio: this build over the other. */
export function summariseTurns(turns: readonly Turn[]): Table<GrowthRow> {
  const loads = [...new Set(turns.map(({ load }) => load))]
  const rows = loads.flatMap((load) => {
    const of = (build: Build) => rowOf(build, load, turns)
    const [other, now] = [of('other'), of('this')]
    const ratios = Object.keys(FIGURES).map((name) => [name, ratioOf(now[name], other[name])])
    return [other, now, { load, build: 'this / other', windows: null, ...Object.fromEntries(ratios) }]
  })
  return { columns: COLUMNS, rows }
}

function rowOf(build: Build, load: string, turns: readonly Turn[]): GrowthRow {
  const reports = turns.filter((turn) => turn.load === load && turn.build === build).map(({ report }) => report)
  const medians = Object.entries(FIGURES).map(([name, read]) => {
    const values = reports.map(read).filter((value) => value !== null)
    return [name, values.length === 0 ? null : median(values)]
  })
  return { load, build, windows: reports.length, ...Object.fromEntries(medians) }
}

function ratioOf(one: GrowthRow[string] | undefined, other: GrowthRow[string] | undefined): number | null {
  return typeof one === 'number' && typeof other === 'number' && other !== 0 ? one / other : null
}

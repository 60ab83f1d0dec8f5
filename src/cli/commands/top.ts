// holdfast top: the store at a glance. Live in a terminal; elsewhere one frame.

import type { Command } from 'commander'
import type { Duration } from '../../core/duration.js'
import { isHoldfastError } from '../../core/errors.js'
import type { LimitView } from '../../core/flow/views.js'
import type { DeadGroup, Depth, Overview, QueueOverview, SeriesPoint } from '../../core/operating.js'
import type { WorkerView } from '../../core/views.js'
import type { Holdfast } from '../../holdfast.js'
import { addExamples, type Cli } from '../command.js'
import { everyOption } from '../input/arguments.js'
import { addStoreOptions, chooseStore, type StoreFlags, withStore } from '../input/connection.js'
import { pollUntil, readingLifetime } from '../lifetime.js'
import { errorText, isLive, lacksWorker, QUEUE_COLUMNS, rateText, WORKER_COLUMNS } from '../output/columns.js'
import { byUrgency as byLimitUrgency, isHolding, limitColumns } from '../output/flow.js'
import { writeJson } from '../output/json.js'
import { Screen } from '../output/screen.js'
import { type Column, tableLines } from '../output/table.js'
import { cutTo, type Format, type Output, visible } from '../output/terminal.js'
import { clockText, spanText } from '../output/times.js'

interface TopFlags extends StoreFlags {
  readonly every: Duration
  readonly once?: boolean
}

const DRAW_MS_MIN = 250

export function addTop(parent: Command, cli: Cli): void {
  const command = parent
    .command('top')
    .summary('watch the store live')
    .description(
      'Shows queues, rates, limits that hold jobs up, workers and the errors of dead jobs, and updates them until q or Ctrl-C. Where stdout is not a ' +
        'terminal, or with --json, it prints one frame.',
    )
    .addOption(everyOption())
    .option('--once', 'print one frame, also in a terminal')
    .action((flags: TopFlags) => top(cli, flags))
  addStoreOptions(command, { json: 'print { overview, workers, groups, series, limits } once, as JSON' })
  addExamples(command, [
    ['holdfast top', 'live; q quits'],
    ['holdfast top --every 5s --url postgres://app@db/shop', 'another store, less often'],
    ['holdfast top | head -3', 'one frame, only the totals'],
  ])
}

async function top(cli: Cli, flags: TopFlags): Promise<void> {
  const store = chooseStore(flags).shown
  await withStore(flags, { mustExist: true }, async (holdfast) => {
    if (flags.json === true) writeJson(cli, await read(holdfast))
    else if (!cli.stdout.isTerminal || flags.once === true) {
      for (const line of frameLines(cli.stdout, await read(holdfast), { store, rows: null })) cli.stdout.line(line)
    } else await watch(cli, holdfast, store, flags)
  })
}

async function read(holdfast: Holdfast): Promise<Snapshot> {
  return {
    overview: await holdfast.overview(),
    workers: await holdfast.workers(),
    groups: await holdfast.deadGroups({ limit: 5 }),
    series: await holdfast.series({ since: '15m', step: '10s' }),
    limits: holdingLimits(await holdfast.limits()),
  }
}

async function watch(cli: Cli, holdfast: Holdfast, store: string, flags: TopFlags): Promise<void> {
  const { stdout } = cli
  const lifetime = readingLifetime(cli, ['SIGINT', 'SIGTERM', 'SIGHUP'])
  const screen = new Screen(stdout, (key) => {
    if (key === 'q' || key === 'Q' || key === '\u0003') lifetime.end()
  })
  let snapshot: Snapshot | null = null
  let problem: string | null = null
  const draw = () => {
    const rows = stdout.rows === null ? null : stdout.rows - 1
    const lines = snapshot === null ? [] : frameLines(stdout, snapshot, { store, rows })
    const footer = problem === null ? stdout.style('dim', 'q quits') : stdout.style('red', cutTo(visible(problem), 200))
    screen.draw([...lines, footer])
  }
  const redraw = atMostEvery(DRAW_MS_MIN, draw)
  const endResize = stdout.onResize(redraw.run)
  try {
    const poll = async () => {
      try {
        snapshot = await read(holdfast)
        problem = null
      } catch (error) {
        // The last frame stays, with the problem below it, and the next poll tries again.
        if (!isHoldfastError(error) || !error.retryable) throw error
        problem = `the store is unavailable: ${error.message}`
      }
      redraw.run()
    }
    await pollUntil(lifetime.signal, { cli, everyMs: Number(flags.every), poll })
  } finally {
    endResize()
    redraw.stop()
    screen.close()
  }
}

/** Runs something immediately, or later so that `ms` lie between two runs. */
function atMostEvery(ms: number, run: () => void): { readonly run: () => void; readonly stop: () => void } {
  let lastMs = Number.NEGATIVE_INFINITY
  let timer: NodeJS.Timeout | null = null
  const now = () => {
    timer = null
    lastMs = performance.now()
    run()
  }
  return {
    run: () => {
      const waitMs = lastMs + ms - performance.now()
      if (waitMs <= 0) now()
      else timer ??= setTimeout(now, waitMs)
    },
    stop: () => {
      if (timer !== null) clearTimeout(timer)
    },
  }
}

/** The figures of one frame. */
interface Snapshot {
  readonly overview: Overview
  readonly workers: readonly WorkerView[]
  readonly groups: readonly DeadGroup[]
  /** Of the last 15 minutes, oldest first. */
  readonly series: readonly SeriesPoint[]
  /** Those that keep jobs from starting, the worst first. */
  readonly limits: readonly LimitView[]
}

function holdingLimits(limits: readonly LimitView[]): readonly LimitView[] {
  const nowMs = Date.now()
  return byLimitUrgency(limits, nowMs).filter((limit) => isHolding(limit, nowMs))
}

const QUEUES_MIN = 5
const WORKERS_MAX = 8
const GROUPS_MAX = 5
const LIMITS_MAX = 6

const GROUP_COLUMNS: readonly Column<DeadGroup>[] = [
  { name: 'fingerprint', text: ({ fingerprint }) => fingerprint.slice(0, 8) },
  { name: 'dead', text: ({ count }) => count.toLocaleString('en'), side: 'right', format: () => 'red' },
  { name: 'error', text: ({ error }) => errorText(error) ?? '(no error)', isLong: true },
]

const TITLE_WIDTH_MIN = 28

const QUEUES: readonly Column<QueueOverview>[] = QUEUE_COLUMNS.filter(({ isExtra }) => isExtra !== true)
const WORKERS: readonly Column<WorkerView>[] = WORKER_COLUMNS.filter(
  ({ name, isExtra }) => isExtra !== true && name !== 'started',
)

/** The lines of a frame. `rows` is the height of the terminal; null prints everything. */
function frameLines(
  out: Output,
  snapshot: Snapshot,
  { store, rows }: { readonly store: string; readonly rows: number | null },
): string[] {
  const { overview, groups, series } = snapshot
  const limits = snapshot.limits.slice(0, LIMITS_MAX)
  const workers = [...snapshot.workers].sort((one, other) => other.running - one.running).slice(0, WORKERS_MAX)
  const queues = [...overview.queues].sort(byUrgency)
  const columns = limitColumns(overview.nowMs).filter(({ isExtra }) => isExtra !== true)
  const below = [
    ...section(out, 'limits that hold jobs up', tableLines(out, limits, columns), limits.length),
    ...section(out, 'workers', tableLines(out, workers, WORKERS), workers.length),
    ...section(out, 'dead, by error', tableLines(out, groups.slice(0, GROUPS_MAX), GROUP_COLUMNS), groups.length),
  ]
  const above = head(out, snapshot, store, series)
  const room = rows === null ? queues.length : Math.max(QUEUES_MIN, rows - above.length - below.length - 3)
  const shown = queues.slice(0, room)
  const rest = queues.length - shown.length
  return [
    ...above,
    ...section(out, 'queues', tableLines(out, shown, QUEUES), shown.length),
    ...(rest > 0 ? [out.style('dim', `and ${rest} more ${rest === 1 ? 'queue' : 'queues'}`)] : []),
    ...below,
  ].slice(0, rows ?? undefined)
}

/** Queues without a worker first, then those with the most jobs. */
function byUrgency(one: QueueOverview, other: QueueOverview): number {
  const unserved = Number(lacksWorker(other)) - Number(lacksWorker(one))
  return unserved || other.ready + other.running - (one.ready + one.running) || one.name.localeCompare(other.name)
}

const STATES: readonly (readonly [keyof Depth, Format | null])[] = [
  ['ready', 'cyan'],
  ['running', 'blue'],
  ['scheduled', null],
  ['retrying', 'yellow'],
  ['blocked', null],
  ['dead', 'red'],
]

function head(out: Output, { overview, workers }: Snapshot, store: string, series: readonly SeriesPoint[]): string[] {
  const { queues, nowMs } = overview
  const sum = (of: (queue: QueueOverview) => number) => queues.reduce((all, queue) => all + of(queue), 0)
  const counts = STATES.map(([state, format]) => {
    const count = sum((queue) => queue[state])
    const text = `${state} ${count.toLocaleString('en')}`
    return format === null || count === 0 ? text : out.style(format, text)
  })
  const oldestS = Math.max(0, ...queues.map(({ oldestAgeS }) => oldestAgeS))
  const live = workers.filter(isLive)
  const busy = live.reduce((all, { running }) => all + running, 0)
  const slots = live.reduce((all, { concurrency }) => all + concurrency, 0)
  const rates = [
    `in ${rateText(sum(({ rates }) => rates.enqueued))}`,
    `done ${rateText(sum(({ rates }) => rates.succeeded))}`,
    `failed ${rateText(sum(({ rates }) => rates.failed))}`,
    `oldest ${oldestS === 0 ? '-' : spanText(oldestS * 1_000)}`,
    `workers ${live.length}, ${busy} of ${slots} slots busy`,
  ]
  const width = out.columns ?? Number.POSITIVE_INFINITY
  const title = cutTo(visible(`${clockText(new Date(nowMs))}  ${store}`), Math.max(TITLE_WIDTH_MIN, width - 14))
  return [
    `${out.style('bold', 'holdfast top')}  ${title}`,
    counts.join('   '),
    rates.join('   '),
    ...trend(out, series, width),
    ...queues
      .filter(lacksWorker)
      .slice(0, 3)
      .map(({ name }) => out.style('red', cutTo(`queue ${visible(name)} has ready jobs and no live worker`, width))),
  ]
}

const BARS = ' ▁▂▃▄▅▆▇█'

/** How many jobs succeeded over time, as bars one column wide. */
function trend(out: Output, series: readonly SeriesPoint[], width: number): string[] {
  const points = series.slice(-Math.max(0, Math.min(90, width - 8)))
  const most = Math.max(...points.map(({ succeeded }) => succeeded), 0)
  if (most === 0) return []
  const bars = points.map(({ succeeded }) => BARS[Math.ceil((succeeded / most) * (BARS.length - 1))]).join('')
  return [`${out.style('dim', 'done')}  ${out.style('green', bars)}`]
}

function section(out: Output, title: string, lines: readonly string[], count: number): string[] {
  return count === 0 ? [] : ['', out.style('bold', title), ...lines]
}

// One frame of `top`: what is known about the store, as lines that fit a terminal.

import type { WorkerView } from '../../core/job.js'
import type { DeadGroup, Depth, Overview, QueueOverview, SeriesPoint } from '../../core/operating.js'
import { isForsaken, QUEUE_COLUMNS, rateText } from '../queue-columns.js'
import { type Column, tableLines } from '../table.js'
import { cutTo, type Format, type Output, visible } from '../terminal.js'
import { clockText, spanText } from '../times.js'
import { isLive, WORKER_COLUMNS } from '../worker-columns.js'

/** What a frame shows. */
export interface Sight {
  readonly overview: Overview
  readonly workers: readonly WorkerView[]
  readonly groups: readonly DeadGroup[]
  /** Of the last minutes, oldest first. */
  readonly series: readonly SeriesPoint[]
}

const QUEUES_MIN = 5
const WORKERS_MAX = 8
const GROUPS_MAX = 5

const GROUP_COLUMNS: readonly Column<DeadGroup>[] = [
  { name: 'group', text: ({ fingerprint }) => fingerprint.slice(0, 8) },
  { name: 'dead', text: ({ count }) => count.toLocaleString('en'), side: 'right', format: () => 'red' },
  {
    name: 'error',
    text: ({ error }) => (error === null ? '(none was kept)' : `${error.name}: ${error.message}`),
    isLong: true,
  },
]

const TITLE_WIDTH_MIN = 28

const QUEUES: readonly Column<QueueOverview>[] = QUEUE_COLUMNS.filter(({ isExtra }) => isExtra !== true)
const WORKERS: readonly Column<WorkerView>[] = WORKER_COLUMNS.filter(
  ({ name, isExtra }) => isExtra !== true && name !== 'started',
)

/** The lines of a frame. `rows` is how many there is room for; null for all. */
export function frameLines(
  out: Output,
  sight: Sight,
  { store, rows }: { readonly store: string; readonly rows: number | null },
): string[] {
  const { overview, groups, series } = sight
  const workers = [...sight.workers].sort((one, other) => other.running - one.running).slice(0, WORKERS_MAX)
  const queues = [...overview.queues].sort(byUrgency)
  const below = [
    ...section(out, 'workers', tableLines(out, workers, WORKERS), workers.length),
    ...section(
      out,
      'dead, by what killed them',
      tableLines(out, groups.slice(0, GROUPS_MAX), GROUP_COLUMNS),
      groups.length,
    ),
  ]
  const above = head(out, sight, store, series)
  const room = rows === null ? queues.length : Math.max(QUEUES_MIN, rows - above.length - below.length - 3)
  const shown = queues.slice(0, room)
  const rest = queues.length - shown.length
  return [
    ...above,
    ...section(out, 'queues', tableLines(out, shown, QUEUES), shown.length),
    ...(rest > 0 ? [out.style('dim', `and ${rest} queues more`)] : []),
    ...below,
  ].slice(0, rows ?? undefined)
}

/** Trouble first, then the deepest. */
function byUrgency(one: QueueOverview, other: QueueOverview): number {
  const forsaken = Number(isForsaken(other)) - Number(isForsaken(one))
  return forsaken || other.ready + other.running - (one.ready + one.running) || one.name.localeCompare(other.name)
}

const STATES: readonly (readonly [keyof Depth, Format | null])[] = [
  ['ready', 'cyan'],
  ['running', 'blue'],
  ['scheduled', null],
  ['retrying', 'yellow'],
  ['blocked', null],
  ['dead', 'red'],
]

function head(out: Output, { overview, workers }: Sight, store: string, series: readonly SeriesPoint[]): string[] {
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
      .filter(isForsaken)
      .slice(0, 3)
      .map(({ name }) => out.style('red', cutTo(`queue ${visible(name)} has ready jobs and no live worker`, width))),
  ]
}

const BARS = ' ▁▂▃▄▅▆▇█'

/** What was done over time, as bars one column wide. */
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

// holdfast stats: how many jobs are in which state, and with --since what happened.

import type { Command } from 'commander'
import type { Duration } from '../../core/duration.js'
import { queueLimitName } from '../../core/flow/job-flow.js'
import type { LimitView } from '../../core/flow/views.js'
import { given } from '../../core/given.js'
import type { QueueOverview, SeriesPoint } from '../../core/operating.js'
import type { QueueStats, WorkerView } from '../../core/views.js'
import { addExamples, type Cli } from '../command.js'
import { duration } from '../input/arguments.js'
import { addStoreOptions, withStore } from '../input/connection.js'
import { isLive, QUEUE_COLUMNS } from '../output/columns.js'
import { byUrgency, isHolding, standingOf } from '../output/flow.js'
import { writeJson } from '../output/json.js'
import { addTableOptions, type ListFlags, printListing } from '../output/table.js'
import { visible } from '../output/terminal.js'
import { spanText } from '../output/times.js'

interface StatsFlags extends ListFlags {
  readonly queue?: string
  readonly since?: Duration
}

export function addStats(parent: Command, cli: Cli): void {
  const command = parent
    .command('stats')
    .summary('show how many jobs are in which state')
    .description(
      'Shows how many unfinished and dead jobs each queue has, how long the oldest ready job has waited, the live workers, ' +
        'the rates of the last minute, and limits that keep jobs from starting. With --since also what happened in that time.',
    )
    .option('--queue <name>', 'only this queue')
    .option('--since <duration>', 'also sum up this long, from 10s to 3d', duration)
    .action((flags: StatsFlags) => stats(cli, flags))
  addStoreOptions(command, { json: 'print { total, queues, happened, limits } as JSON' })
  addTableOptions(command, QUEUE_COLUMNS)
  addExamples(command, [
    ['holdfast stats', 'every queue'],
    ['holdfast stats --since 1h', 'and what happened in the last hour'],
    ["holdfast stats --queue email --json | jq '.total.ready'", 'one number for a script'],
  ])
}

async function stats(cli: Cli, flags: StatsFlags): Promise<void> {
  const { queue, since } = flags
  await withStore(flags, { mustExist: true }, async (holdfast) => {
    const total = await holdfast.stats(queue)
    const { queues } = await holdfast.overview()
    const rows = queues
      .filter(({ name }) => queue === undefined || name === queue)
      .sort((one, other) => one.name.localeCompare(other.name))
    const holding = holdingOf(await holdfast.limits(), queue)
    const happened = since === undefined ? null : sumUp(await holdfast.series({ since, ...given({ queue }) }))
    if (flags.json === true) {
      writeJson(cli, { total, queues: rows, happened, limits: holding })
      return
    }
    const shown =
      rows.length > 1 && flags.jsonl !== true ? [...rows, everyQueue(total, rows, await holdfast.workers())] : rows
    const empty =
      queue === undefined ? 'there is no queue yet: `holdfast enqueue` makes one' : `there is no queue ${queue}`
    printListing(cli, flags, { name: 'queues', rows: shown, columns: QUEUE_COLUMNS, empty })
    if (flags.jsonl === true) return
    if (happened !== null) cli.stdout.line(happenedText(happened))
    tellHolding(cli, holding)
  })
}

const HOLDING_MAX = 5

/** The limits that keep jobs from starting, the worst first; of one queue its own alone. */
function holdingOf(limits: readonly LimitView[], queue: string | undefined): readonly LimitView[] {
  const nowMs = Date.now()
  return byUrgency(limits, nowMs).filter(
    (limit) => isHolding(limit, nowMs) && (queue === undefined || limit.name === queueLimitName(queue)),
  )
}

function tellHolding({ stderr }: Cli, limits: readonly LimitView[]): void {
  for (const limit of limits.slice(0, HOLDING_MAX)) {
    const { state, why } = standingOf(limit, Date.now())
    stderr.line(`${stderr.style('yellow', 'limited:')} ${visible(limit.name)} ${state}: ${why}`)
  }
  const rest = limits.length - HOLDING_MAX
  if (rest > 0) stderr.line(`and ${rest} more: \`holdfast limits list\` shows all of them`)
}

/** All queues as one row. */
function everyQueue(total: QueueStats, rows: readonly QueueOverview[], everyone: readonly WorkerView[]): QueueOverview {
  const workers = everyone.filter(isLive)
  const sum = (of: (row: QueueOverview) => number) => rows.reduce((all, row) => all + of(row), 0)
  return {
    ...total,
    name: 'all queues',
    paused: false,
    settings: { limits: {} },
    workers: workers.length,
    slots: workers.reduce((all, { concurrency }) => all + concurrency, 0),
    rates: {
      enqueued: sum(({ rates }) => rates.enqueued),
      succeeded: sum(({ rates }) => rates.succeeded),
      failed: sum(({ rates }) => rates.failed),
      dead: sum(({ rates }) => rates.dead),
    },
  }
}

const COUNTED = ['enqueued', 'succeeded', 'failed', 'retried', 'dead', 'cancelled', 'rescued'] as const

interface Happened extends Readonly<Record<(typeof COUNTED)[number], number>> {
  readonly since: Date | null
  /** How long an attempt ran on average; null when none ended. */
  readonly runMsMean: number | null
}

function sumUp(points: readonly SeriesPoint[]): Happened {
  const sum = (name: (typeof COUNTED)[number] | 'claimed' | 'runMsTotal') =>
    points.reduce((all, point) => all + point[name], 0)
  const counts = Object.fromEntries(COUNTED.map((name) => [name, sum(name)])) as Record<
    (typeof COUNTED)[number],
    number
  >
  const claimed = sum('claimed')
  return { since: points[0]?.at ?? null, ...counts, runMsMean: claimed === 0 ? null : sum('runMsTotal') / claimed }
}

function happenedText({ since, runMsMean, ...counts }: Happened): string {
  const parts = Object.entries(counts).map(([name, count]) => `${count.toLocaleString('en')} ${name}`)
  const ran = runMsMean === null ? '' : `; an attempt ran ${spanText(runMsMean)} on average`
  return `since ${since?.toISOString() ?? 'then'}: ${parts.join(', ')}${ran}`
}

// holdfast stats: how many jobs are in which state, and with --since what happened.

import type { Command } from 'commander'
import type { Duration } from '../../core/duration.js'
import type { QueueStats, WorkerView } from '../../core/job.js'
import type { QueueOverview, SeriesPoint } from '../../core/operating.js'
import { addExamples, type Cli } from '../command.js'
import { duration } from '../input/arguments.js'
import { addStoreOptions, withStore } from '../input/connection.js'
import { isLive, QUEUE_COLUMNS } from '../output/columns.js'
import { writeJson } from '../output/json.js'
import { addTableOptions, type ListFlags, printListing } from '../output/table.js'
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
        'and the rates of the last minute. With --since also what happened in that time.',
    )
    .option('--queue <name>', 'only this queue')
    .option('--since <duration>', 'also sum up this long, from 10s to 3d', duration)
    .action((flags: StatsFlags) => stats(cli, flags))
  addStoreOptions(command, { json: 'print { total, queues, happened } as JSON' })
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
    const points =
      since === undefined ? null : await holdfast.series({ since, ...(queue === undefined ? {} : { queue }) })
    const happened = points === null ? null : sumUp(points)
    if (flags.json === true) {
      writeJson(cli, { total, queues: rows, happened })
      return
    }
    const shown =
      rows.length > 1 && flags.jsonl !== true ? [...rows, everyQueue(total, rows, await holdfast.workers())] : rows
    const empty =
      queue === undefined ? 'there is no queue yet: `holdfast enqueue` makes one' : `there is no queue ${queue}`
    printListing(cli, flags, { name: 'queues', rows: shown, columns: QUEUE_COLUMNS, empty })
    if (happened !== null && flags.jsonl !== true) cli.stdout.line(happenedText(happened))
  })
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

interface Happened {
  readonly since: Date | null
  readonly enqueued: number
  readonly succeeded: number
  readonly failed: number
  readonly retried: number
  readonly dead: number
  readonly cancelled: number
  readonly rescued: number
  /** How long an attempt ran on average; null when none ended. */
  readonly runMsMean: number | null
}

function sumUp(points: readonly SeriesPoint[]): Happened {
  const sum = (of: (point: SeriesPoint) => number) => points.reduce((all, point) => all + of(point), 0)
  const claimed = sum((point) => point.claimed)
  return {
    since: points[0]?.at ?? null,
    enqueued: sum(({ enqueued }) => enqueued),
    succeeded: sum(({ succeeded }) => succeeded),
    failed: sum(({ failed }) => failed),
    retried: sum(({ retried }) => retried),
    dead: sum(({ dead }) => dead),
    cancelled: sum(({ cancelled }) => cancelled),
    rescued: sum(({ rescued }) => rescued),
    runMsMean: claimed === 0 ? null : sum(({ runMsTotal }) => runMsTotal) / claimed,
  }
}

function happenedText({ since, runMsMean, ...counts }: Happened): string {
  const parts = Object.entries(counts).map(([name, count]) => `${count.toLocaleString('en')} ${name}`)
  const ran = runMsMean === null ? '' : `; an attempt ran ${spanText(runMsMean)} on average`
  return `since ${since?.toISOString() ?? 'then'}: ${parts.join(', ')}${ran}`
}

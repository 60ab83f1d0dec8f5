// holdfast stats: how many jobs stand where.

import type { Command } from 'commander'
import type { QueueStats, QueueView } from '../../core/job.js'
import { addExamples, type Cli, writeJson } from '../command.js'
import { addStoreOptions, type StoreFlags, withStore } from '../connection.js'
import { padTo, visible } from '../terminal.js'
import { spanText } from '../times.js'

interface StatsFlags extends StoreFlags {
  readonly queue?: string
}

const QUEUES_MAX = 200

export function addStats(parent: Command, cli: Cli): void {
  const command = parent
    .command('stats')
    .summary('show how many jobs stand where')
    .description(
      'Shows how many unfinished and dead jobs each queue holds, and how long the oldest ready one has waited.',
    )
    .option('--queue <name>', 'only this queue')
    .action((flags: StatsFlags) => stats(cli, flags))
  addStoreOptions(command, { json: 'print { total, queues } as JSON' })
  addExamples(command, [
    ['holdfast stats', 'every queue'],
    ["holdfast stats --queue email --json | jq '.total.ready'", 'one number for a script'],
  ])
}

interface QueueRow extends QueueStats {
  readonly name: string
  readonly paused: boolean
}

async function stats(cli: Cli, flags: StatsFlags): Promise<void> {
  await withStore(flags, { mustExist: true }, async (holdfast) => {
    const total = await holdfast.stats(flags.queue)
    const known = (await holdfast.queues()).filter(({ name }) => flags.queue === undefined || name === flags.queue)
    const queues: QueueRow[] = []
    // One after the other: a look must not take more of the store than one connection.
    for (const { name, paused } of known.slice(0, QUEUES_MAX))
      queues.push({ name, paused, ...(await holdfast.stats(name)) })
    if (flags.json === true) writeJson(cli, { total, queues })
    else print(cli, total, queues, known)
  })
}

const COLUMNS = ['ready', 'running', 'scheduled', 'retrying', 'blocked', 'dead'] as const

function print(cli: Cli, total: QueueStats, queues: readonly QueueRow[], known: readonly QueueView[]): void {
  if (known.length === 0) {
    cli.stderr.line('no queue has ever had a job here: try `holdfast enqueue`')
    return
  }
  const named = queues.map((row) => ({ ...row, name: row.paused ? `${row.name} (paused)` : row.name }))
  const rows = queues.length > 1 ? [...named, { ...total, name: 'all queues' }] : named
  const cells = rows.map((row) => [
    visible(row.name),
    ...COLUMNS.map((column) => row[column].toLocaleString('en')),
    row.ready === 0 ? '-' : spanText(row.oldestAgeS * 1_000),
  ])
  const lines = [['queue', ...COLUMNS, 'oldest'], ...cells]
  const widths = lines[0]!.map((_, column) => Math.max(...lines.map((line) => line[column]!.length)))
  lines.forEach((line, index) => {
    const text = line.map((cell, column) => padTo(cell, widths[column]!, column === 0 ? 'left' : 'right')).join('  ')
    cli.stdout.line(index === 0 ? cli.stdout.style('dim', text) : text)
  })
  if (known.length > queues.length) cli.stderr.line(`and ${known.length - queues.length} queues more`)
}

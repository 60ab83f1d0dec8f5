// holdfast queues show: one queue, with its settings and its workers.

import type { Command } from 'commander'
import type { QueueStats, WorkerView } from '../../../core/job.js'
import type { QueueOverview } from '../../../core/operating.js'
import { addExamples, type Cli, writeJson } from '../../command.js'
import { addStoreOptions, type StoreFlags, withStore } from '../../connection.js'
import { findQueue } from '../../find-queue.js'
import { rateText } from '../../queue-columns.js'
import { visible } from '../../terminal.js'
import { spanText } from '../../times.js'

export function addQueuesShow(parent: Command, cli: Cli): void {
  const command = parent
    .command('show')
    .summary('show one queue')
    .description('Shows one queue: its counts and rates, what it sets for its jobs, the workers that serve it.')
    .argument('<queue>', 'its name')
    .action((name: string, flags: StoreFlags) => show(cli, name, flags))
  addStoreOptions(command, { json: 'print { queue, stats, workers } as JSON' })
  addExamples(command, [
    ['holdfast queues show mail', 'everything about it'],
    ["holdfast queues show mail --json | jq '.stats.oldestAgeS'", 'one number for a script'],
  ])
}

async function show(cli: Cli, name: string, flags: StoreFlags): Promise<void> {
  await withStore(flags, { mustExist: true }, async (holdfast) => {
    const [known] = (await holdfast.overview({ queues: [name] })).queues
    const queue = known ?? findQueue((await holdfast.overview()).queues, name)
    const stats = await holdfast.stats(name)
    const workers = (await holdfast.workers()).filter(({ queues }) => queues.includes(name))
    if (flags.json === true) writeJson(cli, { queue, stats, workers })
    else for (const line of describe(cli, queue, stats, workers)) cli.stdout.line(line)
  })
}

function describe(cli: Cli, queue: QueueOverview, stats: QueueStats, workers: readonly WorkerView[]): string[] {
  const { stdout } = cli
  const state = queue.paused ? stdout.style('yellow', 'paused') : stdout.style('green', 'gives jobs')
  const about = stats.isExact ? '' : 'about '
  const count = (number: number) => `${about}${number.toLocaleString('en')}`
  const { rates } = queue
  const facts: (readonly [string, string])[] = [
    [
      'ready',
      `${count(stats.ready)}${stats.ready === 0 ? '' : `, the oldest for ${spanText(stats.oldestAgeS * 1_000)}`}`,
    ],
    ['running', count(stats.running)],
    ['scheduled', count(stats.scheduled)],
    ['retrying', count(stats.retrying)],
    ['blocked', count(stats.blocked)],
    ['dead', count(stats.dead)],
    ['rates', `${rateText(rates.enqueued)} in, ${rateText(rates.succeeded)} done, ${rateText(rates.failed)} failed`],
    ['attempts', `99 in 100 need at most ${stats.attemptsP99}`],
    ...settingsOf(queue),
    ['workers', `${queue.workers} live, ${queue.slots} slots`],
    ...workers.map(({ id, running, concurrency }) => ['', `${id}, ${running} of ${concurrency} slots busy`] as const),
  ]
  return [
    `${stdout.style('bold', visible(queue.name))}  ${state}`,
    ...facts.map(([label, fact]) => `  ${stdout.style('dim', label.padEnd(12))} ${visible(fact)}`),
  ]
}

function settingsOf({ settings }: QueueOverview): (readonly [string, string])[] {
  const { maxAttempts, timeoutMs, maxAgeMs, retry } = settings.limits
  const span = (ms: number | null | undefined) => (ms === null ? 'unlimited' : ms === undefined ? null : spanText(ms))
  const all = [
    ['max attempts', maxAttempts === undefined ? null : String(maxAttempts)],
    ['timeout', span(timeoutMs)],
    ['max age', span(maxAgeMs)],
    ['retry', retry === undefined ? null : JSON.stringify(retry)],
    ['retention', span(settings.retentionMs)],
  ] as const
  return all.flatMap(([label, fact]) => (fact === null ? [] : [[label, fact] as const]))
}

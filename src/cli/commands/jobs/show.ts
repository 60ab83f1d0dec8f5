// holdfast jobs show: one job's whole story.

import type { Command } from 'commander'
import { HoldfastError } from '../../../core/errors.js'
import type { JobView } from '../../../core/job.js'
import type { StoredError } from '../../../core/json.js'
import { addExamples, type Cli, writeJson } from '../../command.js'
import { addStoreOptions, type StoreFlags, withStore } from '../../connection.js'
import { STATE_FORMAT } from '../../job-columns.js'
import { findId } from '../../job-ids.js'
import type { Output } from '../../terminal.js'
import { visible, visibleJson } from '../../terminal.js'
import { clockText, momentText, spanText } from '../../times.js'

export function addJobsShow(parent: Command, cli: Cli): void {
  const command = parent
    .command('show')
    .summary('show one job')
    .description('Shows one job: where it stands, its payload and result, each failed attempt, its log.')
    .argument('<id>', "the job's id, or the last 6 to 12 characters of a recent one")
    .action((id: string, flags: StoreFlags) => show(cli, id, flags))
  addStoreOptions(command, { json: 'print the job as JSON' })
  addExamples(command, [
    ['holdfast jobs show 0199a8f2-7c31-7a4e-9d20-5b1f6c3e8a74', 'everything about it'],
    ['holdfast jobs show 3e8a74 --verbose', 'by the end of its id, with the stacks of its errors'],
    ["holdfast jobs show 3e8a74 --json | jq '.job.attempts[].error.message'", 'for a script'],
  ])
}

async function show(cli: Cli, typed: string, flags: StoreFlags): Promise<void> {
  await withStore(flags, { mustExist: true }, async (holdfast) => {
    const id = await findId(holdfast, typed)
    const job = await holdfast.get(id)
    if (job === null) throw new HoldfastError('job_not_found', `there is no job ${id}`)
    if (flags.json === true) writeJson(cli, { job })
    else for (const line of describe(job, cli.stdout, flags.verbose === true)) cli.stdout.line(line)
  })
}

function describe(job: JobView, out: Output, verbose: boolean): string[] {
  const state = job.reason === null ? job.state : `${job.state} (${job.reason})`
  return [
    `${out.style('bold', visible(job.type))}  ${job.id}  ${out.style(STATE_FORMAT[job.state], state)}`,
    ...facts(job).map(([label, fact]) => `  ${out.style('dim', label.padEnd(10))} ${visible(fact)}`),
    ...section(out, 'payload', jsonLines(job.payload, out)),
    ...(job.result === null ? [] : section(out, 'result', jsonLines(job.result, out))),
    ...(job.progress === null ? [] : section(out, 'progress', jsonLines(job.progress, out))),
    // With attempts, it is the last of theirs.
    ...(job.error === null || job.attempts.length > 0 ? [] : section(out, 'error', errorLines(job.error, verbose))),
    ...section(
      out,
      'failed attempts',
      job.attempts.flatMap((attempt) => attemptLines(attempt, verbose)),
    ),
    ...section(
      out,
      'log',
      job.logs.map(({ at, text }) => `${clockText(at)}  ${visible(text)}`),
    ),
  ]
}

function facts(job: JobView): (readonly [label: string, fact: string])[] {
  const moment = (date: Date | null) => (date === null ? null : momentText(date))
  const all = [
    ['queue', job.priority === 0 ? job.queue : `${job.queue}, priority ${job.priority}`],
    [
      'attempts',
      `${job.attempt} of ${job.maxAttempts}${job.crashes === 0 ? '' : `, ${job.crashes} lost with a worker`}`,
    ],
    ['created', moment(job.createdAt)],
    ['runs', moment(job.runAt)],
    ['started', moment(job.startedAt)],
    ['finished', moment(job.finishedAt)],
    ['took', took(job)],
    ['worker', job.worker],
    ['lease', moment(job.leasedUntil)],
    ['cancel', job.cancelRequested ? 'asked for; its worker is told' : null],
    ['key', job.idempotencyKey],
    ['after', job.after.length === 0 ? null : `${job.after.join(', ')}; ${job.onParentDead} when one of them dies`],
    ['schedule', job.schedule === null ? null : `${job.schedule.name}, tick ${job.schedule.tick.toISOString()}`],
    ['tags', job.tags.length === 0 ? null : job.tags.join(', ')],
    ...job.requeues.map(
      ({ number, at, by }) => ['requeued', `${at.toISOString()} by ${by} (replay ${number})`] as const,
    ),
  ] as const
  return all.flatMap(([label, fact]) => (fact === null ? [] : [[label, fact] as const]))
}

function took({ startedAt, finishedAt }: JobView): string | null {
  return startedAt === null || finishedAt === null ? null : spanText(finishedAt.getTime() - startedAt.getTime())
}

const LINES_MAX = 200

/** JSON over many lines; in a terminal a long one is cut, with the way to see all of it. */
function jsonLines(value: unknown, out: Output): string[] {
  const lines = visibleJson(value).split('\n')
  if (!out.isTerminal || lines.length <= LINES_MAX) return lines
  return [...lines.slice(0, LINES_MAX), `… ${lines.length - LINES_MAX} more lines: --json shows all of it`]
}

function attemptLines({ attempt, worker, finishedAt, error }: JobView['attempts'][number], verbose: boolean): string[] {
  const where = worker === null ? '' : `  on ${worker}`
  return [
    visible(`${attempt}  ${finishedAt.toISOString()}${where}`),
    ...errorLines(error, verbose).map((line) => `   ${line}`),
  ]
}

function errorLines({ name, message, code, stack }: StoredError, verbose: boolean): string[] {
  if (verbose && stack !== undefined) return stack.split('\n').map(visible)
  return [visible(`${name}${code === undefined ? '' : ` (${code})`}: ${message}`)]
}

function section(out: Output, title: string, lines: readonly string[]): string[] {
  return lines.length === 0 ? [] : [out.style('dim', title), ...lines.map((line) => `  ${line}`)]
}

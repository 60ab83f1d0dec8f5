// One job in full, for people.

import type { StoredError } from '../../core/json.js'
import type { JobView } from '../../core/views.js'
import { STATE_FORMAT } from './columns.js'
import { type Output, visible, visibleJson } from './terminal.js'
import { clockText, momentText, spanText } from './times.js'

/** The lines that describe a job. `verbose` adds the stacks of its errors. */
export function describeJob(job: JobView, out: Output, { verbose }: { readonly verbose: boolean }): string[] {
  const state = job.reason === null ? job.state : `${job.state} (${job.reason})`
  const attempts = job.attempts.flatMap((attempt) => attemptLines(attempt, verbose))
  const logs = job.logs.map(({ at, text }) => `${clockText(at)}  ${visible(text)}`)
  return [
    `${out.style('bold', visible(job.type))}  ${job.id}  ${out.style(STATE_FORMAT[job.state], state)}`,
    ...factLines(out, facts(job), 10),
    ...section(out, 'payload', jsonLines(job.payload, out)),
    ...(job.result === null ? [] : section(out, 'result', jsonLines(job.result, out))),
    ...(job.progress === null ? [] : section(out, 'progress', jsonLines(job.progress, out))),
    // Where there are attempts, the last of them has this error.
    ...(job.error === null || attempts.length > 0 ? [] : section(out, 'error', errorLines(job.error, verbose))),
    ...section(out, 'failed attempts', attempts),
    ...section(out, 'steps', stepLines(job)),
    ...section(out, 'log', logs),
  ]
}

/** Something to know, under its label; null when there is nothing to say. */
export type Fact = readonly [label: string, fact: string | null]

/** Facts as indented lines with a column of labels. Those without a value are left out. */
export function factLines(out: Output, all: readonly Fact[], width: number): string[] {
  return all.flatMap(([label, fact]) =>
    fact === null ? [] : [`  ${out.style('dim', label.padEnd(width))} ${visible(fact)}`],
  )
}

function facts(job: JobView): readonly Fact[] {
  const moment = (date: Date | null) => (date === null ? null : momentText(date))
  const crashes = job.crashes === 0 ? '' : `, ${job.crashes} lost with a worker`
  return [
    ['queue', job.priority === 0 ? job.queue : `${job.queue}, priority ${job.priority}`],
    ['attempts', `${job.attempt} of ${job.maxAttempts}${crashes}`],
    ['created', moment(job.createdAt)],
    ['runs', moment(job.runAt)],
    ['started', moment(job.startedAt)],
    ['finished', moment(job.finishedAt)],
    ['took', took(job)],
    ['worker', job.worker],
    ['lease', moment(job.leasedUntil)],
    ['cancel', job.cancelRequested ? 'requested; its worker is notified' : null],
    ['group', job.flow?.group ?? null],
    ['limits', job.flow === undefined || job.flow.limits.length === 0 ? null : job.flow.limits.join(', ')],
    ['cost', job.flow === undefined || job.flow.cost === 1 ? null : job.flow.cost.toLocaleString('en')],
    ['waits for', job.wait === undefined ? null : `the signal "${job.wait.name}", until ${momentText(job.wait.until)}`],
    ['key', job.idempotencyKey],
    ['after', job.after.length === 0 ? null : `${job.after.join(', ')}; ${job.onParentDead} when one of them dies`],
    ['schedule', job.schedule === null ? null : `${job.schedule.name}, tick ${job.schedule.tick.toISOString()}`],
    ['tags', job.tags.length === 0 ? null : job.tags.join(', ')],
    ...job.requeues.map(({ at, by }): Fact => ['requeued', `${at.toISOString()} by ${by}`]),
  ]
}

const STEPS_SHOWN = 100

/** The newest steps. */
function stepLines({ steps = [] }: JobView): string[] {
  const shown = steps.slice(-STEPS_SHOWN).map(({ kind, name, attempt, begun, beganAt, endedAt }) => {
    const took = endedAt === null ? 'not known how it ended' : spanText(endedAt.getTime() - beganAt.getTime())
    const times = begun === 1 ? '' : `, begun ${begun} times`
    return visible(`${beganAt.toISOString()}  ${kind} ${name}  attempt ${attempt}, ${took}${times}`)
  })
  const hidden = steps.length - shown.length
  return hidden === 0 ? shown : [`… ${hidden} earlier steps: --json shows all of them`, ...shown]
}

function took({ startedAt, finishedAt }: JobView): string | null {
  return startedAt === null || finishedAt === null ? null : spanText(finishedAt.getTime() - startedAt.getTime())
}

const LINES_MAX = 200

/** JSON over several lines. A terminal gets at most 200, and how to see the rest. */
function jsonLines(value: unknown, out: Output): string[] {
  const lines = visibleJson(value).split('\n')
  if (!out.isTerminal || lines.length <= LINES_MAX) return lines
  return [...lines.slice(0, LINES_MAX), `… ${lines.length - LINES_MAX} more lines: --json shows all of them`]
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

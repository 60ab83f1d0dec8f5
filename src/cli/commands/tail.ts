// holdfast tail: what happens in the store as JSON lines, for programs: jobs that move, and what operators do.

import type { Command } from 'commander'
import type { Duration } from '../../core/duration.js'
import type { AuditEntry } from '../../core/operating.js'
import type { Holdfast } from '../../holdfast.js'
import { pollEvery, wholeNumber } from '../arguments.js'
import { addExamples, type Cli, writeJsonLine } from '../command.js'
import { addStoreOptions, type StoreFlags, withStore } from '../connection.js'
import { addFilterOptions, type FilterFlags, readJobFilter } from '../filters.js'
import { type JobChange, JobWatch, momentOf } from '../job-watch.js'
import { Lifetime } from '../lifetime.js'
import { pollUntil } from '../poll.js'

interface TailFlags extends StoreFlags, FilterFlags {
  readonly every: Duration
  readonly limit?: number
}

export function addTail(parent: Command, cli: Cli): void {
  const command = parent
    .command('tail')
    .summary('follow what happens, as JSON lines')
    .description(
      'Follows the whole store by polling, until Ctrl-C: one JSON line for each job that moved (job.changed) and for ' +
        'each thing an operator did (operator.acted). Payloads are no part of it.',
    )
    .option('--every <duration>', 'how often to look, 250ms to 1h', pollEvery, 1_000)
    .option('--limit <number>', 'end after so many lines', wholeNumber)
    .action((flags: TailFlags) => tail(cli, flags))
  addStoreOptions(command, { json: 'the lines are JSON with and without it' })
  command.option('--jsonl', 'the same')
  addFilterOptions(command)
  addExamples(command, [
    ['holdfast tail', 'everything'],
    [`holdfast tail --filter 'queue:mail' | jq -r 'select(.state == "dead") | .error'`, 'what kills mail'],
  ])
}

async function tail(cli: Cli, flags: TailFlags): Promise<void> {
  const filter = readJobFilter(flags)
  const lifetime = new Lifetime(cli, {
    signals: ['SIGINT', 'SIGTERM'],
    onUncaught: () => false,
    leaving: 'left at once',
  })
  await withStore(flags, { mustExist: true }, async (holdfast) => {
    const jobs = new JobWatch(holdfast, filter)
    const audit = new AuditWatch(holdfast)
    let left = flags.limit ?? Number.POSITIVE_INFINITY
    let isFirst = true
    const look = async () => {
      const lines = [...(await jobs.look()).map(jobLine), ...(await audit.look()).map(auditLine)]
      for (const line of lines) if (left-- > 0) writeJsonLine(cli, line)
      if (left <= 0) lifetime.end()
      if (isFirst && flags.json !== true) cli.stderr.line('following; Ctrl-C ends it')
      isFirst = false
    }
    await pollUntil(lifetime.signal, { cli, everyMs: Number(flags.every), look })
  })
}

function jobLine({ job, from }: JobChange): object {
  const { id, type, queue, state, attempt, reason, worker, error } = job
  const message = error === null ? null : `${error.name}: ${error.message}`
  return {
    event: 'job.changed',
    at: momentOf(job),
    id,
    type,
    queue,
    from,
    state,
    attempt,
    reason,
    worker,
    error: message,
  }
}

function auditLine({ line, at, actor, action, job, target, details }: AuditEntry): object {
  return { event: 'operator.acted', at, line, actor, action, job, target, details }
}

/** Remembers how far the audit log was read. */
class AuditWatch {
  readonly #holdfast: Holdfast
  #line: number | null = null

  constructor(holdfast: Holdfast) {
    this.#holdfast = holdfast
  }

  /** The entries since the last look, oldest first, at most a page of them. The first look only remembers. */
  async look(): Promise<readonly AuditEntry[]> {
    const last = this.#line
    const { entries } = await this.#holdfast.audit({ limit: last === null ? 1 : 200 })
    this.#line = entries[0]?.line ?? last ?? 0
    return last === null ? [] : entries.filter(({ line }) => line > last).reverse()
  }
}

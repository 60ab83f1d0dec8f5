// holdfast audit: who changed what.

import type { Command } from 'commander'
import { given } from '../../core/given.js'
import type { AuditEntry } from '../../core/operating.js'
import { addExamples, type Cli } from '../command.js'
import { wholeNumber } from '../input/arguments.js'
import { addStoreOptions, withStore } from '../input/connection.js'
import { findJobId, shortId } from '../input/ids.js'
import { addTableOptions, type Column, type ListFlags, printListing } from '../output/table.js'
import { visibleJson } from '../output/terminal.js'
import { whenText } from '../output/times.js'

interface AuditFlags extends ListFlags {
  readonly limit: number
  readonly before?: number
  readonly action?: string
  readonly actor?: string
  readonly job?: string
}

const COLUMNS: readonly Column<AuditEntry>[] = [
  { name: 'line', text: ({ line }) => String(line), side: 'right' },
  { name: 'at', text: ({ at }, look) => whenText(at, look) },
  { name: 'actor', text: ({ actor }) => actor, isLong: true },
  { name: 'action', text: ({ action }) => action },
  { name: 'job', text: ({ job }, { isShort }) => (job === null ? '-' : isShort ? shortId(job) : job) },
  { name: 'target', text: ({ target }) => target ?? '-', isLong: true },
  { name: 'details', text: ({ details }) => (details === null ? '-' : visibleJson(details, 0)), isLong: true },
]

export function addAudit(parent: Command, cli: Cli): void {
  const command = parent
    .command('audit')
    .summary('show who changed what')
    .description('Shows the audit log, newest first: what operators did to jobs, queues, schedules and keys.')
    .option('--limit <number>', 'how many lines at most, up to 200', wholeNumber, 50)
    .option('--before <line>', 'continue below this line', wholeNumber)
    .option('--action <text>', 'only this action, such as cancel, requeue, pause queue')
    .option('--actor <who>', 'only by this actor')
    .option('--job <id>', 'only about this job')
    .action((flags: AuditFlags) => audit(cli, flags))
  addStoreOptions(command, { json: 'print { entries, next } as JSON' })
  addTableOptions(command, COLUMNS)
  addExamples(command, [
    ['holdfast audit', 'the newest'],
    ['holdfast audit --job 3e8a74', 'who changed this job'],
  ])
}

async function audit(cli: Cli, flags: AuditFlags): Promise<void> {
  const { limit, before = null, action, actor } = flags
  await withStore(flags, { mustExist: true }, async (holdfast) => {
    const job = flags.job === undefined ? undefined : await findJobId(holdfast, flags.job)
    const { entries, next } = await holdfast.audit({ limit, before, ...given({ action, actor, job }) })
    printListing(cli, flags, {
      name: 'entries',
      rows: entries,
      columns: COLUMNS,
      more: { next },
      empty: 'no line matches',
    })
    if (next !== null && flags.json !== true && flags.jsonl !== true) {
      cli.stderr.line(`there may be more: continue with --before ${next}`)
    }
  })
}

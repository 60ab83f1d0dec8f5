// holdfast audit: who changed what.

import type { Command } from 'commander'
import type { AuditEntry } from '../../core/operating.js'
import { wholeNumber } from '../arguments.js'
import { addExamples, type Cli } from '../command.js'
import { addStoreOptions, withStore } from '../connection.js'
import { findId, shortId } from '../job-ids.js'
import { addTableOptions, type Column, type ListFlags, printListing } from '../table.js'
import { visibleJson } from '../terminal.js'
import { whenText } from '../times.js'

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
    .option('--limit <number>', 'the most lines, up to 200', wholeNumber, 50)
    .option('--before <line>', 'go on below this line', wholeNumber)
    .option('--action <text>', 'only this, as in cancel, requeue, pause queue')
    .option('--actor <who>', 'only by them')
    .option('--job <id>', 'only about this job')
    .action((flags: AuditFlags) => audit(cli, flags))
  addStoreOptions(command, { json: 'print { entries, next } as JSON' })
  addTableOptions(command, COLUMNS)
  addExamples(command, [
    ['holdfast audit', 'the newest'],
    ['holdfast audit --job 3e8a74', 'who touched this job'],
  ])
}

async function audit(cli: Cli, flags: AuditFlags): Promise<void> {
  const { limit, before = null, action, actor } = flags
  await withStore(flags, { mustExist: true }, async (holdfast) => {
    const job = flags.job === undefined ? undefined : await findId(holdfast, flags.job)
    const given = Object.entries({ action, actor, job }).filter(([, value]) => value !== undefined)
    const { entries, next } = await holdfast.audit({ limit, before, ...Object.fromEntries(given) })
    printListing(cli, flags, {
      name: 'entries',
      rows: entries,
      columns: COLUMNS,
      more: { next },
      empty: 'no line matches',
    })
    if (next !== null && flags.json !== true && flags.jsonl !== true) {
      cli.stderr.line(`there may be more: go on with --before ${next}`)
    }
  })
}

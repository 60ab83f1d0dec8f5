// holdfast import: jobs and schedules of BullMQ, pg-boss and graphile-worker.

import { readFile } from 'node:fs/promises'
import { type Command, Option } from 'commander'
import { connectToStore } from '../../connect.js'
import { BATCH_MAX } from '../../core/job-store.js'
import { openBullmq } from '../../import/bullmq.js'
import type { Source } from '../../import/contract.js'
import { graphileWorker } from '../../import/graphile-worker.js'
import { pgBoss } from '../../import/pg-boss.js'
import { openPostgresSource, type PostgresDialect } from '../../import/postgres-source.js'
import { type ImportOptions, runImport } from '../../import/run.js'
import { addExamples, addGroup, type Cli } from '../command.js'
import { CliError } from '../errors.js'
import { EXIT } from '../exit-codes.js'
import { type ActorFlags, addByOption, byOption } from '../input/actor.js'
import { collect, collectNames, wholeNumber } from '../input/arguments.js'
import {
  addStoreOptions,
  atStore,
  checkExists,
  chooseStore,
  environmentOption,
  type StoreFlags,
} from '../input/connection.js'
import { readingLifetime } from '../lifetime.js'
import { printImport } from '../output/import.js'
import { Progress } from '../output/progress.js'

interface ImportFlags extends StoreFlags, ActorFlags {
  readonly from?: string
  readonly fromSchema?: string
  readonly prefix?: string
  readonly queue?: readonly string[]
  readonly crontab?: string
  readonly map?: readonly string[]
  readonly mapQueue?: readonly string[]
  readonly failed: ImportOptions['failed']
  readonly schedules: ImportOptions['schedules']
  readonly batch: number
  readonly dryRun?: boolean
}

/** Opens the queue that jobs come from; `targetUrl` is where they go. */
type OpenSource = (flags: ImportFlags & { readonly from: string }, targetUrl: string) => Promise<Source>

export function addImport(parent: Command, cli: Cli): void {
  addGroup(parent, cli, {
    name: 'import',
    summary: 'move in from BullMQ, pg-boss or graphile-worker',
    description:
      'Takes waiting, delayed and failed jobs out of another queue and writes them here, and copies its schedules, while ' +
      'its workers run. Each job is run by one of the two: what a worker there has taken stays there. Stop it and run it ' +
      'again at any time: nothing is written twice.',
    examples: [
      ['holdfast import pg-boss --from postgres://localhost/app --dry-run', 'what would be brought over?'],
      ['holdfast import bullmq --from redis://localhost', 'every queue of BullMQ'],
    ],
    commands: [addBullmq, addPgBoss, addGraphileWorker],
  })
}

function addBullmq(parent: Command, cli: Cli): void {
  const command = parent
    .command('bullmq')
    .summary('from BullMQ on Redis')
    .description('Imports jobs and job schedulers of BullMQ 5 and 6 on Redis. The name of a job becomes its type.')
    .option('--queue <name>', 'only this queue; may be repeated, or names with commas (default: all)', collectNames)
    .option('--prefix <text>', 'what its keys begin with', 'bull')
  const open: OpenSource = ({ from, prefix = 'bull', queue = [] }) => openBullmq({ url: from, prefix, queues: queue })
  finish(command, cli, open, [
    ['holdfast import bullmq --from redis://localhost --dry-run', 'what would be brought over?'],
    ['holdfast import bullmq --from redis://localhost --queue mail,reports', 'two queues'],
    ["holdfast import bullmq --from redis://localhost --map 'send mail=send_mail'", 'with another name for a type'],
  ])
}

function addPgBoss(parent: Command, cli: Cli): void {
  const command = parent
    .command('pg-boss')
    .summary('from pg-boss')
    .description('Imports jobs and schedules of pg-boss 12. The name of its queue becomes queue and type.')
    .option('--from-schema <name>', 'its schema', 'pgboss')
  finish(
    command,
    cli,
    opener(() => pgBoss),
    [
      ['holdfast import pg-boss --from postgres://localhost/app --dry-run', 'what would be brought over?'],
      ['holdfast import pg-boss --from postgres://localhost/app --schedules move', 'its schedules are live here'],
    ],
  )
}

function addGraphileWorker(parent: Command, cli: Cli): void {
  const command = parent
    .command('graphile-worker')
    .summary('from graphile-worker')
    .description('Imports jobs of graphile-worker 0.18, and schedules from its crontab. The task becomes the type.')
    .option('--from-schema <name>', 'its schema', 'graphile_worker')
    .option('--crontab <file>', 'the crontab of its workers: when schedules fire is not in its tables')
  const dialect = async ({ crontab }: ImportFlags) =>
    graphileWorker({ crontab: crontab === undefined ? null : await readCrontabFile(crontab) })
  finish(command, cli, opener(dialect), [
    ['holdfast import graphile-worker --from postgres://localhost/app --dry-run', 'what would be brought over?'],
    ['holdfast import graphile-worker --from postgres://localhost/app --crontab ./crontab', 'with its schedules'],
    ['holdfast import graphile-worker --from postgres://localhost/app --map-queue default=mail', 'to another queue'],
  ])
}

function opener(dialectOf: (flags: ImportFlags) => PostgresDialect | Promise<PostgresDialect>): OpenSource {
  return async (flags, targetUrl) => {
    const mayShare = /^postgres(ql)?:/.test(targetUrl)
    return openPostgresSource(await dialectOf(flags), { url: flags.from, schema: flags.fromSchema!, mayShare })
  }
}

async function readCrontabFile(path: string): Promise<string> {
  try {
    return await readFile(path, 'utf8')
  } catch (cause) {
    throw new CliError(`the crontab ${path} cannot be read: ${(cause as Error).message}`, {
      exitCode: EXIT.notFound,
      cause,
    })
  }
}

type Examples = Parameters<typeof addExamples>[1]

/** Adds what the three share. */
function finish(command: Command, cli: Cli, open: OpenSource, examples: Examples): void {
  command
    .addOption(environmentOption('--from <url>', 'where the old queue is, as its own URL'))
    .option('--dry-run', 'change nothing, count what would be brought over')
    .option('--map <old=new>', 'another name for a type; may be repeated', collect)
    .option('--map-queue <old=new>', 'another name for a queue; may be repeated', collect)
    .addOption(
      new Option('--failed <how>', 'failed jobs become dead here, run again here, or stay there')
        .choices(['dead', 'requeue', 'skip'])
        .default('dead'),
    )
    .addOption(
      new Option(
        '--schedules <how>',
        'copy them paused; move them, so that they fire here and no more there; or skip them',
      )
        .choices(['copy', 'move', 'skip'])
        .default('copy'),
    )
    .option('--batch <number>', `jobs in one step, 1 to ${BATCH_MAX}`, wholeNumber, 500)
    .action((flags: ImportFlags) => run(cli, flags, open))
  addByOption(command)
  addStoreOptions(command, { json: 'print { system, jobs, schedules, left, skipped, withoutCounterpart } as JSON' })
  addExamples(command, examples)
}

async function run(cli: Cli, flags: ImportFlags, open: OpenSource): Promise<void> {
  const { from, batch } = flags
  if (from === undefined || from === '') {
    throw new CliError('where is the old queue?', { hint: 'give its URL with --from, or in HOLDFAST_FROM' })
  }
  if (batch < 1 || batch > BATCH_MAX) throw new CliError(`--batch must be from 1 to ${BATCH_MAX}, got ${batch}`)
  const names = { types: readNames('--map', flags.map), queues: readNames('--map-queue', flags.mapQueue) }
  const store = chooseStore(flags)
  if (flags.dryRun === true) checkExists(store)
  const lifetime = readingLifetime(cli)
  const opened = await atStore(store, () => connectToStore(store.url, { schema: flags.schema, migrate: false }))
  const progress = new Progress(cli.stderr)
  try {
    const source = await open({ ...flags, from }, store.url)
    try {
      const { failed, schedules, dryRun = false } = flags
      const options: ImportOptions = {
        ...names,
        ...{ failed, schedules, batch, dryRun, ...byOption(flags) },
        signal: lifetime.signal,
        onProgress: (done) => progress.update(done, null),
      }
      const summary = await runImport(source, opened, options)
      progress.end()
      printImport(cli, summary, flags)
      if (summary.interrupted || summary.skipped.length > 0) process.exitCode = EXIT.partial
    } finally {
      progress.end()
      await source.close()
    }
  } finally {
    await opened.holdfast.close()
  }
}

/** Reads `old=new`; the old name may have an = in it, the new one cannot. */
function readNames(option: string, given: readonly string[] = []): ReadonlyMap<string, string> {
  return new Map(
    given.map((text) => {
      const at = text.lastIndexOf('=')
      if (at > 0 && at < text.length - 1) return [text.slice(0, at), text.slice(at + 1)] as const
      throw new CliError(`${option} must be old=new, got ${JSON.stringify(text)}`)
    }),
  )
}

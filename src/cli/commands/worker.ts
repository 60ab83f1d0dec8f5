// holdfast worker: runs the handlers of a module until it is told to stop.

import { type Command, Option } from 'commander'
import type { Handler } from '../../core/definition.js'
import type { Duration } from '../../core/duration.js'
import type { HoldfastEvent } from '../../core/events.js'
import { attributeUncaught } from '../../worker/current-job.js'
import { resolveWorkerOptions, type WorkerOptions } from '../../worker/options.js'
import { duration, durationOrUnlimited, names, wholeNumber } from '../arguments.js'
import { addExamples, type Cli } from '../command.js'
import { addStoreOptions, chooseStore, openStore, type StoreFlags } from '../connection.js'
import { isRoutine, writeEvent } from '../event-json.js'
import { loadHandlers } from '../handler-module.js'
import { Lifetime } from '../lifetime.js'
import { LinePrinter } from '../lines.js'
import { Narrator } from '../narrator.js'

interface WorkerFlags extends StoreFlags {
  readonly queues?: readonly string[]
  readonly concurrency?: number
  readonly claimBatch?: number
  readonly visibilityTimeout?: Duration
  readonly drainTimeout?: Duration | null
  readonly log: 'all' | 'problems' | 'none'
}

export function addWorker(parent: Command, cli: Cli): void {
  const command = parent
    .command('worker')
    .summary('run the handlers of a module')
    .description(
      'Runs jobs with the handlers of a module: its default export, or its `handlers`, is the list. ' +
        'SIGTERM or Ctrl-C stops it: it claims no more, lets running jobs finish for the drain time, gives the rest back ' +
        'with their attempts, and exits with 0. A second signal exits at once, with 143 or 130.',
    )
    .argument('<module>', 'a JavaScript file, or TypeScript with tsx beside it or Node 22.18 or later')
    .addOption(option('--queues <names>', 'comma-separated (default: those of the handlers)', names))
    .addOption(option('--concurrency <number>', 'how many jobs run at once (default: 10)', wholeNumber))
    .addOption(option('--claim-batch <number>', 'the most jobs one claim takes (default: 500)', wholeNumber))
    .addOption(
      option('--visibility-timeout <duration>', 'the lease of a job, extended while it runs (default: 30s)', duration),
    )
    .addOption(option('--drain-timeout <duration>', 'or `unlimited` (default: 15s)', durationOrUnlimited))
    .addOption(
      new Option('--log <what>', 'what is told: on stderr, or with --json on stdout')
        .choices(['all', 'problems', 'none'])
        .default('problems')
        .env('HOLDFAST_LOG'),
    )
    .action((module: string, flags: WorkerFlags) => work(cli, module, flags))
  addStoreOptions(command, { json: 'tell it as JSON, one event a line' })
  addExamples(command, [
    ['holdfast worker ./jobs.js', 'every queue its handlers are defined for'],
    ['holdfast worker ./jobs.ts', 'TypeScript'],
    ['holdfast worker ./jobs.js --queues email,default --concurrency 64', 'two queues, 64 jobs at once'],
    [
      'HOLDFAST_CONCURRENCY=4 holdfast worker ./jobs.js --log all',
      'settings from the environment; a line for each job',
    ],
  ])
}

/** An option that the environment can give as well: --claim-batch is HOLDFAST_CLAIM_BATCH there. */
function option(flags: string, description: string, read: (text: string) => unknown): Option {
  const made = new Option(flags, description).argParser(read)
  return made.env(`HOLDFAST_${made.name().replaceAll('-', '_').toUpperCase()}`)
}

async function work(cli: Cli, module: string, flags: WorkerFlags): Promise<void> {
  const lifetime = new Lifetime(cli, { signals: ['SIGINT', 'SIGTERM'], onUncaught: attributeUncaught })
  const handlers = await loadHandlers(module)
  // Before the store is opened: a mistake in an option should not cost a connection.
  const { queues, concurrency } = resolveWorkerOptions(readOptions(flags, handlers))
  const log = new WorkerLog(cli, flags, handlers)
  const store = chooseStore(flags)
  const holdfast = await openStore(store, flags)
  try {
    holdfast.on(log.hear)
    const worker = holdfast.worker(readOptions(flags, log.watched))
    await worker.start()
    const kinds = `${handlers.length} ${handlers.length === 1 ? 'type' : 'types'}`
    log.say(`worker ${worker.id}: ${kinds} in ${queues.join(', ')}, ${concurrency} at once, at ${store.shown}`)
    await lifetime.over
    await worker.stop()
  } finally {
    await holdfast.close()
  }
}

function readOptions(flags: WorkerFlags, handlers: WorkerOptions['handlers']): WorkerOptions {
  const { queues, concurrency, claimBatch, visibilityTimeout, drainTimeout } = flags
  return {
    handlers,
    ...(queues === undefined ? {} : { queues }),
    ...(concurrency === undefined ? {} : { concurrency }),
    ...(claimBatch === undefined ? {} : { claimBatch }),
    ...(visibilityTimeout === undefined ? {} : { lease: visibilityTimeout }),
    ...(drainTimeout === undefined ? {} : { drain: drainTimeout }),
  }
}

/** Tells what the worker does, as it was asked to. */
class WorkerLog {
  readonly #cli: Cli
  readonly #flags: WorkerFlags
  readonly #narrator: Narrator
  /** The handlers to give to the worker, so that lines can say more about their jobs. */
  readonly watched: readonly Handler[]

  constructor(cli: Cli, flags: WorkerFlags, handlers: readonly Handler[]) {
    this.#cli = cli
    this.#flags = flags
    const printer = new LinePrinter(
      cli.stderr,
      handlers.map(({ definition }) => definition.type),
    )
    const narrator = new Narrator((line) => {
      if (flags.log === 'all' || !line.isRoutine) printer.print(line)
    })
    this.#narrator = narrator
    const isNarrated = flags.json !== true && flags.log !== 'none'
    this.watched = isNarrated ? handlers.map((handler) => narrator.watch(handler)) : handlers
  }

  readonly hear = (event: HoldfastEvent): void => {
    const { log, json } = this.#flags
    if (log === 'none') return
    if (json === true) {
      if (log === 'all' || !isRoutine(event)) writeEvent(this.#cli, event)
      return
    }
    this.#narrator.hear(event)
    if (event.name === 'worker.draining') this.say(`stopping: ${event.running} running, Ctrl-C again leaves at once`)
    if (event.name === 'worker.stopped') this.say(stoppedText(event.released))
  }

  say(text: string): void {
    if (this.#flags.log !== 'none' && this.#flags.json !== true) this.#cli.stderr.line(text)
  }
}

function stoppedText(released: number): string {
  return released === 0 ? 'stopped' : `stopped; ${released} given back unfinished`
}

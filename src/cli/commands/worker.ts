// holdfast worker: runs the handlers of a module until it is stopped.

import { resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import type { Command } from 'commander'
import { checkWhole } from '../../core/check.js'
import type { Duration } from '../../core/duration.js'
import type { Emit } from '../../core/events.js'
import { given } from '../../core/given.js'
import { hostCheck } from '../../core/hosts.js'
import type { Holdfast } from '../../holdfast.js'
import { type HostOptions, type HostSettings, resolveHostOptions } from '../../host/options.js'
import type { MetricsServer } from '../../metrics/serve.js'
import { attributeUncaught } from '../../worker/current-job.js'
import { resolveWorkerOptions, type WorkerOptions } from '../../worker/options.js'
import { addExamples, type Cli } from '../command.js'
import { CliError } from '../errors.js'
import {
  type DurationOrUnlimited,
  duration,
  durationOrUnlimited,
  limitOf,
  names,
  wholeNumber,
} from '../input/arguments.js'
import { addStoreOptions, chooseStore, environmentOptions, openStore, type StoreFlags } from '../input/connection.js'
import { loadHandlerModule } from '../input/handler-module.js'
import { Lifetime } from '../lifetime.js'
import { addLogOptions, type Log, type LogFlags, openLog } from '../output/log.js'
import { atPort } from '../serving.js'

interface WorkerFlags extends StoreFlags, LogFlags {
  readonly queues?: readonly string[]
  readonly concurrency?: number
  readonly claimBatch?: number
  readonly visibilityTimeout?: Duration
  readonly drainTimeout?: DurationOrUnlimited
  readonly processes?: number
  readonly childMemory?: number
  readonly childJobs?: number
  readonly metricsPort?: number
  readonly metricsHost?: string
  readonly metricsAllowHost?: readonly string[]
}

export function addWorker(parent: Command, cli: Cli): void {
  const command = parent
    .command('worker')
    .summary('run the handlers of a module')
    .description(
      'Runs jobs with the handlers of a module: its default export, or its `handlers`, is the list. Its `middleware` is put around enqueues and runs. ' +
        'SIGTERM or Ctrl-C stops it: it claims no more, lets running jobs finish for the drain time, releases the others ' +
        'without counting their attempt, and exits with 0. A second signal exits immediately, with 143 or 130.',
    )
    .argument('<module>', 'a JavaScript file, or TypeScript with tsx beside it or Node 22.18 or later')
    .action((module: string, flags: WorkerFlags) => work(cli, module, flags))
  addWorkerOptions(command)
  addLogOptions(command)
  addStoreOptions(command, { json: 'print events of jobs on stdout, one a line, instead of the log' })
  addExamples(command, [
    ['holdfast worker ./jobs.js', 'every queue its handlers are defined for'],
    ['holdfast worker ./jobs.ts', 'TypeScript'],
    ['holdfast worker ./jobs.js --queues email,default --concurrency 64', 'two queues, 64 jobs concurrently'],
    [
      'HOLDFAST_CONCURRENCY=4 holdfast worker ./jobs.js --log-level debug',
      'settings from the environment; a line for each job',
    ],
    ['holdfast worker ./jobs.js --processes 4 --concurrency 64', 'handlers in four children, 16 jobs each'],
    ['holdfast worker ./jobs.js --metrics-port 9464', 'with metrics at http://127.0.0.1:9464/metrics'],
  ])
}

function addWorkerOptions(command: Command): void {
  const add = environmentOptions(command)
  add('--queues <names>', 'the queues it serves, comma-separated (default: those of the handlers)', names)
  add('--concurrency <number>', 'how many jobs run concurrently (default: 10)', wholeNumber)
  add('--claim-batch <number>', 'how many jobs one claim takes at most (default: 500)', wholeNumber)
  add('--visibility-timeout <duration>', 'the lease of a job, extended while it runs (default: 30s)', duration)
  add('--processes <number>', 'run the handlers in child processes (default: none)', wholeNumber)
  add('--child-memory <MiB>', 'the memory of one child (default: 512)', wholeNumber)
  add('--child-jobs <number>', 'replace a child after this number of jobs (default: never)', wholeNumber)
  add(
    '--drain-timeout <duration>',
    'how long running jobs may finish after a signal, or `unlimited` (default: 15s)',
    durationOrUnlimited,
  )
  add('--metrics-port <port>', 'serve Prometheus metrics on this port, at /metrics (default: none)', wholeNumber)
  add('--metrics-host <address>', 'the address of that port (default: 127.0.0.1)')
  add('--metrics-allow-host <names>', 'host names it answers to besides addresses and localhost', names)
}

async function work(cli: Cli, module: string, flags: WorkerFlags): Promise<void> {
  const lifetime = new Lifetime(cli, { signals: ['SIGINT', 'SIGTERM'], onUncaught: attributeUncaught })
  const { handlers, middleware } = await loadHandlerModule(module)
  // Before the store is opened: a wrong option should not need a connection to be reported.
  const settings = resolveWorkerOptions(readOptions(flags, handlers))
  const { queues, concurrency } = settings
  const hostOptions = readHostOptions(flags, module)
  checkChildFlags(flags, resolveHostOptions(hostOptions, settings))
  checkMetricsFlags(flags)
  const types = handlers.map(({ definition }) => definition.type)
  const log = await openLog(cli, flags, types)
  const store = chooseStore(flags)
  const holdfast = await openStore(store, flags, log.connectOptions)
  try {
    holdfast.on(logEvents(log))
    for (const around of middleware) holdfast.use(around)
    const metrics = await openMetrics(holdfast, flags, { queues, types })
    const worker = holdfast.worker({ ...readOptions(flags, log.watch(handlers)), ...hostOptions })
    await worker.start()
    const kinds = `${handlers.length} ${handlers.length === 1 ? 'type' : 'types'}`
    const metricsText = metrics === null ? '' : `, metrics at ${metrics.url}`
    log.info(
      `worker ${worker.id}: ${kinds} in ${queues.join(', ')}, ${concurrency} slots, at ${store.shown}${metricsText}`,
      { worker: worker.id, types, queues, concurrency, store: store.shown, metrics: metrics?.url ?? null },
    )
    await lifetime.over
    await worker.stop()
    await metrics?.close()
  } finally {
    await holdfast.close()
  }
}

/** Passes events to the log, and adds lines about the stop where people read it. */
function logEvents(log: Log): Emit {
  return (event) => {
    log.onEvent(event)
    if (log.isPretty && event.name === 'worker.draining') {
      log.info(`stopping: ${event.running} running, Ctrl-C again stops immediately`)
    }
    if (log.isPretty && event.name === 'worker.stopped') log.info(stoppedText(event.released))
  }
}

function checkChildFlags({ childMemory, childJobs }: WorkerFlags, settings: HostSettings | null): void {
  if (settings !== null || (childMemory === undefined && childJobs === undefined)) return
  throw new CliError(
    '--child-memory and --child-jobs need children: add --processes, or `isolate` to a definition of the module',
  )
}

function checkMetricsFlags({ metricsPort, metricsHost, metricsAllowHost }: WorkerFlags): void {
  if (metricsAllowHost !== undefined) hostCheck(metricsAllowHost)
  if (metricsPort !== undefined) checkWhole('metrics-port', metricsPort, 0, 65_535)
  else if (metricsHost !== undefined || metricsAllowHost !== undefined) {
    throw new CliError('--metrics-host and --metrics-allow-host need --metrics-port')
  }
}

/** Serves metrics if the flags give a port. */
async function openMetrics(
  holdfast: Holdfast,
  { metricsPort, metricsHost, metricsAllowHost }: WorkerFlags,
  names: { readonly queues: readonly string[]; readonly types: readonly string[] },
): Promise<MetricsServer | null> {
  if (metricsPort === undefined) return null
  const { createMetrics, serveMetrics } = await import('../../metrics/index.js')
  const place = { port: metricsPort, ...given({ host: metricsHost }) }
  const options = { ...place, ...given({ allowHosts: metricsAllowHost }) }
  return atPort(place, () => serveMetrics(createMetrics(holdfast, names), options))
}

function readOptions(flags: WorkerFlags, handlers: WorkerOptions['handlers']): WorkerOptions {
  const { queues, concurrency, claimBatch, visibilityTimeout: lease, drainTimeout } = flags
  return { handlers, ...given({ queues, concurrency, claimBatch, lease, drain: limitOf(drainTimeout) }) }
}

function readHostOptions({ processes, childMemory, childJobs }: WorkerFlags, module: string): HostOptions {
  return { module: pathToFileURL(resolve(module)), ...given({ processes, childMemory, childJobs }) }
}

function stoppedText(released: number): string {
  return released === 0 ? 'stopped' : `stopped; ${released} released unfinished`
}

// holdfast dev: a store, a worker, the dashboard and example jobs in one process. `npm start` runs it.

import { existsSync } from 'node:fs'
import { join, relative } from 'node:path'
import type { Command } from 'commander'
import type { HoldfastEvent } from '../../core/events.js'
import type { JobState } from '../../core/states.js'
import { redactUrl } from '../../core/url.js'
import type { Holdfast } from '../../holdfast.js'
import { attributeUncaught } from '../../worker/current-job.js'
import { addExamples, type Cli } from '../command.js'
import { printBanner } from '../dev/banner.js'
import { type Dashboard, openDashboard } from '../dev/dashboard.js'
import { DEV_QUEUES, enqueueExamples, exampleHandlers, foundIn, scheduleExample, trickle } from '../dev/examples.js'
import { CliError } from '../errors.js'
import { wholeNumber } from '../input/arguments.js'
import {
  addStoreOptions,
  type ChosenStore,
  describeStore,
  openStore,
  environmentOption as option,
  type StoreFlags,
} from '../input/connection.js'
import { Lifetime } from '../lifetime.js'
import { EventLines } from '../output/event-lines.js'
import { writeEvent, writeJsonLine } from '../output/json.js'
import { type Line, LinePrinter } from '../output/lines.js'
import { addLogOptions, type Log, type LogFlags, openLog } from '../output/log.js'
import { spanText } from '../output/times.js'
import { signInFileOption } from '../serving.js'

const FOLDER_DEFAULT = '.holdfast'
const CONCURRENCY = 8
const DRAIN_MS = 15_000

interface DevFlags extends StoreFlags, LogFlags {
  readonly port?: number
  readonly signInFile?: string
}

export function addDev(parent: Command, cli: Cli): void {
  const command = parent
    .command('dev')
    .summary('start a store, a worker, the dashboard and example jobs')
    .description(
      'Starts an embedded store, a worker, the HTTP API with the dashboard, and example jobs, and prints what happens to ' +
        'them. The store stays, and the next start continues with it. HOLDFAST_URL and DATABASE_URL are ignored, so that no ' +
        'example job gets into a real store.',
    )
    .argument('[folder]', `the folder of the store (default: ${FOLDER_DEFAULT})`)
    .addOption(
      option('--port <port>', 'the port of the dashboard; if it is taken, another one (default: 4680)', wholeNumber),
    )
    .addOption(signInFileOption())
    .action((folder: string | undefined, flags: DevFlags) => dev(cli, folder, flags))
  addLogOptions(command, { format: 'pretty, on stdout' })
  addStoreOptions(command, { json: 'print the events as JSON, one a line', url: 'another store instead of a folder' })
  addExamples(command, [
    ['holdfast dev', 'everything in this folder, under .holdfast'],
    [
      'holdfast dev --url postgres://localhost/playground',
      'on a server of yours, in queues whose names begin with dev',
    ],
    ['holdfast dev --port 8080', 'the dashboard on another port'],
  ])
}

async function dev(cli: Cli, folder: string | undefined, flags: DevFlags): Promise<void> {
  const lifetime = new Lifetime(cli, {
    // A closed terminal sends SIGHUP. Without it here the database server would be left running.
    signals: ['SIGINT', 'SIGTERM', 'SIGHUP'],
    onUncaught: attributeUncaught,
  })
  const store = chooseDevStore(folder, flags)
  const isNew = store.folder !== null && !existsSync(join(store.folder, 'data'))
  if (isNew) cli.stderr.line('starting PostgreSQL in a new folder, which takes a few seconds…')
  // The lines on stdout are the data of this command, also in a pipe. --log-format json makes a log of them.
  const log = await openLog(cli, { ...flags, logFormat: flags.logFormat ?? 'pretty' }, [])
  const holdfast = await openStore(store, flags, { retention: '1d', ...log.connectOptions })
  const session = new DevSession(cli, flags, { holdfast, log })
  try {
    const isTerminal = (log.isPretty ? cli.stdout : cli.stderr).isTerminal && flags.json !== true
    const own = store.folder === null || isTerminal ? null : join(store.folder, 'sign-in')
    const signInFile = flags.signInFile ?? own
    const dashboard = await openDashboard(holdfast, {
      port: flags.port,
      log: log.onServerEvent,
      isTerminal,
      signInFile,
    })
    try {
      await session.open(store, { isNew, dashboard })
      if (!lifetime.signal.aborted) await session.run(lifetime)
    } finally {
      await dashboard.close()
    }
  } finally {
    await holdfast.close()
  }
  session.summarize(store)
}

function chooseDevStore(folder: string | undefined, { url }: StoreFlags): ChosenStore {
  if (url === undefined) return describeStore(`embedded:${folder ?? FOLDER_DEFAULT}`, 'dev')
  if (folder === undefined) return describeStore(url, '--url')
  throw new CliError('a folder and --url both name the store: give one of them')
}

/** One run of dev, and what it prints. */
class DevSession {
  readonly #cli: Cli
  readonly #flags: DevFlags
  readonly #holdfast: Holdfast
  readonly #log: Log
  readonly #tally = new Tally()
  readonly #lines: EventLines
  readonly #printer: LinePrinter
  readonly #handlers = exampleHandlers((job, text) => {
    this.#print({ subject: job.type, id: job.id, text, tone: 'quiet', isRoutine: true })
  })

  constructor(cli: Cli, flags: DevFlags, { holdfast, log }: { readonly holdfast: Holdfast; readonly log: Log }) {
    this.#cli = cli
    this.#flags = flags
    this.#holdfast = holdfast
    this.#log = log
    this.#printer = new LinePrinter(
      cli.stdout,
      this.#handlers.map(({ definition }) => definition.type),
    )
    this.#lines = new EventLines(this.#print)
  }

  readonly #print = (line: Line): void => {
    if (this.#log.isPretty) this.#printer.print(line)
  }

  readonly #onEvent = (event: HoldfastEvent): void => {
    // When dev did not run for a while, one job stands for all missed ticks. Lines about the other ticks would confuse.
    if (event.name !== 'schedule.fired' || event.jobId !== null) this.#lines.onEvent(event)
    if (event.name === 'worker.draining') this.#printText(`\n${stoppingText(event.running)}`)
  }

  #printText(text: string): void {
    if (this.#log.isPretty) this.#cli.stdout.line(text)
  }

  /** Prints the banner, enqueues the examples and makes the schedule. */
  async open(store: ChosenStore, { isNew, dashboard }: { isNew: boolean; dashboard: Dashboard }): Promise<void> {
    const holdfast = this.#holdfast
    if (this.#flags.json === true) {
      writeJsonLine(this.#cli, {
        at: new Date(),
        event: 'dev.listening',
        url: dashboard.url,
        signInFile: dashboard.signIn.file,
      })
      holdfast.on((event) => writeEvent(this.#cli, event))
    } else if (this.#log.isPretty) {
      await this.#printBanner(store, isNew, dashboard)
      holdfast.on(this.#onEvent)
    } else this.#cli.stderr.line(`open ${dashboard.signIn.url ?? dashboard.url}`)
    holdfast.on(this.#tally.onEvent)
    await enqueueExamples(holdfast, this.#print)
    await scheduleExample(holdfast)
  }

  async #printBanner(store: ChosenStore, isNew: boolean, dashboard: Dashboard): Promise<void> {
    const known = await this.#holdfast.queues()
    const isKnown = known.some(({ name }) => (DEV_QUEUES as readonly string[]).includes(name))
    printBanner(this.#cli.stdout, {
      store: whereText(store),
      isNew,
      found: isKnown ? await foundIn(this.#holdfast) : null,
      dashboard: dashboard.signIn.url ?? dashboard.url,
      signIn: dashboard.signIn,
      note: dashboard.note,
      types: this.#handlers.length,
      concurrency: CONCURRENCY,
      urlOption: store.url === 'memory:' ? null : needsUrl(store) ? ` --url ${quoted(store)}` : '',
    })
  }

  /** Works until it is time to stop, then drains. */
  async run(lifetime: Lifetime): Promise<void> {
    const worker = this.#holdfast.worker({
      handlers: this.#log.isPretty ? this.#handlers.map((handler) => this.#lines.watch(handler)) : this.#handlers,
      concurrency: CONCURRENCY,
      // Short, so that after a kill the next start soon continues with what was running.
      lease: '10s',
      drain: DRAIN_MS,
    })
    await worker.start()
    const trickling = trickle(this.#holdfast, this.#print, lifetime.signal)
    await lifetime.over
    await worker.stop()
    await trickling
  }

  summarize(store: ChosenStore): void {
    this.#printText(`\n${this.#tally.summary()}`)
    if (store.url === 'memory:') this.#printText('The memory store keeps nothing.')
    else this.#printText(`The store keeps everything in ${shortName(store)}; the next start continues with it.`)
  }
}

function stoppingText(running: number): string {
  if (running === 0) return 'stopping: no job is running'
  const jobs = running === 1 ? '1 job' : `${running} jobs`
  return `stopping: ${jobs} running, waiting up to ${spanText(DRAIN_MS)}… (Ctrl-C again stops immediately)`
}

function whereText(store: ChosenStore): string {
  return store.folder === null ? redactUrl(store.url) : `embedded PostgreSQL in ${shortName(store)}`
}

/** The store's name, as short as it can be in this folder. */
function shortName(store: ChosenStore): string {
  if (store.folder === null) return redactUrl(store.url)
  const path = relative(process.cwd(), store.folder)
  return path === '' || path.startsWith('..') ? store.folder : path
}

/** The store as it is typed after --url. A password is replaced by ***. */
function quoted(store: ChosenStore): string {
  const url = store.folder === null ? shortName(store) : `embedded:${shortName(store)}`
  return /^[\w./:@-]+$/.test(url) ? url : `'${url.replaceAll("'", "'\\''")}'`
}

/** True when a command without --url would not find this store. */
function needsUrl({ folder }: ChosenStore): boolean {
  if (process.env.HOLDFAST_URL || process.env.DATABASE_URL) return true
  return folder === null || relative(process.cwd(), folder) !== FOLDER_DEFAULT
}

/** Counts how jobs ended while dev ran. */
class Tally {
  readonly #counts = new Map<JobState, number>()

  readonly onEvent = (event: HoldfastEvent): void => {
    if (event.name === 'job.settled') this.#counts.set(event.state, this.#of(event.state) + 1)
  }

  #of(state: JobState): number {
    return this.#counts.get(state) ?? 0
  }

  /** One line: how many jobs ended, and how. */
  summary(): string {
    const [cancelled, released, retries] = [this.#of('cancelled'), this.#of('ready'), this.#of('retrying')]
    const ran = this.#of('succeeded') + this.#of('dead') + cancelled
    const parts = [
      `${this.#of('succeeded')} succeeded`,
      `${this.#of('dead')} dead`,
      ...(cancelled === 0 ? [] : [`${cancelled} cancelled`]),
      ...(released === 0 ? [] : [`${released} released unfinished`]),
      `${retries} ${retries === 1 ? 'retry' : 'retries'}`,
    ]
    return `${ran} ${ran === 1 ? 'job' : 'jobs'} ran: ${parts.join(', ')}`
  }
}

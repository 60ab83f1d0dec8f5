// holdfast dev: a store, a worker, the dashboard and examples in one process, to see what becomes of jobs. `npm start` runs it.

import { existsSync } from 'node:fs'
import { join, relative } from 'node:path'
import type { Command } from 'commander'
import type { HoldfastEvent } from '../../core/events.js'
import { redactUrl } from '../../core/url.js'
import type { Holdfast } from '../../holdfast.js'
import { attributeUncaught } from '../../worker/current-job.js'
import { wholeNumber } from '../arguments.js'
import { addExamples, type Cli, writeJsonLine } from '../command.js'
import {
  addStoreOptions,
  type ChosenStore,
  describeStore,
  openStore,
  environmentOption as option,
  type StoreFlags,
} from '../connection.js'
import { printBanner } from '../dev/banner.js'
import { type Dashboard, openDashboard } from '../dev/dashboard.js'
import { DEV_QUEUES, exampleHandlers } from '../dev/examples.js'
import { enqueueExamples, foundIn, scheduleExample, trickle } from '../dev/show.js'
import { Tally } from '../dev/tally.js'
import { CliError } from '../errors.js'
import { writeEvent } from '../event-json.js'
import { EXIT } from '../exit-codes.js'
import { Lifetime } from '../lifetime.js'
import { LinePrinter } from '../lines.js'
import { type Log, openLog } from '../log/log.js'
import { addLogOptions, type LogFlags } from '../log/options.js'
import { type Line, Narrator } from '../narrator.js'
import { signInFileOption } from '../serve/options.js'
import { spanText } from '../times.js'

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
    .summary('start a store, a worker, the dashboard and examples')
    .description(
      'Starts an embedded store, a worker, the HTTP API with the dashboard and examples, and tells what becomes of them. ' +
        'The store stays: the next start goes on where it was. HOLDFAST_URL and DATABASE_URL are not looked at, so that no example lands in a real store.',
    )
    .argument('[folder]', `where the store is (default: ${FOLDER_DEFAULT})`)
    .addOption(option('--port <port>', 'of the dashboard; another one where it is taken (default: 4680)', wholeNumber))
    .addOption(signInFileOption())
    .action((folder: string | undefined, flags: DevFlags) => dev(cli, folder, flags))
  addLogOptions(command, { format: 'pretty, which is told on stdout' })
  addStoreOptions(command, { json: 'tell it as JSON, one event a line', url: 'a store elsewhere, instead of a folder' })
  addExamples(command, [
    ['holdfast dev', 'everything in this folder, under .holdfast'],
    ['holdfast dev --url postgres://localhost/playground', 'on a server of yours, in queues named dev…'],
    ['holdfast dev --port 8080', 'the dashboard elsewhere'],
  ])
}

async function dev(cli: Cli, folder: string | undefined, flags: DevFlags): Promise<void> {
  const lifetime = new Lifetime(cli, {
    // A terminal that is closed hangs up; without this the server would be left running.
    signals: ['SIGINT', 'SIGTERM', 'SIGHUP'],
    onUncaught: attributeUncaught,
  })
  const store = chooseDevStore(folder, flags)
  const isNew = store.folder !== null && !existsSync(join(store.folder, 'data'))
  if (isNew) cli.stderr.line('starting PostgreSQL in a new folder, which takes a few seconds…')
  // What dev tells on stdout is the answer to the command, whoever reads it; only asked for is it a log instead.
  const log = await openLog(cli, { ...flags, logFormat: flags.logFormat ?? 'pretty' }, [])
  const holdfast = await openStore(store, flags, { retention: '1d', ...log.connectOptions })
  const show = new Show(cli, flags, { holdfast, log })
  try {
    const isTerminal = (log.isPretty ? cli.stdout : cli.stderr).isTerminal && flags.json !== true
    const own = store.folder === null || isTerminal ? null : join(store.folder, 'sign-in')
    const signInFile = flags.signInFile ?? own
    const dashboard = await openDashboard(holdfast, { port: flags.port, log: log.served, isTerminal, signInFile })
    try {
      await show.open(store, { isNew, dashboard })
      if (!lifetime.signal.aborted) await show.run(lifetime)
    } finally {
      await dashboard.close()
    }
  } finally {
    await holdfast.close()
  }
  show.sum(store)
}

function chooseDevStore(folder: string | undefined, { url }: StoreFlags): ChosenStore {
  if (url === undefined) return describeStore(`embedded:${folder ?? FOLDER_DEFAULT}`, 'dev')
  if (folder === undefined) return describeStore(url, '--url')
  throw new CliError('a folder and --url both say where the store is: give one of them', { exitCode: EXIT.usage })
}

/** One run of dev, and how it is told. */
class Show {
  readonly #cli: Cli
  readonly #flags: DevFlags
  readonly #holdfast: Holdfast
  readonly #log: Log
  readonly #tally = new Tally()
  readonly #narrator: Narrator
  readonly #printer: LinePrinter
  readonly #handlers = exampleHandlers((job, text) => {
    this.#tell({ subject: job.type, id: job.id, text, tone: 'quiet', isRoutine: true })
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
    this.#narrator = new Narrator(this.#tell)
  }

  readonly #tell = (line: Line): void => {
    if (this.#log.isPretty) this.#printer.print(line)
  }

  readonly #hear = (event: HoldfastEvent): void => {
    // After a time away one job makes up for many ticks; a line for each of the others would only puzzle.
    if (event.name !== 'schedule.fired' || event.jobId !== null) this.#narrator.hear(event)
    if (event.name === 'worker.draining') this.#say(`\n${stoppingText(event.running)}`)
  }

  #say(text: string): void {
    if (this.#log.isPretty) this.#cli.stdout.line(text)
  }

  /** Says what is there, makes the schedule and enqueues the examples. */
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
      holdfast.on(this.#hear)
    } else this.#cli.stderr.line(`open ${dashboard.signIn.url ?? dashboard.url}`)
    holdfast.on(this.#tally.hear)
    await enqueueExamples(holdfast, this.#tell)
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
      handlers: this.#log.isPretty ? this.#handlers.map((handler) => this.#narrator.watch(handler)) : this.#handlers,
      concurrency: CONCURRENCY,
      // Short, so that after a kill the next start is seen to go on with what was running.
      lease: '10s',
      drain: DRAIN_MS,
    })
    await worker.start()
    const trickling = trickle(this.#holdfast, this.#tell, lifetime.signal)
    await lifetime.over
    await worker.stop()
    await trickling
  }

  sum(store: ChosenStore): void {
    this.#say(`\n${this.#tally.summary()}`)
    if (store.url === 'memory:') this.#say('The memory store keeps nothing.')
    else this.#say(`The store keeps everything in ${shortName(store)}; start again to go on where it was.`)
  }
}

function stoppingText(running: number): string {
  if (running === 0) return 'stopping: no job is running'
  const jobs = running === 1 ? '1 job' : `${running} jobs`
  return `stopping: ${jobs} running, waiting up to ${spanText(DRAIN_MS)}… (Ctrl-C again to leave at once)`
}

function whereText(store: ChosenStore): string {
  return store.folder === null ? redactUrl(store.url) : `PostgreSQL of its own in ${shortName(store)}`
}

/** The store as a person in this folder would write it. */
function shortName(store: ChosenStore): string {
  if (store.folder === null) return redactUrl(store.url)
  const path = relative(process.cwd(), store.folder)
  return path === '' || path.startsWith('..') ? store.folder : path
}

/** The store as it is typed after --url. A password is not shown, so that one has to be filled in again. */
function quoted(store: ChosenStore): string {
  const url = store.folder === null ? shortName(store) : `embedded:${shortName(store)}`
  return /^[\w./:@-]+$/.test(url) ? url : `'${url.replaceAll("'", "'\\''")}'`
}

/** True when a command without --url would not find this store. */
function needsUrl({ folder }: ChosenStore): boolean {
  if (process.env.HOLDFAST_URL || process.env.DATABASE_URL) return true
  return folder === null || relative(process.cwd(), folder) !== FOLDER_DEFAULT
}

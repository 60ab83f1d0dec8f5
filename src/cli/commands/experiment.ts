// holdfast experiment: runs one of the experiments behind the findings, and prints what was expected and what was seen.

import { type Command, InvalidArgumentError } from 'commander'
import { addExamples, type Cli } from '../command.js'
import { CliError } from '../errors.js'
import { EXIT } from '../exit-codes.js'
import { wholeNumber } from '../input/arguments.js'
import { writeJson } from '../output/json.js'

interface ExperimentFlags {
  readonly list?: boolean
  readonly short?: boolean
  readonly seed: number
  readonly json?: boolean
  readonly out?: string
  readonly page?: string
  readonly url?: string
  readonly minutes?: number
  readonly rate?: number
  readonly processes?: number
  readonly slots?: number
  readonly failovers?: number
  readonly servers?: string
  readonly way?: string
  readonly add?: boolean
}

export function addExperiment(parent: Command, cli: Cli): void {
  const command = parent
    .command('experiment')
    .summary('run one of the experiments behind the findings')
    .description(
      'Starts a server and processes of its own, runs one experiment and writes its plots and one JSON document. Exits with 1 ' +
        'when a promise was broken; speed is reported and never a failure.',
    )
    .argument('[name]', 'which experiment; --list shows them')
    .option('--list', 'show the experiments')
    .option('--short', 'a short form, within seconds')
    .option('--seed <number>', 'the load depends on it', wholeNumber, 1)
    .option('--minutes <number>', 'how long the steady part lasts (sustained)', someNumber)
    .option('--rate <number>', 'jobs enqueued a second (sustained, failovers)', wholeNumber)
    .option('--processes <number>', 'how many worker processes (sustained)', wholeNumber)
    .option('--slots <number>', 'how many jobs each of them runs concurrently (sustained)', wholeNumber)
    .option('--failovers <number>', 'how many failovers (failovers)', wholeNumber)
    .option('--servers <kind>', 'only with pair, pair-15 or patroni (failovers)')
    .option('--way <name>', "only in one way, such as 'frozen, behind' (failovers)")
    .option('--add', 'add to the document in --out, so that a long form can be run in pieces (failovers)')
    .option('--out <folder>', 'where the plots and the document go (default: a new temporary folder)')
    .option('--page <file>', 'put the figures into this page of the findings, in place of the last ones')
    .option('--url <url>', 'a PostgreSQL server on which it may create databases, instead of one of its own')
    .option('--json', 'print the document as JSON')
    .action((name: string | undefined, flags: ExperimentFlags) => experiment(cli, name, flags))
  addExamples(command, [
    ['holdfast experiment --list', 'which there are, and how long each takes'],
    ['holdfast experiment job-loss --short', 'workers killed again and again, within half a minute'],
    ['holdfast experiment sustained --minutes 20 --out results', 'the long one, with its plots kept'],
  ])
}

async function experiment(cli: Cli, name: string | undefined, flags: ExperimentFlags): Promise<void> {
  const { listExperiments, runExperiment } = await import('../../../lab/experiments/run.js')
  if (name === undefined || flags.list === true) {
    if (name === undefined && flags.list !== true) {
      throw new CliError('name an experiment: --list shows them')
    }
    const experiments = listExperiments()
    if (flags.json === true) writeJson(cli, { experiments })
    else
      for (const { name: known, about, longTakes } of experiments)
        cli.stdout.line(`${known.padEnd(12)}  ${about} (long form: ${longTakes})`)
    return
  }
  const { ok, document } = await runExperiment({
    name,
    isShort: flags.short === true,
    seed: flags.seed,
    out: flags.out ?? null,
    page: flags.page ?? null,
    url: flags.url ?? null,
    minutes: flags.minutes ?? null,
    rate: flags.rate ?? null,
    processes: flags.processes ?? null,
    slots: flags.slots ?? null,
    failovers: flags.failovers ?? null,
    servers: flags.servers ?? null,
    way: flags.way ?? null,
    adds: flags.add === true,
  })
  if (flags.json === true) writeJson(cli, document)
  if (!ok) process.exitCode = EXIT.unexpected
}

function someNumber(text: string): number {
  if (/^\d{1,6}(\.\d{1,6})?$/.test(text)) return Number(text)
  throw new InvalidArgumentError('It must be a number.')
}

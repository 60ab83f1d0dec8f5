// holdfast chaos: real workers on a real server under a seeded plan of faults, and a verdict over what happened.

import { type Command, Option } from 'commander'
import { names, wholeNumber } from '../arguments.js'
import { addExamples, type Cli, writeJson } from '../command.js'
import { EXIT } from '../exit-codes.js'

interface ChaosFlags {
  readonly seed: number
  readonly form: 'short' | 'neighbours' | 'long' | 'host' | 'clock'
  readonly jobs?: number
  readonly seconds?: number
  readonly rate?: number
  readonly only?: readonly string[]
  readonly calm?: boolean
  readonly plant?: string
  readonly keep?: string
  readonly json?: boolean
}

export function addChaos(parent: Command, cli: Cli): void {
  const command = parent
    .command('chaos')
    .summary('break everything by plan and check that no job was lost')
    .description(
      'Starts a PostgreSQL server, workers and producers of its own, breaks them as a plan says that the seed decides, makes ' +
        'everything whole, drains, and checks the history of every job against the invariants in docs/chaos.md. Exits with 7 ' +
        'when one is violated, or when the run does not count because a planned fault did not happen.',
    )
    .option('--seed <number>', 'what decides the load and the plan', wholeNumber, 1)
    .addOption(
      new Option('--form <form>', 'how much and how long')
        .choices(['short', 'neighbours', 'long', 'host', 'clock'])
        .default('short'),
    )
    .option('--jobs <number>', 'how many must be accepted', wholeNumber)
    .option('--seconds <number>', 'over how long faults are spread', wholeNumber)
    .option('--rate <number>', 'enqueue calls each second', wholeNumber)
    .option('--only <kinds>', 'only faults of these kinds, comma-separated', names)
    .option('--calm', 'no faults at all')
    .option('--plant <name>', 'put a mistake into the product on purpose, which the check must find')
    .option('--keep <folder>', 'keep the histories there (default: a temporary folder, kept when the run fails)')
    .option('--json', 'print the verdict as JSON')
    .action((flags: ChaosFlags) => chaos(cli, flags))
  addExamples(command, [
    ['holdfast chaos', 'the short form: 20,000 jobs, 127 faults, within three minutes'],
    [
      'holdfast chaos --form neighbours',
      "beside strangers, strict roles, a pooler, a standby (takes Debian's pgbouncer)",
    ],
    ['holdfast chaos --seed 42 --form long --json > chaos.json', 'the long form, as a document'],
    ['holdfast chaos --form clock', "only the database's clock jumps (takes Debian's libfaketime)"],
    ["holdfast chaos --plant 'settle without fence' --jobs 2000", 'see that the check can fail'],
  ])
}

async function chaos(cli: Cli, flags: ChaosFlags): Promise<void> {
  const { chaosProgram } = await import('../../../lab/chaos/program.js')
  const { result, text } = await chaosProgram({
    ...{ seed: flags.seed, form: flags.form, isCalm: flags.calm === true },
    ...{ jobs: flags.jobs ?? null, seconds: flags.seconds ?? null, rate: flags.rate ?? null },
    ...{ only: flags.only ?? null, plant: flags.plant ?? null, keep: flags.keep ?? null },
  })
  if (flags.json === true) writeJson(cli, result)
  else cli.stdout.line(text)
  if (!result.verdict.ok || !result.verdict.counted.ok) process.exitCode = EXIT.checkFailed
}

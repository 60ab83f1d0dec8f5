// holdfast chaos: real workers on a real server under a seeded plan of faults, and a verdict on what happened.

import { type Command, Option } from 'commander'
import { addExamples, type Cli } from '../command.js'
import { EXIT } from '../exit-codes.js'
import { names, wholeNumber } from '../input/arguments.js'
import { writeJson } from '../output/json.js'

/** The lab is loaded when it is needed only, so its names are here too. */
const FORMS = [
  ...(['short', 'neighbours', 'long', 'host', 'clock', 'flow', 'flow-long', 'mix2'] as const),
  ...(['redis', 'redis-cluster', 'redis-default', 'redis-long'] as const),
] as const

interface ChaosFlags {
  readonly seed: number
  readonly form: (typeof FORMS)[number]
  readonly jobs?: number
  readonly seconds?: number
  readonly rate?: number
  readonly minutes?: number
  readonly only?: readonly string[]
  readonly calm?: boolean
  readonly plant?: string
  readonly keep?: string
  readonly json?: boolean
}

export function addChaos(parent: Command, cli: Cli): void {
  const command = parent
    .command('chaos')
    .summary('break processes and server by a plan, and check that no job was lost')
    .description(
      'Starts a PostgreSQL server, or Redis servers, workers and producers of its own, and breaks them by a plan that depends on the seed. Then ' +
        'it repairs everything, drains, and checks the history of every job against the invariants in docs/chaos.md. Exits ' +
        'with 7 when one is violated, or when the run does not count because a planned fault did not happen.',
    )
    .option('--seed <number>', 'the load and the plan depend on it', wholeNumber, 1)
    .addOption(
      new Option('--form <form>', 'how many jobs and faults, and of which kind').choices(FORMS).default('short'),
    )
    .option('--jobs <number>', 'how many jobs must be accepted', wholeNumber)
    .option('--seconds <number>', 'over how many seconds the faults are spread', wholeNumber)
    .option('--rate <number>', 'enqueue calls a second', wholeNumber)
    .option('--minutes <number>', 'how long the form mix2 goes on (default: 60)', wholeNumber)
    .option('--only <kinds>', 'only faults of these kinds, comma-separated', names)
    .option('--calm', 'no faults at all')
    .option('--plant <name>', 'plant a bug in the product, which the check must find')
    .option('--keep <folder>', 'keep the histories there (default: a temporary folder, kept when the run fails)')
    .option('--json', 'print the verdict as JSON')
    .action((flags: ChaosFlags) => chaos(cli, flags))
  addExamples(command, [
    ['holdfast chaos', 'the short form: 20,000 jobs, 127 faults, within three minutes'],
    [
      'holdfast chaos --form neighbours',
      "with strangers, strict roles, a pooler, a standby (needs Debian's pgbouncer)",
    ],
    ['holdfast chaos --seed 42 --form long --json > chaos.json', 'the long form, as a document'],
    ['holdfast chaos --form flow', 'groups, limits, order and breakers, changed while everything breaks'],
    ['holdfast chaos --form flow-long --json > flow.json', 'the same in rounds: 500,000 starts, 1,000 kills'],
    ['holdfast chaos --form redis', 'a Redis primary with two replicas and sentinels, durability replicated'],
    ['holdfast chaos --form redis-cluster', 'a Redis Cluster of three masters with two replicas each'],
    ['holdfast chaos --form mix2 --minutes 60', 'flow control alone, on the store itself, as fast as it goes'],
    ['holdfast chaos --form clock', "only the database's clock jumps (needs Debian's libfaketime)"],
    ["holdfast chaos --plant 'settle without fence' --jobs 2000", 'see that the check can fail'],
  ])
}

async function chaos(cli: Cli, flags: ChaosFlags): Promise<void> {
  const { chaosProgram } = await import('../../../lab/chaos/program.js')
  const { result, text, isGood } = await chaosProgram({
    ...{ seed: flags.seed, form: flags.form, isCalm: flags.calm === true },
    ...{ jobs: flags.jobs ?? null, seconds: flags.seconds ?? null, rate: flags.rate ?? null },
    minutes: flags.minutes ?? null,
    ...{ only: flags.only ?? null, plant: flags.plant ?? null, keep: flags.keep ?? null },
  })
  if (flags.json === true) writeJson(cli, result)
  else cli.stdout.line(text)
  if (!isGood) process.exitCode = EXIT.checkFailed
}

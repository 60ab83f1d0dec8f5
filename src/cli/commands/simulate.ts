// holdfast simulate: runs the whole system on virtual time, with faults that depend on a seed, and prints what broke.

import { availableParallelism } from 'node:os'
import { type Command, InvalidArgumentError } from 'commander'
import type { CampaignSummary } from '../../../lab/simulator/campaign.js'
import type { Failure } from '../../../lab/simulator/tally.js'
import { addExamples, type Cli } from '../command.js'
import { EXIT } from '../exit-codes.js'
import { wholeNumber } from '../input/arguments.js'
import { writeJson } from '../output/json.js'

interface SimulateFlags {
  readonly seed?: number
  readonly count: number
  readonly from: number
  readonly threads: number
  readonly out?: string
  readonly planted?: boolean
  readonly json?: boolean
}

const SEED_MAX = 2 ** 40
const THREADS_MAX = 64

export function addSimulate(parent: Command, cli: Cli): void {
  const command = parent
    .command('simulate')
    .summary('run the system on virtual time, with faults from a seed')
    .description(
      'Runs clients, workers and upkeep on virtual time over the memory store: processes crash, stop and freeze, calls and ' +
        'answers are lost or late, clocks jump, all of it drawn from a seed. The history of each run is checked against the ' +
        'promises. The same seed gives the same history. It does not use your store.',
    )
    .option('--seed <number>', 'run one seed again and print what happened', within(0, SEED_MAX))
    .option('--count <number>', 'how many seeds to run', within(1, SEED_MAX), 1_000)
    .option('--from <number>', 'the first seed', within(0, SEED_MAX), 1)
    .option('--threads <number>', 'how many threads', within(1, THREADS_MAX), Math.min(2, availableParallelism()))
    .option('--out <file>', 'keep the summary in this file, and continue one that is there')
    .option('--planted', 'instead plant bugs in a copy of the code, and count the runs until each is found')
    .option('--json', 'print the summary as JSON')
    .action((flags: SimulateFlags) => simulate(cli, flags))
  addExamples(command, [
    ['holdfast simulate --count 10000', 'ten thousand schedules'],
    ['holdfast simulate --seed 4711', 'the same run again, with what broke'],
    ['holdfast simulate --count 500000 --out simulated.json', 'a long run that can be interrupted and continued'],
  ])
}

function within(min: number, max: number): (text: string) => number {
  return (text) => {
    const value = wholeNumber(text)
    if (value >= min && value <= max) return value
    throw new InvalidArgumentError(`It must be from ${min} to ${max}.`)
  }
}

async function simulate(cli: Cli, flags: SimulateFlags): Promise<void> {
  const isOk = await (flags.planted === true
    ? hunt(cli, flags)
    : flags.seed === undefined
      ? runMany(cli, flags)
      : runOne(cli, flags, flags.seed))
  if (!isOk) process.exitCode = EXIT.checkFailed
}

async function runOne(cli: Cli, flags: SimulateFlags, seed: number): Promise<boolean> {
  const { hashOf, simulate } = await import('../../../lab/simulator/simulate.js')
  const { failureOf, totalsOf } = await import('../../../lab/simulator/tally.js')
  const simulation = await simulate(seed)
  const failure = failureOf(simulation)
  const hash = hashOf(simulation.history)
  if (flags.json === true) writeJson(cli, { seed, hash, totals: totalsOf(simulation), failure })
  else {
    const { jobs, events } = totalsOf(simulation)
    cli.stdout.line(`seed ${seed}: ${events} events of ${jobs} jobs, history ${hash}`)
    if (failure === null) cli.stdout.line('nothing broke')
    else printFailure(cli, failure)
  }
  return failure === null
}

async function runMany(cli: Cli, flags: SimulateFlags): Promise<boolean> {
  const { runCampaign } = await import('../../../lab/simulator/campaign.js')
  const { from, count, threads, out } = flags
  const onProgress = (summary: CampaignSummary) => cli.stderr.line(paceOf(summary))
  const summary = await runCampaign({ from, count, threads, out: out ?? null, onProgress })
  if (flags.json === true) writeJson(cli, { ...summary, perSecond: summary.done / summary.seconds })
  else {
    const { jobs, claims, rescues, unknownAnswers, answersLost, ticks, faultless, faults } = summary.totals
    cli.stdout.line(paceOf(summary))
    cli.stdout.line(
      `${jobs} jobs, ${claims} claims, ${rescues} leases that expired, ${answersLost} answers lost, ${unknownAnswers} enqueues without an answer, ${ticks} ticks`,
    )
    const kinds = Object.entries(faults).sort(([a], [b]) => (a < b ? -1 : 1))
    cli.stdout.line(
      `faults: ${kinds.map(([kind, each]) => `${kind} ${each}`).join(', ')}; ${faultless} runs without any`,
    )
    const first = summary.failures[0]
    if (first === undefined) cli.stdout.line('nothing broke')
    else printFailure(cli, first)
  }
  return summary.failures.length === 0
}

function paceOf({ from, done, count, seconds }: CampaignSummary): string {
  return `${done} of ${count} schedules from seed ${from} on, ${seconds.toFixed(0)} s, ${(done / seconds).toFixed(1)} a second`
}

function printFailure({ stdout }: Cli, { seed, violations, story }: Failure): void {
  stdout.line(`seed ${seed} broke:`)
  for (const { invariant, job, message } of violations) stdout.line(`  ${invariant} ${job ?? ''} ${message}`)
  if (story !== null) stdout.line(story)
  stdout.line(`again: holdfast simulate --seed ${seed}`)
}

async function hunt(cli: Cli, flags: SimulateFlags): Promise<boolean> {
  const { huntAll, isFound } = await import('../../../lab/simulator/hunt.js')
  const { PLANTED_BUGS } = await import('../../../lab/simulator/planted-bugs.js')
  const hunted = await huntAll(PLANTED_BUGS, {
    atOnce: flags.threads,
    onHunted: (each) => {
      const what = isFound(each) ? `found by ${each.invariant}` : `not found (${each.message ?? 'nothing broke'})`
      const line = `${each.name}: ${what} after ${each.schedules} schedules, ${each.seconds.toFixed(1)} s`
      if (flags.json !== true) cli.stdout.line(line)
    },
  })
  const found = hunted.filter(isFound).length
  if (flags.json === true) writeJson(cli, { planted: hunted.length, found, hunted })
  else cli.stdout.line(`${found} of ${hunted.length} planted bugs found`)
  return found === hunted.length
}

// holdfast gen: enqueues a load that depends on a seed, at a fixed rate or as fast as it can, and prints what was accepted.

import type { Command } from 'commander'
import { type Duration, durationMs } from '../../core/duration.js'
import { addExamples, type Cli } from '../command.js'
import { duration, wholeNumber } from '../input/arguments.js'
import { addStoreOptions, type StoreFlags, withStore } from '../input/connection.js'
import { writeJson } from '../output/json.js'

interface GenFlags extends StoreFlags {
  readonly seed: number
  readonly jobs: number
  readonly rate?: number
  readonly callers: number
  readonly queue: string
  readonly shares?: string
  readonly long?: Duration
  readonly record?: string
  readonly json?: boolean
}

export function addGen(parent: Command, cli: Cli): void {
  const command = parent
    .command('gen')
    .summary('enqueue a load that depends on a seed')
    .description(
      'Enqueues jobs of the types fast, slow, flapping, poison and long. The seed and the number `seq` in each payload decide ' +
        'its type, how long it runs and how often it fails. With --rate calls start on time, even while earlier ones are ' +
        'unanswered, and latency counts from the time a call was due. The handlers are in lab/gen/handlers.',
    )
    .option('--seed <number>', 'the load depends on it', wholeNumber, 1)
    .option('--jobs <number>', 'how many jobs', wholeNumber, 10_000)
    .option('--rate <number>', 'calls a second (default: as fast as the callers can)', wholeNumber)
    .option('--callers <number>', 'how many calls may be unanswered at a time', wholeNumber, 64)
    .option('--queue <name>', 'the queue', 'gen')
    .option('--shares <list>', 'such as fast=0.9,slow=0.1; kinds that are not named get none')
    .option('--long <duration>', 'how long jobs of the type long run (default: 35s to 45s)', duration)
    .option('--record <file>', 'append each call and its answer to this file, one JSON line each')
    .action((flags: GenFlags) => gen(cli, flags))
  addStoreOptions(command, { json: 'print { asked, accepted, perSecond, p50Ms, p99Ms, … } as JSON' })
  addExamples(command, [
    ['holdfast gen --jobs 100000', 'as fast as 64 callers can'],
    ['holdfast gen --rate 1000 --jobs 60000 --json', 'a minute at 1,000 a second, figures for a program'],
    ['holdfast gen --seed 7 --shares fast=1 --record accepted.jsonl', 'short jobs only, and a record of them'],
  ])
}

async function gen(cli: Cli, flags: GenFlags): Promise<void> {
  const { generate } = await import('../../../lab/gen/generate.js')
  const { seed, jobs, callers, queue } = flags
  await withStore(flags, { mustExist: false }, async (holdfast) => {
    const summary = await generate(holdfast, {
      ...{ seed, jobs, callers, queue },
      rate: flags.rate ?? null,
      shares: flags.shares ?? null,
      longMs: flags.long === undefined ? null : durationMs(flags.long, { name: 'long' }),
      record: flags.record ?? null,
    })
    if (flags.json === true) writeJson(cli, summary)
    else {
      const { accepted, asked, perSecond, p50Ms, p99Ms } = summary
      cli.stdout.line(
        `${accepted} of ${asked} jobs accepted, ${perSecond.toFixed(0)}/s, p50 ${p50Ms.toFixed(1)} ms, p99 ${p99Ms.toFixed(1)} ms`,
      )
    }
  })
}

// holdfast schedules next: when a schedule, or an expression that is none yet, fires next.

import type { Command } from 'commander'
import { parseCron } from '../../../core/cron.js'
import { wholeNumber } from '../../arguments.js'
import { addExamples, type Cli, writeJson } from '../../command.js'
import { addStoreOptions, type StoreFlags, withStore } from '../../connection.js'
import { CliError } from '../../errors.js'
import { EXIT } from '../../exit-codes.js'
import { spanText } from '../../times.js'

interface NextFlags extends StoreFlags {
  readonly cron?: string
  readonly zone?: string
  readonly count: number
}

const COUNT_MAX = 1_000

export function addSchedulesNext(parent: Command, cli: Cli): void {
  const command = parent
    .command('next')
    .summary('show when a schedule fires next')
    .description(
      "Shows the next times of a schedule, or of an expression, which needs no store: in UTC, in the schedule's zone and " +
        'in yours.',
    )
    .argument('[name]', "the schedule's name")
    .option('--cron <fields>', 'an expression instead of a schedule')
    .option('--zone <name>', 'IANA time zone of the expression (default: UTC)')
    .option('--count <number>', `how many, up to ${COUNT_MAX.toLocaleString('en')}`, wholeNumber, 5)
    .action((name: string | undefined, flags: NextFlags) => next(cli, name, flags))
  addStoreOptions(command, { json: 'print { cron, zone, times } as JSON' })
  addExamples(command, [
    ['holdfast schedules next nightly', 'the next five'],
    ["holdfast schedules next --cron '30 2 * * *' --zone Europe/Berlin --count 200", 'how does it take summer time?'],
  ])
}

interface Times {
  readonly cron: string
  readonly zone: string
  readonly times: readonly Date[]
}

async function next(cli: Cli, name: string | undefined, flags: NextFlags): Promise<void> {
  if ((name === undefined) === (flags.cron === undefined)) {
    throw new CliError("give either a schedule's name or --cron", { exitCode: EXIT.usage })
  }
  if (flags.count < 1 || flags.count > COUNT_MAX) {
    throw new CliError(`--count must be from 1 to ${COUNT_MAX}, got ${flags.count}`, { exitCode: EXIT.usage })
  }
  const found = name === undefined ? timesOf(flags) : await timesOfSchedule(name, flags)
  if (flags.json === true) writeJson(cli, found)
  else print(cli, found)
}

function timesOf({ cron = '', zone = 'UTC', count }: NextFlags): Times {
  const parsed = parseCron(cron, zone)
  const times: Date[] = []
  for (let ms: number | null = Date.now(); times.length < count; ) {
    ms = parsed.next(ms)
    if (ms === null) break
    times.push(new Date(ms))
  }
  return { cron, zone, times }
}

function timesOfSchedule(name: string, flags: NextFlags): Promise<Times> {
  return withStore(flags, { mustExist: true }, async (holdfast) => {
    const times = await holdfast.nextRuns(name, flags.count)
    const schedule = (await holdfast.schedules()).find((candidate) => candidate.name === name)
    return { cron: schedule?.cron ?? '', zone: schedule?.zone ?? 'UTC', times }
  })
}

function print(cli: Cli, { zone, times }: Times): void {
  const mine = Intl.DateTimeFormat().resolvedOptions().timeZone
  const zones = [...new Set([zone, mine])].filter((each) => each !== 'UTC')
  for (const time of times) {
    const local = zones.map((each) => `  ${inZone(time, each)}`).join('')
    cli.stdout.line(`${time.toISOString()}${local}  in ${spanText(time.getTime() - Date.now())}`)
  }
}

function inZone(time: Date, zone: string): string {
  const text = new Intl.DateTimeFormat('sv-SE', { dateStyle: 'short', timeStyle: 'medium', timeZone: zone })
  return `${text.format(time)} ${zone}`
}

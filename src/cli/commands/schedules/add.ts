// holdfast schedules add: makes a schedule, or changes the one of that name.

import { type Command, Option } from 'commander'
import type { ScheduleOptions } from '../../../client/schedules.js'
import type { Duration } from '../../../core/duration.js'
import { type ActorFlags, addByOption, byOption } from '../../actor.js'
import { duration, durationOrUnlimited, gather, wholeNumber } from '../../arguments.js'
import { addExamples, type Cli, writeJson } from '../../command.js'
import { addStoreOptions, type StoreFlags, withStore } from '../../connection.js'
import { readPayload } from '../../payload.js'
import { settingsOf } from '../../schedule-settings.js'
import { momentText } from '../../times.js'

interface AddFlags extends StoreFlags, ActorFlags {
  readonly zone?: string
  readonly queue?: string
  readonly priority?: number
  readonly tag?: readonly string[]
  readonly catchUp?: string
  readonly catchUpMax?: number
  readonly overlap?: string
  readonly maxAttempts?: number
  readonly timeout?: Duration | null
  readonly maxAge?: Duration
}

export function addSchedulesAdd(parent: Command, cli: Cli): void {
  const command = parent
    .command('add')
    .summary('make a schedule, or change the one of that name')
    .description(
      'Makes a schedule, or changes the one of that name: what is left out stays as it was. Another type starts anew, with the defaults. Prints its name.',
    )
    .argument('<name>', 'one schedule has it')
    .argument('<cron>', 'five fields (minute, hour, day, month, weekday), or six with seconds in front')
    .argument('<type>', 'of the jobs it makes')
    .argument('[payload]', 'of the jobs: JSON, or - to read it from stdin (default: null)')
    .option('--zone <name>', 'IANA time zone the fields are read in (default: UTC)')
    .option('--queue <name>', 'of the jobs (default: default)')
    .option('--priority <number>', 'of the jobs', wholeNumber)
    .option('--tag <text>', 'of the jobs; may be repeated', gather)
    .addOption(
      new Option('--catch-up <how>', 'ticks nobody was there to fire (default: latest)').choices([
        'skip',
        'latest',
        'all',
      ]),
    )
    .option('--catch-up-max <number>', 'the most ticks `all` makes up for (default: 100)', wholeNumber)
    .addOption(
      new Option('--overlap <how>', 'a tick while an earlier job is unfinished (default: allow)').choices([
        'allow',
        'skip',
      ]),
    )
    .option('--max-attempts <number>', 'how often each job is tried', wholeNumber)
    .option('--timeout <duration>', 'how long one attempt may run, or `unlimited`', durationOrUnlimited)
    .option('--max-age <duration>', 'dead instead of run when a job is older', duration)
    .action((name: string, cron: string, type: string, payload: string | undefined, flags: AddFlags) =>
      add(cli, { name, cron, type, payload }, flags),
    )
  addByOption(command)
  addStoreOptions(command, { json: 'print { schedule } as JSON' })
  addExamples(command, [
    ["holdfast schedules add nightly '0 3 * * *' report --zone Europe/Berlin", 'every night at three'],
    [`holdfast schedules add tick '*/10 * * * * *' ping '{"host":"a"}' --overlap skip`, 'every ten seconds'],
  ])
}

interface Asked {
  readonly name: string
  readonly cron: string
  readonly type: string
  readonly payload: string | undefined
}

async function add(cli: Cli, { name, cron, type, payload }: Asked, flags: AddFlags): Promise<void> {
  const { zone, queue, priority, tag: tags, catchUp, catchUpMax, overlap, maxAttempts, timeout, maxAge } = flags
  const given = { zone, queue, priority, tags, catchUp, catchUpMax, overlap, maxAttempts, timeout, maxAge }
  const options: Record<string, unknown> = Object.fromEntries(
    Object.entries(given).filter(([, value]) => value !== undefined),
  )
  if (payload !== undefined) options.payload = await readPayload(payload)
  await withStore(flags, { mustExist: false }, async (holdfast) => {
    const known = (await holdfast.schedules()).find((schedule) => schedule.name === name && schedule.type === type)
    const kept = known === undefined ? { job: type, payload: null } : settingsOf(known)
    const schedule = await holdfast.schedule(name, { ...kept, ...options, cron } as ScheduleOptions, byOption(flags))
    if (flags.json === true) {
      writeJson(cli, { schedule })
      return
    }
    cli.stdout.line(name)
    if (schedule.nextAt !== null) cli.stderr.line(`fires next at ${momentText(schedule.nextAt)}`)
  })
}

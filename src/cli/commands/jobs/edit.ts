// holdfast jobs edit: changes a job that waits.

import { type Command, Option } from 'commander'
import type { UpdateOptions } from '../../../client/job-actions.js'
import type { Duration } from '../../../core/duration.js'
import { type ActorFlags, addByOption, byOption } from '../../actor.js'
import { duration, wholeNumber } from '../../arguments.js'
import { addExamples, type Cli, writeJson } from '../../command.js'
import { addStoreOptions, type StoreFlags, withStore } from '../../connection.js'
import { findId } from '../../job-ids.js'
import { readPayload } from '../../payload.js'

interface EditFlags extends StoreFlags, ActorFlags {
  readonly priority?: number
  readonly runAt?: string
  readonly delay?: Duration
  readonly now?: boolean
  readonly payload?: string
}

export function addJobsEdit(parent: Command, cli: Cli): void {
  const command = parent
    .command('edit')
    .summary('change the time, priority or payload of a job that waits')
    .description('Changes a job that is blocked, scheduled, ready or retrying. A payload is replaced whole.')
    .argument('<id>', "the job's id, or the last 6 to 12 characters of a recent one")
    .option('--priority <number>', 'higher runs first, -32768 to 32767', wholeNumber)
    .option('--run-at <time>', 'not before this time: 2030-01-31T09:00:00Z')
    .option('--delay <duration>', 'not before this long from now', duration)
    .addOption(new Option('--now', 'at once').conflicts(['runAt', 'delay']))
    .option('--payload <json>', 'JSON, or - to read it from stdin')
    .action((id: string, flags: EditFlags) => edit(cli, id, flags))
  addByOption(command)
  addStoreOptions(command, { json: 'print { id, state, dueInMs } as JSON' })
  addExamples(command, [
    ['holdfast jobs edit 3e8a74 --now', 'do not wait for its time'],
    ['holdfast jobs edit 3e8a74 --priority 100', 'before the others'],
    ["holdfast jobs show 3e8a74 --json | jq '.job.payload' | holdfast jobs edit 3e8a74 --payload -", 'its payload'],
  ])
}

async function edit(cli: Cli, typed: string, flags: EditFlags): Promise<void> {
  const { priority, delay } = flags
  const runAt = flags.now === true ? null : flags.runAt
  const changes: UpdateOptions = {
    ...(priority === undefined ? {} : { priority }),
    ...(delay === undefined ? {} : { delay }),
    ...(runAt === undefined ? {} : { runAt }),
    ...(flags.payload === undefined ? {} : { payload: await readPayload(flags.payload) }),
  }
  await withStore(flags, { mustExist: true }, async (holdfast) => {
    const id = await findId(holdfast, typed)
    const updated = await holdfast.update(id, changes, byOption(flags))
    if (flags.json === true) writeJson(cli, updated)
    else {
      cli.stdout.line(id)
      cli.stderr.line(`changed: it is ${updated.state}`)
    }
  })
}

// holdfast jobs explain: why a job stands where it does, and what would move it on.

import type { Command } from 'commander'
import { addExamples, type Cli, writeJson } from '../../command.js'
import { addStoreOptions, type StoreFlags, withStore } from '../../connection.js'
import { STATE_FORMAT } from '../../job-columns.js'
import { findId } from '../../job-ids.js'
import { visible } from '../../terminal.js'

export function addJobsExplain(parent: Command, cli: Cli): void {
  const command = parent
    .command('explain')
    .summary('say why a job is not running, or what became of it')
    .description('Says in plain words why a job stands where it does, and what would move it on.')
    .argument('<id>', "the job's id, or the last 6 to 12 characters of a recent one")
    .action((id: string, flags: StoreFlags) => explain(cli, id, flags))
  addStoreOptions(command, { json: 'print { id, state, summary, reasons, next } as JSON' })
  addExamples(command, [
    ['holdfast jobs explain 3e8a74', 'paused queue? no worker? behind others? waits for its time?'],
    ["holdfast jobs explain 3e8a74 --json | jq -r '.reasons[].code'", 'for a script'],
  ])
}

async function explain(cli: Cli, typed: string, flags: StoreFlags): Promise<void> {
  await withStore(flags, { mustExist: true }, async (holdfast) => {
    const id = await findId(holdfast, typed)
    const explanation = await holdfast.explain(id)
    if (flags.json === true) {
      writeJson(cli, { id, ...explanation })
      return
    }
    const { stdout } = cli
    stdout.line(`${id}  ${stdout.style(STATE_FORMAT[explanation.state], explanation.state)}`)
    for (const { text } of explanation.reasons) stdout.line(`  ${visible(text)}`)
    if (explanation.next.length > 0) stdout.line(stdout.style('dim', 'what to do'))
    for (const step of explanation.next) stdout.line(`  ${visible(step)}`)
  })
}

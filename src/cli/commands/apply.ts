// holdfast apply: the settings of flow control from a file, and the file of what is set.

import { type Command, Option } from 'commander'
import type { FlowApplied, FlowChange } from '../../client/apply-flow.js'
import { type FlowDocument, type FlowProblem, resolveFlowDocument } from '../../client/flow-document.js'
import { isHoldfastError } from '../../core/errors.js'
import type { Holdfast } from '../../holdfast.js'
import { addExamples, type Cli } from '../command.js'
import { CliError } from '../errors.js'
import { EXIT } from '../exit-codes.js'
import { type ActorFlags, addByOption, byOption } from '../input/actor.js'
import { addYesOption, type ConfirmFlags, confirm } from '../input/confirm.js'
import { addStoreOptions, type StoreFlags, withStore } from '../input/connection.js'
import { type FlowFile, problemsOfSettings, readFlowFile, writeFlowFile } from '../input/flow-file.js'
import { changeLines } from '../output/flow-changes.js'
import { writeJson } from '../output/json.js'
import { visible } from '../output/terminal.js'

interface ApplyFlags extends StoreFlags, ActorFlags, ConfirmFlags {
  readonly dryRun?: boolean
  readonly prune?: boolean
  readonly export?: boolean
}

const FILE_HELP = `
A file of flow control:
  limits:
    stripe: { concurrency: 20, rate: 100/s }
    mailer: { concurrency: { min: 2, max: 50 }, breaker: { failures: 0.5, cooldown: 15s } }
  queues:
    billing: { concurrency: 50, maxDepth: 100000, groups: { concurrency: 2 } }
  groups:
    billing:
      acme: { concurrency: 10, weight: 3 }`

export function addApply(parent: Command, cli: Cli): void {
  const command = parent
    .command('apply')
    .summary('set flow control from a file')
    .description(
      'Brings limits, flow control of queues and settings of groups to what a file says, YAML or JSON, and prints what it ' +
        'changed. What the file names has exactly the settings of the file; what it does not name stays, unless --prune is ' +
        'given. The whole file is checked before anything is written.',
    )
    .argument('[file]', 'the file, or - to read it from stdin')
    .option('--dry-run', 'change nothing, print what it would change; exits with 7 when that is anything')
    .option(
      '--prune',
      'take away what the file does not name: limits, flow control of queues, settings of groups. Never what a definition ' +
        'set, a pause, or a forced breaker',
    )
    .addOption(new Option('--export', 'print what is set now as such a file').conflicts(['dryRun', 'prune']))
    .action((file: string | undefined, flags: ApplyFlags) => apply(cli, file, flags))
    .addHelpText('after', FILE_HELP)
  addYesOption(command)
  addByOption(command)
  addStoreOptions(command, { json: 'print { dryRun, changes, refused }, or with --export the file, as JSON' })
  addExamples(command, [
    ['holdfast apply flow.yaml --dry-run', 'what would change?'],
    ['holdfast apply flow.yaml', 'change it'],
    ['holdfast apply flow.yaml --prune --yes', 'and take away what is not in it, in a deployment'],
    ['holdfast apply --export > flow.yaml', 'begin with what is set'],
  ])
}

async function apply(cli: Cli, path: string | undefined, flags: ApplyFlags): Promise<void> {
  if ((path === undefined) !== (flags.export === true)) {
    throw new CliError(path === undefined ? 'which file?' : '--export prints what is set and reads no file', {
      hint: 'holdfast apply flow.yaml, or holdfast apply --export > flow.yaml',
    })
  }
  if (path === undefined) return print(cli, flags)
  const file = await readFlowFile(path)
  const document = checked(file)
  await withStore(flags, { mustExist: flags.dryRun === true }, (holdfast) => bring(cli, holdfast, document, flags))
}

async function print(cli: Cli, flags: ApplyFlags): Promise<void> {
  await withStore(flags, { mustExist: true }, async (holdfast) => {
    const document = await holdfast.readFlow()
    if (flags.json === true) {
      writeJson(cli, document)
      return
    }
    const used = Object.fromEntries(Object.entries(document).filter(([, section]) => Object.keys(section).length > 0))
    if (Object.keys(used).length === 0) cli.stderr.line('no limit, queue or group has settings of flow control')
    else cli.stdout.write(await writeFlowFile(used))
  })
}

/** The document of a file. Raises with the line of every mistake. */
function checked(file: FlowFile): FlowDocument {
  try {
    resolveFlowDocument(file.document)
    return file.document as FlowDocument
  } catch (error) {
    const { problems } = (isHoldfastError(error) ? error.details : {}) as { problems?: readonly FlowProblem[] }
    throw problems === undefined ? error : problemsOfSettings(file, problems)
  }
}

async function bring(cli: Cli, holdfast: Holdfast, document: FlowDocument, flags: ApplyFlags): Promise<void> {
  const prune = flags.prune === true
  const planned = await holdfast.applyFlow(document, { dryRun: true, prune })
  if (flags.dryRun === true || planned.changes.length === 0) {
    show(cli, planned, flags)
    if (planned.changes.length > 0) process.exitCode = EXIT.checkFailed
    return
  }
  const removed = planned.changes.filter(({ to }) => to === null)
  if (removed.length > 0 && !(await confirm(cli, questionFor(removed), flags))) return
  try {
    const applied = await holdfast.applyFlow(document, { prune, ...byOption(flags) })
    show(cli, applied, flags)
    if (applied.refused.length > 0) process.exitCode = EXIT.partial
  } catch (error) {
    const { applied } = (isHoldfastError(error) ? error.details : {}) as { applied?: readonly FlowChange[] }
    if (applied !== undefined) show(cli, { dryRun: false, changes: applied, refused: [] }, flags)
    throw error
  }
}

function questionFor(removed: readonly FlowChange[]): string {
  const names = removed
    .slice(0, 5)
    .map(({ kind, name, queue }) => `${kind} ${queue === null ? '' : `${queue} `}${name}`)
  const more = removed.length > names.length ? ` and ${removed.length - names.length} more` : ''
  return `Take away the settings of ${names.join(', ')}${more}?`
}

function show(cli: Cli, applied: FlowApplied, flags: ApplyFlags): void {
  if (flags.json === true) {
    writeJson(cli, applied)
    return
  }
  const { dryRun, changes, refused } = applied
  for (const line of changes.flatMap((change) => changeLines(cli.stdout, change))) cli.stdout.line(line)
  for (const { message } of refused) cli.stderr.line(`${cli.stderr.style('yellow', 'refused:')} ${visible(message)}`)
  const count = changes.length === 1 ? '1 change' : `${changes.length} changes`
  if (changes.length === 0 && refused.length === 0) cli.stderr.line('everything is as the file says')
  else
    cli.stderr.line(
      dryRun ? `${count} would be made` : `${count} made${refused.length === 0 ? '' : `, ${refused.length} refused`}`,
    )
}

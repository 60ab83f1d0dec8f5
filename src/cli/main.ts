#!/usr/bin/env node
// The holdfast command: builds the program from its commands, runs it, and turns errors into exit codes.

import { type Argument, Command, CommanderError } from 'commander'
import { VERSION } from '../version.js'
import { type AddCommand, type Cli, HELP_SUMMARY } from './command.js'
import { addApply } from './commands/apply.js'
import { addAudit } from './commands/audit.js'
import { addBench } from './commands/bench.js'
import { addBulk } from './commands/bulk.js'
import { addChaos } from './commands/chaos.js'
import { addCompletion } from './commands/completion.js'
import { addConfig } from './commands/config.js'
import { addConformance } from './commands/conformance.js'
import { addDev } from './commands/dev.js'
import { addDlq } from './commands/dlq.js'
import { addDoctor } from './commands/doctor.js'
import { addEnqueue } from './commands/enqueue.js'
import { addExperiment } from './commands/experiment.js'
import { addGen } from './commands/gen.js'
import { addGroups } from './commands/groups.js'
import { addImport } from './commands/import.js'
import { addJobs } from './commands/jobs.js'
import { addKeys } from './commands/keys.js'
import { addLimits } from './commands/limits.js'
import { addMigrate } from './commands/migrate.js'
import { addQueues } from './commands/queues.js'
import { addSchedules } from './commands/schedules.js'
import { addServer } from './commands/server.js'
import { addSimulate } from './commands/simulate.js'
import { addStats } from './commands/stats.js'
import { addTail } from './commands/tail.js'
import { addTop } from './commands/top.js'
import { addWorker } from './commands/worker.js'
import { addWorkers } from './commands/workers.js'
import { reportError } from './errors.js'
import { EXIT, EXIT_CODES_HELP } from './exit-codes.js'
import { addEarlyOptions, takeEarlyOptions } from './input/connection.js'
import { type ColorChoice, Output } from './output/terminal.js'

/** In the order of the help. */
const COMMANDS: readonly AddCommand[] = [
  ...[addDev, addWorker, addServer, addEnqueue],
  ...[addJobs, addDlq, addQueues, addLimits, addGroups, addApply, addSchedules, addWorkers, addBulk],
  ...[addStats, addTop, addTail, addAudit],
  ...[addDoctor, addMigrate, addImport, addKeys, addConfig, addConformance, addCompletion],
  ...[addBench, addGen, addChaos, addSimulate, addExperiment],
]

const START_HELP = `Start here:
  $ holdfast dev             a store, a worker, the dashboard and example jobs
  $ holdfast worker --help   every command has its own help, with examples

Data goes to stdout, everything else to stderr; --json is for programs.`

function buildProgram(cli: Cli): Command {
  const program = new Command('holdfast')
    .description('A durable job queue and scheduler for Node.js.')
    .version(VERSION, '-V, --version', 'show the version')
    // An option belongs to the command before it: `migrate` and `migrate status` have options of the same name.
    .enablePositionalOptions()
    .helpOption('-h, --help', 'show this help')
    .helpCommand(false)
    .configureHelp({ subcommandTerm: nameWithArguments })
    .configureOutput({
      writeOut: (text) => cli.stdout.line(text.replace(/\n$/, '')),
      writeErr: (text) => cli.stderr.line(text.replace(/\n$/, '')),
    })
    .showHelpAfterError('(--help shows how to use it)')
    .addHelpText('after', `\n${START_HELP}\n\n${EXIT_CODES_HELP}`)
    .exitOverride()
    .hook('preAction', (_, command) => {
      takeEarlyOptions(command)
      const { color } = command.opts<{ color?: ColorChoice }>()
      for (const output of [cli.stdout, cli.stderr]) output.setColor(color ?? 'auto')
    })
  addEarlyOptions(program, { hidden: false })
  for (const add of COMMANDS) add(program, cli)
  addHelp(program)
  return program
}

/** `holdfast help jobs list`. Commander's own help command knows only one level. */
function addHelp(program: Command): void {
  program
    .command('help')
    .summary(HELP_SUMMARY)
    .argument('[command...]', 'its name, such as jobs list')
    .action((words: readonly string[]) => {
      let command = program
      for (const word of words) {
        const below = command.commands.find((candidate) => candidate.name() === word)
        if (below === undefined) command.error(`error: unknown command '${word}'`)
        else command = below
      }
      command.help()
    })
}

function nameWithArguments(command: Command): string {
  const names = command.registeredArguments.map(argumentText)
  return [command.name(), ...names].join(' ')
}

function argumentText(argument: Argument): string {
  const name = `${argument.name()}${argument.variadic ? '...' : ''}`
  return argument.required ? `<${name}>` : `[${name}]`
}

async function run(cli: Cli): Promise<number> {
  try {
    await buildProgram(cli).parseAsync()
    return typeof process.exitCode === 'number' ? process.exitCode : EXIT.ok
  } catch (error) {
    // Commander has printed the error already. Its own exit codes mean success or a usage error.
    if (error instanceof CommanderError) return error.exitCode === 0 ? EXIT.ok : EXIT.usage
    return reportError(error, cli.stderr, { verbose: process.argv.includes('--verbose') })
  }
}

const cli: Cli = { stdout: new Output(process.stdout), stderr: new Output(process.stderr) }
const exitCode = await run(cli)
await Promise.all([cli.stdout.flush(), cli.stderr.flush()])
// Explicitly: a module that a worker has loaded may keep the process open for ever.
process.exit(exitCode)

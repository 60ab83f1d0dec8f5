// What the commands that stay can be told about their log.

import { type Command, Option } from 'commander'
import { LOG_LEVELS, type LogLevel } from '../../core/logger.js'
import type { Output } from '../terminal.js'

const LOG_FORMATS = ['pretty', 'json'] as const
export type LogFormat = (typeof LOG_FORMATS)[number]

/** The levels of the log, and none of it. */
export type LogChoice = LogLevel | 'silent'
const LOG_CHOICES: readonly LogChoice[] = [...LOG_LEVELS, 'silent']

export interface LogFlags {
  readonly logFormat?: LogFormat
  readonly logLevel: LogChoice
}

/** Adds the options of the log. `format` says what is taken when none is given. */
export function addLogOptions(
  command: Command,
  { format = 'pretty in a terminal, json elsewhere' }: { readonly format?: string } = {},
): Command {
  return command
    .addOption(
      new Option('--log-format <format>', `the log on stderr: lines for people, or JSON (default: ${format})`)
        .choices(LOG_FORMATS)
        .env('HOLDFAST_LOG_FORMAT'),
    )
    .addOption(
      new Option('--log-level <level>', 'the least urgent that is told; debug has a line for each job')
        .choices(LOG_CHOICES)
        .default('info')
        .env('HOLDFAST_LOG_LEVEL'),
    )
}

/** The format that was asked for, or the one that fits who reads. */
export function formatFor({ logFormat }: LogFlags, output: Output): LogFormat {
  return logFormat ?? (output.isTerminal ? 'pretty' : 'json')
}

/** True when something so urgent is told. */
export function isTold(level: LogLevel, choice: LogChoice): boolean {
  return choice !== 'silent' && LOG_LEVELS.indexOf(level) >= LOG_LEVELS.indexOf(choice)
}

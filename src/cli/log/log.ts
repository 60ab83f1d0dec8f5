// What a command that stays tells while it runs: on stderr as lines or as JSON, or with --json its events on stdout.

import type { Handler } from '../../core/definition.js'
import type { Emit } from '../../core/events.js'
import { type Logger, type LogLevel, levelOf } from '../../core/logger.js'
import type { ServerEvent } from '../../server/log.js'
import type { Cli } from '../command.js'
import { writeEvent } from '../event-json.js'
import { LinePrinter } from '../lines.js'
import { type Line, Narrator, type Tone } from '../narrator.js'
import { visible } from '../terminal.js'
import { formatFor, isTold, type LogFlags } from './options.js'
import { requestLine } from './requests.js'

/** Tells what happens, in one of three ways. */
export interface Log {
  /** True when people read it as lines. */
  readonly isPretty: boolean
  /** What to give to connect(): JSON lines are made by the library. */
  readonly connectOptions: { readonly logger?: Logger }
  /** Hears what happens to jobs. */
  readonly hear: Emit
  /** Hears what the HTTP server does. */
  readonly served: (event: ServerEvent) => void
  /** The handlers to give to a worker, so that lines can say more about their jobs. */
  watch(handlers: readonly Handler[]): readonly Handler[]
  /** Something about the command itself: a sentence, and the facts in it for programs. */
  say(text: string, facts?: Readonly<Record<string, unknown>>): void
}

/** Opens the log that was asked for. `subjects` are the types to expect, for the columns of lines. */
export async function openLog(
  cli: Cli,
  flags: LogFlags & { readonly json?: boolean },
  subjects: readonly string[],
): Promise<Log> {
  if (flags.json === true) return eventLog(cli, flags)
  if (formatFor(flags, cli.stderr) === 'pretty') return prettyLog(cli, flags, subjects)
  const { jsonLogger } = await import('./json-log.js')
  return jsonLog(jsonLogger(cli.stderr, flags.logLevel))
}

/** Events of jobs as data on stdout; the log is left out. */
function eventLog(cli: Cli, { logLevel }: LogFlags): Log {
  return {
    isPretty: false,
    connectOptions: {},
    hear: (event) => {
      if (isTold(levelOf(event), logLevel)) writeEvent(cli, event)
    },
    served: () => {},
    watch: (handlers) => handlers,
    say: () => {},
  }
}

function jsonLog(logger: Logger): Log {
  return {
    isPretty: false,
    connectOptions: { logger },
    // The library writes them itself.
    hear: () => {},
    served: (event) => {
      const { level, facts, text } = requestLine(event)
      logger[level](facts, text)
    },
    watch: (handlers) => handlers,
    say: (text, facts = {}) => logger.info(facts, text),
  }
}

const LEVELS: Readonly<Record<Tone, LogLevel>> = {
  quiet: 'info',
  plain: 'info',
  good: 'info',
  warning: 'warn',
  bad: 'error',
}

const TONES: Readonly<Record<LogLevel, Tone>> = { debug: 'quiet', info: 'plain', warn: 'warning', error: 'bad' }

function prettyLog(cli: Cli, { logLevel }: LogFlags, subjects: readonly string[]): Log {
  const printer = new LinePrinter(cli.stderr, subjects)
  const narrator = new Narrator((line: Line) => {
    if (isTold(line.isRoutine ? 'debug' : LEVELS[line.tone], logLevel)) printer.print(line)
  })
  return {
    isPretty: true,
    connectOptions: {},
    hear: narrator.hear,
    served: (event) => {
      // The command says itself where it is, with the token that must not be in a log.
      if (event.name === 'listening') return
      const { level, text } = requestLine(event)
      const line = { subject: 'http', id: null, text: visible(text), tone: TONES[level], isRoutine: false }
      if (isTold(level, logLevel)) printer.print(line)
    },
    watch: (handlers) => handlers.map((handler) => narrator.watch(handler)),
    say: (text) => {
      if (isTold('info', logLevel)) cli.stderr.line(text)
    },
  }
}

// The log of the commands that keep running (worker, server, dev): on stderr, as lines for people or as JSON. With --json
// events go to stdout instead.

import { hostname } from 'node:os'
import { type Command, Option } from 'commander'
import type { Handler } from '../../core/definition.js'
import type { Emit } from '../../core/events.js'
import { LOG_LEVELS, type Logger, type LogLevel, levelOf } from '../../core/logger.js'
import type { ServerEvent } from '../../server/log.js'
import type { Cli } from '../command.js'
import { EventLines } from './event-lines.js'
import { writeEvent } from './json.js'
import { type Line, LinePrinter, type Tone } from './lines.js'
import { harmlessJson, type Output, visible } from './terminal.js'

const LOG_FORMATS = ['pretty', 'json'] as const
type LogFormat = (typeof LOG_FORMATS)[number]

type LogChoice = LogLevel | 'silent'
const LOG_CHOICES: readonly LogChoice[] = [...LOG_LEVELS, 'silent']

export interface LogFlags {
  readonly logFormat?: LogFormat
  readonly logLevel: LogChoice
}

/** Adds --log-format and --log-level. `format` is the default in words. */
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
      new Option('--log-level <level>', 'the lowest level that is logged; debug has a line for each job')
        .choices(LOG_CHOICES)
        .default('info')
        .env('HOLDFAST_LOG_LEVEL'),
    )
}

/** A log in one of three forms: lines, JSON, or events on stdout. */
export interface Log {
  /** True when the log is lines for people. */
  readonly isPretty: boolean
  /** For connect(): the library itself writes the JSON log. */
  readonly connectOptions: { readonly logger?: Logger }
  /** Receives the events of jobs. */
  readonly onEvent: Emit
  /** Receives the events of the HTTP server. */
  readonly onServerEvent: (event: ServerEvent) => void
  /** Wraps handlers so that lines can say more about their jobs. */
  watch(handlers: readonly Handler[]): readonly Handler[]
  /** Logs a sentence about the command itself; `facts` are for programs. */
  info(text: string, facts?: Readonly<Record<string, unknown>>): void
}

/** Opens the log that the flags ask for. `subjects` are the expected job types, for the width of their column. */
export async function openLog(
  cli: Cli,
  flags: LogFlags & { readonly json?: boolean },
  subjects: readonly string[],
): Promise<Log> {
  if (flags.json === true) return eventLog(cli, flags)
  const format = flags.logFormat ?? (cli.stderr.isTerminal ? 'pretty' : 'json')
  return format === 'pretty' ? prettyLog(cli, flags, subjects) : jsonLog(await openPino(cli.stderr, flags.logLevel))
}

/** Events of jobs as data on stdout, and no log. */
function eventLog(cli: Cli, { logLevel }: LogFlags): Log {
  return {
    isPretty: false,
    connectOptions: {},
    onEvent: (event) => {
      if (isLogged(levelOf(event), logLevel)) writeEvent(cli, event)
    },
    onServerEvent: () => {},
    watch: (handlers) => handlers,
    info: () => {},
  }
}

function jsonLog(logger: Logger): Log {
  return {
    isPretty: false,
    connectOptions: { logger },
    // The library logs these itself.
    onEvent: () => {},
    onServerEvent: (event) => {
      const { level, facts, text } = serverLine(event)
      logger[level](facts, text)
    },
    watch: (handlers) => handlers,
    info: (text, facts = {}) => logger.info(facts, text),
  }
}

/** A logger that writes one line of JSON for each entry, with its time, level, process and host. */
async function openPino(output: Output, level: LogChoice): Promise<Logger> {
  // Imported here: only a JSON log needs it, and every command would wait for it.
  const { pino } = await import('pino')
  const logger: Logger = pino(
    {
      level,
      base: { pid: process.pid, host: hostname() },
      timestamp: pino.stdTimeFunctions.isoTime,
      formatters: { level: (label) => ({ level: label }) },
    },
    // The command's own output: it survives a reader that leaves, and is flushed before the process ends.
    { write: (line: string) => output.write(harmlessJson(line)) },
  )
  return logger
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
  const lines = new EventLines((line: Line) => {
    if (isLogged(line.isRoutine ? 'debug' : LEVELS[line.tone], logLevel)) printer.print(line)
  })
  return {
    isPretty: true,
    connectOptions: {},
    onEvent: lines.onEvent,
    onServerEvent: (event) => {
      // The command itself prints the address, with a token that must not be in a log.
      if (event.name === 'listening') return
      const { level, text } = serverLine(event)
      const line = { subject: 'http', id: null, text: visible(text), tone: TONES[level], isRoutine: false }
      if (isLogged(level, logLevel)) printer.print(line)
    },
    watch: (handlers) => handlers.map((handler) => lines.watch(handler)),
    info: (text) => {
      if (isLogged('info', logLevel)) cli.stderr.line(text)
    },
  }
}

function isLogged(level: LogLevel, choice: LogChoice): boolean {
  return choice !== 'silent' && LOG_LEVELS.indexOf(level) >= LOG_LEVELS.indexOf(choice)
}

interface ServerLine {
  readonly level: LogLevel
  readonly facts: Readonly<Record<string, unknown>>
  readonly text: string
}

/** One event of the HTTP server as a log line. Reads are routine; changes, refusals and failures are not. */
function serverLine(event: ServerEvent): ServerLine {
  const { name, ...facts } = event
  const named = { event: `http.${name}`, ...facts }
  switch (event.name) {
    case 'request': {
      const { method, route, status, code, who, tookMs } = event
      const by = who === null ? '' : ` by ${who}`
      const why = code === null ? '' : ` ${code}`
      const text = `${method} ${route ?? '(page)'} ${status}${why}${by} in ${Math.round(tookMs)} ms`
      return { level: requestLevel(method, status), facts: { ...named, tookMs: Math.round(tookMs) }, text }
    }
    case 'failed': {
      const { error, requestId } = event
      const text = `request ${requestId} failed: ${error.name}: ${error.message}`
      return { level: 'error', facts: { ...named, error: error.message, stack: error.stack }, text }
    }
    case 'signed_in':
      return { level: 'info', facts: named, text: `signed in: ${event.who}` }
    case 'insecure':
      return { level: 'warn', facts: named, text: event.text }
    case 'listening':
      return { level: 'info', facts: named, text: `listens at ${event.url}` }
  }
}

// Wrong tokens, foreign hosts and floods: an operator wants to know of them though nothing broke. 503 means that the store
// is unavailable, which is logged once, as an error, by the part that noticed it.
const SUSPICIOUS: ReadonlySet<number> = new Set([401, 403, 421, 429, 503])

function requestLevel(method: string, status: number): LogLevel {
  if (SUSPICIOUS.has(status)) return 'warn'
  if (status >= 500) return 'error'
  return method === 'GET' || method === 'HEAD' ? 'debug' : 'info'
}

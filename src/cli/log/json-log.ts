// The log as JSON lines, made by pino. Loaded by the commands that log, when they log JSON.

import { hostname } from 'node:os'
import { pino } from 'pino'
import type { Logger } from '../../core/logger.js'
import { harmlessJson, type Output } from '../terminal.js'
import type { LogChoice } from './options.js'

/** A logger that writes to an output: one line of JSON for each entry, with its time, level, process and host. */
export function jsonLogger(output: Output, level: LogChoice): Logger {
  return pino(
    {
      level,
      base: { pid: process.pid, host: hostname() },
      timestamp: pino.stdTimeFunctions.isoTime,
      formatters: { level: (label) => ({ level: label }) },
    },
    // The command's own output: it survives readers that leave, and is flushed before the process ends.
    { write: (line: string) => output.write(harmlessJson(line)) },
  )
}

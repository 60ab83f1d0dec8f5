// JSON on stdout, for programs.

import type { HoldfastEvent } from '../../core/events.js'
import type { Cli } from '../command.js'
import { visibleJson } from './terminal.js'

/** The version of the JSON that commands print. It changes when a field is removed or changes its meaning, not when one is added. */
const SCHEMA_VERSION = 1

/** Prints the one JSON document of a command. */
export function writeJson({ stdout }: Cli, document: object): void {
  stdout.line(visibleJson({ schemaVersion: SCHEMA_VERSION, ...document }))
}

/** Prints one of many JSON documents on a line of its own. */
export function writeJsonLine({ stdout }: Cli, document: object): void {
  stdout.line(visibleJson({ schemaVersion: SCHEMA_VERSION, ...document }, 0))
}

/** Prints one event, with its time, on a line of its own. */
export function writeEvent(cli: Cli, event: HoldfastEvent): void {
  const { name, ...facts } = event
  const error = 'error' in facts && facts.error instanceof Error ? { error: facts.error.message } : {}
  writeJsonLine(cli, { at: new Date(), event: name, ...facts, ...error })
}

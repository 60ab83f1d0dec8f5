// Loading a module of handlers that was named on the command line.

import { existsSync, statSync } from 'node:fs'
import { resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import type { Handler } from '../core/definition.js'
import { show } from '../core/errors.js'
import { CliError } from './errors.js'
import { EXIT } from './exit-codes.js'

/** The handlers of a module: its `handlers`, or its default export. Each is checked by the worker that gets them. */
export async function loadHandlers(path: string): Promise<readonly Handler[]> {
  const file = resolve(path)
  if (!existsSync(file) || statSync(file).isDirectory()) {
    throw new CliError(`there is no module ${file}`, {
      exitCode: EXIT.notFound,
      hint: 'name a JavaScript file, as in `holdfast worker ./jobs.js`',
    })
  }
  const loaded = await load(file)
  // A CommonJS module's exports arrive as the default.
  const inside = loaded.default as { handlers?: unknown } | undefined
  const handlers = loaded.handlers ?? inside?.handlers ?? inside
  if (Array.isArray(handlers) && handlers.length > 0) return handlers as readonly Handler[]
  const found = Object.keys(loaded).map((name) => `${name}: ${show(loaded[name])}`)
  throw new CliError(`${file} has no handlers: it exports ${found.length === 0 ? 'nothing' : found.join(', ')}`, {
    exitCode: EXIT.usage,
    hint: 'export a list, as in: export const handlers = [sendEmail.handle(async (payload, ctx) => { … })]',
  })
}

async function load(file: string): Promise<Record<string, unknown>> {
  try {
    return (await import(pathToFileURL(file).href)) as Record<string, unknown>
  } catch (cause) {
    const { name, message, code } = cause as NodeJS.ErrnoException
    const isTypeScript = code === 'ERR_UNKNOWN_FILE_EXTENSION'
    throw new CliError(`${file} cannot be loaded: ${name}: ${message}`, {
      exitCode: EXIT.unexpected,
      hint: isTypeScript ? 'compile it to JavaScript first and name that file' : 'add --verbose to see where it failed',
      cause,
    })
  }
}

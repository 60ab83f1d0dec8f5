// Loads the module of handlers that was named on the command line, in JavaScript or TypeScript.

import { existsSync, statSync } from 'node:fs'
import { resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import type { Middleware } from '../../client/middleware.js'
import type { Handler } from '../../core/definition.js'
import { show } from '../../core/errors.js'
import { handlersOf, loadModule, middlewareOf } from '../../host/load-module.js'
import { checkMiddleware } from '../../worker/middleware.js'
import { CliError } from '../errors.js'
import { EXIT } from '../exit-codes.js'

/** What a worker runs. */
export interface HandlerModule {
  /** Its `handlers`, or its default export. The worker checks each of them. */
  readonly handlers: readonly Handler[]
  /** Its `middleware`, as a list; empty when it exports none. */
  readonly middleware: readonly Middleware[]
}

/** Loads a module and reads its exports. */
export async function loadHandlerModule(path: string): Promise<HandlerModule> {
  const file = resolve(path)
  if (!existsSync(file) || statSync(file).isDirectory()) {
    throw new CliError(`there is no module ${file}`, {
      exitCode: EXIT.notFound,
      hint: 'name a file, as in `holdfast worker ./jobs.js`',
    })
  }
  const loaded = await load(file)
  const handlers = handlersOf(loaded)
  if (handlers !== null) {
    const middleware = (middlewareOf(loaded) ?? []).map((one) =>
      checkMiddleware(one as Middleware, `middleware of ${file}`),
    )
    return { handlers: handlers as readonly Handler[], middleware }
  }
  const found = Object.keys(loaded).map((name) => `${name}: ${show(loaded[name])}`)
  throw new CliError(`${file} has no handlers: it exports ${found.length === 0 ? 'nothing' : found.join(', ')}`, {
    hint: 'export a list, as in: export const handlers = [sendEmail.handle(async (payload, ctx) => { … })]',
  })
}

async function load(file: string): Promise<Readonly<Record<string, unknown>>> {
  try {
    return await loadModule(pathToFileURL(file))
  } catch (cause) {
    const { name, message, code } = cause as NodeJS.ErrnoException
    const isTypeScript = TYPESCRIPT_CODES.includes(code ?? '')
    throw new CliError(`${file} cannot be loaded: ${name}: ${message}`, {
      exitCode: EXIT.unexpected,
      hint: isTypeScript ? TYPESCRIPT_HINT : 'add --verbose to see where it failed',
      cause,
    })
  }
}

const TYPESCRIPT_CODES: readonly string[] = [
  'ERR_UNKNOWN_FILE_EXTENSION',
  'ERR_UNSUPPORTED_TYPESCRIPT_SYNTAX',
  'ERR_UNSUPPORTED_NODE_MODULES_TYPE_STRIPPING',
]

const TYPESCRIPT_HINT =
  'for TypeScript, install tsx beside your code (npm install --save-dev tsx), or use Node 22.18 or later, or compile it first and name the JavaScript file'

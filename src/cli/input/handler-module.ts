// Loads the module of handlers that was named on the command line, in JavaScript or TypeScript.

import { existsSync, readFileSync, statSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join, resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import type { Handler } from '../../core/definition.js'
import { show } from '../../core/errors.js'
import { CliError } from '../errors.js'
import { EXIT } from '../exit-codes.js'

/** The handlers of a module: its `handlers`, or its default export. The worker checks each of them. */
export async function loadHandlers(path: string): Promise<readonly Handler[]> {
  const file = resolve(path)
  if (!existsSync(file) || statSync(file).isDirectory()) {
    throw new CliError(`there is no module ${file}`, {
      exitCode: EXIT.notFound,
      hint: 'name a file, as in `holdfast worker ./jobs.js`',
    })
  }
  const loaded = await load(file)
  // The exports of a CommonJS module are its default export here.
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
    if (/\.[mc]?tsx?$/.test(file)) await readyForTypeScript(file)
    return (await import(pathToFileURL(file).href)) as Record<string, unknown>
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

/**
 * Loads TypeScript through the project's own tsx, where it has one: tsx knows the whole language. Without tsx, a Node that
 * strips types loads most modules; an older Node raises an error.
 */
async function readyForTypeScript(file: string): Promise<void> {
  const tsx = findTsx(file)
  if (tsx === null) return
  // Both: the module, and the modules it imports, may be CommonJS or ESM.
  for (const entry of ['./cjs/api', './esm/api']) {
    const api = importTarget(tsx.exports[entry])
    if (api === null) continue
    const { register } = (await import(pathToFileURL(join(tsx.folder, api)).href)) as { register: () => unknown }
    register()
  }
}

interface FoundPackage {
  readonly folder: string
  readonly exports: Readonly<Record<string, unknown>>
}

function findTsx(file: string): FoundPackage | null {
  try {
    const manifest = createRequire(file).resolve('tsx/package.json')
    return { folder: dirname(manifest), exports: JSON.parse(readFileSync(manifest, 'utf8')).exports }
  } catch {
    return null
  }
}

/**
 * The file that an entry of a package's exports gives to `import`. Node's own resolver cannot be used: from another module's
 * path it resolves for `require` only, and the file tsx exports there cannot register on Node 20.
 */
function importTarget(entry: unknown): string | null {
  if (typeof entry === 'string') return entry
  if (typeof entry !== 'object' || entry === null) return null
  const { import: forImport, default: forAll } = entry as { import?: unknown; default?: unknown }
  return importTarget(forImport ?? forAll)
}

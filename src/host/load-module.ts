// Loading a module of handlers, in JavaScript or TypeScript: for children, and for the command line.

import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'

/** What a module exports. */
export async function loadModule(url: URL): Promise<Readonly<Record<string, unknown>>> {
  if (/\.[mc]?tsx?$/.test(url.pathname)) await readyForTypeScript(fileURLToPath(url))
  return (await import(url.href)) as Record<string, unknown>
}

/** The list of handlers of a module: its `handlers`, or its default export; null when it has none. None of them is checked. */
export function handlersOf(exports: Readonly<Record<string, unknown>>): readonly unknown[] | null {
  // A CommonJS module's exports arrive as the default.
  const inside = exports.default as { handlers?: unknown } | undefined
  const handlers = exports.handlers ?? inside?.handlers ?? inside
  return Array.isArray(handlers) && handlers.length > 0 ? handlers : null
}

/** The middleware of a module, as a list: what it exports as `middleware`, one or several; null when it exports none. None of it is checked. */
export function middlewareOf(exports: Readonly<Record<string, unknown>>): readonly unknown[] | null {
  const inside = exports.default as { middleware?: unknown } | null | undefined
  const middleware = exports.middleware ?? inside?.middleware
  if (middleware === undefined) return null
  return Array.isArray(middleware) ? middleware : [middleware]
}

/**
 * Has Node understand TypeScript through the project's own tsx, where it has one: it knows all of the language. Without,
 * a Node that strips types by itself loads most modules, and another says that it cannot.
 */
async function readyForTypeScript(file: string): Promise<void> {
  const tsx = findTsx(file)
  if (tsx === null) return
  // Both: what a module imports may be CommonJS, and the module itself too.
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
 * What an entry of a package's exports gives to `import`. Node's own resolver does not serve here: from another module's place it
 * answers for `require` only, and what tsx gives there cannot register on Node 20.
 */
function importTarget(entry: unknown): string | null {
  if (typeof entry === 'string') return entry
  if (typeof entry !== 'object' || entry === null) return null
  const { import: forImport, default: forAll } = entry as { import?: unknown; default?: unknown }
  return importTarget(forImport ?? forAll)
}

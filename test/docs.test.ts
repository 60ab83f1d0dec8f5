// The documents: every block of TypeScript compiles against the package as it is, every link leads somewhere, every decision has
// its sections.
//
// A block is a module of its own. It imports what it needs, or names what it assumes in a comment above it that readers do not
// see: <!-- with: holdfast, sendEmail -->. GIVEN declares those names.

import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { basename, dirname, join, relative } from 'node:path'
import ts from 'typescript'
import { describe, expect, test } from 'vitest'

const ROOT = join(import.meta.dirname, '..')
const DOCS = join(ROOT, 'docs')

const GIVEN: Readonly<Record<string, string>> = {
  holdfast: "declare const holdfast: import('holdfast').Holdfast",
  sendEmail: define('sendEmail', '{ to: string; template: string }'),
  chargeCard: define('chargeCard', '{ orderId: number }'),
  fetchPage: define('fetchPage', '{ url: string }'),
  pool: "declare const pool: import('pg').Pool",
  metrics: 'declare const metrics: { count(name: string, value?: number): void }',
  id: 'declare const id: string',
}

function define(name: string, payload: string): string {
  return `declare const ${name}: import('holdfast').JobDefinition<${payload}, ${payload}>`
}

// The reader's own module, which some guides import.
const JOBS = `
export declare const handlers: readonly import('holdfast').Handler[]
export declare const middleware: readonly import('holdfast').Middleware[]
`

// The parts of packages that the guides show and that are not installed here, as those packages declare them.
const ELSEWHERE = `
declare module 'drizzle-orm' {
  export interface SQL { readonly queryChunks: unknown[] }
  export const sql: { raw(text: string): SQL; param(value: unknown): SQL; join(chunks: SQL[], separator?: SQL): SQL }
}
declare module 'kysely' {
  export interface CompiledQuery { readonly sql: string; readonly parameters: readonly unknown[] }
  export const CompiledQuery: { raw(sql: string, parameters?: unknown[]): CompiledQuery }
  export interface Transaction<Database> {
    readonly isTransaction: true
    readonly database?: Database
    executeQuery(query: CompiledQuery): Promise<{ readonly rows: unknown[] }>
  }
}
declare module '@prisma/client' {
  export namespace Prisma {
    interface TransactionClient { $queryRawUnsafe<Result = unknown>(query: string, ...values: unknown[]): Promise<Result> }
  }
}`

interface Page {
  /** Its path from the root. */
  readonly path: string
  readonly text: string
}

interface Block {
  /** The page and the line it begins at, for messages. */
  readonly place: string
  readonly file: string
  /** Lines that the page does not show. */
  readonly hiddenLines: number
  readonly code: string
}

const pages: readonly Page[] = [
  ...[
    'README.md',
    'ARCHITECTURE.md',
    'CONTRIBUTING.md',
    'CHANGELOG.md',
    'SECURITY.md',
    'lab/README.md',
    'deploy/README.md',
  ],
  ...readdirSync(DOCS, { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.md'))
    .map((name) => join('docs', name))
    .sort(),
].map((path) => ({ path, text: readFileSync(join(ROOT, path), 'utf8') }))

describe('the guides', () => {
  test('every block of TypeScript compiles', { timeout: 60_000 }, () => {
    const blocks = pages.flatMap(blocksOf)

    expect(blocks.length).toBeGreaterThan(30)
    expect(problemsIn(blocks)).toEqual([])
  })

  test('a block that does not compile is reported with its page and line', { timeout: 60_000 }, () => {
    const text = [
      'Some words.',
      '<!-- with: holdfast, sendEmail -->',
      '```ts',
      "await holdfast.enqueue(sendEmail, { to: 'ada@example.com', template: 'welcome' })",
      "await holdfast.enqueue(sendEmail, { to: 'ada@example.com' })",
      "await holdfast.enqueue('resize', {}, { prioritty: 1 })",
      '```',
    ].join('\n')

    const problems = problemsIn(blocksOf({ path: 'docs/broken.md', text }))

    expect(problems).toHaveLength(2)
    expect(problems[0]).toMatch(/^docs\/broken\.md:5: .*template/s)
    expect(problems[1]).toMatch(/^docs\/broken\.md:6: .*prioritty/s)
  })

  test('a block may assume only what is declared for it', () => {
    const text = '<!-- with: somethingElse -->\n```ts\nvoid somethingElse\n```'

    expect(() => blocksOf({ path: 'docs/broken.md', text })).toThrow(/docs\/broken\.md:3 .*somethingElse/)
  })

  test('every block of TypeScript is marked ts, so that none escapes the compiler', () => {
    const strange = pages.flatMap(({ path, text }) =>
      fencesOf(text)
        .filter(({ language }) => !['ts', 'sh', 'sql', 'mermaid', 'text', ''].includes(language))
        .map(({ line, language }) => `${path}:${line} is in "${language}"`),
    )

    expect(strange).toEqual([])
  })

  test('every link leads to a page, and to a heading that is on it', () => {
    const broken = pages.flatMap(({ path, text }) =>
      linksOf(text)
        .map((target) => inRepository(path, target))
        .filter((target) => !/^[a-z]+:/.test(target) && !leadsSomewhere(path, target))
        .map((target) => `${path} → ${target}`),
    )

    expect(broken).toEqual([])
  })

  test('links by name have an address', () => {
    const broken = pages.flatMap(({ path, text }) =>
      [...proseOf(text).matchAll(/\]\[([\w-]+)\]/g)]
        .filter(([, name]) => !text.includes(`\n[${name}]: `))
        .map(([, name]) => `${path} → [${name}]`),
    )

    expect(broken).toEqual([])
  })

  test('every guide is on a shelf', () => {
    const shelves = pages.find(({ path }) => path === 'docs/README.md')!.text
    const guides = pages.filter(
      ({ path }) => path.startsWith('docs/') && path !== 'docs/README.md' && !isDecision(path),
    )

    const shelved = linksOf(shelves).map((target) => inRepository('docs/README.md', target))
    const missing = guides.filter(({ path }) => !shelved.includes(relative('docs', path)))

    expect(missing.map(({ path }) => path)).toEqual([])
  })
})

describe('the documents for contributors', () => {
  test('every file that CONTRIBUTING.md and SECURITY.md name exists', () => {
    const missing = pages
      .filter(({ path }) => ['CONTRIBUTING.md', 'SECURITY.md'].includes(path))
      .flatMap(({ path, text }) =>
        [...text.matchAll(/`((?:src|test|docs|scripts|lab)\/[\w./-]+\w\/?)`/g)]
          .filter(([, file]) => !file!.includes('NNNN') && !existsSync(join(ROOT, file!)))
          .map(([, file]) => `${path} → ${file}`),
      )

    expect(missing).toEqual([])
  })

  test('the glossary explains thirty-three words, each once', () => {
    const { text } = pages.find(({ path }) => path === 'CONTRIBUTING.md')!
    const glossary = text.slice(text.indexOf('\n## Words'), text.indexOf('\n## The bar'))
    const words = [...glossary.matchAll(/^\| ([a-z]+) +\| \S/gm)].map(([, word]) => word!).slice(1)

    expect(words).toHaveLength(33)
    expect(new Set(words).size).toBe(33)
  })
})

describe('the decisions', () => {
  const decisions = pages.filter(({ path }) => isDecision(path))

  test('each has its number, its date and its sections', () => {
    expect(decisions.length).toBeGreaterThan(20)
    expect(decisions.flatMap(gapsIn)).toEqual([])
  })

  test('a page without a date or a section is reported', () => {
    const text = '# 0099: Nothing\n\n## Decision\n\nWe wait.\n\n## Figures\n\n## When to look again\n\nNever.\n'

    expect(gapsIn({ path: 'docs/decisions/0098-nothing.md', text })).toEqual([
      'docs/decisions/0098-nothing.md has no title with its number',
      'docs/decisions/0098-nothing.md has no date',
      'docs/decisions/0098-nothing.md has nothing under "Figures"',
      'docs/decisions/0098-nothing.md has nothing under "Alternatives"',
    ])
  })

  test('no two have one number', () => {
    const numbers = decisions.map(({ path }) => numberOf(path))

    expect(numbers).toEqual([...new Set(numbers)])
  })

  test('each has a line in the index', () => {
    const index = pages.find(({ path }) => path === 'docs/decisions/README.md')!.text
    const missing = decisions.filter(({ path }) => !index.includes(basename(path)))

    expect(missing.map(({ path }) => path)).toEqual([])
  })
})

function isDecision(path: string): boolean {
  return /^docs\/decisions\/\d{4}-[\w-]+\.md$/.test(path)
}

function numberOf(path: string): string {
  return basename(path).slice(0, 4)
}

/** What a decision's page lacks: its number in the title, its date, a section, or the text of one. */
function gapsIn({ path, text }: Page): readonly string[] {
  const sections = text.split(/^## /m).slice(1)
  const gaps = ['Decision', 'Figures', 'Alternatives', 'When to look again']
    .filter((heading) => !sections.some((section) => headingOf(section) === heading && /\n\s*\S/.test(section)))
    .map((heading) => `nothing under "${heading}"`)
  if (!/^Date: \d{4}-\d{2}-\d{2}/m.test(text)) gaps.unshift('no date')
  if (!text.startsWith(`# ${numberOf(path)}: `)) gaps.unshift('no title with its number')
  return gaps.map((gap) => `${path} has ${gap}`)
}

/** The heading of a section; "What was decided" is another name for "Decision". */
function headingOf(section: string): string {
  const heading = section.slice(0, section.indexOf('\n')).trim()
  return heading === 'What was decided' ? 'Decision' : heading
}

interface Fence {
  /** The line after the opening one, counted from 1. */
  readonly line: number
  readonly language: string
  readonly lines: readonly string[]
  /** The line above the opening one. */
  readonly above: string
}

function fencesOf(text: string): readonly Fence[] {
  const lines = text.split('\n')
  const fences: Fence[] = []
  for (let index = 0; index < lines.length; index++) {
    const language = /^\s*```(.*)$/.exec(lines[index]!)?.[1]
    if (language === undefined) continue
    const end = lines.findIndex((line, at) => at > index && line.trim() === '```')
    const body = lines.slice(index + 1, end === -1 ? lines.length : end)
    fences.push({ line: index + 2, language, lines: body, above: lines[index - 1] ?? '' })
    index += body.length + 1
  }
  return fences
}

function proseOf(text: string): string {
  return text.replace(/^```[\s\S]*?^```$/gm, '')
}

function blocksOf({ path, text }: Page): readonly Block[] {
  return fencesOf(text)
    .filter(({ language }) => language === 'ts')
    .map(({ line, lines, above }) => {
      const place = `${path}:${line}`
      const given = namesIn(above).map((name) => declarationOf(name, place))
      const hidden = given.join('\n').split('\n')
      // In docs for every page, because packages resolve from there as they do for the tests.
      const file = join(DOCS, `${path.replace(/\W/g, '_')}_${line}.ts`)
      return { place, file, hiddenLines: hidden.length, code: [...hidden, ...lines].join('\n') }
    })
}

function namesIn(comment: string): readonly string[] {
  const names = /^<!-- with: ([\w, ]+) -->$/.exec(comment)?.[1]
  return names === undefined ? [] : names.split(',').map((name) => name.trim())
}

function declarationOf(name: string, place: string): string {
  const declaration = GIVEN[name]
  if (declaration === undefined) throw new Error(`${place} assumes ${name}, which GIVEN does not declare`)
  return declaration
}

// The parsed files of the package and its dependencies. Every program of these tests shares them.
const parsed = new Map<string, ts.SourceFile>()

/** The compiler's errors in the blocks, each with its page and line. */
function problemsIn(blocks: readonly Block[]): readonly string[] {
  const options = compilerOptions()
  const sources = new Map(blocks.map(({ file, code }) => [file, code]))
  sources.set(join(DOCS, 'elsewhere.d.ts'), ELSEWHERE).set(join(DOCS, 'jobs.ts'), JOBS)
  const host = ts.createCompilerHost(options)
  const { fileExists, readFile } = host
  const readSource = host.getSourceFile
  host.fileExists = (name) => sources.has(name) || fileExists(name)
  host.readFile = (name) => sources.get(name) ?? readFile(name)
  host.getSourceFile = (name, languageVersion) => {
    const code = sources.get(name)
    if (code !== undefined) return ts.createSourceFile(name, code, languageVersion)
    const source = parsed.get(name) ?? readSource(name, languageVersion)
    if (source !== undefined) parsed.set(name, source)
    return source
  }
  const program = ts.createProgram([...sources.keys()], options, host)
  return blocks.flatMap((block) => {
    const source = program.getSourceFile(block.file)
    return [...program.getSyntacticDiagnostics(source), ...program.getSemanticDiagnostics(source)].map((diagnostic) =>
      describeProblem(block, diagnostic),
    )
  })
}

/** The package's own strictness; a block may declare what it does not use. */
function compilerOptions(): ts.CompilerOptions {
  const { config } = ts.readConfigFile(join(ROOT, 'tsconfig.json'), ts.sys.readFile)
  const { options } = ts.parseJsonConfigFileContent({ ...config, include: [], files: [] }, ts.sys, ROOT)
  return {
    ...options,
    noUnusedLocals: false,
    noUnusedParameters: false,
    declaration: false,
    isolatedDeclarations: false,
    moduleDetection: ts.ModuleDetectionKind.Force,
    paths: sourcesByName(),
  }
}

/** The source file of each of the package's entries, so that the test needs no build. */
function sourcesByName(): Record<string, string[]> {
  const manifest = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as {
    name: string
    exports: Record<string, string | { types: string }>
  }
  return Object.fromEntries(
    Object.entries(manifest.exports).flatMap(([name, target]) => {
      if (typeof target === 'string') return []
      const source = target.types.replace('./dist/', './').replace('.d.ts', '.ts')
      return [[join(manifest.name, name), [join(ROOT, source)]]]
    }),
  )
}

function describeProblem({ place, hiddenLines }: Block, { file, start, messageText }: ts.Diagnostic): string {
  const text = ts.flattenDiagnosticMessageText(messageText, '\n')
  const [path, first] = place.split(':')
  const line = file === undefined ? 0 : file.getLineAndCharacterOfPosition(start ?? 0).line - hiddenLines
  return `${path}:${Number(first) + line}: ${text}`
}

/** The targets of all links of a page, those by name included. */
function linksOf(text: string): readonly string[] {
  const links = [...proseOf(text).matchAll(/\]\(([^)\s]+)\)/g), ...text.matchAll(/^\[[\w-]+\]: (\S+)$/gm)]
  return links.map(([, target]) => target!)
}

/** A link to a file on the repository's site as a link from page to page. Published pages link like that to unpublished ones. */
function inRepository(from: string, target: string): string {
  const { homepage } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as { homepage: string }
  const repository = homepage.replace('#readme', '')
  const path = ['blob', 'raw'].map((kind) => `${repository}/${kind}/main/`).find((prefix) => target.startsWith(prefix))
  return path === undefined ? target : relative(dirname(from), target.slice(path.length))
}

function leadsSomewhere(from: string, target: string): boolean {
  const [path, heading] = target.split('#') as [string, string | undefined]
  const file = path === '' ? join(ROOT, from) : join(ROOT, dirname(from), path)
  if (!existsSync(file)) return false
  return heading === undefined || headingsOf(readFileSync(file, 'utf8')).includes(heading)
}

/** The anchors of a page's headings, as the usual renderers make them. */
function headingsOf(text: string): readonly string[] {
  return [...proseOf(text).matchAll(/^#+ (.+)$/gm)].map(([, heading]) =>
    heading!
      .toLowerCase()
      .replace(/[^\p{L}\p{N}\s_-]/gu, '')
      .replace(/\s/g, '-'),
  )
}

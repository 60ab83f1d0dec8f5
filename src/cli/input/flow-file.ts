// Reads a file of flow control, YAML or JSON, into plain values that know the line they stand on. JSON is read as the YAML it is.

import { readFile, stat } from 'node:fs/promises'
import type { Node, Pair } from 'yaml'
import type { FlowProblem } from '../../client/flow-document.js'
import { CliError } from '../errors.js'
import { EXIT } from '../exit-codes.js'
import { harmlessJson, visible } from '../output/terminal.js'
import { readStdin } from './payload.js'

/** What a file says, and where. */
export interface FlowFile {
  /** As it was named, for messages. */
  readonly name: string
  readonly document: unknown
  /** The line of what stands at these keys, or of what is nearest above. */
  lineOf(path: readonly string[]): number
}

const FILE_BYTES_MAX = 16 * 1024 * 1024
const PROBLEMS_MAX = 20

/** Reads a file; `-` is stdin. Raises for one that is missing, too large, or neither YAML nor JSON. */
export async function readFlowFile(path: string): Promise<FlowFile> {
  const name = path === '-' ? 'stdin' : path
  return parseFlowFile(name, path === '-' ? await readStdin('the file', FILE_BYTES_MAX) : await readText(path))
}

async function readText(path: string): Promise<string> {
  try {
    const { size } = await stat(path)
    if (size > FILE_BYTES_MAX) throw new CliError(`${path} is larger than ${FILE_BYTES_MAX} bytes`)
    return await readFile(path, 'utf8')
  } catch (error) {
    if (error instanceof CliError) throw error
    const isMissing = (error as NodeJS.ErrnoException).code === 'ENOENT'
    throw new CliError(isMissing ? `there is no file ${path}` : `${path} cannot be read: ${(error as Error).message}`, {
      exitCode: EXIT.notFound,
      cause: error,
    })
  }
}

/** The values of a text. Aliases and tags are refused: what a line means must not depend on another. */
async function parseFlowFile(name: string, text: string): Promise<FlowFile> {
  const yaml = await import('yaml')
  const lineCounter = new yaml.LineCounter()
  const parsed = yaml.parseDocument(text, { lineCounter, version: '1.2', schema: 'core' })
  const lineAt = (offset: number | undefined) => Math.max(1, lineCounter.linePos(offset ?? 0).line)
  const problems: Located[] = [...parsed.errors, ...parsed.warnings].map(({ message, pos }) => ({
    line: lineAt(pos[0]),
    message: message.split('\n')[0]!.replace(/ at line \d+, column \d+:?$/, ''),
  }))
  const lines = new Map<string, number>()

  const read = (node: unknown, path: readonly string[]): unknown => {
    if (yaml.isMap(node)) return readMap(node.items as readonly Pair[], path)
    if (yaml.isSeq(node)) return node.items.map((item, index) => read(item, [...path, String(index)]))
    if (yaml.isScalar(node)) return node.value
    if (yaml.isAlias(node)) {
      problems.push({ line: lineAt(node.range?.[0]), message: 'an alias is not read here: write its value out' })
    }
    return null
  }
  const readMap = (pairs: readonly Pair[], path: readonly string[]): object => {
    const entries = new Map<string, unknown>()
    for (const { key, value } of pairs) {
      const line = lineAt((key as Node | null)?.range?.[0])
      // As it is written: a group called 007 is not 7.
      const named = yaml.isScalar(key) ? (key.type === 'PLAIN' ? key.source : String(key.value)) : undefined
      if (named === undefined) problems.push({ line, message: 'a key must be a name' })
      else if (entries.has(named)) problems.push({ line, message: `${named} is there twice` })
      else {
        lines.set(placeOf([...path, named]), line)
        entries.set(named, read(value, [...path, named]))
      }
    }
    return Object.fromEntries(entries)
  }
  const document = problems.length > 0 ? null : read(parsed.contents, [])
  if (problems.length > 0) throw problemsIn(name, problems)
  return { name, document: withoutVersion(document), lineOf: (path) => nearest(lines, path) }
}

const placeOf = (path: readonly string[]) => JSON.stringify(path)

function nearest(lines: ReadonlyMap<string, number>, path: readonly string[]): number {
  for (let length = path.length; length > 0; length--) {
    const line = lines.get(placeOf(path.slice(0, length)))
    if (line !== undefined) return line
  }
  return 1
}

/** `apply --export --json` writes the version that every JSON of the command line has. An empty file has no settings. */
function withoutVersion(document: unknown): unknown {
  if (document === null) return {}
  if (typeof document !== 'object' || Array.isArray(document)) return document
  const { schemaVersion, ...settings } = document as Record<string, unknown>
  return schemaVersion === undefined || schemaVersion === 1 ? settings : document
}

interface Located {
  readonly line: number
  readonly message: string
}

/** The error for a file with mistakes, each with its line. */
function problemsIn(name: string, problems: readonly Located[]): CliError {
  const sorted = [...problems].sort((one, other) => one.line - other.line)
  const shown = sorted.slice(0, PROBLEMS_MAX).map(({ line, message }) => `${name}:${line}: ${message}`)
  const rest = sorted.length > PROBLEMS_MAX ? [`and ${sorted.length - PROBLEMS_MAX} more`] : []
  const head = `${name} has ${sorted.length === 1 ? 'a mistake' : `${sorted.length} mistakes`}; nothing was changed`
  return new CliError([head, ...shown, ...rest].join('\n'))
}

/** The error for settings with mistakes, each with its line and its keys. */
export function problemsOfSettings(file: FlowFile, problems: readonly FlowProblem[]): CliError {
  return problemsIn(
    file.name,
    problems.map(({ path, message }) => ({
      line: file.lineOf(path),
      message: path.length === 0 ? message : `${path.join('.')}${behind(message)}`,
    })),
  )
}

/** Messages that name their setting themselves follow a colon. */
function behind(message: string): string {
  return /^(is|must|may) /.test(message) ? ` ${message}` : `: ${message}`
}

/** A document as YAML. Names that a terminal would act on are quoted and escaped, and read back as they are. */
export async function writeFlowFile(document: object): Promise<string> {
  const { Document, Scalar, visit } = await import('yaml')
  const yaml = new Document(document)
  visit(yaml, {
    Scalar: (_, node) => {
      if (typeof node.value === 'string' && visible(node.value) !== node.value) node.type = Scalar.QUOTE_DOUBLE
    },
  })
  return harmlessJson(yaml.toString({ lineWidth: 0 }))
}

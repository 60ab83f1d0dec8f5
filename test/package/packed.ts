// The package as it would be published: packed from dist/ into a tarball, and installed from it.

import { spawnSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { delimiter, dirname, join } from 'node:path'

const ROOT = join(import.meta.dirname, '..', '..')

interface PackedFile {
  readonly path: string
  readonly size: number
}

export interface Packed {
  /** Where the tarball lies; everything that is made for a test goes there too. */
  readonly folder: string
  readonly tarball: string
  readonly unpackedSize: number
  readonly files: readonly PackedFile[]
  remove(): void
}

/** Packs what `npm run build` left in dist/. */
export function pack(): Packed {
  // Not inside of a project: package managers look for one in the folders above.
  const folder = mkdtempSync(join(tmpdir(), 'holdfast-package-'))
  const printed = run('npm', ['pack', '--json', '--pack-destination', folder], { cwd: ROOT }).stdout
  const [{ filename, unpackedSize, files }] = JSON.parse(printed) as [
    { filename: string; unpackedSize: number; files: PackedFile[] },
  ]
  const remove = () => rmSync(folder, { recursive: true, force: true, maxRetries: 5 })
  return { folder, tarball: join(folder, filename), unpackedSize, files, remove }
}

/** A new and empty folder, for a project. */
export function emptyFolder({ folder }: Packed, name: string): string {
  const made = join(folder, name)
  mkdirSync(made)
  return made
}

interface Toolbox {
  readonly nodes: Readonly<Record<string, string>>
  readonly pnpm: string
  readonly yarn: string
}

const toolbox = openToolbox()

/** Raises with what to do where something is missing: these tests are never left out. */
function openToolbox(): Toolbox {
  const { status, stdout, stderr } = spawnSync(process.execPath, [join(ROOT, 'scripts/toolbox.js')], {
    encoding: 'utf8',
  })
  if (status !== 0) throw new Error(stderr.trim())
  return JSON.parse(stdout) as Toolbox
}

/** The versions of Node that are supported, each with its program. */
export const NODES: Readonly<Record<'20' | '22' | '24', string>> = {
  20: process.execPath,
  22: toolbox.nodes[22]!,
  24: toolbox.nodes[24]!,
}
export type NodeMajor = keyof typeof NODES

/** Each package manager's command for adding packages, as the README has it. */
export const MANAGERS: Readonly<Record<'npm' | 'pnpm' | 'yarn', readonly string[]>> = {
  npm: ['npm', 'install'],
  pnpm: ['node', toolbox.pnpm, 'add', '--ignore-scripts'],
  yarn: ['node', toolbox.yarn, 'add'],
}

/** Nothing a test runs takes as long as this, unless it waits for something that never comes. */
const RUN_MS = 180_000

export interface RunOptions {
  readonly cwd: string
  /** Which Node it finds on its PATH. Default: the one that runs the tests. */
  readonly node?: NodeMajor
  readonly env?: Readonly<Record<string, string>>
}

/** Runs a program to its end; raises with everything it printed unless it ends well. */
export function run(program: string, args: readonly string[], options: RunOptions): { stdout: string; stderr: string } {
  const { cwd, node = '20' } = options
  const strange = /^(HOLDFAST_|DATABASE_URL$|NODE_OPTIONS$|NODE_ENV$|npm_(?!config_)|VITEST|FORCE_COLOR)/
  const kept = Object.entries(process.env).filter(([name]) => !strange.test(name))
  const path = `${dirname(NODES[node])}${delimiter}${process.env.PATH}`
  const env = { ...Object.fromEntries(kept), PATH: path, NO_COLOR: '1', ...options.env }
  const { status, signal, stdout, stderr, error } = spawnSync(program, args, {
    cwd,
    env,
    encoding: 'utf8',
    timeout: RUN_MS,
  })
  if (status === 0) return { stdout, stderr }
  throw new Error(
    `${[program, ...args].join(' ')} on Node ${node} ended with ${status ?? signal ?? error?.message}:\n${stdout}${stderr}`,
  )
}

/** The README's first block of a language. */
export function firstBlock(language: string): string {
  const text = readFileSync(join(ROOT, 'README.md'), 'utf8')
  const block = new RegExp(`^\`\`\`${language}\\n([\\s\\S]*?)^\`\`\`$`, 'm').exec(text)
  if (block === null) throw new Error(`the README has no block in ${language}`)
  return block[1]!
}

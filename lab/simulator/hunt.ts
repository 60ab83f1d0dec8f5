// Plants one bug at a time into a copy of the compiled code, with the simulator beside it, and counts how many runs it takes until
// something breaks.

import { spawn } from 'node:child_process'
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { PlantedBug } from './planted-bugs.js'
import type { RangeResult } from './run-seeds.js'

/** Seeds a hunt takes at most. */
export const HUNT_SEEDS_MAX = 4_000

export interface Hunted {
  readonly name: string
  /** The invariants it may break first. */
  readonly expected: readonly string[]
  /** How many schedules ran until it was found, or all of them when it was not. */
  readonly schedules: number
  readonly seconds: number
  /** The first thing that broke, or null when nothing did. */
  readonly invariant: string | null
  readonly message: string | null
}

/** Whether it broke one of the expected invariants. */
export function isFound({ invariant, expected }: Hunted): boolean {
  return invariant !== null && expected.includes(invariant)
}

/** Where the compiled code is: the folder that holds src/ and lab/. */
const COMPILED = join(dirname(fileURLToPath(import.meta.url)), '..', '..')
const PARTS = [
  ...['src/core', 'src/client', 'src/worker', 'src/host', 'src/upkeep', 'src/stores/memory'],
  ...['src/holdfast.js', 'src/system-ports.js', 'src/version.js', 'lab/history', 'lab/simulator'],
]

/** A file's text with the bug in it; raises unless each text it looks for is there exactly once. */
export function plant(bug: PlantedBug, text: string): string {
  return bug.edits.reduce((edited, { find, replace }) => {
    const pieces = edited.split(edited.includes(find) ? find : asBuilt(find))
    if (pieces.length === 2) return pieces.join(replace)
    throw new Error(
      `"${bug.name}" looks for ${JSON.stringify(find)} in ${bug.file}, which is there ${pieces.length - 1} times`,
    )
  }, text)
}

/** The package is indented with a tab for four blanks (scripts/indent-with-tabs.js); what the lab compiles for itself is not. */
function asBuilt(text: string): string {
  return text.replace(/^(?: {4})+/gm, (blanks) => '\t'.repeat(blanks.length / 4))
}

/** The compiled text of the file a bug goes into. */
export function compiledText(bug: PlantedBug): string {
  return readFileSync(join(COMPILED, 'src', bug.file), 'utf8')
}

/** Hunts the bugs, `atOnce` of them at a time. */
export async function huntAll(
  bugs: readonly PlantedBug[],
  options: { readonly atOnce: number; readonly onHunted?: (hunted: Hunted) => void },
): Promise<Hunted[]> {
  const results: Hunted[] = []
  const left = [...bugs]
  const hunters = Array.from({ length: options.atOnce }, async () => {
    for (let bug = left.shift(); bug !== undefined; bug = left.shift()) {
      const hunted = await hunt(bug)
      results.push(hunted)
      options.onHunted?.(hunted)
    }
  })
  await Promise.all(hunters)
  return bugs.map(({ name }) => results.find((hunted) => hunted.name === name)!)
}

async function hunt(bug: PlantedBug): Promise<Hunted> {
  const folder = mkdtempSync(join(tmpdir(), 'holdfast-bug-'))
  const beganMs = performance.now()
  try {
    copyInto(folder)
    const file = join(folder, 'src', bug.file)
    writeFileSync(file, plant(bug, readFileSync(file, 'utf8')))
    const { totals, failures } = await runIn(folder, bug.aim)
    const violation = failures[0]?.violations[0] ?? null
    return {
      name: bug.name,
      expected: bug.expected,
      schedules: totals.schedules,
      seconds: (performance.now() - beganMs) / 1_000,
      invariant: violation?.invariant ?? null,
      message: violation?.message ?? null,
    }
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

function copyInto(folder: string): void {
  for (const part of PARTS) {
    mkdirSync(dirname(join(folder, part)), { recursive: true })
    cpSync(join(COMPILED, part), join(folder, part), {
      recursive: true,
      filter: (source) => !source.endsWith('.map') && !source.endsWith('.d.ts'),
    })
  }
  writeFileSync(join(folder, 'package.json'), '{ "type": "module" }\n')
  symlinkSync(nodeModules(), join(folder, 'node_modules'), 'dir')
}

/** The packages of this project, wherever it is installed. */
function nodeModules(): string {
  const croner = fileURLToPath(import.meta.resolve('croner'))
  return croner.slice(0, croner.lastIndexOf('node_modules') + 'node_modules'.length)
}

function runIn(folder: string, aim: PlantedBug['aim']): Promise<RangeResult> {
  return new Promise((resolve, reject) => {
    const line = [
      join(folder, 'lab/simulator/hunt-child.js'),
      String(HUNT_SEEDS_MAX),
      ...(aim === undefined ? [] : [aim]),
    ]
    const child = spawn(process.execPath, line, {
      stdio: ['ignore', 'pipe', 'pipe'],
    })
    let out = ''
    let errors = ''
    child.stdout.on('data', (chunk) => {
      out += chunk
    })
    child.stderr.on('data', (chunk) => {
      errors += chunk
    })
    child.on('error', reject)
    child.on('close', (code) => {
      if (code === 0) resolve(JSON.parse(out) as RangeResult)
      else reject(new Error(`the hunt ended with code ${code}: ${errors.slice(-2_000)}`))
    })
  })
}

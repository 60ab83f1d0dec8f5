// Runs one experiment from its command line to its document: a table and the verdict on stderr, plots and the document in a folder.

import { mkdir, mkdtemp, readFile, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { checkWhole } from '../../src/core/check.js'
import { HoldfastError, show } from '../../src/core/errors.js'
import { VERSION } from '../../src/version.js'
import { describeMachine } from '../bench/document.js'
import { printTable } from '../bench/table.js'
import { openAndCloseForSure } from '../interrupt.js'
import { drawFigure } from '../plot.js'
import { say } from '../say.js'
import { EXPERIMENTS } from './all.js'
import type { Experiment, ExperimentResult, Verdict, Wishes } from './experiment.js'
import { fillPage } from './page.js'
import { openPlace } from './place.js'

export interface RunOptions extends Wishes {
  readonly name: string
  readonly isShort: boolean
  readonly seed: number
  /** Adds to the document that is in `out`. */
  readonly adds: boolean
  /** Where plots and the document go; null makes a folder among the temporary ones. */
  readonly out: string | null
  /** A page whose section about the run is replaced; null for none. */
  readonly page: string | null
  /** A server to use instead of one of its own. */
  readonly url: string | null
}

const PROCESSES_MAX = 64
/** What a worker takes at most as its concurrency. */
const SLOTS_MAX = 4_096
const FAILOVERS_MAX = 1_000

export interface RunReport {
  /** False when a promise was broken. */
  readonly ok: boolean
  readonly document: object
}

/** Every experiment with its question and the duration of its long form. */
export function listExperiments(): readonly {
  readonly name: string
  readonly about: string
  readonly longTakes: string
}[] {
  return Object.entries(EXPERIMENTS).map(([name, { about, longTakes }]) => ({ name, about, longTakes }))
}

/** Runs it and reports the result. */
export async function runExperiment(options: RunOptions): Promise<RunReport> {
  const { name, isShort, seed, url } = options
  const experiment = check(options)
  const form = isShort ? 'short' : 'long'
  const configured = experiment.configure(form, options)
  const out = options.out ?? (await mkdtemp(join(tmpdir(), 'holdfast-experiment-')))
  await mkdir(out, { recursive: true })
  say(`── ${name}: ${experiment.about} (${form} form, seed ${seed})`)
  const earlier = options.adds ? await readEarlier(join(out, `${name}.json`)) : NOTHING_EARLIER
  const [place, close] = await openAndCloseForSure(
    () => openPlace(url, experiment.hasOwnServers),
    (opened) => opened.close(),
  )
  try {
    const beganMs = performance.now()
    const date = new Date().toISOString()
    const result = await configured.run(place, seed, earlier.samples)
    const tookSeconds = earlier.tookSeconds + (performance.now() - beganMs) / 1_000
    report(result)
    const ok = result.verdicts.every(({ kind, holds }) => holds || kind === 'aim')
    const { rows, verdicts, notes, samples, evidence } = result
    const document = {
      schemaVersion: 1,
      program: 'experiment',
      experiment: name,
      about: experiment.about,
      ...{ form, seed, date, tookSeconds, ok },
      machine: describeMachine(),
      versions: { holdfast: VERSION, node: process.version, postgres: place.version },
      settings: { postgres: place.settings, config: configured.config },
      ...{ rows, verdicts, notes, evidence, samples },
    }
    await writeFiles(out, name, result, document)
    if (options.page !== null) {
      const facts = { name, form, seed, date, tookSeconds, machine: document.machine, postgres: place.version }
      await fillPage(options.page, out, result, facts)
      say(`page: ${options.page}`)
    }
    say(`${name} took ${Math.round(tookSeconds)} s`)
    return { ok, document }
  } finally {
    await close()
  }
}

interface Earlier {
  readonly samples: readonly object[]
  readonly tookSeconds: number
}

const NOTHING_EARLIER: Earlier = { samples: [], tookSeconds: 0 }

/** The samples of the run that this one adds to; none when it is the first. */
async function readEarlier(path: string): Promise<Earlier> {
  try {
    return JSON.parse(await readFile(path, 'utf8')) as Earlier
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return NOTHING_EARLIER
    throw error
  }
}

function check(options: RunOptions): Experiment {
  const { name, seed, minutes, rate, processes, slots, failovers, servers, way, adds, isShort } = options
  const experiment = Object.hasOwn(EXPERIMENTS, name) ? EXPERIMENTS[name] : undefined
  if (experiment === undefined) {
    const known = Object.keys(EXPERIMENTS).join(', ')
    throw new HoldfastError('invalid_option', `there is no experiment ${show(name)}; there are ${known}`)
  }
  checkWhole('seed', seed, 0, 2 ** 32 - 1)
  const wishes: Wishes = { minutes, rate, processes, slots, failovers, servers, way }
  const wished = Object.entries(wishes).flatMap(([wish, value]) => (value === null ? [] : [wish as keyof Wishes]))
  const refused = wished.filter((wish) => !experiment.takes.includes(wish))
  if (refused.length > 0) {
    throw new HoldfastError('invalid_option', `${name} has no ${refused.join(' and no ')} to choose: leave that out`)
  }
  if (adds && (!experiment.canAdd || isShort)) {
    throw new HoldfastError('invalid_option', `${isShort ? 'a short form' : name} is run as a whole: leave --add out`)
  }
  if (rate !== null) checkWhole('rate', rate, 1, 1_000_000)
  if (processes !== null) checkWhole('processes', processes, 1, PROCESSES_MAX)
  if (slots !== null) checkWhole('slots', slots, 1, SLOTS_MAX)
  if (failovers !== null) checkWhole('failovers', failovers, 1, FAILOVERS_MAX)
  if (minutes !== null && !(minutes >= 0.05 && minutes <= 600)) {
    throw new HoldfastError('invalid_option', `minutes must be a number from 0.05 to 600, got ${show(minutes)}`)
  }
  return experiment
}

function report(result: ExperimentResult): void {
  printTable(result)
  for (const note of result.notes) say(note)
  say('')
  for (const verdict of result.verdicts) say(showVerdict(verdict))
}

function showVerdict({ kind, about, expected, seen, holds }: Verdict): string {
  const mark = holds ? (kind === 'promise' ? 'kept  ' : 'met   ') : kind === 'promise' ? 'BROKEN' : 'missed'
  return `${mark}  ${about}: expected ${expected}, seen ${seen}`
}

async function writeFiles(out: string, name: string, result: ExperimentResult, document: object): Promise<void> {
  for (const [file, figure] of Object.entries(result.figures)) {
    await writeFile(join(out, `${file}.svg`), drawFigure(figure))
    say(`plot: ${join(out, `${file}.svg`)}`)
  }
  await writeFile(join(out, `${name}.json`), `${JSON.stringify(document, null, 2)}\n`)
  say(`document: ${join(out, `${name}.json`)}`)
}

// The chaos program behind `holdfast chaos`: settings from its options, its runs, their result.

import { rm } from 'node:fs/promises'
import { checkChoice, checkWhole } from '../../src/core/check.js'
import { isGood as hasHeld, type Mix2Result, runMix2, showMix2 } from './mix2.js'
import { isGood, runRounds } from './rounds.js'
import type { ChaosResult } from './run.js'
import { type ChaosSettings, FAULT_KINDS, type FaultKind, FORMS, type Form } from './settings.js'
import { showResult } from './show.js'

export interface ChaosOptions {
  readonly seed: number
  readonly form: Form | 'mix2'
  readonly jobs: number | null
  readonly seconds: number | null
  readonly rate: number | null
  /** How long the form mix2 goes on; null for its usual time. */
  readonly minutes: number | null
  /** Kinds of faults, or null for all. */
  readonly only: readonly string[] | null
  readonly isCalm: boolean
  readonly plant: string | null
  /** Folder for the histories, or null for a temporary one. */
  readonly keep: string | null
}

/** Runs chaos as the options say. The histories of a run that succeeded are kept only where a folder was named. */
export async function chaosProgram(options: ChaosOptions): Promise<Told> {
  if (options.form === 'mix2') return mix2Program(options)
  const result = await runRounds(settingsOf(options), options.keep)
  if (isGood(result) && options.keep === null) await rm(result.folder, { recursive: true, force: true })
  return { result, text: showResult(result), isGood: isGood(result) }
}

/** What a program came to, for programs and for people. */
interface Told {
  readonly result: ChaosResult | Mix2Result
  readonly text: string
  readonly isGood: boolean
}

async function mix2Program({ seed, minutes, jobs, keep }: ChaosOptions): Promise<Told> {
  const settings = {
    seed: checkWhole('seed', seed, 0, 2 ** 27),
    minutes: checkWhole('minutes', minutes ?? MIX2.minutes, 1, 1_440),
    jobs: checkWhole('jobs', jobs ?? MIX2.jobs, 1, 1_000_000),
  }
  const result = await runMix2(settings, keep)
  if (hasHeld(result) && keep === null) await rm(result.folder, { recursive: true, force: true })
  return { result, text: showMix2(result), isGood: hasHeld(result) }
}

/** How long, and how many jobs each of its rounds has. */
const MIX2 = { minutes: 60, jobs: 1_500 }

/** The form's settings, changed by the other options. */
export function settingsOf(options: ChaosOptions): ChaosSettings {
  if (options.form === 'mix2') throw new Error('the form mix2 has no faults and no settings of its own')
  const form = FORMS[options.form]
  const only = options.only?.map((kind) => checkChoice('only', kind, FAULT_KINDS))
  const isWanted = (kind: string) => !options.isCalm && (only === undefined || only.includes(kind as FaultKind))
  return {
    ...form,
    seed: checkWhole('seed', options.seed, 0, 2 ** 27),
    jobs: checkWhole('jobs', options.jobs ?? form.jobs, 1, 100_000_000),
    seconds: checkWhole('seconds', options.seconds ?? form.seconds, 5, 86_400),
    perSecond: checkWhole('rate', options.rate ?? form.perSecond, 1, 100_000),
    faults: Object.fromEntries(Object.entries(form.faults).filter(([kind]) => isWanted(kind))),
    plant: options.plant,
  }
}

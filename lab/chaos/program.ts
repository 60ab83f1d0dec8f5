// The chaos program behind `holdfast chaos`: settings from its options, one run, its result.

import { rm } from 'node:fs/promises'
import { checkChoice, checkWhole } from '../../src/core/check.js'
import { type ChaosResult, runChaos } from './run.js'
import { type ChaosSettings, FAULT_KINDS, type FaultKind, FORMS, type Form } from './settings.js'
import { showResult } from './show.js'

export interface ChaosOptions {
  readonly seed: number
  readonly form: Form
  readonly jobs: number | null
  readonly seconds: number | null
  readonly rate: number | null
  /** Kinds of faults, or null for all. */
  readonly only: readonly string[] | null
  readonly isCalm: boolean
  readonly plant: string | null
  /** Folder for the histories, or null for a temporary one. */
  readonly keep: string | null
}

/** Runs chaos as the options say. The histories of a run that succeeded are kept only where a folder was named. */
export async function chaosProgram(options: ChaosOptions): Promise<{ result: ChaosResult; text: string }> {
  const result = await runChaos(settingsOf(options), { folder: options.keep })
  const isGood = result.verdict.ok && result.verdict.counted.ok
  if (isGood && options.keep === null) await rm(result.folder, { recursive: true, force: true })
  return { result, text: showResult(result) }
}

/** The form's settings, changed by the other options. */
export function settingsOf(options: ChaosOptions): ChaosSettings {
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

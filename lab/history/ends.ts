// How the run ended: nothing missing, nothing unfinished, no lease expired in a run without faults; and whether the run counts.

import { isFinished } from '../../src/core/states.js'
import type { FaultRecord, FinalDay, JobSettled } from './events.js'
import { type Life, type Reading, report } from './life.js'
import { shown } from './steps.js'

/** Checks each job's final state against its life. */
export function checkEnds(reading: Reading): void {
  for (const life of reading.lives.values()) checkEnd(reading, life)
  const { run, counts } = reading
  if (run === null || run.faults.length > 0) return
  if (counts.rescues > 0) report(reading, 'I12', null, `${counts.rescues} leases expired in a run without faults`)
  if (counts.lostLeases > 0)
    report(reading, 'I12', null, `${counts.lostLeases} leases were lost in a run without faults`)
}

function checkEnd(reading: Reading, life: Life): void {
  const { counts, run } = reading
  counts.jobs++
  const { final, state } = life
  if (final === null) {
    report(reading, 'I1', life.job, `was stored and last ${state}, and is gone at the end`)
    return
  }
  if (life.stored === null) report(reading, 'I2', life.job, `is there at the end (${final.state}) and was never stored`)
  else if (final.state !== state) {
    const what = `is ${final.state} at the end, but the last that happened to it made it ${state}`
    report(reading, isFinished(state) ? 'I13' : 'I1', life.job, what)
  } else if (isFinished(state)) checkFinishedInTime(reading, life)
  else report(reading, 'I14', life.job, `is ${state} at the end`)
  countState(reading, life)
  if (run === null || life.stored === null) return
  if (final.attempts > life.stored.maxAttempts) {
    report(reading, 'I5', life.job, `ended with ${final.attempts} attempts of at most ${life.stored.maxAttempts}`)
  }
}

function checkFinishedInTime(reading: Reading, life: Life): void {
  const { run } = reading
  if (run === null || run.healedAt === null || life.finishedAt === null) return
  const by = Math.max(run.healedAt, life.stored?.at ?? 0, life.stored?.runAt ?? 0) + run.drainMs
  if (life.finishedAt <= by) return
  const what = `finished at ${shown(life.finishedAt)}; everything was whole at ${shown(run.healedAt)}, so by ${shown(by)} it had to`
  report(reading, 'I14', life.job, what)
}

/** Days past their retention are dropped, and the jobs that must outlive them are kept. */
export function checkDays(reading: Reading, days: readonly FinalDay[]): void {
  for (const { day, isGone, leftovers, left } of days) {
    if (!isGone) report(reading, 'I19', null, `${day} is past its retention and still there`)
    if (left !== leftovers) report(reading, 'I19', null, `of ${leftovers} jobs that outlive ${day} ${left} are left`)
  }
}

/** Once everything is whole, an expired lease is rescued in time. */
export function checkRescueTime(reading: Reading, leasedUntil: number, event: JobSettled): void {
  const { run } = reading
  if (run === null || run.healedAt === null) return
  const by = Math.max(leasedUntil, run.healedAt) + run.rescueMs
  if (event.at <= by) return
  const what = `its lease ran out at ${shown(leasedUntil)} and was taken back at ${shown(event.at)}, not by ${shown(by)}`
  report(reading, 'I14', event.job, what)
}

function countState({ counts }: Reading, { state, final }: Life): void {
  if (state === 'succeeded' || state === 'cancelled') counts[state]++
  else if (state === 'dead') counts.dead[final?.reason ?? 'attempts']++
  else counts.unfinished++
}

/** Whether the run was busy enough and all its faults happened; if not, the reason. */
export function countedOf(reading: Reading, faults: readonly FaultRecord[]): { ok: boolean; reasons: string[] } {
  const { run, counts } = reading
  if (run === null) return { ok: false, reasons: ['the history has no record of the plan of the run'] }
  const reasons: string[] = []
  const { jobs, expiries, unknownAnswers } = run.busy
  const unknown = counts.unknown + counts.answersLost
  if (counts.accepted < jobs) reasons.push(`${counts.accepted} jobs were accepted, not ${jobs}`)
  if (counts.rescues < expiries) reasons.push(`${counts.rescues} leases expired, not ${expiries}`)
  if (unknown < unknownAnswers) reasons.push(`${unknown} answers were unknown, not ${unknownAnswers}`)
  if (run.healedAt === null) reasons.push('the run never reached the time when everything was whole again')
  const begun = new Map(faults.filter(({ ev }) => ev === 'fault.begin').map(({ index, kind }) => [index, kind]))
  const missing = run.faults.filter(({ index, kind }) => begun.get(index) !== kind)
  if (missing.length > 0) {
    const some = missing.slice(0, 5).map(({ index, kind }) => `${index} (${kind})`)
    reasons.push(`${missing.length} of ${run.faults.length} planned faults did not fire: ${some.join(', ')}`)
  }
  return { ok: reasons.length === 0, reasons }
}

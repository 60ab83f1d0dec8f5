// The verdict of a run, as a table for people and as a document for programs.

import { INVARIANTS, type Spread, type Verdict } from '../history/verdict.js'
import type { ChaosResult } from './run.js'

const VIOLATIONS_SHOWN = 10

/** The table. */
export function showResult(result: ChaosResult): string {
  const { verdict, seed, seconds, restarts } = result
  const { counts, redeliveries, rescue, recovery, inversions } = verdict
  const dead = Object.entries(counts.dead).filter(([, count]) => count > 0)
  const again = `${redeliveries.afterRescue} after a lost lease, ${redeliveries.afterFailure} after a failure, ${redeliveries.afterRelease} after a release`
  const rows: readonly (readonly [string, string])[] = [
    ['seed', `${seed}, ${seconds.toFixed(0)} s`],
    [
      'accepted',
      `${counts.accepted} of ${counts.asked} asked; ${counts.unknown} unknown, ${counts.answersLost} answers lost on the way`,
    ],
    [
      'jobs',
      `${counts.jobs}: ${counts.succeeded} succeeded, ${counts.cancelled} cancelled, ${counts.unfinished} unfinished`,
    ],
    ['dead', dead.map(([reason, count]) => `${count} ${reason}`).join(', ') || 'none'],
    ['claims', `${counts.claims}; again: ${again}`],
    [
      'leases',
      `${counts.extensions} extensions, ${counts.rescues} expired, ${counts.lostLeases} known lost by their handler`,
    ],
    ['rescue', `${spreadText(rescue)} after the lease ran out`],
    ['recovery', `claimed again ${spreadText(recovery)} after the lease ran out`],
    [
      'effects',
      `${counts.effectsInTransaction} in transactions, ${counts.effectsOutside} outside (${counts.effectsRepeated} repeated)`,
    ],
    ['ticks', String(counts.ticks)],
    ['inversions', `${inversions.count}, the longest ${inversions.longestMs.toFixed(0)} ms`],
    ['lateness', `${counts.longestIdleWaitMs.toFixed(0)} ms at the most beside an idle worker`],
    ...takeoverRows(verdict),
    ...flowRows(verdict),
    ['restarts', `${restarts} of worker processes`],
    ['faults', faultsText(verdict)],
    [
      'counts',
      verdict.counted.ok ? 'yes: busy, and every planned fault happened' : `no: ${verdict.counted.reasons.join('; ')}`,
    ],
    ['violations', violationsText(verdict)],
  ]
  const lines = rows.map(([name, text]) => `${name.padEnd(12)}${text}`)
  return [...lines, ...failureLines(result)].join('\n')
}

/** What other servers did not have when they took over, on stores where that can be. */
function takeoverRows({ counts }: Verdict): (readonly [string, string])[] {
  const { takeovers, claimsUndone, acceptedUndone, acceptedUndoneBy } = counts
  if (takeovers === 0) return []
  const each = Object.entries(acceptedUndoneBy).map(([kind, count]) => `${kind} ${count}`)
  return [
    [
      'takeovers',
      `${takeovers}; they undid ${claimsUndone} claims of handlers and lost ${acceptedUndone} accepted jobs${each.length > 0 ? `: ${each.join(', ')}` : ''}`,
    ],
  ]
}

/** What flow control had to do, in runs that have it. */
function flowRows({ counts: { flow } }: Verdict): (readonly [string, string])[] {
  if (flow.changes === 0) return []
  const kept = `limits reached ${flow.filled} times, ${flow.ordered} ordered pairs, ${flow.probes} probes`
  return [
    [
      'flow',
      `${flow.jobs} jobs of ${flow.groups} groups, ${flow.starts} starts; ${flow.changes} changes of what is allowed`,
    ],
    ['kept', `${kept}; ${flow.repaired} repaired, ${flow.longestHeldMs.toFixed(0)} ms at the most beside a free slot`],
  ]
}

function spreadText({ p50, p99, max }: Spread): string {
  return `p50 ${p50.toFixed(0)} ms, p99 ${p99.toFixed(0)} ms, max ${max.toFixed(0)} ms`
}

function faultsText({ counts }: Verdict): string {
  const kinds = Object.entries(counts.faults)
  const total = kinds.reduce((sum, [, count]) => sum + count, 0)
  const each = kinds.sort(([a], [b]) => (a < b ? -1 : 1)).map(([kind, count]) => `${kind} ${count}`)
  return `${total} of ${kinds.length} kinds${each.length > 0 ? `: ${each.join(', ')}` : ''}`
}

function violationsText({ violationCount, violations }: Verdict): string {
  if (violationCount === 0) return 'none'
  const each = new Map<string, number>()
  for (const { invariant } of violations) each.set(invariant, (each.get(invariant) ?? 0) + 1)
  return `${violationCount}: ${[...each].map(([invariant, count]) => `${invariant} ${count}`).join(', ')}`
}

function failureLines({ verdict, story, folder, seed, complaints }: ChaosResult): string[] {
  if (verdict.ok && verdict.counted.ok) return []
  const shown = verdict.violations.slice(0, VIOLATIONS_SHOWN).map(({ invariant, job, message }) => {
    return `  ${invariant} (${INVARIANTS[invariant]}): ${job ?? 'no job'}: ${message}`
  })
  const said = complaints.slice(0, 3).map((text) => `  a worker process wrote: ${text.slice(0, 500)}`)
  const again = `again: holdfast chaos --seed ${seed}; the history is in ${folder}`
  return ['', ...shown, ...(story === null ? [] : ['', story]), ...said, '', again]
}

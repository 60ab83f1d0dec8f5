// The failovers of a run as rows, and what they show.

import { column } from '../bench/growth/measure.js'
import { aimBelow, type ExperimentResult, expectNone, expectThat } from '../experiments/experiment.js'
import type { Figure } from '../plot.js'
import type { RoundResult } from './round.js'

/** Which servers: this package's PostgreSQL, Debian's 15, or Debian's 15 under Patroni, etcd and HAProxy. */
export type ServerKind = 'pair' | 'pair-15' | 'patroni'

/** Counts in place of lists. */
export interface FailoverRow
  extends Omit<RoundResult, 'lost' | 'twice' | 'ticksTwice' | 'dead' | 'missing' | 'outside'> {
  readonly kind: ServerKind
  readonly version: string
  /** The machine's load average of one minute at its end, with everything else that ran there. */
  readonly load: number
  readonly date: string
  readonly lost: number
  readonly twice: number
  readonly ticksTwice: number
  readonly dead: number
  readonly missing: number
  readonly outside: number
  /** A few jobs of each sort, where there should be none. */
  readonly examples: readonly string[]
}

/** One failover as a row. */
export function rowOf(result: RoundResult, about: Pick<FailoverRow, 'kind' | 'version' | 'load'>): FailoverRow {
  const { lost, twice, ticksTwice, dead, missing, outside, ...others } = result
  const some = (word: string, ids: readonly string[]) => ids.slice(0, 3).map((id) => `${word} ${id}`)
  return {
    ...about,
    ...others,
    date: new Date().toISOString(),
    ...{ lost: lost.length, twice: twice.length, ticksTwice: ticksTwice.length, dead: dead.length },
    ...{ missing: missing.length, outside: outside.length },
    examples: [
      ...some('lost', lost),
      ...some('twice', twice),
      ...some('tick', ticksTwice),
      ...some('dead', dead),
      ...some('outside', outside),
    ],
  }
}

/** One line about it. */
export function showRow(row: FailoverRow): string {
  const { kind, way, kills, accepted, perSecond, firstMs, outageMs, saidAgain, drainMs, named } = row
  const counts = `${row.lost} lost, ${row.twice + row.ticksTwice} twice, ${row.missing} missing`
  const again = `${saidAgain.jobs} jobs, ${saidAgain.claims} claims, ${saidAgain.settlements} settlements`
  const isBad = row.examples.length > 0 || !row.isDrained || (kills && !row.isNumberEnough)
  const why = `\n    ← ${row.isDrained ? '' : 'not drained, '}${row.examples.join(', ')} named ${JSON.stringify(named)} ${row.lastError}`
  return `${kind}, ${way}${kills ? ', producer killed' : ''}: ${accepted} accepted, ${Math.round(perSecond)}/s; ${counts}; first after ${firstMs} ms, none for ${outageMs} ms; again ${again}; drained in ${drainMs} ms${isBad ? why : ''}`
}

const FIRST_MS = 2_000

interface Plan {
  readonly planned: number
  readonly perSecond: number
}

/** All of them. */
export function summarize(all: readonly FailoverRow[], { planned, perSecond }: Plan): ExperimentResult {
  const none = (about: string, read: (row: FailoverRow) => number) => expectNone(about, total(all, read))
  const wanted = perSecond >= 1_000 ? 1_000 : 0.8 * perSecond
  const rate = middle(all.map((row) => row.perSecond)) ?? 0
  return {
    columns: COLUMNS,
    rows: groupsOf(all),
    verdicts: [
      expectThat('failovers', String(planned), String(all.length), all.length === planned),
      none('acknowledged jobs of living producers that did not end', ({ lost }) => lost),
      none('jobs that ran twice because of a failover', ({ twice }) => twice),
      none('ticks of a schedule that became two jobs', ({ ticksTwice }) => ticksTwice),
      none('jobs that died', ({ dead }) => dead),
      none('missing jobs of killed producers outside the named window', ({ outside }) => outside),
      none('failovers after which more are missing than was named', ({ kills, isNumberEnough }) =>
        Number(kills && !isNumberEnough),
      ),
      none('failovers after which a backlog was left', ({ isDrained }) => Number(!isDrained)),
      aimBelow(
        'first acknowledgement after the new primary takes writes, the slowest',
        FIRST_MS,
        Math.max(...all.map(({ firstMs }) => firstMs ?? Number.POSITIVE_INFINITY)),
      ),
      {
        kind: 'aim',
        about: 'jobs acknowledged in a second while the load lasted, the middle of all failovers',
        expected: `at least ${wanted}`,
        seen: String(Math.round(rate)),
        holds: rate >= wanted,
      },
    ],
    notes: [
      'A producer, a worker, and a process that is both. Of a hundred jobs 62 are plain, 20 in one enqueueMany, 5 have a key, 5 a time, 5 fail once, 3 wait for another. A schedule fires every second.',
      'Lost: a producer was told that the job is accepted, and it did not end. Twice: two runs of one attempt, or a run after one that succeeded. Missing: a job of a killed producer that neither ended nor ran.',
    ],
    figures: { failovers: figureOf(all) },
    samples: all,
    evidence: {},
  }
}

function total(rows: readonly FailoverRow[], read: (row: FailoverRow) => number): number {
  return rows.reduce((sum, row) => sum + read(row), 0)
}

function middle(numbers: readonly number[]): number | null {
  const sorted = [...numbers].sort((one, other) => one - other)
  return sorted[Math.floor(sorted.length / 2)] ?? null
}

/** A row for each kind of servers and way. */
function groupsOf(all: readonly FailoverRow[]): ExperimentResult['rows'] {
  return [...new Set(all.map(({ kind, way }) => `${kind}|${way}`))].map((name) => {
    const rows = all.filter(({ kind, way }) => name === `${kind}|${way}`)
    const { kind, version, way } = rows[0]!
    const firsts = rows.flatMap(({ firstMs }) => (firstMs === null ? [] : [firstMs]))
    return {
      servers: `${kind === 'patroni' ? 'Patroni, ' : ''}PostgreSQL ${version}`,
      way,
      failovers: rows.length,
      killed: rows.filter(({ kills }) => kills).length,
      accepted: total(rows, ({ accepted }) => accepted),
      lost: total(rows, ({ lost }) => lost),
      twice: total(rows, ({ twice, ticksTwice }) => twice + ticksTwice),
      missing: total(rows, ({ missing }) => missing),
      outside: total(rows, ({ outside }) => outside),
      saidAgain: total(rows, ({ saidAgain }) => saidAgain.jobs + saidAgain.claims + saidAgain.settlements),
      firstP50Ms: middle(firsts),
      firstMaxMs: Math.max(...firsts),
    }
  })
}

function figureOf(all: readonly FailoverRow[]): Figure {
  const points = (read: (row: FailoverRow) => number | null) =>
    all.map((row, index) => [index + 1, read(row) ?? Number.NaN] as const)
  return {
    title: 'Failovers under load',
    subtitle: 'One point for each failover',
    x: { label: 'failover', scale: 'linear' },
    panels: [
      { label: 'first acknowledgement, ms', series: [{ name: 'first', points: points(({ firstMs }) => firstMs) }] },
      {
        label: 'said again',
        series: [
          { name: 'jobs', points: points(({ saidAgain }) => saidAgain.jobs) },
          { name: 'settlements', points: points(({ saidAgain }) => saidAgain.settlements) },
        ],
      },
    ],
  }
}

const COLUMNS = [
  column('servers', 'servers'),
  column('way', 'way'),
  column('failovers', 'failovers'),
  column('with a killed producer', 'killed'),
  column('accepted', 'accepted'),
  column('lost', 'lost'),
  column('twice', 'twice'),
  column('missing of the killed', 'missing'),
  column('outside the window', 'outside'),
  column('said again', 'saidAgain'),
  column('first, ms (middle)', 'firstP50Ms'),
  column('first, ms (most)', 'firstMaxMs'),
]

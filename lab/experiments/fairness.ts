// Fair turns: tenants behind one that floods the queue, weights, how long a single job of a quiet tenant waits, queues of a worker by
// weight, and priorities that grow with time.

import { column } from '../bench/growth/measure.js'
import type { Figure } from '../plot.js'
import { say } from '../say.js'
import { defineExperiment, type Experiment, type ExperimentContext, type Verdict } from './experiment.js'
import { type DelayRun, delayVerdicts, measureDelays } from './fairness-delay.js'
import { type FairnessConfig, type Part, type Shares, shareVerdicts } from './fairness-parts.js'
import { measureAging } from './fairness-priority.js'
import { measureQueueWeights, measureTurns, measureWeights, type TenantEnd, type Turns } from './fairness-turns.js'

export const fairness: Experiment = defineExperiment<FairnessConfig>({
  about: 'fair turns: tenants behind a flood, weights, the wait of a single job, aging',
  longTakes: '5 minutes',
  short: {
    tenants: 40,
    jobsEach: 5,
    flood: 3_000,
    weightedStarts: 400,
    million: 20_000,
    floodMs: [20, 60],
    floodSlots: 16,
    singlesPerSecond: 20,
    singleSeconds: 2,
    queueStarts: 500,
    agingMs: 50,
    agingSeconds: 2,
    fleets: [{ processes: 2, slots: 4 }],
    deadlineSeconds: 60,
  },
  long: {
    tenants: 100,
    jobsEach: 10,
    flood: 100_000,
    weightedStarts: 1_000,
    million: 1_000_000,
    floodMs: [20, 60],
    floodSlots: 32,
    singlesPerSecond: 20,
    singleSeconds: 30,
    queueStarts: 3_000,
    agingMs: 200,
    agingSeconds: 8,
    fleets: [
      { processes: 8, slots: 16 },
      { processes: 1, slots: 16 },
    ],
    deadlineSeconds: 120,
  },
  async run(context) {
    const { config } = context
    const grouped: Turns[] = []
    const weights: Shares[] = []
    for (const fleet of config.fleets) {
      say(`  ${fleet.processes} processes: tenants behind a flood, weights`)
      grouped.push(await measureTurns(context, fleet, true))
      weights.push(await measureWeights(context, fleet))
    }
    say('  the same tenants without groups')
    const plain = await measureTurns(context, config.fleets[0]!, false)
    const queues = await measureQueueWeights(context)
    const delays = await measureDelays(context)
    say('  aging')
    const aging = await measureAging(context)
    return {
      columns: COLUMNS,
      rows: [
        ...[...grouped, plain].map((turns) => turns.part),
        ...[...weights, queues].map((shares) => shares.part),
        ...delays.map(({ part }) => part),
        ...aging.parts,
      ].map((part: Part) => ({ ...part })),
      verdicts: [
        ...grouped.map((turns) => turnsVerdict(config, turns)),
        ...weights.flatMap((shares) => shareVerdicts(shares, 'promise')),
        ...shareVerdicts(queues, 'aim'),
        ...delayVerdicts(delays),
        ...aging.verdicts,
      ],
      notes: notesOf(config, delays),
      figures: { fairness: figureOf(context, grouped[0]!.ends, plain.ends) },
      samples: [...grouped, plain].map(({ name, ends }) => ({ name, ends })),
      evidence: {},
    }
  },
})

function turnsVerdict({ tenants, jobsEach }: FairnessConfig, { name, starts }: Turns): Verdict {
  // Each turn of all of them is one start of every tenant and one of the flood.
  const fewest = (tenants + 1) * jobsEach
  const most = Math.floor(1.05 * fewest)
  return {
    kind: 'promise',
    about: `${name}: starts until every tenant had all its jobs`,
    expected: `at most ${most.toLocaleString('en')}, 1.05 times the fewest possible`,
    seen: starts.toLocaleString('en'),
    holds: starts <= most,
  }
}

function notesOf(config: FairnessConfig, delays: readonly DelayRun[]): string[] {
  const { tenants, jobsEach, flood, million, floodMs, singlesPerSecond } = config
  const loads = delays.map(({ load }) => load.toFixed(1)).join(', ')
  return [
    `Turns: ${tenants} tenants enqueue ${jobsEach} jobs each behind a tenant with ${flood.toLocaleString('en')} jobs. A start counts when it is claimed; the claim that took the last of the jobs counts whole.`,
    `Waits: from the call of enqueue to the start of the handler, ${singlesPerSecond} jobs a second, each of a tenant that has no other, in the queue of a tenant with ${million.toLocaleString('en')} jobs of ${floodMs[0]} to ${floodMs[1]} ms, and in the same queue without those. Load average of the machine meanwhile: ${loads}.`,
    'Weights: jobs of all are waiting all the time. Aging: one job of priority 0 behind a stream of priority 10 that never ends.',
  ]
}

const COLUMNS = [
  column('what', 'what'),
  column('processes', 'processes'),
  column('expected', 'expected'),
  column('seen', 'seen'),
  column('wait p50 ms', 'p50', 1),
  column('p99', 'p99', 1),
  column('max', 'max', 1),
]

function figureOf(
  { config }: ExperimentContext<FairnessConfig>,
  grouped: readonly TenantEnd[],
  plain: readonly TenantEnd[],
): Figure {
  const line = (name: string, ends: readonly TenantEnd[], read: (end: TenantEnd) => number) => ({
    name,
    points: ends
      .map(read)
      .sort((a, b) => a - b)
      .map((value, index) => [index + 1, value] as const),
  })
  return {
    title: 'When the tenants behind a flood are served',
    subtitle: `${config.tenants} tenants × ${config.jobsEach} jobs, enqueued behind one with ${config.flood.toLocaleString('en')}`,
    x: { label: 'tenants, those that were served first to the left', scale: 'linear' },
    panels: [
      {
        label: 'starts until its last job started',
        scale: 'log',
        series: [line('groups', grouped, ({ starts }) => starts), line('no groups', plain, ({ starts }) => starts)],
      },
      {
        label: 'seconds until its last job was done',
        scale: 'log',
        series: [line('groups', grouped, ({ seconds }) => seconds), line('no groups', plain, ({ seconds }) => seconds)],
      },
    ],
  }
}

// Limits that several queues share, under processes that are killed: more jobs than a limit allows never run, and no window has more starts
// than a rate allows.

import { loadavg } from 'node:os'
import { column } from '../bench/growth/measure.js'
import type { Figure } from '../plot.js'
import { say } from '../say.js'
import { busiestMoment, fullestBucket, type RunSpan, readSpans } from './exactness-history.js'
import { defineExperiment, type Experiment, type ExperimentContext, expectNone, expectThat } from './experiment.js'
import { withHoldfast } from './fairness-parts.js'
import { type Fleet, withFleet } from './fleet.js'
import { type Ground, withGround } from './place.js'
import { pause } from './proof.js'

interface ExactnessConfig {
  /** How many of each limit's jobs may run, and how long each takes. */
  readonly limits: readonly { readonly concurrency: number; readonly ms: number }[]
  readonly seconds: number
  readonly killEverySeconds: number
  readonly leaseMs: number
  readonly rate: number
  readonly burst: number
  readonly rateSeconds: number
  readonly processes: number
  readonly slots: number
}

const QUEUES = ['left', 'right'] as const
const LOOK_MS = 10
/** Jobs of each limit that wait in each queue. */
const BACKLOG = 300

export const exactness: Experiment = defineExperiment<ExactnessConfig>({
  about: 'limits shared by queues, under kills: never passed; a rate: no window over',
  longTakes: '3 minutes',
  short: {
    limits: [
      { concurrency: 1, ms: 5 },
      { concurrency: 2, ms: 10 },
      { concurrency: 5, ms: 20 },
    ],
    seconds: 3,
    killEverySeconds: 1,
    leaseMs: 1_000,
    rate: 200,
    burst: 20,
    rateSeconds: 2,
    processes: 2,
    slots: 16,
  },
  long: {
    limits: [
      { concurrency: 1, ms: 5 },
      { concurrency: 2, ms: 10 },
      { concurrency: 5, ms: 25 },
      { concurrency: 20, ms: 100 },
      { concurrency: 100, ms: 400 },
    ],
    seconds: 75,
    killEverySeconds: 3,
    leaseMs: 3_000,
    rate: 1_000,
    burst: 100,
    rateSeconds: 20,
    processes: 8,
    slots: 32,
  },
  async run(context) {
    const { config } = context
    say('  limits under kills')
    const { kinds, kills, samples } = await runLimits(context)
    say('  a rate')
    const rate = await runRate(context)
    const possible = rate.possible.toLocaleString('en', { maximumFractionDigits: 0 })
    return {
      columns: COLUMNS,
      rows: [...kinds.map(({ row }) => row), rate.row],
      verdicts: [
        expectThat('processes were killed', 'yes', String(kills), kills > 0),
        ...kinds.flatMap(({ name, over, history, concurrency, most, starts }) => [
          expectNone(`${name}: looks at the running jobs that saw more`, over),
          expectThat(
            `${name}: most handlers that ran concurrently`,
            `at most ${concurrency}`,
            String(history),
            history <= concurrency,
          ),
          expectThat(
            `${name}: it was reached`,
            'yes',
            `${most} of ${concurrency}, ${starts} starts`,
            most > 0 && starts > 0,
          ),
        ]),
        expectThat(
          `${config.rate}/s, burst ${config.burst}: the fullest window of any length`,
          `at most ${config.burst} beyond the rate`,
          rate.fullest.toFixed(1),
          // Starts are known to the millisecond.
          rate.fullest <= config.burst + (2 * config.rate) / 1_000,
        ),
      ],
      notes: [
        `${config.processes} processes, ${config.slots} slots each, two queues whose jobs share each limit; every ${config.killEverySeconds} s one of them is killed and replaced. Leases of ${config.leaseMs / 1_000} s: the slots of a killed process come back when they expire.`,
        `Sampled are the rows of running jobs, ${samples.toLocaleString('en')} times. The history is what surely ran: from the start of each handler to its end, nothing for runs that a kill ended or whose lease was lost. Of what was possible, ${rate.starts.toLocaleString('en')} of ${possible} starts of the rate happened. Load average of the machine at the end: ${loadavg()[0]!.toFixed(1)}.`,
      ],
      figures: { exactness: figureOf(kinds) },
      samples: [],
      evidence: {},
    }
  },
})

const nameOf = (concurrency: number) => `limit-${concurrency}`

async function runLimits({ place, config }: ExperimentContext<ExactnessConfig>) {
  const { limits, processes, slots, leaseMs, seconds } = config
  const types = limits.map(({ concurrency }) => nameOf(concurrency))
  return withGround(
    place,
    async () => {},
    (ground) =>
      withFleet(
        { ...{ url: ground.url, processes, slots, leaseMs, types, queues: [...QUEUES] }, holdMs: 0, records: true },
        (fleet) =>
          withHoldfast(ground.url, async (holdfast) => {
            for (const { concurrency } of limits) await holdfast.setLimit(nameOf(concurrency), { concurrency })
            const fill = async () => {
              for (const [type, missing] of await missingOf(ground, types)) {
                const ms = limits.find(({ concurrency }) => nameOf(concurrency) === type)!.ms
                for (const queue of QUEUES) {
                  const payloads = Array.from({ length: missing }, () => ({ ms }))
                  if (missing > 0)
                    await holdfast.enqueueMany(type, payloads, { queue, limits: [type], maxAttempts: 100 })
                }
              }
            }
            await fill()
            fleet.start()
            const watch = startWatch(ground, limits)
            const kills = await killFor(fleet, config, fill)
            const seen = await watch.stop()
            await fleet.stop()
            const spans = readSpans(fleet.records)
            say(`  ${seconds} s, ${kills} kills, ${spans.length} runs`)
            return { kills, samples: seen.looks, kinds: limits.map((limit) => kindOf(limit, seen, spans)) }
          }),
      ),
  )
}

const MISSING = `
SELECT asked.type, greatest(0, $2 - count(held.id))::integer AS missing
  FROM unnest($1::text[]) AS asked (type)
  LEFT JOIN holdfast.held ON held.type = asked.type
 GROUP BY asked.type`

async function missingOf(
  { client }: Ground,
  types: readonly string[],
): Promise<readonly (readonly [string, number])[]> {
  const { rows } = await client.query<{ type: string; missing: number }>(MISSING, [types, BACKLOG * QUEUES.length])
  return rows.map(({ type, missing }) => [type, Math.ceil(missing / QUEUES.length)] as const)
}

async function killFor(fleet: Fleet, config: ExactnessConfig, fill: () => Promise<void>): Promise<number> {
  const { seconds, killEverySeconds } = config
  const beganMs = performance.now()
  const elapsed = () => (performance.now() - beganMs) / 1_000
  let kills = 0
  let nextSeconds = killEverySeconds
  while (elapsed() < seconds) {
    await fill()
    if (elapsed() >= nextSeconds) {
      await fleet.replaceKilled()
      kills++
      nextSeconds = elapsed() + killEverySeconds
    }
    await pause(100)
  }
  return kills
}

// One statement, one snapshot.
const RUNNING = `
SELECT limits.name, (SELECT count(*) FROM holdfast.running WHERE running.track = ANY (limits.tracks))::integer AS running
  FROM holdfast.limits`

interface Watched {
  readonly looks: number
  /** By the name of the limit: how often each number of running jobs was seen. */
  readonly seen: ReadonlyMap<string, ReadonlyMap<number, number>>
}

/** Looks at the running jobs until it is stopped. */
function startWatch({ client }: Ground, limits: ExactnessConfig['limits']) {
  const seen = new Map(limits.map(({ concurrency }) => [nameOf(concurrency), new Map<number, number>()]))
  let looks = 0
  let isOver = false
  const loop = (async () => {
    while (!isOver) {
      const { rows } = await client.query<{ name: string; running: number }>({ name: 'running', text: RUNNING })
      looks++
      for (const { name, running } of rows) {
        const counts = seen.get(name)
        counts?.set(running, (counts.get(running) ?? 0) + 1)
      }
      await pause(LOOK_MS)
    }
  })()
  return {
    async stop(): Promise<Watched> {
      isOver = true
      await loop
      return { looks, seen }
    },
  }
}

function kindOf({ concurrency, ms }: ExactnessConfig['limits'][number], watched: Watched, spans: readonly RunSpan[]) {
  const name = nameOf(concurrency)
  const counts = watched.seen.get(name)!
  const own = spans.filter(({ type }) => type === name)
  const most = Math.max(0, ...counts.keys())
  let over = 0
  let sum = 0
  for (const [running, times] of counts) {
    sum += running * times
    if (running > concurrency) over += times
  }
  const history = busiestMoment(own)
  const reached = (100 * sum) / (watched.looks * concurrency)
  const starts = own.length
  const row = { what: `limit ${concurrency}, jobs of ${ms} ms`, most, over, history, reached, starts }
  return { name, concurrency, most, over, history, reached, starts, row }
}

const STARTS = `
SELECT fence::float8 AS at_ms
  FROM holdfast.finished
 WHERE attempt = 1 AND crashes = 0
 ORDER BY fence`

async function runRate({ place, config }: ExperimentContext<ExactnessConfig>) {
  const { rate, burst, rateSeconds, processes, slots } = config
  return withGround(
    place,
    async () => {},
    ({ url, client }) =>
      withFleet({ url, processes, slots, queues: [...QUEUES] }, async (fleet) => {
        await withHoldfast(url, async (holdfast) => {
          await holdfast.setLimit('paced', { rate: { limit: rate, per: '1s', burst } })
          // More than may start.
          const jobs = Math.ceil((rate * rateSeconds + burst) / QUEUES.length) + rate
          for (const queue of QUEUES) {
            for (let left = jobs; left > 0; left -= 1_000) {
              const payloads = Array.from({ length: Math.min(1_000, left) }, () => ({}))
              await holdfast.enqueueMany('noop', payloads, { queue, limits: ['paced'] })
            }
          }
        })
        fleet.start()
        await pause(rateSeconds * 1_000)
        await fleet.stop()
        // The fence of a first attempt is the millisecond of its claim, by the store's clock, as the bucket goes by.
        const { rows } = await client.query<{ at_ms: number }>(STARTS)
        const times = rows.map(({ at_ms: atMs }) => atMs)
        const possible = times.length === 0 ? 0 : burst + ((times.at(-1)! - times[0]!) * rate) / 1_000
        const fullest = fullestBucket(times, rate / 1_000)
        const reached = (100 * times.length) / Math.max(1, possible)
        return {
          ...{ fullest, possible, starts: times.length },
          row: {
            ...{ what: `rate ${rate}/s, burst ${burst}`, most: Math.round(fullest), over: null, history: null },
            ...{ reached, starts: times.length },
          },
        }
      }),
  )
}

const COLUMNS = [
  column('what', 'what'),
  column('most seen', 'most'),
  column('looks over', 'over'),
  column('most in the history', 'history'),
  column('reached, % of possible', 'reached', 1),
  column('starts', 'starts'),
]

function figureOf(kinds: readonly Awaited<ReturnType<typeof runLimits>>['kinds'][number][]): Figure {
  const line = (name: string, read: (kind: (typeof kinds)[number]) => number) => ({
    name,
    points: kinds.map((kind) => [kind.concurrency, read(kind)] as const),
  })
  return {
    title: 'Limits under kills: never passed, and reached',
    subtitle: 'jobs of two queues share each limit; processes are killed and replaced all the time',
    x: { label: 'the limit', scale: 'even' },
    panels: [
      {
        label: 'jobs that ran concurrently',
        scale: 'log',
        series: [
          line('the limit', ({ concurrency }) => concurrency),
          line('most sampled', ({ most }) => most),
          line('most in the history', ({ history }) => history),
        ],
      },
      { label: 'of the limit in use on average, %', series: [line('in use', ({ reached }) => reached)] },
    ],
  }
}

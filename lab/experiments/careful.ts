// Long jobs under kills: no finished step is done again, a provider that takes idempotency keys does each effect once, the list of doubtful effects is
// exactly that of the ones that were handed out again, and readers that connect again get each piece of output once and in order.

import { existsSync, readFileSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { type Holdfast, openHoldfast } from '../../src/holdfast.js'
import { postgresStore } from '../../src/stores/postgres/index.js'
import { Child } from '../bench/children.js'
import { column } from '../bench/growth/measure.js'
import { type CarefulAssignment, type CarefulLine, effectJob, longJob, PROVIDERS } from './careful-jobs.js'
import {
  defineExperiment,
  type Experiment,
  type ExperimentContext,
  type ExperimentResult,
  expectNone,
  expectThat,
} from './experiment.js'
import { type Ground, withGround } from './place.js'

interface CarefulConfig {
  /** Jobs of many steps, the steps of each, and how long a step takes. */
  readonly jobs: number
  readonly steps: number
  readonly stepMs: number
  /** Jobs of many effects, and the effects of each with either provider. */
  readonly effectJobs: number
  readonly effects: number
  readonly processes: number
  readonly slots: number
  readonly leaseMs: number
  /** How often a process is killed, and the fewest kills. New jobs are made until that number is reached. */
  readonly killEveryMs: number
  readonly kills: number
  /** How often a reader connects again. */
  readonly reconnects: number
  readonly deadlineSeconds: number
}

const CHILD = new URL('./careful-child.js', import.meta.url)
const DEADLINE_MS = 3_600_000

export const careful: Experiment = defineExperiment<CarefulConfig>({
  about: 'long jobs under kills: no finished step again, no doubled effect, output once and in order',
  longTakes: '15 minutes',
  short: {
    ...{ jobs: 2, steps: 60, stepMs: 10, effectJobs: 2, effects: 20, processes: 1, slots: 8 },
    ...{ leaseMs: 1_000, killEveryMs: 700, kills: 3, reconnects: 20, deadlineSeconds: 120 },
  },
  long: {
    ...{ jobs: 8, steps: 500, stepMs: 20, effectJobs: 16, effects: 100, processes: 2, slots: 24 },
    ...{ leaseMs: 1_500, killEveryMs: 1_000, kills: 500, reconnects: 100, deadlineSeconds: 1_500 },
  },
  run: (context) =>
    withGround(
      context.place,
      async () => {},
      (ground) => run(context, ground),
    ),
})

async function run({ config }: ExperimentContext<CarefulConfig>, ground: Ground): Promise<ExperimentResult> {
  await ground.client.query(PROVIDERS)
  const folder = await mkdtemp(join(tmpdir(), 'holdfast-careful-'))
  const holdfast = await openHoldfast(await postgresStore(ground.url), { upkeep: false })
  const fleet = new KilledFleet({ ...config, url: ground.url, folder })
  try {
    const startedMs = performance.now()
    await enqueue(holdfast, config)
    const readings = await readWhile(holdfast, config, () =>
      fleet.run(() => more(holdfast, ground, config, fleet.kills)),
    )
    const seconds = (performance.now() - startedMs) / 1_000
    return await judge({ config, ground, holdfast, lines: fleet.lines(), kills: fleet.kills, readings, seconds })
  } finally {
    await fleet.close()
    await holdfast.close()
    await rm(folder, { recursive: true, force: true })
  }
}

async function enqueue(holdfast: Holdfast, { jobs, steps, effectJobs, effects }: CarefulConfig): Promise<void> {
  await holdfast.enqueueMany(
    longJob,
    Array.from({ length: jobs }, (_, index) => ({ steps, writes: index === 0 })),
  )
  await holdfast.enqueueMany(
    effectJob,
    Array.from({ length: effectJobs }, () => ({ steps: effects, writes: false })),
  )
}

/** Makes new jobs when all are done and there have been too few kills. True when there is nothing left to do. */
async function more(holdfast: Holdfast, ground: Ground, config: CarefulConfig, kills: number): Promise<boolean> {
  const { rows } = await ground.client.query(
    'SELECT (SELECT count(*) FROM holdfast.jobs) - (SELECT count(*) FROM holdfast.finished) - (SELECT count(*) FROM holdfast.dead) AS open',
  )
  const open = Number(rows[0].open)
  if (kills >= config.kills) return open === 0
  if (open <= config.effectJobs / 2) await enqueue(holdfast, config)
  return false
}

/** Processes of which one is killed again and again. */
class KilledFleet {
  readonly #options: CarefulConfig & { readonly url: string; readonly folder: string }
  readonly #records: string[] = []
  #living: Child[] = []
  kills = 0

  constructor(options: CarefulConfig & { readonly url: string; readonly folder: string }) {
    this.#options = options
  }

  async #launch(): Promise<void> {
    const { url, folder, slots, leaseMs, stepMs } = this.#options
    const record = join(folder, `runs-${this.#records.length}`)
    this.#records.push(record)
    const assignment: CarefulAssignment = { url, record, slots, leaseMs, stepMs }
    const child = new Child(CHILD, assignment, { name: 'a worker process', deadlineMs: DEADLINE_MS })
    this.#living.push(child)
    await child.hear('ready')
  }

  /** Kills and replaces until there is nothing left to do. */
  async run(isDone: () => Promise<boolean>): Promise<void> {
    const { processes, killEveryMs, kills, deadlineSeconds } = this.#options
    await Promise.all(Array.from({ length: processes }, () => this.#launch()))
    const untilMs = performance.now() + deadlineSeconds * 1_000
    while (!(await isDone())) {
      if (performance.now() > untilMs)
        throw new Error(`not done within ${deadlineSeconds} s, after ${this.kills} kills`)
      // Not in step with anything.
      await sleep(killEveryMs * (0.5 + Math.random()))
      if (this.kills >= kills) continue
      const [victim] = this.#living.splice(0, 1)
      await Promise.all([victim!.kill(), this.#launch()])
      this.kills++
    }
  }

  lines(): CarefulLine[] {
    return this.#records
      .filter((record) => existsSync(record))
      .flatMap((record) => readFileSync(record, 'utf8').split('\n'))
      .filter((line) => line.endsWith('}'))
      .map((line) => JSON.parse(line) as CarefulLine)
  }

  async close(): Promise<void> {
    await Promise.all(this.#living.map((child) => child.kill()))
  }
}

interface Readings {
  readonly id: string
  readonly text: string
  readonly isInOrder: boolean
  readonly reconnects: number
}

/** Reads the output of the first job while `work` goes on, in pieces: each connection reads a few and breaks off. */
async function readWhile(holdfast: Holdfast, config: CarefulConfig, work: () => Promise<void>): Promise<Readings> {
  const { jobs } = await holdfast.list({ limit: 200, filter: { types: [longJob.type] } })
  const { id } = jobs.at(-1)!
  const perConnection = Math.max(1, Math.floor(config.steps / (config.reconnects + 1)))
  let [text, from, reconnects, isInOrder] = ['', 0, 0, true]
  const reading = (async () => {
    for (;;) {
      let taken = 0
      for await (const piece of holdfast.read(id, { from })) {
        isInOrder &&= piece.offset === from
        text += piece.text
        from = piece.next
        if (++taken === perConnection) break
      }
      if (taken < perConnection) return
      reconnects++
    }
  })()
  await Promise.all([work(), reading])
  return { id, text, isInOrder, reconnects }
}

interface Findings {
  readonly config: CarefulConfig
  readonly ground: Ground
  readonly holdfast: Holdfast
  readonly lines: readonly CarefulLine[]
  readonly kills: number
  readonly readings: Readings
  readonly seconds: number
}

async function judge(found: Findings): Promise<ExperimentResult> {
  const { config, ground, holdfast, lines, kills, readings, seconds } = found
  const { rows: kept } = await ground.client.query(
    'SELECT id, name, fence::float8 FROM holdfast.kept WHERE ended_at IS NOT NULL',
  )
  const fences = new Map(kept.map(({ id, name, fence }) => [`${id} ${name}`, fence as number]))
  const repeated = lines.filter(
    ({ what, id, name, fence }) => what === 'step' && fence > (fences.get(`${id} ${name}`) ?? fence),
  )
  const steps = lines.filter(({ what }) => what === 'step')
  const cutOff = steps.length - new Set(steps.map(({ id, name }) => `${id} ${name}`)).size
  const { rows: ends } = await ground.client.query(
    "SELECT (SELECT count(*)::integer FROM holdfast.jobs) AS jobs, (SELECT count(*)::integer FROM holdfast.finished WHERE ending = 'succeeded') AS succeeded, (SELECT count(*)::integer FROM holdfast.dead) AS dead",
  )
  const { rows: honoured } = await ground.client.query(
    'SELECT count(*)::integer AS keys, sum(calls)::integer AS calls FROM honouring',
  )
  const { rows: forgotten } = await ground.client.query(
    'SELECT key, count(*)::integer AS calls FROM forgetful GROUP BY key',
  )
  const listed = await listDoubtful(holdfast)
  // What the handlers saw: an effect that was begun before, by an attempt that was cut off.
  const handedAgain = new Set(
    lines.filter(({ what, begun }) => what === 'effect' && begun > 1).map(({ id, name }) => `${id}:${name}`),
  )
  const doubled = forgotten.filter(({ calls }) => calls > 1).map(({ key }) => key as string)
  const { rows: planned } = await ground.client.query(
    'SELECT count(*)::integer * $1::integer AS effects FROM holdfast.jobs WHERE type = $2',
    [config.effects, effectJob.type],
  )
  const effects: number = planned[0].effects
  const { rows: output } = await ground.client.query(
    'SELECT chunks FROM holdfast.output WHERE id = $1 ORDER BY at_offset',
    [readings.id],
  )
  const written = output.flatMap(({ chunks }) => chunks as string[]).join('')
  const row = {
    kills,
    seconds,
    jobs: ends[0].jobs,
    steps: new Set(steps.map(({ id, name }) => `${id} ${name}`)).size,
    cutOff,
    repeated: repeated.length,
    effects,
    honouringCalls: honoured[0].calls,
    doubled: doubled.length,
    listed: listed.size,
    reconnects: readings.reconnects,
  }
  return {
    columns: COLUMNS,
    rows: [row],
    verdicts: [
      expectThat('workers were killed', `at least ${config.kills}`, String(kills), kills >= config.kills),
      expectThat(
        'all jobs succeed',
        String(ends[0].jobs),
        String(ends[0].succeeded),
        ends[0].succeeded === ends[0].jobs,
      ),
      expectNone('finished steps that ran again', repeated.length),
      {
        // Not a promise: a few kills may miss every step.
        kind: 'aim',
        about: 'steps were cut off and ran again',
        expected: 'some',
        seen: String(cutOff),
        holds: cutOff > 0,
      },
      expectThat(
        'effects of the provider that takes keys',
        String(effects),
        `${honoured[0].keys}, in ${honoured[0].calls} calls`,
        honoured[0].keys === effects,
      ),
      expectNone(
        'effects of the other provider that were doubled and are not in the list',
        doubled.filter((key) => !listed.has(key)).length,
      ),
      expectNone(
        'effects in the list that no attempt was handed again',
        [...listed].filter((key) => !handedAgain.has(key)).length,
      ),
      expectNone(
        'effects that an attempt was handed again and that are not in the list',
        [...handedAgain].filter((key) => !listed.has(key)).length,
      ),
      expectNone(
        'effects of the other provider that are not in the list and did not happen exactly once',
        forgotten.filter(({ key, calls }) => !listed.has(key) && calls !== 1).length,
      ),
      expectThat(
        'the reader connected again',
        `at least ${config.reconnects} times`,
        String(readings.reconnects),
        readings.reconnects >= config.reconnects,
      ),
      expectThat(
        'the reader got each piece once and in order',
        'yes',
        String(readings.isInOrder && readings.text === written),
        readings.isInOrder && readings.text === written && written !== '',
      ),
    ],
    notes: [
      `Every ${config.killEveryMs / 1_000} s on average one of ${config.processes} worker processes got SIGKILL and another took its place; leases of ${config.leaseMs} ms.`,
      'A finished step ran again if its handler began it under a later claim than the one under which its result is kept. Handlers write down that they begin before they do.',
      'Steps that were cut off ran again, as they must: they had not finished.',
    ],
    figures: {},
    samples: [],
    evidence: {},
  }
}

async function listDoubtful(holdfast: Holdfast): Promise<ReadonlySet<string>> {
  const keys = new Set<string>()
  let cursor: string | null = null
  do {
    const page: Awaited<ReturnType<Holdfast['doubtful']>> = await holdfast.doubtful({ limit: 200, cursor })
    for (const { id, key } of page.effects) keys.add(`${id}:${key}`)
    cursor = page.cursor
  } while (cursor !== null)
  return keys
}

const COLUMNS = [
  column('kills', 'kills'),
  column('seconds', 'seconds'),
  column('jobs', 'jobs'),
  column('steps', 'steps'),
  column('steps cut off', 'cutOff'),
  column('finished steps again', 'repeated'),
  column('effects', 'effects'),
  column('calls, provider with keys', 'honouringCalls'),
  column('doubled without keys', 'doubled'),
  column('in the list of doubts', 'listed'),
  column('reader connected again', 'reconnects'),
]

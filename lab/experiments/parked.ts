// Jobs that wait for a signal: a hundred thousand of them hold no slot, and each goes on within moments of its signal.

import { setTimeout as sleep } from 'node:timers/promises'
import { defineJob } from '../../src/client/define-job.js'
import { openHoldfast } from '../../src/holdfast.js'
import { postgresStore } from '../../src/stores/postgres/index.js'
import { column } from '../bench/growth/measure.js'
import { percentile } from '../bench/statistics.js'
import {
  aimBelow,
  defineExperiment,
  type Experiment,
  type ExperimentContext,
  type ExperimentResult,
  expectNone,
  expectThat,
} from './experiment.js'
import { type Ground, withGround } from './place.js'

interface ParkedConfig {
  readonly jobs: number
  /** Signals in a second, and how many are measured. The rest of the jobs is signalled as fast as it goes. */
  readonly perSecond: number
  readonly measured: number
  readonly slots: number
  readonly deadlineSeconds: number
}

export const parked: Experiment = defineExperiment<ParkedConfig>({
  about: 'jobs that wait for a signal: no slot while they wait, moments until they go on',
  longTakes: '6 minutes',
  short: { jobs: 2_000, perSecond: 200, measured: 300, slots: 16, deadlineSeconds: 60 },
  long: { jobs: 100_000, perSecond: 200, measured: 10_000, slots: 64, deadlineSeconds: 900 },
  run: (context) =>
    withGround(
      context.place,
      async () => {},
      (ground) => run(context, ground),
    ),
})

const approval = defineJob<null>('approval')

async function run({ config }: ExperimentContext<ParkedConfig>, { url, client }: Ground): Promise<ExperimentResult> {
  const { jobs, perSecond, measured, slots, deadlineSeconds } = config
  const holdfast = await openHoldfast(await postgresStore(url))
  const sentMs = new Map<string, number>()
  const wokenMs: number[] = []
  let [again, done] = [0, 0]
  const handler = approval.handle(async (_payload, ctx) => {
    const sent = sentMs.get(ctx.id)
    if (sent !== undefined) wokenMs.push(performance.now() - sent)
    const { timedOut } = await ctx.waitFor('approved', { timeout: '7d' })
    if (timedOut) again++
    done++
  })
  const worker = holdfast.worker({ handlers: [handler], concurrency: slots })
  const count = async (text: string): Promise<number> => Number((await client.query(text)).rows[0].count)
  const until = async (what: string, isSo: () => Promise<boolean>) => {
    const startedMs = performance.now()
    while (!(await isSo())) {
      if (performance.now() - startedMs > deadlineSeconds * 1_000)
        throw new Error(`${what}: not within ${deadlineSeconds} s`)
      await sleep(100)
    }
    return (performance.now() - startedMs) / 1_000
  }
  try {
    const ids: string[] = []
    for (let made = 0; made < jobs; made += 5_000) {
      const some = Array.from({ length: Math.min(5_000, jobs - made) }, () => null)
      ids.push(...(await holdfast.enqueueMany(approval, some)).map(({ id }) => id))
    }
    await worker.start()
    const parkingSeconds = await until(
      'all jobs wait',
      async () => (await count('SELECT count(*) FROM holdfast.scheduled')) === jobs,
    )
    const leases = await count('SELECT count(*) FROM holdfast.running')
    const inSlots = worker.running
    // In an order that has nothing to do with that of their enqueues.
    const shuffled = ids.map((id) => ({ id, at: Math.random() })).sort((one, other) => one.at - other.at)
    const chosen = shuffled.slice(0, measured)
    let isSlow = false
    const startedMs = performance.now()
    const sending: Promise<unknown>[] = []
    for (const [index, { id }] of chosen.entries()) {
      const dueMs = startedMs + (index * 1_000) / perSecond
      const waitMs = dueMs - performance.now()
      if (waitMs > 1) await sleep(waitMs)
      else if (waitMs < -1_000) isSlow = true
      sentMs.set(id, performance.now())
      sending.push(holdfast.signal(id, 'approved', { by: 'experiment' }))
    }
    await Promise.all(sending)
    const isDone = async (wanted: number) =>
      (await count("SELECT count(*) FROM holdfast.finished WHERE ending = 'succeeded'")) >= wanted
    await until('the measured jobs are done', () => isDone(measured))
    const rest = shuffled.slice(measured)
    const restStartedMs = performance.now()
    for (let at = 0; at < rest.length; at += 200) {
      await Promise.all(rest.slice(at, at + 200).map(({ id }) => holdfast.signal(id, 'approved')))
    }
    await until('all jobs are done', () => isDone(jobs))
    const restSeconds = (performance.now() - restStartedMs) / 1_000
    const sorted = [...wokenMs].sort((one, other) => one - other)
    const at = (share: number) => percentile(sorted, share)
    const row = {
      ...{ jobs, parkingSeconds, leases, inSlots, measured: sorted.length },
      ...{ p50Ms: at(0.5), p99Ms: at(0.99), maxMs: sorted.at(-1) ?? null },
      restPerSecond: rest.length === 0 ? null : rest.length / restSeconds,
    }
    return {
      columns: COLUMNS,
      rows: [row],
      verdicts: [
        expectNone('leases that waiting jobs hold', leases),
        expectNone('slots that waiting jobs hold', inSlots),
        expectThat('measured jobs that went on', String(measured), String(sorted.length), sorted.length === measured),
        expectThat('jobs that succeeded, each once', String(jobs), String(done), done === jobs && (await isDone(jobs))),
        expectNone('waits that timed out', again),
        aimBelow('from signal to handler, p99', 200, row.p99Ms),
      ],
      notes: [
        `${measured} of ${jobs} waiting jobs were signalled in random order, ${perSecond} a second${isSlow ? ' (the sender fell behind)' : ''}; the time counts from the call of signal() to the first line of the handler, in one process with ${slots} slots. The others were signalled as fast as it goes, 200 at a time.`,
      ],
      figures: {},
      samples: [],
      evidence: {},
    }
  } finally {
    await worker.stop()
    await holdfast.close()
  }
}

const COLUMNS = [
  column('jobs', 'jobs'),
  column('s until all wait', 'parkingSeconds', 1),
  column('leases', 'leases'),
  column('slots', 'inSlots'),
  column('signalled', 'measured'),
  column('p50, ms', 'p50Ms', 1),
  column('p99, ms', 'p99Ms', 1),
  column('max, ms', 'maxMs', 1),
  column('the others/s', 'restPerSecond'),
]

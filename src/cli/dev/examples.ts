// The example jobs of `holdfast dev`: what they are, and how they are enqueued. Each shows one thing that can happen to a job.

import { setTimeout as sleep } from 'node:timers/promises'
import { defineJob } from '../../client/define-job.js'
import type { EnqueueOptions } from '../../client/enqueue-options.js'
import type { EnqueueResult } from '../../client/job-handle.js'
import { DropJob, type Handler, type JobContext, type JobDefinition } from '../../core/definition.js'
import { isFinished } from '../../core/states.js'
import type { Holdfast } from '../../holdfast.js'
import { shortId } from '../input/ids.js'
import type { Line } from '../output/lines.js'
import { clockText } from '../output/times.js'

/** Queues of their own: in a store with other jobs, the worker of dev must not claim those. */
export const DEV_QUEUES = ['dev', 'dev-files', 'dev-billing', 'dev-reports'] as const

const [queue, files, billing, reports] = DEV_QUEUES

const greet: JobDefinition<{ name?: string }, { name?: string }> = defineJob('greet', { queue })

/** How a charge ends: paid, refused for good, or without an answer from the bank. */
interface Charge {
  readonly order: number
  readonly card: 'good' | 'expired' | 'unreachable'
}

const uploadFile: JobDefinition<{ file: string; failures: number }, { file: string; failures: number }> = defineJob(
  'upload_file',
  {
    queue: files,
    maxAttempts: 5,
    // Without jitter, so that a reader sees the waits double.
    retry: { base: '1s', jitter: false },
    // Whose file it is. Owners take turns, however many files each has.
    group: ({ file }) => file.split('.')[0] ?? file,
  },
)

const chargeCard: JobDefinition<Charge, Charge> =
  // A high priority and few attempts, as a payment would have.
  defineJob('charge_card', {
    queue: billing,
    priority: 10,
    maxAttempts: 2,
    retry: { base: '1s', jitter: false },
    // The limit type:charge_card. A bank that does not answer opens its breaker: other charges wait and lose no attempt.
    concurrency: 2,
    breaker: { failures: 0.5, of: 2, within: '10s', cooldown: '10s', probes: 1 },
  })

const remind: JobDefinition<{ to: string }, { to: string }> = defineJob('remind', { queue })

const cleanUp: JobDefinition<null, null> = defineJob('clean_up', { queue })

const extract: JobDefinition<{ report: string }, { report: string }> = defineJob('extract', { queue: reports })
const transform: JobDefinition<{ report: string }, { report: string }> = defineJob('transform', {
  queue: reports,
})
const load: JobDefinition<{ report: string }, { report: string }> = defineJob('load', { queue: reports })

const renderVideo: JobDefinition<{ frames: number }, { frames: number }> = defineJob('render_video', {
  queue: files,
})

/** Prints how far a running job is. */
type PrintProgress = (job: JobContext, text: string) => void

/** The handlers of the examples. */
export function exampleHandlers(print: PrintProgress): readonly Handler[] {
  return [
    greet.handle(async (payload, ctx) => {
      await work(10, ctx)
      return `Hello, ${payload?.name ?? 'stranger'}!`
    }),
    uploadFile.handle(async ({ file, failures }, ctx) => {
      await work(150, ctx)
      if (ctx.attempt <= failures) throw new Error('HTTP 503')
      return { file, uploaded: true }
    }),
    chargeCard.handle(async ({ order, card }, ctx) => {
      await work(80, ctx)
      if (card === 'expired') throw new DropJob('card expired')
      if (card === 'unreachable') throw new Error('the bank does not answer')
      return { order, paid: true }
    }),
    remind.handle(async ({ to }, ctx) => {
      await work(25, ctx)
      return `reminded ${to}`
    }),
    cleanUp.handle((_, ctx) => work(60, ctx)),
    extract.handle((_, ctx) => work(500, ctx).then(() => ({ rows: 4_218 }))),
    transform.handle((_, ctx) => work(700, ctx).then(() => ({ rows: 4_180 }))),
    load.handle((_, ctx) => work(300, ctx).then(() => ({ rows: 4_180 }))),
    renderVideo.handle(({ frames }, ctx) => render(frames, ctx, print)),
  ]
}

const FRAMES_PER_STEP = 60
const STEP_MS = 1_200

async function render(frames: number, ctx: JobContext, print: PrintProgress): Promise<{ frames: number }> {
  ctx.log(`rendering ${frames} frames`)
  for (let done = FRAMES_PER_STEP; done <= frames; done += FRAMES_PER_STEP) {
    await work(STEP_MS, ctx)
    const percent = Math.round((done / frames) * 100)
    ctx.progress({ percent })
    ctx.log(`frame ${done} of ${frames}`)
    if (done < frames) print(ctx, `${percent} % · frame ${done} of ${frames}`)
  }
  return { frames }
}

// It stops immediately when the job is cancelled or the worker stops.
async function work(ms: number, { signal }: JobContext): Promise<void> {
  await sleep(ms, undefined, { signal })
}

type Print = (line: Line) => void

export const TICK_SECONDS = 10

/** Makes the schedule of the examples, or finds the one of an earlier start: there is only one of that name. */
export async function scheduleExample(holdfast: Holdfast): Promise<void> {
  await holdfast.schedule(cleanUp.type, {
    cron: `*/${TICK_SECONDS} * * * * *`,
    job: cleanUp,
    payload: null,
    // However many ticks were missed while dev did not run, one job is enough.
    catchUp: 'latest',
    overlap: 'skip',
  })
}

/**
 * Enqueues one of each. Idempotency keys keep a second start from adding what the first one left: an unfinished job holds its
 * key, and the dead one holds it for a week, so that repeated starts do not fill the dead-letter queue.
 */
export async function enqueueExamples(holdfast: Holdfast, print: Print): Promise<void> {
  const once = (what: string) => ({ idempotencyKey: `dev:${what}` })
  const add = async <Input>(job: JobDefinition<Input>, payload: Input, purpose: string, options: EnqueueOptions) => {
    // The payload is checked against the definition by the types above; enqueue itself takes any.
    const result = await holdfast.enqueue(job as JobDefinition, payload, options)
    print(await describe(holdfast, job.type, result, purpose))
    return result.id
  }
  await add(greet, { name: 'Ada' }, 'enqueued, to succeed', once('greet'))
  await add(uploadFile, { file: 'photo.jpg', failures: 2 }, 'enqueued, to fail twice and succeed', once('upload'))
  await add(chargeCard, { order: 1_042, card: 'expired' }, 'enqueued, to end dead', {
    idempotencyKey: { key: 'dev:charge', for: '7d' },
  })
  const dueText = `scheduled for ${clockText(new Date(Date.now() + 5_000))}, in 5 s`
  await add(remind, { to: 'Grace' }, dueText, { ...once('remind'), delay: '5s' })
  await enqueueChain(holdfast, print)
  await add(renderVideo, { frames: 300 }, 'enqueued, slow, with progress and a log', once('render'))
}

/** Three jobs, each after the one before. Enqueues none while those of an earlier start are unfinished. */
async function enqueueChain(holdfast: Holdfast, print: Print): Promise<void> {
  const printPlain = (subject: string, id: string, text: string) =>
    print({ subject, id, text, tone: 'plain', isRoutine: false })
  const [last] = (await holdfast.list({ queue: load.queue, type: load.type, limit: 1 })).jobs
  if (last !== undefined && !isFinished(last.state)) {
    printPlain(load.type, last.id, `still ${last.state}, its chain continues`)
    return
  }
  const report = 'sales'
  const first = await holdfast.enqueue(extract, { report })
  printPlain(extract.type, first.id, 'enqueued, first of a chain')
  const second = await holdfast.enqueue(transform, { report }, { after: first.id })
  printPlain(transform.type, second.id, `blocked until extract ${shortId(first.id)} is done`)
  const third = await holdfast.enqueue(load, { report }, { after: second.id })
  printPlain(load.type, third.id, `blocked until transform ${shortId(second.id)} is done`)
}

async function describe(holdfast: Holdfast, type: string, result: EnqueueResult, purpose: string): Promise<Line> {
  const { id, created, state } = result
  const line = { subject: type, id, tone: 'plain', isRoutine: false } as const
  if (created) return { ...line, text: purpose }
  if (state === 'running') return { ...line, text: 'still running in another process, or its worker is gone' }
  if (state !== 'dead') return { ...line, text: `still ${state}, not enqueued again` }
  const finishedAt = (await holdfast.get(id))?.finishedAt ?? null
  const since = finishedAt === null ? '' : ` since ${dayText(finishedAt)}`
  return { ...line, text: `still dead${since}, not enqueued again` }
}

function dayText(date: Date): string {
  const isToday = date.toDateString() === new Date().toDateString()
  return isToday ? clockText(date) : `${date.toISOString().slice(0, 10)} ${clockText(date)}`
}

const TRICKLE_MS_MIN = 800
const TRICKLE_MS_MAX = 2_000
// While a queue is paused the examples must not fill the store.
const WAITING_MAX = 20
// Some dead jobs to look at; more would only make a longer list.
const DEAD_MAX = 20

const NAMES = ['Ada', 'Grace', 'Edsger', 'Barbara', 'Alan', 'Radia', 'Niklaus', 'Frances', 'Donald', 'Katherine']

/** Enqueues an example every second or two, until `signal` fires. */
export async function trickle(holdfast: Holdfast, print: Print, signal: AbortSignal): Promise<void> {
  while (!signal.aborted) {
    const ms = TRICKLE_MS_MIN + Math.random() * (TRICKLE_MS_MAX - TRICKLE_MS_MIN)
    await sleep(ms, undefined, { signal }).catch(() => {})
    if (signal.aborted) return
    try {
      const { ready, scheduled, retrying, dead } = await foundIn(holdfast)
      if (ready + scheduled + retrying < WAITING_MAX) await enqueueOne(holdfast, print, signal, dead < DEAD_MAX)
    } catch {
      // The worker reports that the store is unavailable; the next round tries again.
    }
  }
}

/** How many jobs of each state are in the queues of the examples. */
export async function foundIn(holdfast: Holdfast): Promise<Found> {
  const found = { running: 0, ready: 0, scheduled: 0, retrying: 0, blocked: 0, dead: 0 }
  for (const stats of await Promise.all(DEV_QUEUES.map((queue) => holdfast.stats(queue)))) {
    for (const state of Object.keys(found) as (keyof Found)[]) found[state] += stats[state]
  }
  return found
}

export type Found = Record<'running' | 'ready' | 'scheduled' | 'retrying' | 'blocked' | 'dead', number>

async function enqueueOne(holdfast: Holdfast, print: Print, signal: AbortSignal, mayDie: boolean): Promise<void> {
  const dice = Math.random()
  const name = NAMES[Math.floor(Math.random() * NAMES.length)]!
  const file = name.toLowerCase()
  const order = 1_000 + Math.floor(Math.random() * 9_000)
  if (dice < 0.4) await holdfast.enqueue(greet, { name }, { signal })
  else if (dice < 0.58) await holdfast.enqueue(uploadFile, { file: `${file}.png`, failures: 0 }, { signal })
  else if (dice < 0.66) await holdfast.enqueue(uploadFile, { file: `${file}.mov`, failures: 1 }, { signal })
  else if (dice < 0.82) await holdfast.enqueue(chargeCard, { order, card: 'good' }, { signal })
  else if (dice < 0.84 && mayDie) await holdfast.enqueue(chargeCard, { order, card: 'expired' }, { signal })
  else if (dice < 0.87 && mayDie) await holdfast.enqueue(chargeCard, { order, card: 'unreachable' }, { signal })
  else {
    const { id } = await holdfast.enqueue(remind, { to: name }, { delay: '3s', signal })
    const text = `scheduled for ${clockText(new Date(Date.now() + 3_000))}, in 3 s`
    print({ subject: remind.type, id, text, tone: 'plain', isRoutine: true })
  }
}

// The jobs `holdfast dev` shows: each has one thing to say about what becomes of jobs.

import { setTimeout as sleep } from 'node:timers/promises'
import { defineJob } from '../../client/define-job.js'
import { DropJob, type Handler, type JobContext, type JobDefinition } from '../../core/definition.js'

/** Queues of their own: in a store that also holds other jobs, examples must not take any of those. */
export const DEV_QUEUES = ['dev', 'dev-files', 'dev-billing', 'dev-reports'] as const

const [queue, files, billing, reports] = DEV_QUEUES

export const greet: JobDefinition<{ name?: string }, { name?: string }> = defineJob('greet', { queue })

/** How a charge ends: paid, refused for good, or with a bank that never answers. */
export interface Charge {
  readonly order: number
  readonly card: 'good' | 'expired' | 'unreachable'
}

export const uploadFile: JobDefinition<{ file: string; failures: number }, { file: string; failures: number }> =
  // Without jitter, so that the waits can be seen to double.
  defineJob('upload_file', { queue: files, maxAttempts: 5, retry: { base: '1s', jitter: false } })

export const chargeCard: JobDefinition<Charge, Charge> =
  // Before others of its queue, and soon given up: money does not wait.
  defineJob('charge_card', { queue: billing, priority: 10, maxAttempts: 2, retry: { base: '1s', jitter: false } })

export const remind: JobDefinition<{ to: string }, { to: string }> = defineJob('remind', { queue })

export const cleanUp: JobDefinition<null, null> = defineJob('clean_up', { queue })

export const extract: JobDefinition<{ report: string }, { report: string }> = defineJob('extract', { queue: reports })
export const transform: JobDefinition<{ report: string }, { report: string }> = defineJob('transform', {
  queue: reports,
})
export const load: JobDefinition<{ report: string }, { report: string }> = defineJob('load', { queue: reports })

export const renderVideo: JobDefinition<{ frames: number }, { frames: number }> = defineJob('render_video', {
  queue: files,
})

/** Tells how far a running job has come. */
export type TellProgress = (job: JobContext, text: string) => void

/** The code of the examples. */
export function exampleHandlers(tell: TellProgress): readonly Handler[] {
  return [
    greet.handle(async (payload, ctx) => {
      await work(10, ctx)
      return `Hello, ${payload?.name ?? 'whoever you are'}!`
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
    renderVideo.handle(({ frames }, ctx) => render(frames, ctx, tell)),
  ]
}

const FRAMES_PER_STEP = 60
const STEP_MS = 1_200

async function render(frames: number, ctx: JobContext, tell: TellProgress): Promise<{ frames: number }> {
  ctx.log(`rendering ${frames} frames`)
  for (let done = FRAMES_PER_STEP; done <= frames; done += FRAMES_PER_STEP) {
    await work(STEP_MS, ctx)
    const percent = Math.round((done / frames) * 100)
    ctx.progress({ percent })
    ctx.log(`frame ${done} of ${frames}`)
    if (done < frames) tell(ctx, `${percent} % · frame ${done} of ${frames}`)
  }
  return { frames }
}

// What the examples do for a living. It ends at once when the job is cancelled or the worker has to stop.
async function work(ms: number, { signal }: JobContext): Promise<void> {
  await sleep(ms, undefined, { signal })
}

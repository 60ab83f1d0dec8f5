// Enqueues the examples: one of each when dev starts, and a trickle of them afterwards, so that something lives.

import { setTimeout as sleep } from 'node:timers/promises'
import type { EnqueueOptions, EnqueueResult } from '../../client/prepare.js'
import type { JobDefinition } from '../../core/definition.js'
import { isFinished } from '../../core/states.js'
import type { Holdfast } from '../../holdfast.js'
import { shortId } from '../job-ids.js'
import type { Line } from '../narrator.js'
import { clockText } from '../times.js'
import {
  chargeCard,
  cleanUp,
  DEV_QUEUES,
  extract,
  greet,
  load,
  remind,
  renderVideo,
  transform,
  uploadFile,
} from './examples.js'

type Tell = (line: Line) => void

export const TICK_SECONDS = 10

/** Makes the schedule, or finds the one of the last start: there is one of that name, however often this is called. */
export async function scheduleExample(holdfast: Holdfast): Promise<void> {
  await holdfast.schedule(cleanUp.type, {
    cron: `*/${TICK_SECONDS} * * * * *`,
    job: cleanUp,
    payload: null,
    // After a time away one run is enough, whatever number of ticks was missed.
    catchUp: 'latest',
    overlap: 'skip',
  })
}

/**
 * Enqueues one of each. Keys keep a second start from adding what the first one left: a job that is unfinished still has
 * its key, and the dead one keeps it for a week, so that starts do not fill the dead-letter queue.
 */
export async function enqueueExamples(holdfast: Holdfast, tell: Tell): Promise<void> {
  const once = (what: string) => ({ idempotencyKey: `dev:${what}` })
  const add = async <Input>(job: JobDefinition<Input>, payload: Input, purpose: string, options: EnqueueOptions) => {
    // The definition's own type is what matters; a payload of another type does not compile above.
    const result = await holdfast.enqueue(job as JobDefinition, payload, options)
    tell(await describe(holdfast, job.type, result, purpose))
    return result.id
  }
  await add(greet, { name: 'Ada' }, 'enqueued, to succeed', once('greet'))
  await add(uploadFile, { file: 'photo.jpg', failures: 2 }, 'enqueued, to fail twice and succeed', once('upload'))
  await add(chargeCard, { order: 1_042, card: 'expired' }, 'enqueued, to end dead', {
    idempotencyKey: { key: 'dev:charge', for: '7d' },
  })
  const dueText = `scheduled for ${clockText(new Date(Date.now() + 5_000))}, in 5 s`
  await add(remind, { to: 'Grace' }, dueText, { ...once('remind'), delay: '5s' })
  await enqueueChain(holdfast, tell)
  await add(renderVideo, { frames: 300 }, 'enqueued, slow, with progress and a log', once('render'))
}

/** Three jobs, each after the one before; or none while those of an earlier start are on their way. */
async function enqueueChain(holdfast: Holdfast, tell: Tell): Promise<void> {
  const say = (subject: string, id: string, text: string) =>
    tell({ subject, id, text, tone: 'plain', isRoutine: false })
  const [last] = (await holdfast.list({ queue: load.queue, type: load.type, limit: 1 })).jobs
  if (last !== undefined && !isFinished(last.state)) {
    say(load.type, last.id, `still ${last.state}, its chain goes on`)
    return
  }
  const report = 'sales'
  const first = await holdfast.enqueue(extract, { report })
  say(extract.type, first.id, 'enqueued, first of a chain')
  const second = await holdfast.enqueue(transform, { report }, { after: first.id })
  say(transform.type, second.id, `blocked until extract ${shortId(first.id)} is done`)
  const third = await holdfast.enqueue(load, { report }, { after: second.id })
  say(load.type, third.id, `blocked until transform ${shortId(second.id)} is done`)
}

async function describe(holdfast: Holdfast, type: string, result: EnqueueResult, purpose: string): Promise<Line> {
  const { id, created, state } = result
  const line = { subject: type, id, tone: 'plain', isRoutine: false } as const
  if (created) return { ...line, text: purpose }
  if (state === 'running') return { ...line, text: 'still running elsewhere, or its worker is gone' }
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
// A queue that is paused, or a worker that is held up, must not fill the store.
const WAITING_MAX = 20
// Some dead jobs to look at; more would only be a longer list.
const DEAD_MAX = 20

const NAMES = ['Ada', 'Grace', 'Edsger', 'Barbara', 'Alan', 'Radia', 'Niklaus', 'Frances', 'Donald', 'Katherine']

/** Enqueues an example every second or two, until `signal` fires. */
export async function trickle(holdfast: Holdfast, tell: Tell, signal: AbortSignal): Promise<void> {
  while (!signal.aborted) {
    const ms = TRICKLE_MS_MIN + Math.random() * (TRICKLE_MS_MAX - TRICKLE_MS_MIN)
    await sleep(ms, undefined, { signal }).catch(() => {})
    if (signal.aborted) return
    try {
      const { ready, scheduled, retrying, dead } = await foundIn(holdfast)
      if (ready + scheduled + retrying < WAITING_MAX) await enqueueOne(holdfast, tell, signal, dead < DEAD_MAX)
    } catch {
      // A store that is away is told by the worker, and comes back.
    }
  }
}

/** What stands in the queues of the examples. */
export async function foundIn(holdfast: Holdfast): Promise<Found> {
  const found = { running: 0, ready: 0, scheduled: 0, retrying: 0, blocked: 0, dead: 0 }
  for (const stats of await Promise.all(DEV_QUEUES.map((queue) => holdfast.stats(queue)))) {
    for (const state of Object.keys(found) as (keyof Found)[]) found[state] += stats[state]
  }
  return found
}

export type Found = Record<'running' | 'ready' | 'scheduled' | 'retrying' | 'blocked' | 'dead', number>

async function enqueueOne(holdfast: Holdfast, tell: Tell, signal: AbortSignal, mayDie: boolean): Promise<void> {
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
    tell({ subject: remind.type, id, text, tone: 'plain', isRoutine: true })
  }
}

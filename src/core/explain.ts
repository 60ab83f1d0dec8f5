// Why a job stands where it does, and what would move it on. Pure: from the facts the store gives to plain words.

import { explainFlow } from './flow/explain-flow.js'
import type { Standing } from './operating.js'
import type { OutboxView } from './outbox.js'
import { type DeadReason, isFinished, type JobState } from './states.js'
import type { JobSummary } from './views.js'

export const REASON_CODES = [
  'in_outbox',
  'not_sent',
  'finished',
  'dead',
  'held_by_key',
  'running',
  'lease_expired',
  'cancel_asked',
  'waits_for_parent',
  'waits_for_signal',
  'waits_for_children',
  'due_later',
  'retry_later',
  'due_now',
  'queue_paused',
  'group_paused',
  'group_order',
  'group_busy',
  'limit_full',
  'rate_limited',
  'told_to_wait',
  'breaker_open',
  'no_worker',
  'type_unknown',
  'workers_full',
  'behind',
  'next_in_line',
] as const

export type ReasonCode = (typeof REASON_CODES)[number]

/** One reason, in words for people and facts for programs. */
export interface Reason {
  readonly code: ReasonCode
  readonly text: string
  readonly facts: Readonly<Record<string, unknown>>
}

export interface Explanation {
  readonly state: JobState
  /** One sentence. */
  readonly summary: string
  /** What holds it where it is, the first thing first. */
  readonly reasons: readonly Reason[]
  /** What can be done about it; empty when nothing needs to be. */
  readonly next: readonly string[]
}

/** Explains a job's standing. Jobs of queues that may not be seen are counted and not named. */
export function explainJob(standing: Standing, maySee: (queue: string) => boolean = () => true): Explanation {
  const findings = findingsOf(standing, maySee)
  const { state } = standing.job
  return {
    state,
    summary: `This job is ${state}: ${findings.map(({ text }) => text).join('; ')}.`,
    reasons: findings.map(({ code, text, facts }) => ({ code, text, facts })),
    next: [...new Set(findings.flatMap(({ next }) => next))],
  }
}

interface Finding extends Reason {
  readonly next: readonly string[]
}

function finding(
  code: ReasonCode,
  text: string,
  more: { readonly facts?: Reason['facts']; readonly next?: readonly string[] } = {},
): Finding {
  return { code, text, facts: more.facts ?? {}, next: more.next ?? [] }
}

function findingsOf(standing: Standing, maySee: (queue: string) => boolean): Finding[] {
  if (standing.outbox !== undefined) return [inOutbox(standing.outbox, standing.nowMs)]
  switch (standing.job.state) {
    case 'succeeded':
    case 'cancelled':
      return [finished(standing)]
    case 'dead':
      return [died(standing), ...heldByKey(standing)]
    case 'running':
      return running(standing)
    case 'blocked':
      return [waitsForParents(standing, maySee), ...claimable(standing)]
    case 'scheduled':
    case 'retrying':
      return [waitsForSignal(standing) ?? waitsForTime(standing), ...claimable(standing)]
    case 'ready': {
      const holding = [...claimable(standing), ...heldByFlow(standing)]
      return holding.length > 0 ? [...holding, ...behind(standing)] : inLine(standing)
    }
  }
}

/** Of a job that the store does not have. */
function inOutbox({ outcome, since, why, holder }: OutboxView, nowMs: number): Finding {
  const facts = { since, why, holder }
  switch (outcome) {
    case 'waiting': {
      const held = why === null ? '' : `; the last time it was not taken: ${why}`
      return finding(
        'in_outbox',
        `it was committed to the outbox ${ago(since, nowMs)} and is not in Redis yet${held}`,
        {
          facts,
          next: ['a process with upkeep and this outbox sends it: see that one runs, and that it reaches Redis'],
        },
      )
    }
    case 'deduplicated':
      return finding('not_sent', `it was not created, because job ${holder} has its idempotency key`, { facts })
    case 'refused':
      return finding('not_sent', `it will never be created: ${why}`, {
        facts,
        next: ['correct what made it impossible, and enqueue it again'],
      })
    case 'cancelled':
      return finding('not_sent', 'it was cancelled before it was sent to Redis', { facts })
  }
}

function finished({ job, nowMs }: Standing): Finding {
  const verb = job.state === 'succeeded' ? 'it succeeded' : 'it was cancelled'
  const took =
    job.startedAt === null || job.finishedAt === null ? null : job.finishedAt.getTime() - job.startedAt.getTime()
  const ran = took === null ? 'without running' : `after running for ${span(took)}`
  return finding('finished', `${verb} ${ago(job.finishedAt, nowMs)}, ${ran}`, {
    facts: { finishedAt: job.finishedAt, attempt: job.attempt },
  })
}

const WHY_DEAD: Readonly<Record<DeadReason, (job: JobSummary) => string>> = {
  attempts: (job) => `it used up its ${count(job.maxAttempts, 'attempt')}`,
  dropped: () => 'its handler dropped it, or the error was not worth another attempt',
  expired: () => 'it was too old to run',
  crashed: (job) => `its worker was lost ${count(job.crashes, 'time')} while it ran`,
  invalid: () => 'its payload does not fit its schema, or is of a version nobody can read',
}

const AFTER_DEATH: Readonly<Record<DeadReason, string>> = {
  attempts: 'correct what made it fail, then requeue it',
  dropped: 'requeue it if it was dropped by mistake, otherwise discard it',
  expired: 'requeue it only if it is still wanted: its age counts from its enqueue, so raise maxAge first',
  crashed: 'find out what ended its workers (memory, an uncaught error), then requeue it',
  invalid: 'correct the schema or add an upgrade, then requeue it',
}

function died({ job, nowMs }: Standing): Finding {
  const reason = job.reason ?? 'attempts'
  const last = job.error === null ? '' : `; the last error was ${errorText(job)}`
  return finding('dead', `${WHY_DEAD[reason](job)} ${ago(job.finishedAt, nowMs)}${last}`, {
    facts: { reason, attempt: job.attempt, finishedAt: job.finishedAt },
    next: [AFTER_DEATH[reason]],
  })
}

function heldByKey({ job, keyHeldBy }: Standing): Finding[] {
  if (keyHeldBy === null) return []
  return [
    finding(
      'held_by_key',
      `job ${keyHeldBy} has its idempotency key "${job.idempotencyKey}", so it cannot be requeued now`,
      {
        facts: { heldBy: keyHeldBy, key: job.idempotencyKey },
        next: [`wait until job ${keyHeldBy} has finished, or cancel it`],
      },
    ),
  ]
}

function running({ job, nowMs }: Standing): Finding[] {
  const overdueMs = job.leasedUntil === null ? 0 : nowMs - job.leasedUntil.getTime()
  const facts = { worker: job.worker, startedAt: job.startedAt, leasedUntil: job.leasedUntil, attempt: job.attempt }
  const where = `attempt ${job.attempt} of ${job.maxAttempts} was claimed by worker ${job.worker} ${ago(job.startedAt, nowMs)}`
  const findings = [finding('running', where, { facts })]
  if (overdueMs > 0) {
    findings.push(
      finding(
        'lease_expired',
        `its lease ran out ${span(overdueMs)} ago and nobody extended it: rescue will take it over`,
        {
          facts: { overdueMs },
          next: [
            'it goes on by itself within seconds while a process with upkeep runs',
            `look at worker ${job.worker}: it was killed, hung, or was cut off from the store`,
          ],
        },
      ),
    )
  }
  if (job.cancelRequested) {
    findings.push(
      finding('cancel_asked', 'somebody asked to cancel it, and its worker has been notified', {
        next: ['its handler must watch ctx.signal to stop early; otherwise the job ends with the attempt'],
      }),
    )
  }
  return findings
}

function waitsForParents({ job, parents, ...standing }: Standing, maySee: (queue: string) => boolean): Finding {
  const waitsForChildren = standing.waitsForChildren === true
  const waiting = parents.filter(({ state }) => state !== null && !isFinished(state))
  const open = waiting.filter(({ queue }) => queue !== null && maySee(queue)).map(({ queue: _, ...parent }) => parent)
  const hidden = waiting.length - open.length
  if (waiting.length === 0) {
    return finding(
      'due_now',
      `the jobs it ${waitsForChildren ? 'waits for' : 'comes after'} have finished: the next promotion moves it on`,
      {
        next: ['make sure that a process with upkeep runs'],
      },
    )
  }
  const shown = open.slice(0, 3).map(({ id, state, type }) => `${type} ${id} (${state})`)
  const rest = open.length > shown.length ? ` and ${open.length - shown.length} more` : ''
  const named = open.length === 0 ? [] : [`${shown.join(', ')}${rest}`]
  const others = hidden === 0 ? [] : [`${count(hidden, 'job')} of other queues`]
  const code = waitsForChildren ? 'waits_for_children' : 'waits_for_parent'
  const verb = waitsForChildren ? 'its handler waits for its children' : 'it comes after'
  return finding(code, `${verb} ${[...named, ...others].join(' and ')}`, {
    facts: waitsForChildren ? { children: open } : { parents: open, onParentDead: job.onParentDead },
    next: open.slice(0, 1).map(({ id }) => `see what job ${id} waits for`),
  })
}

function waitsForSignal({ job, nowMs, wait }: Standing): Finding | null {
  if (wait === undefined || wait.until.getTime() <= nowMs) return null
  const { name, since, until } = wait
  return finding(
    'waits_for_signal',
    `its handler has waited for the signal "${name}" for ${span(nowMs - since.getTime())}; it goes on without it in ${span(until.getTime() - nowMs)}, at ${until.toISOString()}`,
    { facts: { name, since, until }, next: [`send it: holdfast.signal('${job.id}', ${JSON.stringify(name)})`] },
  )
}

function waitsForTime({ job, nowMs }: Standing): Finding {
  const waitMs = (job.runAt?.getTime() ?? nowMs) - nowMs
  const facts = { runAt: job.runAt, attempt: job.attempt }
  if (waitMs <= 0) {
    return finding(
      'due_now',
      `its time came ${waitMs === 0 ? 'just now' : `${span(-waitMs)} ago`}: the next promotion makes it ready`,
      {
        facts,
        next: ['make sure that a process with upkeep runs'],
      },
    )
  }
  if (job.state === 'scheduled') {
    const next = ['to run it now, update it with runAt: null']
    return finding('due_later', `it may run in ${span(waitMs)}, at ${job.runAt!.toISOString()}`, { facts, next })
  }
  const cause =
    job.error === null ? '' : ` because attempt ${job.attempt} of ${job.maxAttempts} failed: ${errorText(job)}`
  const next = ['to retry it now, update it with runAt: null']
  return finding('retry_later', `it retries in ${span(waitMs)}${cause}`, { facts, next })
}

/** What would keep a worker from claiming it, if it were first in its queue. */
function claimable(standing: Standing): Finding[] {
  const { job, queuePaused, workers } = standing
  const { queue, type } = job
  const findings: Finding[] = []
  if (queuePaused) {
    findings.push(
      finding('queue_paused', `queue "${queue}" is paused: it takes jobs and gives none`, {
        facts: { queue },
        next: [`resume queue "${queue}"`],
      }),
    )
  }
  const active = workers.filter(({ draining }) => !draining)
  if (active.length === 0) {
    findings.push(
      finding('no_worker', `no live worker serves queue "${queue}"`, {
        facts: { queue, draining: workers.length },
        next: [`start a worker for queue "${queue}"`],
      }),
    )
  } else if (!active.some(({ knowsType }) => knowsType)) {
    findings.push(
      finding(
        'type_unknown',
        `none of the ${count(active.length, 'worker')} of queue "${queue}" has a handler for type "${type}"`,
        {
          facts: { type, workers: active.map(({ id }) => id) },
          next: [`start a worker with a handler for "${type}", or correct the job's type`],
        },
      ),
    )
  }
  return findings
}

/** What flow control says about a ready job. */
function heldByFlow({ flow, job, nowMs }: Standing): Finding[] {
  return flow === undefined ? [] : explainFlow(flow, job.queue, { nowMs, span })
}

function inLine(standing: Standing): Finding[] {
  const knowing = standing.workers.filter(({ knowsType, draining }) => knowsType && !draining)
  const isFull = knowing.every(({ running, concurrency }) => running >= concurrency)
  const full = finding(
    'workers_full',
    `${knowing.length === 1 ? 'the worker' : `all ${knowing.length} workers`} that could run it ${knowing.length === 1 ? 'has' : 'have'} every slot taken`,
    {
      facts: { workers: knowing.map(({ id, running, concurrency }) => ({ id, running, concurrency })) },
      next: ['wait, raise concurrency, or start more workers'],
    },
  )
  const ahead = behind(standing)
  if (ahead.length > 0) return isFull ? [...ahead, full] : ahead
  if (isFull) return [full]
  return [finding('next_in_line', 'nothing is ahead of it and a worker has a free slot: it is about to be claimed')]
}

function behind({ ahead, job }: Standing): Finding[] {
  if (ahead.count === 0) return []
  const number = `${ahead.isExact ? '' : 'more than '}${count(ahead.count, 'job')}`
  return [
    finding('behind', `${number} of ${placeOf(job)} ${ahead.count === 1 ? 'comes' : 'come'} before it`, {
      facts: { ahead: ahead.count, isExact: ahead.isExact },
      next: ['give it a higher priority, or start more workers'],
    }),
  ]
}

function placeOf({ queue, flow }: JobSummary): string {
  return flow === undefined || flow.group === null ? `queue "${queue}"` : `group "${flow.group}"`
}

const ERROR_LENGTH_MAX = 200

function errorText({ error }: JobSummary): string {
  const text = `${error!.name}: ${error!.message}`.replace(/\s+/g, ' ')
  return text.length > ERROR_LENGTH_MAX ? `${text.slice(0, ERROR_LENGTH_MAX)}…` : text
}

function count(number: number, noun: string): string {
  return `${number.toLocaleString('en')} ${noun}${number === 1 ? '' : 's'}`
}

function ago(date: Date | null, nowMs: number): string {
  const ms = date === null ? 0 : nowMs - date.getTime()
  return ms < 1_000 ? 'just now' : `${span(ms)} ago`
}

/** A length of time as people say it. */
function span(ms: number): string {
  if (ms < 1_000) return `${Math.ceil(ms)} ms`
  if (ms < 120_000) return `${Math.round(ms / 1_000)} s`
  if (ms < 7_200_000) return `${Math.round(ms / 60_000)} min`
  if (ms < 172_800_000) return `${Math.round(ms / 3_600_000)} h`
  return `${Math.round(ms / 86_400_000)} days`
}

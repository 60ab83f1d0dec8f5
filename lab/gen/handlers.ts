// The handlers of the generated load: they wait as long as their payload says, fail as often, and apply the effect it names.

import { defineJob } from '../../src/client/define-job.js'
import type { Handler, JobContext, JobDefinition } from '../../src/core/definition.js'
import type { Duration } from '../../src/core/duration.js'
import { type GeneratedPayload, KINDS, type Kind } from './mix.js'

export interface GeneratedOptions {
  readonly queue?: string
  readonly maxAttempts?: number
  readonly timeout?: Duration
  /** The longest wait between two attempts. Default 1 s. */
  readonly backoffCap?: Duration
}

/** Hooks around the work itself, for runs that record or interfere. */
export interface GeneratedHooks {
  /** Before anything else. */
  started?(payload: GeneratedPayload, ctx: JobContext): void | Promise<void>
  /** Applies the payload's effect; with 'in transaction' it settles the job as well. */
  apply?(payload: GeneratedPayload, ctx: JobContext): Promise<void>
  /** After everything else, however it went. */
  ended?(payload: GeneratedPayload, ctx: JobContext): void
  /** Whether the dependency of flapping jobs is down. */
  isDown?(): boolean
}

/** A definition of generated jobs. */
export type GeneratedJob = JobDefinition<GeneratedPayload, GeneratedPayload>

/** The definitions of all kinds, for producers and workers alike. */
export function generatedJobs(options: GeneratedOptions = {}): Record<Kind, GeneratedJob> {
  const { queue = 'gen', maxAttempts = 8, timeout = '5m', backoffCap = '1s' } = options
  const define = (kind: Kind): GeneratedJob => {
    // Poison uses up its attempts soon. Other jobs must outlive every outage of a run.
    const attempts = kind === 'poison' ? 3 : maxAttempts
    const retry = { backoff: 'exponential', base: '100ms', cap: backoffCap } as const
    return defineJob<GeneratedPayload>(kind, { queue, maxAttempts: attempts, timeout, retry })
  }
  return Object.fromEntries(KINDS.map((kind) => [kind, define(kind)])) as Record<Kind, GeneratedJob>
}

/** The handlers of all kinds. */
export function generatedHandlers(options: GeneratedOptions = {}, hooks: GeneratedHooks = {}): Handler[] {
  const jobs = generatedJobs(options)
  return KINDS.map((kind) => jobs[kind].handle((payload, ctx) => watched(payload, ctx, hooks)))
}

async function watched(payload: GeneratedPayload, ctx: JobContext, hooks: GeneratedHooks): Promise<void> {
  try {
    await runGenerated(payload, ctx, hooks)
  } finally {
    hooks.ended?.(payload, ctx)
  }
}

async function runGenerated(payload: GeneratedPayload, ctx: JobContext, hooks: GeneratedHooks): Promise<void> {
  await hooks.started?.(payload, ctx)
  await wait(payload.ms, ctx.signal)
  const isFailing = payload.failures === null || ctx.attempt <= payload.failures
  if (isFailing) throw new Error(`${payload.kind} job ${payload.seq} fails as planned, attempt ${ctx.attempt}`)
  if (payload.kind === 'flapping' && hooks.isDown?.() === true) throw new Error('the dependency is away')
  if (payload.effect !== 'none') await hooks.apply?.(payload, ctx)
}

/** Ends early, with the signal's reason, when the handler's signal fires. */
export function wait(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const abort = () => {
      clearTimeout(timer)
      reject(signal.reason)
    }
    const timer = setTimeout(() => {
      signal.removeEventListener('abort', abort)
      resolve()
    }, ms)
    if (signal.aborted) abort()
    else signal.addEventListener('abort', abort, { once: true })
  })
}

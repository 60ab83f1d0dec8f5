// A producer: enqueues the jobs of a seed at a fixed rate, or as fast as it can, and records its calls and their answers. With a
// rate, a call that begins late because earlier ones are slow counts from the time it was due.

import type { EnqueueOptions } from '../../src/client/enqueue-options.js'
import { type ErrorCode, isHoldfastError } from '../../src/core/errors.js'
import type { GeneratedJob } from './handlers.js'
import type { GeneratedPayload } from './mix.js'
import type { Recorder } from './recorder.js'

/** One call a producer makes. */
export interface Call {
  readonly job: GeneratedJob
  readonly payload: GeneratedPayload
  readonly options: EnqueueOptions
}

export interface ProduceOptions {
  /** The calls to make, by number; null ends it. */
  readonly callAt: (seq: number) => Call | null
  /** Calls each second; null for as fast as `callers` can. */
  readonly perSecond: number | null
  /** From this call on, so many each second instead. */
  readonly afterwards?: { readonly seq: number; readonly perSecond: number }
  /** How many calls are in flight without a rate; the maximum with one. */
  readonly callers: number
  readonly recorder: Recorder | null
  readonly signal?: AbortSignal
  /** Called for each answer. */
  readonly onAnswer?: (call: Call, id: string | null) => void
}

export interface Produced {
  readonly asked: number
  readonly accepted: number
  readonly refused: number
  readonly unknown: number
  readonly tookMs: number
  /** Milliseconds from the time each call was due to its answer. */
  readonly latenciesMs: readonly number[]
}

/** Whom calls are made to. */
export interface Target {
  enqueue(
    job: GeneratedJob,
    payload: GeneratedPayload,
    options: EnqueueOptions,
  ): Promise<{ readonly id: string; readonly created: boolean }>
}

const LOOK_MS = 500

// With these codes nothing was sent. Any other answer of the store may follow a try whose answer was lost.
const REFUSALS: readonly ErrorCode[] = [
  'invalid_option',
  'invalid_payload',
  'payload_too_large',
  'unknown_parent',
  'buffer_full',
]

/** Makes the calls and resolves when the last of them has ended. */
export async function produce(target: Target, options: ProduceOptions): Promise<Produced> {
  const { callAt, callers, signal } = options
  const counts = { asked: 0, accepted: 0, refused: 0, unknown: 0 }
  const latenciesMs: number[] = []
  const began = performance.now()
  let seq = 0
  const caller = async (): Promise<void> => {
    for (;;) {
      const own = seq
      const call = signal?.aborted === true ? null : callAt(own)
      if (call === null) return
      seq++
      const dueMs = dueOf(own, began, options)
      await untilDue(dueMs, signal)
      if (signal?.aborted === true) return
      counts.asked++
      counts[await ask(target, call, options)]++
      latenciesMs.push(performance.now() - dueMs)
    }
  }
  await Promise.all(Array.from({ length: callers }, caller))
  return { ...counts, tookMs: performance.now() - began, latenciesMs }
}

/** When a call is due; now where there is no rate. */
function dueOf(seq: number, began: number, { perSecond, afterwards }: ProduceOptions): number {
  if (perSecond === null) return performance.now()
  if (afterwards === undefined || seq <= afterwards.seq) return began + (seq * 1_000) / perSecond
  return began + (afterwards.seq * 1_000) / perSecond + ((seq - afterwards.seq) * 1_000) / afterwards.perSecond
}

/** Waits, and looks now and then whether it is all over. */
async function untilDue(dueMs: number, signal: AbortSignal | undefined): Promise<void> {
  for (;;) {
    const waitMs = dueMs - performance.now()
    if (waitMs <= 1 || signal?.aborted === true) return
    await new Promise((resolve) => setTimeout(resolve, Math.min(waitMs, LOOK_MS)))
  }
}

async function ask(
  target: Target,
  call: Call,
  { recorder, onAnswer }: ProduceOptions,
): Promise<'accepted' | 'refused' | 'unknown'> {
  const { key } = call.payload
  const { idempotencyKey } = call.options
  const ownKey = typeof idempotencyKey === 'object' ? idempotencyKey.key : (idempotencyKey ?? null)
  recorder?.write({ ev: 'enqueue.invoke', key, idempotencyKey: ownKey })
  try {
    const { id, created } = await target.enqueue(call.job, call.payload, call.options)
    recorder?.write({ ev: 'enqueue.ok', key, job: id, created })
    onAnswer?.(call, id)
    return 'accepted'
  } catch (error) {
    const isUnknown = !isHoldfastError(error) || !REFUSALS.includes(error.code)
    // A server whose memory is full says so to the caller of an enqueue immediately: only somebody who acts can help.
    const isFull = isHoldfastError(error, 'store_refused') && error.details.redisError === 'OOM'
    const isRefused = isHoldfastError(error, 'store_refused') && !isFull ? { isRefused: true } : {}
    recorder?.write({ ev: isUnknown ? 'enqueue.info' : 'enqueue.fail', key, job: null, ...isRefused })
    onAnswer?.(call, null)
    return isUnknown ? 'unknown' : 'refused'
  }
}

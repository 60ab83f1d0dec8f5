// Makes the job of one enqueue: the terms of its definition, the checked payload, the id. ◄── client.ts · next: ../core/job.ts

import { checkName } from '../core/check.js'
import type { JobDefinition } from '../core/definition.js'
import { HoldfastError, show } from '../core/errors.js'
import type { NewJob } from '../core/job.js'
import { encodeFor } from '../core/payload.js'
import { DEFAULT_QUEUE } from './define-job.js'
import { checkTraceparent, type EnqueueOptions, type JobTerms, withOptions } from './enqueue-options.js'
import { resolveFlow, withFlow } from './flow-options.js'
import type { NextId } from './job-ids.js'

/** What to run: a definition, or the type alone where the producer does not have the definition. */
export type JobTarget = JobDefinition | string

/** What preparing needs from the client. */
export interface Preparation {
  readonly nextId: NextId
  readonly payloadBytesMax: number
  /** The W3C trace context of the call, kept with its jobs; null without a tracer. */
  readonly trace: string | null
}

/** The job as the store takes it; raises for a payload or an option that does not fit. A promise only when the schema
 *  answers with one. */
export function prepareJob(
  preparation: Preparation,
  target: JobTarget,
  payload: unknown,
  options: EnqueueOptions | undefined,
): NewJob | Promise<NewJob> {
  const starting = startingTerms(target)
  const terms = options === undefined ? starting : withOptions(starting, options)
  const trace = options?.traceparent === undefined ? preparation.trace : checkTraceparent(options.traceparent)
  const text = encodeChecked(target, payload, preparation.payloadBytesMax)
  const flow = resolveFlow(definitionOf(target), options, payload)
  const nextId = () => preparation.nextId(terms, flow, options)
  const make = (checked: string) => withFlow(makeJob(nextId(), terms, checked, trace), terms, flow)
  return typeof text === 'string' ? make(text) : text.then(make)
}

// Field by field: a spread cost a quarter of an enqueue here, and made objects that the store reads more slowly.
function makeJob(id: string, terms: JobTerms, payload: string, trace: string | null): NewJob {
  return {
    id,
    queue: terms.queue,
    type: terms.type,
    payload,
    version: terms.version,
    priority: terms.priority,
    when: terms.when,
    limits: terms.limits,
    idempotencyKey: terms.idempotencyKey,
    after: terms.after,
    onParentDead: terms.onParentDead,
    tags: terms.tags,
    trace,
  }
}

/** The payload as JSON text, checked against its definition's schema. */
export function encodeChecked(target: JobTarget, payload: unknown, bytesMax: number): string | Promise<string> {
  const definition = definitionOf(target)
  return encodeFor(definition, definition?.type ?? (target as string), payload, bytesMax)
}

const NO_LIMITS: JobTerms['limits'] = Object.freeze({})
const NONE: readonly string[] = Object.freeze([])

/** The terms of a job whose enqueue has no options: those of its definition, or the defaults. */
export function startingTerms(target: JobTarget): JobTerms {
  const definition = definitionOf(target)
  return {
    queue: definition?.queue ?? DEFAULT_QUEUE,
    type: definition?.type ?? checkName('type', target),
    version: definition?.version ?? 1,
    priority: definition?.priority ?? 0,
    lifo: definition?.lifo,
    when: null,
    // Kept with the job, so that a process that does not know the definition can rescue it by the same rules.
    limits: definition?.limits ?? NO_LIMITS,
    idempotencyKey: null,
    after: NONE,
    onParentDead: 'cancel',
    tags: definition?.tags ?? NONE,
  }
}

/** The definition, or null for a bare type. Raises `invalid_option` for anything else. */
function definitionOf(target: JobTarget): JobDefinition | null {
  if (typeof target === 'string') return null
  if (typeof target === 'object' && target !== null && typeof target.handle === 'function') return target
  throw new HoldfastError('invalid_option', `a job must be given by defineJob(…) or by its type, got ${show(target)}`)
}

// Jobs as OpenTelemetry spans. One trace runs from the enqueue through the wait to the run, and on to the jobs that the run
// enqueues; between processes it travels with the job, as a W3C traceparent.
//
// Spans say which job of which type and queue, never what is in it: no payload, no result, no message of an error.

import {
  type Attributes,
  type Context,
  context,
  ROOT_CONTEXT,
  type Span,
  SpanKind,
  SpanStatusCode,
  type Tracer,
  trace,
} from '@opentelemetry/api'
import { checkKeys } from '../core/check.js'
import type { JobContext } from '../core/definition.js'
import type { ClaimedJob } from '../core/job.js'
import type { JobTracer, TracedAnswer, TracedEnd, TracedEnqueue } from '../core/tracer.js'
import { VERSION } from '../version.js'
import { currentJob } from '../worker/current-job.js'
import { readTraceparent, writeTraceparent } from './traceparent.js'

/** How spans are made. */
export interface OpenTelemetryOptions {
  /** Makes the spans. Default the one named `holdfast` of the registered provider. */
  readonly tracer?: Tracer
}

/**
 * A tracer for `connect(url, { tracer })`. Needs an SDK that is registered, or a tracer of its own; without either it costs
 * little and does nothing.
 */
export function openTelemetry(options: OpenTelemetryOptions = {}): JobTracer {
  checkKeys('openTelemetry', options, ['tracer'])
  return new OpenTelemetryTracer(options.tracer ?? trace.getTracer('holdfast', VERSION))
}

class OpenTelemetryTracer implements JobTracer {
  readonly #tracer: Tracer
  /** The spans of runs that have not ended, by the job as it was claimed. */
  readonly #runs = new WeakMap<ClaimedJob, Span>()
  /** The same by what handlers are given, for what they enqueue. */
  readonly #contexts = new WeakMap<JobContext, Context>()

  constructor(tracer: Tracer) {
    this.#tracer = tracer
  }

  async enqueue<Answer extends TracedAnswer>(
    call: TracedEnqueue,
    write: (trace: string | null) => Promise<Answer>,
  ): Promise<Answer> {
    const attributes = { ...attributesOf(call, 'send'), 'messaging.batch.message_count': call.count }
    const parent = this.#parent()
    const options = { kind: SpanKind.PRODUCER, attributes }
    const span = this.#tracer.startSpan(`enqueue ${call.type ?? 'jobs'}`, options, parent)
    try {
      const answer = await context.with(trace.setSpan(parent, span), () => write(writeTraceparent(span.spanContext())))
      span.setAttributes(answerAttributes(answer))
      return answer
    } catch (error) {
      fail(span, nameOf(error))
      throw error
    } finally {
      span.end()
    }
  }

  run<Returned>(
    job: ClaimedJob,
    about: { readonly context: JobContext; readonly waitMs: number | null },
    run: () => Returned,
  ): Returned {
    // Not the active context: that is the context of the code that started the worker.
    const parent = readTraceparent(job.trace) ?? ROOT_CONTEXT
    const startMs = Date.now()
    const attributes = { ...attributesOf(job, 'process'), ...jobAttributes(job) }
    if (about.waitMs !== null && trace.getSpan(parent) !== undefined) {
      const wait = {
        startTime: startMs - about.waitMs,
        attributes: { ...attributesOf(job, 'receive'), ...jobAttributes(job) },
      }
      this.#tracer.startSpan(`wait ${job.type}`, wait, parent).end(startMs)
    }
    const span = this.#tracer.startSpan(
      `run ${job.type}`,
      { kind: SpanKind.CONSUMER, startTime: startMs, attributes },
      parent,
    )
    const active = trace.setSpan(parent, span)
    this.#runs.set(job, span)
    this.#contexts.set(about.context, active)
    return context.with(active, run)
  }

  ended(job: ClaimedJob, { outcome, errorName }: TracedEnd): void {
    const span = this.#runs.get(job)
    if (span === undefined) return
    this.#runs.delete(job)
    span.setAttribute('holdfast.outcome', outcome)
    if (errorName !== null) fail(span, errorName)
    span.end()
  }

  // A handler's jobs belong to its run, also where no context manager carries the active span.
  #parent(): Context {
    const active = context.active()
    if (trace.getSpan(active) !== undefined) return active
    const job = currentJob()
    if (job === null) return active
    // In a child the run itself is traced by its host: there the job's own trace goes on.
    return this.#contexts.get(job) ?? readTraceparent(job.trace) ?? active
  }
}

/** By the conventions for messaging, so that other people's dashboards know what they see. */
function attributesOf({ type, queue }: Pick<TracedEnqueue, 'type' | 'queue'>, operation: string): Attributes {
  return {
    'messaging.system': 'holdfast',
    'messaging.operation.type': operation,
    ...(queue === null ? {} : { 'messaging.destination.name': queue }),
    ...(type === null ? {} : { 'holdfast.type': type }),
  }
}

function jobAttributes({ id, attempt, priority }: ClaimedJob): Attributes {
  return { 'messaging.message.id': id, 'holdfast.attempt': attempt, 'holdfast.priority': priority }
}

function answerAttributes(answer: TracedAnswer): Attributes {
  if ('id' in answer) return { 'messaging.message.id': answer.id, 'holdfast.created': answer.created }
  return { 'holdfast.created_count': answer.filter(({ created }) => created).length }
}

function fail(span: Span, errorName: string): void {
  span.setStatus({ code: SpanStatusCode.ERROR })
  span.setAttribute('error.type', errorName)
}

function nameOf(error: unknown): string {
  const { code, name } = (error ?? {}) as { code?: unknown; name?: unknown }
  return typeof code === 'string' ? code : typeof name === 'string' ? name : 'Error'
}

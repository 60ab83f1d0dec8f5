// The W3C trace context that is kept with a job: `00-<trace>-<span>-<flags>`.

import {
  type Context,
  isSpanContextValid,
  ROOT_CONTEXT,
  type SpanContext,
  type TraceFlags,
  trace,
} from '@opentelemetry/api'

const TRACEPARENT = /^(?!ff)[0-9a-f]{2}-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})/

/** The text for a span, or null for one that belongs to no trace. */
export function writeTraceparent(span: SpanContext): string | null {
  if (!isSpanContextValid(span)) return null
  return `00-${span.traceId}-${span.spanId}-${span.traceFlags.toString(16).padStart(2, '0')}`
}

/** A context whose span is the one of the text, or null when there is none to read: a job may come from anywhere. */
export function readTraceparent(text: string | null): Context | null {
  const [, traceId, spanId, flags] = (text === null ? null : TRACEPARENT.exec(text)) ?? []
  if (traceId === undefined || spanId === undefined || flags === undefined) return null
  const traceFlags: TraceFlags = Number.parseInt(flags, 16) & 1
  const span: SpanContext = { traceId, spanId, traceFlags, isRemote: true }
  return isSpanContextValid(span) ? trace.setSpanContext(ROOT_CONTEXT, span) : null
}

// Routes about the system itself: health, metrics, workers, warnings, events, the audit log.

import { checkChoice, checkName } from '../../core/check.js'
import { VERSION } from '../../version.js'
import { isFor, STREAM_EVENTS, type StreamEvent } from '../live.js'
import { Refusal } from '../problem.js'
import { json, type Route, type RouteRequest, route } from '../route.js'
import * as shapes from '../schemas/operating.js'
import { showOutbox, showWorker } from '../show.js'
import { can, chosenQueue, demandAllQueues, maySee } from '../who.js'

async function metrics({ context: { settings }, who }: RouteRequest): Promise<Response> {
  demandAllQueues(who, 'metrics')
  if (settings.metrics === null)
    throw new Refusal(404, 'not_found', 'this server serves no metrics: see the option `metrics`')
  const text = await settings.metrics.render()
  return new Response(text, { headers: { 'content-type': settings.metrics.contentType } })
}

/** The events of a list such as 'overview,warning'; null for all. */
function readNames(names: string | undefined): ReadonlySet<StreamEvent> | null {
  if (names === undefined) return null
  return new Set(names.split(',').map((name) => checkChoice('query.names', name, STREAM_EVENTS)))
}

// A proxy that buffers the answer would delay events.
const STREAM_HEADERS = { 'content-type': 'text/event-stream', 'x-accel-buffering': 'no' }

async function events({
  context,
  who,
  http,
  origin,
  query,
}: RouteRequest<unknown, shapes.EventsQuery>): Promise<Response> {
  // A stream for a HEAD request would never be read, nor closed.
  if (http.method === 'HEAD') return new Response(null, { headers: STREAM_HEADERS })
  const readable = context.live.follow(who, {
    address: origin.client ?? 'unknown',
    signal: http.signal,
    lastEventId: http.headers.get('last-event-id'),
    names: readNames(query.names),
    queue: query.queue === undefined ? null : chosenQueue(who, checkName('queue', query.queue))!,
    isWelcome: async () => {
      const known = await context.gate.recheck(http, origin)
      return known !== null && can(known, 'read')
    },
  })
  return new Response(readable, { headers: STREAM_HEADERS })
}

const probes: readonly Route[] = [
  route('GET /healthz', {
    name: 'healthz',
    summary: 'Whether this process is alive',
    answers: { 200: { description: 'It does', schema: shapes.ok } },
    answer: async () => json({ status: 'ok' }),
  }),
  route('GET /readyz', {
    name: 'readyz',
    summary: 'Whether the store answers',
    answers: { 200: { description: 'It does', schema: shapes.ok } },
    answer: async ({ context }) => {
      await context.facts.ready()
      return json({ status: 'ok' })
    },
  }),
  route('GET /openapi.json', {
    name: 'openApi',
    summary: 'This document',
    answers: { 200: { description: 'OpenAPI 3.1', schema: shapes.document } },
    answer: async ({ context, origin }) =>
      new Response(context.openApi(origin.basePath), { headers: { 'content-type': 'application/json' } }),
  }),
]

export const systemRoutes: readonly Route[] = [
  ...probes,
  route('GET /metrics', {
    name: 'metrics',
    summary: 'Metrics for Prometheus',
    answers: { 200: { description: 'Text', schema: null, contentType: 'text/plain' } },
    answer: metrics,
  }),
  route('GET /v1/workers', {
    name: 'listWorkers',
    summary: 'The workers of every process',
    answers: { 200: { description: 'By id', schema: shapes.workers } },
    answer: async ({ context, holdfast, who }) => {
      const workers = await holdfast.workers()
      const nowMs = await context.facts.nowMs()
      const seen = workers.filter(({ queues }) => queues.some((queue) => maySee(who, queue)))
      return json({ workers: seen.map((worker) => showWorker(worker, who, nowMs)) })
    },
  }),
  route('GET /v1/audit', {
    name: 'audit',
    summary: 'Who changed what, newest first',
    query: shapes.auditQuery,
    isCostly: true,
    answers: { 200: { description: 'A page of it', schema: shapes.audit } },
    answer: async ({ holdfast, who, query }) => {
      demandAllQueues(who, 'the audit log')
      return json(await holdfast.audit(query as Parameters<typeof holdfast.audit>[0]))
    },
  }),
  route('GET /v1/warnings', {
    name: 'warnings',
    summary: 'Warnings for operators',
    answers: { 200: { description: 'The worst first', schema: shapes.warnings } },
    answer: async ({ context, who }) => {
      const warnings = await context.warnings.read()
      return json({ warnings: warnings.filter((warning) => isFor(warning, who)) })
    },
  }),
  route('GET /v1/outbox', {
    name: 'outbox',
    summary: 'What waits in the outbox, and for how long',
    answers: { 200: { description: 'The figures; null for a store without an outbox', schema: shapes.outbox } },
    answer: async ({ context, who }) => {
      demandAllQueues(who, 'the outbox')
      return json({ outbox: showOutbox(await context.facts.outbox()) })
    },
  }),
  route('GET /v1/events', {
    name: 'events',
    summary: 'Changes as server-sent events: overview, warning, bulk, limits',
    query: shapes.eventsQuery,
    answers: { 200: { description: 'The stream', schema: null, contentType: 'text/event-stream' } },
    answer: events,
  }),
  route('GET /v1/me', {
    name: 'me',
    summary: 'The caller and the server',
    answers: { 200: { description: 'The caller', schema: shapes.me } },
    answer: async ({ context: { settings, facts }, who: { name, scopes, queues, via } }) => {
      const { environment, readOnly } = settings
      const { kind, outbox } = await facts.health()
      const store = { store: kind, outbox: outbox !== undefined }
      return json({ name, scopes, queues, via, environment, version: VERSION, ...store, readOnly })
    },
  }),
]

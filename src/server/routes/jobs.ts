// Routes about single jobs and lists of them.

import type { Client } from '../../client/client.js'
import { type EnqueueOptions, isTraceparent } from '../../client/enqueue-options.js'
import type { UpdateOptions } from '../../client/job-actions.js'
import type { JobList, ListOptions } from '../../client/look.js'
import type { JobTarget } from '../../client/prepare.js'
import { HoldfastError } from '../../core/errors.js'
import { given } from '../../core/given.js'
import { BATCH_MAX } from '../../core/job-store.js'
import type { JobView } from '../../core/views.js'
import { PERMISSIONS } from '../permissions.js'
import { type Answer, json, type Route, type RouteRequest, route } from '../route.js'
import { idParams } from '../schemas/basics.js'
import { jobFlowView } from '../schemas/flow.js'
import * as shapes from '../schemas/jobs.js'
import { openCursor, sealCursor } from '../sealed-cursor.js'
import { showJob, showJobFlow } from '../show.js'
import { demand, demandQueue, maySee, type Who } from '../who.js'
import { checkNamedLimits } from './flow.js'

const DEFAULT_QUEUE = 'default'

const one = { params: idParams, body: shapes.nothing } as const
const enqueuedAnswers = {
  201: { description: 'A new job', schema: shapes.enqueued },
  200: { description: 'The existing job with the same idempotency key', schema: shapes.enqueued },
}

/** The job, if the caller may see it. Otherwise the answer is that of a job that does not exist. */
export async function visibleJob(request: RouteRequest, id: string): Promise<JobView> {
  // Visibility first, so that another caller's job takes as long as one that does not exist.
  await checkVisible(request, id)
  const job = await request.holdfast.get(id)
  if (job !== null && maySee(request.who, job.queue)) return job
  throw missing(id)
}

function missing(id: string): HoldfastError {
  return new HoldfastError('job_not_found', `there is no job ${id}: it never existed, or was pruned`, {
    details: { id },
  })
}

/** Raises `job_not_found` when the caller may not see the job. Costs nothing for callers who see all queues. */
async function checkVisible({ holdfast, who }: RouteRequest, id: string): Promise<void> {
  if (who.queues === null) return
  if ((await holdfast.among([id], who.queues)).length === 0) throw missing(id)
}

/** Raises `unknown_parent` for a parent that the caller may not see, as for one that does not exist. */
async function checkParents(
  { holdfast, who }: RouteRequest,
  bodies: readonly Pick<shapes.NewJobBody, 'after'>[],
): Promise<void> {
  if (who.queues === null) return
  const ids = [...new Set(bodies.flatMap(({ after = [] }) => after))]
  for (let at = 0; at < ids.length; at += BATCH_MAX) {
    const some = ids.slice(at, at + BATCH_MAX)
    const known = new Set(await holdfast.among(some, who.queues))
    const parent = some.find((id) => !known.has(id))
    if (parent === undefined) continue
    throw new HoldfastError(
      'unknown_parent',
      `nothing was enqueued: job ${parent} does not exist, and one was to come after it`,
      {
        details: { parent },
      },
    )
  }
}

/** A job of a request, as part of the request's trace. */
function splitNewJob(body: shapes.NewJobBody, http: Request): [string, unknown, EnqueueOptions] {
  const { type, payload, ...options } = body
  const traceparent = http.headers.get('traceparent')
  // The standard says to ignore an invalid one.
  const trace = isTraceparent(traceparent) ? { traceparent } : {}
  return [type, payload, { ...(options as unknown as EnqueueOptions), ...trace }]
}

async function requeueOne(request: RouteRequest<{ id: string }>): Promise<Answer<shapes.Requeued>> {
  const { holdfast, params, who } = request
  await checkVisible(request, params.id)
  const { id, requeues } = await holdfast.requeue(params.id, { by: who.actor })
  return json({ id, state: 'ready', requeues })
}

async function cloneJob(
  request: RouteRequest<{ id: string }, unknown, shapes.CloneBody>,
): Promise<Answer<shapes.Enqueued>> {
  const { holdfast, who, params, body } = request
  const job = await visibleJob(request, params.id)
  const { payload = job.payload, ...options } = body
  demandQueue(who, options.queue ?? job.queue)
  await checkParents(request, [body])
  await checkNamedLimits(request, [body])
  await request.context.newQueues.open(who, [options.queue ?? job.queue])
  // A definition made from the job. It keeps the payload's version; an enqueue by type alone would not.
  const target: JobTarget = {
    type: job.type,
    queue: job.queue,
    priority: job.priority,
    limits: { maxAttempts: job.maxAttempts },
    tags: job.tags,
    version: job.version,
    schema: null,
    output: null,
    upgrades: new Map(),
    isolate: null,
    flow: job.flow === undefined ? null : { ...job.flow, own: null },
    retryable: null,
    onRetry: null,
    onDead: null,
    handle: (run) => ({ definition: target as never, run: run as never }),
    handleBatch: () => {
      throw new HoldfastError('unsupported', 'a clone has no handler')
    },
  }
  const result = await holdfast.enqueue(target, payload, options as unknown as EnqueueOptions)
  await holdfast.record({ action: 'clone', job: job.id, target: result.id }, { by: who.actor })
  return json(result, result.created ? 201 : 200)
}

async function revealPayload(request: RouteRequest<{ id: string }>): Promise<Response> {
  const job = await visibleJob(request, request.params.id)
  // Recorded first: a reveal without a record is worse than a record without a reveal.
  await request.holdfast.record({ action: 'reveal payload', job: job.id }, { by: request.who.actor })
  return new Response(JSON.stringify(job.payload), {
    headers: {
      // Never a type that a browser would show: the content is not trusted.
      'content-type': 'application/octet-stream',
      'content-disposition': `attachment; filename="job-${job.id}.json"`,
    },
  })
}

/** A page of jobs. A caller limited to some queues must learn nothing about others: its cursor is encrypted, and how much was
 *  searched is left out. */
async function listFor(
  who: Who,
  holdfast: Client,
  options: ListOptions,
): Promise<Omit<JobList, 'searched'> & { searched: number | null }> {
  if (who.queues === null) return holdfast.list(options)
  const at = options.cursor == null ? null : await openCursor(holdfast, who, options.cursor)
  const { jobs, cursor } = await holdfast.list({ ...options, cursor: at })
  const next = cursor === null ? null : await sealCursor(holdfast, who, cursor)
  return { jobs, cursor: next, searched: null, searchedTo: null }
}

const reading: readonly Route[] = [
  route('GET /v1/jobs', {
    name: 'listJobs',
    summary: 'A page of jobs, newest first',
    query: shapes.listQuery,
    isCostly: true,
    answers: { 200: { description: 'The page', schema: shapes.jobPage } },
    answer: async ({ context, holdfast, who, http: { signal }, query: { filter, limit, cursor } }) => {
      const options = { filter: await context.filters.read(who, filter), signal, ...given({ limit, cursor }) }
      return json(await listFor(who, holdfast, options))
    },
  }),
  route('GET /v1/jobs/count', {
    name: 'countJobs',
    summary: 'How many jobs match',
    query: shapes.countQuery,
    isCostly: true,
    answers: { 200: { description: 'The count', schema: shapes.count } },
    answer: async ({ context, holdfast, who, http: { signal }, query: { filter, max } }) => {
      const options = { filter: await context.filters.read(who, filter), signal, ...given({ max }) }
      const { count, isExact } = await holdfast.count(options)
      return json({ count, exact: isExact })
    },
  }),
  route('GET /v1/jobs/{id}', {
    name: 'getJob',
    summary: 'Everything about one job',
    params: idParams,
    answers: { 200: { description: 'The job', schema: shapes.job } },
    answer: async (request) =>
      json(showJob(await visibleJob(request, request.params.id), request.who, request.context.settings.redact)),
  }),
  route('GET /v1/jobs/{id}/flow', {
    name: 'jobFlow',
    summary: "A job's group with the jobs around it, and its limits",
    isCostly: true,
    params: idParams,
    answers: { 200: { description: 'What flow control knows about it', schema: jobFlowView } },
    answer: async (request) => {
      await checkVisible(request, request.params.id)
      return json(showJobFlow(await request.holdfast.jobFlow(request.params.id), request.who))
    },
  }),
  route('GET /v1/jobs/{id}/payload', {
    name: 'revealPayload',
    summary: 'The payload as it is; recorded in the audit',
    params: idParams,
    answers: { 200: { description: 'JSON', schema: null, contentType: 'application/octet-stream' } },
    answer: revealPayload,
  }),
  route('GET /v1/jobs/{id}/explain', {
    name: 'explainJob',
    summary: 'Why a job is in its state, and what to do about it',
    isCostly: true,
    params: idParams,
    answers: { 200: { description: 'The reasons', schema: shapes.explanation } },
    answer: async (request) => {
      await checkVisible(request, request.params.id)
      return json(await request.holdfast.explain(request.params.id, { queues: request.who.queues }))
    },
  }),
]

const enqueueing: readonly Route[] = [
  route('POST /v1/jobs', {
    name: 'enqueue',
    summary: 'Enqueues a job; durable when answered',
    body: shapes.newJob,
    answers: enqueuedAnswers,
    answer: async (request) => {
      const { holdfast, who, body, http } = request
      demandQueue(who, body.queue ?? DEFAULT_QUEUE)
      await checkParents(request, [body])
      await checkNamedLimits(request, [body])
      await request.context.newQueues.open(who, [body.queue ?? DEFAULT_QUEUE])
      const [type, payload, options] = splitNewJob(body, http)
      // Nobody waits for room on behalf of a caller who has left.
      const patience = body.onFull === 'wait' ? { signal: http.signal } : {}
      const result = await holdfast.enqueue(type, payload, { ...options, ...patience })
      return json(result, result.created ? 201 : 200)
    },
  }),
  route('POST /v1/jobs/batch', {
    name: 'enqueueMany',
    summary: 'Enqueues up to 5,000 jobs in one transaction',
    body: shapes.newJobs,
    isBatch: true,
    answers: { 200: { description: 'The result for each, in order', schema: shapes.enqueuedMany } },
    answer: async (request) => {
      const { holdfast, who, body, http } = request
      for (const { queue } of body.jobs) demandQueue(who, queue ?? DEFAULT_QUEUE)
      await checkParents(request, body.jobs)
      await checkNamedLimits(request, body.jobs)
      await request.context.newQueues.open(
        who,
        body.jobs.map(({ queue }) => queue ?? DEFAULT_QUEUE),
      )
      return json({ jobs: await holdfast.enqueueMany(body.jobs.map((job) => splitNewJob(job, http))) })
    },
  }),
  route('POST /v1/jobs/{id}/clone', {
    name: 'cloneJob',
    summary: 'Enqueues a new job made from this one',
    params: idParams,
    body: shapes.clone,
    answers: enqueuedAnswers,
    answer: cloneJob,
  }),
]

const changing: readonly Route[] = [
  route('POST /v1/jobs/{id}/cancel', {
    ...one,
    name: 'cancelJob',
    summary: 'Cancels a job; a running one is asked to stop',
    answers: { 200: { description: 'Cancelled, or its worker is asked', schema: shapes.cancelled } },
    answer: async (request) => {
      await checkVisible(request, request.params.id)
      return json(await request.holdfast.cancel(request.params.id, { by: request.who.actor }))
    },
  }),
  route('POST /v1/jobs/{id}/signals', {
    name: 'signalJob',
    summary: 'Sends a signal to a job that waits for it, or will',
    params: idParams,
    body: shapes.signalBody,
    answers: { 200: { description: 'It is kept with the job', schema: shapes.signalSent } },
    answer: async (request) => {
      const { holdfast, params, body, who } = request
      await checkVisible(request, params.id)
      const { name, value = null, key } = body
      return json(await holdfast.signal(params.id, name, value, { by: who.actor, ...given({ key }) }))
    },
  }),
  route('POST /v1/jobs/{id}/requeue', {
    ...one,
    name: 'requeueJob',
    summary: 'Requeues a dead job',
    answers: { 200: { description: 'It is ready', schema: shapes.requeued } },
    answer: requeueOne,
  }),
  route('POST /dlq/{id}/requeue', {
    ...one,
    name: 'requeueDead',
    summary: 'Requeues a dead job',
    answers: { 200: { description: 'It is ready', schema: shapes.requeued } },
    answer: requeueOne,
  }),
  route('POST /v1/jobs/{id}/discard', {
    ...one,
    name: 'discardJob',
    summary: 'Removes a dead job from the dead letters',
    answers: { 200: { description: 'It is cancelled', schema: shapes.moved } },
    answer: async (request) => {
      await checkVisible(request, request.params.id)
      await request.holdfast.discard(request.params.id, { by: request.who.actor })
      return json({ id: request.params.id, state: 'cancelled' })
    },
  }),
  route('DELETE /v1/jobs/{id}', {
    name: 'deleteJob',
    summary: 'Deletes a job with everything that is known of it',
    params: idParams,
    query: shapes.deleteQuery,
    answers: { 200: { description: 'Deleted, or its worker is asked to stop it', schema: shapes.deleted } },
    answer: async (request) => {
      const { holdfast, params, query, who } = request
      await checkVisible(request, params.id)
      const { id, result } = await holdfast.delete(params.id, { by: who.actor, cancel: query.cancel === 'true' })
      if (result === 'missing') throw missing(id)
      return json({ id, result })
    },
  }),
  route('POST /v1/jobs/{id}/run', {
    ...one,
    name: 'runJob',
    summary: 'Makes a job due now',
    answers: { 200: { description: 'The state it is in', schema: shapes.moved } },
    answer: (request) => updateJob(request, { runAt: null }),
  }),
  route('PATCH /v1/jobs/{id}', {
    ...one,
    name: 'updateJob',
    summary: 'Changes the priority, time or payload of a job that waits',
    body: shapes.changes,
    answers: { 200: { description: 'The state it is in', schema: shapes.moved } },
    answer: (request) => {
      const changes = request.body as UpdateOptions
      if (changes.payload !== undefined) for (const scope of PERMISSIONS.changePayload) demand(request.who, scope)
      return updateJob(request, changes)
    },
  }),
]

async function updateJob(request: RouteRequest<{ id: string }>, changes: UpdateOptions): Promise<Answer<shapes.Moved>> {
  await checkVisible(request, request.params.id)
  const { id, state } = await request.holdfast.update(request.params.id, changes, { by: request.who.actor })
  return json({ id, state })
}

export const jobRoutes: readonly Route[] = [...reading, ...enqueueing, ...changing]

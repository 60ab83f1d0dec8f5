// Routes about single jobs and lists of them.

import { type EnqueueOptions, isTraceparent, type JobTarget } from '../../client/enqueue-options.js'
import type { UpdateOptions } from '../../client/operate.js'
import { HoldfastError } from '../../core/errors.js'
import { readFilter } from '../../core/filter.js'
import { narrowQueues } from '../../core/filter-match.js'
import type { JobFilter, JobView } from '../../core/job.js'
import { Refusal } from '../problem.js'
import { type Ask, json, type Route, route } from '../route.js'
import { idParams } from '../schemas/basics.js'
import * as shapes from '../schemas/jobs.js'
import { showJob } from '../show.js'
import { can, demandQueue, maySee, type Who } from '../who.js'

const DEFAULT_QUEUE = 'default'
/** No job has it. */
const NOBODY = '00000000-0000-7000-8000-000000000000'

const one = { params: idParams, method: 'POST', needs: 'operate', body: shapes.nothing } as const
const enqueuedAnswers = {
  201: { description: 'A new job', schema: shapes.enqueued },
  200: { description: 'The idempotency key was taken: the job that has it', schema: shapes.enqueued },
}

/** The filter of a request, kept to what they may see. */
export function filterFor(who: Who, filter: unknown): JobFilter {
  const read = readFilter(filter ?? '')
  if (read.payload !== undefined && !can(who, 'read:payload')) {
    throw new Refusal(
      403,
      'forbidden',
      "a filter on payloads needs the scope 'read:payload': it would tell what is in them",
    )
  }
  if (who.queues === null) return read
  const narrowed = narrowQueues(read, who.queues)
  // None of their queues: a filter that names none would not be taken for one.
  return narrowed.queues?.length === 0 ? { queues: who.queues, ids: [NOBODY] } : narrowed
}

/** The job, for those who may see it. To others it is as if it did not exist. */
async function visibleJob({ holdfast, who }: Ask, id: string): Promise<JobView> {
  const job = await holdfast.get(id)
  if (job !== null && maySee(who, job.queue)) return job
  throw new HoldfastError('job_not_found', `there is no job ${id}: it never existed, or was pruned`, {
    details: { id },
  })
}

/** Raises as for a job that does not exist when it is not theirs. Costs nothing for those who see all queues. */
async function checkVisible(ask: Ask, id: string): Promise<void> {
  if (ask.who.queues !== null) await visibleJob(ask, id)
}

/** A job of a request, in the trace the request is part of. */
function splitNewJob(body: shapes.NewJobBody, request: Request): [string, unknown, EnqueueOptions] {
  const { type, payload, ...options } = body
  const traceparent = request.headers.get('traceparent')
  // One that cannot be read is as if there were none: that is what the standard asks for.
  const trace = isTraceparent(traceparent) ? { traceparent } : {}
  return [type, payload, { ...(options as unknown as EnqueueOptions), ...trace }]
}

async function requeueOne(ask: Ask<{ id: string }>): Promise<Response> {
  const { holdfast, params, who } = ask
  await checkVisible(ask, params.id)
  const { id, replay } = await holdfast.requeue(params.id, { by: who.actor })
  return json({ id, state: 'ready', replay })
}

async function cloneJob(ask: Ask<{ id: string }, unknown, shapes.CloneBody>): Promise<Response> {
  const { holdfast, who, params, body } = ask
  const job = await visibleJob(ask, params.id)
  const { payload = job.payload, ...options } = body
  demandQueue(who, options.queue ?? job.queue)
  // A definition made up from the job: it keeps the version of the payload, which an enqueue by type alone would not.
  const target: JobTarget = {
    type: job.type,
    queue: job.queue,
    priority: job.priority,
    limits: { maxAttempts: job.maxAttempts },
    tags: job.tags,
    version: job.version,
    schema: null,
    upgrades: new Map(),
    retryable: null,
    handle: (run) => ({ definition: target as never, run: run as never }),
  }
  const result = await holdfast.enqueue(target, payload, options as unknown as EnqueueOptions)
  await holdfast.record({ action: 'clone', job: job.id, target: result.id }, { by: who.actor })
  return json(result, result.created ? 201 : 200)
}

async function revealPayload(ask: Ask<{ id: string }>): Promise<Response> {
  const job = await visibleJob(ask, ask.params.id)
  // First: a look that is not written down is worse than a line about a look that did not come about.
  await ask.holdfast.record({ action: 'reveal payload', job: job.id }, { by: ask.who.actor })
  return new Response(JSON.stringify(job.payload), {
    headers: {
      // Never a type that a browser would show: the content is somebody else's.
      'content-type': 'application/octet-stream',
      'content-disposition': `attachment; filename="job-${job.id}.json"`,
    },
  })
}

const reading: readonly Route[] = [
  route({
    method: 'GET',
    path: '/v1/jobs',
    name: 'listJobs',
    summary: 'A page of jobs, newest first',
    needs: 'read',
    query: shapes.listQuery,
    answers: { 200: { description: 'The page', schema: shapes.jobPage } },
    answer: async ({ holdfast, who, query: { filter, limit, cursor } }) =>
      json(
        await holdfast.list({
          filter: filterFor(who, filter),
          ...(limit === undefined ? {} : { limit }),
          ...(cursor === undefined ? {} : { cursor }),
        }),
      ),
  }),
  route({
    method: 'GET',
    path: '/v1/jobs/count',
    name: 'countJobs',
    summary: 'How many jobs match',
    needs: 'read',
    query: shapes.countQuery,
    answers: { 200: { description: 'The count', schema: shapes.count } },
    answer: async ({ holdfast, who, query: { filter, max } }) => {
      const options = { filter: filterFor(who, filter), ...(max === undefined ? {} : { max }) }
      const { count, isExact } = await holdfast.count(options)
      return json({ count, exact: isExact })
    },
  }),
  route({
    method: 'GET',
    path: '/v1/jobs/{id}',
    name: 'getJob',
    summary: 'Everything about one job',
    needs: 'read',
    params: idParams,
    answers: { 200: { description: 'The job', schema: shapes.jobView } },
    answer: async (ask) => json(showJob(await visibleJob(ask, ask.params.id), ask.who, ask.house.settings.redact)),
  }),
  route({
    method: 'GET',
    path: '/v1/jobs/{id}/payload',
    name: 'revealPayload',
    summary: 'The payload as it is; recorded in the audit',
    needs: 'read:payload',
    params: idParams,
    answers: { 200: { description: 'JSON', schema: null, contentType: 'application/octet-stream' } },
    answer: revealPayload,
  }),
  route({
    method: 'GET',
    path: '/v1/jobs/{id}/explain',
    name: 'explainJob',
    summary: 'Why a job stands where it does',
    needs: 'read',
    params: idParams,
    answers: { 200: { description: 'The reasons', schema: shapes.explanation } },
    answer: async (ask) => {
      await checkVisible(ask, ask.params.id)
      return json(await ask.holdfast.explain(ask.params.id))
    },
  }),
]

const enqueueing: readonly Route[] = [
  route({
    method: 'POST',
    path: '/v1/jobs',
    name: 'enqueue',
    summary: 'Enqueues a job; durable when answered',
    needs: 'enqueue',
    body: shapes.newJob,
    answers: enqueuedAnswers,
    answer: async ({ holdfast, who, body, request }) => {
      demandQueue(who, body.queue ?? DEFAULT_QUEUE)
      const result = await holdfast.enqueue(...splitNewJob(body, request))
      return json(result, result.created ? 201 : 200)
    },
  }),
  route({
    method: 'POST',
    path: '/v1/jobs/batch',
    name: 'enqueueMany',
    summary: 'Enqueues up to 5,000 jobs in one transaction',
    needs: 'enqueue',
    body: shapes.newJobs,
    isBatch: true,
    answers: { 200: { description: 'What became of each, in order', schema: shapes.enqueuedMany } },
    answer: async ({ holdfast, who, body, request }) => {
      for (const { queue } of body.jobs) demandQueue(who, queue ?? DEFAULT_QUEUE)
      return json({ jobs: await holdfast.enqueueMany(body.jobs.map((job) => splitNewJob(job, request))) })
    },
  }),
  route({
    method: 'POST',
    path: '/v1/jobs/{id}/clone',
    name: 'cloneJob',
    summary: 'Enqueues a new job made from this one',
    needs: 'enqueue',
    params: idParams,
    body: shapes.clone,
    answers: enqueuedAnswers,
    answer: cloneJob,
  }),
]

const changing: readonly Route[] = [
  route({
    ...one,
    path: '/v1/jobs/{id}/cancel',
    name: 'cancelJob',
    summary: 'Cancels a job, or asks the worker that runs it to',
    answers: { 200: { description: 'What came of it', schema: shapes.cancelled } },
    answer: async (ask) => {
      await checkVisible(ask, ask.params.id)
      return json(await ask.holdfast.cancel(ask.params.id, { by: ask.who.actor }))
    },
  }),
  route({
    ...one,
    path: '/v1/jobs/{id}/requeue',
    name: 'requeueJob',
    summary: 'Revives a dead job',
    answers: { 200: { description: 'It is ready', schema: shapes.requeued } },
    answer: requeueOne,
  }),
  route({
    ...one,
    path: '/dlq/{id}/requeue',
    name: 'requeueDead',
    summary: 'Revives a dead job',
    answers: { 200: { description: 'It is ready', schema: shapes.requeued } },
    answer: requeueOne,
  }),
  route({
    ...one,
    path: '/v1/jobs/{id}/discard',
    name: 'discardJob',
    summary: 'Takes a dead job out of the dead letters',
    answers: { 200: { description: 'It is cancelled', schema: shapes.moved } },
    answer: async (ask) => {
      await checkVisible(ask, ask.params.id)
      await ask.holdfast.discard(ask.params.id, { by: ask.who.actor })
      return json({ id: ask.params.id, state: 'cancelled' })
    },
  }),
  route({
    ...one,
    path: '/v1/jobs/{id}/run',
    name: 'runJob',
    summary: 'Makes a job due now',
    answers: { 200: { description: 'Where it stands', schema: shapes.moved } },
    answer: (ask) => updateJob(ask, { runAt: null }),
  }),
  route({
    ...one,
    method: 'PATCH',
    path: '/v1/jobs/{id}',
    name: 'updateJob',
    summary: 'Changes the priority, time or payload of a job that waits',
    body: shapes.changes,
    answers: { 200: { description: 'Where it stands', schema: shapes.moved } },
    answer: (ask) => updateJob(ask, ask.body as UpdateOptions),
  }),
]

async function updateJob(ask: Ask<{ id: string }>, changes: UpdateOptions): Promise<Response> {
  await checkVisible(ask, ask.params.id)
  const { id, state } = await ask.holdfast.update(ask.params.id, changes, { by: ask.who.actor })
  return json({ id, state })
}

export const jobRoutes: readonly Route[] = [...reading, ...enqueueing, ...changing]

// Routes about queues: their counts, their history and their settings.

import type { Client } from '../../client/client.js'
import type { QueueOptions } from '../../client/job-actions.js'
import type { SeriesOptions } from '../../client/look.js'
import { durationMs } from '../../core/duration.js'
import { QUEUE_FLOW_OPTIONS } from '../../core/flow/resolve.js'
import { given } from '../../core/given.js'
import { Refusal } from '../problem.js'
import { type Answer, json, type Route, type RouteRequest, route } from '../route.js'
import { nameParams } from '../schemas/basics.js'
import { nothing } from '../schemas/jobs.js'
import * as shapes from '../schemas/queues.js'
import { showGroup, showOverview } from '../show.js'
import { chosenQueue, demandQueue, maySee, type Who } from '../who.js'
import { withoutNulls } from './flow.js'

/** Counts are computed at most once a second for all callers, and never use more than a tenth of a connection's time. */
const COUNTS_MAX_AGE = '1s'

function pausing(verb: 'pause' | 'resume'): Route {
  return route(`POST /v1/queues/{name}/${verb}`, {
    name: `${verb}Queue`,
    summary: verb === 'pause' ? 'Pauses a queue: its jobs wait' : 'Resumes a queue',
    params: nameParams,
    body: nothing,
    answers: { 200: { description: 'Whether it is paused', schema: shapes.paused } },
    answer: async ({ holdfast, who, params: { name } }) => {
      demandQueue(who, name)
      await holdfast[verb](name, { by: who.actor })
      return json({ name, paused: verb === 'pause' })
    },
  })
}

async function oneQueue({
  holdfast,
  who,
  params: { name },
}: RouteRequest<{ name: string }>): Promise<Answer<shapes.QueueOverview>> {
  // A queue that the caller may not see takes as long as one that does not exist.
  const queues = maySee(who, name) ? [name] : []
  const [queue] = (await holdfast.overview({ queues, maxAge: COUNTS_MAX_AGE })).queues
  if (queue !== undefined) return json(queue)
  throw new Refusal(404, 'not_found', `there is no queue ${JSON.stringify(name)}`)
}

/** The requested settings. A caller limited to some queues keeps the current retention, because it applies to all queues. */
async function settingsFor(holdfast: Client, who: Who, name: string, body: QueueOptions): Promise<QueueOptions> {
  if (who.queues === null) return body
  const kept = await retentionOf(holdfast, name)
  const { retention, ...limits } = body
  if (retention !== undefined && durationMs(retention, { name: 'retention' }) !== kept) {
    throw retentionRefusal(who, name)
  }
  return kept === undefined ? limits : { ...limits, retention: kept }
}

/** Settings without those about flow control that are null, which stands for "not bounded". `keepFlow` when none of them is there. */
function splitFlow(body: Readonly<Record<string, unknown>>): {
  readonly options: QueueOptions
  readonly keepFlow: boolean
} {
  const isFlow = (name: string) => QUEUE_FLOW_OPTIONS.includes(name)
  const settings = Object.entries(body).flatMap(([name, value]) => {
    if (!isFlow(name)) return [[name, value]]
    if (value === null) return []
    return [[name, name === 'groups' ? withoutNulls(value as Record<string, unknown>) : value]]
  })
  return { options: Object.fromEntries(settings) as QueueOptions, keepFlow: !Object.keys(body).some(isFlow) }
}

async function retentionOf(holdfast: Client, name: string): Promise<number | undefined> {
  return (await holdfast.queues()).find((queue) => queue.name === name)?.settings.retentionMs
}

function retentionRefusal(who: Who, name: string): Refusal {
  return new Refusal(
    403,
    'forbidden',
    `${who.name} may not change the retention of ${name}: the longest retention says when days of all queues are dropped, so it needs a key for all queues`,
  )
}

export const queueRoutes: readonly Route[] = [
  route('GET /stats', {
    name: 'stats',
    summary: 'How many jobs are in each state, in one queue or in all',
    query: shapes.queueQuery,
    answers: { 200: { description: 'The counts', schema: shapes.stats } },
    answer: async ({ context, holdfast, who, http, query }) => {
      const queue = chosenQueue(who, query.queue)
      const read = () => holdfast.stats(queue, { maxAge: COUNTS_MAX_AGE })
      // The answer for all queues is cached and shared. Those for single queues are many, so they wait their turn.
      const look = queue === undefined ? read : () => context.costlyReads.run(who.principal, http.signal, read)
      const { oldestAgeS, attemptsP99, isExact, ...depth } = await look()
      const odd = { oldest_age_s: oldestAgeS, attempts_p99: attemptsP99 }
      return json({ queue: queue ?? null, ...depth, ...odd, exact: isExact })
    },
  }),
  route('GET /v1/queues', {
    name: 'listQueues',
    summary: 'Every queue with its counts, workers and rates',
    answers: { 200: { description: 'The queues', schema: shapes.overview } },
    query: shapes.queuesQuery,
    answer: async ({ holdfast, who, query: { offset = 0 } }) => {
      const theirs = who.queues === null ? {} : { queues: who.queues }
      return json(showOverview(await holdfast.overview({ ...theirs, offset, maxAge: COUNTS_MAX_AGE }), who))
    },
  }),
  route('GET /v1/queues/{name}', {
    name: 'getQueue',
    summary: 'One queue with its counts, workers and rates',
    params: nameParams,
    answers: { 200: { description: 'The queue', schema: shapes.queueOverview } },
    answer: oneQueue,
  }),
  route('PATCH /v1/queues/{name}', {
    name: 'setQueue',
    summary:
      "Replaces a queue's settings; what is left out becomes the default. Flow control stays as it is unless the body says something about it",
    params: nameParams,
    body: shapes.queueOptions,
    answers: { 200: { description: 'The queue', schema: shapes.queueView } },
    answer: async ({ holdfast, who, params: { name }, body }) => {
      demandQueue(who, name)
      const { options, keepFlow } = splitFlow(body as Record<string, unknown>)
      const settings = await settingsFor(holdfast, who, name, options)
      await holdfast.setQueue(name, settings, { by: who.actor, keepFlow })
      return json((await holdfast.queues()).find((queue) => queue.name === name)!)
    },
  }),
  route('DELETE /v1/queues/{name}', {
    name: 'removeQueue',
    summary: 'Removes a queue that has only finished jobs',
    params: nameParams,
    answers: { 204: { description: 'It is removed', schema: null } },
    answer: async ({ holdfast, who, params: { name } }) => {
      demandQueue(who, name)
      if (who.queues !== null && (await retentionOf(holdfast, name)) !== undefined) throw retentionRefusal(who, name)
      await holdfast.removeQueue(name, { by: who.actor })
      return new Response(null, { status: 204 })
    },
  }),
  pausing('pause'),
  pausing('resume'),
  route('GET /v1/series', {
    name: 'series',
    summary: 'Counts and rates over time, in steps',
    query: shapes.seriesQuery,
    isCostly: true,
    answers: { 200: { description: 'The steps, oldest first', schema: shapes.series } },
    answer: async ({ holdfast, who, query: { queue, ...span } }) => {
      const options = given({ ...span, queue: chosenQueue(who, queue) }) as SeriesOptions
      return json({ points: await holdfast.series(options) })
    },
  }),
  route('GET /v1/dlq/groups', {
    name: 'deadGroups',
    summary: 'Dead jobs, grouped by error',
    query: shapes.groupsQuery,
    isCostly: true,
    answers: { 200: { description: 'The groups, the largest first', schema: shapes.groups } },
    answer: async ({ holdfast, who, http, query: { queue, limit } }) => {
      const options = { signal: http.signal, ...given({ queue: chosenQueue(who, queue), limit }) }
      return json({ groups: (await holdfast.deadGroups(options)).map(showGroup) })
    },
  }),
]

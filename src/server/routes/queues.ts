// Routes about queues: how much is where, what happened, and their settings.

import type { SeriesOptions } from '../../client/look.js'
import type { QueueOptions } from '../../client/operate.js'
import { Refusal } from '../problem.js'
import { type Ask, json, type Route, route } from '../route.js'
import { nameParams } from '../schemas/basics.js'
import { nothing } from '../schemas/jobs.js'
import * as shapes from '../schemas/queues.js'
import { showGroup, showOverview } from '../show.js'
import { chosenQueue, demandQueue, maySee } from '../who.js'

function pausing(verb: 'pause' | 'resume'): Route {
  return route({
    method: 'POST',
    path: `/v1/queues/{name}/${verb}`,
    name: `${verb}Queue`,
    summary: verb === 'pause' ? 'Stops a queue from giving jobs' : 'Lets a queue give jobs again',
    needs: 'operate',
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

async function oneQueue({ holdfast, who, params: { name } }: Ask<{ name: string }>): Promise<Response> {
  const queue = (await holdfast.overview()).queues.find((candidate) => candidate.name === name)
  if (queue !== undefined && maySee(who, name)) return json(queue)
  throw new Refusal(404, 'not_found', `there is no queue ${JSON.stringify(name)}`)
}

export const queueRoutes: readonly Route[] = [
  route({
    method: 'GET',
    path: '/stats',
    name: 'stats',
    summary: 'How many jobs stand where, in one queue or in all',
    needs: 'read',
    query: shapes.queueQuery,
    answers: { 200: { description: 'The counts', schema: shapes.stats } },
    answer: async ({ holdfast, who, query }) => {
      const queue = chosenQueue(who, query.queue)
      const { oldestAgeS, attemptsP99, isExact, ...depth } = await holdfast.stats(queue)
      const odd = { oldest_age_s: oldestAgeS, attempts_p99: attemptsP99 }
      return json({ queue: queue ?? null, ...depth, ...odd, exact: isExact })
    },
  }),
  route({
    method: 'GET',
    path: '/v1/queues',
    name: 'listQueues',
    summary: 'Every queue with its counts, workers and rates',
    needs: 'read',
    answers: { 200: { description: 'The queues', schema: shapes.overview } },
    answer: async ({ holdfast, who }) => json(showOverview(await holdfast.overview(), who)),
  }),
  route({
    method: 'GET',
    path: '/v1/queues/{name}',
    name: 'getQueue',
    summary: 'One queue with its counts, workers and rates',
    needs: 'read',
    params: nameParams,
    answers: { 200: { description: 'The queue', schema: shapes.queueOverview } },
    answer: oneQueue,
  }),
  route({
    method: 'PATCH',
    path: '/v1/queues/{name}',
    name: 'setQueue',
    summary: "Replaces a queue's settings; what is left out becomes the default",
    needs: 'operate',
    params: nameParams,
    body: shapes.queueOptions,
    answers: { 200: { description: 'The queue', schema: shapes.queueView } },
    answer: async ({ holdfast, who, params: { name }, body }) => {
      demandQueue(who, name)
      await holdfast.setQueue(name, body as QueueOptions, { by: who.actor })
      return json((await holdfast.queues()).find((queue) => queue.name === name))
    },
  }),
  pausing('pause'),
  pausing('resume'),
  route({
    method: 'GET',
    path: '/v1/series',
    name: 'series',
    summary: 'What happened and how much was where, in steps',
    needs: 'read',
    query: shapes.seriesQuery,
    answers: { 200: { description: 'The steps, oldest first', schema: shapes.series } },
    answer: async ({ holdfast, who, query: { queue, ...span } }) => {
      const chosen = chosenQueue(who, queue)
      const options = { ...span, ...(chosen === undefined ? {} : { queue: chosen }) } as SeriesOptions
      return json({ points: await holdfast.series(options) })
    },
  }),
  route({
    method: 'GET',
    path: '/v1/dlq/groups',
    name: 'deadGroups',
    summary: 'Dead jobs by what killed them',
    needs: 'read',
    query: shapes.groupsQuery,
    answers: { 200: { description: 'The groups, the largest first', schema: shapes.groups } },
    answer: async ({ holdfast, who, query: { queue, limit } }) => {
      const chosen = chosenQueue(who, queue)
      const options = { ...(chosen === undefined ? {} : { queue: chosen }), ...(limit === undefined ? {} : { limit }) }
      return json({ groups: (await holdfast.deadGroups(options)).map(showGroup) })
    },
  }),
]

// Routes about schedules.

import type { ScheduleOptions, ScheduleStatus } from '../../client/schedules.js'
import { HoldfastError } from '../../core/errors.js'
import { given } from '../../core/given.js'
import { Refusal } from '../problem.js'
import { type Answer, json, type Route, type RouteRequest, route } from '../route.js'
import { nameParams } from '../schemas/basics.js'
import { enqueued, nothing } from '../schemas/jobs.js'
import * as shapes from '../schemas/operating.js'
import { showSchedule } from '../show.js'
import { can, demandQueue, maySee } from '../who.js'
import { checkNamedLimits } from './flow.js'

const DEFAULT_QUEUE = 'default'
/** The most schedules that one caller may create. */
const OF_ONE_MAX = 100

const named = { params: nameParams, body: nothing } as const

async function show(
  { context, who }: RouteRequest,
  schedule: ScheduleStatus,
): Promise<ReturnType<typeof showSchedule>> {
  return showSchedule(schedule, { who, nowMs: await context.facts.nowMs(), redact: context.settings.redact })
}

/** The schedule, if the caller may see its queue. */
async function visibleSchedule({ holdfast, who }: RouteRequest, name: string): Promise<ScheduleStatus> {
  const schedule = (await holdfast.schedules()).find((candidate) => candidate.name === name)
  if (schedule !== undefined && maySee(who, schedule.queue)) return schedule
  throw new HoldfastError('schedule_not_found', `there is no schedule ${JSON.stringify(name)}`)
}

async function checkVisible(request: RouteRequest, name: string): Promise<void> {
  if (request.who.queues !== null) await visibleSchedule(request, name)
}

async function setSchedule(
  request: RouteRequest<{ name: string }, unknown, shapes.ScheduleBody>,
): Promise<Answer<shapes.Schedule>> {
  const { holdfast, who, params, body } = request
  const { type, ...options } = body
  demandQueue(who, body.queue ?? DEFAULT_QUEUE)
  if (who.queues !== null) {
    // They must not take over a schedule of another queue, nor learn that it exists. So the names of new ones must begin with one
    // of their queues, and existing ones can be changed only if visible to them.
    const known = (await holdfast.schedules()).find(({ name }) => name === params.name)
    const isTheirs = known !== undefined && maySee(who, known.queue)
    const isNamedTheirs = known === undefined && who.queues.some((queue) => params.name.startsWith(`${queue}:`))
    if (!isTheirs && !isNamedTheirs) {
      const names = who.queues.map((queue) => `${queue}:…`).join(', ')
      throw new Refusal(403, 'forbidden', `${who.name} may not create a schedule of that name: begin it with ${names}`)
    }
  }
  await checkNamedLimits(request, [body])
  const wanted = { ...options, job: type } as unknown as ScheduleOptions
  // Each schedule costs upkeep as long as it exists. Only an admin of all queues may create any number.
  const isFree = can(who, 'admin') && who.queues === null
  const bound = isFree ? {} : { bound: { maker: who.principal, most: OF_ONE_MAX } }
  return json(await show(request, await holdfast.schedule(params.name, wanted, { by: who.actor, ...bound })))
}

function pausing(verb: 'pause' | 'resume'): Route {
  return route(`POST /v1/schedules/{name}/${verb}`, {
    ...named,
    name: `${verb}Schedule`,
    summary: verb === 'pause' ? 'Stops a schedule' : 'Lets a schedule fire again',
    answers: { 200: { description: 'The schedule', schema: shapes.schedule } },
    answer: async (request) => {
      const { name } = request.params
      await checkVisible(request, name)
      await request.holdfast[`${verb}Schedule`](name, { by: request.who.actor })
      return json(await show(request, await visibleSchedule(request, name)))
    },
  })
}

export const scheduleRoutes: readonly Route[] = [
  route('GET /v1/schedules', {
    name: 'listSchedules',
    summary: 'Every schedule with its next times',
    answers: { 200: { description: 'By name', schema: shapes.schedules } },
    answer: async (request) => {
      const seen = (await request.holdfast.schedules()).filter(({ queue }) => maySee(request.who, queue))
      return json({ schedules: await Promise.all(seen.map((schedule) => show(request, schedule))) })
    },
  }),
  route('PUT /v1/schedules/{name}', {
    ...named,
    name: 'setSchedule',
    summary: 'Creates a schedule, or changes the one of that name',
    body: shapes.scheduleBody,
    answers: { 200: { description: 'The schedule', schema: shapes.schedule } },
    answer: setSchedule,
  }),
  route('DELETE /v1/schedules/{name}', {
    ...named,
    name: 'removeSchedule',
    summary: 'Removes a schedule; the jobs it made stay',
    answers: { 204: { description: 'It is removed', schema: null } },
    answer: async (request) => {
      await checkVisible(request, request.params.name)
      await request.holdfast.unschedule(request.params.name, { by: request.who.actor })
      return new Response(null, { status: 204 })
    },
  }),
  route('GET /v1/schedules/{name}/ticks', {
    name: 'scheduleTicks',
    summary: 'The newest ticks of a schedule that made a job',
    params: nameParams,
    query: shapes.limitQuery,
    answers: { 200: { description: 'Newest first, as long as their jobs are kept', schema: shapes.ticks } },
    answer: async (request) => {
      const { holdfast, params, query } = request
      await checkVisible(request, params.name)
      return json({ ticks: await holdfast.ticks(params.name, given({ limit: query.limit })) })
    },
  }),
  route('POST /v1/schedules/{name}/backfill', {
    name: 'backfillSchedule',
    summary: 'Makes a job for each tick of a range that has none; a dry run says which',
    params: nameParams,
    body: shapes.backfillBody,
    isCostly: true,
    answers: { 200: { description: 'The ticks of the range, and how many jobs were made', schema: shapes.backfilled } },
    answer: async (request) => {
      const { holdfast, params, body, who } = request
      await checkVisible(request, params.name)
      const { from, to, dryRun = false } = body
      return json(await holdfast.backfill(params.name, { from, to, dryRun, by: who.actor }))
    },
  }),
  pausing('pause'),
  pausing('resume'),
  route('POST /v1/schedules/{name}/run', {
    ...named,
    name: 'runSchedule',
    summary: "Enqueues one of a schedule's jobs now",
    answers: { 201: { description: 'The job', schema: enqueued } },
    answer: async (request) => {
      await checkVisible(request, request.params.name)
      return json(await request.holdfast.runSchedule(request.params.name, { by: request.who.actor }), 201)
    },
  }),
]

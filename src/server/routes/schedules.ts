// Routes about schedules.

import type { ScheduleOptions, ScheduleStatus } from '../../client/schedules.js'
import { HoldfastError } from '../../core/errors.js'
import { type Ask, json, type Route, route } from '../route.js'
import { nameParams } from '../schemas/basics.js'
import { enqueued, nothing } from '../schemas/jobs.js'
import * as shapes from '../schemas/operating.js'
import { showSchedule } from '../show.js'
import { demandQueue, maySee } from '../who.js'

const DEFAULT_QUEUE = 'default'

const named = { params: nameParams, needs: 'operate', body: nothing } as const

async function show({ house, who }: Ask, schedule: ScheduleStatus): Promise<Readonly<Record<string, unknown>>> {
  return showSchedule(schedule, { who, nowMs: await house.facts.nowMs(), redact: house.settings.redact })
}

/** The schedule, for those who may see its queue. */
async function visibleSchedule({ holdfast, who }: Ask, name: string): Promise<ScheduleStatus> {
  const schedule = (await holdfast.schedules()).find((candidate) => candidate.name === name)
  if (schedule !== undefined && maySee(who, schedule.queue)) return schedule
  throw new HoldfastError('schedule_not_found', `there is no schedule ${JSON.stringify(name)}`)
}

async function checkVisible(ask: Ask, name: string): Promise<void> {
  if (ask.who.queues !== null) await visibleSchedule(ask, name)
}

async function setSchedule(ask: Ask<{ name: string }, unknown, shapes.ScheduleBody>): Promise<Response> {
  const { holdfast, who, params, body } = ask
  const { type, ...options } = body
  demandQueue(who, body.queue ?? DEFAULT_QUEUE)
  if (who.queues !== null) {
    // One of that name in another queue must not be taken over.
    const known = (await holdfast.schedules()).find(({ name }) => name === params.name)
    if (known !== undefined) demandQueue(who, known.queue)
  }
  const wanted = { ...options, job: type } as unknown as ScheduleOptions
  return json(await show(ask, await holdfast.schedule(params.name, wanted, { by: who.actor })))
}

function pausing(verb: 'pause' | 'resume'): Route {
  return route({
    ...named,
    method: 'POST',
    path: `/v1/schedules/{name}/${verb}`,
    name: `${verb}Schedule`,
    summary: verb === 'pause' ? 'Stops a schedule' : 'Lets a schedule fire again',
    answers: { 200: { description: 'The schedule', schema: shapes.schedule } },
    answer: async (ask) => {
      const { name } = ask.params
      await checkVisible(ask, name)
      await ask.holdfast[`${verb}Schedule`](name, { by: ask.who.actor })
      return json(await show(ask, await visibleSchedule(ask, name)))
    },
  })
}

export const scheduleRoutes: readonly Route[] = [
  route({
    method: 'GET',
    path: '/v1/schedules',
    name: 'listSchedules',
    summary: 'Every schedule with its next times',
    needs: 'read',
    answers: { 200: { description: 'By name', schema: shapes.schedules } },
    answer: async (ask) => {
      const seen = (await ask.holdfast.schedules()).filter(({ queue }) => maySee(ask.who, queue))
      return json({ schedules: await Promise.all(seen.map((schedule) => show(ask, schedule))) })
    },
  }),
  route({
    ...named,
    method: 'PUT',
    path: '/v1/schedules/{name}',
    name: 'setSchedule',
    summary: 'Makes a schedule, or changes the one of that name',
    body: shapes.scheduleBody,
    answers: { 200: { description: 'The schedule', schema: shapes.schedule } },
    answer: setSchedule,
  }),
  route({
    ...named,
    method: 'DELETE',
    path: '/v1/schedules/{name}',
    name: 'removeSchedule',
    summary: 'Removes a schedule; the jobs it made stay',
    answers: { 204: { description: 'It is gone', schema: null } },
    answer: async (ask) => {
      await checkVisible(ask, ask.params.name)
      await ask.holdfast.unschedule(ask.params.name, { by: ask.who.actor })
      return new Response(null, { status: 204 })
    },
  }),
  pausing('pause'),
  pausing('resume'),
  route({
    ...named,
    method: 'POST',
    path: '/v1/schedules/{name}/run',
    name: 'runSchedule',
    summary: "Enqueues one of a schedule's jobs now",
    answers: { 201: { description: 'The job', schema: enqueued } },
    answer: async (ask) => {
      await checkVisible(ask, ask.params.name)
      return json(await ask.holdfast.runSchedule(ask.params.name, { by: ask.who.actor }), 201)
    },
  }),
]

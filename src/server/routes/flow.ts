// Routes about limits, breakers and groups.

import type { Client } from '../../client/client.js'
import { checkText, checkWhole } from '../../core/check.js'
import { HoldfastError } from '../../core/errors.js'
import { GROUP_LENGTH_MAX, isQueueLimit, queueLimitName } from '../../core/flow/job-flow.js'
import type { GroupOverrideOptions, NamedLimitOptions } from '../../core/flow/resolve.js'
import type { GroupView, LimitView } from '../../core/flow/views.js'
import { given } from '../../core/given.js'
import { PAGE_MAX } from '../../core/operator-store.js'
import { type Answer, json, type Route, type RouteRequest, route } from '../route.js'
import { nameParams } from '../schemas/basics.js'
import * as shapes from '../schemas/flow.js'
import { nothing } from '../schemas/jobs.js'
import { showLimit } from '../show.js'
import { demandAllQueues, demandQueue, type Who } from '../who.js'

const LIMITS_DEFAULT = 100

/** Options without those that are null, which stands for "not bounded". */
export function withoutNulls(options: Readonly<Record<string, unknown>>): Record<string, unknown> {
  return Object.fromEntries(Object.entries(options).filter(([, value]) => value !== null))
}

/** The limits that the caller may see: all, or those of its queues and those that jobs of its queues name. */
async function visibleLimits({ holdfast, who }: RouteRequest): Promise<readonly LimitView[]> {
  const limits = await holdfast.limits()
  if (who.queues === null) return limits
  const names = await namedBy(holdfast, who.queues)
  return limits.filter(({ name }) => names.has(name))
}

async function namedBy(holdfast: Client, queues: readonly string[]): Promise<ReadonlySet<string>> {
  const users = await holdfast.limitUsers({ queues })
  return new Set([...queues.map(queueLimitName), ...users.flatMap(({ limits }) => limits)])
}

/** Raises `limit_unknown` for limits that jobs of the caller's queues do not name already, as for those that do not exist. A limit is
 *  shared: who names it slows others down, and failing jobs open its breaker. */
export async function checkNamedLimits(
  { holdfast, who }: RouteRequest,
  bodies: readonly { readonly limits?: readonly string[] | undefined }[],
): Promise<void> {
  const names = new Set(bodies.flatMap(({ limits = [] }) => limits))
  if (who.queues === null || names.size === 0) return
  const known = await namedBy(holdfast, who.queues)
  const unknown = [...names].find((name) => !known.has(name))
  if (unknown === undefined) return
  const text = `limit ${JSON.stringify(unknown)} is not known to ${who.name}: a key limited to some queues may name the limits that jobs of these queues name already`
  throw new HoldfastError('limit_unknown', text, { details: { limit: unknown } })
}

async function answerLimit(request: RouteRequest<{ name: string }>): Promise<Answer<shapes.LimitDetails>> {
  const { holdfast, who, params } = request
  const limit = (await visibleLimits(request)).find(({ name }) => name === params.name)
  if (limit === undefined) {
    const { name } = params
    throw new HoldfastError('limit_not_found', `there is no limit ${JSON.stringify(name)}`, { details: { name } })
  }
  const queues = who.queues === null ? {} : { queues: who.queues }
  const users = isQueueLimit(limit.name) ? [] : await holdfast.limitUsers({ ...queues, limit: limit.name })
  return json({ ...showLimit(limit, who), users })
}

async function listLimits(
  request: RouteRequest<
    unknown,
    { prefix?: string | undefined; cursor?: string | undefined; limit?: number | undefined }
  >,
): Promise<Answer<shapes.LimitPage>> {
  const { prefix = '', cursor = '', limit = LIMITS_DEFAULT } = request.query
  const most = checkWhole('limit', limit, 1, PAGE_MAX)
  const found = (await visibleLimits(request)).filter(({ name }) => name.startsWith(prefix) && name > cursor)
  const page = found.slice(0, most)
  const next = found.length > most ? page.at(-1)!.name : null
  return json({ limits: page.map((view) => showLimit(view, request.who)), cursor: next })
}

const BREAKER_VERBS = {
  open: 'Holds a breaker open: jobs that name the limit wait',
  close: 'Holds a breaker closed, whatever fails',
  release: 'Leaves a breaker to itself again',
} as const

function forcing(verb: keyof typeof BREAKER_VERBS): Route {
  return route(`POST /v1/limits/{name}/${verb}`, {
    name: `${verb}Breaker`,
    summary: BREAKER_VERBS[verb],
    params: nameParams,
    body: nothing,
    answers: { 200: { description: 'The limit', schema: shapes.limitDetails } },
    answer: async (request) => {
      const { holdfast, who, params } = request
      demandShared(who)
      await holdfast[`${verb}Breaker`](params.name, { by: who.actor })
      return answerLimit(request)
    },
  })
}

/** Raises 403 for a caller limited to some queues: a limit holds for jobs of all queues. */
function demandShared(who: Who): void {
  demandAllQueues(who, 'a limit')
}

const limitRoutes: readonly Route[] = [
  route('GET /v1/limits', {
    name: 'listLimits',
    summary: 'Limits by name, with what counts in them now',
    query: shapes.pageQuery,
    isCostly: true,
    answers: { 200: { description: 'A page of them', schema: shapes.limitPage } },
    answer: listLimits,
  }),
  route('GET /v1/limits/{name}', {
    name: 'getLimit',
    summary: 'One limit, and whose jobs name it',
    params: nameParams,
    isCostly: true,
    answers: { 200: { description: 'The limit', schema: shapes.limitDetails } },
    answer: answerLimit,
  }),
  route('PUT /v1/limits/{name}', {
    name: 'setLimit',
    summary: 'Sets a limit, and makes it when there is none; what is left out is not bounded',
    params: nameParams,
    body: shapes.limitBody,
    answers: { 200: { description: 'The limit', schema: shapes.limitDetails } },
    answer: async (request) => {
      const { holdfast, who, params, body } = request
      demandShared(who)
      await holdfast.setLimit(params.name, withoutNulls(body) as NamedLimitOptions, { by: who.actor })
      return answerLimit(request)
    },
  }),
  route('DELETE /v1/limits/{name}', {
    name: 'removeLimit',
    summary: 'Removes a limit that nobody names',
    params: nameParams,
    answers: { 204: { description: 'It is removed', schema: null } },
    answer: async ({ holdfast, who, params }) => {
      demandShared(who)
      await holdfast.removeLimit(params.name, { by: who.actor })
      return new Response(null, { status: 204 })
    },
  }),
  forcing('open'),
  forcing('close'),
  forcing('release'),
]

type GroupRequest = RouteRequest<{ name: string; group: string }, { group?: string | undefined }>

/** The queue and group of a request, if the caller may change them. */
async function openGroup({ context, who, params, query }: GroupRequest): Promise<[queue: string, group: string]> {
  demandQueue(who, params.name)
  const group = checkText('group', query.group ?? params.group, GROUP_LENGTH_MAX)
  // A setting of a group makes its queue known, which counts as making one.
  await context.newQueues.open(who, [params.name])
  return [params.name, group]
}

/** The group as it is now. It may be like any other, and then nothing is kept of it. */
async function answerGroup({ holdfast }: RouteRequest, queue: string, group: string): Promise<Answer<shapes.Group>> {
  const [first] = (await holdfast.groups(queue, { prefix: group, limit: 1 })).groups
  const usual = { ready: 0, running: 0, paused: false, stoppedBy: null, until: null, override: null }
  const view: GroupView = first?.group === group ? first : { group, ...usual }
  return json(view)
}

const ofGroup = { params: shapes.groupParams, query: shapes.groupQuery } as const
const groupAnswer = { 200: { description: 'The group', schema: shapes.group } } as const

function pausing(verb: 'pause' | 'resume'): Route {
  return route(`POST /v1/queues/{name}/groups/{group}/${verb}`, {
    ...ofGroup,
    name: `${verb}Group`,
    summary: verb === 'pause' ? 'Pauses a group: its jobs wait' : 'Lets a group go on that is paused or has stopped',
    body: nothing,
    answers: groupAnswer,
    answer: async (request) => {
      const [queue, group] = await openGroup(request)
      await request.holdfast[`${verb}Group`](queue, group, { by: request.who.actor })
      return answerGroup(request, queue, group)
    },
  })
}

const groupRoutes: readonly Route[] = [
  route('GET /v1/queues/{name}/groups', {
    name: 'listGroups',
    summary: 'Groups of a queue by name: those that have jobs or settings',
    params: nameParams,
    query: shapes.pageQuery,
    isCostly: true,
    answers: { 200: { description: 'A page of them', schema: shapes.groupPage } },
    answer: async ({ holdfast, who, params: { name }, query }) => {
      demandQueue(who, name)
      return json(await holdfast.groups(name, given(query)))
    },
  }),
  route('PUT /v1/queues/{name}/groups/{group}', {
    ...ofGroup,
    name: 'setGroup',
    summary: 'Gives a group settings of its own, which replace those of its queue',
    body: shapes.overrideBody,
    answers: groupAnswer,
    answer: async (request) => {
      const [queue, group] = await openGroup(request)
      const override = withoutNulls(request.body) as GroupOverrideOptions
      await request.holdfast.setGroup(queue, group, override, { by: request.who.actor })
      return answerGroup(request, queue, group)
    },
  }),
  route('DELETE /v1/queues/{name}/groups/{group}', {
    ...ofGroup,
    name: 'removeGroup',
    summary: 'Takes the settings of a group away; its jobs stay',
    answers: { 204: { description: 'It has the settings of its queue', schema: null } },
    answer: async (request) => {
      const [queue, group] = await openGroup(request)
      await request.holdfast.setGroup(queue, group, null, { by: request.who.actor })
      return new Response(null, { status: 204 })
    },
  }),
  pausing('pause'),
  pausing('resume'),
]

export const flowRoutes: readonly Route[] = [...limitRoutes, ...groupRoutes]

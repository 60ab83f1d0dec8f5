// Routes about many jobs at once.

import { HoldfastError } from '../../core/errors.js'
import { readFilter } from '../../core/filter.js'
import type { BulkView } from '../../core/operating.js'
import { type Ask, json, type Route, route } from '../route.js'
import { idParams } from '../schemas/basics.js'
import { nothing } from '../schemas/jobs.js'
import * as shapes from '../schemas/operating.js'
import { showBulk } from '../show.js'
import { maySee, type Who } from '../who.js'
import { filterFor } from './jobs.js'

const answers = {
  202: { description: 'Written down; upkeep does it', schema: shapes.bulk },
  200: { description: 'What it would do', schema: shapes.dryRun },
}

async function start(
  { holdfast, who }: Ask,
  { action, filter, perSecond, limit, dryRun }: shapes.BulkBody,
): Promise<Response> {
  const request = {
    action,
    filter: filterFor(who, filter),
    ...(perSecond === undefined ? {} : { perSecond }),
    ...(limit === undefined ? {} : { limit }),
  }
  if (dryRun === true) {
    const { matches, can, isExact } = await holdfast.bulk({ ...request, dryRun })
    return json({ matches, can, exact: isExact })
  }
  return json(showBulk(await holdfast.bulk(request, { by: who.actor })), 202)
}

/** Those kept to some queues see the bulk actions that are about theirs alone. */
function isTheirs({ filter }: BulkView, who: Who): boolean {
  return who.queues === null || (filter.queues?.every((queue) => maySee(who, queue)) ?? false)
}

async function visibleBulk({ holdfast, who }: Ask, id: string): Promise<BulkView> {
  const bulk = await holdfast.getBulk(id)
  if (bulk !== null && isTheirs(bulk, who)) return bulk
  throw new HoldfastError('bulk_not_found', `there is no bulk action ${id}`, { details: { id } })
}

export const bulkRoutes: readonly Route[] = [
  route({
    method: 'POST',
    path: '/v1/dlq/requeue',
    name: 'requeueMany',
    summary: 'Revives dead jobs by filter or fingerprint, at a chosen rate',
    needs: 'operate',
    body: shapes.requeueMany,
    answers,
    answer: async (ask) => {
      const { filter, fingerprint, ...pace } = ask.body
      const read = readFilter(filter ?? '')
      const narrowed = fingerprint === undefined ? read : { ...read, fingerprints: [fingerprint] }
      return start(ask, { action: 'requeue', filter: { states: ['dead'], ...narrowed }, ...pace })
    },
  }),
  route({
    method: 'POST',
    path: '/v1/bulk',
    name: 'startBulk',
    summary: 'Does something to all jobs that match, or says to how many it would',
    needs: 'operate',
    body: shapes.newBulk,
    answers,
    answer: (ask) => start(ask, ask.body),
  }),
  route({
    method: 'GET',
    path: '/v1/bulk',
    name: 'listBulks',
    summary: 'The newest bulk actions',
    needs: 'read',
    query: shapes.limitQuery,
    answers: { 200: { description: 'Newest first', schema: shapes.bulks } },
    answer: async ({ holdfast, who, query: { limit } }) => {
      const bulks = await holdfast.bulks(limit === undefined ? {} : { limit })
      return json({ bulks: bulks.filter((bulk) => isTheirs(bulk, who)).map(showBulk) })
    },
  }),
  route({
    method: 'GET',
    path: '/v1/bulk/{id}',
    name: 'getBulk',
    summary: 'How far a bulk action has come',
    needs: 'read',
    params: idParams,
    answers: { 200: { description: 'The bulk action', schema: shapes.bulk } },
    answer: async (ask) => json(showBulk(await visibleBulk(ask, ask.params.id))),
  }),
  route({
    method: 'POST',
    path: '/v1/bulk/{id}/cancel',
    name: 'cancelBulk',
    summary: 'Ends a bulk action; what it has done stays done',
    needs: 'operate',
    params: idParams,
    body: nothing,
    answers: { 200: { description: 'The bulk action', schema: shapes.bulk } },
    answer: async (ask) => {
      await visibleBulk(ask, ask.params.id)
      return json(showBulk(await ask.holdfast.cancelBulk(ask.params.id, { by: ask.who.actor })))
    },
  }),
]

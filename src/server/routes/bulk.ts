// Routes about bulk actions.

import { checkMeant } from '../../client/bulk.js'
import { HoldfastError } from '../../core/errors.js'
import { readFilter } from '../../core/filter.js'
import { given } from '../../core/given.js'
import type { JobFilter } from '../../core/job-filter.js'
import type { BulkView } from '../../core/operating.js'
import { PERMISSIONS } from '../permissions.js'
import { type Answer, json, type Route, type RouteRequest, route } from '../route.js'
import { idParams } from '../schemas/basics.js'
import { nothing } from '../schemas/jobs.js'
import * as shapes from '../schemas/operating.js'
import { showBulk } from '../show.js'
import { demand, maySee, type Who } from '../who.js'

const answers = {
  202: { description: 'Accepted; it runs in the background', schema: shapes.bulk },
  200: { description: 'What it would do', schema: shapes.dryRun },
}

async function start(
  { context, holdfast, who }: RouteRequest,
  { action, filter, dryRun, ...pace }: shapes.BulkBody,
): Promise<Answer<shapes.Bulk | shapes.DryRun>> {
  if (action === 'delete') for (const scope of PERMISSIONS.deleteMany) demand(who, scope)
  const bulk = { action, filter: await context.filters.read(who, filter), ...given(pace) }
  if (dryRun === true) {
    const { matches, can, isExact } = await holdfast.bulk({ ...bulk, dryRun })
    return json({ matches, can, exact: isExact })
  }
  return json(showBulk(await holdfast.bulk(bulk, { by: who.actor })), 202)
}

/** Raises for a bulk action on every job without `all` or `expected`. It runs before the filter is limited to the caller's queues
 *  or to dead jobs: after that the library could not tell that there was no filter. */
function demandMeant(filter: JobFilter, { all, expected, dryRun }: Partial<shapes.BulkBody>): void {
  checkMeant({ action: 'cancel', filter, ...given({ all, expected }), dryRun: dryRun === true })
}

/** A caller limited to some queues sees only the bulk actions on these. */
function isTheirs({ filter }: BulkView, who: Who): boolean {
  return who.queues === null || (filter.queues?.every((queue) => maySee(who, queue)) ?? false)
}

async function visibleBulk({ holdfast, who }: RouteRequest, id: string): Promise<BulkView> {
  const bulk = await holdfast.getBulk(id)
  if (bulk !== null && isTheirs(bulk, who)) return bulk
  throw new HoldfastError('bulk_not_found', `there is no bulk action ${id}`, { details: { id } })
}

export const bulkRoutes: readonly Route[] = [
  route('POST /v1/dlq/requeue', {
    name: 'requeueMany',
    summary: 'Requeues dead jobs by filter or fingerprint, at a chosen rate',
    body: shapes.requeueMany,
    isCostly: true,
    answers,
    answer: async (request) => {
      const { filter, fingerprint, ...pace } = request.body
      const read = readFilter(filter ?? '')
      const narrowed = fingerprint === undefined ? read : { ...read, fingerprints: [fingerprint] }
      demandMeant(narrowed, request.body)
      return start(request, { action: 'requeue', filter: { states: ['dead'], ...narrowed }, ...pace })
    },
  }),
  route('POST /v1/bulk', {
    name: 'startBulk',
    summary: 'Cancels, requeues, discards or deletes all jobs that match; a dry run counts them',
    body: shapes.newBulk,
    isCostly: true,
    answers,
    answer: async (request) => {
      demandMeant(readFilter(request.body.filter), request.body)
      return start(request, request.body)
    },
  }),
  route('GET /v1/bulk', {
    name: 'listBulks',
    summary: 'The newest bulk actions',
    query: shapes.limitQuery,
    answers: { 200: { description: 'Newest first', schema: shapes.bulks } },
    answer: async ({ holdfast, who, query: { limit } }) => {
      const bulks = await holdfast.bulks(given({ limit }))
      return json({ bulks: bulks.filter((bulk) => isTheirs(bulk, who)).map(showBulk) })
    },
  }),
  route('GET /v1/bulk/{id}', {
    name: 'getBulk',
    summary: 'The progress of a bulk action',
    params: idParams,
    answers: { 200: { description: 'The bulk action', schema: shapes.bulk } },
    answer: async (request) => json(showBulk(await visibleBulk(request, request.params.id))),
  }),
  route('POST /v1/bulk/{id}/cancel', {
    name: 'cancelBulk',
    summary: 'Stops a bulk action; what it has done is kept',
    params: idParams,
    body: nothing,
    answers: { 200: { description: 'The bulk action', schema: shapes.bulk } },
    answer: async (request) => {
      await visibleBulk(request, request.params.id)
      return json(showBulk(await request.holdfast.cancelBulk(request.params.id, { by: request.who.actor })))
    },
  }),
]

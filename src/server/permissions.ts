// The scopes that each route needs. Requests are checked by this table, the OpenAPI document and the tests are made from it, and
// a test compares docs/server.md with it.
//
// Every route that creates a job or sets its payload needs `enqueue`. A copy of a job needs `read`. An action on all jobs that
// match a filter needs `read` too, because its count reveals what matches.

import type { KeyScope } from '../core/operating.js'

/** All of these scopes, or any identified caller, or anyone. */
export type Need = readonly KeyScope[] | 'signed_in' | 'anyone'

/** By the name of the route. `changePayload` is what updateJob needs to change the payload, `deleteMany` what startBulk
 *  needs to delete. */
export const PERMISSIONS = {
  healthz: 'anyone',
  readyz: 'anyone',
  openApi: 'anyone',
  signIn: 'anyone',

  me: 'signed_in',
  signOut: 'signed_in',

  metrics: ['read'],
  listWorkers: ['read'],
  audit: ['read'],
  warnings: ['read'],
  outbox: ['read'],
  events: ['read'],
  stats: ['read'],
  listQueues: ['read'],
  getQueue: ['read'],
  series: ['read'],
  deadGroups: ['read'],
  listJobs: ['read'],
  countJobs: ['read'],
  getJob: ['read'],
  explainJob: ['read'],
  jobFlow: ['read'],
  jobEvents: ['read'],
  listLimits: ['read'],
  getLimit: ['read'],
  listGroups: ['read'],
  listBulks: ['read'],
  getBulk: ['read'],
  listSchedules: ['read'],
  scheduleTicks: ['read'],

  revealPayload: ['read:payload'],
  jobOutput: ['read:payload'],

  enqueue: ['enqueue'],
  enqueueMany: ['enqueue'],
  cloneJob: ['read', 'enqueue'],

  claimWork: ['work'],
  extendWork: ['work'],
  settleWork: ['work'],
  releaseWork: ['work'],
  progressWork: ['work'],
  logWork: ['work'],
  leaveWork: ['work'],

  cancelJob: ['operate'],
  signalJob: ['operate'],
  requeueJob: ['operate'],
  requeueDead: ['operate'],
  discardJob: ['operate'],
  runJob: ['operate'],
  updateJob: ['operate'],
  setQueue: ['operate'],
  pauseQueue: ['operate'],
  resumeQueue: ['operate'],
  removeQueue: ['operate'],
  pauseSchedule: ['operate'],
  resumeSchedule: ['operate'],
  removeSchedule: ['operate'],
  cancelBulk: ['operate'],
  setLimit: ['operate'],
  removeLimit: ['operate'],
  openBreaker: ['operate'],
  closeBreaker: ['operate'],
  releaseBreaker: ['operate'],
  setGroup: ['operate'],
  removeGroup: ['operate'],
  pauseGroup: ['operate'],
  resumeGroup: ['operate'],

  deleteJob: ['delete'],

  startBulk: ['read', 'operate'],
  deleteMany: ['read', 'operate', 'delete'],
  requeueMany: ['read', 'operate'],

  setSchedule: ['operate', 'enqueue'],
  runSchedule: ['operate', 'enqueue'],
  backfillSchedule: ['operate', 'enqueue'],
  changePayload: ['operate', 'enqueue'],

  listKeys: ['admin'],
  createKey: ['admin'],
  revokeKey: ['admin'],
} as const

export type Action = keyof typeof PERMISSIONS

/** What an action needs. */
export function needsOf(action: Action): Need {
  return PERMISSIONS[action]
}

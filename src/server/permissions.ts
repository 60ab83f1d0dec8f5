// What each request needs: the one place where scopes meet actions. Requests are checked by it, the OpenAPI document and the
// tests are made from it, and docs/server.md is held to it.
//
// Scopes mean what they say. What makes a job, or decides what a job carries, needs `enqueue`, whichever way it goes; what
// copies a job needs sight of it; what acts on all jobs that match a filter needs sight of them, because its count tells.

import type { KeyScope } from '../core/operating.js'

/** All of these scopes, or somebody who is known, or anyone. */
export type Need = readonly KeyScope[] | 'signed_in' | 'anyone'

/** By the name of the route; `changePayload` is what updateJob needs beyond its own when it changes the payload. */
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
  listBulks: ['read'],
  getBulk: ['read'],
  listSchedules: ['read'],

  revealPayload: ['read:payload'],

  enqueue: ['enqueue'],
  enqueueMany: ['enqueue'],
  cloneJob: ['read', 'enqueue'],

  cancelJob: ['operate'],
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

  startBulk: ['read', 'operate'],
  requeueMany: ['read', 'operate'],

  setSchedule: ['operate', 'enqueue'],
  runSchedule: ['operate', 'enqueue'],
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

// Every call of a store with something to do, and who may make it. The type asks for each method of the contract: a new one
// cannot be left out.

import { NO_LIMIT } from '../../src/core/flow/settings.js'
import type { Store } from '../../src/core/store.js'
import {
  dead,
  FAILURE,
  newBeat,
  newJob,
  newNote,
  newSchedule,
  retrying,
} from '../../src/testing/store-suite/samples.js'
import { claimJob, enqueueJob, jobIn, startJob } from '../../src/testing/store-suite/steps.js'

export type CallName = Exclude<
  keyof Store,
  | 'kind'
  | 'parts'
  | 'outbox'
  | 'hears'
  | 'rest'
  | 'stir'
  | 'announceDue'
  | 'wake'
  | 'listen'
  | 'mute'
  | 'extender'
  | 'reportTo'
  | 'close'
>

/** Makes the call as `store`, on what `owner` has prepared. */
type Call = (store: Store, owner: Store) => Promise<unknown>

const BULK = { action: 'requeue', filter: { states: ['dead'] }, by: 'ada', perSecond: null, limit: 10 } as const
const TALLY = { enqueued: 1, claimed: 0, succeeded: 0, failed: 0, retried: 0, dead: 0, cancelled: 0, rescued: 0 }
const KEY = { hash: 'ab'.repeat(32), name: 'one', scopes: ['read'], queues: null, expiresAtMs: null } as const
const RETENTION = { retentionMs: 7 * 86_400_000 }

let names = 0
const fresh = (word: string) => `${word}-${++names}`

export const CALLS: Readonly<Record<CallName, Call>> = {
  async enqueue(store) {
    // A queue of its own: its name has to be written down too. Plain, with a key, and after one that has not finished.
    const queue = fresh('queue')
    const parent = newJob({ queue })
    await store.enqueue([parent])
    await store.enqueue([parent])
    await store.enqueue([newJob({ queue, idempotencyKey: { key: fresh('key'), ttlMs: null } })])
    await store.enqueue([newJob({ queue, after: [parent.id] }), newJob({ queue, when: { delayMs: 60_000 } })])
    await store.enqueue([newJob({ queue, flow: { group: 'acme', limits: [], cost: 1 } })])
  },
  async claim(store, owner) {
    const queue = fresh('queue')
    await enqueueJob(owner, { queue })
    await claimJob(store, { queue })
    // With everything that flow control writes: a limit, a rate of the group, and a breaker that is probed.
    const limit = fresh('limit')
    const rate = { limit: 10, perMs: 1_000, burst: 10, counts: 'starts' } as const
    await owner.setLimit(limit, { ...NO_LIMIT, rate }, 'ada')
    await owner.setGroup(queue, 'acme', { concurrency: 2, rate, weight: 1 }, 'ada')
    await enqueueJob(owner, { queue, flow: { group: 'acme', limits: [limit], cost: 1 } })
    await claimJob(store, { queue })
  },
  begin: async (store, owner) => store.begin([await startIn(owner)]),
  extend: async (store, owner) => store.extend([await startIn(owner)], 30_000),
  watch: async (store, owner) => store.watch([await startIn(owner)]),
  note: async (store, owner) => store.note([newNote(await startIn(owner), { progress: '1' })]),
  signal: async (store, owner) =>
    store.signal([{ id: await enqueueJob(owner), key: fresh('key'), name: 'approved', value: '1', by: 'ada' }]),
  recall: async (store, owner) => store.recall(await startIn(owner)),
  keep: async (store, owner) =>
    store.keep([
      { ...(await startIn(owner)), entry: { kind: 'step', name: 'a', value: '1', begun: 1, isEnded: true, tookMs: 0 } },
    ]),
  write: async (store, owner) => store.write([{ ...(await startIn(owner)), offset: 0, chunks: ['a'] }]),
  read: async (store, owner) => store.read({ id: await enqueueJob(owner), from: 0 }),
  doubtful: (store) => store.doubtful({ id: null, queues: null, limit: 10, after: null }),
  async settle(store, owner) {
    await store.settle([retrying(await startIn(owner)), dead(await startIn(owner))])
    await store.settle([dead(await startIn(owner), { error: null })])
    const job = await startJob(owner, { queue: fresh('queue'), flow: { group: 'acme', limits: [], cost: 1 } })
    await store.settle([{ ...retrying(job), holdOff: { scope: 'queue', afterMs: 10 }, spent: 3 }])
  },
  promote: (store) => store.promote(10),
  expired: (store) => store.expired(10),
  due: (store) => store.due(10),
  async fire(store, owner) {
    const name = fresh('schedule')
    await owner.setSchedule(newSchedule({ name }), 1_000, 'ada')
    const ticks = [{ tickMs: 1_000, job: newJob({ queue: fresh('queue') }) }]
    await store.fire({ name, expectedNextAtMs: 1_000, ticks, nextAtMs: 2_000 })
  },
  prune: (store) => store.prune(RETENTION),
  pruneAudit: (store) => store.pruneAudit({ keptMs: 365 * 86_400_000, linesMax: 1_000_000 }),
  tally: (store) => store.tally([{ queue: 'email', ...TALLY, waitMsTotal: 0, runMsTotal: 0 }]),
  sample: (store) => store.sample(),
  async stepBulk(store, owner) {
    await jobIn(owner, 'dead', { queue: fresh('queue') })
    for (const action of ['requeue', 'cancel', 'discard', 'delete'] as const) {
      await owner.startBulk({ ...BULK, id: newJob().id, action, expected: null })
      const step = await store.stepBulk()
      if (step?.state === 'failed') throw new Error(`the bulk action failed: ${(await owner.getBulk(step.id))!.error}`)
    }
  },

  cancel: async (store, owner) => store.cancel([await enqueueJob(owner, { queue: fresh('queue') })], 'api'),
  requeue: async (store, owner) => store.requeue([await deadIn(owner)], 'api'),
  delete: async (store, owner) => store.delete([await deadIn(owner), await enqueueJob(owner)], 'api'),
  discard: async (store, owner) => store.discard([await deadIn(owner)], 'api'),
  async bury(store, owner) {
    const id = await enqueueJob(owner, { queue: fresh('queue'), when: { delayMs: 60_000 } })
    return store.bury([{ id, attempt: 1, error: FAILURE, worker: 'elsewhere' }])
  },
  update: async (store, owner) => store.update(await enqueueJob(owner), { priority: 3, payload: '{}' }, 'ada'),
  pause: (store) => store.pause(fresh('queue'), 'ada'),
  resume: (store) => store.resume('email', 'ada'),
  setQueue: (store) => store.setQueue(fresh('queue'), { limits: {} }, 'ada'),
  queues: (store) => store.queues(),
  // Workers set what their definitions ask for; operators set what they like.
  setLimit: (store) => store.setLimit(`type:${fresh('type')}`, NO_LIMIT, 'holdfast', 'definition'),
  async removeLimit(store, owner) {
    const limit = fresh('limit')
    await owner.setLimit(limit, NO_LIMIT, 'ada')
    await store.removeLimit(limit, 'ada')
  },
  limits: (store) => store.limits(),
  async forceBreaker(store, owner) {
    const limit = fresh('limit')
    await owner.setLimit(limit, NO_LIMIT, 'ada')
    await store.forceBreaker(limit, 'open', 'api')
  },
  async observe(store, owner) {
    const limit = fresh('limit')
    const breaker = { failures: 0.5, of: 1, withinMs: 1_000, cooldownMs: 1_000, probes: 1 }
    await owner.setLimit(limit, { ...NO_LIMIT, breaker }, 'ada')
    await store.observe([{ limit, ok: 1, failed: 1, overloaded: 0 }])
  },
  setGroup: (store) => store.setGroup('email', fresh('group'), { concurrency: 1, rate: null, weight: 1 }, 'ada'),
  pauseGroup: (store) => store.pauseGroup('email', fresh('group'), 'ada'),
  resumeGroup: (store) => store.resumeGroup('email', fresh('group'), 'ada'),
  groups: (store) => store.groups({ queue: 'email', prefix: '', after: null, limit: 10 }),
  flowCounts: (store) => store.flowCounts(),
  stoppedGroups: (store) => store.stoppedGroups(10),
  tracks: (store) => store.tracks({ queues: ['email'], limit: null }),
  async neighbours(store, owner) {
    const queue = fresh('queue')
    const id = await enqueueJob(owner, { queue, flow: { group: 'acme', limits: [], cost: 1 } })
    await store.neighbours({ id, queue, group: 'acme', limit: 5 })
  },
  openQueues: (store) => store.openQueues([fresh('queue')], { by: 'ada', most: 10 }),
  async removeQueue(store, owner) {
    const queue = fresh('queue')
    await owner.setQueue(queue, { limits: {} }, 'ada')
    await store.removeQueue(queue, 'ada')
  },
  setSchedule: (store) => store.setSchedule(newSchedule({ name: fresh('schedule') }), 1_000, 'ada'),
  removeSchedule: (store) => store.removeSchedule('nightly', 'ada'),
  pauseSchedule: (store) => store.pauseSchedule('nightly', 'ada'),
  resumeSchedule: (store) => store.resumeSchedule('nightly', 1_000, 'ada'),
  schedules: (store) => store.schedules(),
  async startBulk(store) {
    const bulk = await store.startBulk({ ...BULK, id: newJob().id, expected: null })
    await store.cancelBulk(bulk.id, 'ada')
  },
  bulks: (store) => store.bulks(10),
  getBulk: (store) => store.getBulk(newJob().id),
  async cancelBulk(store, owner) {
    const { id } = await owner.startBulk({ ...BULK, id: newJob().id, expected: null })
    try {
      await store.cancelBulk(id, 'ada')
    } finally {
      await owner.cancelBulk(id, 'ada')
    }
  },
  createKey: (store) => store.createKey({ ...KEY, id: fresh('id') }, 'ada'),
  keys: (store) => store.keys(),
  findKey: (store) => store.findKey('id'),
  revokeKey: (store) => store.revokeKey('id', 'ada'),
  touchKey: (store) => store.touchKey('id'),
  record: (store) => store.record({ actor: 'api', action: 'look' }),

  get: async (store, owner) => store.get(await enqueueJob(owner)),
  among: async (store, owner) => store.among([await enqueueJob(owner)], ['email']),
  async list(store, owner) {
    await deadIn(owner)
    await store.list({ filter: {}, limit: 10, before: null })
    await store.list({ filter: { states: ['dead'], errors: [['mail']], types: ['send_*'] }, limit: 10, before: null })
  },
  async count(store) {
    await store.count({ types: ['send_*'] }, { max: 100 })
    await store.count({ states: ['ready', 'succeeded', 'scheduled'] }, { max: 100 })
  },
  stats: async (store) => Promise.all([store.stats(null), store.stats('email')]),
  overview: (store) => store.overview(),
  series: (store) => store.series({ queue: null, sinceMs: Date.now() - 60_000, stepMs: 10_000 }),
  deadGroups: (store) => store.deadGroups({ queue: null, limit: 10 }),
  standing: async (store, owner) => store.standing(await jobIn(owner, 'blocked', { queue: fresh('queue') })),
  audit: (store) => store.audit({ before: null, limit: 10 }),
  health: (store) => store.health(),
  horizon: (store) => store.horizon(),
  endings: async (store, owner) => store.endings([await deadIn(owner)]),
  now: (store) => store.now(),
  sharedSecret: (store) => store.sharedSecret(),
  beat: (store) => store.beat(newBeat()),
  leave: (store) => store.leave(newBeat().id),
  workers: (store) => store.workers(),
  pulse: (store) => store.pulse!({ queues: ['default'], beats: [newBeat()], isUpkeep: true }),
}

const EVERYONE = ['now', 'horizon', 'health'] as const
// An enqueue finds its track in the rows that `tracks` shows.
const PRODUCING = ['enqueue', 'tally', 'among', 'openQueues', 'tracks'] as const
const LOOKING = [
  ...(['queues', 'bulks', 'getBulk', 'list', 'count', 'stats', 'overview', 'series', 'deadGroups'] as const),
  ...(['standing', 'audit', 'workers', 'watch', 'limits', 'groups', 'flowCounts'] as const),
  ...(['stoppedGroups', 'tracks', 'neighbours'] as const),
]
const WORKING = [
  ...PRODUCING,
  ...LOOKING,
  ...([
    'claim',
    'begin',
    'extend',
    'note',
    'recall',
    'signal',
    'write',
    'doubtful',
    'read',
    'keep',
    'settle',
    'beat',
    'leave',
    'pulse',
    'get',
    'endings',
  ] as const),
  ...(['promote', 'expired', 'due', 'fire', 'prune', 'sample', 'stepBulk', 'schedules'] as const),
  // Limits of definitions are written by who works on them.
  ...(['setLimit', 'observe'] as const),
  // What a bulk action does, how it ends, and with what it is written down.
  ...(['cancel', 'requeue', 'discard', 'cancelBulk', 'record'] as const),
  // It could claim the job and settle it as dead as well.
  'bury' as const,
]

/** The calls of each role; every other one is refused. */
export const ALLOWED: Readonly<Record<'producer' | 'worker' | 'operator' | 'viewer', ReadonlySet<CallName>>> = {
  producer: new Set<CallName>([...EVERYONE, ...PRODUCING]),
  viewer: new Set<CallName>([...EVERYONE, ...LOOKING, 'among', 'sharedSecret']),
  worker: new Set<CallName>([...EVERYONE, ...WORKING]),
  // Who may operate must not be able to take back what was written about them.
  operator: new Set((Object.keys(CALLS) as CallName[]).filter((name) => name !== 'pruneAudit')),
}

/** Payload filters look at payloads. */
export const PAYLOAD_FILTER = { payload: [{ path: ['to'], anyOf: ['ada'] }] } as const

async function startIn(owner: Store): ReturnType<typeof startJob> {
  const queue = fresh('queue')
  return startJob(owner, { queue }, { queue })
}

async function deadIn(owner: Store): Promise<string> {
  const job = await startIn(owner)
  await owner.settle([dead(job, { error: FAILURE })])
  return job.id
}

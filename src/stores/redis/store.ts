// The Redis store: the contract's methods in order, each in the file of its name.

import { randomBytes } from 'node:crypto'
import { checkWhole } from '../../core/check.js'
import { HoldfastError } from '../../core/errors.js'
import { BATCH_MAX, type ExtenderSpec, type Queryable } from '../../core/job-store.js'
import { DEAD_GROUPS_MAX } from '../../core/operating.js'
import { COUNT_WINDOW_MAX, PAGE_MAX } from '../../core/operator-store.js'
import type { Store } from '../../core/store.js'
import { apiKeys, createKey, findKey, revokeKey, sharedSecret, touchKey } from './api-keys.js'
import { audit, pruneAudit, record } from './audit.js'
import { bulks, cancelBulk, getBulk, startBulk, stepBulk } from './bulks.js'
import { bury } from './bury.js'
import { cancel } from './cancel.js'
import { claim } from './claim.js'
import { deadGroups } from './dead-groups.js'
import { type AroundDelete, Deleting, deleteJobs } from './delete.js'
import { endings } from './endings.js'
import { enqueue } from './enqueue.js'
import { Epochs, epochOf } from './epochs.js'
import { expired } from './expired.js'
import { begin, extend, watch } from './extend.js'
import { flowCounts } from './flow-counts.js'
import { neighbours, stoppedGroups, tracks } from './flow-looks.js'
import { among, get } from './get.js'
import { groups, pauseGroup, resumeGroup, setGroup } from './groups.js'
import { health } from './health.js'
import { doubtful, doubtfulPage, keep, recall } from './kept.js'
import { forceBreaker, limits, observe, removeLimit, setLimit } from './limits.js'
import { count, list } from './list.js'
import { note } from './note.js'
import { read, write } from './output.js'
import { overview } from './overview.js'
import { promote } from './promote.js'
import { prune } from './prune.js'
import { openQueues, pause, queues, removeQueue, resume, setQueue } from './queues.js'
import type { Redis } from './redis.js'
import { discard, requeue } from './requeue.js'
import { due, fire, pauseSchedule, removeSchedule, resumeSchedule, schedules, setSchedule } from './schedules.js'
import { sample, series, tally } from './series.js'
import { settle } from './settle.js'
import { signal } from './signal.js'
import { standing } from './standing.js'
import { stats } from './stats.js'
import { update } from './update.js'
import type { WakeUps } from './wake.js'
import { beat, leave, workers } from './workers.js'

export interface StoreParts {
  readonly redis: Redis
  readonly wakeUps: WakeUps
  /** Ends the connections. */
  readonly close: () => Promise<void>
  readonly extender: () => ExtenderSpec
  /** The most queues. */
  readonly queuesMax: number
}

/** What the outbox needs of a store on Redis beside the contract. */
export interface RedisStore extends Store {
  readonly shardCount: number
  /** Another text when the server of a shard may have lost its last writes (epochs.ts). */
  epochOf(shard: number): Promise<string>
  /** Where a job probably is. */
  shardOf(id: string): number
  /** From now on batches of bulk actions that delete jobs are done inside `around`. */
  aroundDeletes(around: AroundDelete): void
}

/** Puts the operations together. */
export function composeStore({ redis, wakeUps, extender, queuesMax, close }: StoreParts): RedisStore {
  const epochs = new Epochs()
  const deleting = new Deleting()
  return {
    kind: 'redis',
    shardCount: 1,
    epochOf: () => epochOf(redis),
    shardOf: () => 0,
    aroundDeletes(around) {
      deleting.around = around
    },

    async enqueue(jobs, { tx, claim: claiming } = {}) {
      refuseTx(tx)
      checkBatch('enqueue', jobs)
      return enqueue({ redis, queuesMax }, jobs, { claim: claiming })
    },
    async claim(request) {
      for (const { queue, limit } of request.queues) checkWhole(`claim: limit of "${queue}"`, limit, 0, BATCH_MAX)
      return claim(redis, request)
    },
    begin: (leases) => begin(redis, leases),
    async extend(leases, leaseMs) {
      checkBatch('extend', leases)
      return extend(redis, leases, leaseMs)
    },
    watch: (leases) => watch(redis, leases),
    note: (notes) => note(redis, notes),
    async settle(jobs, { tx, onlyExpired = false } = {}) {
      refuseTx(tx)
      checkBatch('settle', jobs)
      return settle(redis, onlyExpired ? 'upkeep' : 'settle', jobs, onlyExpired)
    },

    promote: (limit) => promote(redis, Math.min(limit, BATCH_MAX)),
    expired: (limit) => expired(redis, Math.min(limit, BATCH_MAX), epochs),
    due: (limit, afterQueue = '') => due(redis, limit, afterQueue),
    fire: (request) => fire(redis, request, queuesMax),
    prune: ({ retentionMs }) => prune(redis, retentionMs),
    pruneAudit: (options) => pruneAudit(redis, options),
    async tally(tallies) {
      checkBatch('tally', tallies)
      return tally(redis, tallies)
    },
    sample: () => sample(redis),
    stepBulk: () => stepBulk(redis, deleting),

    cancel: (ids, by) => cancel(redis, ids, by),
    requeue: (ids, by) => requeue(redis, ids, by),
    discard: (ids, by) => discard(redis, ids, by),
    async delete(ids, by) {
      checkBatch('delete', ids)
      return deleteJobs(redis, ids, by)
    },
    async bury(burials, { tx } = {}) {
      refuseTx(tx)
      checkBatch('bury', burials)
      return bury(redis, burials)
    },
    update: (id, changes, by) => update(redis, id, changes, by),
    pause: (queue, by) => pause(redis, queue, by),
    resume: (queue, by) => resume(redis, queue, by),
    setQueue: (queue, settings, by) => setQueue(redis, queue, settings, by),
    queues: () => queues(redis),
    openQueues: (names, options) => openQueues(redis, names, { ...options, max: queuesMax }),
    removeQueue: (name, by) => removeQueue(redis, name, by),

    recall: (lease) => recall(redis, lease),
    async keep(entries) {
      checkBatch('keep', entries)
      return keep(redis, entries)
    },
    async signal(signals) {
      checkBatch('signal', signals)
      return signal(redis, signals)
    },
    async doubtful(request) {
      checkWhole('doubtful: limit', request.limit, 1, PAGE_MAX)
      return doubtfulPage(await doubtful(redis, request), request.limit)
    },
    async write(writes) {
      checkBatch('write', writes)
      return write(redis, writes)
    },
    read: (request) => read(redis, request),

    async observe(reports) {
      checkBatch('observe', reports)
      return observe(redis, reports)
    },
    setLimit: (name, settings, by, origin = 'operator') => setLimit(redis, name, settings, { by, origin }),
    removeLimit: (name, by) => removeLimit(redis, name, by),
    limits: () => limits(redis),
    forceBreaker: (name, forced, by) => forceBreaker(redis, name, forced, by),
    setGroup: (queue, group, override, by) => setGroup(redis, { queue, group, by }, override),
    pauseGroup: (queue, group, by) => pauseGroup(redis, queue, group, by),
    resumeGroup: (queue, group, by) => resumeGroup(redis, queue, group, by),
    async groups(request) {
      checkWhole('groups: limit', request.limit, 1, PAGE_MAX)
      return groups(redis, request)
    },
    flowCounts: () => flowCounts(redis),
    async stoppedGroups(limit) {
      return stoppedGroups(redis, checkWhole('stoppedGroups: limit', limit, 1, PAGE_MAX))
    },
    tracks: (request) => tracks(redis, request),
    async neighbours(request) {
      checkWhole('neighbours: limit', request.limit, 1, PAGE_MAX)
      return neighbours(redis, request)
    },

    setSchedule: (schedule, nextAtMs, by, bound) => setSchedule(redis, schedule, nextAtMs, { by, bound }),
    removeSchedule: (name, by) => removeSchedule(redis, name, by),
    pauseSchedule: (name, by) => pauseSchedule(redis, name, by),
    resumeSchedule: (name, nextAtMs, by) => resumeSchedule(redis, name, nextAtMs, by),
    schedules: () => schedules(redis),

    startBulk: (bulk) => startBulk(redis, bulk),
    async bulks(limit) {
      return bulks(redis, checkWhole('bulks: limit', limit, 1, PAGE_MAX))
    },
    getBulk: (id) => getBulk(redis, id),
    cancelBulk: (id, by) => cancelBulk(redis, id, by),

    createKey: (key, by) => createKey(redis, key, by),
    keys: () => apiKeys(redis),
    findKey: (id) => findKey(redis, id),
    revokeKey: (id, by) => revokeKey(redis, id, by),
    touchKey: (id) => touchKey(redis, id),
    sharedSecret: () => sharedSecret(redis, randomBytes(32).toString('hex')),
    record: (entry) => record(redis, entry),
    async audit(request) {
      checkWhole('audit: limit', request.limit, 1, PAGE_MAX)
      return audit(redis, request)
    },

    get: (id) => get(redis, id),
    endings: (ids) => endings(redis, ids),
    async among(ids, names) {
      checkBatch('among', ids)
      return among(redis, ids, names)
    },
    async list(request) {
      checkWhole('list: limit', request.limit, 1, PAGE_MAX)
      return list(redis, request)
    },
    async count(filter, { max, signal }) {
      return count(redis, filter, { max: checkWhole('count: max', max, 1, COUNT_WINDOW_MAX), signal })
    },
    standing: (id) => standing(redis, id),
    stats: (queue) => stats(redis, queue),
    overview: (request = {}) => overview(redis, request),
    series: (request) => series([redis], request),
    async deadGroups(request) {
      checkWhole('deadGroups: limit', request.limit, 1, DEAD_GROUPS_MAX)
      return deadGroups(redis, request)
    },
    workers: () => workers(redis),
    health: () => health(redis),
    // Nothing here holds a snapshot.
    horizon: async () => null,
    async now() {
      return (await redis.read('look', 'now', [])).nowMs
    },

    beat: (worker) => beat(redis, worker),
    leave: (workerId) => leave(redis, workerId),
    wake: (names) => {
      for (const name of names) wakeUps.ready(name, false)
      void redis.write('look', 'wake', names).catch(() => {})
    },
    listen: (listener) => wakeUps.listen(listener),
    mute: async (listener, isMuted) => wakeUps.mute(listener, isMuted),
    extender,
    reportTo: (emit) => epochs.reportTo(emit),
    async close() {
      wakeUps.close()
      await close()
    },
  }
}

export function checkBatch(call: string, list: readonly unknown[]): void {
  checkWhole(`${call}: the number of jobs`, list.length, 0, BATCH_MAX)
}

export function refuseTx(tx: Queryable | undefined): void {
  if (tx === undefined) return
  throw new HoldfastError(
    'unsupported',
    "a job on Redis cannot be part of a PostgreSQL transaction without an outbox, got tx: connect(url, { outbox: 'postgres://…' }) has one, see docs/outbox.md",
  )
}

// The store contract over a memory: each call is one operation of the files around this one.

import { randomBytes } from 'node:crypto'
import { checkWhole } from '../../core/check.js'
import { HoldfastError } from '../../core/errors.js'
import { BATCH_MAX } from '../../core/job-store.js'
import { DEAD_GROUPS_MAX, QUEUES_MAX } from '../../core/operating.js'
import { COUNT_WINDOW_MAX, PAGE_MAX } from '../../core/operator-store.js'
import type { Clock } from '../../core/ports.js'
import type { Store } from '../../core/store.js'
import type { StoreListener } from '../../core/store-listener.js'
import { apiKeys, createKey, findKey, revokeKey, touchKey } from './api-keys.js'
import { audit, pruneAudit, writeLine } from './audit.js'
import { begin } from './begin.js'
import { bulks, cancelBulk, getBulk, startBulk, stepBulk } from './bulks.js'
import { bury } from './bury.js'
import { cancel } from './cancel.js'
import { claim } from './claim.js'
import { copyOf } from './copy.js'
import { deadGroups } from './dead-groups.js'
import { deleteJobs } from './delete.js'
import { endings } from './endings.js'
import { enqueue } from './enqueue.js'
import { expired } from './expired.js'
import { extend, watch } from './extend.js'
import { flowCounts } from './flow-counts.js'
import { neighbours, stoppedGroups, tracks } from './flow-looks.js'
import { get } from './get.js'
import { groups, pauseGroup, resumeGroup, setGroup } from './groups.js'
import { health } from './health.js'
import { doubtful, keep, recall, signal } from './kept.js'
import { forceBreaker, limits, observe, removeLimit, setLimit } from './limits.js'
import { count, list } from './list.js'
import type { Memory } from './memory.js'
import { note } from './note.js'
import { read, write } from './output.js'
import { overview } from './overview.js'
import { promote } from './promote.js'
import { prune } from './prune.js'
import { openQueues, pause, queues, removeQueue, resume, setQueue } from './queues.js'
import { discard, requeue } from './requeue.js'
import { due, fire, pauseSchedule, removeSchedule, resumeSchedule, schedules, setSchedule } from './schedules.js'
import { sample, series, tally } from './series.js'
import { settle } from './settle.js'
import { standing } from './standing.js'
import { stats } from './stats.js'
import { type AnswerQuery, MemoryTransaction, transactionOf } from './transaction.js'
import { update } from './update.js'
import { beat, leave, workers } from './workers.js'

const begins = new WeakMap<Store, (answer: AnswerQuery) => MemoryTransaction>()

/** Begins a transaction of a memory store, which its enqueues and settlements take as `tx`. `answer` stands for the caller's own tables. */
export function beginIn(store: Store, answer: AnswerQuery = () => []): MemoryTransaction {
  const begin = begins.get(store)
  if (begin === undefined) throw new HoldfastError('unsupported', 'only a memory store begins transactions by itself')
  return begin(answer)
}

/** A store of what `memory` knows, by the time of `clock`. The caller keeps the memory and can look at it. */
export function storeOver(memory: Memory, clock: Pick<Clock, 'now'>): Store {
  const listeners = new Set<StoreListener>()
  const secret = randomBytes(32).toString('hex')
  let isClosed = false

  // Each call is one step that nothing comes between. Its answer is a copy, so that no caller holds a part of the memory.
  const call = async <T>(step: (nowMs: number) => T, isEnqueue = false): Promise<T> => {
    if (isClosed) throw new HoldfastError('closed', 'the memory store is closed: open another one')
    const answer = copyOf(step(Math.floor(clock.now())))
    announce(memory, listeners, isEnqueue)
    return answer
  }

  const store: Store = {
    kind: 'memory',

    enqueue: (jobs, { tx, claim: claiming } = {}) =>
      call((nowMs) => {
        if (tx !== undefined) return transactionOf(memory, tx).enqueue(bounded('enqueue', jobs), nowMs)
        const names = bounded('enqueue', jobs).map(({ queue }) => queue)
        openQueues(memory, names, { by: null, most: 0, max: QUEUES_MAX, nowMs })
        return enqueue(memory, jobs, { claim: claiming, nowMs })
      }, true),
    claim: (request) =>
      call((nowMs) => {
        for (const { queue, limit } of request.queues) checkWhole(`claim: limit of "${queue}"`, limit, 0, BATCH_MAX)
        return claim(memory, request, nowMs)
      }),
    begin: (leases) => call(() => begin(memory, leases)),
    extend: (leases, leaseMs) => call((nowMs) => extend(memory, bounded('extend', leases), leaseMs, nowMs)),
    watch: (leases) => call(() => watch(memory, leases)),
    note: (notes) => call(() => note(memory, notes)),
    settle: (jobs, { tx, onlyExpired = false } = {}) =>
      call((nowMs) => {
        if (tx !== undefined) return transactionOf(memory, tx).settle(bounded('settle', jobs))
        return settle(memory, bounded('settle', jobs), onlyExpired, nowMs)
      }),

    recall: (lease) => call(() => recall(memory, lease)),
    keep: (entries) => call((nowMs) => keep(memory, bounded('keep', entries), nowMs)),

    doubtful: (request) =>
      call(() => {
        checkWhole('doubtful: limit', request.limit, 1, PAGE_MAX)
        return doubtful(memory, request)
      }),
    write: (writes) => call((nowMs) => write(memory, bounded('write', writes), nowMs)),
    read: ({ id, from }) => call(() => read(memory, id, from)),
    signal: (signals) => call((nowMs) => bounded('signal', signals).map((sent) => signal(memory, sent, nowMs))),

    observe: (reports) => call((nowMs) => observe(memory, bounded('observe', reports), nowMs)),

    promote: (limit) => call((nowMs) => promote(memory, limit, nowMs)),
    expired: (limit) => call((nowMs) => expired(memory, limit, nowMs)),
    due: (limit, afterQueue = '') => call((nowMs) => due(memory, limit, afterQueue, nowMs)),
    fire: (request) => call((nowMs) => fire(memory, request, nowMs)),
    prune: ({ retentionMs }) => call((nowMs) => prune(memory, retentionMs, nowMs)),
    tally: (tallies) => call((nowMs) => tally(memory, bounded('tally', tallies), nowMs)),
    sample: () => call((nowMs) => sample(memory, nowMs)),
    stepBulk: () => call((nowMs) => stepBulk(memory, nowMs)),

    cancel: (ids, by) => call((nowMs) => cancel(memory, ids, by, nowMs)),
    requeue: (ids, by) => call((nowMs) => requeue(memory, ids, by, nowMs)),
    discard: (ids, by) => call((nowMs) => discard(memory, ids, by, nowMs)),
    delete: (ids, by) => call((nowMs) => deleteJobs(memory, bounded('delete', ids), by, nowMs)),
    bury: (burials, { tx } = {}) =>
      call((nowMs) => {
        if (tx === undefined) return bury(memory, bounded('bury', burials), nowMs)
        throw new HoldfastError('unsupported', 'bury takes no tx in the memory store: leave it out')
      }),
    update: (id, changes, by) => call((nowMs) => update(memory, id, changes, by, nowMs)),
    pause: (queue, by) => call((nowMs) => pause(memory, queue, by, nowMs)),
    resume: (queue, by) => call((nowMs) => resume(memory, queue, by, nowMs)),
    setQueue: (queue, settings, by) => call((nowMs) => setQueue(memory, queue, settings, { by, nowMs })),
    queues: () => call(() => queues(memory)),
    openQueues: (names, options) => call((nowMs) => openQueues(memory, names, { ...options, max: QUEUES_MAX, nowMs })),
    removeQueue: (name, by) => call((nowMs) => removeQueue(memory, name, by, nowMs)),

    setLimit: (name, settings, by, origin = 'operator') =>
      call((nowMs) => setLimit(memory, name, settings, { by, origin, nowMs })),
    removeLimit: (name, by) => call((nowMs) => removeLimit(memory, name, by, nowMs)),
    limits: () => call((nowMs) => limits(memory, nowMs)),
    forceBreaker: (name, forced, by) => call((nowMs) => forceBreaker(memory, name, forced, { by, nowMs })),
    setGroup: (queue, group, override, by) => call((nowMs) => setGroup(memory, { queue, group, by, nowMs }, override)),
    pauseGroup: (queue, group, by) => call((nowMs) => pauseGroup(memory, { queue, group, by, nowMs })),
    resumeGroup: (queue, group, by) => call((nowMs) => resumeGroup(memory, { queue, group, by, nowMs })),
    groups: (request) =>
      call((nowMs) =>
        groups(memory, { ...request, limit: checkWhole('groups: limit', request.limit, 1, PAGE_MAX) }, nowMs),
      ),
    flowCounts: () => call((nowMs) => flowCounts(memory, nowMs)),
    stoppedGroups: (limit) => call(() => stoppedGroups(memory, checkWhole('stoppedGroups: limit', limit, 1, PAGE_MAX))),
    tracks: (request) => call(() => tracks(memory, request)),
    neighbours: (request) =>
      call(() =>
        neighbours(memory, { ...request, limit: checkWhole('neighbours: limit', request.limit, 1, PAGE_MAX) }),
      ),

    setSchedule: (schedule, nextAtMs, by, bound) =>
      call((nowMs) => setSchedule(memory, schedule, nextAtMs, { by, nowMs, bound })),
    removeSchedule: (name, by) => call((nowMs) => removeSchedule(memory, name, { by, nowMs })),
    pauseSchedule: (name, by) => call((nowMs) => pauseSchedule(memory, name, { by, nowMs })),
    resumeSchedule: (name, nextAtMs, by) => call((nowMs) => resumeSchedule(memory, name, nextAtMs, { by, nowMs })),
    schedules: () => call(() => schedules(memory)),

    startBulk: (bulk) => call((nowMs) => startBulk(memory, bulk, nowMs)),
    bulks: (limit) => call(() => bulks(memory, checkWhole('bulks: limit', limit, 1, PAGE_MAX))),
    getBulk: (id) => call(() => getBulk(memory, id)),
    cancelBulk: (id, by) => call((nowMs) => cancelBulk(memory, id, by, nowMs)),
    createKey: (key, by) => call((nowMs) => createKey(memory, key, by, nowMs)),
    keys: () => call(() => apiKeys(memory)),
    findKey: (id) => call(() => findKey(memory, id)),
    revokeKey: (id, by) => call((nowMs) => revokeKey(memory, id, by, nowMs)),
    touchKey: (id) => call((nowMs) => touchKey(memory, id, nowMs)),
    record: (entry) => call((nowMs) => writeLine(memory, entry, nowMs)),

    get: (id) => call(() => get(memory, id)),
    among: (ids, queues) => call(() => bounded('among', ids).filter((id) => queues.includes(queueOf(memory, id)))),
    list: (request) =>
      call((nowMs) =>
        list(memory, { ...request, limit: checkWhole('list: limit', request.limit, 1, PAGE_MAX) }, nowMs),
      ),
    count: (filter, { max }) =>
      call((nowMs) => count(memory, filter, checkWhole('count: max', max, 1, COUNT_WINDOW_MAX), nowMs)),
    stats: (queue) => call((nowMs) => stats(memory, queue, nowMs)),
    overview: (request = {}) => call((nowMs) => overview(memory, request, nowMs)),
    series: (request) => call((nowMs) => series(memory, request, nowMs)),
    deadGroups: (request) =>
      call(() => {
        checkWhole('deadGroups: limit', request.limit, 1, DEAD_GROUPS_MAX)
        return deadGroups(memory, request)
      }),
    standing: (id) => call((nowMs) => standing(memory, id, nowMs)),
    pruneAudit: (options) => call((nowMs) => pruneAudit(memory, options, nowMs)),
    audit: (request) =>
      call(() => audit(memory, { ...request, limit: checkWhole('audit: limit', request.limit, 1, PAGE_MAX) })),
    health: () => call((nowMs) => health(nowMs)),
    horizon: () => call(() => null),
    endings: (ids) => call(() => endings(memory, ids)),
    now: () => call((nowMs) => nowMs),
    sharedSecret: () => call(() => secret),

    beat: (worker) => call((nowMs) => beat(memory, worker, nowMs)),
    leave: (workerId) => call(() => leave(memory, workerId)),
    workers: () => call(() => workers(memory)),

    wake: (names) => {
      for (const name of names) memory.woken.add(name)
      announce(memory, listeners, false)
    },
    listen: (listener) => {
      listeners.add(listener)
      return () => void listeners.delete(listener)
    },
    // There is no other process here.
    mute: async () => {},
    extender: () => null,
    close: async () => {
      isClosed = true
      listeners.clear()
    },
  }
  begins.set(store, (answer) => new MemoryTransaction(memory, (step) => call(step, true), answer))
  return store
}

function queueOf(memory: Memory, id: string): string {
  return memory.jobs.get(id)?.facts.queue ?? ''
}

function bounded<T>(call: string, list: readonly T[]): readonly T[] {
  checkWhole(`${call}: the number of jobs`, list.length, 0, BATCH_MAX)
  return list
}

function announce(memory: Memory, listeners: ReadonlySet<StoreListener>, isOwnEnqueue: boolean): void {
  const queues = [...memory.woken]
  const ids = [...memory.asked]
  memory.woken.clear()
  memory.asked.clear()
  for (const listener of [...listeners]) {
    for (const queue of queues) tell(() => listener.ready?.(queue, isOwnEnqueue))
    for (const id of ids) tell(() => listener.cancel?.(id))
  }
}

// A report may be lost, so a listener that throws disturbs no other.
function tell(speak: () => void): void {
  try {
    speak()
  } catch {}
}

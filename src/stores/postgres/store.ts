// The PostgreSQL store: the contract's methods in order, each in the file of its name.

import { checkWhole } from '../../core/check.js'
import { HoldfastError } from '../../core/errors.js'
import type { NewJob } from '../../core/job.js'
import { DEAD_GROUPS_MAX } from '../../core/operating.js'
import {
  BATCH_MAX,
  COUNT_WINDOW_MAX,
  type ExtenderSpec,
  PAGE_MAX,
  type Queryable,
  type Store,
} from '../../core/store.js'
import { apiKeys, createKey, findKey, revokeKey, touchKey } from './api-keys.js'
import { audit, record } from './audit.js'
import { bulks, cancelBulk, getBulk, startBulk, stepBulk } from './bulks.js'
import { cancel } from './cancel.js'
import { claim } from './claim.js'
import type { Database, Purpose, Send } from './database.js'
import { deadGroups } from './dead-groups.js'
import { endings } from './endings.js'
import { enqueue } from './enqueue.js'
import { expired } from './expired.js'
import { begin, extend, watch } from './extend.js'
import { Floors } from './floors.js'
import { get } from './get.js'
import { health } from './health.js'
import { horizon } from './horizon.js'
import { count, list, readNow } from './list.js'
import { note } from './note.js'
import { overview } from './overview.js'
import { newSweep, promote } from './promote.js'
import { prune } from './prune.js'
import { knowQueues, pause, queues, resume, setQueue } from './queues.js'
import { discard, requeue } from './requeue.js'
import { due, fire, removeSchedule, schedules, setSchedule, setSchedulePaused } from './schedules.js'
import { sample, series, tally } from './series.js'
import { settle } from './settle.js'
import { standing } from './standing.js'
import { stats } from './stats.js'
import { update } from './update.js'
import type { WakeUps } from './wake.js'
import { beat, leave, workers } from './workers.js'

// Names are remembered to save a statement; whoever makes them up by the thousand pays for it again.
const KNOWN_QUEUES_MAX = 10_000

// From this age of the oldest snapshot on, claims no longer start at the beginning of the line.
const FLOORS_FROM_MS = 5_000

export interface StoreParts {
  readonly db: Database
  readonly wakeUps: WakeUps
  readonly extender: () => ExtenderSpec
  /** Leaves the server after everything else has ended. */
  readonly leaveServer: () => Promise<void>
  /** Where claims start while an old snapshot is held; its own unless a test gives one. */
  readonly floors?: Floors
}

/** Puts the operations together. */
export function composeStore({ db, wakeUps, extender, leaveServer, floors = new Floors() }: StoreParts): Store {
  const sweep = newSweep()
  const knownQueues = new Set<string>()
  const ready = (queue: string) => wakeUps.ready(queue)
  const by = (purpose: Purpose): Send => {
    return (sql, values) => db.send(purpose, sql, values)
  }
  const [operate, upkeep, settling] = [by('operate'), by('upkeep'), by('settle')]

  // Null, and not a promise, when there is nothing to write: every enqueue asks.
  const remember = (jobs: readonly NewJob[]): Promise<void> | null => {
    if (jobs.every(({ queue }) => knownQueues.has(queue))) return null
    return rememberNew([...new Set(jobs.map(({ queue }) => queue).filter((queue) => !knownQueues.has(queue)))])
  }
  const rememberNew = async (fresh: readonly string[]) => {
    await knowQueues(operate, fresh)
    if (knownQueues.size > KNOWN_QUEUES_MAX) knownQueues.clear()
    for (const queue of fresh) knownQueues.add(queue)
  }

  return {
    kind: 'postgres',

    async enqueue(jobs, { tx, claim: claiming } = {}) {
      checkBatch('enqueue', jobs)
      const isKnown = remember(jobs)
      if (isKnown !== null) await isKnown
      const answers = await enqueue(db, tx === undefined ? null : db.through(tx), jobs, claiming)
      const touched = new Set<string>()
      for (const [index, answer] of answers.entries()) {
        if ('created' in answer && answer.created && answer.state === 'ready') touched.add(jobs[index]!.queue)
      }
      for (const queue of touched) tx === undefined ? wakeUps.ready(queue) : wakeUps.readySoon(queue)
      return answers
    },
    async claim(request) {
      for (const { queue, limit } of request.queues) checkWhole(`claim: limit of "${queue}"`, limit, 0, BATCH_MAX)
      return claim(db, floors, request)
    },
    begin: (leases) => begin(db, leases),
    async extend(leases, leaseMs) {
      checkBatch('extend', leases)
      return extend(db, leases, leaseMs)
    },
    watch: (leases) => watch(db, leases),
    note: (notes) => note(db, notes),
    async settle(jobs, { tx, onlyExpired = false } = {}) {
      checkBatch('settle', jobs)
      const send = chooseSender(db, tx, onlyExpired ? upkeep : settling)
      const onReady = tx === undefined ? ready : (queue: string) => wakeUps.readySoon(queue)
      return settle(db, send, jobs, { onlyExpired, onReady })
    },

    async promote(limit) {
      const promotion = await promote(db, upkeep, sweep, Math.min(limit, BATCH_MAX))
      promotion.queues.forEach(ready)
      return promotion
    },
    expired: (limit) => expired(db, Math.min(limit, BATCH_MAX)),
    due: (limit) => due(db, limit),
    fire: (request) => fire(db, request, ready),
    prune: (options) => prune(db, options),
    async tally(tallies) {
      checkBatch('tally', tallies)
      return tally(db, tallies)
    },
    sample: () => sample(db),
    stepBulk: () => stepBulk(db, { asked: (id) => wakeUps.cancel(id), ready }),

    cancel: (ids, actor) => cancel(db, operate, ids, actor, { asked: (id) => wakeUps.cancel(id), ready }),
    requeue: (ids, actor) => requeue(db, ids, actor, ready),
    discard: (ids, actor) => discard(db, operate, ids, actor),
    update: (id, changes, actor) => update(db, operate, id, changes, actor),
    pause: (queue, actor) => pause(db, queue, actor),
    async resume(queue, actor) {
      await resume(db, queue, actor)
      ready(queue)
    },
    setQueue: (queue, settings, actor) => setQueue(db, queue, settings, actor),
    queues: () => queues(db),
    setSchedule: (schedule, nextAtMs, actor) => setSchedule(db, schedule, nextAtMs, actor),
    removeSchedule: (name, actor) => removeSchedule(db, name, actor),
    pauseSchedule: (name, actor) => setSchedulePaused(db, name, null, actor),
    resumeSchedule: (name, nextAtMs, actor) => setSchedulePaused(db, name, nextAtMs, actor),
    schedules: () => schedules(db),

    startBulk: (bulk) => startBulk(db, bulk),
    async bulks(limit) {
      checkWhole('bulks: limit', limit, 1, PAGE_MAX)
      return bulks(db, limit)
    },
    getBulk: (id) => getBulk(db, id),
    cancelBulk: (id, actor) => cancelBulk(db, id, actor),
    createKey: (key, actor) => createKey(db, key, actor),
    keys: () => apiKeys(db),
    findKey: (id) => findKey(db, id),
    revokeKey: (id, actor) => revokeKey(db, id, actor),
    touchKey: (id) => touchKey(db, id),
    record: (entry) => record(db, operate, entry),

    get: (id) => get(db, id),
    async list(request) {
      checkWhole('list: limit', request.limit, 1, PAGE_MAX)
      return list(db, request)
    },
    async count(filter, { max }) {
      checkWhole('count: max', max, 1, COUNT_WINDOW_MAX)
      return count(db, filter, max)
    },
    stats: (queue) => stats(db, queue),
    overview: () => overview(db),
    series: (request) => series(db, request),
    async deadGroups(request) {
      checkWhole('deadGroups: limit', request.limit, 1, DEAD_GROUPS_MAX)
      return deadGroups(db, request)
    },
    standing: (id) => standing(db, id),
    async audit(request) {
      checkWhole('audit: limit', request.limit, 1, PAGE_MAX)
      return audit(db, request)
    },
    health: () => health(db),
    async horizon() {
      const held = await horizon(db)
      floors.heard(held !== null && held.ageMs >= FLOORS_FROM_MS, performance.now())
      return held
    },
    endings: (ids) => endings(db, ids),
    now: () => readNow(db, by('look')),
    beat: (worker) => beat(db, worker),
    leave: (workerId) => leave(db, workerId),
    workers: () => workers(db),

    wake: (names) => names.forEach(ready),
    listen: (listener) => wakeUps.listen(listener),
    extender,
    async close() {
      await Promise.all([wakeUps.close(), db.close()])
      await leaveServer()
    },
  }
}

function chooseSender(db: Database, tx: Queryable | undefined, own: Send): Send {
  return tx === undefined ? own : db.through(tx)
}

function checkBatch(call: string, batch: readonly unknown[]): void {
  if (batch.length <= BATCH_MAX) return
  throw new HoldfastError(
    'invalid_option',
    `${call} takes at most ${BATCH_MAX} jobs in one call, got ${batch.length}: cut it into pieces`,
  )
}

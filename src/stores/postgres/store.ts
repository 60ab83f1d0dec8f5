// The PostgreSQL store: the contract's methods in order, each in the file of its name.

import { checkWhole } from '../../core/check.js'
import { HoldfastError } from '../../core/errors.js'
import type { NewJob } from '../../core/job.js'
import { BATCH_MAX, type ExtenderSpec } from '../../core/job-store.js'
import { DEAD_GROUPS_MAX, QUEUES_MAX } from '../../core/operating.js'
import { COUNT_WINDOW_MAX, PAGE_MAX } from '../../core/operator-store.js'
import type { Store } from '../../core/store.js'
import { among } from './among.js'
import { apiKeys, createKey, findKey, revokeKey, touchKey } from './api-keys.js'
import { audit, pruneAudit, record } from './audit.js'
import { bulks, cancelBulk, getBulk, startBulk, stepBulk } from './bulks.js'
import { cancel } from './cancel.js'
import { claim } from './claim.js'
import type { Database, Purpose, Send } from './database.js'
import { deadGroups } from './dead-groups.js'
import { endings } from './endings.js'
import { enqueue, enqueueThrough } from './enqueue.js'
import { expired } from './expired.js'
import { begin, extend, watch } from './extend.js'
import { Floors } from './floors.js'
import { get } from './get.js'
import { health } from './health.js'
import { horizon } from './horizon.js'
import { LateLooks } from './late-looks.js'
import { count, list, readNow } from './list.js'
import { note } from './note.js'
import { overview } from './overview.js'
import { newSweep, promote } from './promote.js'
import { prune } from './prune.js'
import { knowQueues, pause, queues, removeQueue, resume, setQueue } from './queues.js'
import { discard, requeue } from './requeue.js'
import { due, fire, removeSchedule, schedules, setSchedule, setSchedulePaused } from './schedules.js'
import { sample, series, tally } from './series.js'
import { Settling, settle } from './settle.js'
import { sharedSecret } from './shared-secret.js'
import { standing } from './standing.js'
import { stats } from './stats.js'
import { update } from './update.js'
import type { WakeUps } from './wake.js'
import { beat, leave, workers } from './workers.js'

// Names are remembered to save a statement; whoever makes them up by the thousand pays for it again.
const KNOWN_QUEUES_MAX = 10_000

// How long a queue is taken for known: one that was removed meanwhile is listed again after it.
const REMEMBERED_MS = 60_000

// How long new names go unlisted after one of them was found to be in somebody's open transaction.
const ASK_AGAIN_MS = 1_000

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
  /** The most queues. Default 10,000. */
  readonly queuesMax?: number
}

/** Puts the operations together. */
export function composeStore({
  db,
  wakeUps,
  extender,
  leaveServer,
  floors = new Floors(),
  queuesMax = QUEUES_MAX,
}: StoreParts): Store {
  const sweep = newSweep()
  const knownQueues = new Set<string>()
  let rememberedMs = performance.now()
  let askAgainMs = 0
  const ready = (queue: string) => wakeUps.ready(queue)
  const by = (purpose: Purpose): Send => {
    return (sql, values) => db.send(purpose, sql, values)
  }
  const [operate, upkeep] = [by('operate'), by('upkeep')]
  const lateLooks = new LateLooks(db, ready)
  const onEnded = (ids: readonly string[]) => lateLooks.add(ids)
  const settling = new Settling(db, onEnded)

  // Null, and not a promise, when there is nothing to write: every enqueue asks.
  const remember = (jobs: readonly NewJob[], max: number | null): Promise<void> | null => {
    // Somebody may have removed one meanwhile.
    if (performance.now() - rememberedMs > REMEMBERED_MS) {
      rememberedMs = performance.now()
      knownQueues.clear()
    }
    if (jobs.every(({ queue }) => knownQueues.has(queue))) return null
    if (performance.now() < askAgainMs) return null
    return rememberNew([...new Set(jobs.map(({ queue }) => queue).filter((queue) => !knownQueues.has(queue)))], max)
  }
  const rememberNew = async (fresh: readonly string[], max: number | null) => {
    // Not behind an operator's calls: an enqueue waits for this.
    if ((await knowQueues(db, by('enqueue'), fresh, { max })) === 'in writing') {
      askAgainMs = performance.now() + ASK_AGAIN_MS
      return
    }
    if (knownQueues.size > KNOWN_QUEUES_MAX) knownQueues.clear()
    for (const queue of fresh) knownQueues.add(queue)
  }

  return {
    kind: 'postgres',

    async enqueue(jobs, { tx, claim: claiming, wereHeld = [] } = {}) {
      checkBatch('enqueue', jobs)
      const isKnown = remember(jobs, queuesMax)
      if (isKnown !== null) await isKnown
      const answers =
        tx === undefined
          ? await enqueue(db, jobs, { claim: claiming, wereHeld })
          : await enqueueThrough(db, db.through(tx), jobs)
      const touched = new Set<string>()
      for (const [index, answer] of answers.entries()) {
        if ('created' in answer && answer.created && answer.state === 'ready') touched.add(jobs[index]!.queue)
      }
      if (tx !== undefined && jobs.some(({ after }) => after.length > 0)) lateLooks.afterTransaction()
      for (const queue of touched) tx === undefined ? wakeUps.ready(queue) : wakeUps.readySoon(queue)
      return answers
    },
    async claim(request) {
      for (const { queue, limit } of request.queues) checkWhole(`claim: limit of "${queue}"`, limit, 0, BATCH_MAX)
      return claim(db, floors, request, ready)
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
      if (tx !== undefined) {
        const onReady = (queue: string) => wakeUps.readySoon(queue)
        const results = await settle(db, db.through(tx), jobs, { onlyExpired, isInTransaction: true, onReady })
        lateLooks.afterTransaction()
        return results
      }
      if (onlyExpired) return settle(db, upkeep, jobs, { onlyExpired, onReady: ready, onEnded })
      return settling.settle(jobs, ready)
    },

    async promote(limit) {
      const promotion = await promote(db, upkeep, sweep, Math.min(limit, BATCH_MAX), (id) => wakeUps.cancel(id))
      promotion.queues.forEach(ready)
      return promotion
    },
    expired: (limit) => expired(db, Math.min(limit, BATCH_MAX)),
    due: (limit, afterQueue) => due(db, limit, afterQueue),
    fire: (request) => fire(db, request, { onJobs: (jobs) => remember(jobs, null), onReady: ready }),
    prune: (options) => prune(db, options),
    pruneAudit: (options) => pruneAudit(db, options),
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
    openQueues: async (names, { by: name, most }) =>
      (await knowQueues(db, operate, names, { max: queuesMax, by: { name, most } })) !== 'too many',
    async removeQueue(name, actor) {
      knownQueues.delete(name)
      return removeQueue(db, name, actor)
    },
    setSchedule: (schedule, nextAtMs, actor, bound) => setSchedule(db, schedule, nextAtMs, actor, bound),
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
    async among(ids, queues) {
      checkBatch('among', ids)
      return among(db, ids, queues)
    },
    async list(request) {
      checkWhole('list: limit', request.limit, 1, PAGE_MAX)
      return list(db, request)
    },
    async count(filter, options) {
      checkWhole('count: max', options.max, 1, COUNT_WINDOW_MAX)
      return count(db, filter, options)
    },
    stats: (queue) => stats(db, queue),
    overview: (request) => overview(db, request),
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
    sharedSecret: () => sharedSecret(db),
    beat: (worker) => beat(db, worker),
    leave: (workerId) => leave(db, workerId),
    workers: () => workers(db),

    wake: (names) => names.forEach(ready),
    listen: (listener) => wakeUps.listen(listener),
    extender,
    async close() {
      await lateLooks.close()
      await Promise.all([wakeUps.close(), db.close()])
      await leaveServer()
    },
  }
}

function checkBatch(call: string, batch: readonly unknown[]): void {
  if (batch.length <= BATCH_MAX) return
  throw new HoldfastError(
    'invalid_option',
    `${call} takes at most ${BATCH_MAX} jobs in one call, got ${batch.length}: cut it into pieces`,
  )
}

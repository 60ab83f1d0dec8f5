// The PostgreSQL store: the contract's methods in order, each in the file of its name.

import { checkWhole } from '../../core/check.js'
import { HoldfastError } from '../../core/errors.js'
import { BATCH_MAX, type ExtenderSpec } from '../../core/job-store.js'
import { DEAD_GROUPS_MAX, QUEUES_MAX } from '../../core/operating.js'
import { COUNT_WINDOW_MAX, PAGE_MAX } from '../../core/operator-store.js'
import type { Store } from '../../core/store.js'
import { among } from './among.js'
import { apiKeys, createKey, findKey, revokeKey, touchKey } from './api-keys.js'
import { audit, pruneAudit, record } from './audit.js'
import { forceBreaker, observe } from './breakers.js'
import { bulks, cancelBulk, getBulk, startBulk, stepBulk } from './bulks.js'
import { bury } from './bury.js'
import { cancel } from './cancel.js'
import { Claims } from './claim-flow.js'
import type { Database, Purpose, Send } from './database.js'
import { deadGroups } from './dead-groups.js'
import { deleteJobs } from './delete.js'
import { doubtful } from './doubtful.js'
import { endings } from './endings.js'
import { enqueue } from './enqueue.js'
import { enqueueUnanswered, UnansweredJobs } from './enqueue-unanswered.js'
import { expired } from './expired.js'
import { begin, extend, watch } from './extend.js'
import { Failover } from './failover.js'
import { FailoverMemory } from './failover-memory.js'
import type { MemoryBounds } from './failover-options.js'
import { type EnqueueAgain, withFailover } from './failover-store.js'
import { Floors } from './floors.js'
import { flowCounts } from './flow-counts.js'
import { neighbours, stoppedGroups, tracks } from './flow-looks.js'
import { newFlowSweep, sweepFlow } from './flow-net.js'
import { FullQueues } from './full-queues.js'
import { get } from './get.js'
import { groups, pauseGroup, resumeGroup, setGroup } from './groups.js'
import { health } from './health.js'
import { horizon } from './horizon.js'
import { keep, recall } from './kept.js'
import { KnownQueues } from './known-queues.js'
import type { LaneGroup } from './lane-group.js'
import { LateLooks } from './late-looks.js'
import { checkLimits, limits, removeLimit, setLimit } from './limits.js'
import { count, list, readNow } from './list.js'
import { note } from './note.js'
import { read, write } from './output.js'
import { overview } from './overview.js'
import { newSweep, promote } from './promote.js'
import { newPrunedGroups, prune } from './prune.js'
import { newPrunedKept } from './prune-kept.js'
import { knowQueues, pause, queues, removeQueue, resume, setQueue } from './queues.js'
import { RestRaiser } from './raise-rest.js'
import { discard, requeue } from './requeue.js'
import { resting } from './resting.js'
import { due, fire, removeSchedule, schedules, setSchedule, setSchedulePaused } from './schedules.js'
import { sample, series, tally } from './series.js'
import { oneByOne, settle } from './settle.js'
import { Settling } from './settle-locked.js'
import { sharedSecret } from './shared-secret.js'
import { signal } from './signal.js'
import { standing } from './standing.js'
import { stats } from './stats.js'
import { unblockAfter } from './unblock.js'
import { update } from './update.js'
import type { WakeUps } from './wake.js'
import { beat, leave, workers } from './workers.js'

// From this age of the oldest snapshot on, claims no longer start at the beginning of the backlog.
const FLOORS_FROM_MS = 5_000

export interface StoreParts {
  readonly db: Database
  readonly wakeUps: WakeUps
  readonly extender: () => ExtenderSpec | null
  /** Leaves the server after everything else has ended. */
  readonly leaveServer: () => Promise<void>
  /** Where claims start while an old snapshot is held; its own unless a test gives one. */
  readonly floors?: Floors
  /** The most queues. Default 10,000. */
  readonly queuesMax?: number
}

interface FailoverSettings {
  readonly group: LaneGroup
  readonly bounds: MemoryBounds
}

/** Puts the operations together, with what says again what a failover may lose. Raises `store_stale` on an old primary. */
export async function composeSafeStore(parts: StoreParts, { group, bounds }: FailoverSettings): Promise<Store> {
  const { store, ready: onReady, ...composed } = compose(parts)
  const memory = new FailoverMemory(bounds)
  const onAsked = (id: string) => parts.wakeUps.cancel(id)
  const failover = new Failover({ db: parts.db, group, memory, ...composed, onReady, onAsked })
  try {
    await failover.begin()
  } catch (error) {
    await store.close()
    throw error
  }
  const enqueueAgain: EnqueueAgain = (jobs, request) =>
    enqueueUnanswered({ db: parts.db, ...composed, onReady }, jobs, request)
  return withFailover(store, { failover, memory, unanswered: new UnansweredJobs(bounds), enqueueAgain })
}

/** Puts the operations together. */
export function composeStore(parts: StoreParts): Store {
  return compose(parts).store
}

interface Composed {
  readonly store: Store
  readonly knownQueues: KnownQueues
  readonly lateLooks: LateLooks
  readonly fullQueues: FullQueues
  readonly ready: (queue: string) => void
}

function compose({
  db,
  wakeUps,
  extender,
  leaveServer,
  floors = new Floors(),
  queuesMax = QUEUES_MAX,
}: StoreParts): Composed {
  const sweep = newSweep()
  const flowSweep = newFlowSweep()
  const knownQueues = new KnownQueues(db, queuesMax)
  const ready = (queue: string) => wakeUps.ready(queue)
  /** Wakes each queue once for all jobs of one settlement, however many of them made room in it. */
  const readyAfter = (jobs: number) => {
    const woken = new Set<string>()
    return (queue: string) => {
      if (!woken.has(queue)) wakeUps.ready(queue, jobs)
      woken.add(queue)
    }
  }
  const by = (purpose: Purpose): Send => {
    return (sql, values) => db.send(purpose, sql, values)
  }
  const [operate, upkeep] = [by('operate'), by('upkeep')]
  const lateLooks = new LateLooks(db, ready)
  const onEnded = (ids: readonly string[]) => lateLooks.add(ids)
  const settling = new Settling(db, floors, onEnded)
  const pruning = { rest: new RestRaiser(db), groups: newPrunedGroups(), kept: newPrunedKept(), early: new Map() }
  const fullQueues = new FullQueues(db)
  const claims = new Claims(db, floors, ready)

  const store: Store = {
    kind: 'postgres',

    async enqueue(jobs, request = {}) {
      checkBatch('enqueue', jobs)
      return enqueue({ db, knownQueues, wakeUps, lateLooks, fullQueues }, jobs, request)
    },
    async claim(request) {
      for (const { queue, limit, ahead = 0 } of request.queues) {
        checkWhole(`claim: limit of "${queue}"`, limit, 0, BATCH_MAX)
        checkWhole(`claim: ahead of "${queue}"`, ahead, 0, limit)
      }
      return claims.claim(request)
    },
    begin: (leases) => begin(db, leases),
    async extend(leases, leaseMs) {
      checkBatch('extend', leases)
      return extend(db, leases, leaseMs)
    },
    watch: (leases) => watch(db, leases),
    note: (notes) => note(db, notes),
    recall: (lease) => recall(db, lease),
    async doubtful(request) {
      checkWhole('doubtful: limit', request.limit, 1, PAGE_MAX)
      return doubtful(db, request)
    },
    async write(writes) {
      checkBatch('write', writes)
      return write(db, writes)
    },
    read: ({ id, from }) => read(db, id, from),
    async signal(signals) {
      checkBatch('signal', signals)
      return signal(db, signals, ready)
    },
    async keep(entries) {
      checkBatch('keep', entries)
      return keep(db, entries)
    },
    async settle(jobs, { tx, onlyExpired = false } = {}) {
      checkBatch('settle', jobs)
      if (tx !== undefined) {
        const onReady = (queue: string) => wakeUps.readySoon(queue)
        const send = oneByOne(db.through(tx))
        const results = await settle(db, send, jobs, { onlyExpired, isInTransaction: true, onReady })
        lateLooks.afterTransaction()
        return results
      }
      if (onlyExpired) return settle(db, oneByOne(upkeep), jobs, { onlyExpired, onReady: ready, onEnded })
      return settling.settle(jobs, readyAfter(jobs.length))
    },

    async promote(limit) {
      const repairedBefore = flowSweep.repaired
      const onAsked = (id: string) => wakeUps.cancel(id)
      const { promotion, hasFlow } = await promote(db, upkeep, sweep, Math.min(limit, BATCH_MAX), onAsked)
      const forgotten = hasFlow ? await sweepFlow(db, flowSweep, floors.isOn) : null
      promotion.queues.forEach(ready)
      if (forgotten !== null) ready(forgotten)
      const repaired = flowSweep.repaired - repairedBefore
      return repaired === 0 ? promotion : { ...promotion, repaired }
    },
    expired: (limit) => expired(db, Math.min(limit, BATCH_MAX)),
    due: (limit, afterQueue) => due(db, limit, afterQueue),
    fire: (request) => fire(db, request, { onJobs: (jobs) => knownQueues.add(jobs, null), onReady: ready }),
    prune: (options) => prune(db, pruning, options),
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
    async delete(ids, actor) {
      checkBatch('delete', ids)
      return deleteJobs(db, ids, actor, ready)
    },
    async bury(burials, { tx } = {}) {
      checkBatch('bury', burials)
      if (tx === undefined) return bury(db, operate, burials, (ids) => unblockAfter(db, operate, ids, ready))
      return bury(db, db.through(tx), burials, () => lateLooks.afterTransaction())
    },
    update: (id, changes, actor) => update(db, operate, id, changes, actor, ready),
    pause: (queue, actor) => pause(db, queue, actor),
    async resume(queue, actor) {
      await resume(db, queue, actor)
      ready(queue)
    },
    async setQueue(queue, settings, actor) {
      await setQueue(db, queue, settings, actor)
      fullQueues.forget()
      ready(queue)
    },
    queues: () => queues(db),
    openQueues: async (names, { by: name, most }) =>
      (await knowQueues(db, operate, names, { max: queuesMax, by: { name, most } })) !== 'too many',
    async removeQueue(name, actor) {
      knownQueues.forget(name)
      return removeQueue(db, name, actor)
    },

    setLimit: (name, settings, by, origin = 'operator') => setLimit(db, { name, settings, by, origin }, ready),
    removeLimit: (name, by) => removeLimit(db, name, by),
    limits: () => limits(db),
    forceBreaker: (name, forced, by) => forceBreaker(db, { name, forced, by }, ready),
    observe: (reports) => observe(db, reports, ready),
    setGroup: (queue, group, override, by) => setGroup(db, { queue, group, by }, override, ready),
    pauseGroup: (queue, group, by) => pauseGroup(db, { queue, group, by }, ready),
    resumeGroup: (queue, group, by) => resumeGroup(db, { queue, group, by }, ready),
    async groups(request) {
      checkWhole('groups: limit', request.limit, 1, PAGE_MAX)
      return groups(db, request)
    },
    flowCounts: () => flowCounts(db),
    async stoppedGroups(limit) {
      checkWhole('stoppedGroups: limit', limit, 1, PAGE_MAX)
      return stoppedGroups(db, limit)
    },
    tracks: (request) => tracks(db, request),
    async neighbours(request) {
      checkWhole('neighbours: limit', request.limit, 1, PAGE_MAX)
      return neighbours(db, request)
    },

    async setSchedule(schedule, nextAtMs, actor, bound) {
      await checkLimits(db, `schedule "${schedule.name}" was not set: it`, schedule.flow?.limits ?? [])
      return setSchedule(db, schedule, nextAtMs, actor, bound)
    },
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
      floors.observe(held !== null && held.ageMs >= FLOORS_FROM_MS, performance.now())
      return held
    },
    endings: (ids) => endings(db, ids),
    now: () => readNow(db, by('look')),
    sharedSecret: () => sharedSecret(db),
    beat: (worker) => beat(db, worker),
    leave: (workerId) => leave(db, workerId),
    workers: () => workers(db),

    ...resting(db, wakeUps),
    wake: (names) => names.forEach(ready),
    listen: (listener) => wakeUps.listen(listener),
    mute: (listener, isMuted) => wakeUps.mute(listener, isMuted),
    extender,
    async close() {
      await lateLooks.close()
      await Promise.all([wakeUps.close(), db.close()])
      await leaveServer()
    },
  }
  return { store, knownQueues, lateLooks, fullQueues, ready }
}

function checkBatch(call: string, batch: readonly unknown[]): void {
  if (batch.length <= BATCH_MAX) return
  throw new HoldfastError(
    'invalid_option',
    `${call} takes at most ${BATCH_MAX} jobs in one call, got ${batch.length}: cut it into pieces`,
  )
}

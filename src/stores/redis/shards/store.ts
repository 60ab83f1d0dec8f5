// A store of several shards: the contract's methods in order. A queue is whole in one shard, which its name tells. A job is in the shard of
// its queue, which its id tells if this version made it. What belongs to no queue is in the first shard.
// ◄── ../index.ts · next: shards.ts

import { randomBytes } from 'node:crypto'
import { checkWhole } from '../../../core/check.js'
import { BATCH_MAX } from '../../../core/job-store.js'
import { DEAD_GROUPS_MAX } from '../../../core/operating.js'
import { COUNT_WINDOW_MAX, PAGE_MAX } from '../../../core/operator-store.js'
import { apiKeys, createKey, findKey, revokeKey, sharedSecret, touchKey } from '../api-keys.js'
import { auditOf, record } from '../audit.js'
import { bulks, cancelBulk, getBulk, startBulk } from '../bulks.js'
import { bury } from '../bury.js'
import { cancel } from '../cancel.js'
import { deadGroupsOf } from '../dead-groups.js'
import { Deleting, deleteJobs } from '../delete.js'
import { Epochs, epochOf } from '../epochs.js'
import { neighbours } from '../flow-looks.js'
import { groups, pauseGroup, resumeGroup, setGroup } from '../groups.js'
import { recall } from '../kept.js'
import type { Redis, Sharing } from '../redis.js'
import { discard, requeue } from '../requeue.js'
import { pauseSchedule, removeSchedule, resumeSchedule } from '../schedules.js'
import { tally } from '../series.js'
import { checkBatch, type RedisStore, refuseTx, type StoreParts } from '../store.js'
import { guessShard } from '../tags.js'
import { update } from '../update.js'
import { beat, leave, workers } from '../workers.js'
import { Deliveries } from './deliveries.js'
import { ShardEnqueue } from './enqueue.js'
import { flowCountsFrom, stoppedGroupsFrom, tracksFrom } from './flow.js'
import { healthOf } from './health.js'
import { doubtfulIn, keepIn, readFrom, settleIn, signalIn, writeIn } from './kept.js'
import { ShardLeases } from './leases.js'
import { ShardLimits } from './limits.js'
import { countShards, findInShards, listShards } from './looks.js'
import {
  amongShards,
  endingsFrom,
  getFrom,
  openQueuesIn,
  overviewFrom,
  pauseIn,
  queuesOf,
  removeQueueIn,
  resumeIn,
  schedulesOf,
  seriesFrom,
  setQueueIn,
  setScheduleIn,
  standingFrom,
  statsFrom,
} from './operate.js'
import { Shards } from './shards.js'
import { ShardUpkeep } from './upkeep.js'

interface ShardParts {
  readonly all: readonly Redis[]
  readonly deliveries: Deliveries
}

/** Opens the shards; what a call of one owes others goes to the deliveries. */
export function openShards(count: number, open: (shard: number, sharing: Sharing) => Redis): ShardParts {
  // Lines of the audit log are counted over all shards.
  const newest = { line: 0 }
  const all: Redis[] = []
  const deliveries = new Deliveries(all)
  for (let shard = 0; shard < count; shard++) {
    const sharing: Sharing = {
      get line() {
        return newest.line
      },
      set line(line) {
        newest.line = line
      },
      onOwed: (owed) => deliveries.owe(shard, owed),
    }
    all.push(open(shard, sharing))
  }
  return { all, deliveries }
}

/** Puts the operations together. */
export async function composeShardedStore(parts: Omit<StoreParts, 'redis'> & ShardParts): Promise<RedisStore> {
  const { all, deliveries, wakeUps, extender, queuesMax, close } = parts
  const shards = new Shards(all)
  await shards.refresh()
  const { home } = shards
  const limits = new ShardLimits(shards, deliveries)
  const enqueueing = new ShardEnqueue({ shards, deliveries, limits, queuesMax })
  const leases = new ShardLeases(shards, limits)
  const epochs = new Epochs()
  const deleting = new Deleting()
  const upkeep = new ShardUpkeep({ shards, deliveries, enqueueing, limits, queuesMax, epochs, deleting })
  const isMissing = ({ result }: { readonly result: string }) => result === 'missing'
  /** Waits for what the call caused in other shards. */
  const delivered = async <T>(call: Promise<T>): Promise<T> => {
    const answer = await call
    await deliveries.settle()
    return answer
  }
  return {
    kind: 'redis',
    shardCount: all.length,
    epochOf: (shard) => epochOf(all[shard]!),
    shardOf: (id) => guessShard(id, all.length),
    aroundDeletes(around) {
      deleting.around = around
    },
    parts: {
      count: all.length,
      of: (queue, id) => (id === undefined ? shards.indexOf(queue) : shards.shardOf({ id, queue })),
      mark(id, queue, isFree = false) {
        shards.touch()
        return shards.mark(id, queue, isFree)
      },
    },

    async enqueue(jobs, { tx, claim } = {}) {
      refuseTx(tx)
      checkBatch('enqueue', jobs)
      return enqueueing.enqueue(jobs, { claim })
    },
    async claim(request) {
      for (const { queue, limit } of request.queues) checkWhole(`claim: limit of "${queue}"`, limit, 0, BATCH_MAX)
      return leases.claim(request)
    },
    begin: (held) => leases.begin(held),
    async extend(held, leaseMs) {
      checkBatch('extend', held)
      return leases.extend(held, leaseMs)
    },
    watch: (held) => leases.watch(held),
    note: (notes) => leases.note(notes),
    async settle(jobs, { tx, onlyExpired = false } = {}) {
      refuseTx(tx)
      checkBatch('settle', jobs)
      return settleIn({ shards, leases, enqueueing, deliveries }, onlyExpired ? 'upkeep' : 'settle', jobs, onlyExpired)
    },

    promote: (limit) => upkeep.promote(Math.min(limit, BATCH_MAX)),
    expired: (limit) => upkeep.expired(Math.min(limit, BATCH_MAX)),
    due: (limit, afterQueue = '') => upkeep.due(limit, afterQueue),
    fire: (request) => upkeep.fire(request),
    prune: ({ retentionMs }) => upkeep.prune(retentionMs),
    pruneAudit: (options) => upkeep.pruneAudit(options),
    async tally(tallies) {
      checkBatch('tally', tallies)
      const call = async (redis: Redis, those: typeof tallies) => {
        await tally(redis, those)
        return those
      }
      await shards.byShard(tallies, ({ queue }) => shards.indexOf(queue), call)
    },
    sample: () => upkeep.sample(),
    stepBulk: () => upkeep.stepBulk(),

    cancel: (ids, by) => delivered(shards.byId(ids, (redis, those) => cancel(redis, those, by), isMissing)),
    requeue: (ids, by) => delivered(shards.inOrder(ids, (redis, those) => requeue(redis, those, by))),
    discard: (ids, by) => delivered(shards.byId(ids, (redis, those) => discard(redis, those, by), isMissing)),
    async delete(ids, by) {
      checkBatch('delete', ids)
      return delivered(shards.byId(ids, (redis, those) => deleteJobs(redis, those, by), isMissing))
    },
    async bury(burials, { tx } = {}) {
      refuseTx(tx)
      checkBatch('bury', burials)
      const byId = new Map(burials.map((burial) => [burial.id, burial]))
      const call = (redis: Redis, ids: readonly string[]) =>
        bury(
          redis,
          ids.map((id) => byId.get(id)!),
        )
      return delivered(shards.byId([...byId.keys()], call, isMissing))
    },
    async update(id, changes, by) {
      const call = async (redis: Redis) => [await update(redis, id, changes, by)]
      return (await shards.byId([id], call, isMissing))[0]!
    },
    pause: (queue, by) => pauseIn(shards, queue, by),
    resume: (queue, by) => resumeIn(shards, queue, by),
    setQueue: (queue, settings, by) => setQueueIn(shards, queue, settings, by),
    async queues() {
      return (await queuesOf(shards)).map(({ name, paused, settings }) => ({ name, paused, settings }))
    },
    openQueues: (names, options) => openQueuesIn({ shards, enqueueing, queuesMax }, names, options),
    removeQueue: (name, by) => removeQueueIn(shards, name, by),

    recall: (lease) => recall(all[shards.shardOf(lease)]!, lease),
    async keep(entries) {
      checkBatch('keep', entries)
      return keepIn(shards, entries)
    },
    async signal(signals) {
      checkBatch('signal', signals)
      return signalIn(shards, signals)
    },
    async doubtful(request) {
      checkWhole('doubtful: limit', request.limit, 1, PAGE_MAX)
      return doubtfulIn(shards, request)
    },
    async write(writes) {
      checkBatch('write', writes)
      return writeIn(shards, writes)
    },
    read: (request) => readFrom(shards, request),

    async observe(reports) {
      checkBatch('observe', reports)
      return limits.observe(reports)
    },
    setLimit: (name, settings, by, origin = 'operator') => limits.set(name, settings, { by, origin }),
    removeLimit: (name, by) => limits.remove(name, by),
    limits: () => limits.all(),
    forceBreaker: (name, forced, by) => limits.force(name, forced, by),
    setGroup: (queue, group, override, by) => setGroup(shards.of(queue), { queue, group, by }, override),
    pauseGroup: (queue, group, by) => pauseGroup(shards.of(queue), queue, group, by),
    resumeGroup: (queue, group, by) => resumeGroup(shards.of(queue), queue, group, by),
    async groups(request) {
      checkWhole('groups: limit', request.limit, 1, PAGE_MAX)
      return groups(shards.of(request.queue), request)
    },
    flowCounts: () => flowCountsFrom(shards, limits),
    async stoppedGroups(limit) {
      return stoppedGroupsFrom(shards, checkWhole('stoppedGroups: limit', limit, 1, PAGE_MAX))
    },
    tracks: (request) => tracksFrom(shards, request),
    async neighbours(request) {
      checkWhole('neighbours: limit', request.limit, 1, PAGE_MAX)
      return neighbours(shards.of(request.queue), request)
    },

    async setSchedule(schedule, nextAtMs, by, bound) {
      return setScheduleIn({ shards, enqueueing, limits }, { schedule, nextAtMs, by, bound })
    },
    removeSchedule: (name, by) => removeSchedule(shards.of(name), name, by),
    pauseSchedule: (name, by) => pauseSchedule(shards.of(name), name, by),
    resumeSchedule: (name, nextAtMs, by) => resumeSchedule(shards.of(name), name, nextAtMs, by),
    schedules: () => schedulesOf(shards),

    startBulk: (bulk) => startBulk(home, bulk),
    async bulks(limit) {
      return bulks(home, checkWhole('bulks: limit', limit, 1, PAGE_MAX))
    },
    getBulk: (id) => getBulk(home, id),
    cancelBulk: (id, by) => cancelBulk(home, id, by),

    createKey: (key, by) => createKey(home, key, by),
    keys: () => apiKeys(home),
    findKey: (id) => findKey(home, id),
    revokeKey: (id, by) => revokeKey(home, id, by),
    touchKey: (id) => touchKey(home, id),
    sharedSecret: () => sharedSecret(home, randomBytes(32).toString('hex')),
    record: (entry) => record(home, entry),
    async audit(request) {
      checkWhole('audit: limit', request.limit, 1, PAGE_MAX)
      return auditOf(all, request)
    },

    get: (id) => getFrom(shards, id),
    endings: (ids) => endingsFrom(shards, ids),
    async among(ids, names) {
      checkBatch('among', ids)
      return amongShards(shards, ids, names)
    },
    async list(request) {
      checkWhole('list: limit', request.limit, 1, PAGE_MAX)
      return listShards(shards, request)
    },
    async count(filter, { max, signal }) {
      return countShards(shards, filter, { max: checkWhole('count: max', max, 1, COUNT_WINDOW_MAX), signal })
    },
    standing: (id) => standingFrom(shards, limits, id),
    stats: (queue) => statsFrom(shards, queue),
    overview: (request = {}) => overviewFrom(shards, request),
    series: (request) => seriesFrom(shards, request),
    async deadGroups(request) {
      checkWhole('deadGroups: limit', request.limit, 1, DEAD_GROUPS_MAX)
      return deadGroupsOf((asked) => findInShards(shards, asked), request)
    },
    workers: () => workers(home),
    health: () => healthOf(all),
    // Nothing here holds a snapshot.
    horizon: async () => null,
    async now() {
      return (await home.read('look', 'now', [])).nowMs
    },

    beat: (worker) => beat(home, worker),
    leave: (workerId) => leave(home, workerId),
    wake: (names) => {
      for (const name of names) wakeUps.ready(name, false)
      for (const name of names)
        void shards
          .of(name)
          .write('look', 'wake', [name])
          .catch(() => {})
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

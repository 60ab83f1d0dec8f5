// A store of several shards: the contract's methods in order. A queue is whole in one shard, which its name tells. A job is in the shard of
// its queue, which its id tells if this version made it. What belongs to no queue is in the first shard.
// ◄── ../index.ts · next: shards.ts

import { randomBytes } from 'node:crypto'
import { checkWhole } from '../../../core/check.js'
import type { NewJob } from '../../../core/job.js'
import { BATCH_MAX } from '../../../core/job-store.js'
import { DEAD_GROUPS_MAX } from '../../../core/operating.js'
import { COUNT_WINDOW_MAX, PAGE_MAX } from '../../../core/operator-store.js'
import type { Store } from '../../../core/store.js'
import { apiKeys, createKey, findKey, revokeKey, sharedSecret, touchKey } from '../api-keys.js'
import { auditOf, record } from '../audit.js'
import { bulks, cancelBulk, getBulk, startBulk } from '../bulks.js'
import { bury } from '../bury.js'
import { cancel } from '../cancel.js'
import { deadGroupsOf } from '../dead-groups.js'
import { Epochs } from '../epochs.js'
import { recall } from '../kept.js'
import { pause, removeQueue, resume, setQueue } from '../queues.js'
import type { Redis, Sharing } from '../redis.js'
import { discard, requeue } from '../requeue.js'
import { pauseSchedule, removeSchedule, resumeSchedule } from '../schedules.js'
import { tally } from '../series.js'
import { checkBatch, refuseTx, type StoreParts } from '../store.js'
import { markId } from '../tags.js'
import { update } from '../update.js'
import { beat, leave, workers } from '../workers.js'
import { Deliveries } from './deliveries.js'
import { ShardEnqueue } from './enqueue.js'
import { healthOf } from './health.js'
import { doubtfulIn, keepIn, readFrom, settleIn, signalIn, writeIn } from './kept.js'
import { ShardLeases } from './leases.js'
import { countShards, findInShards, listShards } from './looks.js'
import {
  amongShards,
  endingsFrom,
  getFrom,
  openQueuesIn,
  overviewFrom,
  queuesOf,
  refuseFlowInShards,
  schedulesOf,
  seriesFrom,
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
export function composeShardedStore(parts: Omit<StoreParts, 'redis'> & ShardParts): Store {
  const { all, deliveries, wakeUps, extender, queuesMax, close } = parts
  const shards = new Shards(all)
  const { home } = shards
  const enqueueing = new ShardEnqueue(shards, deliveries, queuesMax)
  const leases = new ShardLeases(shards)
  const epochs = new Epochs()
  const upkeep = new ShardUpkeep({ shards, deliveries, enqueueing, queuesMax, epochs })
  const isMissing = ({ result }: { readonly result: string }) => result === 'missing'
  /** Waits for what the call caused in other shards. */
  const delivered = async <T>(call: Promise<T>): Promise<T> => {
    const answer = await call
    await deliveries.settle()
    return answer
  }
  return {
    kind: 'redis',
    parts: {
      of: (queue) => shards.indexOf(queue),
      mark: (id, queue) => markId(id, shards.indexOf(queue)),
    },

    async enqueue(jobs, { tx, claim } = {}) {
      refuseTx(tx)
      checkBatch('enqueue', jobs)
      refuseFlowJobs(jobs)
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
    pause: (queue, by) => pause(shards.of(queue), queue, by),
    resume: (queue, by) => resume(shards.of(queue), queue, by),
    async setQueue(queue, settings, by) {
      if (settings.flow !== undefined) {
        throw refuseFlowInShards(`the settings of queue "${queue}" have a part about flow control`)
      }
      return setQueue(shards.of(queue), queue, settings, by)
    },
    async queues() {
      return (await queuesOf(shards)).map(({ name, paused, settings }) => ({ name, paused, settings }))
    },
    openQueues: (names, options) => openQueuesIn({ shards, enqueueing, queuesMax }, names, options),
    removeQueue: (name, by) => removeQueue(shards.of(name), name, by),

    ...NO_FLOW_IN_SHARDS,
    recall: (lease) => recall(shards.of(lease.queue), lease),
    async keep(entries) {
      checkBatch('keep', entries)
      return keepIn(shards, entries)
    },
    signal: (sent) => signalIn(shards, sent),
    async doubtful(request) {
      checkWhole('doubtful: limit', request.limit, 1, PAGE_MAX)
      return doubtfulIn(shards, request)
    },
    async write(writes) {
      checkBatch('write', writes)
      return writeIn(shards, writes)
    },
    read: (request) => readFrom(shards, request),

    async setSchedule(schedule, nextAtMs, by, bound) {
      if (schedule.flow !== undefined) {
        throw refuseFlowInShards(`the jobs of schedule "${schedule.name}" have a group or limits`)
      }
      return setScheduleIn(shards, enqueueing, { schedule, nextAtMs, by, bound })
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
    standing: (id) => standingFrom(shards, id),
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

function refuseFlowJobs(jobs: readonly NewJob[]): void {
  const found = jobs.find(({ flow }) => flow !== undefined)
  if (found !== undefined) throw refuseFlowInShards(`job ${found.id} of type "${found.type}" has a group or limits`)
}

type FlowCalls = Pick<
  Store,
  | 'observe'
  | 'setLimit'
  | 'removeLimit'
  | 'limits'
  | 'forceBreaker'
  | 'setGroup'
  | 'pauseGroup'
  | 'resumeGroup'
  | 'groups'
  | 'flowCounts'
  | 'stoppedGroups'
  | 'tracks'
  | 'neighbours'
>

/** The calls about flow control: those that look find nothing, those that change something are refused. */
const NO_FLOW_IN_SHARDS: FlowCalls = {
  observe: async () => [],
  setLimit: async (name) => {
    throw refuseFlowInShards(`limit "${name}" was not set`)
  },
  removeLimit: async () => 'missing',
  limits: async () => [],
  forceBreaker: async () => false,
  setGroup: async (_, group) => {
    throw refuseFlowInShards(`group "${group}" was not set`)
  },
  pauseGroup: async (_, group) => {
    throw refuseFlowInShards(`group "${group}" was not paused`)
  },
  resumeGroup: async (_, group) => {
    throw refuseFlowInShards(`group "${group}" was not resumed`)
  },
  groups: async () => ({ groups: [], next: null }),
  flowCounts: async () => ({ limits: [], queues: [] }),
  stoppedGroups: async () => [],
  tracks: async () => [],
  neighbours: async () => ({ running: [], before: [], after: [] }),
}

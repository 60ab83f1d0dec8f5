// BullMQ 5 and 6 on one Redis server: jobs are taken out of its lists and sets, noted in a hash of ours beside them, and removed when they are
// written. ◄── cli/commands/import.ts

import { HoldfastError } from '../core/errors.js'
import { redactUrl } from '../core/url.js'
import { openConnection } from '../stores/redis/node-redis.js'
import type { RedisConnection, Reply } from '../stores/redis/port.js'
import { type Fields, kindOf, PLACES, readJob, readScheduler } from './bullmq-job.js'
import { CONFIRM, PARKED, PUT_BACK, REMOVE_SCHEDULER, SORT, TAKE } from './bullmq-scripts.js'
import type {
  LeftThere,
  Move,
  OldJob,
  OldKind,
  OldPage,
  OldRef,
  OldSchedule,
  Parked,
  Planned,
  Source,
} from './contract.js'

export interface BullmqOptions {
  readonly url: string
  /** What its keys begin with: bull unless its options say otherwise. */
  readonly prefix: string
  /** Empty: every queue. */
  readonly queues: readonly string[]
}

const CONNECT_MS = 10_000
const QUEUES_MAX = 10_000
const SCHEDULERS_MAX = 10_000
/** Ids of one page, and of one script: a script keeps the server from everything else. */
const PAGE_REFS_MAX = 50_000
const SCRIPT_IDS_MAX = 500

/** Connects. Raises `store_unavailable`. */
export async function openBullmq({ url, prefix, queues }: BullmqOptions): Promise<Source> {
  if (!/^rediss?:\/\//.test(url)) {
    throw new HoldfastError(
      'invalid_url',
      `BullMQ is read from one Redis server: --from must begin with redis:// or rediss://, got ${redactUrl(url)}`,
    )
  }
  try {
    return new BullmqSource(await openConnection({ url, connectMs: CONNECT_MS }), prefix, queues)
  } catch (cause) {
    const why = cause instanceof Error ? cause.message : String(cause)
    throw new HoldfastError('store_unavailable', `BullMQ at ${redactUrl(url)} cannot be read: ${why}; check --from`, {
      cause,
    })
  }
}

class BullmqSource implements Source {
  readonly system = 'bullmq'
  readonly name: string
  readonly #redis: RedisConnection
  readonly #prefix: string
  readonly #asked: readonly string[]
  #queues: readonly string[] = []
  /** How many jobs this pass has met and left in each place. */
  readonly #stayed = new Map<string, number>()
  #inFlows = 0

  constructor(redis: RedisConnection, prefix: string, queues: readonly string[]) {
    this.name = `bullmq:${prefix}`
    this.#redis = redis
    this.#prefix = prefix
    this.#asked = queues
  }

  async check(): Promise<void> {
    const found = await this.#findQueues()
    const missing = this.#asked.find((name) => !found.includes(name))
    if (missing !== undefined || found.length === 0) {
      const what = missing === undefined ? 'no queue of BullMQ' : `no queue ${JSON.stringify(missing)} of BullMQ`
      throw new HoldfastError(
        'invalid_option',
        `there is ${what} under the prefix "${this.#prefix}"; check --from, --prefix and --queue`,
      )
    }
    this.#queues = this.#asked.length > 0 ? this.#asked : found
  }

  /** Every queue has a hash called meta. */
  async #findQueues(): Promise<readonly string[]> {
    const names = new Set<string>()
    let cursor = '0'
    do {
      const pattern = `${this.#prefix.replace(/[[\]*?\\]/g, '\\$&')}:*:meta`
      const [next, keys] = (await this.#redis.send(['SCAN', cursor, 'MATCH', pattern, 'COUNT', '1000'])) as [
        string,
        string[],
      ]
      for (const key of keys) {
        const name = key.slice(this.#prefix.length + 1, -':meta'.length)
        // No queue has a colon in its name.
        if (name !== '' && !name.includes(':')) names.add(name)
      }
      if (names.size > QUEUES_MAX)
        throw new HoldfastError('too_many_queues', `BullMQ has more than ${QUEUES_MAX} queues: name some with --queue`)
      cursor = next
    } while (cursor !== '0')
    return [...names].sort()
  }

  async left(): Promise<LeftThere> {
    let [active, inFlows] = [0, this.#inFlows]
    for (const queue of this.#queues) {
      active += (await this.#redis.send(['LLEN', this.#key(queue, 'active')])) as number
      inFlows += (await this.#redis.send(['ZCARD', this.#key(queue, 'waiting-children')])) as number
    }
    return { active, inFlows }
  }

  /** One page has jobs of one place of one queue; `after` names both. A place is looked at again while its pages are full. */
  async list(kinds: readonly OldKind[], after: string | null): Promise<OldPage> {
    if (after === null) {
      this.#stayed.clear()
      this.#inFlows = 0
    }
    const at = Number(after ?? 0)
    const places = PLACES.filter((place) => kinds.includes(kindOf(place)))
    const queue = this.#queues[Math.floor(at / places.length)]
    if (queue === undefined) return { refs: [], next: null }
    const place = places[at % places.length]!
    const ids = await this.#idsOf(queue, place)
    const answers = await this.#script(SORT, queue, [], ids)
    const free = ids.filter((_, index) => answers[index] === 'free')
    this.#inFlows += answers.filter((answer) => answer === 'flow').length
    this.#stay(queue, place, ids.length - free.length)
    const refs = free.map((id): OldRef => ({ queue, id, kind: kindOf(place), place }))
    const isLast = at + 1 === places.length * this.#queues.length
    if (ids.length === PAGE_REFS_MAX) return { refs, next: String(at) }
    return { refs, next: isLast ? null : String(at + 1) }
  }

  /** The next ids in the order in which workers take them, behind those that this pass has left there. */
  async #idsOf(queue: string, place: string): Promise<readonly string[]> {
    const key = this.#key(queue, place)
    const from = this.#stayed.get(`${queue} ${place}`) ?? 0
    const to = from + PAGE_REFS_MAX - 1
    if (place !== 'wait' && place !== 'paused') {
      return (await this.#redis.send(['ZRANGE', key, String(from), String(to)])) as string[]
    }
    // Workers take the last of a list.
    return ((await this.#redis.send(['LRANGE', key, String(-to - 1), String(-from - 1)])) as string[]).reverse()
  }

  #stay(queue: string, place: string, count: number): void {
    const name = `${queue} ${place}`
    this.#stayed.set(name, (this.#stayed.get(name) ?? 0) + count)
  }

  async look(refs: readonly OldRef[]): Promise<readonly OldJob[]> {
    const olds = await this.#read(refs)
    for (const { queue, place } of refs) this.#stay(queue, place, 1)
    return olds
  }

  async #read(refs: readonly OldRef[]): Promise<readonly OldJob[]> {
    const read = refs.map(async ({ queue, id, place }) => {
      const [fields, score] = await Promise.all([
        this.#redis.send(['HGETALL', this.#key(queue, id)]),
        place === 'delayed' ? this.#redis.send(['ZSCORE', this.#key(queue, place), id]) : '',
      ])
      const found = fieldsOf(fields)
      return found.timestamp === undefined ? [] : [readJob({ queue, id, place, score: (score as string) ?? '' }, found)]
    })
    return (await Promise.all(read)).flat()
  }

  async move({ refs, takenAtMs, plan, write }: Move): Promise<void> {
    // What cannot be brought over is not touched at all.
    const fit = new Set((await this.#read(refs)).filter((old) => plan(old, takenAtMs) !== null).map(({ id }) => id))
    this.#stay(refs[0]!.queue, refs[0]!.place, refs.filter(({ id }) => !fit.has(id)).length)
    const taken = await this.#take(
      refs.filter(({ id }) => fit.has(id)),
      takenAtMs,
    )
    const planned: Planned[] = []
    const back: OldJob[] = []
    for (const old of taken) {
      const made = plan(old, takenAtMs)
      if (made === null) back.push(old)
      else planned.push(made)
    }
    // It was changed meanwhile.
    if (back.length > 0) await this.#each(PUT_BACK, back)
    if (planned.length === 0) return
    await write(planned)
    await this.confirm(planned.map(({ old }) => old))
  }

  /** All of one place of one queue, as a page is. */
  async #take(refs: readonly OldRef[], takenAtMs: number): Promise<readonly OldJob[]> {
    if (refs.length === 0) return []
    const { queue, place } = refs[0]!
    const ids = refs.map(({ id }) => id)
    const answers = await this.#script(TAKE, queue, [place, String(takenAtMs)], ids)
    const olds: OldJob[] = []
    for (let at = 0; at < answers.length; at += 3) {
      const [id, kept, fields] = answers.slice(at, at + 3) as [string, string, Reply]
      olds.push(readJob({ queue, id, ...keptOf(kept) }, fieldsOf(fields)))
    }
    return olds
  }

  async parked(limit: number): Promise<readonly Parked[]> {
    const parked: Parked[] = []
    for (const queue of this.#queues) {
      let cursor = '0'
      do {
        const [next, pairs] = (await this.#redis.send([
          ...['HSCAN', this.#key(queue, PARKED), cursor],
          ...['COUNT', String(limit)],
        ])) as [string, string[]]
        for (let at = 0; at < pairs.length; at += 2)
          parked.push(...(await this.#readParked(queue, pairs[at]!, pairs[at + 1]!)))
        cursor = next
      } while (cursor !== '0' && parked.length < limit)
      if (parked.length >= limit) break
    }
    return parked
  }

  async #readParked(queue: string, id: string, kept: string): Promise<readonly Parked[]> {
    const fields = fieldsOf(await this.#redis.send(['HGETALL', this.#key(queue, id)]))
    const { place, score, takenAtMs } = keptOf(kept)
    return fields.timestamp === undefined ? [] : [{ old: readJob({ queue, id, place, score }, fields), takenAtMs }]
  }

  confirm(olds: readonly OldJob[]): Promise<void> {
    return this.#each(CONFIRM, olds)
  }

  async #each(script: string, olds: readonly OldJob[]): Promise<void> {
    for (const queue of new Set(olds.map((old) => old.queue))) {
      const ids = olds.filter((old) => old.queue === queue).map(({ id }) => id)
      await this.#script(script, queue, [], ids)
    }
  }

  async schedules(): Promise<readonly OldSchedule[]> {
    const schedules: OldSchedule[] = []
    for (const queue of this.#queues) {
      const pairs = (await this.#redis.send([
        ...['ZRANGE', this.#key(queue, 'repeat'), '0', String(SCHEDULERS_MAX - 1)],
        'WITHSCORES',
      ])) as string[]
      for (let at = 0; at < pairs.length; at += 2) {
        const id = pairs[at]!
        const fields = fieldsOf(await this.#redis.send(['HGETALL', this.#key(queue, `repeat:${id}`)]))
        schedules.push(readScheduler(queue, id, pairs[at + 1]!, fields))
      }
    }
    return schedules
  }

  async removeSchedule({ ref }: OldSchedule): Promise<void> {
    const [queue, id] = JSON.parse(ref) as [string, string]
    await this.#redis.send(['EVAL', REMOVE_SCHEDULER, '1', this.#key(queue, ''), id])
  }

  /** Runs a script over ids, some hundreds at a time, and joins its answers. */
  async #script(
    script: string,
    queue: string,
    head: readonly string[],
    ids: readonly string[],
  ): Promise<readonly Reply[]> {
    const answers: Reply[] = []
    for (let from = 0; from < ids.length; from += SCRIPT_IDS_MAX) {
      const piece = ids.slice(from, from + SCRIPT_IDS_MAX)
      const answer = await this.#redis.send(['EVAL', script, '1', this.#key(queue, ''), ...head, ...piece])
      if (Array.isArray(answer)) answers.push(...answer)
    }
    return answers
  }

  #key(queue: string, name: string): string {
    return `${this.#prefix}:${queue}:${name}`
  }

  async close(): Promise<void> {
    this.#redis.destroy()
  }
}

function fieldsOf(reply: Reply): Fields {
  const fields: Record<string, string> = {}
  const values = Array.isArray(reply) ? (reply as string[]) : []
  for (let at = 0; at < values.length; at += 2) fields[values[at]!] = values[at + 1]!
  return fields
}

function keptOf(kept: string): { readonly place: string; readonly score: string; readonly takenAtMs: number } {
  const [place, score, takenAt] = JSON.parse(kept) as [string, string, string]
  return { place, score, takenAtMs: Number(takenAt) }
}

// Enqueues jobs of several shards, all or none. ◄── store.ts · next: ../enqueue.ts
//
// Jobs of one shard are written by one call. Jobs of several are first written down whole in the stream of one shard: from then on they
// will be written, by this process or by upkeep of another, and each part only once because their ids are known. So the call finishes,
// or it never began.
//
// A job that comes after jobs of other shards is linked to these first. When some of these are in the same call, the call is cut: what
// comes before is written before, and no job goes on until all are written.

import type { Enqueued, NewJob } from '../../../core/job.js'
import type { EnqueueRequest } from '../../../core/job-store.js'
import { tooManyQueues } from '../../../core/queue-limit.js'
import { type EnqueueMode, enqueue, jobArgs } from '../enqueue.js'
import { shortId } from '../ids.js'
import type { Redis } from '../redis.js'
import { stateOfLetter } from '../states.js'
import type { Deliveries } from './deliveries.js'
import type { ShardLimits } from './limits.js'
import { grouped, type Shards, stateLetters } from './shards.js'

/** Names of queues that are known to exist. */
const QUEUES_KNOWN_MAX = 20_000

interface EnqueueDeps {
  readonly shards: Shards
  readonly deliveries: Deliveries
  readonly limits: ShardLimits
  readonly queuesMax: number
}

export class ShardEnqueue {
  readonly #shards: Shards
  readonly #deliveries: Deliveries
  readonly #limits: ShardLimits
  readonly #queuesMax: number
  readonly #known = new Set<string>()

  constructor({ shards, deliveries, limits, queuesMax }: EnqueueDeps) {
    this.#shards = shards
    this.#deliveries = deliveries
    this.#limits = limits
    this.#queuesMax = queuesMax
  }

  async enqueue(jobs: readonly NewJob[], { claim }: Pick<EnqueueRequest, 'claim'>): Promise<readonly Enqueued[]> {
    if (jobs.length === 0) return []
    await this.#shards.knowAll(jobs)
    await this.makeRoom(jobs.map(({ queue }) => queue))
    const first = this.#shards.placeOf(jobs[0]!)
    const isOfOne = jobs.every((job) => this.#shards.placeOf(job) === first)
    const answers = isOfOne ? await this.#writeOne(first, jobs, claim) : await this.#writeWhole(first, jobs)
    await this.#deliveries.settle()
    return this.#withNewStates(jobs, answers)
  }

  /** Writes jobs that stand whole in the stream of a shard. May be repeated. */
  async finish(jobs: readonly NewJob[]): Promise<readonly Enqueued[]> {
    await this.#shards.knowAll(jobs)
    const segments = segmentsOf(jobs, (job) => this.#shards.placeOf(job))
    const mode = segments.length > 1 ? '1' : ''
    const answers: Enqueued[] = []
    for (const segment of segments) {
      const indexOf = (job: NewJob) => this.#shards.placeOf(job)
      // All are linked before any is written: a parent that stands later in the call is not known yet.
      await Promise.all(
        [...grouped(segment, indexOf)].map(([index, places]) => {
          return this.#link(
            index,
            places.map((place) => segment[place]!),
          )
        }),
      )
      const write = (_: Redis, those: readonly NewJob[], index: number) => this.#writePart(index, those, mode)
      answers.push(...(await this.#shards.byShard(segment, indexOf, write)))
    }
    if (mode === '') return answers
    const left = jobs.filter((job) => jobArgs(job)[2] !== '')
    await this.#shards.byShard(
      left,
      (job) => this.#shards.placeOf(job),
      async (redis, those) => {
        await redis.write(
          'enqueue',
          'judge',
          those.map(({ id }) => shortId(id)),
        )
        return those
      },
    )
    return answers
  }

  async #writeWhole(first: number, jobs: readonly NewJob[]): Promise<readonly Enqueued[]> {
    const { value: number } = await this.#shards.all[first]!.write<string>('enqueue', 'intend', [JSON.stringify(jobs)])
    const answers = await this.finish(jobs)
    // Before the answer: repeated later, a job whose key was held could find it free.
    await this.#shards.all[first]!.write('enqueue', 'paid', [number])
    return answers
  }

  async #writeOne(
    index: number,
    jobs: readonly NewJob[],
    claim: EnqueueRequest['claim'],
  ): Promise<readonly Enqueued[]> {
    await this.#link(index, jobs)
    return this.#writePart(index, jobs, '', claim)
  }

  /** Writes jobs of one shard, which were linked to what they come after. */
  async #writePart(
    index: number,
    jobs: readonly NewJob[],
    mode: EnqueueMode,
    claim?: EnqueueRequest['claim'],
  ): Promise<readonly Enqueued[]> {
    const redis = this.#shards.all[index]!
    const unknownLimits = await this.#limits.unknown(jobs.flatMap(({ flow }) => flow?.limits ?? []))
    const how = { claim, mode, unknownLimits }
    // Before the call: it is repeated in the same shard when its answer is lost.
    this.#shards.met(jobs, index)
    const answers = await enqueue({ redis, queuesMax: this.#queuesMax }, jobs, how)
    if (this.#known.size > QUEUES_KNOWN_MAX) this.#known.clear()
    for (const { queue } of jobs) this.#known.add(queue)
    return answers
  }

  async #link(goal: number, jobs: readonly NewJob[]): Promise<void> {
    if (jobs.every(({ after }) => after.length === 0)) return
    const own = new Set(jobs.map(({ id }) => id))
    await this.link(
      goal,
      [...new Set(jobs.flatMap(({ after }) => after))].filter((id) => !own.has(id)),
    )
  }

  /** Makes jobs known, and their ends reported, to a shard that has jobs which come after them. */
  async link(goal: number, parents: readonly string[]): Promise<void> {
    const shards = await this.#shards.locate(parents)
    const heard = parents.filter((_, at) => shards[at] === null).flatMap((id) => [shortId(id), '-', '0'])
    const far = parents.filter((_, at) => shards[at] !== null && shards[at] !== goal)
    const indexOf = new Map(parents.map((id, at) => [id, shards[at]!]))
    for (const [index, places] of grouped(far, (id) => indexOf.get(id)!)) {
      const ids = places.map((place) => shortId(far[place]!))
      const { value } = await this.#shards.all[index]!.write<string[]>('enqueue', 'link', [goal, ...ids])
      for (const [at, id] of ids.entries()) heard.push(id, value[2 * at] || '-', value[2 * at + 1]!)
    }
    if (heard.length > 0) await this.#shards.all[goal]!.write('enqueue', 'hear', heard)
  }

  /** Jobs may have gone on, or ended, because of others of their call. */
  async #withNewStates(jobs: readonly NewJob[], answers: readonly Enqueued[]): Promise<readonly Enqueued[]> {
    const places = [...answers.keys()].filter((place) => {
      const answer = answers[place]!
      return 'state' in answer && answer.state === 'blocked'
    })
    if (places.length === 0) return answers
    const letters = await this.#shards.byShard(
      places,
      (place) => this.#shards.placeOf(jobs[place]!),
      (redis, those) =>
        stateLetters(
          redis,
          those.map((place) => answers[place]!.id),
        ),
    )
    const states = new Map(places.map((place, at) => [place, letters[at]!]))
    return answers.map((answer, place) => {
      const letter = states.get(place)
      return letter ? ({ ...answer, state: stateOfLetter(letter) } as Enqueued) : answer
    })
  }

  /** Raises `too_many_queues` when these would make more queues than there may be. */
  async makeRoom(names: readonly string[]): Promise<void> {
    const unknown = [...new Set(names)].filter((name) => !this.#known.has(name))
    if (unknown.length === 0) return
    const own = await this.#shards.byShard(
      unknown,
      (name) => this.#shards.indexOf(name),
      async (redis, names) => {
        const { value } = await redis.read<number[]>('enqueue', 'census', ['', ...names])
        return names.map((_, at) => (at === 0 ? value[4]! : 0))
      },
    )
    const fresh = own.reduce((sum, each) => sum + each, 0)
    if (fresh === 0) return
    // A shard that is away does not keep others from new queues.
    const counts = await this.#shards.reachable((redis) => redis.read<number[]>('enqueue', 'census', ['']))
    const queues = counts.reduce((sum, { value }) => sum + value[0]!, 0)
    if (queues + fresh > this.#queuesMax) throw tooManyQueues(unknown, this.#queuesMax)
  }

  /** How many queues and schedules there are in all shards. */
  async census(maker: string, names: readonly string[]): Promise<Census> {
    const groups = grouped(names, (name) => this.#shards.indexOf(name))
    const counts = await this.#shards.each(async (redis, index) => {
      const own = (groups.get(index) ?? []).map((place) => names[place]!)
      return (await redis.read<number[]>('look', 'census', [maker, ...own])).value
    })
    const sum = (at: number) => counts.reduce((total, each) => total + each[at]!, 0)
    return { queues: sum(0), made: sum(1), schedules: sum(2), madeSchedules: sum(3), fresh: sum(4) }
  }
}

interface Census {
  readonly queues: number
  readonly made: number
  readonly schedules: number
  readonly madeSchedules: number
  readonly fresh: number
}

/** Cuts a call before each job that comes after one of another shard which is not yet written then. */
function segmentsOf(jobs: readonly NewJob[], indexOf: (job: NewJob) => number): NewJob[][] {
  const segments: NewJob[][] = [[]]
  let current = new Map<string, number>()
  for (const job of jobs) {
    const index = indexOf(job)
    const isCut = job.after.some((id) => current.has(id) && current.get(id) !== index)
    if (isCut) {
      segments.push([])
      current = new Map()
    }
    segments.at(-1)!.push(job)
    if (!current.has(job.id)) current.set(job.id, index)
  }
  return segments
}

// Fair turns: how the room of one claim is split over queues, and in which order its jobs start.

import type { FlowState } from '../core/flow/views.js'
import type { ClaimedJob } from '../core/job.js'

/** How many jobs one queue may give in one claim. */
export interface Share {
  readonly queue: string
  readonly limit: number
  /** How many of them there is no slot for yet. */
  readonly ahead?: number
}

/** A queue that was empty gets one part in this many of the room: enough to see that it no longer is. */
const DRY_PART = 16
const NONE: ReadonlySet<string> = new Set()
const NO_FLOW: ReadonlyMap<string, FlowState> = new Map()

/** Splits `room` evenly over the queues that had jobs when they were last asked, and leaves a little for those that had none (`dry`).
 *  What is left over goes to the first queues. A queue may get nothing when there is little room. */
export function splitRoom(queues: readonly string[], room: number, dry: ReadonlySet<string> = NONE): readonly Share[] {
  const dryCount = dry.size === 0 ? 0 : queues.filter((queue) => dry.has(queue)).length
  const even = Math.floor(room / queues.length)
  const little = Math.ceil(room / DRY_PART)
  if (dryCount === 0 || dryCount === queues.length || little >= even) return splitEvenly(queues, room)
  const others = splitEvenly(
    queues.filter((queue) => !dry.has(queue)),
    room - dryCount * little,
  )
  let next = 0
  return queues.map((queue) => (dry.has(queue) ? { queue, limit: little } : others[next++]!))
}

function splitEvenly(queues: readonly string[], room: number): readonly Share[] {
  const even = Math.floor(room / queues.length)
  const over = room % queues.length
  return queues.map((queue, index) => ({ queue, limit: even + (index < over ? 1 : 0) }))
}

/** Splits room by weight and carries over what a share lacks to a whole job, so that over many claims of one job each queue gets its part. */
export class WeightedShares {
  readonly #weights: ReadonlyMap<string, number>
  readonly #credit = new Map<string, number>()

  constructor(weights: ReadonlyMap<string, number>) {
    this.#weights = weights
  }

  /** The shares of these queues, the largest claim to the next job first. Together they are the room. */
  split(queues: readonly string[], room: number): readonly Share[] {
    const total = queues.reduce((sum, queue) => sum + this.#weights.get(queue)!, 0)
    const shares = queues.map((queue) => {
      const credit = (this.#credit.get(queue) ?? 0) + (room * this.#weights.get(queue)!) / total
      return { queue, credit, limit: Math.max(0, Math.floor(credit)) }
    })
    shares.sort((one, other) => other.credit - other.limit - (one.credit - one.limit))
    let left = room - shares.reduce((sum, { limit }) => sum + limit, 0)
    const even = shares.map(({ queue, credit, limit }) => {
      const more = left > 0 ? 1 : 0
      left -= more
      this.#credit.set(queue, credit - limit - more)
      return { queue, limit: limit + more }
    })
    return even.sort((one, other) => other.limit - one.limit)
  }
}

/** The same queues beginning with the one at `turn`. */
export function rotate(queues: readonly string[], turn: number): readonly string[] {
  const from = turn % queues.length
  return from === 0 ? queues : [...queues.slice(from), ...queues.slice(0, from)]
}

/** The queues that may have more: they gave all they were asked for, or say so themselves. */
export function stillFull(
  shares: readonly Share[],
  jobs: readonly ClaimedJob[],
  flow: ReadonlyMap<string, FlowState> = NO_FLOW,
): readonly string[] {
  const given = new Map<string, number>()
  for (const { queue } of jobs) given.set(queue, (given.get(queue) ?? 0) + 1)
  const isFull = ({ queue, limit }: Share) => flow.get(queue)?.more ?? (given.get(queue) ?? 0) >= limit
  return shares.filter(isFull).map(({ queue }) => queue)
}

/** Keeps in `dry` the queues that gave nothing. One that was asked alone is not compared with others. */
export function noteDry(dry: Set<string>, asked: readonly Share[], jobs: readonly ClaimedJob[]): void {
  if (asked.length === 1) return
  const given = new Set(jobs.map(({ queue }) => queue))
  for (const { queue } of asked) {
    if (given.has(queue)) dry.delete(queue)
    else dry.add(queue)
  }
}

/** The jobs of a claim, which come queue by queue, in turns: one of each queue, then the next of each. */
export function takeTurns(jobs: readonly ClaimedJob[]): readonly ClaimedJob[] {
  const byQueue = new Map<string, ClaimedJob[]>()
  for (const job of jobs) {
    const list = byQueue.get(job.queue)
    if (list === undefined) byQueue.set(job.queue, [job])
    else list.push(job)
  }
  if (byQueue.size <= 1) return jobs
  const turns: ClaimedJob[] = []
  const lists = [...byQueue.values()]
  for (let index = 0; turns.length < jobs.length; index++) {
    for (const list of lists) if (index < list.length) turns.push(list[index]!)
  }
  return turns
}

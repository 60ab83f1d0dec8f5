// One process of a run of failovers: it enqueues on time, works, or both, and writes down what it was told and what it ran.

import { closeSync, openSync, writeSync } from 'node:fs'
import { connect, defineJob, type Holdfast, type HoldfastEvent } from '../../src/index.js'
import type { Message } from '../bench/children.js'
import { answerParent, leaveParent, readAssignment, receiveFromParent, sendToParent } from '../bench/parent.js'
import type { AcceptedKind } from './lines.js'

export interface PartyAssignment {
  readonly url: string
  readonly name: string
  /** File for its lines, see lines.ts. */
  readonly record: string
  /** Jobs it runs concurrently; 0 for a process that only enqueues. */
  readonly slots: number
  readonly hasMemory: boolean
}

export interface PartyPace extends Message {
  readonly kind: 'pace'
  readonly perSecond: number
}

/** The answer to `sample`: counts since the start. */
export interface PartySample extends Message {
  readonly accepted: number
  /** Calls that failed: nobody was told that these jobs exist. */
  readonly refused: number
  /** Calls without an answer. */
  readonly open: number
  readonly saidAgain: { readonly jobs: number; readonly claims: number; readonly settlements: number }
  /** How long it took to say everything again, the longest. */
  readonly tookMs: number
  readonly lastError: string | null
  /** The oldest calls without an answer, and since when. */
  readonly oldest: readonly string[]
}

const TICK_MS = 5
/** Calls that wait at most: a run that is stuck must not fill the memory. */
const OPEN_MAX = 15_000
const BATCH = 20
const OLDEST_MAX = 3
/** Of a hundred jobs, in this order. The rest are plain. */
const SHARES: readonly (readonly [AcceptedKind, number])[] = [
  ['batch', 20],
  ['keyed', 5],
  ['delayed', 5],
  ['failing', 5],
  ['child', 3],
]

/** Events that a story of a failover needs. */
const TOLD: ReadonlySet<string> = new Set(['timeline.changed', 'failover.said', 'store.failed', 'store.recovered'])

const work = defineJob('work', { retry: { backoff: 'fixed', base: '100ms' }, maxAttempts: 5 })

async function main(assignment: PartyAssignment): Promise<void> {
  const { url, slots, hasMemory } = assignment
  const holdfast = await connect(url, { failoverMemory: hasMemory, enqueueBufferMax: OPEN_MAX * 2 })
  const party = new Party(holdfast, assignment)
  holdfast.on((event) => party.heard(event))
  if (slots > 0) await party.work(slots)
  answerParent('sample', () => party.sample())
  answerParent<PartyPace>('pace', ({ perSecond }) => {
    party.setPace(perSecond)
    return {}
  })
  const stop = receiveFromParent('stop')
  sendToParent({ kind: 'ready' })
  const timer = setInterval(() => party.tick(), TICK_MS)
  await stop
  clearInterval(timer)
  await holdfast.close()
  party.close()
  sendToParent({ kind: 'stopped' })
  leaveParent()
}

class Party {
  readonly #holdfast: Holdfast
  readonly #name: string
  readonly #file: number
  #pace = { perSecond: 0, sinceMs: 0, sent: 0 }
  #seq = 0
  #lastId: string | null = null
  readonly #open = new Set<string>()
  #counts = { accepted: 0, refused: 0, open: 0 }
  #saidAgain = { jobs: 0, claims: 0, settlements: 0 }
  #tookMs = 0
  #lastError: string | null = null

  constructor(holdfast: Holdfast, { name, record }: PartyAssignment) {
    this.#holdfast = holdfast
    this.#name = name
    this.#file = openSync(record, 'a')
  }

  async work(slots: number): Promise<void> {
    const handler = work.handle(async (payload, { id, attempt, fence, schedule }) => {
      const { ms = 0, fails = 0 } = payload as { readonly ms?: number; readonly fails?: number }
      const tick = schedule === null ? '-' : `${schedule.name}@${schedule.tick.getTime()}`
      this.#write(`began ${id} ${attempt} ${tick} ${Date.now()} ${fence}`)
      await new Promise((resolve) => setTimeout(resolve, ms))
      const isFailing = attempt <= fails
      this.#write(`ended ${id} ${attempt} ${isFailing ? 'failed' : 'succeeded'} ${Date.now()}`)
      if (isFailing) throw new Error('as planned')
      return null
    })
    await this.#holdfast.worker({ handlers: [handler], concurrency: slots }).start()
  }

  heard(event: HoldfastEvent): void {
    if (TOLD.has(event.name)) this.#write(`event ${Date.now()} ${JSON.stringify(event, readable)}`)
    if (event.name === 'failover.said') {
      const { jobs, claims, settlements } = this.#saidAgain
      this.#saidAgain = {
        jobs: jobs + event.jobs,
        claims: claims + event.claims,
        settlements: settlements + event.settlements,
      }
      this.#tookMs = Math.max(this.#tookMs, event.tookMs)
    }
    if (event.name === 'store.failed') this.#lastError = `${event.during}: ${event.error.message}`
  }

  setPace(perSecond: number): void {
    this.#pace = { perSecond, sinceMs: performance.now(), sent: 0 }
  }

  tick(): void {
    const { perSecond, sinceMs } = this.#pace
    const due = Math.floor(((performance.now() - sinceMs) * perSecond) / 1_000)
    while (this.#pace.sent < due) {
      // What was not sent because too much waits is not caught up.
      this.#pace.sent += this.#counts.open >= OPEN_MAX ? due - this.#pace.sent : this.#send()
    }
  }

  /** Makes one call, and returns how many jobs are in it. */
  #send(): number {
    const seq = this.#seq++
    const kind = kindOf(seq)
    const payload = { ms: seq % 20, fails: kind === 'failing' ? 1 : 0 }
    if (kind === 'batch') {
      // One call for all of its share.
      if (seq % 100 !== 0) return 0
      void this.#call(kind, BATCH, async () => {
        const made = await this.#holdfast.enqueueMany(work, Array<object>(BATCH).fill(payload))
        return made.map(({ id }) => id)
      })
      return BATCH
    }
    const options = {
      ...(kind === 'keyed' ? { idempotencyKey: `${this.#name}-${Math.floor(seq / 2)}` } : {}),
      ...(kind === 'delayed' ? { delay: '1s' as const } : {}),
      ...(kind === 'child' && this.#lastId !== null ? { after: [this.#lastId] } : {}),
    }
    void this.#call(kind, 1, async () => [(await this.#holdfast.enqueue(work, payload, options)).id])
    return 1
  }

  async #call(kind: AcceptedKind, count: number, run: () => Promise<readonly string[]>): Promise<void> {
    this.#counts.open += count
    const call = `${kind} since ${Date.now()} (${this.#seq})`
    this.#open.add(call)
    try {
      const ids = await run()
      const atMs = Date.now()
      this.#write(ids.map((id) => `accepted ${id} ${kind} ${atMs}`).join('\n'))
      this.#counts.accepted += count
      this.#lastId = ids[0]!
    } catch (error) {
      this.#lastError = (error as Error).message
      this.#counts.refused += count
    }
    this.#counts.open -= count
    this.#open.delete(call)
  }

  #write(line: string): void {
    writeSync(this.#file, `${line}\n`)
  }

  sample(): Omit<PartySample, 'kind'> {
    const oldest = [...this.#open].slice(0, OLDEST_MAX)
    return { ...this.#counts, saidAgain: this.#saidAgain, tookMs: this.#tookMs, lastError: this.#lastError, oldest }
  }

  close(): void {
    closeSync(this.#file)
  }
}

function readable(_: string, value: unknown): unknown {
  return value instanceof Error ? value.message : value
}

function kindOf(seq: number): AcceptedKind {
  let place = seq % 100
  for (const [kind, share] of SHARES) {
    if (place < share) return kind
    place -= share
  }
  return 'plain'
}

await main(readAssignment<PartyAssignment>())

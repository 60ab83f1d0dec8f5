// Checks what producers were promised against the store: every accepted job exists, each key has one job at most, and the answer
// "already there" names a job that was there.

import { isFinished } from '../../src/core/states.js'
import type { EnqueueEnded, EnqueueInvoked, WritesUndone } from './events.js'
import { enqueueUndone, type Life, type Reading, ROOM_MS, report } from './life.js'

interface Asked {
  invoked: EnqueueInvoked | null
  /** Whether an answer promised the job, or left open whether it was written. */
  mayExist: boolean
  refused: boolean
  answers: EnqueueEnded[]
}

/** Reads the producers' records, then checks them against the jobs' lives. */
export class Promises {
  readonly #reading: Reading
  readonly #asked = new Map<string, Asked>()

  constructor(reading: Reading) {
    this.#reading = reading
  }

  /** Takes a record of a producer. */
  read(event: EnqueueInvoked | EnqueueEnded): void {
    let asked = this.#asked.get(event.key)
    if (asked === undefined) {
      asked = { invoked: null, mayExist: false, refused: false, answers: [] }
      this.#asked.set(event.key, asked)
    }
    const { counts } = this.#reading
    if (event.ev === 'enqueue.invoke') {
      counts.asked++
      asked.invoked = event
      return
    }
    if (event.ev === 'enqueue.ok') {
      counts.accepted++
      asked.answers.push(event)
    } else if (event.ev === 'enqueue.info') {
      counts.unknown++
      asked.mayExist = true
      if (event.isRefused)
        report(this.#reading, 'I18', null, `${event.key} was refused as not retryable because of a fault`)
    } else {
      counts.refused++
      asked.refused = true
    }
  }

  /** Called once all lives are known. */
  check(): void {
    const byKey = this.#jobsByKey()
    for (const [key, asked] of this.#asked) {
      for (const answer of asked.answers) this.#checkAnswer(key, asked, answer)
      this.#checkRefused(key, asked, byKey)
    }
  }

  #jobsByKey(): Map<string, Life> {
    const byKey = new Map<string, Life>()
    for (const life of this.#reading.lives.values()) {
      if (life.stored === null) continue
      const { key, tick } = life.stored
      if (key === null) {
        if (tick === null)
          report(this.#reading, 'I2', life.job, 'has neither a key of a producer nor a tick of a schedule')
        continue
      }
      const other = byKey.get(key)
      if (other !== undefined) report(this.#reading, 'I2', life.job, `has the key ${key}, as ${other.job} has`)
      else if (!this.#asked.has(key))
        report(this.#reading, 'I2', life.job, `has the key ${key}, which no producer asked for`)
      byKey.set(key, life)
    }
    return byKey
  }

  #checkAnswer(key: string, asked: Asked, answer: EnqueueEnded): void {
    const life = answer.job === null ? undefined : this.#reading.lives.get(answer.job)
    if (life === undefined || life.stored === null) {
      if (life?.final) return
      const undone = undoneBy(this.#reading, asked, answer)
      if (undone !== undefined) {
        const { counts } = this.#reading
        const by = undone.fault ?? 'no fault'
        counts.acceptedUndone++
        counts.acceptedUndoneBy[by] = (counts.acceptedUndoneBy[by] ?? 0) + 1
        return
      }
      report(this.#reading, 'I1', answer.job, `${key} was accepted, but no such job was ever stored`)
      return
    }
    if (answer.created !== false) {
      if (life.stored.key !== key) {
        report(this.#reading, 'I2', life.job, `${key} was accepted as this job, which has the key ${life.stored.key}`)
      }
      return
    }
    const wanted = asked.invoked?.idempotencyKey ?? null
    if (wanted === null || life.stored.idempotencyKey !== wanted) {
      const what = `${key}, with the idempotency key ${wanted}, was answered with this job, whose key is ${life.stored.idempotencyKey}`
      report(this.#reading, 'I16', life.job, what)
    } else if (isOver(life, asked.invoked?.after)) {
      report(this.#reading, 'I16', life.job, `${key} was answered with this job, which had finished before the call`)
    }
  }

  #checkRefused(key: string, asked: Asked, byKey: Map<string, Life>): void {
    const life = byKey.get(key)
    if (life === undefined) return
    const isDuplicate = asked.answers.length > 0 && asked.answers.every(({ created }) => created === false)
    if (isDuplicate) report(this.#reading, 'I2', life.job, `${key} was answered as already there, and written anyway`)
    // A call without an answer, because its process died, may have happened.
    const isRefused = asked.refused && !asked.mayExist && asked.answers.length === 0
    if (isRefused) report(this.#reading, 'I2', life.job, `${key} was refused, and written anyway`)
  }
}

/** True when the holder's key had been free at a store time before the call. */
function isOver(holder: Life, calledAfter: number | undefined): boolean {
  if (calledAfter === undefined || holder.stored === null || !isFinished(holder.state)) return false
  const ttlMs = holder.stored.keyTtlMs ?? null
  const freeAt = ttlMs === null ? (holder.finishedAt ?? Number.POSITIVE_INFINITY) : holder.stored.at + ttlMs
  return freeAt < calledAfter - ROOM_MS
}

function undoneBy(reading: Reading, { invoked }: Asked, { wall: answeredAt }: EnqueueEnded): WritesUndone | undefined {
  if (answeredAt === undefined || invoked?.wall === undefined) return undefined
  return enqueueUndone(reading, invoked.wall, answeredAt)
}

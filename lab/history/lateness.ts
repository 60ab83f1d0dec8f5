// Finds lateness of three kinds. Jobs that were ready, or due to become ready, while a worker of their queue that knows their type
// could take them: only time in which such a worker was idle for a while counts, and a released claim does not reset the wait.
// Jobs whose handlers had ended and that were not settled for long although their process was healthy. Handlers that continued
// long after their lease was rescued.

import { isFinished } from '../../src/core/states.js'
import { Ability } from './ability.js'
import type { Busy, FaultRecord, JobClaimed, JobSettled, RunBegun, StoreEvent, WorkerGone, WorkerUp } from './events.js'
import { type Life, type Reading, report } from './life.js'
import { shown } from './steps.js'

/** The steps of a life that matter here. */
type Step = Exclude<
  StoreEvent,
  { ev: 'tick' | 'final' | 'extended' | 'queue' | 'undone' | 'limit' | 'groups' | 'group' }
>

/** The waits of a job since it was last started, or created. */
interface Wait {
  readonly life: Life
  readonly parts: { readonly from: number; readonly to: number; readonly as: string }[]
}

/** An outside effect is the last thing a handler does. */
interface Done {
  readonly job: string
  readonly worker: string
  readonly doneAt: number
  readonly at: number
}

/** Who has a lease since when, of a job that had waited since then. */
interface Holder {
  readonly worker: string
  readonly fence: number
  readonly at: number
  readonly since: number
}

interface Outlived {
  readonly job: string
  readonly worker: string
  readonly fence: number
  readonly takenAt: number
  readonly at: number
}

export class Lateness {
  readonly #reading: Reading
  readonly #terms: NonNullable<RunBegun['lateness']> | null
  readonly #ability: Ability | null
  /** Jobs that wait now: the time since which they could be started, or null while they can't. */
  readonly #open = new Map<Life, { from: number | null; as: string }>()
  readonly #waited = new Map<Life, Wait['parts']>()
  readonly #waits: Wait[] = []
  readonly #children = new Map<string, Life[]>()
  readonly #holders = new Map<string, Holder>()
  readonly #taken = new Map<string, { readonly worker: string; readonly at: number }>()
  readonly #outlived: Outlived[] = []
  readonly #doneAt = new Map<string, number>()
  readonly #unsettled: Done[] = []
  #latestAt = Number.NEGATIVE_INFINITY

  constructor(reading: Reading) {
    this.#reading = reading
    this.#terms = reading.run?.lateness ?? null
    this.#ability = this.#terms === null ? null : new Ability(this.#terms)
  }

  /** What the workers of the run could do when; null where lateness is not checked. Complete once everything is read. */
  get ability(): Ability | null {
    return this.#ability
  }

  paused(queue: string, at: number, isPaused: boolean): void {
    this.#ability?.paused(queue, at, isPaused)
  }

  read(event: WorkerUp | WorkerGone | FaultRecord | Busy): void {
    this.#ability?.read(event)
  }

  /** After the event was applied to the job's life. */
  after(life: Life, event: Step): void {
    if (this.#ability === null) return
    const at = event.committedAt ?? event.at
    this.#latestAt = Math.max(this.#latestAt, at)
    if (event.ev === 'effect') {
      if (!event.inTransaction) this.#noteEffect(event.job, event.fence, event.at)
      return
    }
    if (event.ev === 'operated' && event.action === 'ask to cancel') return
    this.#endWait(life, event.at)
    if (event.ev === 'claimed') this.#claimed(life, event)
    if (event.ev === 'settled') this.#settled(life, event, at)
    if (event.ev === 'operated') this.#keep(life)
    this.#beginWait(life, at)
    if (event.ev === 'stored') {
      for (const parent of life.stored?.after ?? []) push(this.#children, parent, life)
    }
    if (isFinished(life.state) || event.ev === 'operated') this.#updateChildren(life.job, at)
  }

  #beginWait(life: Life, at: number): void {
    const { state, dueAt } = life
    if (state === 'ready') this.#open.set(life, { from: at, as: 'ready' })
    else if (state === 'scheduled' || state === 'retrying') {
      this.#open.set(life, { from: Math.max(at, dueAt ?? at), as: 'due' })
    } else if (state === 'blocked') this.#open.set(life, { from: this.#parentsEnd(life, at), as: 'free to go on' })
  }

  /** When the last of a blocked job's parents finished, or null while one is unfinished. */
  #parentsEnd(life: Life, at: number): number | null {
    const parents = (life.stored?.after ?? []).map((id) => this.#reading.lives.get(id))
    return parents.every((parent) => parent !== undefined && isFinished(parent.state)) ? at : null
  }

  #updateChildren(job: string, at: number): void {
    for (const child of this.#children.get(job) ?? []) {
      const open = child.state === 'blocked' ? this.#open.get(child) : undefined
      if (open !== undefined) open.from = this.#parentsEnd(child, at)
    }
  }

  #endWait(life: Life, at: number): void {
    const open = this.#open.get(life)
    this.#open.delete(life)
    if (open === undefined || open.from === null || open.from >= at) return
    const parts = this.#waited.get(life) ?? []
    this.#waited.set(life, parts)
    parts.push({ from: open.from, to: at, as: open.as })
  }

  #claimed(life: Life, { worker, fence, at }: JobClaimed): void {
    this.#release(life.job, at)
    const since = this.#waited.get(life)?.[0]?.from ?? at
    this.#holders.set(life.job, { worker, fence, at, since })
    this.#ability!.holds(worker, at, 1)
  }

  #settled(life: Life, { to, rescued }: JobSettled, at: number): void {
    const holder = this.#holders.get(life.job)
    if (rescued && holder !== undefined) {
      this.#taken.set(`${life.job} ${holder.fence}`, { worker: holder.worker, at })
    }
    const doneAt = this.#doneAt.get(life.job)
    this.#doneAt.delete(life.job)
    if (holder !== undefined && doneAt !== undefined && at - doneAt > this.#terms!.boundMs) {
      this.#unsettled.push({ job: life.job, worker: holder.worker, doneAt, at })
    }
    this.#release(life.job, at)
    // A released job was not started, so its wait goes on.
    const isGivenBack = !rescued && (to === 'ready' || to === 'scheduled')
    if (!isGivenBack) this.#keep(life)
    if (!isGivenBack && !rescued && holder !== undefined) this.#ability!.took(holder.worker, holder)
  }

  #release(job: string, at: number): void {
    const holder = this.#holders.get(job)
    if (holder === undefined) return
    this.#holders.delete(job)
    this.#ability!.holds(holder.worker, at, -1)
  }

  /** Keeps the job's waits for later, if they may have been too long. */
  #keep(life: Life): void {
    const parts = this.#waited.get(life)
    this.#waited.delete(life)
    if (parts === undefined) return
    const wholeMs = parts.reduce((sum, { from, to }) => sum + to - from, 0)
    if (wholeMs > this.#terms!.boundMs) this.#waits.push({ life, parts })
  }

  #noteEffect(job: string, fence: number, at: number): void {
    if (this.#holders.get(job)?.fence === fence) this.#doneAt.set(job, at)
    const taken = this.#taken.get(`${job} ${fence}`)
    if (taken === undefined || at - taken.at <= this.#terms!.noticeMs) return
    this.#outlived.push({ job, fence, worker: taken.worker, takenAt: taken.at, at })
  }

  /** Called once all records are read. A job under flow control may be ready and have to wait: flow.ts judges that. */
  check(isUnderFlow: (life: Life) => boolean): void {
    if (this.#ability === null) return
    this.#ability.endsBy(this.#reading.run?.healedAt ?? null)
    for (const life of [...this.#open.keys()]) this.#endWait(life, this.#latestAt)
    for (const life of [...this.#waited.keys()]) this.#keep(life)
    for (const { life, parts } of this.#waits) {
      const own = isUnderFlow(life) ? parts.filter(({ as }) => as !== 'ready') : parts
      if (own.length > 0) this.#checkWait(this.#ability, { life, parts: own })
    }
    for (const done of this.#unsettled) this.#checkSettled(this.#ability, done)
    for (const outlived of this.#outlived) this.#checkOutlived(this.#ability, outlived)
  }

  #checkWait(ability: Ability, { life, parts }: Wait): void {
    const { stored } = life
    if (stored === null) return
    const { counts } = this.#reading
    const idle = ability.idleFor(stored.queue, stored.type, parts[0]!.from)
    const lateMs = parts.reduce((sum, { from, to }) => sum + idle.within(from, to), 0)
    counts.longestIdleWaitMs = Math.max(counts.longestIdleWaitMs, lateMs)
    if (lateMs <= this.#terms!.boundMs) return
    const first = parts[0]!
    const last = parts[parts.length - 1]!
    const what = `was ${first.as} at ${shown(first.from)} and was not taken until ${shown(last.to)}, though a worker of ${stored.queue} was idle for ${lateMs.toFixed(0)} ms of it`
    report(this.#reading, 'I17', life.job, what)
  }

  #checkSettled(ability: Ability, { job, worker, doneAt, at }: Done): void {
    const wholeMs = ability.whole(worker).within(doneAt, at)
    if (wholeMs <= this.#terms!.boundMs) return
    const what = `its handler was done at ${shown(doneAt)} and its lease did not end until ${shown(at)}; ${worker} was whole for ${wholeMs.toFixed(0)} ms of it`
    report(this.#reading, 'I17', job, what)
  }

  #checkOutlived(ability: Ability, { job, fence, worker, takenAt, at }: Outlived): void {
    const wholeMs = ability.whole(worker).within(takenAt, at)
    if (wholeMs <= this.#terms!.noticeMs) return
    const what = `fence ${fence} was taken back at ${shown(takenAt)} and its handler, never notified, applied an effect at ${shown(at)}; ${worker} was whole for ${wholeMs.toFixed(0)} ms of it`
    report(this.#reading, 'I15', job, what)
  }
}

function push<K, V>(map: Map<K, V[]>, key: K, value: V): void {
  const list = map.get(key)
  if (list === undefined) map.set(key, [value])
  else list.push(value)
}

// Group commit for jobs with idempotency keys. An open transaction elsewhere may be writing such a key: until it ends, nobody can know
// whether the key is taken. Calls with that key wait apart, so that no other call waits behind them: one call for each key is sent
// again and again, and the others of that key follow it. ◄── client.ts

import { HoldfastError } from '../core/errors.js'
import { heldIn, heldKeys, keyName } from '../core/held-keys.js'
import type { Enqueued, NewJob } from '../core/job.js'
import { sleep } from '../core/ports.js'
import { countFitting } from './flush.js'
import { type Call, GroupCommit, type GroupCommitDeps, type GroupCommitOptions } from './group-commit.js'

/** How long after one round the next begins. A caller that waits for a key learns the result about that late. */
const PAUSE_MS = 100
/** How many keys one round asks for; the next rounds ask for the rest. */
const ROUND_KEYS_MAX = 100
/** How long after its deadline a call that is asking for a held key is left without an answer: usually the answer is milliseconds away. */
const ASKING_MS = 500

export interface KeyedGroupCommitOptions extends GroupCommitOptions {
  /** The most jobs that may wait for held keys, and the most bytes of payload. A call that is alone may be larger. */
  readonly heldJobsMax: number
  readonly heldBytesMax: number
}

export class KeyedGroupCommit<Result> extends GroupCommit<Result> {
  readonly #options: KeyedGroupCommitOptions
  /** The calls that wait for each held key. A call may name several such keys, and waits for one after the other. */
  #byKey = new Map<string, Call<Result>[]>()
  #jobs = 0
  #bytes = 0
  #isAsking = false

  constructor(deps: GroupCommitDeps<Result>, options: KeyedGroupCommitOptions) {
    super(deps, options)
    this.#options = options
  }

  protected override get isIdle(): boolean {
    return super.isIdle && this.#byKey.size === 0
  }

  protected override gather(call: Call<Result>): void {
    const held = this.#byKey.size === 0 ? undefined : call.jobs.find((job) => this.#byKey.has(keyName(job) ?? ''))
    if (held === undefined) super.gather(call)
    else this.#hold(call, held)
  }

  protected override waiting(): Call<Result>[] {
    return [...super.waiting(), ...[...this.#byKey.values()].flat()]
  }

  protected override patienceMs(call: Call<Result>): number {
    return call.held !== null && call.isSent ? ASKING_MS : 0
  }

  protected override causeOf(call: Call<Result>): unknown {
    return call.held === null ? super.causeOf(call) : heldKeys([call.held], true)
  }

  protected override isUnwritten(error: unknown): boolean {
    return heldIn(error) !== null
  }

  protected override end(call: Call<Result>, answer: readonly Enqueued[] | Error): void {
    this.#leave(call)
    super.end(call, answer)
  }

  /** Takes out the calls whose keys are held. Where the store found many held keys and did not look at all, the other calls with keys
   *  of the same queues wait as well, for one round: no other call is to wait for that. */
  protected override holdBack(open: readonly Call<Result>[], error: unknown): boolean {
    const found = heldIn(error)
    if (found === null) return false
    const isHeld = ({ id }: NewJob) => found.ids.has(id)
    const heldJobs = open.flatMap(({ jobs }) => jobs.filter(isHeld))
    const queues = new Set(found.areAll ? [] : heldJobs.map(({ queue }) => queue))
    const isUnsure = ({ queue, idempotencyKey }: NewJob) => idempotencyKey !== null && queues.has(queue)
    for (const call of open) {
      const held = call.jobs.find(isHeld) ?? call.jobs.find(isUnsure)
      if (held !== undefined) this.#hold(call, held)
    }
    // Calls that were gathered meanwhile may name the same keys.
    this.regather()
    return heldJobs.length > 0
  }

  /** Makes a call wait for the key of this job of it, or ends it when there is no room. */
  #hold(call: Call<Result>, job: NewJob): void {
    const { heldJobsMax, heldBytesMax } = this.#options
    const isFull = this.#jobs + call.jobs.length > heldJobsMax || this.#bytes + call.bytes > heldBytesMax
    if (isFull && this.#jobs > 0) {
      this.end(call, this.#full(job))
      return
    }
    call.held = job
    this.#jobs += call.jobs.length
    this.#bytes += call.bytes
    const name = keyName(job)!
    const calls = this.#byKey.get(name)
    if (calls === undefined) this.#byKey.set(name, [call])
    else calls.push(call)
    if (!this.#isAsking) void this.#askUntilFree()
  }

  #full(job: NewJob): HoldfastError {
    const { heldJobsMax, heldBytesMax } = this.#options
    const cause = heldKeys([job], true)
    return new HoldfastError(
      'buffer_full',
      `${this.#jobs} jobs (${this.#bytes} bytes) already wait for idempotency keys that open transactions hold, the limits are ${heldJobsMax} and ${heldBytesMax} (${cause.message}): nothing was enqueued, retry when that transaction has ended`,
      { retryable: true, details: { waiting: this.#jobs, bytes: this.#bytes }, cause },
    )
  }

  /** Frees the room of a call that was answered, or no longer waits for its key. */
  #leave(call: Call<Result>): void {
    if (call.held === null) return
    call.held = null
    this.#jobs -= call.jobs.length
    this.#bytes -= call.bytes
  }

  async #askUntilFree(): Promise<void> {
    this.#isAsking = true
    let isHeld = true
    while (this.#byKey.size > 0) {
      if (isHeld) await sleep(this.deps.ports.timers, PAUSE_MS)
      isHeld = await this.#ask(this.#nextRound())
    }
    this.#isAsking = false
    this.reportIdle()
  }

  /** The first open call of each key whose turn it is, as many as fit into a flush. Their keys go to the end, behind the others. */
  #nextRound(): Call<Result>[] {
    const keys = [...this.#byKey].slice(0, ROUND_KEYS_MAX)
    const open = keys.map(([name, calls]) => ({ name, calls: calls.filter(({ isEnded }) => !isEnded) }))
    for (const { name, calls } of open) if (calls.length === 0) this.#byKey.delete(name)
    const asking = open.filter(({ calls }) => calls.length > 0)
    const first = asking.map(({ calls }) => calls[0]!)
    const count = countFitting(first, first.length)
    for (const { name, calls } of asking.slice(0, count)) {
      this.#byKey.delete(name)
      this.#byKey.set(name, calls)
    }
    return first.slice(0, count)
  }

  /** Whether a key was still held. Each pass answers all the calls it sends, or finds held keys and goes on without their calls. */
  async #ask(round: readonly Call<Result>[]): Promise<boolean> {
    const keyOf = new Map(round.map((call) => [call, call.held!]))
    let asked = round
    while (asked.length > 0) {
      try {
        await this.write(asked)
        break
      } catch (error) {
        const held = heldIn(error)
        const free = asked.filter((call) => !held?.ids.has(keyOf.get(call)!.id))
        if (free.length === asked.length) break
        asked = free
      }
    }
    for (const call of asked) this.#release(keyName(keyOf.get(call)!)!)
    return asked.length < round.length
  }

  /** This key is no longer waited for: calls without an answer are gathered with the others again. */
  #release(name: string): void {
    const open = (this.#byKey.get(name) ?? []).filter(({ isEnded }) => !isEnded)
    this.#byKey.delete(name)
    for (const call of open) this.#leave(call)
    for (const call of open) this.gather(call)
    if (open.length > 0) this.schedule()
  }
}

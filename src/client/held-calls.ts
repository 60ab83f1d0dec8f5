// Calls whose idempotency key a transaction which is open elsewhere is writing. They wait apart, so that nobody waits behind
// them: one call for each key asks again and again, and the others of that key follow it. ◄── group-commit.ts

import { HoldfastError } from '../core/errors.js'
import { heldIn, heldKeys, keyName } from '../core/held-keys.js'
import type { NewJob } from '../core/job.js'
import { type Ports, sleep } from '../core/ports.js'
import { FlushRoom } from './waiting-call.js'

/** How long after one round the next begins. Whoever waits for a key learns of its fate about that late. */
const PAUSE_MS = 100
/** How many keys one round asks for; the rest has the next ones. */
const ROUND_KEYS_MAX = 100

interface Waiting {
  readonly jobs: readonly NewJob[]
  readonly bytes: number
  /** The one of its jobs whose key it waits for. An enqueueMany may name several such keys and waits for one after the other. */
  held: NewJob | null
  readonly isEnded: boolean
}

/** The call that asks for a key, and its job that has the key. */
interface Asker<Call> {
  readonly call: Call
  readonly job: NewJob
}

interface HeldCallsDeps<Call> {
  readonly ports: Ports
  /** The most jobs that may wait, and the most bytes of payload. A call that is alone may be larger. */
  readonly jobsMax: number
  readonly bytesMax: number
  /** Writes calls and answers them. Raises what the store said. */
  write(calls: readonly Call[]): Promise<void>
  /** Takes back calls that no longer wait for a key, or met with another failure. */
  giveBack(calls: readonly Call[]): void
  /** Told when nobody is left. */
  onEmpty(): void
}

export class HeldCalls<Call extends Waiting> {
  readonly #deps: HeldCallsDeps<Call>
  #byKey = new Map<string, Call[]>()
  #jobs = 0
  #bytes = 0
  #isRunning = false

  constructor(deps: HeldCallsDeps<Call>) {
    this.#deps = deps
  }

  get isEmpty(): boolean {
    return this.#byKey.size === 0
  }

  /** The first of these jobs whose key calls wait for already; null if there is none. */
  find(jobs: readonly NewJob[]): NewJob | null {
    if (this.#byKey.size === 0) return null
    return jobs.find((job) => this.#byKey.has(keyName(job) ?? '')) ?? null
  }

  /** Has a call wait for the key of this job of it. When there is no room, it does not, and the answer says so. */
  add(call: Call, job: NewJob): HoldfastError | null {
    const { jobsMax, bytesMax } = this.#deps
    const isFull = this.#jobs + call.jobs.length > jobsMax || this.#bytes + call.bytes > bytesMax
    if (isFull && this.#jobs > 0) return this.#full(job)
    call.held = job
    this.#jobs += call.jobs.length
    this.#bytes += call.bytes
    const name = keyName(job)!
    const calls = this.#byKey.get(name)
    if (calls === undefined) this.#byKey.set(name, [call])
    else calls.push(call)
    if (!this.#isRunning) void this.#run()
    return null
  }

  #full(job: NewJob): HoldfastError {
    const { jobsMax, bytesMax } = this.#deps
    const cause = heldKeys([job], true)
    return new HoldfastError(
      'buffer_full',
      `${this.#jobs} jobs (${this.#bytes} bytes) already wait for idempotency keys that open transactions hold, the limits are ${jobsMax} and ${bytesMax} (${cause.message}): nothing was enqueued, retry when that transaction has ended`,
      { retryable: true, details: { waiting: this.#jobs, bytes: this.#bytes }, cause },
    )
  }

  /** Makes room again: the call has been answered, or waits for its key no longer. */
  leave(call: Call): void {
    if (call.held === null) return
    call.held = null
    this.#jobs -= call.jobs.length
    this.#bytes -= call.bytes
  }

  /** Everybody who waits. */
  all(): Call[] {
    return [...this.#byKey.values()].flat()
  }

  async #run(): Promise<void> {
    this.#isRunning = true
    let isHeld = true
    while (this.#byKey.size > 0) {
      if (isHeld) await sleep(this.#deps.ports.timers, PAUSE_MS)
      isHeld = await this.#ask(this.#nextRound())
    }
    this.#isRunning = false
    this.#deps.onEmpty()
  }

  /** The first open call of each key whose turn it is, as many as fit into a flush; the next round begins with the other keys. */
  #nextRound(): Asker<Call>[] {
    const round: Asker<Call>[] = []
    const room = new FlushRoom()
    for (const [name, calls] of [...this.#byKey].slice(0, ROUND_KEYS_MAX)) {
      const [call, ...others] = calls.filter(({ isEnded }) => !isEnded)
      if (call !== undefined && !room.takes(call)) break
      this.#byKey.delete(name)
      if (call === undefined) continue
      this.#byKey.set(name, [call, ...others])
      round.push({ call, job: call.held! })
    }
    return round
  }

  /** Whether a key was held still. Each turn answers all that it asks for, or finds such keys and goes on without them. */
  async #ask(round: readonly Asker<Call>[]): Promise<boolean> {
    let asked = round
    while (asked.length > 0) {
      try {
        await this.#deps.write(asked.map(({ call }) => call))
        break
      } catch (error) {
        const held = heldIn(error)
        const free = asked.filter(({ job }) => !held?.ids.has(job.id))
        if (free.length === asked.length) break
        asked = free
      }
    }
    this.#release(asked)
    return asked.length < round.length
  }

  /** These keys are waited for no longer: whoever is not answered is written with the others again. */
  #release(askers: readonly Asker<Call>[]): void {
    for (const { job } of askers) {
      const name = keyName(job)!
      const open = (this.#byKey.get(name) ?? []).filter(({ isEnded }) => !isEnded)
      this.#byKey.delete(name)
      for (const call of open) this.leave(call)
      if (open.length > 0) this.#deps.giveBack(open)
    }
  }
}

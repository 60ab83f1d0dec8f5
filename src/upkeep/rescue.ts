// Rescue: when a lease has expired, its job is settled like a failed attempt. The store has everything that is needed for that, so
// any process can do it, without the job's definition or handler.

import { decide, type Settlement } from '../core/decide.js'
import { showMs } from '../core/duration.js'
import type { Emit } from '../core/events.js'
import type { SettledJob } from '../core/job.js'
import type { SettleResult } from '../core/job-store.js'
import type { StoredError } from '../core/json.js'
import { resolveLimits } from '../core/limits.js'
import type { TallySink } from '../core/operating.js'
import type { Ports } from '../core/ports.js'
import type { ExpiredJob, UpkeepStore } from '../core/upkeep-store.js'
import { jittered } from './loop.js'
import { RescueHold } from './rescue-hold.js'

const BATCH = 500
const CALLS_MAX = 10
// A killed worker's jobs are rescued within this time after their leases expire.
const WAIT_MS = 2_000

export interface RescueDeps {
  readonly store: UpkeepStore
  readonly ports: Ports
  readonly emit: Emit
  readonly holdMs: number
  readonly tally?: TallySink
  /** Called when a rescued job is due again in this number of milliseconds. */
  readonly onDueIn: (dueInMs: number) => void
}

/** The rescue step of one process. */
export class Rescue {
  readonly #deps: RescueDeps
  readonly #hold: RescueHold
  #isReported = false

  constructor(deps: RescueDeps) {
    this.#deps = deps
    this.#hold = new RescueHold({ holdMs: deps.holdMs, gapMs: 3 * WAIT_MS + 1_000 })
  }

  /** Rescues what has expired, unless it must hold, and returns how long to wait. */
  async step(): Promise<number> {
    for (let calls = 0; calls < CALLS_MAX; calls++) {
      const jobs = await this.#findExpired()
      if (jobs.length > 0) await this.#settle(jobs)
      if (jobs.length < BATCH) break
    }
    return jittered(WAIT_MS, this.#deps.ports)
  }

  async #findExpired(): Promise<readonly Decided[]> {
    const { store, ports } = this.#deps
    try {
      const { jobs, nowMs: storeNowMs, upMs } = await store.expired(BATCH)
      const hold = this.#hold.look({ nowMs: ports.clock.monotonic(), storeNowMs, upMs })
      if (hold === null) {
        this.#isReported = false
        return jobs.map((job) => decideExpired(job, storeNowMs, ports))
      }
      if (jobs.length > 0 && !this.#isReported) {
        this.#isReported = true
        this.#deps.emit({ name: 'rescue.held', ...hold })
      }
      return []
    } catch (error) {
      this.#hold.failed()
      throw error
    }
  }

  async #settle(decided: readonly Decided[]): Promise<void> {
    const { store } = this.#deps
    let answers: readonly SettleResult[]
    try {
      answers = await store.settle(
        decided.map(({ settled }) => settled),
        { onlyExpired: true },
      )
    } catch (error) {
      this.#hold.failed()
      throw error
    }
    const byId = new Map(answers.map((answer) => [answer.id, answer]))
    for (const { job, settled } of decided) {
      const answer = byId.get(job.id)
      // Lost: another process was first, or the worker has extended the lease meanwhile.
      if (answer?.result !== 'settled') continue
      this.#report(job, settled.settlement, answer)
    }
  }

  #report(job: ExpiredJob, settlement: Settlement, { state }: SettleResult): void {
    const { id, type, queue, worker } = job
    if ('delayMs' in settlement && state === settlement.state) this.#deps.onDueIn(settlement.delayMs)
    const { crashes } = settlement
    this.#deps.tally?.rescued(queue, state ?? settlement.state)
    const reason = 'reason' in settlement && state !== 'cancelled' ? settlement.reason : null
    this.#deps.emit({ name: 'job.rescued', id, type, queue, worker, state: state ?? settlement.state, reason, crashes })
  }
}

interface Decided {
  readonly job: ExpiredJob
  readonly settled: SettledJob
}

function decideExpired(job: ExpiredJob, storeNowMs: number, { random }: Ports): Decided {
  const { id, fence, queue, attempt, crashes, createdAtMs, started, idempotencyKey, flow } = job
  const limits = resolveLimits(job.limits, job.queueLimits)
  const settlement = decide({ attempt, crashes, createdAtMs, limits }, { kind: 'crashed', started }, storeNowMs, () =>
    random.float(),
  )
  // A job whose handler never started has not failed, so it is given back without an error.
  const error = started ? workerLost(job) : null
  const settled = { id, fence, queue, settlement, result: null, error, ranMs: null, idempotencyKey }
  return { job, settled: flow === undefined ? settled : { ...settled, flow } }
}

function workerLost({ worker, expiredMs }: ExpiredJob): StoredError {
  return {
    name: 'HoldfastError',
    code: 'worker_lost',
    message: `worker ${worker} stopped extending its lease, which ran out ${showMs(expiredMs)} ago: it was killed, hung or was cut off from the store`,
  }
}

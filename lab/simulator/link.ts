// The link between one simulated process and the store. A call travels there, takes effect atomically at the store's own time, and
// its answer travels back. Either leg can be slow or lost, and the caller cannot know which one.

import { HoldfastError } from '../../src/core/errors.js'
import type { SettledJob } from '../../src/core/job.js'
import type { Extension, Queryable, Watch } from '../../src/core/job-store.js'
import type { Store } from '../../src/core/store.js'
import type { StoreListener } from '../../src/core/store-listener.js'
import type { Chance } from './chance.js'
import type { ProcessRun } from './process-run.js'
import type { Effect, Server, Wake } from './server.js'
import type { Timeline } from './timeline.js'

/** The network faults in force now, for all processes or for one. The injector changes them. */
export interface FaultPlan {
  /** How long a leg takes. */
  legMs: { min: number; max: number }
  /** The share of legs that take up to this long instead. */
  slow: { share: number; maxMs: number }
  /** The share of requests, answers and wake-ups that are lost. */
  requestLoss: number
  answerLoss: number
  wakeLoss: number
  /** Processes that are cut off. */
  readonly cutOff: Set<string>
}

export interface LinkDeps {
  readonly timeline: Timeline
  readonly server: Server
  readonly faultPlan: FaultPlan
  readonly chance: Chance
  readonly processRun: ProcessRun
  /** How long a call waits for its answer before it fails. */
  readonly deadlineMs: number
}

/** A transaction that a handler's effect and its settlement share. */
export interface Transaction extends Queryable {
  readonly id: string
  readonly attempt: number
}

const CALLS = [
  ...['enqueue', 'claim', 'begin', 'extend', 'watch', 'note', 'settle'],
  ...['promote', 'expired', 'due', 'fire', 'prune', 'tally', 'sample', 'stepBulk'],
  ...['cancel', 'requeue', 'discard', 'update', 'pause', 'resume', 'setQueue', 'queues'],
  ...['setSchedule', 'removeSchedule', 'pauseSchedule', 'resumeSchedule', 'schedules', 'bulks'],
  ...[
    'observe',
    'setLimit',
    'removeLimit',
    'limits',
    'forceBreaker',
    'setGroup',
    'pauseGroup',
    'resumeGroup',
    'groups',
  ],
  ...['get', 'list', 'count', 'stats', 'horizon', 'endings', 'now', 'beat', 'leave', 'workers'],
]

/** The link of one process. */
export class Link {
  readonly #deps: LinkDeps
  readonly #muted = new Set<StoreListener>()

  constructor(deps: LinkDeps) {
    this.#deps = deps
  }

  /** The store as the process sees it. */
  store(): Store {
    const { server, processRun } = this.#deps
    const watched =
      <Answer extends Extension>(name: 'extend' | 'watch') =>
      async (...args: unknown[]) => {
        const answer = (await this.#call(name, () => server.apply(name, args, processRun.id))) as Answer
        processRun.lost(answer.lost)
        return answer
      }
    const calls = CALLS.map((name) => [
      name,
      (...args: unknown[]) => this.#call(name, () => server.apply(name, args, processRun.id)),
    ])
    const settle: Store['settle'] = (jobs, options = {}) => {
      const tx = options.tx as Transaction | undefined
      if (tx !== undefined) return this.#settleInside(tx, jobs)
      return this.#call('settle', () => server.apply('settle', [jobs, options], processRun.id)) as ReturnType<
        Store['settle']
      >
    }
    const rest: Partial<Store> = {
      kind: 'memory',
      extend: watched<Extension>('extend'),
      watch: watched<Watch>('watch'),
      settle,
      wake: (queues) => this.#send(() => server.wake(queues)),
      listen: (listener) => server.listen((wake) => this.#deliver(listener, wake)),
      mute: (listener, isMuted) =>
        this.#call('mute', () => this.#mute(listener, isMuted)).then(
          () => {},
          () => {},
        ),
      extender: () => null,
      close: () => Promise.resolve(),
    }
    return { ...Object.fromEntries(calls), ...rest } as Store
  }

  /** Applies a handler's effect outside of any transaction. */
  async applyEffect(effect: Effect): Promise<void> {
    await this.#call('effect', () => this.#deps.server.applyEffect(effect))
  }

  async commit(tx: Transaction): Promise<void> {
    await this.#call('commit', () => this.#deps.server.commit(tx.id, this.#deps.processRun.id))
  }

  async rollback(tx: Transaction): Promise<void> {
    await this.#call('rollback', () => this.#deps.server.rollback(tx.id))
  }

  #settleInside(tx: Transaction, jobs: readonly SettledJob[]): ReturnType<Store['settle']> {
    const { server } = this.#deps
    return this.#call('settle', () => server.settleInside(tx.id, jobs, tx.attempt)) as ReturnType<Store['settle']>
  }

  #call(name: string, apply: () => unknown): Promise<unknown> {
    const { timeline, processRun, deadlineMs } = this.#deps
    return new Promise((resolve, reject) => {
      if (processRun.isDead) return
      const fail = (why: string) => reject(unavailable(name, why))
      const sentMs = timeline.nowMs
      const deadline = timeline.after(deadlineMs, () => fail(`no answer within ${deadlineMs} ms`), processRun)
      const answer = (give: () => void) => {
        this.#leg(() => {
          deadline.cancel()
          give()
        }, processRun)
      }
      this.#send(() => {
        // The deadline closes the connection. Most calls may still arrive and must do no harm. But no store can undo an enqueue
        // that is written after its own repetition was answered that its key is taken.
        if (name === 'enqueue' && timeline.nowMs - sentMs >= deadlineMs) return
        if (this.#deps.server.isDown) answer(() => fail('the connection was refused'))
        else this.#arrive(name, apply, { resolve, reject, answer })
      })
    })
  }

  #arrive(
    name: string,
    apply: () => unknown,
    back: { resolve: (value: unknown) => void; reject: (error: Error) => void; answer: (give: () => void) => void },
  ): void {
    const { faultPlan, processRun, chance } = this.#deps
    const isLost = chance.happens(faultPlan.answerLoss)
    const give = (how: () => void, loss: () => void) => {
      if (!isLost) {
        back.answer(how)
        return
      }
      processRun.record({ ev: 'answer.lost', to: name })
      // A broken connection fails immediately. A half-open one fails only at the deadline.
      if (chance.happens(0.5)) back.answer(loss)
    }
    const broken = () => back.reject(unavailable(name, 'the connection broke before the answer came'))
    new Promise((resolve) => resolve(apply())).then(
      (value) => give(() => back.resolve(value), broken),
      (error) => give(() => back.reject(error as Error), broken),
    )
  }

  /** To the store. After sending, the sender's death changes nothing. */
  #send(arrive: () => void): void {
    const { faultPlan, chance, processRun } = this.#deps
    if (processRun.isDead || chance.happens(faultPlan.requestLoss)) return
    this.#leg(arrive, null)
  }

  #leg(arrive: () => void, owner: ProcessRun | null): void {
    const { timeline, faultPlan, chance, processRun } = this.#deps
    if (faultPlan.cutOff.has(processRun.name)) return
    const { legMs, slow } = faultPlan
    const ms = chance.happens(slow.share) ? chance.between(0, slow.maxMs) : chance.between(legMs.min, legMs.max)
    timeline.after(ms, arrive, owner)
  }

  #deliver(listener: StoreListener, wake: Wake): void {
    const { faultPlan, chance, processRun } = this.#deps
    const isOwn = wake.caller === processRun.id
    if (processRun.isDead || (!isOwn && this.#muted.has(listener)) || chance.happens(faultPlan.wakeLoss)) return
    this.#leg(() => {
      if ('ready' in wake) listener.ready?.(wake.ready, isOwn && wake.isEnqueue)
      else listener.cancel?.(wake.cancel)
    }, processRun)
  }

  #mute(listener: StoreListener, isMuted: boolean): void {
    if (isMuted) this.#muted.add(listener)
    else this.#muted.delete(listener)
  }
}

function unavailable(name: string, why: string): HoldfastError {
  return new HoldfastError('store_unavailable', `the simulated store did not answer ${name}: ${why}`, {
    retryable: true,
  })
}

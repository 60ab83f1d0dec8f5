// The way between one simulated process and the store. A call travels there, takes effect in one step at the store's own time, and
// its answer travels back; either leg can be slow or lost, and then the caller cannot know which.

import { HoldfastError } from '../../src/core/errors.js'
import type { SettledJob } from '../../src/core/job.js'
import type { Extension, Queryable, StoreListener, Watch } from '../../src/core/job-store.js'
import type { Store } from '../../src/core/store.js'
import type { Chance } from './chance.js'
import type { Incarnation } from './incarnation.js'
import type { Effect, Server, Wake } from './server.js'
import type { Timeline } from './timeline.js'

/** How the network is at the moment, for all processes or for one. Faults change it. */
export interface Weather {
  /** How long a leg takes. */
  legMs: { min: number; max: number }
  /** The share of legs that take up to this long instead. */
  slow: { share: number; maxMs: number }
  /** The share of requests, answers and wake-ups that are lost. */
  requestLoss: number
  answerLoss: number
  wakeLoss: number
  /** Processes nothing gets through to. */
  readonly cutOff: Set<string>
}

export interface LinkDeps {
  readonly timeline: Timeline
  readonly server: Server
  readonly weather: Weather
  readonly chance: Chance
  readonly incarnation: Incarnation
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
  ...['get', 'list', 'count', 'stats', 'horizon', 'endings', 'now', 'beat', 'leave', 'workers'],
]

/** The link of one process. */
export class Link {
  readonly #deps: LinkDeps

  constructor(deps: LinkDeps) {
    this.#deps = deps
  }

  /** The store as the process sees it. */
  store(): Store {
    const { server, incarnation } = this.#deps
    const watched =
      <Answer extends Extension>(name: 'extend' | 'watch') =>
      async (...args: unknown[]) => {
        const answer = (await this.#call(name, () => server.apply(name, args, incarnation.id))) as Answer
        incarnation.lost(answer.lost)
        return answer
      }
    const calls = CALLS.map((name) => [
      name,
      (...args: unknown[]) => this.#call(name, () => server.apply(name, args, incarnation.id)),
    ])
    const settle: Store['settle'] = (jobs, options = {}) => {
      const tx = options.tx as Transaction | undefined
      if (tx !== undefined) return this.#settleInside(tx, jobs)
      return this.#call('settle', () => server.apply('settle', [jobs, options], incarnation.id)) as ReturnType<
        Store['settle']
      >
    }
    const rest: Partial<Store> = {
      kind: 'memory',
      extend: watched<Extension>('extend'),
      watch: watched<Watch>('watch'),
      settle,
      wake: (queues) => this.#send(() => server.wake(queues)),
      listen: (listener) => server.listen((wake) => this.#hear(listener, wake)),
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
    await this.#call('commit', () => this.#deps.server.commit(tx.id, this.#deps.incarnation.id))
  }

  async rollback(tx: Transaction): Promise<void> {
    await this.#call('rollback', () => this.#deps.server.rollback(tx.id))
  }

  #settleInside(tx: Transaction, jobs: readonly SettledJob[]): ReturnType<Store['settle']> {
    const { server } = this.#deps
    return this.#call('settle', () => server.settleInside(tx.id, jobs, tx.attempt)) as ReturnType<Store['settle']>
  }

  #call(name: string, apply: () => unknown): Promise<unknown> {
    const { timeline, incarnation, deadlineMs } = this.#deps
    return new Promise((resolve, reject) => {
      if (incarnation.isDead) return
      const fail = (why: string) => reject(unavailable(name, why))
      const sentMs = timeline.nowMs
      const deadline = timeline.after(deadlineMs, () => fail(`no answer within ${deadlineMs} ms`), incarnation)
      const answer = (give: () => void) => {
        this.#leg(() => {
          deadline.cancel()
          give()
        }, incarnation)
      }
      this.#send(() => {
        // The deadline closes the connection. Most calls may arrive all the same and must do no harm, but an enqueue that is
        // written after its own repetition was told that its key is taken is one no store can undo.
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
    const { weather, incarnation, chance } = this.#deps
    const isLost = chance.happens(weather.answerLoss)
    const give = (how: () => void, loss: () => void) => {
      if (!isLost) {
        back.answer(how)
        return
      }
      incarnation.tell({ ev: 'answer.lost', to: name })
      // A connection that breaks says so at once; one that is half open says nothing before the deadline.
      if (chance.happens(0.5)) back.answer(loss)
    }
    const broken = () => back.reject(unavailable(name, 'the connection broke before the answer came'))
    new Promise((resolve) => resolve(apply())).then(
      (value) => give(() => back.resolve(value), broken),
      (error) => give(() => back.reject(error as Error), broken),
    )
  }

  /** To the store. Once it is on its way, the sender's death changes nothing. */
  #send(arrive: () => void): void {
    const { weather, chance, incarnation } = this.#deps
    if (incarnation.isDead || chance.happens(weather.requestLoss)) return
    this.#leg(arrive, null)
  }

  #leg(arrive: () => void, owner: Incarnation | null): void {
    const { timeline, weather, chance, incarnation } = this.#deps
    if (weather.cutOff.has(incarnation.name)) return
    const { legMs, slow } = weather
    const ms = chance.happens(slow.share) ? chance.between(0, slow.maxMs) : chance.between(legMs.min, legMs.max)
    timeline.after(ms, arrive, owner)
  }

  #hear(listener: StoreListener, wake: Wake): void {
    const { weather, chance, incarnation } = this.#deps
    if (incarnation.isDead || chance.happens(weather.wakeLoss)) return
    this.#leg(() => {
      if ('ready' in wake) listener.ready?.(wake.ready)
      else listener.cancel?.(wake.cancel)
    }, incarnation)
  }
}

function unavailable(name: string, why: string): HoldfastError {
  return new HoldfastError('store_unavailable', `the simulated store did not answer ${name}: ${why}`, {
    retryable: true,
  })
}

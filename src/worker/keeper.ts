// Steps and effects of one attempt: what an earlier attempt has finished is not done again. ◄── context.ts · next: kept-writes.ts

import { checkChoice, checkKeys } from '../core/check.js'
import type { ChildEnd, EffectCall, JobContext } from '../core/definition.js'
import { durationMs } from '../core/duration.js'
import { HoldfastError, invalidOption } from '../core/errors.js'
import { idTimeMs } from '../core/id.js'
import {
  CHILDREN_MAX,
  CHUNK_LENGTH_MAX,
  checkKeptName,
  encodeKept,
  KEPT_BYTES_MAX,
  KEPT_MAX,
  type KeptEntry,
  type KeptKind,
  OUTPUT_LENGTH_MAX,
  type ParkedFor,
  type ParkedOn,
  type Recalled,
} from '../core/kept/kept.js'
import type { Ending } from '../core/views.js'

/** What a keeper stands on: the store behind the job's lease, or the worker of a child. */
export interface KeeperPort {
  readonly id: string
  /** Raises the reason when the job was told to stop, and `wrong_state` when the attempt is over. */
  check(what: string): void
  /** Raises `lease_lost` when the job no longer belongs to this run. */
  recall(): Promise<Recalled>
  /** Raises as `recall` does. */
  keep(entry: KeptEntry): Promise<void>
  /** Writes output at an offset. Raises as `recall` does. */
  write(offset: number, text: string): Promise<void>
  /** How those of the jobs ended that have. */
  endings(ids: readonly string[]): Promise<readonly Ending[]>
  exists(id: string): Promise<boolean>
  /** Cancels those of the jobs that have not ended. */
  cancel(ids: readonly string[]): Promise<void>
  /** Raises what ends the attempt until that has come, or the time is over. */
  park(until: { readonly wait: ParkedFor } | { readonly children: ParkedOn }, delayMs: number | null): never
  /** By the store's clock. */
  storeNowMs(): number
  /** Monotonic. */
  nowMs(): number
}

/** How long a wait lasts at most when its handler says nothing. */
const WAIT_MS_DEFAULT = 7 * 86_400_000
const WAIT_MS_MAX = 366 * 86_400_000

type Known = Pick<KeptEntry, 'value' | 'begun' | 'isEnded'>

/** What one attempt keeps, and what the attempts before it have kept. */
export class Keeper {
  readonly #port: KeeperPort
  #recalled: Promise<Recalled> | null = null
  readonly #known = new Map<string, Known>()
  readonly #inUse = new Set<string>()
  readonly #underWay = new Set<Promise<unknown>>()
  /** How often this attempt has waited for each name, and the signals that waits have taken. */
  readonly #turns = new Map<string, number>()
  readonly #taken = new Set<string>()
  #bytes = 0
  #outputEnd: number | null = null
  readonly #writing = new Set<Promise<unknown>>()

  constructor(port: KeeperPort) {
    this.#port = port
  }

  readonly step: JobContext['step'] = async (name, run) => {
    const what = `step ${JSON.stringify(checkKeptName('the name of a step', name))}`
    checkFunction('step(name, run)', run)
    return this.#within('step', name, what, async (known) => {
      if (known !== undefined) return read(known.value)
      this.#checkRoom(what)
      const startedMs = this.#port.nowMs()
      const value = encodeKept(`the result of ${what} of job ${this.#port.id}`, await run())
      const tookMs = Math.max(0, Math.round(this.#port.nowMs() - startedMs))
      await this.#keep({ kind: 'step', name, value, begun: 1, isEnded: true, tookMs })
      // What a later attempt gets, so that the handler never works with anything else.
      return read(value)
    })
  }

  readonly once: JobContext['once'] = async (key, run) => {
    const what = `the effect ${JSON.stringify(checkKeptName('the key of an effect', key))}`
    checkFunction('once(key, run)', run)
    return this.#within('effect', key, what, async (known) => {
      if (known?.isEnded === true) return read(known.value)
      if (known === undefined) this.#checkRoom(what)
      const begun = Math.min((known?.begun ?? 0) + 1, BEGUN_MAX)
      const entry = { kind: 'effect', name: key, begun, tookMs: 0 } as const
      await this.#keep({ ...entry, value: null, isEnded: false })
      const call: EffectCall = { begun, isDoubtful: begun > 1 }
      const value = encodeKept(
        `the result of ${what} of job ${this.#port.id}`,
        await run(`${this.#port.id}:${key}`, call),
      )
      await this.#keep({ ...entry, value, isEnded: true })
      return read(value)
    })
  }

  readonly waitFor: JobContext['waitFor'] = async (name, options = {}) => {
    const what = `the wait for the signal ${JSON.stringify(checkKeptName('the name of a signal', name))}`
    checkKeys('waitFor', options, ['timeout'])
    const { timeout = WAIT_MS_DEFAULT } = options
    const timeoutMs = durationMs(timeout, { name: 'timeout', minMs: 1, maxMs: WAIT_MS_MAX })
    // In the order of the calls, which is the same in each attempt.
    const turn = (this.#turns.get(name) ?? 0) + 1
    this.#turns.set(name, turn)
    return this.#within('wait', `${name} ${turn}`, what, async (known) => {
      const { signals, wait } = await this.recalled()
      const end = known === undefined ? null : (JSON.parse(known.value!) as WaitEnd)
      if (end?.timedOut === true) return TIMED_OUT
      const sent = signals.filter((signal) => signal.name === name)
      const found =
        end === null ? sent.find(({ key }) => !this.#taken.has(key)) : sent.find(({ key }) => key === end.key)
      const entry = { kind: 'wait', name: `${name} ${turn}`, begun: 1, isEnded: true, tookMs: 0 } as const
      if (found !== undefined) {
        this.#taken.add(found.key)
        if (end === null) await this.#keep({ ...entry, value: JSON.stringify({ key: found.key }) })
        return { timedOut: false, value: JSON.parse(found.value), at: new Date(found.atMs) }
      }
      const isSame = wait?.name === name && wait.turn === turn
      const leftMs = isSame ? wait.untilMs - this.#port.storeNowMs() : timeoutMs
      if (leftMs <= 0) {
        await this.#keep({ ...entry, value: JSON.stringify({ timedOut: true }) })
        return TIMED_OUT
      }
      this.#checkRoom(what)
      // What is under way would lose its lease, and be done again.
      await Promise.allSettled(this.#underWay)
      return this.#port.park({ wait: { name, turn, seen: sent.length } }, leftMs)
    })
  }

  readonly write: JobContext['write'] = (chunk) => {
    const writing = this.#write(chunk)
    // A handler that does not await its output learns of a failure by its signal, and must not take the process down.
    this.#writing.add(writing)
    const done = () => void this.#writing.delete(writing)
    writing.then(done, done)
    return writing
  }

  async #write(chunk: string): Promise<void> {
    const what = `output of job ${this.#port.id}`
    if (typeof chunk !== 'string') throw invalidOption('ctx.write(chunk) takes a text', chunk)
    if (chunk.length > CHUNK_LENGTH_MAX) {
      throw invalidOption(
        `a chunk of output has at most ${CHUNK_LENGTH_MAX} characters, got ${chunk.length}: cut it into pieces`,
      )
    }
    this.#port.check(what)
    if (chunk === '') return
    const { outputEnd } = await this.recalled()
    const offset = this.#outputEnd ?? outputEnd
    if (offset + chunk.length > OUTPUT_LENGTH_MAX) {
      throw new HoldfastError(
        'kept_full',
        `a chunk of ${chunk.length} characters was not written: job ${this.#port.id} has written ${offset}, and may write ${OUTPUT_LENGTH_MAX}; keep long output elsewhere, and write where it is`,
        { details: { id: this.#port.id, length: offset } },
      )
    }
    this.#outputEnd = offset + chunk.length
    await this.#port.write(offset, chunk)
  }

  /** Whether output is on its way. It arrives before the lease ends: `next` is called when it has. */
  isBusy(next: () => void): boolean {
    if (this.#writing.size === 0) return false
    void this.written().then(next)
    return true
  }

  /** Resolves when the output that is on its way has arrived, or cannot. */
  async written(): Promise<void> {
    await Promise.allSettled(this.#writing)
  }

  /** A child, enqueued by `enqueue` unless an earlier attempt has. Answers with its id. */
  child(name: string, enqueue: () => Promise<string>): Promise<string> {
    const what = `the child ${JSON.stringify(checkKeptName('child', name))}`
    return this.#within('child', name, what, async (known) => {
      if (known !== undefined) return JSON.parse(known.value!) as string
      this.#checkRoom(what)
      const id = await enqueue()
      await this.#keep({ kind: 'child', name, value: JSON.stringify(id), begun: 1, isEnded: true, tookMs: 0 })
      return id
    })
  }

  readonly waitForChildren: JobContext['waitForChildren'] = async (options = {}) => {
    checkKeys('waitForChildren', options, ['onFailure'])
    const onFailure = checkChoice('onFailure', options.onFailure ?? 'throw', ['throw', 'cancel', 'collect'])
    this.#port.check('the wait for children')
    await Promise.allSettled(this.#underWay)
    await this.recalled()
    const ids = this.#children()
    const ends = await this.#endsOf([...ids.values()])
    const open = [...ids.values()].filter((id) => !ends.has(id))
    const failed = [...ids].find(([, id]) => ends.has(id) && ends.get(id)!.state !== 'succeeded')
    if (failed !== undefined && onFailure === 'cancel') await this.#port.cancel(open)
    else if (open.length > 0) {
      return this.#port.park({ children: { ids: open, wakesEarly: onFailure === 'cancel' } }, null)
    }
    if (failed !== undefined && onFailure !== 'collect') {
      throw childFailed(this.#port.id, failed[0], ends.get(failed[1])!)
    }
    return Object.fromEntries([...ids].map(([name, id]) => [name, ends.get(id)!]))
  }

  /** The ids of its children by name. */
  #children(): ReadonlyMap<string, string> {
    const ids = new Map<string, string>()
    for (const [place, { value }] of this.#known) {
      if (place.startsWith('child ')) ids.set(place.slice('child '.length), JSON.parse(value!) as string)
    }
    if (ids.size <= CHILDREN_MAX) return ids
    throw invalidOption(
      `job ${this.#port.id} has ${ids.size} children, and waits for at most ${CHILDREN_MAX}: let children of it have children`,
    )
  }

  /** How those of the children ended that have. One that was pruned had succeeded long ago. */
  async #endsOf(ids: readonly string[]): Promise<ReadonlyMap<string, ChildEnd>> {
    if (ids.length === 0) return new Map()
    const ends = new Map<string, ChildEnd>()
    for (const { id, state, result, error } of await this.#port.endings(ids)) {
      ends.set(id, { id, state, result: result === null ? null : JSON.parse(result), error })
    }
    const today = Math.floor(this.#port.storeNowMs() / DAY_MS)
    for (const id of ids) {
      // Nothing is pruned before its day is over.
      if (ends.has(id) || Math.floor(idTimeMs(id) / DAY_MS) >= today || (await this.#port.exists(id))) continue
      ends.set(id, { id, state: 'succeeded', result: null, error: null })
    }
    return ends
  }

  /** Calls `work` with what is known of an entry. An attempt uses each name for one thing; a call that failed may be repeated. */
  async #within<T>(
    kind: KeptKind,
    name: string,
    what: string,
    work: (known: Known | undefined) => Promise<T>,
  ): Promise<T> {
    const place = placeOf(kind, name)
    this.#port.check(what)
    if (this.#inUse.has(place)) {
      throw invalidOption(
        `${what} of job ${this.#port.id} is used twice in one attempt: give each its own name, such as ${JSON.stringify(`${name.slice(0, 40)} 2`)}`,
      )
    }
    this.#inUse.add(place)
    try {
      await this.recalled()
      const known = this.#known.get(place)
      // What is known costs nothing; what is new is not begun by a job that was told to stop meanwhile.
      if (known?.isEnded !== true) this.#port.check(what)
      const working = work(known)
      if (kind !== 'wait') this.#underWay.add(working)
      return await working.finally(() => this.#underWay.delete(working))
    } catch (error) {
      this.#inUse.delete(place)
      throw error
    }
  }

  /** What the job has kept, read at the first use. */
  recalled(): Promise<Recalled> {
    this.#recalled ??= this.#recall().catch((error) => {
      this.#recalled = null
      throw error
    })
    return this.#recalled
  }

  async #recall(): Promise<Recalled> {
    const recalled = await this.#port.recall()
    for (const { kind, name, ...known } of recalled.entries) {
      this.#known.set(placeOf(kind, name), known)
      if (kind === 'wait') this.#taken.add((JSON.parse(known.value!) as { key?: string }).key ?? '')
      this.#bytes += known.value?.length ?? 0
    }
    return recalled
  }

  async #keep(entry: KeptEntry): Promise<void> {
    await this.#port.keep(entry)
    this.#known.set(placeOf(entry.kind, entry.name), entry)
    this.#bytes += entry.value?.length ?? 0
  }

  #checkRoom(what: string): void {
    if (this.#known.size < KEPT_MAX && this.#bytes < KEPT_BYTES_MAX) return
    throw new HoldfastError(
      'kept_full',
      `${what} of job ${this.#port.id} was not begun: the job has kept ${this.#known.size} steps and effects with ${this.#bytes} bytes, and may keep ${KEPT_MAX} with ${KEPT_BYTES_MAX}; use fewer and larger steps, or several jobs`,
      { details: { id: this.#port.id, kept: this.#known.size, bytes: this.#bytes } },
    )
  }
}

const BEGUN_MAX = 30_000
const DAY_MS = 86_400_000

function childFailed(job: string, name: string, { id, state, error }: ChildEnd): HoldfastError {
  const why = error === null ? '' : `: ${error.name}: ${error.message}`
  return new HoldfastError('child_failed', `child "${name}" of job ${job} is ${state}${why}`, {
    details: { name, id, state },
  })
}

/** What a handler gets that keeps something after its attempt. */
export function attemptOver(what: string, id: string): HoldfastError {
  return new HoldfastError(
    'wrong_state',
    `${what} of job ${id} was not begun: its attempt is over; await every step before the handler returns`,
    { details: { id } },
  )
}

/** What a batch handler gets that wants to wait. */
export function noWaitInBatch(type: string): HoldfastError {
  return new HoldfastError(
    'unsupported',
    `ctx.waitFor and ctx.waitForChildren cannot be used in a batch handler, which runs several jobs together: give "${type}" a handler of its own`,
  )
}

/** How a wait ended, as it is kept. */
type WaitEnd = { readonly key: string; readonly timedOut?: false } | { readonly timedOut: true }

const TIMED_OUT = { timedOut: true, value: undefined, at: null } as const

function placeOf(kind: KeptKind, name: string): string {
  return `${kind} ${name}`
}

// biome-ignore lint/suspicious/noExplicitAny: what was stored is what the handler's own function returned
function read(value: string | null): any {
  return value === null ? undefined : JSON.parse(value)
}

function checkFunction(call: string, run: unknown): void {
  if (typeof run !== 'function') throw invalidOption(`ctx.${call} takes a function`, run)
}

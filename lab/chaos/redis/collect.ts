// Reads the streams of changes that the functions wrote (witness.ts), and turns them into the store's events. The changes that one call
// made to one job are one step of its life.

import { CRASHES_MAX, LIMIT_DEFAULTS } from '../../../src/core/limits.js'
import { type DeadReason, isFinished } from '../../../src/core/states.js'
import { readHead } from '../../../src/stores/redis/facts.js'
import { longId } from '../../../src/stores/redis/ids.js'
import { stateOfLetter } from '../../../src/stores/redis/states.js'
import { baseOf } from '../../../src/stores/redis/tags.js'
import type { JobStored, StoreEvent, WritesUndone } from '../../history/events.js'
import type { Durability } from '../settings.js'
import { ask } from './ask.js'
import type { Span } from './faults.js'
import type { RedisMachine } from './machine.js'
import { WITNESS } from './witness.js'

/** One call of a function, as the witness wrote it. */
export interface WitnessEntry {
  readonly shard: number
  /** Port and run of the server. */
  readonly server: string
  readonly at: number
  readonly changes: readonly Change[]
}

/** The letter of a kind of key, the key, the command, its arguments. */
type Change = readonly [letter: 'f' | 's' | 'l' | 't', key: string, command: string, ...args: string[]]

const PAGE = 1_000
/** Entries of one millisecond keep their order; those that follow another job's end come behind it. */
const PLACES_PER_MS = 1_000
const BEHIND = 500

/** Every step of every job's life. */
export async function readChanges(
  machine: RedisMachine,
  options: { readonly durability: Durability; readonly spans: readonly Span[] },
): Promise<StoreEvent[]> {
  const events: StoreEvent[] = []
  for (let shard = 0; shard < machine.shards; shard++) {
    const reader = new ShardReader(options)
    for await (const entry of readEntries(machine, shard)) events.push(...reader.read(entry))
  }
  return events
}

async function* readEntries(machine: RedisMachine, shard: number): AsyncGenerator<WitnessEntry> {
  const server = await machine.masterOf(shard)
  let from = '-'
  for (;;) {
    const found = (await ask(server, ['XRANGE', `${baseOf('', shard)}${WITNESS}`, from, '+', 'COUNT', PAGE])) as [
      string,
      string[],
    ][]
    for (const [, [, by, , at, , changes]] of found) {
      yield { shard, server: by!, at: Number(at), changes: JSON.parse(changes!) as Change[] }
    }
    if (found.length < PAGE) return
    from = `(${found[found.length - 1]![0]}`
  }
}

/** A job's standing: its letters and numbers (src/stores/redis/jobs.ts). */
interface Standing {
  readonly letter: string
  readonly fence: number
  readonly attempt: number
  readonly crashes: number
  readonly flags: string
  readonly at: number | null
  readonly reason: string
  readonly worker: string
}

const NONE: Standing = { letter: 'Q', fence: 0, attempt: 0, crashes: 0, flags: '', at: null, reason: '-', worker: '' }
const STANDING = /^([A-Z])(\d+) (-?\d+) (\d+) (\S+) (\S+) (\S+) (\S+) (.*)$/

function standingOf(text: string): Standing {
  const [, letter, fence, attempt, crashes, flags, at, , reason, worker] = STANDING.exec(text) ?? []
  if (letter === undefined) throw new Error(`the witness has a standing that can't be read: ${text}`)
  return {
    ...{ letter, fence: Number(fence), attempt: Number(attempt), crashes: Number(crashes), flags: flags! },
    ...{ at: at === '-' ? null : Number(fence) + Number(at), reason: reason!, worker: worker! },
  }
}

/** What one call did to one job. */
interface Touch {
  facts: string | null
  standing: Standing | null
  leasedUntil: number | null
}

/** Follows the jobs of one shard. */
export class ShardReader {
  readonly #standings = new Map<string, Standing>()
  readonly #options: { readonly durability: Durability; readonly spans: readonly Span[] }
  #last: WitnessEntry | null = null
  #order = 0

  constructor(options: { readonly durability: Durability; readonly spans: readonly Span[] }) {
    this.#options = options
  }

  /** The events of one call. */
  *read(entry: WitnessEntry): Generator<StoreEvent> {
    const { at, changes, shard } = entry
    const touched = this.#touched(changes)
    const follows = [...touched].some(([id, { facts }]) => {
      return facts !== null || this.#standings.get(id)?.letter === 'B'
    })
    this.#order = Math.max(this.#order + 1, at * PLACES_PER_MS + (follows ? BEHIND : 0))
    const own = { order: this.#order, at, tx: `${shard}.${this.#order}` }
    const undone = this.#undone(entry, own)
    if (undone !== null) yield undone
    this.#last = entry
    // A call writes in no order: what ends comes before what goes on because of it, also when it had to wait itself.
    const placeOf = ([id, { standing }]: readonly [string, Touch]) => {
      if (this.#standings.get(id)?.letter !== 'B') return 0
      return standing !== null && isFinished(stateOfLetter(standing.letter)) ? 1 : 2
    }
    const inOrder = [...touched].sort((one, other) => placeOf(one) - placeOf(other))
    for (const [id, touch] of inOrder) yield* this.#stepOf(id, touch, own)
    for (const [letter, key, , ...args] of changes) {
      if (letter === 't') yield* ticksOf(key, args, own)
    }
  }

  #touched(changes: readonly Change[]): Map<string, Touch> {
    const touched = new Map<string, Touch>()
    const touch = (id: string) => {
      const known = touched.get(id) ?? { facts: null, standing: null, leasedUntil: null }
      touched.set(id, known)
      return known
    }
    for (const [letter, , command, ...args] of changes) {
      if (letter === 'l') {
        for (let at = 0; at < args.length; at += 2) touch(args[at + 1]!).leasedUntil = Number(args[at])
      } else if (command === 'HSET') {
        for (let at = 0; at < args.length; at += 2) {
          const [id, text] = [args[at]!, args[at + 1]!]
          // Facts that are known were moved to another chunk, or changed.
          if (letter === 's') touch(id).standing = standingOf(text)
          else if (letter === 'f' && !this.#standings.has(id)) touch(id).facts = text
        }
      } else if (letter === 's') {
        // Without a standing a job is ready and was never claimed; one that was moved to another chunk has it there.
        for (const id of args) if (touched.get(id)?.standing == null) touch(id).standing = NONE
      }
    }
    return touched
  }

  /** What a server wrote that is no more the primary, and what never got to the one that took over. */
  #undone({ server, at }: WitnessEntry, own: Pick<WritesUndone, 'order' | 'at'>): WritesUndone | null {
    const last = this.#last
    if (last === null || portOf(last.server) === portOf(server)) return null
    const span = this.#options.spans.find(({ from, to }) => from <= at && at <= to)
    // Claims do not wait for replicas, whatever the durability.
    const what = this.#options.durability === 'replicated' ? 'claims' : 'all'
    return { ev: 'undone', ...own, from: last.at, to: Math.max(at, span?.to ?? at), what, fault: span?.kind ?? null }
  }

  *#stepOf(id: string, { facts, standing, leasedUntil }: Touch, own: Own): Generator<StoreEvent> {
    const job = longId(id)
    const before = this.#standings.get(id)
    if (before === undefined) {
      if (facts === null) throw new Error(`the witness has a standing of ${job} without its facts`)
      const after = standing ?? NONE
      this.#standings.set(id, after)
      yield storedOf(job, facts, after, own)
      if (after.letter === 'R') yield claimOf(job, after, leasedUntil, { ...own, order: own.order + 0.5 })
      return
    }
    if (standing === null) {
      if (leasedUntil !== null) yield { ev: 'extended', ...own, job, fence: before.fence, leasedUntil }
      return
    }
    this.#standings.set(id, standing)
    yield* stepBetween(job, before, { after: standing, leasedUntil }, own)
  }
}

interface Own {
  readonly order: number
  readonly at: number
  readonly tx: string
}

function portOf(server: string): string {
  return server.split(' ')[0]!
}

/** A step of a job that was there before. */
function* stepBetween(
  job: string,
  before: Standing,
  { after, leasedUntil }: { readonly after: Standing; readonly leasedUntil: number | null },
  own: Own,
): Generator<StoreEvent> {
  const to = stateOfLetter(after.letter)
  if (before.letter === 'R' && after.letter === 'R' && before.fence === after.fence) {
    const isAsked = after.flags.includes('c') && !before.flags.includes('c')
    if (isAsked) yield { ev: 'operated', ...own, job, action: 'ask to cancel', to }
    return
  }
  if (after.letter === 'R') {
    yield claimOf(job, after, leasedUntil, own)
    return
  }
  if (before.letter === 'R') {
    yield {
      ...{ ev: 'settled', ...own, job, fence: before.fence, to, attempts: after.attempt, crashes: after.crashes },
      reason: after.letter === 'D' ? (after.reason as DeadReason) : null,
      notBefore: after.letter === 'T' || after.letter === 'S' ? after.at : null,
      // A rescue moves the fence on. That distinguishes it from a settlement.
      rescued: after.fence > before.fence,
    }
    return
  }
  if (before.letter === after.letter) return
  if (before.letter === 'D') yield { ev: 'operated', ...own, job, action: to === 'ready' ? 'requeue' : 'discard', to }
  else if (to === 'ready' || to === 'scheduled') yield { ev: 'promoted', ...own, job, to }
  else yield { ev: 'operated', ...own, job, action: 'cancel', to }
}

function claimOf(job: string, after: Standing, leasedUntil: number | null, own: Own): StoreEvent {
  const { fence, attempt, worker } = after
  if (leasedUntil === null) throw new Error(`the witness has a claim of ${job} without the end of its lease`)
  return { ev: 'claimed', ...own, job, fence, attempt, worker, leasedUntil, began: own.at }
}

function storedOf(job: string, text: string, after: Standing, own: Own): JobStored {
  const end = text.indexOf('\n')
  const {
    queue,
    type,
    priority,
    limits,
    idempotencyKey,
    after: parents,
    onParentDead,
    schedule,
  } = readHead(text.slice(0, end))
  const payload = text.slice(end + 1)
  const { key = null, effect = null } = (JSON.parse(payload) ?? {}) as { key?: string | null; effect?: string | null }
  const tick = schedule === null ? null : { schedule: schedule.name, at: schedule.tickMs }
  const isEffect = effect === 'outside' || effect === 'none'
  return {
    ...{ ev: 'stored', ...own, job, queue, type, priority },
    // A job that was claimed as it was written had no state before.
    state: after.letter === 'R' ? 'ready' : stateOfLetter(after.letter),
    runAt: after.letter === 'S' || after.letter === 'B' ? after.at : null,
    maxAttempts: limits.maxAttempts ?? LIMIT_DEFAULTS.maxAttempts,
    maxCrashes: CRASHES_MAX,
    key: tick === null ? key : null,
    idempotencyKey: idempotencyKey?.key ?? null,
    keyTtlMs: idempotencyKey?.ttlMs ?? null,
    after: parents,
    onParentDead,
    tick,
    ...(isEffect ? { effect } : {}),
  }
}

/** Each member is "<tick> <id>", or "<tick> -" for one that made no job. A call writes several in no order. */
function* ticksOf(key: string, args: readonly string[], own: Own): Generator<StoreEvent> {
  const schedule = key.slice(key.lastIndexOf(':') + 1)
  const members = args.filter((_, at) => at % 2 === 1).map((member) => member.split(' ') as [string, string])
  for (const [tick, id] of members.sort(([one], [other]) => Number(one) - Number(other))) {
    yield { ev: 'tick', ...own, schedule, tick: Number(tick), job: id === '-' ? null : longId(id), began: own.at }
  }
}

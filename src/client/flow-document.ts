// All settings of flow control in one document, as a file has them: checked as a whole, every mistake with its place. ◄── apply-flow.ts

import { checkName } from '../core/check.js'
import { closest } from '../core/closest.js'
import { HoldfastError, isHoldfastError, show } from '../core/errors.js'
import {
  checkGroup,
  checkLimitName,
  type GroupOverrideOptions,
  type NamedLimitOptions,
  type QueueFlowOptions,
  resolveLimit,
  resolveOverride,
  resolveQueueFlow,
} from '../core/flow/resolve.js'
import { type GroupOverride, type LimitSettings, NO_QUEUE_FLOW, type QueueFlow } from '../core/flow/settings.js'

/** The most limits, queues and groups of a document together. */
export const FLOW_ENTRIES_MAX = 100_000
/** A document with more mistakes than this is another kind of file. */
const PROBLEMS_MAX = 50

/** Settings of flow control, by name. What is named has exactly these settings; what is not named stays as it is. */
export interface FlowDocument {
  /** As for `setLimit`. */
  readonly limits?: Readonly<Record<string, NamedLimitOptions>>
  /** Flow control of queues, as for `setQueue`. Their other settings stay. */
  readonly queues?: Readonly<Record<string, QueueFlowOptions>>
  /** Settings of single groups, as for `setGroup`: by queue, then by group. */
  readonly groups?: Readonly<Record<string, Readonly<Record<string, GroupOverrideOptions>>>>
}

/** A mistake in a document. */
export interface FlowProblem {
  /** Where: keys from the outside in. */
  readonly path: readonly string[]
  readonly message: string
}

/** A document, checked and complete. */
export interface ResolvedFlow {
  readonly limits: ReadonlyMap<string, LimitSettings>
  readonly queues: ReadonlyMap<string, QueueFlow>
  /** By queue, then by group. */
  readonly groups: ReadonlyMap<string, ReadonlyMap<string, GroupOverride>>
}

type Section = Readonly<Record<string, unknown>>

/** The keys of a part of the document. An empty shape is a value that has none. */
interface Shape {
  readonly [key: string]: Shape
}

const VALUE: Shape = {}
const RATE: Shape = { limit: VALUE, per: VALUE, burst: VALUE, counts: VALUE }
const BOUNDS: Shape = { concurrency: VALUE, rate: RATE }
const LIMIT: Shape = {
  concurrency: { min: VALUE, max: VALUE },
  rate: RATE,
  breaker: { failures: VALUE, of: VALUE, within: VALUE, cooldown: VALUE, cooldownMax: VALUE, probes: VALUE },
}
const GROUPS: Shape = { ...BOUNDS, ordered: VALUE, onRetry: VALUE, onDead: VALUE, maxDepth: VALUE }
const QUEUE: Shape = { ...BOUNDS, groups: GROUPS, maxDepth: VALUE, onFull: VALUE, aging: VALUE }
const OVERRIDE: Shape = { ...BOUNDS, weight: VALUE }

/** What `queues set` sets and a document does not. */
const NOT_FLOW = ['maxAttempts', 'timeout', 'maxAge', 'retry', 'retention', 'paused']

/** Checks a document. Raises `invalid_option` with every mistake in `details.problems`. */
export function resolveFlowDocument(document: unknown): ResolvedFlow {
  const reader = new Reader()
  reader.keys(document, [], { limits: VALUE, queues: VALUE, groups: VALUE })
  const sections: Section = isSection(document) ? document : {}
  const limits = reader.entries(sections.limits, ['limits'], (name) => checkLimitName('the name of a limit', name), {
    shape: LIMIT,
    resolve: (options, name) => resolveLimit(name, options as NamedLimitOptions),
  })
  const queues = reader.entries(sections.queues, ['queues'], (name) => checkName('the name of a queue', name), {
    shape: QUEUE,
    resolve: (options) => resolveQueueFlow(options as QueueFlowOptions) ?? NO_QUEUE_FLOW,
  })
  const groups = new Map<string, ReadonlyMap<string, GroupOverride>>()
  for (const [queue, own] of Object.entries(reader.record(sections.groups, ['groups']))) {
    const path = ['groups', queue]
    reader.passes(path, () => checkName('the name of a queue', queue))
    const found = reader.entries(own, path, checkGroup, {
      shape: OVERRIDE,
      resolve: (options) => resolveOverride(options as GroupOverrideOptions),
    })
    groups.set(queue, found)
  }
  reader.finish()
  return { limits, queues, groups }
}

interface EntryRule<Settings> {
  readonly shape: Shape
  readonly resolve: (options: object, name: string) => Settings
}

/** Goes through a document and gathers its mistakes. */
class Reader {
  readonly #problems: FlowProblem[] = []
  #entries = 0

  /** Named settings, each checked. Those with a mistake are left out. */
  entries<Settings>(
    value: unknown,
    path: readonly string[],
    checkEntryName: (name: string) => string,
    { shape, resolve }: EntryRule<Settings>,
  ): ReadonlyMap<string, Settings> {
    const found = new Map<string, Settings>()
    for (const [name, options] of Object.entries(this.record(value, path))) {
      const at = [...path, name]
      this.#entries++
      if (!this.passes(at, () => checkEntryName(name)) || this.keys(options, at, shape) === null) continue
      const problem = problemOf(() => found.set(name, resolve(options as Section, name)))
      if (problem === null) continue
      const below = culpritIn(options as Section, (part) => problemOf(() => resolve(part, name)) === problem)
      // Its place says already which limit it is.
      this.#add([...at, ...below], problem.replace(`limit "${name}": `, ''))
    }
    return found
  }

  /** A section: an object, or nothing. */
  record(value: unknown, path: readonly string[]): Section {
    if (value === undefined || value === null) return {}
    if (isSection(value)) return value
    this.#add(path, `must be a map of names, got ${show(value)}`)
    return {}
  }

  /** The object, when each of its keys is known; otherwise null. */
  keys(value: unknown, path: readonly string[], shape: Shape): Section | null {
    if (!isSection(value)) {
      const none = value === null && path.length > 0 ? '; {} sets nothing, and leaving it out leaves it alone' : ''
      this.#add(path, `must be an object of settings, got ${show(value)}${none}`)
      return null
    }
    let isKnown = true
    for (const [key, inner] of Object.entries(value)) {
      const at = [...path, key]
      if (!Object.hasOwn(shape, key)) {
        this.#add(at, unknownKey(key, Object.keys(shape)))
        isKnown = false
      } else if (isSection(inner) && shape[key] !== VALUE) {
        isKnown = this.keys(inner, at, shape[key]!) !== null && isKnown
      }
    }
    return isKnown ? value : null
  }

  /** Whether a check passes. What it raises is noted. */
  passes(path: readonly string[], check: () => unknown): boolean {
    const problem = problemOf(check)
    if (problem !== null) this.#add(path, problem)
    return problem === null
  }

  #add(path: readonly string[], message: string): void {
    if (this.#problems.length < PROBLEMS_MAX) this.#problems.push({ path, message })
  }

  /** Raises when there was a mistake. */
  finish(): void {
    if (this.#entries > FLOW_ENTRIES_MAX) {
      this.#add([], `may have ${FLOW_ENTRIES_MAX} limits, queues and groups together, got ${this.#entries}`)
    }
    const problems = this.#problems
    if (problems.length === 0) return
    const texts = problems.map(({ path, message }) => (path.length === 0 ? message : `${path.join('.')}: ${message}`))
    const head = `the settings of flow control have ${problems.length === 1 ? 'a mistake' : `${problems.length} mistakes`}`
    throw new HoldfastError('invalid_option', `${head}, and nothing was changed: ${texts.join('; ')}`, {
      details: { problems },
    })
  }
}

/** The keys of the one setting that by itself makes the same mistake; none when some settings do not go together. */
function culpritIn(options: Section, isWrong: (part: Section) => boolean): readonly string[] {
  const key = Object.keys(options).find((each) => isWrong({ [each]: options[each] }))
  if (key === undefined) return []
  const inner = options[key]
  // The parts of these mean something only together.
  if (!isSection(inner) || key === 'rate' || key === 'concurrency') return [key]
  return [key, ...culpritIn(inner, (part) => isWrong({ [key]: part }))]
}

function problemOf(check: () => unknown): string | null {
  try {
    check()
    return null
  } catch (error) {
    if (isHoldfastError(error)) return error.message
    throw error
  }
}

function unknownKey(key: string, known: readonly string[]): string {
  if (NOT_FLOW.includes(key)) return 'is not flow control: set it with setQueue() or `holdfast queues`'
  const meant = closest(key, known)
  return `is not a setting here${meant === null ? '' : `; did you mean ${meant}?`} It takes ${known.join(', ')}`
}

function isSection(value: unknown): value is Section {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

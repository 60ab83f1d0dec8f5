// Brings the settings of flow control to what a document says: limits, queues, groups. What differs is written, and nothing else, so
// that a service may do it at every start.

import { checkBoolean, checkKeys } from '../core/check.js'
import { asError, HoldfastError, isHoldfastError } from '../core/errors.js'
import { isQueueLimit } from '../core/flow/job-flow.js'
import type { GroupOverride } from '../core/flow/settings.js'
import type { LimitView } from '../core/flow/views.js'
import { writeLimit, writeOverride, writeQueueFlow } from '../core/flow/written.js'
import { type OperatorStore, PAGE_MAX } from '../core/operator-store.js'
import type { QueueSettings } from '../core/views.js'
import { limitInUse } from './flow-calls.js'
import { FLOW_ENTRIES_MAX, type FlowDocument, type ResolvedFlow, resolveFlowDocument } from './flow-document.js'

/** How to apply a document. */
export interface ApplyFlowOptions {
  /** Says what would change and changes nothing. Default false. */
  readonly dryRun?: boolean
  /** Takes away what the document does not name: limits that an operator or a document set, flow control of queues, settings of groups. Never
   *  what a definition set, and never a pause or a forced breaker. Default false. */
  readonly prune?: boolean
}

/** One thing that differs. `from` and `to` are settings as a document has them; null where there are none. */
export interface FlowChange {
  readonly kind: 'limit' | 'queue' | 'group'
  /** Of the limit, the queue or the group. */
  readonly name: string
  /** The queue of a group; null for others. */
  readonly queue: string | null
  readonly from: object | null
  readonly to: object | null
  /** Of a limit: true when a definition had set it. From now on its definition changes it no more. */
  readonly wasDefinition: boolean
}

/** What a document changed. */
export interface FlowApplied {
  readonly dryRun: boolean
  /** In the order they are made. In a dry run those that would be made. */
  readonly changes: readonly FlowChange[]
  /** Limits that were not removed because jobs or schedules name them. */
  readonly refused: readonly { readonly change: FlowChange; readonly message: string }[]
}

/** A change and the call that makes it. It answers `busy` when the store refuses. */
interface Step {
  readonly change: FlowChange
  readonly make: () => Promise<unknown>
}

export async function applyFlow(
  store: OperatorStore,
  document: FlowDocument,
  { dryRun = false, prune = false, ...others }: ApplyFlowOptions,
  by: string,
): Promise<FlowApplied> {
  checkKeys('applyFlow', others, [])
  checkBoolean('dryRun', dryRun)
  checkBoolean('prune', prune)
  const asked = resolveFlowDocument(document)
  const steps = stepsOf(store, asked, await readPresent(store, asked, prune), { prune, by })
  const changes = steps.map(({ change }) => change)
  if (dryRun) return { dryRun, changes, refused: [] }
  const refused: { change: FlowChange; message: string }[] = []
  for (const [index, { change, make }] of steps.entries()) {
    try {
      if ((await make()) === 'busy') refused.push({ change, message: limitInUse(change.name).message })
    } catch (error) {
      throw stopped(changes, index, error)
    }
  }
  const isRefused = new Set(refused.map(({ change }) => change))
  return { dryRun, changes: changes.filter((change) => !isRefused.has(change)), refused }
}

/** The error of a change that failed: those before it are made, and it may be applied again. */
function stopped(changes: readonly FlowChange[], index: number, thrown: unknown): HoldfastError {
  const error = asError(thrown)
  const { code, retryable, details } = isHoldfastError(error)
    ? error
    : { code: 'store_refused' as const, retryable: false, details: {} }
  const [applied, failed, left] = [changes.slice(0, index), changes[index]!, changes.slice(index + 1)]
  const text = `${index} of ${changes.length} changes of flow control are made; that of ${nameOf(failed)} failed: ${error.message}`
  return new HoldfastError(code, `${text}; apply it again to make the rest`, {
    cause: error,
    retryable,
    details: { ...details, applied, failed, left },
  })
}

function nameOf({ kind, name, queue }: FlowChange): string {
  return queue === null ? `${kind} "${name}"` : `${kind} "${name}" of queue "${queue}"`
}

/** What is set now. */
interface Present {
  readonly limits: ReadonlyMap<string, LimitView>
  readonly queues: ReadonlyMap<string, QueueSettings>
  /** By queue, then by group. */
  readonly groups: ReadonlyMap<string, ReadonlyMap<string, GroupOverride>>
}

/** Every setting of flow control that was not made by a definition, as a document. */
export async function readFlow(store: OperatorStore): Promise<Required<FlowDocument>> {
  const { limits, queues, groups } = await readPresent(store, null, true)
  const sections = [...groups].filter(([, own]) => own.size > 0)
  return {
    limits: record(
      [...limits].filter(([, { origin }]) => origin === 'operator').map(([name, view]) => [name, optionsOf(view)]),
    ),
    queues: record(
      [...queues].flatMap(([name, { flow }]) => (flow === undefined ? [] : [[name, writeQueueFlow(flow)]])),
    ),
    groups: record(
      sections.map(([queue, own]) => [
        queue,
        record([...own].map(([group, override]) => [group, writeOverride(override)])),
      ]),
    ),
  }
}

/** By name. */
function record<Value>(entries: readonly (readonly [string, Value])[]): Record<string, Value> {
  return Object.fromEntries([...entries].sort(([one], [other]) => (one < other ? -1 : 1)))
}

function optionsOf({ concurrency, rate, adaptive, breaker }: LimitView): object {
  return writeLimit({ concurrency, rate, adaptive, breaker: breaker?.settings ?? null })
}

/** Reads what is set: of groups those of the queues that are asked for, or of all. */
async function readPresent(store: OperatorStore, asked: ResolvedFlow | null, isWhole: boolean): Promise<Present> {
  const limits = (await store.limits()).filter(({ name }) => !isQueueLimit(name))
  const queues = await store.queues()
  const wanted = isWhole ? queues.map(({ name }) => name) : [...(asked?.groups.keys() ?? [])]
  const groups = new Map<string, ReadonlyMap<string, GroupOverride>>()
  let entries = 0
  for (const queue of wanted) {
    const own = await overridesOf(store, queue, FLOW_ENTRIES_MAX - entries)
    entries += own.size
    groups.set(queue, own)
  }
  return {
    limits: new Map(limits.map((limit) => [limit.name, limit])),
    queues: new Map(queues.map(({ name, settings }) => [name, settings])),
    groups,
  }
}

async function overridesOf(
  store: OperatorStore,
  queue: string,
  most: number,
): Promise<ReadonlyMap<string, GroupOverride>> {
  const found = new Map<string, GroupOverride>()
  let after: string | null = null
  do {
    const page = await store.groups({ queue, prefix: '', after, limit: PAGE_MAX, own: true })
    for (const { group, override } of page.groups) if (override !== null) found.set(group, override)
    after = page.next
    if (found.size <= most) continue
    throw new HoldfastError(
      'invalid_option',
      `more than ${FLOW_ENTRIES_MAX} groups have settings of their own, which is more than a document holds: set groups with setGroup()`,
    )
  } while (after !== null)
  return found
}

interface Terms {
  readonly prune: boolean
  readonly by: string
}

/** What has to be done, sets first: a document that replaces a limit by another never leaves its jobs without one. */
function stepsOf(store: OperatorStore, asked: ResolvedFlow, present: Present, terms: Terms): readonly Step[] {
  const sets = [...limitSets(store, asked, present, terms), ...queueSets(store, asked, present, terms)]
  sets.push(...groupSets(store, asked, present, terms))
  return [...sets, ...(terms.prune ? removals(store, asked, present, terms) : [])]
}

function changeOf(kind: FlowChange['kind'], name: string, more: Partial<FlowChange>): FlowChange {
  return { kind, name, queue: null, from: null, to: null, wasDefinition: false, ...more }
}

const isSame = (one: unknown, other: unknown) => JSON.stringify(one) === JSON.stringify(other)

function limitSets(store: OperatorStore, { limits }: ResolvedFlow, present: Present, { by }: Terms): Step[] {
  return [...limits].flatMap(([name, settings]) => {
    const known = present.limits.get(name)
    const [from, to] = [known === undefined ? null : optionsOf(known), writeLimit(settings)]
    const wasDefinition = known?.origin === 'definition'
    if (isSame(from, to) && !wasDefinition) return []
    const make = () => store.setLimit(name, settings, by)
    return [{ change: changeOf('limit', name, { from, to, wasDefinition }), make }]
  })
}

function queueSets(store: OperatorStore, { queues }: ResolvedFlow, present: Present, { by }: Terms): Step[] {
  return [...queues].flatMap(([name, flow]) => {
    const { flow: known, ...others } = present.queues.get(name) ?? { limits: {} }
    const [from, to] = [known === undefined ? {} : writeQueueFlow(known), writeQueueFlow(flow)]
    if (isSame(from, to)) return []
    const settings = Object.keys(to).length === 0 ? others : { ...others, flow }
    const make = () => store.setQueue(name, settings, by)
    return [{ change: changeOf('queue', name, { from: known === undefined ? null : from, to }), make }]
  })
}

function groupSets(store: OperatorStore, { groups }: ResolvedFlow, present: Present, { by }: Terms): Step[] {
  return [...groups].flatMap(([queue, own]) =>
    [...own].flatMap(([name, override]) => {
      const known = present.groups.get(queue)?.get(name)
      const [from, to] = [known === undefined ? null : writeOverride(known), writeOverride(override)]
      if (isSame(from, to)) return []
      const make = () => store.setGroup(queue, name, override, by)
      return [{ change: changeOf('group', name, { queue, from, to }), make }]
    }),
  )
}

/** What the document does not name and a definition did not set. */
function removals(store: OperatorStore, asked: ResolvedFlow, present: Present, { by }: Terms): Step[] {
  const groups = [...present.groups].flatMap(([queue, own]) =>
    [...own]
      .filter(([name]) => asked.groups.get(queue)?.has(name) !== true)
      .map(([name, override]): Step => {
        const make = () => store.setGroup(queue, name, null, by)
        return { change: changeOf('group', name, { queue, from: writeOverride(override) }), make }
      }),
  )
  const queues = [...present.queues].flatMap(([name, { flow, ...others }]): Step[] => {
    if (flow === undefined || asked.queues.has(name)) return []
    const make = () => store.setQueue(name, others, by)
    return [{ change: changeOf('queue', name, { from: writeQueueFlow(flow) }), make }]
  })
  const limits = [...present.limits.values()]
    .filter(({ name, origin }) => origin === 'operator' && !asked.limits.has(name))
    .map((limit): Step => {
      const { name } = limit
      const make = () => store.removeLimit(name, by)
      return { change: changeOf('limit', name, { from: optionsOf(limit) }), make }
    })
  return [...groups, ...queues, ...limits]
}

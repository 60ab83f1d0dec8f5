// Flow control of a queue in a form: the fields, their mistakes, and the request.

import type { QueueFlow, QueueSettings } from '../../api/types.js'
import { type BoundsDraft, boundsDraft, boundsOf, boundsProblems, wholeOf, wholeProblem } from '../flow/bounds.js'
import { readDuration, writeDuration } from './durations.js'
import { draftOf as settingsDraft, settingsOf } from './settings-draft.js'

const DEPTH_MAX = 100_000_000

/** What stands in the fields. An empty one bounds nothing. */
export interface FlowDraft {
  readonly queue: BoundsDraft
  readonly maxDepth: string
  readonly onFull: QueueFlow['onFull']
  readonly aging: string
  readonly groups: BoundsDraft
  readonly ordered: boolean
  readonly onRetry: QueueFlow['groups']['onRetry']
  readonly onDead: QueueFlow['groups']['onDead']
  readonly groupDepth: string
}

const NO_BOUNDS = { concurrency: null, rate: null }

export function flowDraft(flow: QueueFlow | undefined): FlowDraft {
  const { groups, maxDepth = null, onFull = 'reject', agingMs = null } = flow ?? {}
  const written = (value: number | null | undefined) => (value == null ? '' : String(value))
  return {
    queue: boundsDraft(flow ?? NO_BOUNDS),
    maxDepth: written(maxDepth),
    onFull,
    aging: agingMs === null ? '' : writeDuration(agingMs),
    groups: boundsDraft(groups ?? NO_BOUNDS),
    ordered: groups?.ordered ?? false,
    onRetry: groups?.onRetry ?? 'wait',
    onDead: groups?.onDead ?? 'continue',
    groupDepth: written(groups?.maxDepth),
  }
}

export interface FlowProblems {
  readonly maxDepth: string | null
  readonly aging: string | null
  readonly groupDepth: string | null
  /** True when nothing is wrong anywhere. */
  readonly areNone: boolean
}

export function flowProblems(draft: FlowDraft): FlowProblems {
  const own = {
    maxDepth: wholeProblem(draft.maxDepth, DEPTH_MAX),
    aging:
      draft.aging.trim() === '' || (readDuration(draft.aging) ?? 0) > 0 ? null : 'write a duration such as 30s or 5m',
    groupDepth: wholeProblem(draft.groupDepth, DEPTH_MAX),
  }
  const bounds = [boundsProblems(draft.queue), boundsProblems(groupBounds(draft))]
  const all = [own, ...bounds].flatMap((problems) => Object.values(problems))
  return { ...own, areNone: all.every((problem) => problem === null) }
}

/** Ordered groups run one job at a time. */
function groupBounds({ groups, ordered }: FlowDraft): BoundsDraft {
  return ordered ? { ...groups, concurrency: '' } : groups
}

/** The body of the request: all settings of the queue, with flow control as it stands in the fields. */
export function flowBody(draft: FlowDraft, settings: QueueSettings): Readonly<Record<string, unknown>> {
  const { maxDepth, onFull, aging, ordered, onRetry, onDead, groupDepth } = draft
  return {
    ...settingsOf(settingsDraft(settings), settings),
    ...boundsOf(draft.queue),
    maxDepth: wholeOf(maxDepth),
    onFull: onFull === 'reject' ? null : onFull,
    aging: readDuration(aging),
    groups: groupsOf({
      ...boundsOf(groupBounds(draft)),
      maxDepth: wholeOf(groupDepth),
      ...(ordered ? { ordered, onRetry, onDead } : {}),
    }),
  }
}

/** Null for groups that nothing is said about: a queue without flow control pays nothing. */
function groupsOf(options: Readonly<Record<string, unknown>>): Readonly<Record<string, unknown>> | null {
  return Object.values(options).every((value) => value === null) ? null : options
}

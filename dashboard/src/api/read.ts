// Turns answers of the API into what the pages show. Missing fields become what is true of an empty system, so that a page
// never breaks on a server of another version.

import type {
  AuditEntry,
  AuditPage,
  Bulk,
  Count,
  DeadGroup,
  DryRun,
  Me,
  Overview,
  QueueOverview,
  ScheduleView,
  SeriesPoint,
  Warning,
  WorkerView,
} from './types.js'

type Raw = Readonly<Record<string, unknown>>

const rawOf = (value: unknown): Raw => (typeof value === 'object' && value !== null ? (value as Raw) : {})
const listOf = (value: unknown): readonly Raw[] => (Array.isArray(value) ? value.map(rawOf) : [])
const numberOf = (value: unknown): number => (typeof value === 'number' && Number.isFinite(value) ? value : 0)
const textOf = (value: unknown, fallback: string = ''): string => (typeof value === 'string' ? value : fallback)
const maybeText = (value: unknown): string | null => (typeof value === 'string' ? value : null)
const textsOf = (value: unknown): readonly string[] =>
  Array.isArray(value) ? value.filter((entry): entry is string => typeof entry === 'string') : []

const isExact = (raw: Raw): boolean => (raw.exact ?? raw.isExact) !== false

export function readCount(value: unknown): Count {
  const raw = rawOf(value)
  return { count: numberOf(raw.count), exact: isExact(raw) }
}

export function readDryRun(value: unknown): DryRun {
  const raw = rawOf(value)
  const can = typeof raw.can === 'number' ? { can: raw.can } : {}
  return { matches: numberOf(raw.matches), exact: isExact(raw), ...can }
}

export function readOverview(value: unknown): Overview {
  const raw = rawOf(value)
  return {
    queues: listOf(raw.queues).map(readQueue),
    exact: isExact(raw),
    now: textOf(raw.now, new Date(numberOf(raw.nowMs) || Date.now()).toISOString()),
  }
}

export function readQueue(raw: Raw): QueueOverview {
  const rates = rawOf(raw.rates)
  const settings = rawOf(raw.settings)
  return {
    name: textOf(raw.name),
    paused: raw.paused === true,
    settings: { ...settings, limits: rawOf(settings.limits) },
    blocked: numberOf(raw.blocked),
    scheduled: numberOf(raw.scheduled),
    ready: numberOf(raw.ready),
    running: numberOf(raw.running),
    retrying: numberOf(raw.retrying),
    dead: numberOf(raw.dead),
    oldestAgeS: numberOf(raw.oldestAgeS),
    workers: numberOf(raw.workers),
    slots: numberOf(raw.slots),
    rates: {
      enqueued: numberOf(rates.enqueued),
      succeeded: numberOf(rates.succeeded),
      failed: numberOf(rates.failed),
      dead: numberOf(rates.dead),
    },
  }
}

export function readSeries(value: unknown): readonly SeriesPoint[] {
  return listOf(rawOf(value).points).map((raw) => {
    const depth = raw.depth === null || raw.depth === undefined ? null : rawOf(raw.depth)
    return {
      at: textOf(raw.at),
      depth: depth && {
        running: numberOf(depth.running),
        ready: numberOf(depth.ready),
        retrying: numberOf(depth.retrying),
        scheduled: numberOf(depth.scheduled),
        blocked: numberOf(depth.blocked),
        dead: numberOf(depth.dead),
      },
      oldestAgeS: depth === null ? null : numberOf(depth.oldestAgeS ?? raw.oldestAgeS),
      enqueued: numberOf(raw.enqueued),
      succeeded: numberOf(raw.succeeded),
      failed: numberOf(raw.failed),
      retried: numberOf(raw.retried),
      dead: numberOf(raw.dead),
    }
  })
}

export function readGroups(value: unknown): readonly DeadGroup[] {
  return listOf(rawOf(value).groups).map((raw) => {
    const error = raw.error === null ? null : rawOf(raw.error)
    return {
      fingerprint: textOf(raw.fingerprint),
      error: error && { name: textOf(error.name, 'Error'), message: textOf(error.message) },
      count: numberOf(raw.count),
      exact: isExact(raw),
      types: textsOf(raw.types),
      queues: textsOf(raw.queues),
      firstAt: textOf(raw.firstAt),
      lastAt: textOf(raw.lastAt),
      newestId: textOf(raw.newestId),
    }
  })
}

export function readBulk(value: unknown): Bulk {
  const raw = rawOf(value)
  return {
    id: textOf(raw.id),
    action: textOf(raw.action, 'requeue') as Bulk['action'],
    filter: typeof raw.filter === 'string' ? raw.filter : JSON.stringify(raw.filter ?? null),
    actor: textOf(raw.by, textOf(raw.actor)),
    state: textOf(raw.state, 'waiting') as Bulk['state'],
    perSecond: typeof raw.perSecond === 'number' ? raw.perSecond : null,
    expected: expectedOf(raw.expected),
    matched: numberOf(raw.matched),
    done: numberOf(raw.done),
    refused: numberOf(raw.refused),
    createdAt: textOf(raw.createdAt),
    updatedAt: textOf(raw.updatedAt, textOf(raw.createdAt)),
    error: maybeText(raw.error),
  }
}

function expectedOf(value: unknown): number | null {
  const count = typeof value === 'number' ? value : rawOf(value).count
  return typeof count === 'number' ? count : null
}

export function readBulks(value: unknown): readonly Bulk[] {
  return listOf(rawOf(value).bulks).map(readBulk)
}

export function readSchedules(value: unknown): readonly ScheduleView[] {
  return listOf(rawOf(value).schedules).map((raw) => ({
    ...(raw as unknown as ScheduleView),
    tags: textsOf(raw.tags),
    next: textsOf(raw.next),
  }))
}

export function readWorkers(value: unknown): readonly WorkerView[] {
  return listOf(rawOf(value).workers).map((raw) => ({
    ...(raw as unknown as WorkerView),
    queues: textsOf(raw.queues),
    types: Array.isArray(raw.types) ? textsOf(raw.types) : null,
    jobs: listOf(raw.jobs).map((job) => ({
      id: textOf(job.id),
      type: textOf(job.type),
      startedAt:
        typeof job.startedAtMs === 'number' ? new Date(job.startedAtMs).toISOString() : maybeText(job.startedAt),
    })),
    heartbeatAgeMs: numberOf(raw.heartbeatAgeMs),
    live: raw.live !== false,
  }))
}

export function readAudit(value: unknown): AuditPage {
  const raw = rawOf(value)
  const entries = listOf(raw.entries).map(
    (entry): AuditEntry => ({
      line: numberOf(entry.line),
      at: textOf(entry.at),
      actor: textOf(entry.actor),
      action: textOf(entry.action),
      job: maybeText(entry.job),
      target: maybeText(entry.target),
      details: entry.details ?? null,
    }),
  )
  return { entries, next: typeof raw.next === 'number' ? raw.next : null }
}

export function readWarnings(value: unknown): readonly Warning[] {
  return listOf(rawOf(value).warnings).map((raw) => ({
    code: textOf(raw.code),
    level: levelOf(raw.level),
    text: textOf(raw.text),
    queue: maybeText(raw.queue),
    next: maybeText(Array.isArray(raw.next) ? raw.next[0] : raw.next),
  }))
}

function levelOf(value: unknown): Warning['level'] {
  if (value === 'error' || value === 'critical') return 'error'
  return value === 'note' || value === 'info' ? 'note' : 'warning'
}

export function readMe(value: unknown): Me {
  const raw = rawOf(value)
  const environment = rawOf(raw.environment)
  return {
    name: textOf(raw.name, 'you'),
    scopes: textsOf(raw.scopes),
    isKept: Array.isArray(raw.queues),
    via: textOf(raw.via),
    environment:
      typeof environment.name === 'string' ? { name: environment.name, colour: maybeText(environment.colour) } : null,
    version: textOf(raw.version),
    store: textOf(raw.store, textOf(rawOf(raw.store).kind)),
    readOnly: raw.readOnly === true,
  }
}

// Reads one job with its attempts, logs and progress.

import type { StoredError } from '../../core/json.js'
import { type JobLimits, resolveLimits } from '../../core/limits.js'
import { type DeadReason, isFinished, type JobState } from '../../core/states.js'
import type { AttemptView, JobSummary, JobView } from '../../core/views.js'
import { type Facts, readHead } from './facts.js'
import { longId, shortId } from './ids.js'
import { readSteps } from './kept.js'
import { lua } from './lua.js'
import { queueLimits } from './queues.js'
import type { Redis } from './redis.js'
import { waitView } from './signal.js'
import { stateOfLetter } from './states.js'

/**
 * get: ARGV id; answers with the seven values of a job, then result, progress, attempts, logs, requeues, entries, what it waits for or ''; or nothing.
 * among: ARGV ids; answers for each with its queue or ''.
 * The seven values: id, head of the facts, payload or '', standing or '', leased until or '', last failed attempt or '', settings of its queue.
 */
export const GET: string = lua`
local function sevenValues(work, job, wantsPayload)
  local head, payload = string.match(work.f[job.id], '^([^\n]*)'), ''
  if wantsPayload then payload = string.match(wholeFacts(work, job.id), '\n(.*)$') end
  local leasedUntil = job.state == 'R' and redis.call('ZSCORE', work.b .. 'leases', job.id)
  local attempt = hasFlag(job, 'a') and redis.call('LINDEX', work.b .. 'a:' .. job.id, -1)
  return {
    job.id, head, payload, work.s[job.id] or '', leasedUntil or '', attempt or '',
    queueOf(work, job.queue).settings
  }
end

local function extraOf(work, job, letter)
  return hasFlag(job, 'x') and redis.call('HGET', work.b .. 'x:' .. chunkOf(work, job.id), job.id .. letter) or ''
end

reads('get', function(work, args)
  local job = jobOf(work, args[3])
  if not job then return {} end
  local values = sevenValues(work, job, true)
  values[8], values[9] = extraOf(work, job, 'r'), extraOf(work, job, 'p')
  values[10] = hasFlag(job, 'a') and redis.call('LRANGE', work.b .. 'a:' .. job.id, 0, -1) or {}
  values[11] = hasFlag(job, 'o') and redis.call('LRANGE', work.b .. 'o:' .. job.id, 0, -1) or {}
  values[12] = hasFlag(job, 'y') and redis.call('LRANGE', work.b .. 'y:' .. job.id, 0, -1) or {}
  values[13], values[14] = kept.entriesOf(work, job), kept.currentWait(work, job) or ''
  return values
end)

reads('among', function(work, args)
  local ids, answer = slice(args, 3), {}
  load(work, 'f', ids)
  for i, id in ipairs(ids) do
    answer[i] = work.f[id] and parseFacts({}, work.f[id]).queue or ''
  end
  return answer
end)
`

/** What happened to a job so far. */
interface Standing {
  readonly state: JobState
  readonly attempt: number
  readonly crashes: number
  readonly flags: string
  /** When it became ready, is due, was claimed or finished; null for a blocked job without a time. */
  readonly atMs: number | null
  readonly startedAtMs: number | null
  readonly reason: DeadReason | null
  readonly worker: string
}

const STANDING = /^([A-Z])(\d+) (-?\d+) (\d+) (\S+) (\S+) (\S+) (\S+) (.*)$/s

/** Reads a standing; '' is that of a job that is ready and was never claimed. */
export function readStanding(text: string, createdAtMs: number): Standing {
  const blank = { attempt: 0, crashes: 0, flags: '', startedAtMs: null, reason: null, worker: '' }
  if (text === '') return { state: 'ready', ...blank, atMs: createdAtMs }
  const [, letter = '', fence, attempt, crashes, flags = '', at, started, reason, worker = ''] =
    STANDING.exec(text) ?? []
  const after = (ms: string | undefined) => (ms === undefined || ms === '-' ? null : Number(fence) + Number(ms))
  return {
    state: stateOfLetter(letter),
    attempt: Number(attempt),
    crashes: Number(crashes),
    flags,
    atMs: after(at),
    startedAtMs: after(started),
    reason: reason === undefined || reason === '-' ? null : (reason as DeadReason),
    worker,
  }
}

/** A job as a function gives it. */
export interface SeenJob {
  readonly id: string
  readonly facts: Facts
  /** JSON text; '' when it was not asked for. */
  readonly payload: string
  readonly standing: Standing
  readonly leasedUntilMs: number | null
  readonly lastAttempt: AttemptView | null
  readonly queueLimits: JobLimits
}

/** The number of values that make a job. */
export const JOB_VALUES = 7

export function readSeen(values: readonly string[]): SeenJob {
  const [id, head, payload, standing, until, attempt, settings] = values as readonly [
    ...[string, string, string, string, string, string, string],
  ]
  const facts = readHead(head)
  return {
    id: longId(id),
    facts,
    payload,
    standing: readStanding(standing, facts.createdAtMs),
    leasedUntilMs: until === '' ? null : Number(until),
    lastAttempt: attempt === '' ? null : readAttempt(attempt),
    queueLimits: queueLimits(settings),
  }
}

/** Reads a failed attempt. */
export function readAttempt(text: string): AttemptView {
  const end = text.indexOf('\n')
  const [attempt, started, finished, ...error] = text.slice(0, end).split(' ')
  return {
    attempt: Number(attempt),
    worker: text.slice(end + 1),
    startedAt: new Date(Number(started)),
    finishedAt: new Date(Number(finished)),
    error: JSON.parse(error.join(' ')) as StoredError,
  }
}

/** A job as lists show it. */
export function summaryOf({ id, facts, standing, leasedUntilMs, lastAttempt, queueLimits }: SeenJob): JobSummary {
  const { state, atMs } = standing
  const isRunning = state === 'running'
  const hasRun = isRunning || isFinished(state)
  const isTimed = state === 'scheduled' || state === 'retrying' || state === 'blocked'
  return {
    id,
    type: facts.type,
    queue: facts.queue,
    state,
    version: facts.version,
    priority: facts.priority,
    attempt: standing.attempt,
    crashes: standing.crashes,
    maxAttempts: resolveLimits(facts.limits, queueLimits).maxAttempts,
    runAt: isTimed ? date(atMs) : null,
    createdAt: new Date(facts.createdAtMs),
    startedAt: date(isRunning ? atMs : standing.startedAtMs),
    finishedAt: isFinished(state) ? date(atMs) : null,
    reason: standing.reason,
    error: lastAttempt?.error ?? null,
    // A job that was stopped while it waited has no worker.
    worker: hasRun && standing.worker !== '' ? standing.worker : null,
    leasedUntil: date(leasedUntilMs),
    cancelRequested: isRunning && standing.flags.includes('c'),
    tags: facts.tags,
    idempotencyKey: facts.idempotencyKey?.key ?? null,
    after: facts.after,
    onParentDead: facts.onParentDead,
    schedule: facts.schedule === null ? null : { name: facts.schedule.name, tick: new Date(facts.schedule.tickMs) },
    ...(facts.flow === undefined ? {} : { flow: facts.flow }),
    ...(facts.enqueuedBy === undefined ? {} : { enqueuedBy: facts.enqueuedBy }),
  }
}

function date(ms: number | null): Date | null {
  return ms === null ? null : new Date(ms)
}

export async function get(redis: Redis, id: string): Promise<JobView | null> {
  const { value } = await redis.read<(string | string[])[]>('look', 'get', [shortId(id)])
  if (value.length === 0) return null
  const seen = readSeen(value.slice(0, JOB_VALUES) as string[])
  const [result, progress, attempts, logs, requeues, entries, wait] = value.slice(JOB_VALUES) as [
    ...[string, string, string[], string[], string[], string[], string],
  ]
  return {
    ...summaryOf(seen),
    payload: JSON.parse(seen.payload),
    result: isFinished(seen.standing.state) ? parse(result) : null,
    attempts: attempts.map(readAttempt),
    progress: parse(progress),
    logs: logs.map(readLog),
    requeues: requeues.map((text, index) => {
      const { at, rest } = splitTime(text)
      return { number: index + 1, at, by: rest }
    }),
    ...(wait === '' ? {} : { wait: waitView(wait) }),
    ...(entries.length === 0 ? {} : { steps: readSteps(entries) }),
  }
}

function readLog(text: string): { readonly at: Date; readonly text: string } {
  const { at, rest } = splitTime(text)
  return { at, text: JSON.parse(rest) as string }
}

/** A time, a blank and something else. */
function splitTime(text: string): { readonly at: Date; readonly rest: string } {
  const blank = text.indexOf(' ')
  return { at: new Date(Number(text.slice(0, blank))), rest: text.slice(blank + 1) }
}

function parse(json: string): unknown {
  return json === '' ? null : JSON.parse(json)
}

export async function among(
  redis: Redis,
  ids: readonly string[],
  queues: readonly string[],
): Promise<readonly string[]> {
  if (ids.length === 0) return []
  const { value } = await redis.read<string[]>('look', 'among', ids.map(shortId))
  return ids.filter((_, index) => queues.includes(value[index]!))
}

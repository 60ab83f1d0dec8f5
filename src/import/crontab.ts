// The crontab file of graphile-worker: five fields, a task, options such as `?fill=1d&max=3`, a payload. ◄── graphile-worker.ts

import type { OldSchedule } from './contract.js'

const LINE = /^((?:[0-9*/,-]+\s+){4}[0-9*/,-]+)\s+([_a-zA-Z][_a-zA-Z0-9:/_-]*)(?:\s+\?(\S+))?(?:\s+(\{.*\}))?$/
const LINES_MAX = 10_000

/** The schedules of a crontab. A line that cannot be read is one with a problem. */
export function readCrontab(text: string, queue: string): readonly OldSchedule[] {
  return text
    .split(/\r?\n/)
    .slice(0, LINES_MAX)
    .flatMap((line, index) => {
      const shown = line.trim()
      return shown === '' || shown.startsWith('#') ? [] : [readLine(shown, index + 1, queue)]
    })
}

function readLine(line: string, number: number, queue: string): OldSchedule {
  const [, cron = '', type = '', optionText = '', payloadText] = LINE.exec(line) ?? []
  const options = new URLSearchParams(optionText)
  const name = options.get('id') ?? (type === '' ? `line ${number}` : type)
  const payload = payloadOf(payloadText)
  const problem =
    cron === ''
      ? `line ${number} of the crontab cannot be read`
      : payload === null
        ? `the payload in line ${number} of the crontab is no JSON`
        : null
  const lacks = ['payload field _cron: a handler here reads ctx.tick']
  if (options.has('queue')) lacks.push('queue of a crontab line: give the schedule a group')
  if (options.has('jobKey')) lacks.push('jobKey of a crontab line: use --overlap skip')
  return {
    ref: name,
    name,
    type,
    queue,
    payload: payload ?? 'null',
    priority: -numberOf(options.get('priority'), 0),
    when: { cron },
    zone: 'UTC',
    untilMs: null,
    nextAtMs: null,
    maxAttempts: options.has('max') ? numberOf(options.get('max'), 25) : null,
    catchUp: options.has('fill') ? 'all' : 'skip',
    // Its span has no counterpart: so many ticks are made up for at most.
    catchUpMax: 100,
    lacks,
    problem,
    isRemovable: false,
  }
}

function numberOf(text: string | null, otherwise: number): number {
  const value = Number(text ?? otherwise)
  return Number.isFinite(value) ? Math.trunc(value) : otherwise
}

/** Null for what is no JSON. */
function payloadOf(text: string | undefined): string | null {
  if (text === undefined) return 'null'
  try {
    return JSON.stringify(JSON.parse(text))
  } catch {
    return null
  }
}

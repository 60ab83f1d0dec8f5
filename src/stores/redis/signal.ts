// Signals of jobs, and what jobs wait for. signals:<id> has "<number> <at> <name>\n<value>" for each "key <key>", how many there are of each
// "name <name>", and `count` of all. wait:<id> has what the job waits for, or waited for last: `signal` is "<fence> <seen> <turn> <since>
// <until> <name>", `children` their ids behind e or a (kept.ts). The flag g in a job's standing says that it has some of this.

import type { NewSignal, SignalResult } from '../../core/kept/contract.js'
import { type KeptSignal, type ParkedFor, type ParkedOn, SIGNALS_MAX, type WaitView } from '../../core/kept/kept.js'
import { shortId } from './ids.js'
import { lua } from './lua.js'
import type { Redis } from './redis.js'
import { stateOfLetter } from './states.js'

export const SIGNAL_LUA: string = lua`
-- What a job waits for or waited for last, as text; nil when it never did.
function kept.waitText(work, job)
  return hasFlag(job, 'g') and getField(work, 'wait:' .. job.id, 'signal') or nil
end

-- The same when the job waits for it now.
function kept.currentWait(work, job)
  if job.state ~= 'S' then return nil end
  local wait = kept.waitText(work, job)
  return wait and tonumber(string.match(wait, '^%d+')) == job.fence and wait or nil
end

-- Makes a job ready that waits for a signal which is there. Returns whether it did.
function kept.wake(work, job)
  local wait = kept.currentWait(work, job)
  if not wait then return false end
  local seen, name = string.match(wait, '^%d+ (%d+) %d+ %d+ %d+ (.*)$')
  if tonumber(getField(work, 'signals:' .. job.id, 'name ' .. name) or 0) <= tonumber(seen) then return false end
  take(work, job)
  putReady(work, job, FRONT)
  return true
end

-- Lets a job that was just scheduled wait for a signal, unless it is there. The text is "<seen> <turn> <name>".
function kept.park(work, job, parked)
  local seen, turn, name = string.match(parked, '^(%d+) (%d+) (.*)$')
  local before, since = kept.waitText(work, job), text(work.t)
  if before then
    local lastTurn, lastSince, lastName = string.match(before, '^%d+ %d+ (%d+) (%d+) %d+ (.*)$')
    if lastTurn == turn and lastName == name then since = lastSince end
  end
  addFlag(job, 'g')
  setField(work, 'wait:' .. job.id, 'signal', table.concat({ text(job.fence), seen, turn, since, text(job.at), name }, ' '))
  kept.wake(work, job)
end
`

/** ARGV: most signals of a job, then id, key, name, value for each. Answers with two values for each: 'missing' '' | 'refused' state | 'full' '' | 'signalled'
 *  and '1' when the job waited for it, or ''. */
export const SIGNAL: string = lua`
function kept.signalOne(work, most, id, key, name, value)
  local job = jobOf(work, id)
  if not job then return 'missing', '' end
  local signals = 'signals:' .. id
  if hasFlag(job, 'g') and getField(work, signals, 'key ' .. key) then return 'signalled', '' end
  if isFinished(job.state) then return 'refused', job.state end
  local count = tonumber(getField(work, signals, 'count') or 0)
  if count >= most then return 'full', '' end
  setField(work, signals, 'key ' .. key, text(count + 1) .. ' ' .. text(work.t) .. ' ' .. name .. '\n' .. value)
  setField(work, signals, 'name ' .. name, tonumber(getField(work, signals, 'name ' .. name) or 0) + 1)
  setField(work, signals, 'count', count + 1)
  addFlag(job, 'g')
  local isWoken = kept.wake(work, job)
  save(work, job)
  return 'signalled', isWoken and '1' or ''
end

writes('signal', {}, function(work, args)
  local most, answers = tonumber(args[3]), {}
  for at = 4, #args, 4 do
    local result, detail = kept.signalOne(work, most, unpack(args, at, at + 3))
    table.insert(answers, result)
    table.insert(answers, detail)
  end
  return answers
end)
`

export async function signal(redis: Redis, signals: readonly NewSignal[]): Promise<SignalResult[]> {
  if (signals.length === 0) return []
  const args = signals.flatMap(({ id, key, name, value }) => [shortId(id), key, name, value])
  const { value } = await redis.write<string[]>('operate', 'signal', [SIGNALS_MAX, ...args])
  return signals.map(({ id }, place) => readAnswer(id, value[2 * place]!, value[2 * place + 1]!))
}

function readAnswer(id: string, result: string, detail: string): SignalResult {
  if (result === 'signalled') return { id, result, woken: detail === '1' }
  if (result === 'refused') return { id, result, state: stateOfLetter(detail) }
  return { id, result: result as 'missing' | 'full' }
}

/** What a settlement says about the wait of its job. */
export function parkedText(wait: ParkedFor | undefined, children: ParkedOn | undefined): string | null {
  if (wait !== undefined) return `${wait.seen} ${wait.turn} ${wait.name}`
  if (children === undefined) return null
  return `${children.wakesEarly ? 'e' : 'a'}${children.ids.map(shortId).join(',')}`
}

/** Signals as they are in the hash, oldest first. */
export function readSignals(values: readonly string[]): KeptSignal[] {
  const found: { readonly number: number; readonly signal: KeptSignal }[] = []
  for (let at = 0; at < values.length; at += 2) {
    const field = values[at]!
    if (!field.startsWith('key ')) continue
    const text = values[at + 1]!
    const end = text.indexOf('\n')
    const [number, atMs, ...name] = text.slice(0, end).split(' ')
    const signal = { key: field.slice(4), name: name.join(' '), value: text.slice(end + 1), atMs: Number(atMs) }
    found.push({ number: Number(number), signal })
  }
  return found.sort((one, other) => one.number - other.number).map(({ signal }) => signal)
}

/** Reads what a job waits for, or waited for last. */
export function readWait(text: string): {
  readonly turn: number
  readonly sinceMs: number
  readonly untilMs: number
  readonly name: string
} {
  const [, , turn, since, until, ...name] = text.split(' ')
  return { turn: Number(turn), sinceMs: Number(since), untilMs: Number(until), name: name.join(' ') }
}

/** What a job waits for now, as shown. */
export function waitView(text: string): WaitView {
  const { name, sinceMs, untilMs } = readWait(text)
  return { name, since: new Date(sinceMs), until: new Date(untilMs) }
}

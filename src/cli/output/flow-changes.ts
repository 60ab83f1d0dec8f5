// What a file of flow control changes, as lines: what is, and what would be.

import type { FlowChange } from '../../client/apply-flow.js'
import { type Format, type Output, visible } from './terminal.js'

const MARKS = { add: ['+', 'green'], change: ['~', 'yellow'], remove: ['-', 'red'] } as const satisfies Readonly<
  Record<string, readonly [string, Format]>
>

/** The lines of one change. */
export function changeLines(out: Output, change: FlowChange): string[] {
  const { kind, name, queue, from, to, wasDefinition } = change
  const [mark, format] = MARKS[to === null ? 'remove' : from === null ? 'add' : 'change']
  const [before, after] = [settingsIn(from, to), settingsIn(to, from)]
  const all = [...new Set([...before.keys(), ...after.keys()])]
  const settings = all.filter((setting) => before.get(setting) !== after.get(setting))
  const width = Math.max(0, ...settings.map(({ length }) => length))
  const lines = settings.map((setting) => {
    const [old, now] = [before.get(setting), after.get(setting)]
    const value = from === null ? now : to === null ? old : `${old ?? 'none'} → ${now ?? 'none'}`
    return `    ${setting.padEnd(width)}  ${visible(value!)}`
  })
  const of = queue === null ? '' : ` of queue ${visible(queue)}`
  return [
    out.style(format, `${mark} ${kind} ${visible(name)}${of}`),
    ...lines,
    ...(wasDefinition ? [out.style('dim', '    was set by the definition of its type, which changes it no more')] : []),
  ]
}

/** Settings by name, nested ones with a dot. A breaker that the other side has not is one setting. */
function settingsIn(options: object | null, other: object | null): Map<string, string> {
  const found = new Map<string, string>()
  for (const [key, value] of Object.entries(options ?? {})) {
    if (typeof value !== 'object' || value === null) found.set(key, String(value))
    else if (key === 'rate') found.set(key, rateText(value))
    else if (key === 'concurrency') found.set(key, `${value.min}-${value.max}`)
    else {
      const inner = settingsIn(value, null)
      const isWhole = key === 'breaker' && (other === null || !('breaker' in other))
      if (isWhole) found.set(key, [...inner].map(([name, text]) => `${name} ${text}`).join(', '))
      else for (const [name, text] of inner) found.set(`${key}.${name}`, text)
    }
  }
  return found
}

function rateText(rate: { limit: number; per: string; burst?: number; counts?: string }): string {
  const burst = rate.burst === undefined ? '' : `, burst ${rate.burst}`
  return `${rate.limit}${rate.counts === 'cost' ? ' of cost' : ''}/${rate.per.replace(/^1(?=\D)/, '')}${burst}`
}

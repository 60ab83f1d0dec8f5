// Progress as handlers report it: a share, a percentage, a count of a total, or anything else.

/** How far a job is, from 0 to 1, and what it says beside. */
export interface Progress {
  readonly share: number | null
  readonly text: string
}

/** Null when nothing was reported. */
export function readProgress(value: unknown): Progress | null {
  if (value === null || value === undefined) return null
  if (typeof value === 'number') return ofNumber(value)
  if (typeof value === 'string') return { share: null, text: value }
  if (typeof value !== 'object' || Array.isArray(value)) return { share: null, text: JSON.stringify(value) }
  const fields = value as Readonly<Record<string, unknown>>
  const done = firstNumber(fields, ['done', 'current', 'completed', 'processed'])
  const total = firstNumber(fields, ['total', 'of', 'max'])
  const note = ['message', 'text', 'step', 'note']
    .map((name) => fields[name])
    .find((field) => typeof field === 'string')
  const suffix = typeof note === 'string' ? ` · ${note}` : ''
  if (done !== null && total !== null && total > 0)
    return { share: clamp(done / total), text: `${done} of ${total}${suffix}` }
  const percent = firstNumber(fields, ['percent', 'percentage', 'pct'])
  if (percent !== null) return { share: clamp(percent / 100), text: `${percent} %${suffix}` }
  return { share: null, text: typeof note === 'string' ? note : JSON.stringify(value) }
}

function ofNumber(value: number): Progress {
  // Up to 1 it is a share, beyond that a percentage.
  if (value >= 0 && value <= 1) return { share: value, text: `${Math.round(value * 100)} %` }
  if (value > 1 && value <= 100) return { share: value / 100, text: `${Math.round(value)} %` }
  return { share: null, text: String(value) }
}

function firstNumber(fields: Readonly<Record<string, unknown>>, names: readonly string[]): number | null {
  for (const name of names) {
    const value = fields[name]
    if (typeof value === 'number' && Number.isFinite(value)) return value
  }
  return null
}

function clamp(share: number): number {
  return Math.min(1, Math.max(0, share))
}

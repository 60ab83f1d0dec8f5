// JSON in which numbers keep every digit. An id such as 9007199254740993 must not change because a page shows it.

/** A number that a JavaScript number cannot hold, as it was written. */
export class ExactNumber {
  readonly source: string

  constructor(source: string) {
    this.source = source
  }

  /** Written as it was read, where the browser can write raw numbers. */
  toJSON(): unknown {
    return (JSON as RawJson).rawJSON?.(this.source) ?? Number(this.source)
  }
}

interface RawJson {
  readonly rawJSON?: (text: string) => unknown
}

interface Context {
  readonly source?: string
}

/** Parses JSON; where the browser tells a number's text, one that would change is kept as an ExactNumber. */
export function parseExact(text: string): unknown {
  // Only texts with a long run of digits can hold such a number, and a reviver makes parsing several times slower.
  if (!/\d{16}/.test(text)) return JSON.parse(text)
  const revive = (_key: string, value: unknown, context?: Context): unknown => {
    if (typeof value !== 'number' || context?.source === undefined) return value
    return /^-?\d+$/.test(context.source) && !Number.isSafeInteger(value) ? new ExactNumber(context.source) : value
  }
  return JSON.parse(text, revive as (key: string, value: unknown) => unknown)
}

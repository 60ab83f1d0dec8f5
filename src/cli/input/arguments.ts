// Reads typed arguments into the values the library takes. A value that cannot be read is a usage error.

import { InvalidArgumentError, Option } from 'commander'
import { type Duration, durationMs } from '../../core/duration.js'

/** A whole number. The library checks its range. */
export function wholeNumber(text: string): number {
  if (/^-?\d{1,15}$/.test(text)) return Number(text)
  throw new InvalidArgumentError('It must be a whole number.')
}

/** A duration such as 250ms, 30s, 5m. A bare number is milliseconds. */
export function duration(text: string): Duration {
  const value = /^\d{1,15}$/.test(text) ? Number(text) : text
  try {
    return durationMs(value, { name: 'it' })
  } catch {
    throw new InvalidArgumentError('It must be a duration such as 250ms, 30s, 5m, 2h, 7d, or a number of milliseconds.')
  }
}

const POLL_MS_MIN = 250
const POLL_MS_MAX = 3_600_000

/** --every: how often to poll, with limits so that it neither loads the store nor seems to hang. */
export function everyOption(): Option {
  return new Option('--every <duration>', 'how often to poll the store, 250ms to 1h')
    .default(1_000, '1s')
    .argParser((text) => {
      const ms = Number(duration(text))
      if (ms >= POLL_MS_MIN && ms <= POLL_MS_MAX) return ms
      throw new InvalidArgumentError('It must be from 250ms to 1h.')
    })
}

/** A duration, or null for `unlimited`. */
export function durationOrUnlimited(text: string): Duration | null {
  return text === 'unlimited' ? null : duration(text)
}

/** Names separated by commas. */
export function names(text: string): readonly string[] {
  return text
    .split(',')
    .map((name) => name.trim())
    .filter((name) => name !== '')
}

/** Collects an option that may be given several times. */
export function collect(text: string, earlier: readonly string[] = []): readonly string[] {
  return [...earlier, text]
}

/** Names of an option that may be given several times, each with commas. */
export function collectNames(text: string, earlier: readonly string[] = []): readonly string[] {
  return [...earlier, ...names(text)]
}

/** The options that were given. The library checks each; one that was not given must be absent, not undefined. */
export function given<Options extends object>(options: Options): Given<Options> {
  return Object.fromEntries(Object.entries(options).filter(([, value]) => value !== undefined)) as Given<Options>
}

type Given<Options> = { readonly [Key in keyof Options]?: Exclude<Options[Key], undefined> }

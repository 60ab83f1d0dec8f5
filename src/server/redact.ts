// Masks secrets in payloads and results before they leave the server. Only the audited reveal shows them.

import {
  isSecretName,
  isSecretText,
  looksLikeJson,
  mentionsSecret,
  namesSecret,
  TEXT_DEPTH_MAX,
} from './secret-names.js'

/** Replaces a masked value. */
export const MASK = '[redacted]'
const PATHS_MAX = 1_000

/** True for a place in a job's payload that is masked beside the names that mean a secret. */
export type MaskPlace = (path: readonly string[], job: { readonly queue: string; readonly type: string }) => boolean

/** A value without its secrets, and the paths of those, as `part.key.0.key`. */
interface Masked {
  readonly value: unknown
  readonly paths: readonly string[]
}

/** Masks a value. `isSecret` is called for every place below the top. Payloads are at most 500 levels deep. */
export function mask(part: string, value: unknown, isSecret: (path: readonly string[]) => boolean): Masked {
  const paths: string[] = []
  return { value: new Masking(isSecret, (path) => note(path)).walk(value, [], 0), paths }

  function note(path: readonly string[]): void {
    if (paths.length < PATHS_MAX) paths.push([part, ...path].join('.'))
  }
}

/** One walk over a value. */
class Masking {
  readonly #isSecret: (path: readonly string[]) => boolean
  readonly #note: (path: readonly string[]) => void

  constructor(isSecret: (path: readonly string[]) => boolean, note: (path: readonly string[]) => void) {
    this.#isSecret = isSecret
    this.#note = note
  }

  /** `texts` is how many strings of JSON enclose it. */
  walk(current: unknown, path: readonly string[], texts: number): unknown {
    if (typeof current === 'string') return this.#text(current, path, texts)
    if (typeof current !== 'object' || current === null) return current
    const named = namesSecret(current)
    if (Array.isArray(current)) {
      return current.map((entry, index) => this.#entry(entry, [...path, String(index)], texts, named(String(index))))
    }
    return Object.fromEntries(
      Object.entries(current).map(([key, entry]) => [key, this.#entry(entry, [...path, key], texts, named(key))]),
    )
  }

  #entry(entry: unknown, path: readonly string[], texts: number, isNamed: boolean): unknown {
    return isNamed || this.#isSecret(path) ? this.#masked(path) : this.walk(entry, path, texts)
  }

  #masked(path: readonly string[]): string {
    this.#note(path)
    return MASK
  }

  /** A string without secrets: masked if its form is that of a secret, masked inside if it is JSON. */
  #text(text: string, path: readonly string[], texts: number): unknown {
    if (isSecretText(text)) return this.#masked(path)
    if (!looksLikeJson(text)) return text
    // Too many levels of JSON in JSON: what is not read may hold a secret, so it is masked.
    if (texts >= TEXT_DEPTH_MAX) return this.#masked(path)
    let inner: unknown
    try {
      inner = JSON.parse(text)
    } catch {
      return mentionsSecret(text) ? this.#masked(path) : text
    }
    let count = 0
    const within = new Masking(this.#isSecret, (place) => {
      count++
      this.#note(place)
    })
    const shown = within.walk(inner, path, texts + 1)
    return count === 0 ? text : JSON.stringify(shown)
  }
}

/** Tells for each place of a job's payload whether it is secret, by its name or by the `redact` option. */
export function secretPlaces(
  job: { readonly queue: string; readonly type: string },
  extra: MaskPlace | null,
): (path: readonly string[]) => boolean {
  return (path) => isSecretName(path.at(-1)!) || (extra?.(path, job) ?? false)
}

// What is masked in payloads and results before they leave the server. Only the audited reveal gives them as they are.

/** What stands in the place of a masked value. */
export const MASK = '[redacted]'
/** Names that promise a secret, wherever they stand in a payload. */
const SECRET_NAMES: RegExp = /pass|secret|token|authorization|cookie|api[-_]?key|ssn|card/i
const PATHS_MAX = 1_000

/** True for a place in the payload of such a job that is to be masked, beyond the names that promise a secret. */
export type MaskPlace = (path: readonly string[], job: { readonly queue: string; readonly type: string }) => boolean

/** A value without its secrets, and where they were, as `part.key.0.key`. */
interface Masked {
  readonly value: unknown
  readonly paths: readonly string[]
}

/** Masks a value. `isSecret` is asked for every place below the top. Payloads are at most 500 levels deep. */
export function mask(part: string, value: unknown, isSecret: (path: readonly string[]) => boolean): Masked {
  const paths: string[] = []
  const walk = (current: unknown, path: readonly string[]): unknown => {
    if (path.length > 0 && isSecret(path)) {
      if (paths.length < PATHS_MAX) paths.push([part, ...path].join('.'))
      return MASK
    }
    if (Array.isArray(current)) return current.map((entry, index) => walk(entry, [...path, String(index)]))
    if (typeof current !== 'object' || current === null) return current
    return Object.fromEntries(Object.entries(current).map(([key, entry]) => [key, walk(entry, [...path, key])]))
  }
  return { value: walk(value, []), paths }
}

/** Says of each place of a job's payload whether it is secret, by its name or by what the server was told. */
export function secretPlaces(
  job: { readonly queue: string; readonly type: string },
  extra: MaskPlace | null,
): (path: readonly string[]) => boolean {
  return (path) => SECRET_NAMES.test(path.at(-1)!) || (extra?.(path, job) ?? false)
}

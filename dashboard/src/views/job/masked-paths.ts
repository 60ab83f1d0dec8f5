// Which values of a payload or a result the server has masked.

/** The masked paths inside the part; '' when all of it is masked. */
export function maskedPaths(redacted: readonly string[], part: 'payload' | 'result'): ReadonlySet<string> {
  return new Set(
    redacted.filter((path) => path === part || path.startsWith(`${part}.`)).map((path) => path.slice(part.length + 1)),
  )
}

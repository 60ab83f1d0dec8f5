// Which values of a payload or a result the server has masked.

/** Paths inside the part. A path may be written with the part's name in front or, for the payload, without. */
export function maskedPaths(redacted: readonly string[], part: 'payload' | 'result'): ReadonlySet<string> {
  const paths = redacted.flatMap((path) => {
    if (path.startsWith(`${part}.`)) return [path.slice(part.length + 1)]
    const isForeign = path.startsWith('payload.') || path.startsWith('result.')
    return part === 'payload' && !isForeign ? [path] : []
  })
  // [0] and .0 are the same place.
  return new Set(paths.map((path) => path.replace(/\[(\d+)\]/g, '.$1').replace(/^\./, '')))
}

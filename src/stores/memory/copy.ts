// Copies of what the memory store keeps. Its answers are plain data, and on Node 20 `structuredClone` sends each through a
// message channel, which takes longer than most calls of this store.

const OWN = { enumerable: true, writable: true, configurable: true } as const

/** A copy of plain data that shares nothing with it: values, dates, arrays, and objects without a class. */
export function copyOf<T>(value: T): T {
  if (typeof value !== 'object' || value === null) return value
  if (Array.isArray(value)) return value.map(copyOf) as T
  if (value instanceof Date) return new Date(value) as T
  const copy: Record<string, unknown> = {}
  for (const name in value) {
    const part = copyOf(value[name])
    // A plain assignment to `__proto__` would change the copy's prototype.
    if (name === '__proto__') Object.defineProperty(copy, name, { value: part, ...OWN })
    else copy[name] = part
  }
  return copy as T
}

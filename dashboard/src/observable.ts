// One value that the page watches. Everything shared between parts of the page is one of these, not a framework's store.

import { useSyncExternalStore } from 'react'

/** A value that can be read, replaced and watched. */
export interface Observable<T> {
  get(): T
  /** Replaces the value and tells everybody watching, unless it is the same. */
  set(value: T): void
  watch(listener: () => void): () => void
}

/** A value to share, starting as `initial`. */
export function observable<T>(initial: T): Observable<T> {
  let current = initial
  const listeners = new Set<() => void>()
  return {
    get: () => current,
    set(value) {
      if (Object.is(value, current)) return
      current = value
      for (const listener of [...listeners]) listener()
    },
    watch(listener) {
      listeners.add(listener)
      return () => listeners.delete(listener)
    },
  }
}

/** The value now, and again whenever it changes. */
export function useObservable<T>(source: Observable<T>): T {
  return useSyncExternalStore(source.watch, source.get)
}

// A value that components can watch. All state that parts of the page share is one of these.

import { useSyncExternalStore } from 'react'

/** A value that can be read, replaced and watched. */
export interface Observable<T> {
  get(): T
  /** Replaces the value and notifies the watchers, unless it is the same. */
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

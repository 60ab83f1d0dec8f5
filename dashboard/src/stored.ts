// A choice of the reader that this browser remembers.

import { type Observable, observable } from './observable.js'

/** An observable kept in local storage under `holdfast.<name>`; where storage is forbidden it lasts as long as the page. */
export function stored<T>(name: string, read: (text: string | null) => T, write: (value: T) => string): Observable<T> {
  const key = `holdfast.${name}`
  const value = observable<T>(read(readKey(key)))
  // Another tab of the same person changed it.
  addEventListener('storage', (event) => {
    if (event.key === key) value.set(read(event.newValue))
  })
  return {
    ...value,
    set(next) {
      value.set(next)
      try {
        localStorage.setItem(key, write(next))
      } catch {
        // Forbidden or full: the choice then lasts as long as the page.
      }
    },
  }
}

/** A stored choice among a few words, the first being the default. */
export function storedChoice<T extends string>(name: string, choices: readonly [T, ...T[]]): Observable<T> {
  const read = (text: string | null) => choices.find((choice) => choice === text) ?? choices[0]
  return stored<T>(name, read, (value) => value)
}

function readKey(key: string): string | null {
  try {
    return localStorage.getItem(key)
  } catch {
    return null
  }
}

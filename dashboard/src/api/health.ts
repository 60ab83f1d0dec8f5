// Whether the server and its store answer, and whether we are signed in. Every request updates it.

import { type Observable, observable } from '../observable.js'

/** Who does not answer, since when, and the last message. */
export interface Outage {
  readonly who: 'server' | 'store'
  readonly sinceMs: number
  readonly text: string
  readonly code: string | null
}

/** The current outage, or null. */
export const outage: Observable<Outage | null> = observable<Outage | null>(null)

/** False once the server has answered that we are not signed in. */
export const isSignedIn: Observable<boolean> = observable(true)

/** Reports an outage. A repeated report keeps the time of the first. */
export function reportOutage(who: Outage['who'], text: string, code: string | null): void {
  outage.set({ who, text, code, sinceMs: outage.get()?.sinceMs ?? Date.now() })
}

/** The server answered. That ends an outage of the server, but not one of the store. */
export function reportAnswer(): void {
  if (outage.get()?.who === 'server') outage.set(null)
}

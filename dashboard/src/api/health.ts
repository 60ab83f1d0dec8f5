// Whether the server and its store answer, and whether we are signed in: what every request finds out on its way.

import { type Observable, observable } from '../observable.js'

/** Who does not answer, since when, and what was said last. */
export interface Outage {
  readonly who: 'server' | 'store'
  readonly sinceMs: number
  readonly text: string
  readonly code: string | null
}

/** The outage that is going on, or null. */
export const outage: Observable<Outage | null> = observable<Outage | null>(null)

/** False once the server has answered that we are not signed in. */
export const isSignedIn: Observable<boolean> = observable(true)

/** Something failed that only time or an operator mends. The first report keeps its time. */
export function reportOutage(who: Outage['who'], text: string, code: string | null): void {
  outage.set({ who, text, code, sinceMs: outage.get()?.sinceMs ?? Date.now() })
}

/** The server answered. That ends an outage of the server; one of the store ends when the store is asked and answers. */
export function reportAnswer(): void {
  if (outage.get()?.who === 'server') outage.set(null)
}

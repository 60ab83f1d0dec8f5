// The page's clock. It ticks once a second for relative times, and follows the server's time so that ages are right.

import { type Observable, observable, useObservable } from '../observable.js'
import { storedChoice } from '../stored.js'
import type { TimeMode } from './format.js'

/** How times are shown. */
export const timeMode: Observable<TimeMode> = storedChoice<TimeMode>('times', ['relative', 'local', 'utc'])

let aheadMs = 0
const now = observable(Date.now())

/** Sets the server's time, from an answer. Small differences come from the answer's travel time and are ignored. */
export function setServerTime(iso: string): void {
  const difference = new Date(iso).getTime() - Date.now()
  if (Number.isFinite(difference)) aheadMs = Math.abs(difference) < 2_000 ? 0 : difference
}

/** The store's time by the page's clock. */
export function nowMs(): number {
  return Date.now() + aheadMs
}

/** The time now, again each second. */
export function useNow(): number {
  return useObservable(now)
}

/** Starts the clock; it stops while the tab is hidden. */
export function startClock(): void {
  setInterval(() => {
    if (document.visibilityState !== 'hidden') now.set(nowMs())
  }, 1_000)
}

// What a notification of another process says, and to whom. ◄── wake.ts

import type { StoreListener } from '../../core/store-listener.js'

/** Passes a notification on: a sender, a kind, and a queue, a job or a time. Those that are muted do not learn of ready jobs. */
export function passOn(message: string, listeners: Iterable<StoreListener>, muted: ReadonlySet<StoreListener>): void {
  const [, kind, ...rest] = message.split(' ')
  const name = rest.join(' ')
  for (const listener of listeners) {
    if (kind === 'c') listener.cancel?.(name)
    else if (kind === 'w') listener.stirred?.()
    else if (kind === 't') listener.due?.(Number(name) || 0)
    else if (kind === 'r' && !muted.has(listener)) listener.ready?.(name, false)
  }
}

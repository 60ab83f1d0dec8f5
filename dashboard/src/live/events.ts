// The stream of events from the server: one connection for the page, closed while paused or hidden.

import { isSignedIn, outage } from '../api/health.js'
import { apiUrl } from '../api/place.js'
import { refreshAll, refreshThose, supply } from '../api/resource.js'
import { type Observable, observable } from '../observable.js'
import { isUpdating } from './updating.js'

/** The state of the event stream. */
export const link: Observable<'opening' | 'open' | 'lost'> = observable<'opening' | 'open' | 'lost'>('opening')

const RETRY_MS = [1_000, 2_000, 5_000, 10_000, 20_000] as const

/** Opens the stream while the page is live. */
export function startEvents(): void {
  let source: EventSource | null = null
  let retry: ReturnType<typeof setTimeout> | null = null
  let failures = 0

  const close = () => {
    source?.close()
    source = null
    if (retry !== null) clearTimeout(retry)
    retry = null
  }
  const open = () => {
    close()
    link.set('opening')
    source = new EventSource(apiUrl('v1/events'))
    source.addEventListener('open', () => {
      failures = 0
      link.set('open')
    })
    source.addEventListener('error', () => {
      link.set('lost')
      // The browser reconnects a broken stream itself. It does not reconnect one that was refused (too many tabs, signed out).
      if (source?.readyState !== EventSource.CLOSED) return
      retry = setTimeout(open, RETRY_MS[Math.min(failures++, RETRY_MS.length - 1)])
    })
    listen(source)
  }
  const follow = () => {
    if (!isUpdating.get() || !isSignedIn.get()) return close()
    open()
    // Catch up with what happened meanwhile.
    refreshAll()
  }

  isUpdating.watch(follow)
  isSignedIn.watch(follow)
  outage.watch(() => {
    if (outage.get() === null && isUpdating.get() && link.get() === 'lost') follow()
  })
  if (isUpdating.get()) open()
}

function listen(source: EventSource): void {
  source.addEventListener('overview', (event) => {
    const value = readJson(event)
    if (value !== null) supply('v1/queues', value)
  })
  source.addEventListener('warning', () => refreshThose('v1/warnings'))
  source.addEventListener('limits', () => refreshThose('v1/limits', 'v1/warnings'))
  source.addEventListener('bulk', () => refreshThose('v1/bulk'))
}

function readJson(event: Event): unknown {
  try {
    return JSON.parse((event as MessageEvent<string>).data)
  } catch {
    return null
  }
}

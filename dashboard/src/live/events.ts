// The stream of events from the server: one connection for the page, closed while paused or hidden.

import { isSignedIn, outage } from '../api/health.js'
import { apiUrl } from '../api/place.js'
import { refreshAll, refreshThose, supply } from '../api/resource.js'
import { type Observable, observable } from '../observable.js'
import { isUpdating } from './updating.js'

/** How fresh the page is: by events, by asking now and then, or not at all. */
export const link: Observable<'opening' | 'open' | 'lost'> = observable<'opening' | 'open' | 'lost'>('opening')

const RETRY_MS = [1_000, 2_000, 5_000, 10_000, 20_000] as const

/** Opens the stream while the page is live; gives what ends it for good. */
export function startEvents(): () => void {
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
      // A refused stream (too many tabs, signed out) is closed for good by the browser; a broken one it mends itself.
      if (source?.readyState !== EventSource.CLOSED) return
      retry = setTimeout(open, RETRY_MS[Math.min(failures++, RETRY_MS.length - 1)])
    })
    listen(source)
  }
  const follow = () => {
    if (!isUpdating.get() || !isSignedIn.get()) return close()
    open()
    // What happened while nobody looked.
    refreshAll()
  }

  const unwatch = isUpdating.watch(follow)
  const unwatchSession = isSignedIn.watch(follow)
  const unwatchOutage = outage.watch(() => {
    if (outage.get() === null && isUpdating.get() && link.get() === 'lost') follow()
  })
  if (isUpdating.get()) open()
  return () => {
    unwatch()
    unwatchSession()
    unwatchOutage()
    close()
  }
}

function listen(source: EventSource): void {
  source.addEventListener('overview', (event) => {
    const value = readJson(event)
    if (value !== null) supply('v1/queues', value)
  })
  source.addEventListener('warning', () => refreshThose('v1/warnings'))
  source.addEventListener('bulk', () => refreshThose('v1/bulk'))
}

function readJson(event: Event): unknown {
  try {
    return JSON.parse((event as MessageEvent<string>).data)
  } catch {
    return null
  }
}

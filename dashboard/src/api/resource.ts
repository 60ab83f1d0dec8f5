// The answers that pages show. Each address has one entry, shared by all components and refreshed while one of them shows it.

import { useCallback, useEffect, useMemo } from 'react'
import { isUpdating } from '../live/updating.js'
import { type Observable, observable, useObservable } from '../observable.js'
import { isSignedIn, outage } from './health.js'
import { request } from './request.js'

/** The state of one address. The last value stays while it is read again, and when that fails. */
interface Loaded<T> {
  readonly value: T | null
  readonly error: unknown
  readonly atMs: number
}

export interface Resource<T> extends Loaded<T> {
  /** Reads it again now; resolves when that is done. */
  refresh(): Promise<void>
}

interface Entry {
  readonly path: string
  readonly loaded: Observable<Loaded<unknown>>
  /** The components that show it, each with its interval. */
  readonly watchers: Set<{ readonly everyMs: number | null }>
  asking: Promise<void> | null
  /** Whether something changed since it was asked for: the answer may be from before, so it is read once more. */
  isOvertaken: boolean
  /** When a component took it last. It begins to watch a moment later, and until then it must stay. */
  takenMs: number
}

const NOTHING: Loaded<never> = { value: null, error: null, atMs: 0 }
/** Entries that are not shown are kept for going back, up to this many. */
const ENTRIES_MAX = 60
const TAKEN_MS = 10_000
const entries = new Map<string, Entry>()

/** The answer to a GET of `path`, read again every `everyMs` while the page is live. A null path reads nothing. `T` is what
 *  the server's schema says of that path. */
export function useResource<T>(
  path: string | null,
  { everyMs = null }: { readonly everyMs?: number | null } = {},
): Resource<T> {
  const entry = useMemo(() => (path === null ? null : entryOf(path)), [path])
  const loaded = useObservable(entry?.loaded ?? EMPTY) as Loaded<T>

  useEffect(() => {
    if (entry === null) return
    const watcher = { everyMs }
    entry.watchers.add(watcher)
    void ask(entry)
    return () => {
      entry.watchers.delete(watcher)
    }
  }, [entry, everyMs])

  const refresh = useCallback(async () => {
    if (entry !== null) await askAnew(entry)
  }, [entry])
  return useMemo(() => ({ ...loaded, refresh }), [loaded, refresh])
}

const EMPTY = observable<Loaded<unknown>>(NOTHING)

function entryOf(path: string): Entry {
  const known = entries.get(path)
  if (known !== undefined) {
    known.takenMs = Date.now()
    return known
  }
  const entry: Entry = {
    path,
    loaded: observable<Loaded<unknown>>(NOTHING),
    watchers: new Set(),
    asking: null,
    isOvertaken: false,
    takenMs: Date.now(),
  }
  if (entries.size >= ENTRIES_MAX) forgetOldest()
  entries.set(path, entry)
  return entry
}

function forgetOldest(): void {
  for (const [path, entry] of entries) {
    if (entry.watchers.size > 0 || Date.now() - entry.takenMs < TAKEN_MS) continue
    entries.delete(path)
    return
  }
}

function ask(entry: Entry): Promise<void> {
  entry.asking ??= load(entry)
  return entry.asking
}

/** Asks after a change: an answer that is already on its way does not do. */
function askAnew(entry: Entry): Promise<void> {
  if (entry.asking !== null) entry.isOvertaken = true
  return ask(entry)
}

async function load(entry: Entry): Promise<void> {
  const { loaded } = entry
  do {
    entry.isOvertaken = false
    try {
      loaded.set({ value: await request(entry.path), error: null, atMs: Date.now() })
    } catch (error) {
      loaded.set({ ...loaded.get(), error, atMs: Date.now() })
    }
  } while (entry.isOvertaken && isSignedIn.get())
  // Here, not when the promise is settled: whoever asks anew in between would be forgotten.
  entry.asking = null
}

/** Reads everything on the screen again: after a change, and when the user presses r. */
export function refreshAll(): void {
  for (const entry of entries.values()) if (entry.watchers.size > 0) void askAnew(entry)
}

/** Reads again what is on the screen and begins with one of these, and drops what the other entries know that do. Not the entries: a
 *  component that is just being shown has one, and would never be told again. */
export function refreshThose(...prefixes: readonly string[]): void {
  for (const entry of entries.values()) {
    if (!prefixes.some((prefix) => entry.path.startsWith(prefix))) continue
    if (entry.watchers.size > 0) void askAnew(entry)
    else entry.loaded.set(NOTHING)
  }
}

/** Sets a value that arrived in another way, such as an event. */
export function supply(path: string, value: unknown): void {
  entries.get(path)?.loaded.set({ value, error: null, atMs: Date.now() })
}

/** One timer for all entries: reads those that are due. Started once by the page. */
export function startRefreshing(): void {
  setInterval(() => {
    // During an outage only one probe asks, not every part of the page.
    if (!isUpdating.get() || outage.get() !== null || !isSignedIn.get()) return
    const now = Date.now()
    for (const entry of entries.values()) {
      if (now - entry.loaded.get().atMs >= everyOf(entry)) void ask(entry)
    }
  }, 500)
}

/** The shortest interval of the components that show it; infinite when none does. */
function everyOf({ watchers }: Entry): number {
  let everyMs = Number.POSITIVE_INFINITY
  for (const watcher of watchers) everyMs = Math.min(everyMs, watcher.everyMs ?? everyMs)
  return everyMs
}

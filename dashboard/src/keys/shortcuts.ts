// The shortcuts that are valid now: parts of the page add theirs while they are shown.

import { useEffect, useRef } from 'react'
import { type Observable, observable } from '../observable.js'
import { type Pending, press } from './sequence.js'

export interface Shortcut {
  readonly keys: string
  readonly label: string
  readonly group: 'Go to' | 'List' | 'Page'
  readonly run: () => void
}

/** The latest added comes last and wins. */
export const shortcuts: Observable<readonly Shortcut[]> = observable<readonly Shortcut[]>([])

/** A shortcut for as long as the caller is shown. */
export function useShortcut(keys: string, label: string, group: Shortcut['group'], run: () => void): void {
  const latest = useRef(run)
  latest.current = run
  useEffect(() => {
    const shortcut: Shortcut = { keys, label, group, run: () => latest.current() }
    shortcuts.set([...shortcuts.get(), shortcut])
    return () => shortcuts.set(shortcuts.get().filter((other) => other !== shortcut))
  }, [keys, label, group])
}

/** Listens to the keyboard; once for the page. */
export function startShortcuts(): void {
  let pending: Pending | null = null
  document.addEventListener('keydown', (event) => {
    if (event.metaKey || event.ctrlKey || event.altKey || event.isComposing || isTyping(event.target)) return
    if (document.querySelector('dialog[open]') !== null) return
    const known = shortcuts.get()
    const pressed = press(
      known.map(({ keys }) => keys),
      pending,
      event.key,
      event.timeStamp,
    )
    pending = pressed.pending
    if (pressed.match === null) return
    const shortcut = known.findLast(({ keys }) => keys === pressed.match)
    // Enter and blank belong to the button or link that has the focus.
    if (event.key === 'Enter' && isControl(event.target)) return
    event.preventDefault()
    shortcut?.run()
  })
}

function isTyping(target: EventTarget | null): boolean {
  if (!(target instanceof HTMLElement)) return false
  if (target.isContentEditable || target.tagName === 'TEXTAREA' || target.tagName === 'SELECT') return true
  return target instanceof HTMLInputElement && !['checkbox', 'radio', 'button', 'range'].includes(target.type)
}

function isControl(target: EventTarget | null): boolean {
  return target instanceof HTMLElement && target.closest('a, button, input, summary') !== null
}

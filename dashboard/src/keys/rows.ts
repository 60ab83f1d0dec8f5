// Moving through a list by keyboard. Any element with `data-row` is a row; inside it `data-select`, `data-expand` and
// `data-open` mark what x, e and Enter press.

import { useShortcut } from './shortcuts.js'

/** j, k, x, e and Enter for whatever list is on the page. Once for the page. */
export function useRowShortcuts(): void {
  useShortcut('j', 'Next row', 'List', () => step(1))
  useShortcut('k', 'Previous row', 'List', () => step(-1))
  useShortcut('x', 'Select the row', 'List', () => pressIn('[data-select]'))
  useShortcut('e', 'Expand the row', 'List', () => pressIn('[data-expand]'))
  useShortcut('Enter', 'Open the row', 'List', () => pressIn('[data-open]'))
}

function step(by: 1 | -1): void {
  const rows = [...document.querySelectorAll<HTMLElement>('main [data-row]')]
  const current = currentRow()
  const at = current === null ? (by === 1 ? -1 : rows.length) : rows.indexOf(current)
  const row = rows[at + by]
  row?.focus({ preventScroll: true })
  row?.scrollIntoView({ block: 'nearest' })
}

function pressIn(selector: string): void {
  currentRow()?.querySelector<HTMLElement>(selector)?.click()
}

function currentRow(): HTMLElement | null {
  return document.activeElement?.closest<HTMLElement>('[data-row]') ?? null
}

// Filters kept under a name, in this browser.

/** One filter with its name. */
export interface SavedView {
  readonly name: string
  readonly filter: string
}

const NAME_LENGTH_MAX = 40
const VIEWS_MAX = 30

/** Offered before anybody has saved one: what an operator looks for first. */
export const STARTING_VIEWS: readonly SavedView[] = [
  { name: 'Dead in the last hour', filter: 'state:dead finished:<1h' },
  { name: 'Retried a lot', filter: 'state:retrying attempt:>3' },
  { name: 'Running long', filter: 'state:running created:>1h' },
]

/** Views as they were written by `writeViews`; anything else gives the starting ones. */
export function readViews(text: string | null): readonly SavedView[] {
  if (text === null) return STARTING_VIEWS
  try {
    const value: unknown = JSON.parse(text)
    if (!Array.isArray(value)) return STARTING_VIEWS
    return value.filter(isView).slice(0, VIEWS_MAX)
  } catch {
    return STARTING_VIEWS
  }
}

export function writeViews(views: readonly SavedView[]): string {
  return JSON.stringify(views)
}

function isView(value: unknown): value is SavedView {
  const view = value as Partial<SavedView> | null
  return typeof view?.name === 'string' && typeof view.filter === 'string'
}

/** The views with this one added, replacing one of the same name; the oldest goes when there are too many. */
export function addView(views: readonly SavedView[], view: SavedView): readonly SavedView[] {
  const name = view.name.trim().slice(0, NAME_LENGTH_MAX)
  if (name === '') return views
  return [...views.filter((other) => other.name !== name), { name, filter: view.filter }].slice(-VIEWS_MAX)
}

export function removeView(views: readonly SavedView[], name: string): readonly SavedView[] {
  return views.filter((view) => view.name !== name)
}

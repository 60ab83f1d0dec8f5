// Light, dark, or as the system says.

import { type Observable, observable } from './observable.js'
import { storedChoice } from './stored.js'

export type Theme = 'system' | 'light' | 'dark'

/** What the reader chose. */
export const theme: Observable<Theme> = storedChoice<Theme>('theme', ['system', 'light', 'dark'])

const systemDark = matchMedia('(prefers-color-scheme: dark)')

/** What is on the screen: charts are painted anew when it changes. */
export const shade: Observable<'light' | 'dark'> = observable(shadeNow())

function shadeNow(): 'light' | 'dark' {
  const chosen = theme.get()
  if (chosen !== 'system') return chosen
  return systemDark.matches ? 'dark' : 'light'
}

/** Keeps the document in the chosen theme. */
export function startTheme(): void {
  const apply = () => {
    const chosen = theme.get()
    if (chosen === 'system') delete document.documentElement.dataset.theme
    else document.documentElement.dataset.theme = chosen
    shade.set(shadeNow())
  }
  theme.watch(apply)
  systemDark.addEventListener('change', apply)
  apply()
}

/** From one theme to the next. */
export function turnTheme(): Theme {
  const order: readonly Theme[] = ['system', 'light', 'dark']
  const next = order[(order.indexOf(theme.get()) + 1) % order.length]!
  theme.set(next)
  return next
}

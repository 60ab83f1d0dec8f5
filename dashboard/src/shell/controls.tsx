// The controls of every page: live updates, how times are shown, the theme.

import type { ReactNode } from 'react'
import { link } from '../live/events.js'
import { isUpdating, isWanted } from '../live/updating.js'
import { type Observable, useObservable } from '../observable.js'
import { announce } from '../parts/announce.js'
import { IconButton } from '../parts/button.js'
import { Icon, type IconName } from '../parts/icons.js'
import { Segments } from '../parts/segments.js'
import { type Theme, theme, turnTheme } from '../theme.js'
import { timeMode } from '../time/clock.js'

const TIMES = [
  { value: 'relative', text: 'Ago' },
  { value: 'local', text: 'Local' },
  { value: 'utc', text: 'UTC' },
] as const

const THEME_ICONS: Readonly<Record<Theme, IconName>> = { system: 'system', light: 'sun', dark: 'moon' }

export function toggleLive(): void {
  isWanted.set(!isWanted.get())
  announce(isWanted.get() ? 'Live updates on' : 'Live updates paused')
}

export function changeTheme(): void {
  announce(`Theme: ${turnTheme()}`)
}

export function LiveButton(): ReactNode {
  const wanted = useObservable(isWanted)
  const updating = useObservable(isUpdating)
  const state = useObservable(link)
  const [text, status] = !wanted
    ? ['Paused', 'paused']
    : !updating || state === 'opening'
      ? ['Live', 'opening']
      : state === 'open'
        ? ['Live', 'open']
        : ['Polling', 'lost']
  return (
    <button
      type="button"
      className="live"
      data-status={status}
      aria-pressed={wanted}
      title={wanted ? 'Pause live updates (p)' : 'Resume live updates (p)'}
      onClick={toggleLive}
    >
      <span className="dot live-dot" aria-hidden="true" />
      <span>{text}</span>
      <Icon name={wanted ? 'pause' : 'play'} size={12} />
    </button>
  )
}

export function TimeSwitch(): ReactNode {
  const mode = useObservable(timeMode)
  return <Segments label="Show times" choices={TIMES} value={mode} onChange={timeMode.set} />
}

export function ThemeButton(): ReactNode {
  const chosen = useObservable(theme as Observable<Theme>)
  return <IconButton icon={THEME_ICONS[chosen]} label={`Theme: ${chosen} (t)`} onClick={changeTheme} />
}

// The whole window around a page.

import { type ReactNode, useState } from 'react'
import { useLocation } from 'wouter'
import { refreshAll } from '../api/resource.js'
import { useRowShortcuts } from '../keys/rows.js'
import { useShortcut } from '../keys/shortcuts.js'
import { ShortcutsDialog } from '../keys/shortcuts-dialog.js'
import { announce } from '../parts/announce.js'
import { changeTheme, toggleLive } from './controls.js'
import { EnvironmentLine } from './environment.js'
import { PhoneBar, Sidebar } from './navigation.js'
import { PLACES, type Place } from './places.js'

export function Shell({ children }: { readonly children: ReactNode }): ReactNode {
  const [isHelpOpen, setHelpOpen] = useState(false)
  const [, go] = useLocation()
  useRowShortcuts()
  useShortcut('?', 'Show this list', 'Page', () => setHelpOpen(true))
  useShortcut('r', 'Refresh', 'Page', () => {
    refreshAll()
    announce('Refreshed')
  })
  useShortcut('p', 'Pause or resume live updates', 'Page', toggleLive)
  useShortcut('t', 'Change the theme', 'Page', changeTheme)
  // Where there is no filter bar, / goes to the page that has one.
  useShortcut('/', 'Filter jobs', 'Page', () => go('/jobs?focus=filter'))
  return (
    <>
      <button type="button" className="skip" onClick={() => document.querySelector<HTMLElement>('main')?.focus()}>
        Skip to the content
      </button>
      {PLACES.map((place) => (
        <GoShortcut key={place.path} place={place} />
      ))}
      <EnvironmentLine />
      <div className="window">
        <Sidebar onHelp={() => setHelpOpen(true)} />
        <main tabIndex={-1}>{children}</main>
        <PhoneBar />
      </div>
      {isHelpOpen ? <ShortcutsDialog onClose={() => setHelpOpen(false)} /> : null}
    </>
  )
}

function GoShortcut({ place }: { readonly place: Place }): null {
  const [, go] = useLocation()
  useShortcut(`g ${place.key}`, place.title, 'Go to', () => go(place.path))
  return null
}

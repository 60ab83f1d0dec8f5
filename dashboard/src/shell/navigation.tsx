// The navigation: a column on wide screens, a bar at the bottom on phones.

import { type ReactNode, useState } from 'react'
import { Link, useLocation } from 'wouter'
import { useMe, useOverview, useWarnings } from '../api/answers.js'
import { shortText } from '../numbers.js'
import { IconButton } from '../parts/button.js'
import { Dialog } from '../parts/dialog.js'
import { Icon, Mark } from '../parts/icons.js'
import { totalsOf } from '../totals.js'
import { TimeSwitch } from './controls.js'
import { EnvironmentBadge } from './environment.js'
import { isAt, PLACES, type Place } from './places.js'
import { signOut } from './sign-out.js'

/** The number beside a page's name, if any. */
function useCounts(): Readonly<Record<string, { readonly text: string; readonly isAlarm: boolean } | undefined>> {
  const overview = useOverview().value
  const warnings = useWarnings()
  const dead = overview === null ? 0 : totalsOf(overview.queues).dead
  const alarms = warnings?.filter(({ level }) => level !== 'note').length ?? 0
  const open = warnings?.filter(({ code }) => code === 'breaker_open' || code === 'breaker_forced').length ?? 0
  return {
    '/': alarms === 0 ? undefined : { text: String(alarms), isAlarm: true },
    '/limits': open === 0 ? undefined : { text: String(open), isAlarm: false },
    '/dead': dead === 0 ? undefined : { text: shortText(dead), isAlarm: false },
  }
}

export function Sidebar({ onHelp }: { readonly onHelp: () => void }): ReactNode {
  const me = useMe()
  return (
    <header className="sidebar">
      <Link href="/" className="beside brand">
        <Mark />
        <span>Holdfast</span>
      </Link>
      <EnvironmentBadge />
      <PlaceList places={PLACES} />
      <div className="beside sidebar-foot">
        {me === null ? null : (
          <div className="who">
            <span className="cut who-name">{me.name}</span>
            <span className="who-note">
              {me.store}
              {` · ${me.version}`}
              {me.readOnly ? ' · read only' : ''}
            </span>
          </div>
        )}
        <IconButton icon="keyboard" label="Keyboard shortcuts (?)" onClick={onHelp} />
        {me?.via === 'cookie' ? <IconButton icon="signOut" label="Sign out" onClick={() => void signOut()} /> : null}
      </div>
    </header>
  )
}

function PlaceList({ places, onGo }: { readonly places: readonly Place[]; readonly onGo?: () => void }): ReactNode {
  const [location] = useLocation()
  const counts = useCounts()
  return (
    <nav aria-label="Main" className="places">
      {places.map((place) => {
        const count = counts[place.path]
        return (
          <Link
            key={place.path}
            href={place.path}
            className="beside place"
            aria-current={isAt(place, location) ? 'page' : undefined}
            onClick={onGo}
          >
            <Icon name={place.icon} />
            <span className="place-title">{place.title}</span>
            {count === undefined ? null : (
              <span className={count.isAlarm ? 'place-count place-count-alarm' : 'place-count'}>{count.text}</span>
            )}
          </Link>
        )
      })}
    </nav>
  )
}

/** The bar at the bottom of a phone. */
export function PhoneBar(): ReactNode {
  const [location] = useLocation()
  const [isOpen, setOpen] = useState(false)
  const counts = useCounts()
  const others = PLACES.filter((place) => !place.isMain)
  return (
    <nav className="phone-bar" aria-label="Main">
      {PLACES.filter((place) => place.isMain).map((place) => (
        <Link
          key={place.path}
          href={place.path}
          className="phone-place"
          aria-current={isAt(place, location) ? 'page' : undefined}
        >
          <Icon name={place.icon} size={20} />
          <span>{place.title === 'Dead letters' ? 'Dead' : place.title}</span>
          {counts[place.path] === undefined ? null : <span className="phone-count">{counts[place.path]?.text}</span>}
        </Link>
      ))}
      <button
        type="button"
        className="phone-place"
        aria-haspopup="dialog"
        aria-current={others.some((place) => isAt(place, location)) ? 'page' : undefined}
        onClick={() => setOpen(true)}
      >
        <Icon name="more" size={20} />
        <span>More</span>
      </button>
      {isOpen ? (
        <Dialog title="More" onClose={() => setOpen(false)}>
          <PlaceList places={others} onGo={() => setOpen(false)} />
          <div className="phone-choices">
            <EnvironmentBadge />
            <TimeSwitch />
          </div>
        </Dialog>
      ) : null}
    </nav>
  )
}

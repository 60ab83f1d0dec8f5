// A button that opens a list of actions.

import { type KeyboardEvent, type ReactNode, useEffect, useId, useRef, useState } from 'react'
import { Icon, type IconName } from './icons.js'

export interface MenuEntry {
  readonly label: string
  readonly icon: IconName
  readonly isDanger?: boolean
  readonly onChoose: () => void
}

export function Menu({
  label,
  entries,
}: {
  readonly label: string
  readonly entries: readonly MenuEntry[]
}): ReactNode {
  const [isOpen, setOpen] = useState(false)
  const root = useRef<HTMLDivElement>(null)
  const button = useRef<HTMLButtonElement>(null)
  const listId = useId()

  useEffect(() => {
    if (!isOpen) return
    root.current?.querySelector<HTMLElement>('[role=menuitem]')?.focus()
    const closeOutside = (event: PointerEvent) => {
      if (!root.current?.contains(event.target as Node)) setOpen(false)
    }
    document.addEventListener('pointerdown', closeOutside)
    return () => document.removeEventListener('pointerdown', closeOutside)
  }, [isOpen])

  const close = () => {
    setOpen(false)
    button.current?.focus()
  }
  return (
    <div className="menu" ref={root}>
      <button
        ref={button}
        type="button"
        className="icon-button"
        aria-label={label}
        title={label}
        aria-haspopup="menu"
        aria-expanded={isOpen}
        aria-controls={isOpen ? listId : undefined}
        onClick={() => setOpen(!isOpen)}
      >
        <Icon name="more" />
      </button>
      {isOpen ? (
        <div className="menu-list" role="menu" id={listId} aria-label={label} onKeyDown={(event) => move(event, close)}>
          {entries.map((entry) => (
            <Entry key={entry.label} entry={entry} close={close} />
          ))}
        </div>
      ) : null}
    </div>
  )
}

function Entry({ entry, close }: { readonly entry: MenuEntry; readonly close: () => void }): ReactNode {
  return (
    <button
      type="button"
      role="menuitem"
      tabIndex={-1}
      className={entry.isDanger === true ? 'beside menu-entry menu-entry-danger' : 'beside menu-entry'}
      onClick={() => {
        close()
        entry.onChoose()
      }}
    >
      <Icon name={entry.icon} />
      {entry.label}
    </button>
  )
}

function move(event: KeyboardEvent<HTMLDivElement>, close: () => void): void {
  const entries = [...event.currentTarget.querySelectorAll<HTMLElement>('[role=menuitem]')]
  const at = entries.indexOf(document.activeElement as HTMLElement)
  const to = { ArrowDown: at + 1, ArrowUp: at - 1 + entries.length, Home: 0, End: entries.length - 1 }[event.key]
  if (event.key === 'Escape' || event.key === 'Tab') close()
  else if (to !== undefined) entries[to % entries.length]?.focus()
  else return
  if (event.key !== 'Tab') event.preventDefault()
  event.stopPropagation()
}

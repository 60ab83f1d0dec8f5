// The frame of every page: its title, its actions, and the common controls.

import { type ReactNode, useEffect, useRef } from 'react'
import { useMe } from '../api/answers.js'
import { LiveButton, ThemeButton, TimeSwitch } from './controls.js'

let isFirst = true

export interface PageProps {
  readonly title: string
  /** In front of the title: a way back. */
  readonly before?: ReactNode
  /** Beside the title: a badge. */
  readonly beside?: ReactNode
  readonly actions?: ReactNode
  readonly children: ReactNode
}

export function Page({ title, before, beside, actions, children }: PageProps): ReactNode {
  const heading = useRef<HTMLHeadingElement>(null)
  const environment = useMe()?.environment?.name
  useEffect(() => {
    document.title = environment ? `${title} · ${environment} · Holdfast` : `${title} · Holdfast`
  }, [title, environment])
  useEffect(() => {
    document.querySelector('main')?.scrollTo(0, 0)
    // Focus the heading of a new page, for screen readers too. Not on the first page, and not when a field has the focus.
    if (!isFirst && !(document.activeElement instanceof HTMLInputElement))
      heading.current?.focus({ preventScroll: true })
    isFirst = false
  }, [])
  return (
    <>
      <header className="flow page-head">
        <div className="flow page-title">
          {before}
          <h1 ref={heading} tabIndex={-1}>
            {title}
          </h1>
          {beside}
        </div>
        <div className="beside page-controls">
          <LiveButton />
          <TimeSwitch />
          <ThemeButton />
        </div>
        {actions === undefined ? null : <div className="beside page-actions">{actions}</div>}
      </header>
      <div className="page-body">{children}</div>
    </>
  )
}

// A dialog over the page. The browser's own element: it keeps the focus inside, closes on Escape and gives the focus back.

import { type FormEvent, type ReactNode, useEffect, useId, useRef } from 'react'
import { IconButton } from './button.js'

export interface DialogProps {
  readonly title: string
  readonly onClose: () => void
  readonly children: ReactNode
  /** Buttons at its foot. */
  readonly actions?: ReactNode
  readonly onSubmit?: () => void
  readonly isWide?: boolean
}

/** Open as long as it is rendered. */
export function Dialog({ title, onClose, children, actions, onSubmit, isWide = false }: DialogProps): ReactNode {
  const element = useRef<HTMLDialogElement>(null)
  const titleId = useId()
  useEffect(() => {
    const dialog = element.current
    const before = document.activeElement
    if (dialog !== null && !dialog.open) dialog.showModal()
    return () => {
      dialog?.close()
      if (before instanceof HTMLElement && before.isConnected) before.focus()
    }
  }, [])
  const submit = (event: FormEvent) => {
    event.preventDefault()
    onSubmit?.()
  }
  return (
    // biome-ignore lint/a11y/useKeyWithClickEvents: Escape does it by keyboard
    <dialog
      ref={element}
      className={isWide ? 'dialog dialog-wide' : 'dialog'}
      aria-labelledby={titleId}
      onCancel={(event) => {
        event.preventDefault()
        onClose()
      }}
      onClick={(event) => {
        if (event.target === element.current) onClose()
      }}
    >
      <form className="dialog-body" onSubmit={submit}>
        <header className="beside dialog-head">
          <h2 id={titleId}>{title}</h2>
          <IconButton icon="close" label="Close" onClick={onClose} />
        </header>
        <div className="below dialog-content">{children}</div>
        {actions === undefined ? null : <footer className="dialog-foot">{actions}</footer>}
      </form>
    </dialog>
  )
}

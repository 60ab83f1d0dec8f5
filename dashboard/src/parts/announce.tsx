// Messages for screen readers, and the short messages in the corner.

import type { ReactNode } from 'react'
import { observable, useObservable } from '../observable.js'
import { IconButton } from './button.js'
import { Icon } from './icons.js'

interface Toast {
  readonly id: number
  readonly kind: 'done' | 'failed'
  readonly text: string
}

const spoken = observable('')
const toasts = observable<readonly Toast[]>([])
let count = 0

/** Announces a text to screen readers without showing it. */
export function announce(text: string): void {
  // The same words twice would not be read again.
  spoken.set(spoken.get() === text ? `${text}\u00a0` : text)
}

/** Shows a short message; failures stay until they are closed. */
export function toast(kind: Toast['kind'], text: string): void {
  const id = ++count
  toasts.set([...toasts.get(), { id, kind, text }].slice(-4))
  if (kind === 'done') setTimeout(() => closeToast(id), 4_500)
}

function closeToast(id: number): void {
  toasts.set(toasts.get().filter((entry) => entry.id !== id))
}

/** Where both appear. Once in the page. */
export function Announcements(): ReactNode {
  const words = useObservable(spoken)
  const shown = useObservable(toasts)
  return (
    <>
      <div className="only-read" role="status" aria-live="polite">
        {words}
      </div>
      <div className="toasts" role="status" aria-live="polite">
        {shown.map(({ id, kind, text }) => (
          <div key={id} className={`toast toast-${kind}`}>
            <Icon name={kind === 'done' ? 'check' : 'warning'} />
            <span className="toast-text">{text}</span>
            <IconButton icon="close" label="Close" onClick={() => closeToast(id)} />
          </div>
        ))}
      </div>
    </>
  )
}

// What a page shows without content: what that means and the next command; also while loading, and after a failure.

import type { ReactNode } from 'react'
import { messageOf } from '../api/request.js'
import type { Resource } from '../api/resource.js'
import { Button } from './button.js'
import { Command } from './copy.js'
import { Icon, type IconName } from './icons.js'

export function Empty({
  icon,
  title,
  children,
  command,
}: {
  readonly icon: IconName
  readonly title: string
  readonly children?: ReactNode
  readonly command?: string
}): ReactNode {
  return (
    <div className="below empty">
      <span className="empty-icon">
        <Icon name={icon} size={20} />
      </span>
      <h2>{title}</h2>
      {children === undefined ? null : <div className="empty-text">{children}</div>}
      {command === undefined ? null : <Command text={command} />}
    </div>
  )
}

/** What stands for a part of the page until its answer is there: lines while it is loading, or why it could not be loaded. */
export function Pending({
  of,
  rows,
}: {
  readonly of: Pick<Resource<unknown>, 'error' | 'refresh'>
  readonly rows?: number
}): ReactNode {
  return of.error === null ? <Waiting rows={rows} /> : <Failed error={of.error} onRetry={of.refresh} />
}

/** A part of the page that could not be loaded, with a way to try again. */
export function Failed({ error, onRetry }: { readonly error: unknown; readonly onRetry: () => void }): ReactNode {
  return (
    <div className="flow failed" role="alert">
      <Icon name="warning" />
      <span>{messageOf(error)}</span>
      <Button kind="quiet" icon="again" onClick={onRetry}>
        Try again
      </Button>
    </div>
  )
}

/** Grey lines where rows will be. */
export function Waiting({ rows = 6 }: { readonly rows?: number | undefined }): ReactNode {
  return (
    <div className="waiting" role="status" aria-label="Loading">
      {Array.from({ length: rows }, (_, index) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: the lines are all the same
        <span key={index} className="waiting-line" />
      ))}
    </div>
  )
}

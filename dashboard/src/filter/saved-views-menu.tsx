// Views by name: the saved filters, and saving the one that is set.

import { type ReactNode, useState } from 'react'
import { type Observable, useObservable } from '../observable.js'
import { toast } from '../parts/announce.js'
import { Button, IconButton } from '../parts/button.js'
import { Dialog } from '../parts/dialog.js'
import { InputField } from '../parts/field.js'
import { stored } from '../stored.js'
import { addView, readViews, removeView, type SavedView, writeViews } from './saved-views.js'

const views: Observable<readonly SavedView[]> = stored('views', readViews, writeViews)

export function SavedViewsBar({
  filter,
  onApply,
}: {
  readonly filter: string
  readonly onApply: (filter: string) => void
}): ReactNode {
  const saved = useObservable(views)
  const [isOpen, setOpen] = useState(false)
  const isSaved = saved.some((view) => view.filter === filter)
  return (
    <div className="flow views">
      {saved.map((view) => (
        <button
          key={view.name}
          type="button"
          className="view"
          aria-pressed={view.filter === filter}
          title={view.filter}
          onClick={() => onApply(view.filter === filter ? '' : view.filter)}
        >
          {view.name}
        </button>
      ))}
      {filter === '' && saved.length === 0 ? null : (
        <IconButton
          icon="bookmark"
          label={isSaved || filter === '' ? 'Manage saved views' : 'Save this view'}
          onClick={() => setOpen(true)}
        />
      )}
      {isOpen ? (
        <ViewsDialog filter={filter} canSave={!isSaved && filter !== ''} onClose={() => setOpen(false)} />
      ) : null}
    </div>
  )
}

function ViewsDialog({
  filter,
  canSave,
  onClose,
}: {
  readonly filter: string
  readonly canSave: boolean
  readonly onClose: () => void
}): ReactNode {
  const saved = useObservable(views)
  const [name, setName] = useState('')
  const save = () => {
    if (!canSave || name.trim() === '') return
    views.set(addView(saved, { name, filter }))
    toast('done', `Saved as “${name.trim()}” in this browser`)
    onClose()
  }
  return (
    <Dialog
      title="Saved views"
      onClose={onClose}
      onSubmit={save}
      actions={
        canSave ? (
          <Button type="submit" kind="primary" disabled={name.trim() === ''}>
            Save this view
          </Button>
        ) : undefined
      }
    >
      {canSave ? (
        <>
          <InputField
            label="Name"
            hint="Kept in this browser. To share a view, share the page’s address."
            value={name}
            maxLength={40}
            onText={setName}
          />
          <code className="block">{filter}</code>
        </>
      ) : null}
      <ul className="view-list">
        {saved.map((view) => (
          <li key={view.name}>
            <span className="view-name">{view.name}</span>
            <code>{view.filter}</code>
            <IconButton
              icon="trash"
              label={`Remove ${view.name}`}
              onClick={() => views.set(removeView(saved, view.name))}
            />
          </li>
        ))}
      </ul>
    </Dialog>
  )
}

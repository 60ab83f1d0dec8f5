// Asks for confirmation.

import { type ReactNode, useState } from 'react'
import { useAction } from './action.js'
import { Button } from './button.js'
import { Dialog } from './dialog.js'

export interface ConfirmProps {
  readonly title: string
  readonly children: ReactNode
  /** On the button: the verb and its object. */
  readonly verb: string
  readonly isDanger?: boolean
  /** Must be typed before the button works; for what cannot be undone. */
  readonly typed?: string | null
  readonly work: () => Promise<unknown>
  readonly done: string
  readonly onClose: () => void
}

export function Confirm(props: ConfirmProps): ReactNode {
  const { title, children, verb, isDanger = false, typed = null, work, done, onClose } = props
  const { isBusy, run } = useAction()
  const [text, setText] = useState('')
  const isAllowed = typed === null || text.trim() === typed
  const submit = async () => {
    if (isAllowed && (await run(work, done))) onClose()
  }
  return (
    <Dialog
      title={title}
      onClose={onClose}
      onSubmit={() => void submit()}
      actions={
        <>
          <Button kind="quiet" onClick={onClose}>
            Keep as it is
          </Button>
          <Button type="submit" kind={isDanger ? 'danger' : 'primary'} isBusy={isBusy} disabled={!isAllowed}>
            {verb}
          </Button>
        </>
      }
    >
      {children}
      {typed === null ? null : (
        <label className="field">
          <span>
            Type <b>{typed}</b> to continue
          </span>
          <input type="text" value={text} autoComplete="off" onChange={(event) => setText(event.target.value)} />
        </label>
      )}
    </Dialog>
  )
}

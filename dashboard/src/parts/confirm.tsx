// Asks for confirmation.

import type { ReactNode } from 'react'
import { useAction } from './action.js'
import { Button } from './button.js'
import { Dialog } from './dialog.js'

export interface ConfirmProps {
  readonly title: string
  readonly children: ReactNode
  /** On the button: the verb and its object. */
  readonly verb: string
  readonly isDanger?: boolean
  readonly work: () => Promise<unknown>
  readonly done: string
  readonly onClose: () => void
}

export function Confirm(props: ConfirmProps): ReactNode {
  const { title, children, verb, isDanger = false, work, done, onClose } = props
  const { isBusy, run } = useAction()
  const submit = async () => {
    if (await run(work, done)) onClose()
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
          <Button type="submit" kind={isDanger ? 'danger' : 'primary'} isBusy={isBusy}>
            {verb}
          </Button>
        </>
      }
    >
      {children}
    </Dialog>
  )
}

// Another priority for a job that waits.

import { type ReactNode, useState } from 'react'
import { change } from '../../api/request.js'
import type { ChangesBody, Job } from '../../api/types.js'
import { segment } from '../../links.js'
import { useAction } from '../../parts/action.js'
import { Button } from '../../parts/button.js'
import { Dialog } from '../../parts/dialog.js'
import { InputField } from '../../parts/field.js'

export function PriorityDialog({ job, onClose }: { readonly job: Job; readonly onClose: () => void }): ReactNode {
  const { isBusy, run } = useAction()
  const [text, setText] = useState(String(job.priority))
  const priority = Number(text)
  const isSound = text.trim() !== '' && Number.isInteger(priority) && priority >= -32_768 && priority <= 32_767
  const save = async () => {
    if (!isSound) return
    const body: ChangesBody = { priority }
    if (await run(() => change('PATCH', `v1/jobs/${segment(job.id)}`, body), `Priority is ${priority}`)) onClose()
  }
  return (
    <Dialog
      title="Change the priority"
      onClose={onClose}
      onSubmit={() => void save()}
      actions={
        <Button type="submit" kind="primary" isBusy={isBusy} disabled={!isSound}>
          Save
        </Button>
      }
    >
      <InputField
        label="Priority"
        hint="Higher runs first; 0 is the default"
        problem={isSound ? null : 'a whole number from −32,768 to 32,767'}
        type="number"
        value={text}
        min={-32_768}
        max={32_767}
        onText={setText}
      />
    </Dialog>
  )
}

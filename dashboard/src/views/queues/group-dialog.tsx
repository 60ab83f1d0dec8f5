// Settings of one group, which replace those that its queue has for every group.

import { type ReactNode, useState } from 'react'
import { change } from '../../api/request.js'
import type { Group, QueueOverview } from '../../api/types.js'
import { groupApiPath } from '../../links.js'
import { useAction } from '../../parts/action.js'
import { Button } from '../../parts/button.js'
import { Dialog } from '../../parts/dialog.js'
import { InputField } from '../../parts/field.js'
import { BoundFields } from '../flow/bound-fields.js'
import { boundsDraft, boundsOf, boundsProblems, wholeProblem } from '../flow/bounds.js'

const WEIGHT_MAX = 1_000
const NO_BOUNDS = { concurrency: null, rate: null }

export function GroupDialog({
  queue,
  group,
  onClose,
}: {
  readonly queue: QueueOverview
  /** Null to name one. */
  readonly group: Group | null
  readonly onClose: () => void
}): ReactNode {
  const override = group?.override ?? null
  const [name, setName] = useState(group?.group ?? '')
  const [bounds, setBounds] = useState(() => boundsDraft(override ?? NO_BOUNDS))
  const [weight, setWeight] = useState(String(override?.weight ?? 1))
  const { isBusy, run } = useAction()
  const isOrdered = queue.settings.flow?.groups.ordered ?? false
  const used = isOrdered ? { ...bounds, concurrency: '' } : bounds
  const weightProblem = weight.trim() === '' ? 'a number is needed here' : wholeProblem(weight, WEIGHT_MAX)
  const isSound = name !== '' && [...Object.values(boundsProblems(used)), weightProblem].every((text) => text === null)
  const path = groupApiPath(queue.name, name)
  const finish = async (work: () => Promise<unknown>, done: string) => {
    if (await run(work, done)) onClose()
  }
  const save = () => {
    if (isSound) {
      const body = { ...boundsOf(used), weight: Number(weight) }
      void finish(() => change('PUT', path, body), `Settings of group ${name} are saved`)
    }
  }
  return (
    <Dialog
      title={group === null ? `A group of ${queue.name}` : `Group ${name}`}
      onClose={onClose}
      onSubmit={save}
      isWide
      actions={
        <>
          {override === null ? null : (
            <Button
              kind="quiet"
              icon="trash"
              isBusy={isBusy}
              onClick={() => void finish(() => change('DELETE', path), `Group ${name} is like the others again`)}
            >
              Take them away
            </Button>
          )}
          <Button kind="quiet" onClick={onClose}>
            Keep as it is
          </Button>
          <Button type="submit" kind="primary" isBusy={isBusy} disabled={!isSound}>
            Save settings
          </Button>
        </>
      }
    >
      <p>They replace what {queue.name} says for every group.</p>
      {group === null ? (
        <InputField label="Group" hint="its name, 1 to 200 characters" maxLength={200} value={name} onText={setName} />
      ) : null}
      <div className="fields">
        <BoundFields
          draft={bounds}
          hasConcurrency={!isOrdered}
          empty="as the queue says"
          onChange={(changes) => setBounds({ ...bounds, ...changes })}
        />
        <InputField
          label="Weight"
          hint="turns for each turn of another group"
          inputMode="numeric"
          problem={weightProblem}
          value={weight}
          onText={setWeight}
        />
      </div>
    </Dialog>
  )
}

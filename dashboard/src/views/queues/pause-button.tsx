// Pauses a queue after a confirmation, and resumes it.

import { type ReactNode, useState } from 'react'
import { useRights } from '../../api/answers.js'
import { change } from '../../api/request.js'
import type { QueueOverview } from '../../api/types.js'
import { segment } from '../../links.js'
import { countOf } from '../../numbers.js'
import { useAction } from '../../parts/action.js'
import { Button } from '../../parts/button.js'
import { Confirm } from '../../parts/confirm.js'

export function PauseButton({
  queue,
  isSmall = false,
}: {
  readonly queue: Pick<QueueOverview, 'name' | 'paused' | 'ready' | 'running'>
  readonly isSmall?: boolean
}): ReactNode {
  const { operate } = useRights()
  const { isBusy, run } = useAction()
  const [isAsking, setAsking] = useState(false)
  if (!operate) return null
  const { name, paused, ready, running } = queue
  const path = (verb: 'pause' | 'resume') => `v1/queues/${segment(name)}/${verb}`
  if (paused) {
    return (
      <Button
        icon="play"
        kind={isSmall ? 'quiet' : 'primary'}
        isBusy={isBusy}
        aria-label={`Resume ${name}`}
        onClick={() => void run(() => change('POST', path('resume')), `${name} is resumed`)}
      >
        Resume
      </Button>
    )
  }
  return (
    <>
      <Button
        icon="pause"
        kind={isSmall ? 'quiet' : 'plain'}
        aria-label={`Pause ${name}`}
        onClick={() => setAsking(true)}
      >
        Pause
      </Button>
      {isAsking ? (
        <Confirm
          title={`Pause ${name}?`}
          verb="Pause the queue"
          work={() => change('POST', path('pause'))}
          done={`${name} is paused`}
          onClose={() => setAsking(false)}
        >
          <p>
            Jobs can still be enqueued, but none will start. {countOf(ready, 'ready job')} will wait.{' '}
            {running === 0 ? '' : `${countOf(running, 'running job')} will finish.`}
          </p>
        </Confirm>
      ) : null}
    </>
  )
}

// Pauses a group after a confirmation, and resumes it.

import { type ReactNode, useState } from 'react'
import { change } from '../../api/request.js'
import type { Group } from '../../api/types.js'
import { groupApiPath } from '../../links.js'
import { countOf } from '../../numbers.js'
import { Button } from '../../parts/button.js'
import { Confirm } from '../../parts/confirm.js'

export function GroupPauseButton({ queue, group }: { readonly queue: string; readonly group: Group }): ReactNode {
  const [isAsking, setAsking] = useState(false)
  const { group: name, paused, stoppedBy, ready } = group
  const verb = paused ? 'resume' : 'pause'
  return (
    <>
      <Button
        icon={paused ? 'play' : 'pause'}
        kind="quiet"
        aria-label={`${paused ? 'Resume' : 'Pause'} group ${name}`}
        onClick={() => setAsking(true)}
      >
        {paused ? 'Resume' : 'Pause'}
      </Button>
      {isAsking ? (
        <Confirm
          title={`${paused ? 'Resume' : 'Pause'} ${name}?`}
          verb={`${paused ? 'Resume' : 'Pause'} the group`}
          work={() => change('POST', groupApiPath(queue, name, verb))}
          done={`Group ${name} is ${paused ? 'resumed' : 'paused'}`}
          onClose={() => setAsking(false)}
        >
          <p>
            {paused
              ? stoppedBy === null
                ? 'Its jobs start again.'
                : 'It stopped because a job died. Requeue that job first if it must run before the others.'
              : `Jobs can still be enqueued, but none will start. ${countOf(ready, 'ready job')} will wait.`}
          </p>
        </Confirm>
      ) : null}
    </>
  )
}

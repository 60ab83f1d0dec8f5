// The payload, and revealing its masked values.

import { type ReactNode, useState } from 'react'
import { useRights } from '../../api/answers.js'
import { apiUrl } from '../../api/place.js'
import { request } from '../../api/request.js'
import type { Job } from '../../api/types.js'
import { segment } from '../../links.js'
import { Button } from '../../parts/button.js'
import { Confirm } from '../../parts/confirm.js'
import { Icon } from '../../parts/icons.js'
import { ValuePanel } from './value-panel.js'

const NOTHING_MASKED: readonly string[] = []

export function payloadPath(id: string): string {
  return `v1/jobs/${segment(id)}/payload`
}

export function Payload({ job }: { readonly job: Job }): ReactNode {
  const { readPayload } = useRights()
  const [revealed, setRevealed] = useState<{ readonly value: unknown } | null>(null)
  const [isAsking, setAsking] = useState(false)
  const { redacted } = job
  const canReveal = readPayload && redacted.length > 0 && revealed === null
  return (
    <>
      <ValuePanel
        title="Payload"
        value={revealed === null ? job.payload : revealed.value}
        redacted={revealed === null ? redacted : NOTHING_MASKED}
        actions={
          <>
            {canReveal ? (
              <Button kind="quiet" icon="eye" onClick={() => setAsking(true)}>
                Reveal
              </Button>
            ) : null}
            {readPayload ? (
              <a
                className="icon-button"
                href={apiUrl(payloadPath(job.id))}
                download
                aria-label="Download the payload"
                title="Download the payload (recorded in the audit)"
              >
                <Icon name="download" />
              </a>
            ) : null}
          </>
        }
      />
      {isAsking ? (
        <Confirm
          title="Reveal the masked values?"
          verb="Reveal"
          work={async () => setRevealed({ value: await request(payloadPath(job.id)) })}
          done="The payload is shown unmasked"
          onClose={() => setAsking(false)}
        >
          <p>The whole payload is shown on this page. This is recorded in the audit log.</p>
        </Confirm>
      ) : null}
    </>
  )
}

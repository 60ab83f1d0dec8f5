// All queues.

import { type ReactNode, useState } from 'react'
import { useOverview, useRights } from '../../api/answers.js'
import { countOf } from '../../numbers.js'
import { Empty, Pending } from '../../parts/empty.js'
import { Page } from '../../shell/page.js'
import { findQueues } from './choose-queues.js'
import { QueueTable } from './queue-table.js'

const ROWS_MAX = 200

export function QueuesPage(): ReactNode {
  const overview = useOverview()
  const { value } = overview
  const { operate } = useRights()
  const [text, setText] = useState('')
  if (value === null) {
    return (
      <Page title="Queues">
        <Pending of={overview} />
      </Page>
    )
  }
  const found = findQueues(value.queues, text, ROWS_MAX)
  return (
    <Page title="Queues" beside={<span className="page-count">{value.queues.length}</span>}>
      {value.queues.length === 0 ? (
        <Empty icon="queues" title="No queues yet" command="npx holdfast enqueue hello --queue default">
          A queue is created with its first job, or when you pause it or change its settings.
        </Empty>
      ) : (
        <>
          {value.queues.length > 8 ? (
            <input
              type="search"
              className="find"
              placeholder="Find a queue"
              aria-label="Find a queue"
              value={text}
              onChange={(event) => setText(event.target.value)}
            />
          ) : null}
          {found.length === 0 ? (
            <Empty icon="search" title={`No queue matches “${text}”`} />
          ) : (
            <QueueTable queues={found} isExact={value.exact} canPause={operate} />
          )}
          {found.length === ROWS_MAX ? (
            <p className="page-note">The first {countOf(ROWS_MAX, 'queue')} are shown; type to find others.</p>
          ) : null}
        </>
      )}
    </Page>
  )
}

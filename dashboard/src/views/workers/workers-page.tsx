// The workers: whether each is alive, how busy it is, what it runs.

import type { ReactNode } from 'react'
import { useWorkers } from '../../api/answers.js'
import { countOf } from '../../numbers.js'
import { Empty, Pending } from '../../parts/empty.js'
import { Meter } from '../../parts/meter.js'
import { Page } from '../../shell/page.js'
import { WorkerCard } from './worker-card.js'

const CARDS_MAX = 200

export function WorkersPage(): ReactNode {
  const workers = useWorkers(3_000)
  const { value } = workers
  const live = value?.workers.filter((worker) => worker.live) ?? []
  const slots = live.reduce((sum, { concurrency }) => sum + concurrency, 0)
  const running = live.reduce((sum, worker) => sum + worker.running, 0)
  return (
    <Page title="Workers" beside={value === null ? null : <span className="page-count">{live.length}</span>}>
      {value === null ? (
        <Pending of={workers} />
      ) : value.workers.length === 0 ? (
        <Empty icon="workers" title="No workers" command="npx holdfast worker ./jobs.js --queues default">
          Jobs wait until a worker starts. Start one with a module that exports your handlers; it appears here with its
          first heartbeat.
        </Empty>
      ) : (
        <>
          <div className="beside fleet">
            <Meter label="Slots in use" value={running} total={slots} />
            <span>
              {running} of {countOf(slots, 'slot')} in use on {countOf(live.length, 'live worker')}
            </span>
          </div>
          <div className="worker-list">
            {value.workers.slice(0, CARDS_MAX).map((worker) => (
              <WorkerCard key={worker.id} worker={worker} />
            ))}
          </div>
        </>
      )}
    </Page>
  )
}

// Queues as rows: counts, age, rates, workers.

import type { ReactNode } from 'react'
import { Link } from 'wouter'
import type { JobState, QueueOverview } from '../../api/types.js'
import { quote } from '../../filter/terms.js'
import { jobsPath, queuePath } from '../../links.js'
import { countOf, countText, rateText, shareOf, wholeText } from '../../numbers.js'
import { type Heading, Headings } from '../../parts/headings.js'
import { durationText } from '../../time/format.js'
import { DEPTH_STATES } from '../../totals.js'
import { PauseButton } from './pause-button.js'

const COLUMNS: readonly Heading[] = [
  ['Queue'],
  ['Depth', 'wide'],
  ['Ready', 'number'],
  ['Running', 'number'],
  ['Retrying', 'number wide'],
  ['Scheduled', 'number wide'],
  ['Blocked', 'number wide'],
  ['Dead', 'number'],
  ['Oldest', 'number wide'],
  ['In / out', 'number wide'],
  ['Workers', 'number wide'],
]

export function QueueTable({
  queues,
  isExact,
  canPause = false,
}: {
  readonly queues: readonly QueueOverview[]
  readonly isExact: boolean
  readonly canPause?: boolean
}): ReactNode {
  const deepest = Math.max(1, ...queues.map(depthOf))
  return (
    <div className="surface table-frame">
      <table className="table queue-table">
        <caption className="only-read">Queues</caption>
        <thead>
          <tr>
            <Headings of={COLUMNS} />
            {canPause ? (
              <th scope="col" className="row-actions">
                <span className="only-read">Actions</span>
              </th>
            ) : null}
          </tr>
        </thead>
        <tbody>
          {queues.map((queue) => (
            <QueueRow key={queue.name} queue={queue} deepest={deepest} isExact={isExact} canPause={canPause} />
          ))}
        </tbody>
      </table>
    </div>
  )
}

interface RowProps {
  readonly queue: QueueOverview
  readonly deepest: number
  readonly isExact: boolean
  readonly canPause: boolean
}

function QueueRow({ queue, deepest, isExact, canPause }: RowProps): ReactNode {
  const { name, paused, ready, running, retrying, scheduled, blocked, dead, oldestAgeS, rates, workers, slots } = queue
  const isUnserved = workers === 0 && ready > 0
  const cell = (state: JobState, count: number) => (
    <Link
      className={count === 0 ? 'count count-none' : 'count'}
      data-state={state}
      href={jobsPath(`state:${state} queue:${quote(name)}`)}
    >
      {countText(count, isExact || count < 10_000)}
    </Link>
  )
  return (
    <tr data-row tabIndex={-1}>
      <th scope="row">
        <Link href={queuePath(name)} className="name" data-open>
          {name}
        </Link>
        {paused ? <span className="tag tag-warning">paused</span> : null}
        {isUnserved ? <span className="tag tag-danger">no worker</span> : null}
        <span className="queue-waits">{waitsText(queue)}</span>
      </th>
      <td className="wide">
        <DepthBar queue={queue} deepest={deepest} />
      </td>
      <td className="number">{cell('ready', ready)}</td>
      <td className="number">{cell('running', running)}</td>
      <td className="number wide">{cell('retrying', retrying)}</td>
      <td className="number wide">{cell('scheduled', scheduled)}</td>
      <td className="number wide">{cell('blocked', blocked)}</td>
      <td className="number">{cell('dead', dead)}</td>
      <td className="number wide">
        {ready === 0 ? <span className="faint">–</span> : durationText(oldestAgeS * 1_000)}
      </td>
      <td className="number wide">
        {rateText(rates.enqueued)} / {rateText(rates.succeeded)}
        <span className="faint"> /s</span>
      </td>
      <td className="number wide" title={countOf(slots, 'slot')}>
        {workers}
      </td>
      {canPause ? (
        <td className="row-actions">
          <PauseButton queue={queue} isSmall />
        </td>
      ) : null}
    </tr>
  )
}

/** What the columns show that narrow windows leave out; empty when that is nothing. */
function waitsText(queue: QueueOverview): string {
  return (['retrying', 'scheduled', 'blocked'] as const)
    .filter((state) => queue[state] > 0)
    .map((state) => `${wholeText(queue[state])} ${state}`)
    .join(', ')
}

function depthOf(queue: QueueOverview): number {
  return DEPTH_STATES.reduce((sum, state) => sum + queue[state], 0)
}

/** The jobs of a queue by state. Its length is the queue's share of the deepest one. */
function DepthBar({ queue, deepest }: { readonly queue: QueueOverview; readonly deepest: number }): ReactNode {
  const depth = depthOf(queue)
  // The square root keeps small queues visible beside one that is a thousand times deeper.
  const width = Math.sqrt(shareOf(depth, deepest)) * 100
  const title = DEPTH_STATES.filter((state) => queue[state] > 0).map((state) => `${wholeText(queue[state])} ${state}`)
  return (
    <span className="depth-bar" title={title.join(', ') || 'empty'} role="img" aria-label={title.join(', ') || 'empty'}>
      <span className="depth-bar-fill" style={{ width: `${width}%` }}>
        {DEPTH_STATES.map((state) =>
          queue[state] === 0 ? null : <span key={state} data-state={state} style={{ flexGrow: queue[state] }} />,
        )}
      </span>
    </span>
  )
}

// The groups of a queue: who waits, who is paused or has stopped, and settings of their own.

import { type ReactNode, useDeferredValue, useRef, useState } from 'react'
import { Link } from 'wouter'
import { useRights } from '../../api/answers.js'
import { useResource } from '../../api/resource.js'
import type { Group, GroupPage, QueueOverview } from '../../api/types.js'
import { quote } from '../../filter/terms.js'
import { jobPath, jobsPath, segment, withQuery } from '../../links.js'
import { wholeText } from '../../numbers.js'
import { Button } from '../../parts/button.js'
import { Empty, Pending } from '../../parts/empty.js'
import { type Heading, Headings } from '../../parts/headings.js'
import { Time } from '../../parts/time.js'
import { rateWords } from '../flow/rates.js'
import { GroupDialog } from './group-dialog.js'
import { GroupPauseButton } from './group-pause-button.js'

const ROWS_MAX = 200
const SEARCHED_FROM = 8
/** The server counts up to this many. */
const COUNTED_MAX = 10_000

const COLUMNS: readonly Heading[] = [
  ['Group'],
  ['Ready', 'number'],
  ['Running', 'number'],
  ['State'],
  ['Settings of its own', 'wide'],
]

export function Groups({ queue }: { readonly queue: QueueOverview }): ReactNode {
  const [text, setText] = useState('')
  const prefix = useDeferredValue(text)
  const path = withQuery(`v1/queues/${segment(queue.name)}/groups`, { limit: ROWS_MAX, prefix })
  const groups = useResource<GroupPage>(path, { everyMs: 3_000 })
  const { operate } = useRights()
  const [edited, setEdited] = useState<Group | null | undefined>(undefined)
  const { value, error } = groups
  // Once shown it stays: it would lose the focus while an answer is awaited.
  const isSearched = useRef(false)
  if (value !== null && (value.cursor !== null || value.groups.length > SEARCHED_FROM)) isSearched.current = true
  const isEmpty = value !== null && value.groups.length === 0
  // Most queues have no groups: nothing is shown that the answer would take away again.
  const isNothing = isEmpty || (value === null && error === null)
  const isUsed = queue.settings.flow !== undefined || text !== '' || isSearched.current || edited !== undefined
  if (isNothing && !isUsed) return null
  return (
    <>
      <div className="beside section-head">
        <h2>Groups</h2>
        {operate ? (
          <Button kind="quiet" icon="plus" onClick={() => setEdited(null)}>
            Settings for a group
          </Button>
        ) : null}
      </div>
      {isSearched.current ? (
        <input
          type="search"
          className="find"
          placeholder="Find by the beginning of a name"
          aria-label="Find a group by the beginning of its name"
          maxLength={200}
          value={text}
          onChange={(event) => setText(event.target.value)}
        />
      ) : null}
      {value === null ? (
        <Pending of={groups} rows={3} />
      ) : isEmpty && text !== '' ? (
        <Empty icon="search" title={`No group begins with “${text}”`} />
      ) : isEmpty ? (
        <p className="faint">No group has ready or running jobs, or settings of its own.</p>
      ) : (
        <GroupTable queue={queue.name} groups={value.groups} onEdit={operate ? setEdited : null} />
      )}
      {value === null || value.cursor === null ? null : (
        <p className="page-note">There are more: the first {ROWS_MAX} by name are shown. Type to find others.</p>
      )}
      {edited === undefined ? null : <GroupDialog queue={queue} group={edited} onClose={() => setEdited(undefined)} />}
    </>
  )
}

interface TableProps {
  readonly queue: string
  readonly groups: readonly Group[]
  /** Null for those who may not. */
  readonly onEdit: ((group: Group) => void) | null
}

function GroupTable({ queue, groups, onEdit }: TableProps): ReactNode {
  // Those that need somebody first, then by how many wait.
  const sorted = [...groups].sort(
    (one, other) => Number(other.paused) - Number(one.paused) || other.ready - one.ready || other.running - one.running,
  )
  return (
    <div className="surface table-frame">
      <table className="table group-table">
        <caption className="only-read">Groups of {queue}</caption>
        <thead>
          <tr>
            <Headings of={COLUMNS} />
            {onEdit === null ? null : (
              <th scope="col" className="row-actions">
                <span className="only-read">Actions</span>
              </th>
            )}
          </tr>
        </thead>
        <tbody>
          {sorted.map((group) => (
            <GroupRow key={group.group} queue={queue} group={group} onEdit={onEdit} />
          ))}
        </tbody>
      </table>
    </div>
  )
}

function GroupRow({ queue, group, onEdit }: Omit<TableProps, 'groups'> & { readonly group: Group }): ReactNode {
  const { group: name, ready, running, override } = group
  const filter = `queue:${quote(queue)} group:${quote(name)}`
  return (
    <tr data-row tabIndex={-1}>
      <th scope="row">
        <Link href={jobsPath(filter)} className="name" data-open>
          {name}
        </Link>
      </th>
      <td className="number">
        <span className={ready === 0 ? 'count count-none' : 'count'} data-state="ready">
          {wholeText(ready)}
          {ready >= COUNTED_MAX ? '+' : ''}
        </span>
      </td>
      <td className="number">
        <span className={running === 0 ? 'count count-none' : 'count'} data-state="running">
          {wholeText(running)}
        </span>
      </td>
      <td>
        <GroupState group={group} />
      </td>
      <td className="wide">{override === null ? <span className="faint">–</span> : overrideWords(override)}</td>
      {onEdit === null ? null : (
        <td className="row-actions">
          <span className="beside">
            <GroupPauseButton queue={queue} group={group} />
            <Button kind="quiet" icon="edit" aria-label={`Settings of group ${name}`} onClick={() => onEdit(group)}>
              Settings
            </Button>
          </span>
        </td>
      )}
    </tr>
  )
}

function GroupState({ group: { paused, stoppedBy, until, ready } }: { readonly group: Group }): ReactNode {
  if (stoppedBy !== null) {
    return (
      <>
        <span className="tag tag-danger">stopped</span>{' '}
        <Link href={jobPath(stoppedBy)} className="group-cause">
          by dead job <code>…{stoppedBy.slice(-8)}</code>
        </Link>
      </>
    )
  }
  if (paused) return <span className="tag tag-warning">paused</span>
  if (until !== null) {
    return (
      <span className="tag tag-warning">
        told to wait, <Time at={until} />
      </span>
    )
  }
  return <span className="faint">{ready === 0 ? 'nothing waits' : 'in turns'}</span>
}

function overrideWords({ concurrency, rate, weight }: NonNullable<Group['override']>): string {
  const words = [
    concurrency === null ? null : `${wholeText(concurrency)} at a time`,
    rate === null ? null : rateWords(rate),
    weight === 1 ? null : `weight ${wholeText(weight)}`,
  ].filter((word) => word !== null)
  return words.length === 0 ? 'weight 1' : words.join(', ')
}

// Jobs as rows, to look through, select and open.

import { Fragment, type ReactNode, useRef, useState } from 'react'
import type { JobSummary } from '../../api/types.js'
import { type Heading, Headings } from '../../parts/headings.js'
import { JobRow } from './job-row.js'
import { idsBetween } from './merge-rows.js'
import { RowDetails } from './row-details.js'

export interface JobTableProps {
  readonly rows: readonly JobSummary[]
  readonly gone: ReadonlySet<string>
  readonly selected: ReadonlySet<string>
  /** Null where nothing can be done to jobs. */
  readonly onSelect: ((selected: ReadonlySet<string>) => void) | null
}

export function JobTable({ rows, gone, selected, onSelect }: JobTableProps): ReactNode {
  const [expanded, setExpanded] = useState<string | null>(null)
  const last = useRef<string | null>(null)
  const select = (id: string, isRange: boolean) => {
    const next = new Set(selected)
    const ids = isRange && last.current !== null ? idsBetween(rows, last.current, id) : [id]
    const isOn = !selected.has(id)
    for (const each of ids) isOn ? next.add(each) : next.delete(each)
    last.current = id
    onSelect?.(next)
  }
  return (
    <div className="surface table-frame">
      <table className="table job-table">
        <caption className="only-read">Jobs, newest first</caption>
        <Head
          areAll={rows.length > 0 && rows.every(({ id }) => selected.has(id))}
          onSelectAll={onSelect && ((isOn) => onSelect(isOn ? new Set(rows.map(({ id }) => id)) : new Set()))}
        />
        <tbody>
          {rows.map((job) => (
            <Fragment key={job.id}>
              <JobRow
                job={job}
                isGone={gone.has(job.id)}
                isSelected={selected.has(job.id)}
                isExpanded={expanded === job.id}
                onExpand={() => setExpanded(expanded === job.id ? null : job.id)}
                onSelect={onSelect === null ? null : (event) => select(job.id, event.shiftKey)}
              />
              {expanded === job.id ? (
                <tr className="row-details">
                  <td colSpan={onSelect === null ? 7 : 8}>
                    <RowDetails job={job} />
                  </td>
                </tr>
              ) : null}
            </Fragment>
          ))}
        </tbody>
      </table>
    </div>
  )
}

const COLUMNS: readonly Heading[] = [
  ['State'],
  ['Job'],
  ['Queue', 'wide'],
  ['Attempt', 'number wide'],
  ['When', 'wide'],
  ['Created', 'number'],
]

interface HeadProps {
  readonly areAll: boolean
  readonly onSelectAll: ((isOn: boolean) => void) | null
}

function Head({ areAll, onSelectAll }: HeadProps): ReactNode {
  return (
    <thead>
      <tr>
        {onSelectAll === null ? null : (
          <th scope="col" className="cell-check">
            <input
              type="checkbox"
              aria-label="Select all jobs shown"
              checked={areAll}
              onChange={() => onSelectAll(!areAll)}
            />
          </th>
        )}
        <Headings of={COLUMNS} />
        <th scope="col" className="cell-expand">
          <span className="only-read">Expand</span>
        </th>
      </tr>
    </thead>
  )
}

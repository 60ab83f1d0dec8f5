// The jobs: found by a filter that is in the page's address, selected, acted on.

import { type ReactNode, useEffect, useState } from 'react'
import { useLocation } from 'wouter'
import { useOverview, useRights } from '../../api/answers.js'
import { ApiError } from '../../api/request.js'
import { useResource } from '../../api/resource.js'
import type { Count, JobSummary } from '../../api/types.js'
import { FilterBar } from '../../filter/filter-bar.js'
import { SavedViewsBar } from '../../filter/saved-views-menu.js'
import { jobsPath, withQuery } from '../../links.js'
import { countText, wholeText } from '../../numbers.js'
import { useParameters } from '../../parameters.js'
import { Button } from '../../parts/button.js'
import { Empty, Pending } from '../../parts/empty.js'
import { Time } from '../../parts/time.js'
import { Page } from '../../shell/page.js'
import { BulkBar } from './bulk-bar.js'
import { type JobRows, ROWS_MAX, useJobRows } from './job-rows.js'
import { JobTable } from './job-table.js'
import { useKnownNames } from './known-names.js'
import { StateFacets } from './state-facets.js'

const NOTHING: ReadonlySet<string> = new Set()
const NO_ROWS: readonly JobSummary[] = []

export function JobsPage(): ReactNode {
  const parameters = useParameters()
  const [, go] = useLocation()
  const filter = parameters.get('filter') ?? ''
  const rights = useRights()
  const jobs = useJobRows(filter)
  const count = useCount(filter)
  const [selected, setSelected] = useState(NOTHING)
  const [isTyping, setTyping] = useState(false)
  const rows = jobs.rows ?? NO_ROWS
  const known = useKnownNames(rows, isTyping)
  // What was selected belongs to the filter it was selected under.
  // biome-ignore lint/correctness/useExhaustiveDependencies: cleared when the filter changes
  useEffect(() => setSelected(NOTHING), [filter])
  const apply = (next: string) => {
    if (next !== filter) go(jobsPath(next))
    else void jobs.refresh()
  }
  return (
    <Page
      title="Jobs"
      beside={count === null ? null : <span className="page-count">{countText(count.count, count.exact)}</span>}
    >
      <FilterBar
        filter={filter}
        onApply={apply}
        known={known}
        onBegin={() => setTyping(true)}
        problem={problemOf(jobs.error)}
        hasFocus={parameters.get('focus') === 'filter'}
      />
      <div className="flow filter-row">
        <StateFacets filter={filter} onApply={apply} />
        <SavedViewsBar filter={filter} onApply={apply} />
      </div>
      <JobList jobs={jobs} filter={filter}>
        <JobTable rows={rows} gone={jobs.gone} selected={selected} onSelect={rights.operate ? setSelected : null} />
      </JobList>
      {rights.operate ? (
        <BulkBar
          filter={filter}
          jobs={rows.filter(({ id }) => selected.has(id))}
          count={count}
          onClear={() => setSelected(NOTHING)}
        />
      ) : null}
    </Page>
  )
}

function useCount(filter: string): Count | null {
  return useResource<Count>(withQuery('v1/jobs/count', { filter, max: 100_000 }), { everyMs: 10_000 }).value
}

/** The server's message about an invalid filter. Its positions count from 1. */
function problemOf(error: unknown): { text: string; position: number | null } | null {
  if (!(error instanceof ApiError) || error.status !== 400) return null
  const { position } = error.details
  return { text: error.message, position: typeof position === 'number' ? position - 1 : null }
}

function JobList({
  jobs,
  filter,
  children,
}: {
  readonly jobs: JobRows
  readonly filter: string
  readonly children: ReactNode
}): ReactNode {
  if (problemOf(jobs.error) !== null) return null
  if (jobs.rows === null) return <Pending of={jobs} rows={12} />
  if (jobs.rows.length === 0) return <NoJobs filter={filter} jobs={jobs} />
  return (
    <>
      <div className="new-rows" aria-live="polite">
        {jobs.newCount === 0 ? null : (
          <button type="button" className="new-rows-button" onClick={jobs.showNew}>
            Show {wholeText(jobs.newCount)}
            {jobs.hasMoreNew ? '+' : ''} new
          </button>
        )}
      </div>
      {children}
      <ListFoot jobs={jobs} />
    </>
  )
}

function ListFoot({ jobs }: { readonly jobs: JobRows }): ReactNode {
  const isFull = (jobs.rows?.length ?? 0) >= ROWS_MAX
  return (
    <div className="flow list-foot">
      {jobs.cursor === null ? (
        <span className="faint">End of the list.</span>
      ) : (
        <Button icon="down" isBusy={jobs.isLoadingMore} onClick={() => void jobs.loadMore()}>
          {isFull ? 'Show older jobs' : 'Load older jobs'}
        </Button>
      )}
      <Searched jobs={jobs} />
    </div>
  )
}

/** How far the search went. A search through payloads is limited. */
function Searched({ jobs: { searched } }: { readonly jobs: JobRows }): ReactNode {
  if (searched?.searchedTo == null) return null
  return (
    <span className="faint">
      Searched {wholeText(searched.searched ?? 0)} jobs, back to <Time at={searched.searchedTo} />.
    </span>
  )
}

function NoJobs({ filter, jobs }: { readonly filter: string; readonly jobs: JobRows }): ReactNode {
  const overview = useOverview().value
  if (filter === '') {
    return (
      <Empty icon="jobs" title="No jobs yet" command={`npx holdfast enqueue hello '{"name":"world"}'`}>
        {overview === null || overview.queues.length === 0
          ? 'The first one appears here as soon as it is enqueued.'
          : 'Finished jobs are removed after the retention time.'}
      </Empty>
    )
  }
  return (
    <Empty
      icon="search"
      title="No matching jobs"
      command={`npx holdfast jobs list --filter '${filter.replaceAll("'", "'\\''")}'`}
    >
      <p>The same filter works in the terminal.</p>
      {jobs.cursor === null ? null : (
        <p>
          <Searched jobs={jobs} />{' '}
          <Button isBusy={jobs.isLoadingMore} onClick={() => void jobs.loadMore()}>
            Search further back
          </Button>
        </p>
      )}
    </Empty>
  )
}

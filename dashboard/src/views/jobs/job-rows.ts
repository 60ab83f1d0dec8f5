// The rows of the jobs page. The first page is refreshed in place, older pages are added below on request.

import { useCallback, useEffect, useRef, useState } from 'react'
import { messageOf, request } from '../../api/request.js'
import { useResource } from '../../api/resource.js'
import type { JobPage, JobSummary } from '../../api/types.js'
import { withQuery } from '../../links.js'
import { countOf } from '../../numbers.js'
import { announce, toast } from '../../parts/announce.js'
import { appendRows, mergeRows } from './merge-rows.js'

const PAGE_ROWS = 50
/** More rows than this make the page slow; a narrower filter helps more. */
export const ROWS_MAX = 200

export interface JobRows {
  /** Null until the first answer. */
  readonly rows: readonly JobSummary[] | null
  readonly gone: ReadonlySet<string>
  readonly newCount: number
  readonly hasMoreNew: boolean
  /** Where older ones begin, or null at the end. */
  readonly cursor: string | null
  readonly searched: Pick<JobPage, 'searched' | 'searchedTo'> | null
  readonly error: unknown
  readonly isLoadingMore: boolean
  showNew(): void
  loadMore(): Promise<void>
  refresh(): Promise<void>
}

interface Shown {
  readonly filter: string
  readonly rows: readonly JobSummary[]
  readonly gone: ReadonlySet<string>
  readonly newCount: number
  readonly cursor: string | null
  readonly searched: Pick<JobPage, 'searched' | 'searchedTo'>
}

function begin(filter: string, { jobs, cursor, searched, searchedTo }: JobPage): Shown {
  return { filter, rows: jobs, gone: new Set(), newCount: 0, cursor, searched: { searched, searchedTo } }
}

export function useJobRows(filter: string): JobRows {
  const page = useResource<JobPage>(withQuery('v1/jobs', { filter, limit: PAGE_ROWS }), { everyMs: 3_000 })
  const [shown, setShown] = useState<Shown | null>(null)
  const [isLoadingMore, setLoadingMore] = useState(false)
  const current = shown?.filter === filter ? shown : null
  const announced = useRef('')

  useEffect(() => {
    const fresh = page.value
    if (fresh === null) return
    setShown((before) => {
      if (before === null || before.filter !== filter || before.rows.length === 0) return begin(filter, fresh)
      const { rows, gone, newCount } = mergeRows(before.rows, fresh.jobs, fresh.cursor === null)
      return { ...before, rows, gone, newCount }
    })
    if (announced.current !== filter) announce(`${countOf(fresh.jobs.length, 'job')} shown`)
    announced.current = filter
  }, [page.value, filter])

  const showNew = useCallback(() => {
    if (page.value !== null) setShown(begin(filter, page.value))
  }, [page.value, filter])

  const loadMore = useCallback(async () => {
    if (current === null || current.cursor === null) return
    setLoadingMore(true)
    try {
      const older = await request<JobPage>(withQuery('v1/jobs', { filter, limit: PAGE_ROWS, cursor: current.cursor }))
      setShown((before) => (before === null || before.filter !== filter ? before : extend(before, older)))
    } catch (error) {
      toast('failed', messageOf(error))
    } finally {
      setLoadingMore(false)
    }
  }, [current, filter])

  return {
    rows: current?.rows ?? null,
    gone: current?.gone ?? NONE,
    newCount: current?.newCount ?? 0,
    hasMoreNew: (current?.newCount ?? 0) >= PAGE_ROWS,
    cursor: current?.cursor ?? null,
    searched: current?.searched ?? null,
    error: page.error,
    isLoadingMore,
    showNew,
    loadMore,
    refresh: page.refresh,
  }
}

const NONE: ReadonlySet<string> = new Set()

function extend(before: Shown, older: JobPage): Shown {
  const searched = {
    searched: (before.searched.searched ?? 0) + (older.searched ?? 0),
    searchedTo: older.searchedTo,
  }
  // A full screen begins anew with the older ones instead of growing.
  const rows = before.rows.length >= ROWS_MAX ? older.jobs : appendRows(before.rows, older.jobs, ROWS_MAX)
  return { ...before, rows, cursor: older.cursor, searched }
}

// Names to offer in the filter bar, from what the page has loaded and from two small requests.

import { useMemo } from 'react'
import { useOverview, useSchedules, useWorkers } from '../../api/answers.js'
import type { JobSummary } from '../../api/types.js'
import type { KnownNames } from '../../filter/suggest.js'

/** `isWanted` becomes true when the user begins to type. */
export function useKnownNames(rows: readonly JobSummary[], isWanted: boolean): KnownNames {
  const queues = useOverview().value?.queues
  const workers = useWorkers(null, isWanted).value?.workers
  const schedules = useSchedules(null, isWanted).value?.schedules
  return useMemo(
    () => ({
      queues: unique(queues?.map(({ name }) => name) ?? []),
      types: unique([
        ...rows.map(({ type }) => type),
        ...(workers ?? []).flatMap(({ types }) => types ?? []),
        ...(schedules ?? []).map(({ type }) => type),
      ]),
      groups: unique(rows.flatMap(({ flow }) => flow?.group ?? [])),
      tags: unique(rows.flatMap(({ tags }) => tags)),
      workers: unique((workers ?? []).map(({ id }) => id)),
      schedules: unique((schedules ?? []).map(({ name }) => name)),
    }),
    [queues, rows, workers, schedules],
  )
}

function unique(names: readonly string[]): readonly string[] {
  return [...new Set(names)].sort()
}

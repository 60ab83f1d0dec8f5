// The time that matters most for a job in its state.

import type { JobSummary } from '../../api/types.js'

export interface Moment {
  readonly word: string
  readonly at: string | null
}

export function momentOf(job: Pick<JobSummary, 'state' | 'runAt' | 'startedAt' | 'finishedAt' | 'createdAt'>): Moment {
  switch (job.state) {
    case 'scheduled':
      return { word: 'runs', at: job.runAt }
    case 'retrying':
      return { word: 'retries', at: job.runAt }
    case 'running':
      return { word: 'started', at: job.startedAt }
    case 'succeeded':
      return { word: 'finished', at: job.finishedAt }
    case 'dead':
      return { word: 'died', at: job.finishedAt }
    case 'cancelled':
      return { word: 'cancelled', at: job.finishedAt }
    case 'blocked':
      return { word: 'waiting since', at: job.createdAt }
    case 'ready':
      return { word: 'waiting since', at: job.runAt ?? job.createdAt }
  }
}

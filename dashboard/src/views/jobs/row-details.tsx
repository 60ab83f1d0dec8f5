// More about a job, without leaving the list.

import type { ReactNode } from 'react'
import { Link } from 'wouter'
import type { JobSummary } from '../../api/types.js'
import { jobPath, jobsPath } from '../../links.js'
import { Facts, fact, idFact } from '../../parts/facts.js'
import { Time } from '../../parts/time.js'
import { ErrorBox } from '../job/error-box.js'

export function RowDetails({ job }: { readonly job: JobSummary }): ReactNode {
  return (
    <div className="details">
      {job.error === null ? null : <ErrorBox error={job.error} />}
      <Facts
        facts={[
          idFact(job.id),
          fact('Queue', job.queue),
          fact('Attempt', `${job.attempt} of ${job.maxAttempts}`),
          job.worker === null ? null : fact('Worker', job.worker),
          job.runAt === null ? null : fact('Runs at', <Time at={job.runAt} />),
          job.idempotencyKey === null ? null : fact('Idempotency key', job.idempotencyKey),
          job.schedule === null ? null : fact('Schedule', job.schedule.name),
        ]}
      />
      <p className="details-links">
        <Link href={jobPath(job.id)}>Open the job</Link>
        <Link href={jobsPath(`type:${job.type}`)}>Other jobs of this type</Link>
      </p>
    </div>
  )
}

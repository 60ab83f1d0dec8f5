// "Why isn't it running?", answered by the server.

import type { ReactNode } from 'react'
import { useResource } from '../../api/resource.js'
import type { Explanation, Job } from '../../api/types.js'
import { segment } from '../../links.js'
import { Icon } from '../../parts/icons.js'

const QUESTIONS: Readonly<Partial<Record<Job['state'], string>>> = {
  blocked: 'Why isn’t it running?',
  scheduled: 'Why isn’t it running?',
  ready: 'Why isn’t it running?',
  retrying: 'Why isn’t it running?',
  running: 'What is it doing?',
  dead: 'Why is it dead?',
}

export function ExplainBox({ job }: { readonly job: Job }): ReactNode {
  const question = QUESTIONS[job.state]
  const path = question === undefined ? null : `v1/jobs/${segment(job.id)}/explain`
  const { value, error } = useResource<Explanation>(path, { everyMs: 3_000 })
  if (question === undefined || (value === null && error !== null)) return null
  return (
    <section className="below explain" aria-label={question} data-state={job.state}>
      <h2>
        <Icon name="note" />
        {question}
      </h2>
      {value === null ? (
        <p className="faint">Loading…</p>
      ) : (
        <>
          {value.reasons.length === 0 ? (
            <p className="explain-summary">{value.summary}</p>
          ) : (
            value.reasons.map(({ code, text }) => (
              <p key={`${code} ${text}`} className="explain-summary">
                {sentence(text)}
              </p>
            ))
          )}
          {value.next.map((step) => (
            <p key={step} className="explain-next">
              {sentence(step)}
            </p>
          ))}
        </>
      )}
    </section>
  )
}

/** A part of a sentence as a whole one. */
function sentence(text: string): string {
  return `${text.charAt(0).toUpperCase()}${text.slice(1)}${/[.!?…]$/.test(text) ? '' : '.'}`
}

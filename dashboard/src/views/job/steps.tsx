// The steps, effects and waits that a job has behind it. An attempt that comes later does none of them again.

import { type ReactNode, useState } from 'react'
import type { Job } from '../../api/types.js'
import { useObservable } from '../../observable.js'
import { Button } from '../../parts/button.js'
import { timeMode } from '../../time/clock.js'
import { absoluteText, fullText } from '../../time/format.js'

const STEPS_SHOWN = 100

type Step = NonNullable<Job['steps']>[number]

const WORDS: Readonly<Record<Step['kind'], string>> = { step: 'step', effect: 'effect', wait: 'signal', child: 'child' }

export function Steps({ job }: { readonly job: Job }): ReactNode {
  const { steps = [], wait } = job
  const [count, setCount] = useState(STEPS_SHOWN)
  const isUtc = useObservable(timeMode) === 'utc'
  const zone = isUtc ? 'UTC' : null
  if (steps.length === 0 && wait === undefined) return null
  const shown = steps.slice(-count)
  return (
    <section className="surface panel" aria-label="Steps">
      <header className="flow panel-head">
        <h2>Steps</h2>
        <span className="faint">{steps.length === 1 ? '1 finished' : `${steps.length} behind it`}</span>
      </header>
      {steps.length > count ? (
        <Button kind="quiet" onClick={() => setCount(count + STEPS_SHOWN)}>
          Show {Math.min(STEPS_SHOWN, steps.length - count)} earlier steps
        </Button>
      ) : null}
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: a region that scrolls must be reachable by keyboard */}
      <ol className="logs" tabIndex={0}>
        {shown.map((step) => {
          const atMs = Date.parse(step.beganAt)
          return (
            <li key={`${step.kind} ${step.name}`}>
              <time dateTime={step.beganAt} title={fullText(atMs, zone)}>
                {absoluteText(atMs, atMs, zone)}
              </time>
              <span>{stepText(step)}</span>
            </li>
          )
        })}
        {wait === undefined ? null : (
          <li>
            <time dateTime={wait.since} title={fullText(Date.parse(wait.since), zone)}>
              {absoluteText(Date.parse(wait.since), Date.parse(wait.since), zone)}
            </time>
            <span>waits for the signal {wait.name}</span>
          </li>
        )}
      </ol>
    </section>
  )
}

function stepText({ kind, name, attempt, begun, beganAt, endedAt }: Step): string {
  const times = begun === 1 ? '' : `, begun ${begun} times`
  const took = endedAt === null ? 'not known how it ended' : `${Date.parse(endedAt) - Date.parse(beganAt)} ms`
  return `${WORDS[kind]} ${name}: attempt ${attempt}, ${took}${times}`
}

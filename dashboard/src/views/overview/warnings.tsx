// What is wrong, on top of everything, each with what to do.

import type { ReactNode } from 'react'
import { Link } from 'wouter'
import { useWarnings } from '../../api/answers.js'
import type { Warning } from '../../api/types.js'
import { deadPath, queuePath } from '../../links.js'
import { Command } from '../../parts/copy.js'
import { Icon } from '../../parts/icons.js'

const ORDER = { error: 0, warning: 1, note: 2 } as const

export function Warnings(): ReactNode {
  const warnings = useWarnings()
  if (warnings === null || warnings.length === 0) return null
  const sorted = [...warnings].sort((a, b) => ORDER[a.level] - ORDER[b.level])
  return (
    <section className="warnings" aria-label="Warnings" aria-live="polite">
      {sorted.map((warning) => (
        <WarningLine key={`${warning.code} ${warning.queue ?? ''} ${warning.text}`} warning={warning} />
      ))}
    </section>
  )
}

function WarningLine({ warning }: { readonly warning: Warning }): ReactNode {
  const { code, level, text, queue, next } = warning
  return (
    <div className="warning" data-level={level}>
      <Icon name={level === 'note' ? 'note' : 'warning'} />
      <div className="warning-body">
        <p>
          <span className="only-read">{level}: </span>
          {text}
          {queue === null ? null : (
            <>
              {' '}
              {code === 'dead_growing' ? (
                <Link href={deadPath(queue)}>See its dead letters</Link>
              ) : (
                <Link href={queuePath(queue)}>Open queue</Link>
              )}
            </>
          )}
        </p>
        {isCommand(next) ? <Command text={next} /> : <p className="warning-next">{next}</p>}
      </div>
    </div>
  )
}

/** The server's advice is a sentence or a command to run. */
function isCommand(text: string): boolean {
  return /^(npx )?holdfast /.test(text)
}

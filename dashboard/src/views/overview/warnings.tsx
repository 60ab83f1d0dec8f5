// The warnings, each with what to do about it.

import type { ReactNode } from 'react'
import { Link } from 'wouter'
import { useWarnings } from '../../api/answers.js'
import type { Warning } from '../../api/types.js'
import { deadPath, limitPath, queuePath } from '../../links.js'
import { Command } from '../../parts/copy.js'
import { Icon } from '../../parts/icons.js'

const ORDER = { error: 0, warning: 1, note: 2 } as const

export function Warnings(): ReactNode {
  const warnings = useWarnings()
  if (warnings === null || warnings.length === 0) return null
  const sorted = [...warnings].sort((a, b) => ORDER[a.level] - ORDER[b.level])
  return (
    <section className="below warnings" aria-label="Warnings" aria-live="polite">
      {sorted.map((warning) => (
        <WarningLine
          key={`${warning.code} ${warning.queue ?? ''} ${warning.limit ?? ''} ${warning.text}`}
          warning={warning}
        />
      ))}
    </section>
  )
}

function WarningLine({ warning }: { readonly warning: Warning }): ReactNode {
  const { code, level, text, queue, limit, next } = warning
  // The advice is a sentence, a command, or a sentence that ends in a command.
  const command = /\b(?:npx )?holdfast .*$/.exec(next)?.[0]
  const words = next.slice(0, next.length - (command?.length ?? 0)).trim()
  return (
    <div className="beside warning" data-level={level}>
      <Icon name={level === 'note' ? 'note' : 'warning'} />
      <div className="flow warning-body">
        <p>
          <span className="only-read">{level}: </span>
          {text}
          {limit === undefined ? null : (
            <>
              {' '}
              <Link href={limitPath(limit)}>Open limit</Link>
            </>
          )}
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
        {words === '' ? null : <p className="warning-next">{words}</p>}
        {command === undefined ? null : <Command text={command} />}
      </div>
    </div>
  )
}

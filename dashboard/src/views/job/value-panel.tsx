// The payload or the result of a job: as a tree, as text, to be copied; masked where the server masks it.

import { type ReactNode, useMemo, useState } from 'react'
import { bytesText } from '../../numbers.js'
import { CopyButton } from '../../parts/copy.js'
import { Icon } from '../../parts/icons.js'
import { JsonView } from '../../parts/json-view.js'
import { Segments } from '../../parts/segments.js'
import { maskedPaths } from './masked-paths.js'

/** Larger values begin closed. */
const CLOSED_FROM_BYTES = 20_000
/** More than this is not put on the screen as one text. */
const RAW_MAX = 200_000

export function ValuePanel({
  title,
  value,
  redacted,
  actions,
}: {
  readonly title: 'Payload' | 'Result'
  readonly value: unknown
  readonly redacted: readonly string[]
  readonly actions?: ReactNode
}): ReactNode {
  const [look, setLook] = useState<'tree' | 'raw'>('tree')
  const text = useMemo(() => JSON.stringify(value, null, 2) ?? 'null', [value])
  const masked = useMemo(() => maskedPaths(redacted, title === 'Payload' ? 'payload' : 'result'), [redacted, title])
  return (
    <section className="surface panel" aria-label={title}>
      <header className="flow panel-head">
        <h2>{title}</h2>
        <span className="faint">{bytesText(text.length)}</span>
        {masked.size === 0 ? null : (
          <span className="tag" title={[...masked].join(', ')}>
            <Icon name="lock" size={12} /> {masked.size} masked
          </span>
        )}
        <span className="beside panel-actions">
          {actions}
          <Segments
            label={`Show the ${title.toLowerCase()} as`}
            choices={[
              { value: 'tree', text: 'Tree' },
              { value: 'raw', text: 'Raw' },
            ]}
            value={look}
            onChange={setLook}
          />
          <CopyButton text={text} label={`Copy the ${title.toLowerCase()}`} />
        </span>
      </header>
      {look === 'tree' ? (
        <JsonView key={text.length} value={value} masked={masked} isClosed={text.length > CLOSED_FROM_BYTES} />
      ) : (
        // biome-ignore lint/a11y/noNoninteractiveTabindex: a region that scrolls must be reachable by keyboard
        <pre className="json" tabIndex={0}>
          {text.length > RAW_MAX ? `${text.slice(0, RAW_MAX)}\n… cut off here; copy it to get all of it` : text}
        </pre>
      )}
    </section>
  )
}

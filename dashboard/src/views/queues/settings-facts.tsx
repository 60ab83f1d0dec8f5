// The settings of a queue, with the defaults where it sets none.

import type { ReactNode } from 'react'
import type { QueueSettings } from '../../api/types.js'
import { Facts, fact } from '../../parts/facts.js'
import { writeDuration } from './durations.js'

export function SettingsFacts({ settings }: { readonly settings: QueueSettings }): ReactNode {
  const { limits, retentionMs, spread } = settings
  const bound = (ms: number | null | undefined, fallback: string) =>
    ms === undefined ? <Default text={fallback} /> : ms === null ? 'none' : writeDuration(ms)
  return (
    <Facts
      facts={[
        fact('Attempts', limits.maxAttempts ?? <Default text="25" />),
        fact('Timeout of an attempt', bound(limits.timeoutMs, '1h')),
        fact('Maximum age', bound(limits.maxAgeMs, 'none')),
        fact(
          'Retry',
          limits.retry === undefined ? <Default text="exponential from 1s to 1h, jitter" /> : retryText(limits.retry),
        ),
        fact('Finished jobs kept', bound(retentionMs, 'as set on the server')),
        spread === undefined ? null : fact('Spread', `over ${spread} shards, in order within each`),
      ]}
    />
  )
}

function Default({ text }: { readonly text: string }): ReactNode {
  return (
    <span className="faint" title="The default; a job or its definition may set another">
      {text} (default)
    </span>
  )
}

function retryText({ backoff, baseMs, capMs, jitter }: NonNullable<QueueSettings['limits']['retry']>): string {
  const rest = jitter ? ', jitter' : ''
  if (typeof backoff !== 'string') return `${backoff.map(writeDuration).join(', ')}${rest}`
  if (backoff === 'fixed') return `every ${writeDuration(baseMs)}${rest}`
  return `${backoff} from ${writeDuration(baseMs)} to ${writeDuration(capMs)}${rest}`
}

// Flow control of a queue in words.

import type { ReactNode } from 'react'
import type { QueueFlow } from '../../api/types.js'
import { wholeText } from '../../numbers.js'
import { Facts, fact } from '../../parts/facts.js'
import { rateWords } from '../flow/rates.js'
import { writeDuration } from './durations.js'

export function FlowFacts({ flow }: { readonly flow: QueueFlow | undefined }): ReactNode {
  if (flow === undefined) return <p className="faint">None: its jobs start as soon as a worker has room.</p>
  const { concurrency, rate, maxDepth, onFull, agingMs, groups } = flow
  const bound = (value: number | null, text: (value: number) => string) => (value === null ? null : text(value))
  const isBare = groups.concurrency === null && groups.rate === null && !groups.ordered && groups.maxDepth === null
  const full = onFull === 'wait' ? 'then an enqueue waits' : 'then an enqueue is refused'
  return (
    <Facts
      facts={[
        fact('Concurrency', bound(concurrency, wholeText) ?? 'any'),
        fact('Rate', rate === null ? 'any' : rateWords(rate)),
        fact(
          'Most ready jobs',
          bound(maxDepth, (most) => `${wholeText(most)}, ${full}`),
        ),
        fact(
          'Aging',
          bound(agingMs, (ms) => `one priority more each ${writeDuration(ms)}`),
        ),
        fact('Groups', isBare ? 'take turns' : groupWords(groups)),
      ]}
    />
  )
}

function groupWords({ concurrency, rate, ordered, onRetry, onDead, maxDepth }: QueueFlow['groups']): string {
  const words = [
    ordered ? 'ordered, one job at a time' : null,
    ordered ? (onRetry === 'wait' ? 'a retry keeps the others waiting' : 'others pass a job that retries') : null,
    ordered && onDead === 'stop' ? 'a dead job stops its group' : null,
    !ordered && concurrency !== null ? `${wholeText(concurrency)} at a time` : null,
    rate === null ? null : rateWords(rate),
    maxDepth === null ? null : `at most ${wholeText(maxDepth)} ready`,
  ]
  return words.filter((word) => word !== null).join('; ')
}

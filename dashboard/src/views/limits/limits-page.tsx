// All limits: how much of each is used, and which breakers are open.

import { type ReactNode, useDeferredValue, useRef, useState } from 'react'
import { useRights } from '../../api/answers.js'
import { useResource } from '../../api/resource.js'
import type { LimitPage } from '../../api/types.js'
import { withQuery } from '../../links.js'
import { Button } from '../../parts/button.js'
import { Empty, Pending } from '../../parts/empty.js'
import { Page } from '../../shell/page.js'
import { LimitDialog } from './limit-dialog.js'
import { LimitTable } from './limit-table.js'

const ROWS_MAX = 200
/** With fewer there is nothing to search. */
const SEARCHED_FROM = 8

const EXAMPLE = `await holdfast.setLimit('stripe', {
  concurrency: 20, rate: '100/s',
  breaker: { failures: 0.5, cooldown: '15s' },
})`

export function LimitsPage(): ReactNode {
  const [text, setText] = useState('')
  const prefix = useDeferredValue(text.trim())
  const limits = useResource<LimitPage>(withQuery('v1/limits', { limit: ROWS_MAX, prefix }), { everyMs: 2_000 })
  const { operate, allQueues } = useRights()
  const [isCreating, setCreating] = useState(false)
  const { value } = limits
  // Once shown it stays: it would lose the focus while an answer is awaited.
  const isSearched = useRef(false)
  if (value !== null && (value.cursor !== null || value.limits.length > SEARCHED_FROM)) isSearched.current = true
  const isEmpty = value !== null && value.limits.length === 0
  return (
    <Page
      title="Limits"
      beside={value === null ? null : <span className="page-count">{value.limits.length}</span>}
      actions={
        operate && allQueues ? (
          <Button icon="plus" onClick={() => setCreating(true)}>
            New limit
          </Button>
        ) : undefined
      }
    >
      {isSearched.current ? (
        <input
          type="search"
          className="find"
          placeholder="Find by the beginning of a name"
          aria-label="Find a limit by the beginning of its name"
          value={text}
          onChange={(event) => setText(event.target.value)}
        />
      ) : null}
      {value === null ? (
        <Pending of={limits} />
      ) : isEmpty && prefix !== '' ? (
        <Empty icon="search" title={`No limit begins with “${prefix}”`} />
      ) : isEmpty ? (
        <Empty icon="limits" title="No limits yet">
          <p>
            A limit bounds how many jobs run or start, over all queues and processes. Jobs name the limits they count
            in.
          </p>
          <pre className="block">{EXAMPLE}</pre>
        </Empty>
      ) : (
        <LimitTable limits={value.limits} />
      )}
      {value === null || value.cursor === null ? null : (
        <p className="page-note">The first {ROWS_MAX} by name are shown; type to find others.</p>
      )}
      {isCreating ? <LimitDialog limit={null} onClose={() => setCreating(false)} /> : null}
    </Page>
  )
}

// A bulk action in progress. It runs on the server: the dialog may be closed.

import type { ReactNode } from 'react'
import { Link } from 'wouter'
import { change } from '../../api/request.js'
import { useResource } from '../../api/resource.js'
import type { Bulk } from '../../api/types.js'
import { ACTION_WORDS, DONE_WORDS } from '../../job-actions.js'
import { segment } from '../../links.js'
import { countOf, wholeText } from '../../numbers.js'
import { useAction } from '../../parts/action.js'
import { Button } from '../../parts/button.js'
import { Dialog } from '../../parts/dialog.js'
import { Waiting } from '../../parts/empty.js'
import { Meter } from '../../parts/meter.js'

export function isGoing({ state }: Bulk): boolean {
  return state === 'waiting' || state === 'running'
}

export function BulkProgress({ id, onClose }: { readonly id: string; readonly onClose: () => void }): ReactNode {
  const bulk = useResource<Bulk>(`v1/bulk/${segment(id)}`, { everyMs: 1_000 }).value
  return (
    <Dialog
      title={bulk === null ? 'Bulk action' : `${ACTION_WORDS[bulk.action]}: ${bulk.state}`}
      onClose={onClose}
      actions={
        <>
          {bulk !== null && isGoing(bulk) ? <CancelBulk bulk={bulk} /> : null}
          <Button kind="primary" onClick={onClose}>
            {bulk !== null && isGoing(bulk) ? 'Continue in the background' : 'Close'}
          </Button>
        </>
      }
    >
      {bulk === null ? <Waiting rows={2} /> : <BulkFigures bulk={bulk} />}
      <p className="faint">
        It runs on the server, even if you close this page. <Link href="/bulk">Bulk actions</Link> shows all of them.
      </p>
    </Dialog>
  )
}

/** How far it is, in a bar and in words. */
export function BulkFigures({ bulk }: { readonly bulk: Bulk }): ReactNode {
  const { action, matched, expected, done, refused, state, error, perSecond } = bulk
  // What it tries may in the end be more or less than what was counted before it began.
  const total = isGoing(bulk) ? Math.max(expected ?? 0, matched) : matched
  const tone = state === 'failed' ? 'danger' : state === 'done' ? 'done' : state === 'cancelled' ? 'warning' : 'accent'
  const leftS = perSecond === null || !isGoing(bulk) ? null : Math.ceil((total - matched) / perSecond)
  return (
    <div className="bulk-figures">
      <Meter label="Progress" value={state === 'done' ? 1 : matched} total={state === 'done' ? 1 : total} tone={tone} />
      <span>
        {wholeText(done)} of {countOf(total, 'job')} {DONE_WORDS[action]}
        {refused === 0 ? '' : ` · ${wholeText(refused)} refused`}
        {perSecond === null ? '' : ` · ${perSecond}/s`}
        {leftS === null || leftS <= 0
          ? ''
          : ` · about ${leftS < 120 ? `${leftS} s` : `${Math.ceil(leftS / 60)} min`} left`}
      </span>
      {error === null ? null : <span className="field-problem">{error}</span>}
    </div>
  )
}

export function CancelBulk({ bulk }: { readonly bulk: Bulk }): ReactNode {
  const { isBusy, run } = useAction()
  const stop = () => run(() => change('POST', `v1/bulk/${segment(bulk.id)}/cancel`), 'The bulk action is stopped')
  return (
    <Button kind="quiet" isBusy={isBusy} onClick={() => void stop()}>
      Stop
    </Button>
  )
}

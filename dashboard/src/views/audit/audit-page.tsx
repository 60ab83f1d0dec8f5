// Who did what, newest first.

import { type ReactNode, useState } from 'react'
import { Link } from 'wouter'
import { messageOf, request } from '../../api/request.js'
import { useResource } from '../../api/resource.js'
import type { AuditEntry, AuditPage as AuditPageBody } from '../../api/types.js'
import { jobPath, withQuery } from '../../links.js'
import { useParameters } from '../../parameters.js'
import { toast } from '../../parts/announce.js'
import { Button } from '../../parts/button.js'
import { Empty, Pending } from '../../parts/empty.js'
import { type Heading, Headings } from '../../parts/headings.js'
import { Time } from '../../parts/time.js'
import { Page } from '../../shell/page.js'
import { AuditFilters } from './audit-filters.js'

const PAGE_LINES = 100
const LINES_MAX = 500
const COLUMNS: readonly Heading[] = [['When'], ['Who', 'wide'], ['What'], ['On'], ['Details', 'wide']]

export function AuditPage(): ReactNode {
  const parameters = useParameters()
  const query = { actor: parameters.get('actor'), action: parameters.get('action'), job: parameters.get('job') }
  const path = withQuery('v1/audit', { ...query, limit: PAGE_LINES })
  return (
    <Page title="Audit">
      <AuditFilters />
      <Lines key={path} path={path} />
    </Page>
  )
}

function Lines({ path }: { readonly path: string }): ReactNode {
  const page = useResource<AuditPageBody>(path, { everyMs: 10_000 })
  const { value } = page
  const [older, setOlder] = useState<AuditPageBody | null>(null)
  const [isBusy, setBusy] = useState(false)
  if (value === null) return <Pending of={page} />
  const known = new Set(value.entries.map(({ line }) => line))
  const lines = [...value.entries, ...(older?.entries.filter(({ line }) => !known.has(line)) ?? [])].slice(0, LINES_MAX)
  const next = older === null ? value.next : older.next
  const load = async () => {
    setBusy(true)
    try {
      const below = await request<AuditPageBody>(`${path}&before=${next}`)
      setOlder({ entries: [...(older?.entries ?? []), ...below.entries], next: below.next })
    } catch (cause) {
      toast('failed', messageOf(cause))
    } finally {
      setBusy(false)
    }
  }
  if (lines.length === 0) {
    return (
      <Empty icon="audit" title="No entries">
        Every change that an operator makes, in the dashboard, over HTTP or in the terminal, is recorded here.
      </Empty>
    )
  }
  return (
    <>
      <div className="surface table-frame">
        <table className="table audit-table">
          <caption className="only-read">Audit lines, newest first</caption>
          <thead>
            <tr>
              <Headings of={COLUMNS} />
            </tr>
          </thead>
          <tbody>
            {lines.map((line) => (
              <Line key={line.line} line={line} />
            ))}
          </tbody>
        </table>
      </div>
      {next !== null && lines.length < LINES_MAX ? (
        <div className="flow list-foot">
          <Button icon="down" isBusy={isBusy} onClick={() => void load()}>
            Load older lines
          </Button>
        </div>
      ) : null}
    </>
  )
}

function Line({ line: { at, actor, action, job, target, details } }: { readonly line: AuditEntry }): ReactNode {
  const text = details === null ? '' : JSON.stringify(details)
  return (
    <tr data-row tabIndex={-1}>
      <td>
        <Time at={at} />
      </td>
      <td className="wide">
        <span className="clip">{actor}</span>
      </td>
      <td>
        <span className="tag clip">{action}</span>
        <span className="phone-line clip">{actor}</span>
      </td>
      <td className="cut cell-clip">
        {job === null ? (
          (target ?? <span className="faint">–</span>)
        ) : (
          <Link href={jobPath(job)} data-open>
            <code>…{job.slice(-8)}</code>
          </Link>
        )}
      </td>
      <td className="cut wide cell-clip" title={text.slice(0, 1_000)}>
        <code className="faint">{text.slice(0, 200)}</code>
      </td>
    </tr>
  )
}

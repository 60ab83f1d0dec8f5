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
import { Empty, Failed, Waiting } from '../../parts/empty.js'
import { Time } from '../../parts/time.js'
import { Page } from '../../shell/page.js'
import { AuditFilters } from './audit-filters.js'

const PAGE_LINES = 100
const LINES_MAX = 500

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
  const { value, error, refresh } = useResource<AuditPageBody>(path, { everyMs: 10_000 })
  const [older, setOlder] = useState<AuditPageBody | null>(null)
  const [isBusy, setBusy] = useState(false)
  if (value === null) return error === null ? <Waiting /> : <Failed error={error} onRetry={refresh} />
  const known = new Set(value.entries.map(({ line }) => line))
  const lines = [...value.entries, ...(older?.entries.filter(({ line }) => !known.has(line)) ?? [])].slice(0, LINES_MAX)
  const next = older === null ? value.next : older.next
  const load = async () => {
    setBusy(true)
    try {
      const page = await request<AuditPageBody>(`${path}&before=${next}`)
      setOlder({ entries: [...(older?.entries ?? []), ...page.entries], next: page.next })
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
      <div className="table-frame">
        <table className="table audit-table">
          <caption className="only-read">Audit lines, newest first</caption>
          <thead>
            <tr>
              <th scope="col">When</th>
              <th scope="col" className="wide">
                Who
              </th>
              <th scope="col">What</th>
              <th scope="col">On</th>
              <th scope="col" className="wide">
                Details
              </th>
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
        <div className="list-foot">
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
      <td className="cell-clip">
        {job === null ? (
          (target ?? <span className="faint">–</span>)
        ) : (
          <Link href={jobPath(job)} data-open>
            <code>…{job.slice(-8)}</code>
          </Link>
        )}
      </td>
      <td className="wide cell-clip" title={text.slice(0, 1_000)}>
        <code className="faint">{text.slice(0, 200)}</code>
      </td>
    </tr>
  )
}

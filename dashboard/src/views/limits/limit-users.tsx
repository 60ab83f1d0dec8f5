// Whose jobs name a limit, and how many of them are ready.

import type { ReactNode } from 'react'
import { Link } from 'wouter'
import type { LimitDetails } from '../../api/types.js'
import { quote } from '../../filter/terms.js'
import { jobsPath, limitPath, queuePath } from '../../links.js'
import { wholeText } from '../../numbers.js'
import { type Heading, Headings } from '../../parts/headings.js'

const COLUMNS: readonly Heading[] = [['Queue'], ['All limits of these jobs'], ['Ready', 'number']]
/** The server counts up to this many. */
const COUNTED_MAX = 1_000

export function LimitUsers({ users }: { readonly users: LimitDetails['users'] }): ReactNode {
  const sorted = [...users].sort((one, other) => other.ready - one.ready)
  return (
    <>
      <div className="beside section-head">
        <h2>Who waits for it</h2>
      </div>
      {users.length === 0 ? (
        <p className="faint">No job has named it yet.</p>
      ) : (
        <div className="surface table-frame">
          <table className="table">
            <caption className="only-read">Queues whose jobs name this limit</caption>
            <thead>
              <tr>
                <Headings of={COLUMNS} />
              </tr>
            </thead>
            <tbody>
              {sorted.map(({ queue, limits, ready }) => (
                <tr key={`${queue} ${limits.join()}`} data-row tabIndex={-1}>
                  <th scope="row">
                    <Link href={queuePath(queue)} className="name" data-open>
                      {queue}
                    </Link>
                  </th>
                  <td>
                    <span className="tags">
                      {limits.map((name) => (
                        <Link key={name} href={limitPath(name)} className="tag">
                          {name}
                        </Link>
                      ))}
                    </span>
                  </td>
                  <td className="number">
                    <Link
                      className={ready === 0 ? 'count count-none' : 'count'}
                      data-state="ready"
                      href={jobsPath(`state:ready queue:${quote(queue)}`)}
                    >
                      {wholeText(ready)}
                      {ready >= COUNTED_MAX ? '+' : ''}
                    </Link>
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </>
  )
}

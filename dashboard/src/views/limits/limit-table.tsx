// Limits as rows. Those with an open breaker come first.

import type { ReactNode } from 'react'
import { Link } from 'wouter'
import type { Limit } from '../../api/types.js'
import { limitPath, queuePath } from '../../links.js'
import { type Heading, Headings } from '../../parts/headings.js'
import { Time } from '../../parts/time.js'
import { rateWords } from '../flow/rates.js'
import { BreakerBadge } from './breaker-badge.js'
import { ConcurrencyMeter, RateMeter } from './limit-meters.js'

const COLUMNS: readonly Heading[] = [['Limit'], ['Running'], ['Rate', 'wide'], ['Breaker'], ['From', 'wide']]

export function LimitTable({ limits }: { readonly limits: readonly Limit[] }): ReactNode {
  const isOpen = ({ breaker }: Limit) => breaker !== null && breaker.position !== 'closed'
  const sorted = [...limits.filter(isOpen), ...limits.filter((limit) => !isOpen(limit))]
  return (
    <div className="surface table-frame">
      <table className="table limit-table">
        <caption className="only-read">Limits</caption>
        <thead>
          <tr>
            <Headings of={COLUMNS} />
          </tr>
        </thead>
        <tbody>
          {sorted.map((limit) => (
            <LimitRow key={limit.name} limit={limit} />
          ))}
        </tbody>
      </table>
    </div>
  )
}

const QUEUE_PREFIX = 'queue:'

function LimitRow({ limit }: { readonly limit: Limit }): ReactNode {
  const { name, rate, breaker, until, origin } = limit
  const isOfQueue = name.startsWith(QUEUE_PREFIX)
  return (
    <tr data-row tabIndex={-1}>
      <th scope="row">
        <Link
          href={isOfQueue ? queuePath(name.slice(QUEUE_PREFIX.length)) : limitPath(name)}
          className="name"
          data-open
        >
          {name}
        </Link>
        {until === null ? null : (
          <span className="tag tag-warning">
            told to wait, <Time at={until} />
          </span>
        )}
      </th>
      <td className="limit-use">
        <ConcurrencyMeter limit={limit} />
      </td>
      <td className="wide limit-use">
        {rate === null ? (
          <span className="faint">–</span>
        ) : (
          <>
            <span className="limit-rate">{rateWords(rate)}</span>
            <RateMeter limit={limit} />
          </>
        )}
      </td>
      <td>
        {breaker === null ? <span className="faint">–</span> : <BreakerBadge breaker={breaker} />}
        {breaker !== null && breaker.position === 'open' && breaker.probeAt !== null ? (
          <span className="limit-note">
            probed <Time at={breaker.probeAt} />
          </span>
        ) : null}
      </td>
      <td className="wide faint">
        {isOfQueue ? 'its queue' : origin === 'definition' ? 'a definition' : 'an operator'}
      </td>
    </tr>
  )
}

// The most important numbers. Each links to the jobs it counts.

import type { ReactNode } from 'react'
import { useWorkers } from '../../api/answers.js'
import type { Overview } from '../../api/types.js'
import { jobsPath } from '../../links.js'
import { countText, rateText, shortText } from '../../numbers.js'
import { Meter } from '../../parts/meter.js'
import { Tile } from '../../parts/tile.js'
import { durationText } from '../../time/format.js'
import { totalsOf } from '../../totals.js'

export function Tiles({ overview }: { readonly overview: Overview }): ReactNode {
  const totals = totalsOf(overview.queues)
  const workers = useWorkers(5_000).value?.workers.filter(({ live }) => live)
  const slots = workers?.reduce((sum, { concurrency }) => sum + concurrency, 0) ?? 0
  const { rates } = totals
  const count = (value: number) => (value >= 100_000 ? shortText(value) : countText(value, overview.exact))
  return (
    <div className="surface tiles">
      <Tile
        label="Throughput"
        value={rateText(rates.succeeded)}
        unit="/s"
        href={jobsPath('state:succeeded')}
        state="succeeded"
      >
        {rateText(rates.enqueued)}/s enqueued
      </Tile>
      <Tile label="Ready" value={count(totals.ready)} href={jobsPath('state:ready')} state="ready">
        {totals.ready === 0
          ? 'none waiting'
          : `oldest ${durationText(totals.oldestAgeS * 1_000)}${totals.oldestQueue === null ? '' : ` in ${totals.oldestQueue}`}`}
      </Tile>
      <Tile label="Running" value={count(totals.running)} href={jobsPath('state:running')} state="running">
        {workers === undefined ? null : workers.length === 0 ? (
          'no live worker'
        ) : (
          <span className="beside tile-meter">
            <Meter label="Slots in use" value={totals.running} total={slots} />
            {slots === 1 ? '1 slot' : `${shortText(slots)} slots`}
          </span>
        )}
      </Tile>
      <Tile label="Retrying" value={count(totals.retrying)} href={jobsPath('state:retrying')} state="retrying">
        {rateText(rates.failed)}/s failing
      </Tile>
      <Tile label="Scheduled" value={count(totals.scheduled)} href={jobsPath('state:scheduled')} state="scheduled">
        {totals.blocked === 0 ? 'none blocked' : `${count(totals.blocked)} blocked`}
      </Tile>
      <Tile label="Dead" value={count(totals.dead)} href="/dead" state="dead" isAlarm={rates.dead > 0}>
        {rates.dead === 0 ? 'none this minute' : `${rateText(rates.dead * 60)} this minute`}
      </Tile>
    </div>
  )
}

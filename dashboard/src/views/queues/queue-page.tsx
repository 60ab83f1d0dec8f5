// One queue: its numbers, its charts, its groups, its settings.

import { type ReactNode, useState } from 'react'
import { Link } from 'wouter'
import { useOverview, useRights } from '../../api/answers.js'
import type { QueueOverview } from '../../api/types.js'
import { ChartPanel, RangeSwitch } from '../../charts/panel.js'
import { quote } from '../../filter/terms.js'
import { jobsPath, segment } from '../../links.js'
import { countOf, countText, rateText } from '../../numbers.js'
import { Button } from '../../parts/button.js'
import { Empty, Pending } from '../../parts/empty.js'
import { Icon } from '../../parts/icons.js'
import { Tile } from '../../parts/tile.js'
import { Page } from '../../shell/page.js'
import { durationText } from '../../time/format.js'
import { FlowDialog } from './flow-dialog.js'
import { FlowFacts } from './flow-facts.js'
import { Groups } from './groups.js'
import { PauseButton } from './pause-button.js'
import { SettingsDialog } from './settings-dialog.js'
import { SettingsFacts } from './settings-facts.js'

export function QueuePage({ name }: { readonly name: string }): ReactNode {
  const overview = useOverview()
  const { value } = overview
  const { operate } = useRights()
  const [edited, setEdited] = useState<'settings' | 'flow' | null>(null)
  const queue = value?.queues.find((candidate) => candidate.name === name)
  const back = (
    <Link href="/queues" className="back" aria-label="All queues">
      <Icon name="left" />
    </Link>
  )
  if (queue === undefined) {
    return (
      <Page title={name} before={back}>
        {value !== null ? (
          <Empty icon="queues" title="There is no such queue" command={`npx holdfast enqueue hello --queue ${name}`}>
            A queue is created with its first job.
          </Empty>
        ) : (
          <Pending of={overview} />
        )}
      </Page>
    )
  }
  return (
    <Page
      title={name}
      before={back}
      beside={queue.paused ? <span className="tag tag-warning">paused</span> : null}
      actions={
        <>
          <PauseButton queue={queue} />
          {operate ? (
            <Button icon="edit" onClick={() => setEdited('settings')}>
              Settings
            </Button>
          ) : null}
          <Link href={jobsPath(`queue:${quote(name)}`)} className="button button-plain">
            <Icon name="jobs" /> Jobs
          </Link>
        </>
      }
    >
      <QueueTiles queue={queue} isExact={value?.exact ?? true} />
      <div className="beside section-head">
        <h2>Activity</h2>
        <RangeSwitch />
      </div>
      <ChartPanel queue={name} />
      <Groups queue={queue} />
      <div className="columns">
        <section aria-label="Flow control">
          <div className="beside section-head">
            <h2>Flow control</h2>
            {operate ? (
              <Button kind="quiet" icon="edit" aria-label="Change flow control" onClick={() => setEdited('flow')}>
                Change
              </Button>
            ) : null}
          </div>
          <FlowFacts flow={queue.settings.flow} />
        </section>
        <section aria-label="Settings">
          <div className="beside section-head">
            <h2>Settings</h2>
          </div>
          <SettingsFacts settings={queue.settings} />
        </section>
      </div>
      {edited === 'settings' ? <SettingsDialog queue={queue} onClose={() => setEdited(null)} /> : null}
      {edited === 'flow' ? <FlowDialog queue={queue} onClose={() => setEdited(null)} /> : null}
    </Page>
  )
}

function QueueTiles({ queue, isExact }: { readonly queue: QueueOverview; readonly isExact: boolean }): ReactNode {
  const to = (state: string) => jobsPath(`state:${state} queue:${quote(queue.name)}`)
  const count = (value: number) => countText(value, isExact || value < 10_000)
  const { rates } = queue
  return (
    <div className="surface tiles">
      <Tile label="Throughput" value={rateText(rates.succeeded)} unit="/s" href={to('succeeded')} state="succeeded">
        {rateText(rates.enqueued)}/s enqueued
      </Tile>
      <Tile label="Ready" value={count(queue.ready)} href={to('ready')} state="ready">
        {queue.ready === 0 ? 'none waiting' : `oldest ${durationText(queue.oldestAgeS * 1_000)}`}
      </Tile>
      <Tile label="Running" value={count(queue.running)} href={to('running')} state="running">
        {queue.workers === 0
          ? 'no live worker'
          : `${countOf(queue.workers, 'worker')}, ${countOf(queue.slots, 'slot')}`}
      </Tile>
      <Tile label="Retrying" value={count(queue.retrying)} href={to('retrying')} state="retrying">
        {rateText(rates.failed)}/s failing
      </Tile>
      <Tile label="Scheduled" value={count(queue.scheduled)} href={to('scheduled')} state="scheduled">
        {queue.blocked === 0 ? 'none blocked' : `${count(queue.blocked)} blocked`}
      </Tile>
      <Tile label="Dead" value={count(queue.dead)} href={`/dead?queue=${segment(queue.name)}`} state="dead">
        {rates.dead === 0 ? 'none this minute' : `${rateText(rates.dead * 60)} this minute`}
      </Tile>
    </div>
  )
}

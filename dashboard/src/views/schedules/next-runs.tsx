// The next five runs, in the schedule's zone and in the reader's, with a word about clocks that change.

import type { ReactNode } from 'react'
import type { Schedule } from '../../api/types.js'
import { Icon } from '../../parts/icons.js'
import { useNow } from '../../time/clock.js'
import { relativeText, runText } from '../../time/format.js'
import { clockNote, zoneDistance } from './words.js'

const OWN_ZONE: string = Intl.DateTimeFormat().resolvedOptions().timeZone

export function NextRuns({ schedule: { zone, next } }: { readonly schedule: Schedule }): ReactNode {
  const now = useNow()
  const note = clockNote(zone, now)
  const distance = zoneDistance(zone, OWN_ZONE, now)
  if (next.length === 0) return <p className="faint">No further runs.</p>
  return (
    <>
      <table className="runs">
        <caption className="only-read">Next runs</caption>
        <thead>
          <tr>
            <th scope="col">
              {zone}
              {distance === null ? null : <span className="faint"> ({distance})</span>}
            </th>
            <th scope="col">Your time ({OWN_ZONE})</th>
            <th scope="col" className="number">
              From now
            </th>
          </tr>
        </thead>
        <tbody>
          {next.slice(0, 5).map((at) => {
            const atMs = Date.parse(at)
            return (
              <tr key={at}>
                <td>{safeRunText(atMs, zone)}</td>
                <td>{runText(atMs, null)}</td>
                <td className="number">{relativeText(atMs, now)}</td>
              </tr>
            )
          })}
        </tbody>
      </table>
      {note === null ? null : (
        <p className="clock-note">
          <Icon name="clock" /> {note}
        </p>
      )}
    </>
  )
}

/** A zone newer than the browser's own list is shown in UTC. */
function safeRunText(atMs: number, zone: string): string {
  try {
    return runText(atMs, zone)
  } catch {
    return `${runText(atMs, 'UTC')} UTC`
  }
}

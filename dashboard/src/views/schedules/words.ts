// A cron expression in plain words, and what to know about its time zone.

import cronstrue from 'cronstrue'
import { nextClockChange, offsetMinutes } from '../../time/clock-change.js'
import { runText } from '../../time/format.js'

/** "At 09:00, Monday through Friday", or null for an expression that cannot be described. */
export function cronWords(cron: string): string | null {
  try {
    return cronstrue.toString(cron, { use24HourTimeFormat: true, verbose: false })
  } catch {
    return null
  }
}

const LOOK_AHEAD_DAYS = 45

/** What the next change of the clocks does to the runs, when it is near; null when there is none. */
export function clockNote(zone: string, fromMs: number): string | null {
  const change = nextClockChange(zone, fromMs, LOOK_AHEAD_DAYS)
  if (change === null) return null
  const size = Math.abs(change.minutes)
  const amount = size === 60 ? 'an hour' : `${size} minutes`
  const when = runText(change.atMs - 60_000, zone).split(',')[0]
  if (change.minutes > 0) {
    return `Clocks in ${zone} go forward ${amount} on ${when}: a fixed time inside the gap runs right after it; of several times a day, those inside it are skipped.`
  }
  return `Clocks in ${zone} go back ${amount} on ${when}: a fixed time that comes twice runs once; of several times a day, those that come twice run twice.`
}

/** How far the zone is from the reader's: "5 h ahead of you", or null when both show the same. */
export function zoneDistance(zone: string, ownZone: string, atMs: number): string | null {
  const minutes = offsetMinutes(zone, atMs) - offsetMinutes(ownZone, atMs)
  if (minutes === 0) return null
  const hours = Math.abs(minutes) / 60
  return `${Number.isInteger(hours) ? hours : hours.toFixed(1)} h ${minutes > 0 ? 'ahead of' : 'behind'} you`
}

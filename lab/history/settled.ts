// Checks the end of a lease: by the fence that holds, or because it had expired; with attempts and crashes counted correctly.

import { isFinished } from '../../src/core/states.js'
import type { JobSettled } from './events.js'
import { type Life, type Reading, ROOM_MS, report } from './life.js'
import { holderOf, shown } from './steps.js'

/** A settlement that took effect. */
export function settled(reading: Reading, life: Life, event: JobSettled): void {
  const { at, fence, to, rescued, attempts, crashes } = event
  const mayCount = checkFence(reading, life, event)
  if (rescued && event.strayed !== true && life.lease !== null && at < life.lease.leasedUntil - ROOM_MS) {
    const until = shown(life.lease.leasedUntil)
    report(
      reading,
      'I3',
      event.job,
      `taken from fence ${life.lease.fence} at ${shown(at)}, before its lease ran out, ${until}`,
    )
  }
  if (mayCount) checkCounts(reading, life, event)
  if (life.cancelAsked && (to === 'retrying' || to === 'ready' || to === 'scheduled')) {
    report(reading, 'I16', event.job, `became ${to} at ${shown(at)} though its cancel had been requested`)
  }
  countEnd(reading, life, event)
  if (to === 'succeeded') life.success = { fence, tx: event.tx }
  else life.leasesWithoutSuccess++
  const ranOutAt = rescued ? (life.lease?.leasedUntil ?? null) : null
  if (ranOutAt !== null) reading.rescues.push(Math.max(0, at - ranOutAt))
  // A suspect that waits out a backoff, or a dead job that waits for an operator, is not slow to recover.
  life.ranOutAt = to === 'ready' ? ranOutAt : null
  life.lease = null
  life.state = to
  life.attempts = attempts
  life.crashes = crashes
  life.dueAt = event.notBefore
  life.readySince = to === 'ready' ? at : null
  life.finishedAt = isFinished(to) ? at : null
}

/** True when the lease held. */
function checkFence(reading: Reading, life: Life, { job, at, fence, to }: JobSettled): boolean {
  if (life.lease?.fence === fence) return true
  const last = life.fences[life.fences.length - 1]
  if (life.lease === null && isFinished(life.state) && fence === last) {
    report(reading, 'I13', job, `became ${to} at ${shown(at)} by fence ${fence} when it was ${life.state}`)
  } else {
    report(reading, 'I4', job, `became ${to} at ${shown(at)} by fence ${fence} when ${holderOf(life)}`)
  }
  return false
}

function checkCounts(reading: Reading, life: Life, event: JobSettled): void {
  const wrong = wrongCount(reading, life, event) ?? wrongEnd(life, event)
  if (wrong !== null) report(reading, 'I5', event.job, `became ${event.to} at ${shown(event.at)} ${wrong}`)
}

/** What is wrong with the counts after the settlement, or null. */
function wrongCount(
  reading: Reading,
  life: Life,
  { to, rescued, attempts, crashes, reason }: JobSettled,
): string | null {
  const attempt = life.lease!.attempt
  const counted = `with ${attempts} attempts and ${crashes} crashes counted after attempt ${attempt} and ${life.crashes} crashes`
  const isKept = attempts === attempt
  const isGivenBack = attempts === attempt - 1
  const hasCrashed = crashes === life.crashes + 1
  if (!hasCrashed && crashes !== life.crashes) return counted
  if (!isKept && !isGivenBack) return counted
  // A requested cancel changes the job's next state, not the counts. Either count may be right.
  if (to === 'cancelled') return null
  // The job died before its handler was called: it was too old, or its limit was lowered.
  if (to === 'dead' && isGivenBack && !hasCrashed && (reason === 'expired' || reason === 'attempts')) return null
  // For an expired lease: blamed and counted, or neither if no handler had started.
  if (rescued) return hasCrashed === isKept ? null : counted
  // For a child that ended: its worker counts the crash without waiting for the lease.
  if (hasCrashed) return isKept && reading.run?.hasChildren === true ? null : counted
  const isGift = to === 'ready' || to === 'scheduled'
  return isGift === isGivenBack ? null : counted
}

/** A message if it had to die and did not, or died without need; otherwise null. */
function wrongEnd(life: Life, { to, reason, attempts, crashes, rescued }: JobSettled): string | null {
  if (life.stored === null) return null
  const { maxAttempts, maxCrashes } = life.stored
  if (attempts > maxAttempts) return `after ${attempts} attempts of at most ${maxAttempts}`
  if (to === 'dead') {
    if (reason === null) return 'without a reason'
    if (reason === 'attempts' && attempts < maxAttempts) return `for its attempts after ${attempts} of ${maxAttempts}`
    if (reason === 'crashed' && crashes < maxCrashes) return `for its crashes after ${crashes} of ${maxCrashes}`
    return null
  }
  if (to === 'succeeded' || to === 'cancelled') return null
  if (crashes >= maxCrashes) return `after ${crashes} crashes of at most ${maxCrashes}`
  const isCounted = to === 'retrying' || (rescued && attempts === life.lease!.attempt)
  return isCounted && attempts >= maxAttempts ? `though all ${maxAttempts} attempts were used up` : null
}

function countEnd(reading: Reading, life: Life, { to, rescued }: JobSettled): void {
  if (rescued) reading.counts.rescues++
  if (to === 'retrying' && !rescued) reading.counts.retries++
  if ((to === 'ready' || to === 'scheduled') && !rescued) reading.counts.releases++
  life.lastEnd = rescued ? 'rescue' : to === 'retrying' ? 'failure' : 'release'
}

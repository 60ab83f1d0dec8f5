// Checks one step of a job's life, as the store recorded it. After a violation the check continues from the store's state, so that
// one mistake is reported once.

import { isFinished } from '../../src/core/states.js'
import type { JobClaimed, JobOperated, JobPromoted, LeaseExtended } from './events.js'
import { type Life, type Reading, ROOM_MS, report } from './life.js'

/** A claim: of a job that is ready, by a fence that grew, with its attempt counted, not before its time. */
export function claimed(reading: Reading, life: Life, event: JobClaimed): void {
  const { job, at, fence, attempt } = event
  checkClaimable(reading, life, event)
  const last = life.fences[life.fences.length - 1]
  if (last !== undefined && fence <= last) {
    report(reading, 'I4', job, `claimed under fence ${fence}, which is not above the last one, ${last}`)
  }
  if (attempt !== life.attempts + 1) {
    report(reading, 'I5', job, `claimed as attempt ${attempt} when ${life.attempts} had been counted`)
  }
  checkLeaseTime(reading, event)
  countClaim(reading, life, at)
  life.lease = { fence, attempt, claimedAt: at, leasedUntil: event.leasedUntil }
  life.fences.push(fence)
  life.attempts = attempt
  life.state = 'running'
  life.dueAt = null
  life.readySince = null
  life.cancelAsked = false
}

function checkClaimable(reading: Reading, life: Life, { job, at, fence, worker, strayed }: JobClaimed): void {
  if (life.lease !== null) {
    const until = `fence ${life.lease.fence}, good until ${shown(life.lease.leasedUntil)}`
    report(reading, 'I3', job, `claimed by ${worker} under fence ${fence} at ${shown(at)} while leased under ${until}`)
  } else if (isFinished(life.state)) {
    report(reading, 'I13', job, `claimed by ${worker} at ${shown(at)} when it was ${life.state}`)
  } else if (strayed !== true && life.dueAt !== null && at < life.dueAt - ROOM_MS) {
    report(reading, 'I8', job, `claimed ${since(at, life.dueAt)} before its time, ${shown(life.dueAt)}`)
  }
  if (life.state === 'blocked') checkParents(reading, life)
}

function checkLeaseTime(reading: Reading, { job, at, leasedUntil, strayed }: JobClaimed | LeaseExtended): void {
  if (strayed === true) return
  const most = at + (reading.run?.leaseMs ?? Number.POSITIVE_INFINITY)
  if (leasedUntil > most + ROOM_MS) {
    report(
      reading,
      'I3',
      job,
      `leased until ${shown(leasedUntil)}, later than the lease from the store's time, ${shown(most)}`,
    )
  }
}

function countClaim(reading: Reading, life: Life, at: number): void {
  reading.counts.claims++
  if (life.lastEnd === 'rescue') reading.redeliveries.afterRescue++
  if (life.lastEnd === 'failure') reading.redeliveries.afterFailure++
  if (life.lastEnd === 'release') reading.redeliveries.afterRelease++
  if (life.lastEnd === 'requeue') reading.redeliveries.afterRequeue++
  if (life.ranOutAt !== null) reading.recoveries.push(Math.max(0, at - life.ranOutAt))
  life.ranOutAt = null
  life.lastEnd = null
}

/** All parents have finished when the job moves on, and none died if that cancels it. A parent may be requeued later. */
export function checkParents(reading: Reading, life: Life): void {
  for (const parent of life.stored?.after ?? []) {
    const state = reading.lives.get(parent)?.state
    if (state === undefined || !isFinished(state)) {
      report(reading, 'I16', life.job, `went on while ${parent}, which it comes after, was ${state ?? 'unknown'}`)
    } else if (state !== 'succeeded' && life.stored?.onParentDead === 'cancel') {
      report(reading, 'I16', life.job, `went on though ${parent}, which it comes after, was ${state}`)
    }
  }
}

/** An extension: by the fence that holds. It may come late, as long as no other worker has taken the job. */
export function extended(reading: Reading, life: Life, event: LeaseExtended): void {
  reading.counts.extensions++
  if (life.lease === null || life.lease.fence !== event.fence) {
    report(reading, 'I4', event.job, `extended under fence ${event.fence} when ${holderOf(life)}`)
    return
  }
  checkLeaseTime(reading, event)
  life.lease.leasedUntil = event.leasedUntil
}

/** A promotion: of a job that waited, when its time had come. */
export function promoted(reading: Reading, life: Life, { job, at, to = 'ready', strayed }: JobPromoted): void {
  if (isFinished(life.state)) {
    report(reading, 'I13', job, `became ${to} at ${shown(at)} when it was ${life.state}`)
  } else if (life.lease !== null) {
    report(reading, 'I3', job, `became ${to} at ${shown(at)} while it was running under fence ${life.lease.fence}`)
    life.lease = null
  } else if (strayed !== true && to === 'ready' && life.dueAt !== null && at < life.dueAt - ROOM_MS) {
    report(reading, 'I8', job, `became ready ${since(at, life.dueAt)} before its time, ${shown(life.dueAt)}`)
  }
  if (life.state === 'blocked') checkParents(reading, life)
  life.state = to
  if (to === 'scheduled') return
  life.dueAt = null
  life.readySince = at
}

/** What an operator or a caller did: each action leaves from the states it may. */
export function operated(reading: Reading, life: Life, event: JobOperated): void {
  const { job, at, action, to } = event
  if (isFinished(life.state) && !(life.state === 'dead' && (action === 'requeue' || action === 'discard'))) {
    report(reading, 'I13', job, `${action} at ${shown(at)} took effect when it was ${life.state}`)
  } else if (life.lease !== null && action !== 'ask to cancel') {
    report(reading, 'I3', job, `${action} at ${shown(at)} took it from fence ${life.lease.fence}, which held it`)
    life.lease = null
  }
  if (action === 'ask to cancel') {
    life.cancelAsked = true
    return
  }
  if (action === 'requeue') {
    life.attempts = 0
    life.crashes = 0
    life.lastEnd = 'requeue'
  }
  life.state = to
  // From now on the operator's action decides when it runs.
  life.ranOutAt = null
  life.finishedAt = isFinished(to) ? at : null
  if (action !== 'update') life.dueAt = null
  else if (event.notBefore !== undefined) life.dueAt = event.notBefore
  life.readySince = to === 'ready' ? (life.readySince ?? at) : null
}

/** A store time in a message. */
export function shown(at: number): string {
  return Number.isFinite(at) ? new Date(at).toISOString().slice(11) : String(at)
}

function since(early: number, late: number): string {
  return `${(late - early).toFixed(1)} ms`
}

/** Who holds the job, for a message. */
export function holderOf(life: Life): string {
  return life.lease === null ? `it was ${life.state}` : `fence ${life.lease.fence} held it`
}

// Checks handlers: each ran under a lease of the store and started once, its effects are bounded, and no effect began after the
// lease was known to be lost.

import { isFinished } from '../../src/core/states.js'
import type { EffectRecord, HandlerRecord } from './events.js'
import { isClaimUndone, type Life, type Reading, report } from './life.js'

const ABORT_MARGIN_MS = 1_000

/** Reads the handlers' records, then checks them against the jobs' lives. */
export class Handlers {
  readonly #reading: Reading
  readonly #started = new Map<string, HandlerRecord>()
  readonly #lost = new Map<string, HandlerRecord>()
  readonly #effects: EffectRecord[] = []

  constructor(reading: Reading) {
    this.#reading = reading
  }

  /** Takes a record of a worker's process. */
  read(event: HandlerRecord | EffectRecord): void {
    const lease = `${event.job} ${event.fence}`
    if (event.ev === 'effect.begin') this.#effects.push(event)
    else if (event.ev === 'started') this.#start(lease, event)
    else if (event.ev === 'lost_lease') {
      this.#reading.counts.lostLeases++
      if (!this.#lost.has(lease)) this.#lost.set(lease, event)
    }
  }

  #start(lease: string, event: HandlerRecord): void {
    const other = this.#started.get(lease)
    if (other !== undefined) {
      const what = `its handler started twice under fence ${event.fence}: in ${nameOf(other)} and in ${nameOf(event)}`
      report(this.#reading, 'I3', event.job, what)
    }
    this.#started.set(lease, event)
  }

  /** Called once all lives are known. */
  check(): void {
    for (const event of this.#started.values()) this.#checkStart(event)
    for (const event of this.#effects) this.#checkAbort(event)
    for (const life of this.#reading.lives.values()) this.#checkEffects(life)
  }

  #checkStart(event: HandlerRecord): void {
    const life = this.#reading.lives.get(event.job)
    const isKnown = life !== undefined && hasFence(life, event.fence)
    if (!isKnown && isClaimUndone(this.#reading, event.fence)) this.#reading.counts.claimsUndone++
    else if (!isKnown) {
      report(
        this.#reading,
        'I4',
        event.job,
        `its handler started under fence ${event.fence}, which the store never gave`,
      )
    }
    const most = life?.stored?.maxAttempts ?? Number.POSITIVE_INFINITY
    if (event.attempt > most) {
      report(this.#reading, 'I5', event.job, `its handler started as attempt ${event.attempt} of at most ${most}`)
    }
  }

  #checkAbort(event: EffectRecord): void {
    const lost = this.#lost.get(`${event.job} ${event.fence}`)
    if (lost === undefined || lost.process !== event.process || lost.processRun !== event.processRun) return
    const lateMs = event.mono - lost.mono
    if (lateMs <= (this.#reading.run?.abortMarginMs ?? ABORT_MARGIN_MS)) return
    const what = `${nameOf(event)} began an effect under fence ${event.fence} ${lateMs.toFixed(0)} ms after it knew its lease was lost`
    report(this.#reading, 'I15', event.job, what)
  }

  #checkEffects(life: Life): void {
    const { counts } = this.#reading
    const inside = life.effects.filter(({ inTransaction }) => inTransaction)
    const outside = life.effects.filter(({ inTransaction }) => !inTransaction)
    counts.effectsInTransaction += inside.length
    counts.effectsOutside += outside.length
    counts.effectsRepeated += Math.max(0, outside.length - 1)
    const wrong = wrongInside(life, inside) ?? wrongOutside(this.#reading, life, outside)
    if (wrong !== null) report(this.#reading, 'I6', life.job, wrong)
  }
}

function wrongInside(life: Life, inside: Life['effects']): string | null {
  const expected = life.stored?.effect
  const isExpected = expected === 'in transaction' || expected === 'both'
  if (inside.length > 1) return `its effect was applied ${inside.length} times in transactions`
  const effect = inside[0]
  if (effect === undefined) {
    return isExpected && life.state === 'succeeded' ? 'succeeded without the effect of its transaction' : null
  }
  if (life.success === null) return `its effect was applied in a transaction, but it is ${life.state}`
  if (life.success.fence !== effect.fence) {
    return `its effect was applied in a transaction of fence ${effect.fence}, but fence ${life.success.fence} succeeded`
  }
  const isApart = effect.tx !== undefined && life.success.tx !== undefined && effect.tx !== life.success.tx
  return isApart
    ? `its effect (transaction ${effect.tx}) and its success (${life.success.tx}) did not commit together`
    : null
}

function wrongOutside(reading: Reading, life: Life, outside: Life['effects']): string | null {
  const expected = life.stored?.effect
  if (outside.length === 0) {
    const isExpected = expected === 'outside' || expected === 'both'
    return isExpected && life.state === 'succeeded' ? 'succeeded without its effect' : null
  }
  const fences = new Set(outside.map(({ fence }) => fence))
  if (fences.size < outside.length) return `its effect was applied twice under one fence`
  const strange = outside.filter(({ fence }) => !hasFence(life, fence))
  const unknown = strange.find(({ fence }) => !isClaimUndone(reading, fence))
  if (unknown !== undefined) return `its effect was applied under fence ${unknown.fence}, which the store never gave`
  const open = isFinished(life.state) ? 0 : 1
  const most = (life.success === null ? 0 : 1) + life.leasesWithoutSuccess + open + strange.length
  return outside.length > most ? `its effect was applied ${outside.length} times by ${most} leases` : null
}

function hasFence(life: Life, fence: number): boolean {
  // A job has few claims, and the last one is the likeliest.
  return life.fences.lastIndexOf(fence) !== -1
}

function nameOf({ process, processRun }: { readonly process: string; readonly processRun: number }): string {
  return `${process}/${processRun}`
}

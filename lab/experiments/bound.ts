// Names what bounds a run, from the evidence and nothing else.

import type { Evidence, WaitCount } from './evidence.js'

/** With less idle time than this on the whole machine, processors are the bound. */
const IDLE_SHARE_MAX = 0.1
/** With less than this, jobs hold their slots longer because they wait for a processor. */
const IDLE_SHARE_NONE = 0.03
const SLOTS_SHARE = 0.95

export interface Load {
  /** Jobs that ran on average, and slots there were. */
  readonly running: number
  readonly slots: number
}

/** One sentence: the bound, and the figures it is read from. */
export function nameBound(evidence: Evidence, load: Load | null = null): string {
  const { cpu } = evidence
  const busy = cpu.machineBusy / cpu.machineCores
  const parts = [
    `machine ${cpu.machineBusy.toFixed(2)} of ${cpu.machineCores} cores busy`,
    ...named('server', cpu.server),
    ...named('workers', cpu.workers),
    ...named('producers', cpu.producers),
    ...named('others', othersOf(evidence)),
  ].join(', ')
  const waits = topWaits(evidence, 3).map(describeWait).join('; ')
  const figures = `${parts}. Waits: ${waits === '' ? 'none seen' : waits}.`
  if (busy >= 1 - IDLE_SHARE_NONE) return `Processor time: ${figures}`
  if (load !== null && load.running >= SLOTS_SHARE * load.slots) {
    return `Slots: ${Math.round(load.running)} of ${load.slots} were taken, handlers hold them. ${figures}`
  }
  if (busy >= 1 - IDLE_SHARE_MAX) return `Processor time: ${figures}`
  const [top] = topWaits(evidence, 1)
  if (top === undefined) return `Nothing on the server: no connection was seen waiting. ${figures}`
  return `${top.type} ${top.event} (${top.who}): ${figures}`
}

/** Processor time of neither the server nor the experiment's processes: the lab itself and other programs. */
function othersOf({ cpu }: Evidence): number | null {
  if (cpu.server === null) return null
  return Math.max(0, cpu.machineBusy - cpu.server - (cpu.workers ?? 0) - (cpu.producers ?? 0))
}

function named(name: string, cores: number | null): string[] {
  return cores === null ? [] : [`${name} ${cores.toFixed(2)}`]
}

/** What was waited for most, apart from a processor and from clients. */
function topWaits({ waits }: Evidence, count: number): readonly WaitCount[] {
  return waits.filter(({ type }) => type !== 'CPU' && type !== 'Client').slice(0, count)
}

function describeWait({ who, type, event, average }: WaitCount): string {
  return `${who} ${type}/${event} ${average.toFixed(2)} on average`
}

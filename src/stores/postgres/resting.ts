// What a process does with its connections and wake-ups while it has nothing to do. ◄── core/quiet.ts, through the store

import type { Pulse, PulseRequest, UpkeepStore } from '../../core/upkeep-store.js'
import type { Database } from './database.js'
import { PULSE, pulseValues, readPulse } from './pulse.js'
import type { WakeUps } from './wake.js'

/** The store's part in the rest of its process. */
export function resting(
  db: Database,
  wakeUps: WakeUps,
): Required<Pick<UpkeepStore, 'hears' | 'pulse' | 'rest' | 'stir' | 'announceDue'>> {
  const { receiver } = wakeUps
  let toldDueMs = Number.NEGATIVE_INFINITY
  return {
    hears: () => receiver.hears,
    // On the connection that receives wake-ups: the answer shows that it still works, and that its server takes writes.
    async pulse(request: PulseRequest): Promise<Pulse> {
      const values = pulseValues(db.now(), request)
      const isOpen = receiver.hears
      return readPulse(
        isOpen ? await receiver.write(db.queryOf(PULSE, values)) : await db.send('upkeep', PULSE, values),
      )
    },
    rest(mode) {
      receiver.rest(mode !== null)
      if (mode === null) return
      wakeUps.sender.hangUp()
      // The next job finds the two connections open that it needs first.
      db.rest(mode === 'sleep' ? [] : ['enqueue', 'claim'])
    },
    stir: () => wakeUps.tell('w'),
    // Others are notified unless they know of an earlier time: then they look, and learn the next.
    announceDue(dueInMs) {
      const nowMs = performance.now()
      if (toldDueMs > nowMs && toldDueMs <= nowMs + dueInMs) return
      toldDueMs = nowMs + dueInMs
      wakeUps.tell(`t ${Math.ceil(dueInMs)}`)
    },
  }
}

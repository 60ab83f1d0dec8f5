// Where a claim starts while somebody holds an old snapshot. Then no dead row can be cleared away, and a claim that reads the
// line from its beginning steps over every job that ever stood there since: after minutes at thousands a second that takes
// seconds. So claims start above the last place they took, and now and then a look at what lies below finds the few that came
// late: written by a transaction that took its place in line long before it committed.

import type { Database } from './database.js'
import { arrayOf, type Statement, statement } from './statement.js'

const LOOK_EVERY_MS = 1_000
// A look covers one part in so many of the ground below the floor, so that no look takes long.
const SLICES = 10n
const QUEUES_MAX = 1_000
const KEPT_MS = 120_000
/** Below every place in line, those of the front lane too. */
const LOWEST = -(2n ** 63n)

/** Where the claims of one queue start. */
interface Floor {
  readonly queue: string
  readonly types: readonly string[] | null
  priority: number
  /** Places up to this one have been claimed or were somebody else's. */
  back: bigint
  /** Where the floor was when it was first known. */
  readonly base: bigint
  slice: bigint
}

/** The arguments of a claim from a floor, one for each queue asked. */
export interface FloorArguments {
  readonly priorities: readonly number[]
  readonly backs: readonly string[]
}

/** One job as a claim took it, as far as its place goes. */
export interface TakenPlace {
  readonly queue: string
  readonly priority: number
  readonly position: string
}

const STRAGGLER: Statement = statement(
  'straggler',
  `
SELECT ready.position::text
  FROM :schema.ready
 WHERE ready.queue = $1
   AND ready.priority = $2::smallint
   AND ready.position > greatest($3::bigint, 0)               -- the front lane has no floor
   AND ready.position <= $4::bigint
   AND ($5::text[] IS NULL OR ready.type = ANY ($5))
 ORDER BY ready.priority DESC, ready.position
 LIMIT 1`,
)

/** The floors of one process. Off until somebody is known to hold an old snapshot. */
export class Floors {
  readonly #floors = new Map<string, Floor>()
  #isOn = false
  #lookedAtMs = Number.NEGATIVE_INFINITY
  #isLooking = false
  #heldAtMs = Number.NEGATIVE_INFINITY

  get isOn(): boolean {
    return this.#isOn
  }

  set isOn(isOn: boolean) {
    this.#isOn = isOn
    if (!isOn) this.#floors.clear()
  }

  /** Whether a snapshot is held. When it is given up the dead rows below are still there: floors stay until they can have been
   *  cleared away. */
  heard(isHeld: boolean, nowMs: number): void {
    if (isHeld) this.#heldAtMs = nowMs
    const isOn = nowMs - this.#heldAtMs < KEPT_MS
    if (isOn !== this.#isOn) this.isOn = isOn
  }

  /** Where the claims of these queues start. A queue that is not known yet starts at the beginning. */
  of(queues: readonly string[], types: readonly string[] | null): FloorArguments {
    const floors = queues.map((queue) => this.#floors.get(nameOf(queue, types)))
    return {
      priorities: floors.map((floor) => floor?.priority ?? 0),
      backs: floors.map((floor) => String(floor?.back ?? 0n)),
    }
  }

  /** Learns from what a claim took. */
  learn(taken: readonly TakenPlace[], types: readonly string[] | null): void {
    for (const { queue, priority, position } of taken) {
      const place = BigInt(position)
      if (place <= 0n) continue
      const name = nameOf(queue, types)
      const floor = this.#floors.get(name)
      // The lowest priority that is being claimed is where the crowd stands.
      if (floor === undefined || floor.priority > priority) {
        if (this.#floors.size >= QUEUES_MAX) this.#floors.clear()
        this.#floors.set(name, { queue, types, priority, back: place, base: place, slice: 0n })
      } else if (floor.priority === priority && place > floor.back) floor.back = place
    }
  }

  /** Looks below the floors, one slice at a time and not more often than once a second. Never raises and never waits. */
  lookBelow(db: Database, nowMs: number): void {
    if (!this.#isOn || this.#isLooking || nowMs - this.#lookedAtMs < LOOK_EVERY_MS) return
    this.#lookedAtMs = nowMs
    this.#isLooking = true
    void this.#look(db)
      .catch(() => {})
      .finally(() => {
        this.#isLooking = false
      })
  }

  async #look(db: Database): Promise<void> {
    for (const floor of [...this.#floors.values()]) {
      const height = (floor.back - floor.base) / SLICES + 1n
      const from = floor.slice === 0n ? LOWEST : floor.base + height * floor.slice
      const to = floor.slice === SLICES - 1n ? floor.back : floor.base + height * (floor.slice + 1n)
      // BigInts: Math.min does not take them.
      const end = [to, floor.back].sort((one, other) => (one < other ? -1 : 1))[0]!
      floor.slice = (floor.slice + 1n) % SLICES
      const [row] = await db.send('look', STRAGGLER, [
        floor.queue,
        floor.priority,
        String(from),
        String(end),
        floor.types === null ? null : arrayOf(floor.types),
      ])
      // The next claim starts just below it. What lies between is stepped over once more.
      if (row !== undefined) floor.back = BigInt(row[0]!) - 1n
    }
  }
}

function nameOf(queue: string, types: readonly string[] | null): string {
  return types === null ? queue : `${queue}\n${types.join('\n')}`
}

// Where a claim starts while somebody holds an old snapshot. Vacuum can then clear no dead row away, and a claim that reads the queue
// from its beginning reads the dead row of every job that waited there since. After minutes at thousands of jobs a second that takes
// seconds. So claims start above the last position they took. Twice a second a query looks below for jobs that were committed late,
// by a transaction that drew its position long before its commit.

import { type ClaimFromFloor, claimFromFloor } from './claim-from-floor.js'
import type { Database } from './database.js'
import { LateCommits } from './late-commits.js'
import { arrayOf, plainArrayOf, type Row, type Statement, statement } from './statement.js'

const LOOK_EVERY_MS = 500
// late-commits.ts works out where late jobs can be. In addition each query covers one of this many parts of all positions below the
// floor, so that no job stays there for good even if that reasoning misses a case.
const SLICES = 120n
const QUEUES_MAX = 1_000
const KEPT_MS = 120_000
/** Below every position, those of the front lane too. */
const LOWEST = -(2n ** 63n)

/** Where the claims of one queue start. */
interface Floor {
  readonly queue: string
  readonly types: readonly string[] | null
  priority: number
  /** Places up to this one have been claimed or were somebody else's. */
  back: bigint
  /** Counts how often the floor was lowered. A claim that began before that may not raise it, because it has not seen the jobs below. */
  lowered: number
  /** Where the floor was when it was first known. */
  readonly base: bigint
  slice: bigint
}

/** The arguments of a claim from a floor, one for each queue asked. */
export interface FloorArguments {
  readonly priorities: readonly number[]
  readonly backs: readonly string[]
  /** How often the floor of each queue had been lowered, for those that have one. */
  readonly lowered: ReadonlyMap<string, number>
}

/** The position of one claimed job. */
export interface TakenPlace {
  readonly queue: string
  readonly priority: number
  readonly position: string
}

const STRAGGLER: Statement = statement(
  'straggler',
  `
SELECT floor.number, straggler.position
  FROM unnest($1::text[], $2::smallint[], $3::bigint[], $4::bigint[], $5::text[])
         WITH ORDINALITY AS floor (queue, priority, from_place, to_place, types, number)
 CROSS JOIN LATERAL (
   SELECT ready.position
     FROM :schema.ready
    WHERE ready.queue = floor.queue
      AND ready.priority = floor.priority
      AND ready.position > greatest(floor.from_place, 0)      -- the front lane has no floor
      AND ready.position <= floor.to_place
      AND (floor.types IS NULL OR ready.type = ANY (floor.types::text[]))
    ORDER BY ready.priority DESC, ready.position
    LIMIT 1
 ) AS straggler`,
)

const SNAPSHOT: Statement = statement('snapshot', 'SELECT pg_catalog.pg_current_snapshot()::text')

/** A range of positions below a floor. */
interface Ground {
  readonly floor: Floor
  readonly from: bigint
  readonly to: bigint
}

/** The floors of one process. Off until somebody is known to hold an old snapshot. */
export class Floors {
  readonly #floors = new Map<string, Floor>()
  #lateCommits = new LateCommits<Floor>()
  #isOn = false
  #lookedAtMs = Number.NEGATIVE_INFINITY
  #isLooking = false
  #heldAtMs = Number.NEGATIVE_INFINITY

  /** Claims from the floors on, and learns from what it takes. */
  claim(db: Database, asked: ClaimFromFloor): Promise<Row[]> {
    return claimFromFloor(db, this, asked)
  }

  get isOn(): boolean {
    return this.#isOn
  }

  set isOn(isOn: boolean) {
    this.#isOn = isOn
    if (isOn) return
    this.#floors.clear()
    this.#lateCommits = new LateCommits()
  }

  /** Whether a snapshot is held. When it is released the dead rows are still there, so floors stay until vacuum has had the time to
   *  clear them away. */
  observe(isHeld: boolean, nowMs: number): void {
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
      lowered: new Map(floors.flatMap((floor) => (floor === undefined ? [] : [[floor.queue, floor.lowered]]))),
    }
  }

  /** Learns from what a claim took that began with these arguments. */
  learn(taken: readonly TakenPlace[], types: readonly string[] | null, { lowered }: FloorArguments): void {
    for (const { queue, priority, position } of taken) {
      const place = BigInt(position)
      if (place <= 0n) continue
      const name = nameOf(queue, types)
      const floor = this.#floors.get(name)
      // Most of the backlog has the lowest priority that is being claimed.
      if (floor === undefined || floor.priority > priority) {
        if (this.#floors.size >= QUEUES_MAX) this.#floors.clear()
        this.#floors.set(name, { queue, types, priority, back: place, lowered: 0, base: place, slice: 0n })
      } else if (floor.priority === priority && place > floor.back && lowered.get(queue) === floor.lowered) {
        floor.back = place
      }
    }
  }

  /** Looks below the floors, not more often than twice a second. Never raises and never waits; `onFound` receives the queues with jobs
   *  that were committed late, which the next claim takes. */
  lookBelow(db: Database, nowMs: number, onFound: (queue: string) => void): void {
    if (!this.#isOn || this.#isLooking || nowMs - this.#lookedAtMs < LOOK_EVERY_MS) return
    this.#lookedAtMs = nowMs
    this.#isLooking = true
    void this.#look(db, onFound)
      .catch(() => {})
      .finally(() => {
        this.#isLooking = false
      })
  }

  async #look(db: Database, onFound: (queue: string) => void): Promise<void> {
    const floors = [...this.#floors.values()]
    if (floors.length === 0) return
    const places = new Map(floors.map((floor) => [floor, floor.back]))
    const [[snapshot] = []] = await db.send('look', SNAPSHOT, [])
    const from = this.#lateCommits.step(snapshot!, places)
    const late = floors.map((floor) => ({ floor, from: from?.get(floor) ?? LOWEST, to: floor.back }))
    // Two queries, so that one that takes too long does not stop the other.
    await this.#search(db, late, onFound).catch(() => {})
    await this.#search(db, floors.map(nextSlice), onFound)
  }

  async #search(db: Database, grounds: readonly Ground[], onFound: (queue: string) => void): Promise<void> {
    const rows = await db.send('look', STRAGGLER, [
      arrayOf(grounds.map(({ floor }) => floor.queue)),
      plainArrayOf(grounds.map(({ floor }) => floor.priority)),
      plainArrayOf(grounds.map(({ from }) => String(from))),
      plainArrayOf(grounds.map(({ to }) => String(to))),
      arrayOf(grounds.map(({ floor: { types } }) => (types === null ? null : arrayOf(types)))),
    ])
    for (const [number, position] of rows) {
      const { queue, types } = grounds[Number(number) - 1]!.floor
      // The next claim starts just below it, and reads the dead rows above it once more.
      this.lower(queue, types, BigInt(position!) - 1n)
      onFound(queue)
    }
  }

  /** Has the claims that begin from now on start at this place. Those under way do not raise the floor again. */
  lower(queue: string, types: readonly string[] | null, back: bigint): void {
    const floor = this.#floors.get(nameOf(queue, types))
    if (floor === undefined || floor.back <= back) return
    floor.back = back
    floor.lowered++
  }
}

/** The range below a floor that is searched next. */
function nextSlice(floor: Floor): Ground {
  const height = (floor.back - floor.base) / SLICES + 1n
  const from = floor.slice === 0n ? LOWEST : floor.base + height * floor.slice
  const top = floor.slice === SLICES - 1n ? floor.back : floor.base + height * (floor.slice + 1n)
  floor.slice = (floor.slice + 1n) % SLICES
  // BigInts: Math.min does not take them.
  if (top > floor.back) return { floor, from, to: floor.back }
  return { floor, from, to: top }
}

function nameOf(queue: string, types: readonly string[] | null): string {
  return types === null ? queue : `${queue}\n${types.join('\n')}`
}

// Where a claim of a queue with flow control starts to read events while somebody holds an old snapshot. Vacuum can then clear none of the
// events away that were consumed, and a claim that reads from the beginning reads all of them: two for each job since the snapshot was
// taken. So claims start above the turn below which all were consumed, as it was a moment ago. Twice a second a query looks below for
// events that were committed late. ◄── claim-flow.ts, see floors.ts

import type { Database } from './database.js'
import { LateCommits } from './late-commits.js'
import { plainArrayOf, statement } from './statement.js'

// Events are committed a little later than their turn is drawn, so the newest are read again: those of this long.
const LAG_MS = 300
const LOOK_EVERY_MS = 500
// Each query covers one of this many parts of everything below the floor as well, so that no event stays there for good.
const SLICES = 120n
const TRACKS_MAX = 1_000
const LOWEST = -(2n ** 63n)

/** Where the claims of one track start. */
interface Floor {
  readonly track: number
  readonly queue: string
  back: bigint
  /** What the floor will be, and since when it is known. */
  next: { readonly back: bigint; readonly sinceMs: number } | null
  /** Counts how often it was lowered: a claim that began before that does not raise it. */
  lowered: number
  readonly base: bigint
  slice: bigint
}

/** What a claim is asked with. */
export interface FlowFloorArguments {
  readonly queue: string
  /** Two array parameters: tracks, and the floor of each. Both null while there are no floors. */
  readonly values: readonly [string | null, string | null]
  readonly lowered: ReadonlyMap<number, number>
  readonly nowMs: number
}

const LATE_EVENT = statement(
  'late_event',
  `
SELECT floor.number, late.turn
  FROM unnest($1::integer[], $2::bigint[], $3::bigint[]) WITH ORDINALITY AS floor (track, from_turn, to_turn, number)
 CROSS JOIN LATERAL (
   SELECT arrivals.turn
     FROM :schema.arrivals
    WHERE arrivals.track = floor.track
      AND arrivals.turn > floor.from_turn
      AND arrivals.turn <= floor.to_turn
    ORDER BY arrivals.turn
    LIMIT 1
 ) AS late`,
)
const SNAPSHOT = statement('flow_snapshot', 'SELECT pg_catalog.pg_current_snapshot()::text')

/** The floors of the events of one process. */
export class FlowFloors {
  readonly #onFound: (queue: string) => void
  readonly #floors = new Map<number, Floor>()
  #lateCommits = new LateCommits<Floor>()
  #lookedAtMs = Number.NEGATIVE_INFINITY
  #isLooking = false

  constructor(onFound: (queue: string) => void) {
    this.#onFound = onFound
  }

  /** Nobody holds an old snapshot. */
  off(): FlowFloorArguments {
    if (this.#floors.size > 0) {
      this.#floors.clear()
      this.#lateCommits = new LateCommits()
    }
    return NO_FLOORS
  }

  /** Where the claims of a queue start. */
  of(queue: string, nowMs: number): FlowFloorArguments {
    const floors = [...this.#floors.values()].filter((floor) => floor.queue === queue)
    for (const floor of floors) raise(floor, nowMs)
    return {
      queue,
      values: [plainArrayOf(floors.map(({ track }) => track)), plainArrayOf(floors.map(({ back }) => String(back)))],
      lowered: new Map(floors.map(({ track, lowered }) => [track, lowered])),
      nowMs,
    }
  }

  /** Learns from the answer of a claim that began with these arguments: the turns below which no event is left, by track. */
  learn(db: Database, from: FlowFloorArguments, answer: unknown): void {
    if (answer === null) return
    for (const [track, turn] of answer as readonly (readonly [number, string])[]) {
      const back = BigInt(turn)
      const floor = this.#floors.get(track)
      if (floor === undefined) {
        if (this.#floors.size >= TRACKS_MAX) this.#floors.clear()
        const next = { back, sinceMs: from.nowMs }
        this.#floors.set(track, { track, queue: from.queue, back: LOWEST, next, lowered: 0, base: back, slice: 0n })
      } else if (floor.next === null && back > floor.back && from.lowered.get(track) === floor.lowered) {
        floor.next = { back, sinceMs: from.nowMs }
      }
    }
    this.#lookBelow(db, from.nowMs)
  }

  /** Looks below the floors, not more often than twice a second. Never raises and is not waited for. */
  #lookBelow(db: Database, nowMs: number): void {
    if (this.#isLooking || nowMs - this.#lookedAtMs < LOOK_EVERY_MS) return
    this.#lookedAtMs = nowMs
    this.#isLooking = true
    void this.#look(db)
      .catch(() => {})
      .finally(() => {
        this.#isLooking = false
      })
  }

  async #look(db: Database): Promise<void> {
    const floors = [...this.#floors.values()].filter(({ back }) => back > LOWEST)
    if (floors.length === 0) return
    const places = new Map(floors.map((floor) => [floor, floor.back]))
    const [[snapshot] = []] = await db.send('look', SNAPSHOT, [])
    const from = this.#lateCommits.step(snapshot!, places)
    await this.#search(
      db,
      floors.map((floor) => ({ floor, from: from?.get(floor) ?? LOWEST, to: floor.back })),
    ).catch(() => {})
    await this.#search(db, floors.map(nextSlice))
  }

  async #search(db: Database, grounds: readonly Ground[]): Promise<void> {
    const rows = await db.send('look', LATE_EVENT, [
      plainArrayOf(grounds.map(({ floor }) => floor.track)),
      plainArrayOf(grounds.map(({ from }) => String(from))),
      plainArrayOf(grounds.map(({ to }) => String(to))),
    ])
    for (const [number, turn] of rows) {
      const { floor } = grounds[Number(number) - 1]!
      const back = BigInt(turn!) - 1n
      if (floor.back <= back) continue
      floor.back = back
      floor.next = null
      floor.lowered++
      this.#onFound(floor.queue)
    }
  }
}

const NO_FLOORS: FlowFloorArguments = { queue: '', values: [null, null], lowered: new Map(), nowMs: 0 }

/** A range of turns below a floor. */
interface Ground {
  readonly floor: Floor
  readonly from: bigint
  readonly to: bigint
}

function raise(floor: Floor, nowMs: number): void {
  if (floor.next === null || nowMs - floor.next.sinceMs < LAG_MS) return
  floor.back = floor.next.back
  floor.next = null
}

/** The range below a floor that is searched next. */
function nextSlice(floor: Floor): Ground {
  const height = (floor.back > floor.base ? floor.back - floor.base : 0n) / SLICES + 1n
  const from = floor.slice === 0n ? LOWEST : floor.base + height * floor.slice
  const top = floor.base + height * (floor.slice + 1n)
  floor.slice = (floor.slice + 1n) % SLICES
  return { floor, from, to: top > floor.back || floor.slice === 0n ? floor.back : top }
}

// claim, while somebody holds an old snapshot: from the floors on, see floors.ts. ◄── claim.ts

import { claimSql, SEGMENT } from './claim.js'
import type { Database } from './database.js'
import type { Floors, TakenPlace } from './floors.js'
import { plainArrayOf, type Row, type Statement, statement } from './statement.js'

// The same order in four segments, read one after the other until there are enough jobs: higher priorities than that of the main lane,
// the front lane, the main lane from its floor on, and lower priorities. See floors.ts.
const FROM_FLOOR = `(SELECT segments.place FROM (
   SELECT place FROM ${SEGMENT(`
        AND ready.priority > asked.priority`)} AS higher_priority
   UNION ALL
   SELECT place FROM ${SEGMENT(`
        AND ready.priority = asked.priority AND ready.position < 0`)} AS front_lane
   UNION ALL
   SELECT place FROM ${SEGMENT(`
        AND ready.priority = asked.priority AND ready.position > asked.back`)} AS main_lane
   UNION ALL
   SELECT place FROM ${SEGMENT(`
        AND ready.priority < asked.priority`)} AS lower_priority
   ) AS segments
   LIMIT asked.amount)`

const CLAIM_FROM_FLOOR: Statement = statement(
  'claim_from_floor',
  claimSql({ floors: true, first: FROM_FLOOR, place: ', claimed.position' }),
)

/** What a claim from the floors is asked for. */
export interface ClaimFromFloor {
  readonly values: readonly unknown[]
  readonly queues: readonly string[]
  readonly types: readonly string[] | null
  readonly onFound: (queue: string) => void
}

/** The rows of a claim. */
export async function claimFromFloor(db: Database, floors: Floors, asked: ClaimFromFloor): Promise<Row[]> {
  const start = floors.of(asked.queues, asked.types)
  floors.lookBelow(db, performance.now(), asked.onFound)
  const values = [...asked.values, plainArrayOf(start.priorities), plainArrayOf(start.backs)]
  const rows = await db.send('claim', CLAIM_FROM_FLOOR, values)
  floors.learn(rows.flatMap(readPlace), asked.types, start)
  return rows
}

function readPlace(row: Row): TakenPlace[] {
  const [, , id, , queue, , priority] = row
  return id === null ? [] : [{ queue: queue!, priority: Number(priority), position: row.at(-2)! }]
}

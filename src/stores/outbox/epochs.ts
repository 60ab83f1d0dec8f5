// Which life of the Redis server rows were sent in. A restart or a failover begins another one, and may have lost the last writes. Each life
// has a number here, so that no row has to be touched when it changes: what was sent in an earlier one is what must be sent again.

import { HoldfastError } from '../../core/errors.js'
import type { Emit } from '../../core/events.js'
import type { Database, Send } from '../postgres/database.js'
import { statement } from '../postgres/statement.js'

/** How many earlier lives are remembered, to know a primary that was replaced and does not know it. */
const PAST_MAX = 32

const READ = statement(
  'outbox_epoch',
  `SELECT epoch, ($2 = ANY (past))::text FROM :schema.outbox_epochs WHERE part = $1`,
)

const BEGIN = statement(
  'outbox_epoch_begin',
  `INSERT INTO :schema.outbox_epochs (part, number, epoch) VALUES ($1, 1, $2) ON CONFLICT (part) DO NOTHING`,
)

// Whoever is sending holds the row until its own rows are marked, so that none of them is marked as sent in the new life by mistake.
const CHANGE = statement(
  'outbox_epoch_change',
  `
UPDATE :schema.outbox_epochs
   SET number     = number + 1,
       past       = (pg_catalog.array_prepend(epoch, past))[1:${PAST_MAX}],
       epoch      = $2,
       changed_at = clock_timestamp()
 WHERE part = $1
   AND epoch = $3
RETURNING number::text`,
)

/** Records that the server of a part lives this life now. Raises `store_stale` when another has followed it already. */
export async function noteEpoch(db: Database, part: number, epoch: string, emit: Emit): Promise<void> {
  const read = () => db.send('upkeep', READ, [part, epoch])
  let [row] = await read()
  if (row === undefined) {
    await db.send('upkeep', BEGIN, [part, epoch])
    ;[row] = await read()
  }
  const [known, isPast] = row!
  if (known === epoch) return
  if (isPast === 'true') throw stale(part)
  const changed = await db.send('upkeep', CHANGE, [part, epoch, known!])
  if (changed.length > 0) emit({ name: 'outbox.repeating', part, epoch })
}

const HOLD = statement(
  'outbox_epoch_hold',
  `SELECT number::text FROM :schema.outbox_epochs WHERE part = $1 AND epoch = $2 FOR SHARE`,
)

/** The number of this life, which cannot change until the transaction ends; null when another one has begun. */
export async function holdEpoch(send: Send, part: number, epoch: string): Promise<string | null> {
  const [[number = null] = []] = await send(HOLD, [part, epoch])
  return number
}

function stale(part: number): HoldfastError {
  return new HoldfastError(
    'store_stale',
    `the Redis server of part ${part} was replaced by another one, which the outbox has sent jobs to since: this one is an old primary, or the outbox is also used with another Redis; nothing is sent to it`,
    { retryable: true, details: { part } },
  )
}

/** The server has changed while rows were sent to it. They are sent again. */
export function epochChanged(part: number): HoldfastError {
  return new HoldfastError(
    'store_unavailable',
    `the Redis server of part ${part} restarted or changed while the outbox sent to it: what was sent is sent again`,
    { retryable: true, details: { part } },
  )
}

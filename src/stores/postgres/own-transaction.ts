// Checks that a caller's `tx` is inside a transaction, and in the database of the queue. Outside a transaction our statement would
// commit by itself, and silently break the promise that the job exists only if the transaction commits. In another database the job
// would be in another queue, whose workers may not even know its type.

import { HoldfastError, isHoldfastError } from '../../core/errors.js'
import type { Queryable } from '../../core/job-store.js'
import { type Row, type Statement, statement } from './statement.js'

// The server refuses this statement outside a transaction (25P01). It leaves nothing to undo: everyone who reads the catalog holds this
// lock, it blocks nobody, and every role may take it.
const NEEDS_TRANSACTION = 'LOCK TABLE pg_catalog.pg_am IN ACCESS SHARE MODE'
const NO_TRANSACTION = '25P01'
const CAUSES_MAX = 5

/**
 * Raises `invalid_option` for a pool, and for a client that is in no transaction. A pg client knows whether it is in one; for any
 * other client the server is asked, which costs a round trip.
 */
export async function checkTransaction(tx: Queryable): Promise<void> {
  if (isPool(tx)) {
    throw refusal(
      'is a pool, and each of its queries may take another connection: take one with pool.connect(), send BEGIN, and give that',
    )
  }
  // An idle client is checked on the server too: a BEGIN may still wait in the client's own queue.
  if (statusOf(tx) === 'T') return
  try {
    await tx.query(NEEDS_TRANSACTION, [])
  } catch (error) {
    if (!saysNoTransaction(error)) throw error
    throw refusal('is in no transaction, and the job would be there whatever becomes of yours: send BEGIN first', error)
  }
}

function isPool(tx: object): boolean {
  const { connect, totalCount, idleCount } = tx as Record<string, unknown>
  return typeof connect === 'function' && typeof totalCount === 'number' && typeof idleCount === 'number'
}

/** What the server said last about the transaction: I none, T open, E failed; null where the client doesn't tell. */
function statusOf(tx: object): string | null {
  const { getTransactionStatus: ask } = tx as { getTransactionStatus?: () => string | null }
  return typeof ask === 'function' ? ask.call(tx) : null
}

function saysNoTransaction(error: unknown): boolean {
  return isHolding(error, ({ code, message }) => code === NO_TRANSACTION || String(message).includes(NO_TRANSACTION))
}

/** What an error says, or one of those it was made from. */
interface Layer {
  readonly code?: unknown
  readonly message?: unknown
  readonly cause?: unknown
}

/** Libraries wrap the driver's error, some in several layers. */
function isHolding(error: unknown, fits: (layer: Layer) => boolean): boolean {
  let layer = error
  for (let depth = 0; depth < CAUSES_MAX && typeof layer === 'object' && layer !== null; depth++) {
    if (fits(layer)) return true
    layer = (layer as Layer).cause
  }
  return false
}

function refusal(what: string, cause?: unknown): HoldfastError {
  return new HoldfastError('invalid_option', `tx ${what}`, { cause })
}

/**
 * Raises what a statement in the caller's session failed with, and explains it where that session takes NULL in an array for a word. Our
 * own sessions don't; the caller's is not ours to change, and asking first would cost everybody a round trip. Nothing is written
 * wrongly: every statement with a null in an array has one among numbers or JSON, where the word is refused (22P02).
 */
export function explainArrayNulls(error: unknown): never {
  const isAboutNull = isHolding(error, ({ message }) => /invalid input syntax for type .*"NULL"/.test(String(message)))
  if (!isAboutNull) throw error
  throw refusal(
    'has array_nulls = off in its session, where no null can be sent in an array: send SET LOCAL array_nulls = on after BEGIN, or ALTER ROLE … RESET array_nulls',
    error,
  )
}

// Standbys have the same system identifier and the same database number; a restored dump has not. The number of the schema is null where
// the schema is missing. Every role may read these.
const placeSql = (server: string) => `
SELECT ${server} AS server,
       (SELECT oid::text FROM pg_catalog.pg_database WHERE datname = pg_catalog.current_database()) AS database,
       pg_catalog.current_database()::text AS name,
       (SELECT oid::text FROM pg_catalog.pg_namespace WHERE nspname::text = ':schema_text') AS schema`

const PLACE = statement('place', placeSql('(SELECT system_identifier::text FROM pg_catalog.pg_control_system())'))
// For servers on which that right was revoked.
const PLACE_ON_ANY_SERVER = statement('place_on_any_server', placeSql("''"))

/** Where a connection leads. */
interface Place {
  readonly server: string
  readonly database: string
  readonly name: string
  readonly schema: string | null
}

/** Runs a statement through a connection. */
type RunStatement = (statement: Statement) => Promise<readonly Row[]>

/** Knows where the queue is, and where the connections lead that it was asked about. */
export class Whereabouts {
  readonly #schema: string
  readonly #askOwn: RunStatement
  #own: Place | null = null
  #statement: Statement = PLACE
  readonly #known = new WeakMap<object, Place>()

  constructor(schema: string, askOwn: RunStatement) {
    this.#schema = schema
    this.#askOwn = askOwn
  }

  /** Raises `invalid_option` unless `tx` leads to where the queue is. Asked once for each client: its connection stays the same. */
  async check(tx: object, ask: RunStatement): Promise<void> {
    const known = this.#known.get(tx)
    this.#own ??= await this.#readOwn()
    if (known !== undefined && isSame(known, this.#own)) return
    const place = await placeOf(ask, this.#statement)
    // The server behind our own address may have been replaced since, and the schema made anew.
    if (!isSame(place, this.#own)) this.#own = await this.#readOwn()
    if (!isSame(place, this.#own)) throw refusal(this.#difference(place, this.#own))
    this.#known.set(tx, place)
  }

  async #readOwn(): Promise<Place> {
    try {
      return await placeOf(this.#askOwn, this.#statement)
    } catch (error) {
      if (!isHoldfastError(error, 'access_denied') || this.#statement !== PLACE) throw error
      this.#statement = PLACE_ON_ANY_SERVER
      return placeOf(this.#askOwn, this.#statement)
    }
  }

  #difference(place: Place, own: Place): string {
    const advice = 'give a connection to the database that Holdfast is connected to; nothing was written'
    const where = `is connected to database ${JSON.stringify(place.name)}`
    if (place.schema === null) return `${where}, which has no schema "${this.#schema}": ${advice}`
    const whose = place.server === own.server ? '' : ' of another server'
    return `${where}${whose}, and the queue is in ${JSON.stringify(own.name)}: ${advice}`
  }
}

async function placeOf(ask: RunStatement, sql: Statement): Promise<Place> {
  const [row] = await ask(sql)
  const [server, database, name, schema] = row!
  return { server: server!, database: database!, name: name!, schema: schema ?? null }
}

function isSame(one: Place, other: Place): boolean {
  return one.server === other.server && one.database === other.database && one.schema === other.schema
}

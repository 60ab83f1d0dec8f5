// What a failure of PostgreSQL or of the connection means to a caller: one table, tested for each SQLSTATE in it.

import { type ErrorCode, HoldfastError, isHoldfastError } from '../../core/errors.js'
import { poolerFault } from './pooler.js'

/** The SQLSTATE of a lock that was not available within lock_timeout. */
export const LOCK_NOT_AVAILABLE = '55P03'

interface Meaning {
  readonly code: ErrorCode
  /** The same call may succeed later. It may also have taken effect already: calls are safe to repeat. */
  readonly retryable: boolean
  readonly advice: string
}

const UNAVAILABLE: Meaning = {
  code: 'store_unavailable',
  retryable: true,
  advice: 'the call is safe to repeat once the server is back',
}
const CONTENDED: Meaning = { ...UNAVAILABLE, advice: 'the call is safe to repeat' }

const BY_STATE: Readonly<Record<string, Meaning>> = {
  '25006': {
    code: 'store_read_only',
    retryable: true,
    advice: 'the server is a standby or was set read-only: connect to the primary',
  },
  '28000': denied('check user and pg_hba.conf'),
  '28P01': denied('check user and password'),
  '42501': denied(
    'the role it connects as lacks that right: `holdfast migrate roles` prints what producer, worker, operator, viewer and owner may do, and a first start needs CREATE on the database',
  ),
  '3D000': refused('the database does not exist: create it or change the URL'),
  '3F000': missing(),
  '42P01': missing(),
  '42883': missing(),
  // A statement after a failed one, and limits of a role that end the connection. These may succeed when tried again.
  '25P02': CONTENDED,
  '25P03': UNAVAILABLE,
  '25P04': UNAVAILABLE,
  '40001': CONTENDED,
  '40P01': CONTENDED,
  [LOCK_NOT_AVAILABLE]: CONTENDED,
  '57014': CONTENDED,
  '53100': { ...CONTENDED, advice: 'the disk is full: free some space, nothing that was accepted is lost' },
  '53200': CONTENDED,
  '53300': {
    ...UNAVAILABLE,
    advice: 'the server has no connection left: raise max_connections or use fewer processes',
  },
  '53400': CONTENDED,
  '57P01': UNAVAILABLE,
  '57P02': UNAVAILABLE,
  '57P03': UNAVAILABLE,
  '57P05': UNAVAILABLE,
}

function denied(advice: string): Meaning {
  return { code: 'access_denied', retryable: false, advice }
}

function refused(advice: string): Meaning {
  return { code: 'store_refused', retryable: false, advice }
}

function missing(): Meaning {
  return {
    code: 'schema_missing',
    retryable: false,
    advice: 'the schema or a part of it is not there: connect once with a role that may migrate it',
  }
}

/** What a SQLSTATE means; null stands for a failure without one, which is the connection's. */
export function meaningOf(sqlState: string | null): Meaning {
  if (sqlState === null) return UNAVAILABLE
  const known = BY_STATE[sqlState]
  if (known !== undefined) return known
  if (sqlState.startsWith('08') || sqlState.startsWith('58')) return UNAVAILABLE
  return refused('this is a fault of Holdfast or of the values given: nothing was written')
}

/** The HoldfastError for whatever a query raised. `isFatal` when the error ended the connection: then the connection failed and not
 *  the query, whatever the SQLSTATE says. */
export function storeError(doing: string, thrown: unknown, isFatal = false): HoldfastError {
  const meaning = poolerMeaning(thrown) ?? (isFatal ? UNAVAILABLE : meaningOf(sqlStateOf(thrown)))
  return translate(`PostgreSQL could not ${doing}`, thrown, meaning)
}

/** The HoldfastError for a connection that could not be opened. `where` names the server, without its password. */
export function connectError(where: string, thrown: unknown): HoldfastError {
  const state = sqlStateOf(thrown)
  const away = { ...UNAVAILABLE, advice: 'start the server, or check host, port and network' }
  const meaning = poolerMeaning(thrown) ?? (state === null ? away : meaningAtStart(state))
  return translate(`cannot connect to PostgreSQL at ${where}`, thrown, meaning)
}

function poolerMeaning(thrown: unknown): Meaning | null {
  const fault = poolerFault(thrown)
  if (fault === null) return null
  return fault.passes ? { ...UNAVAILABLE, advice: fault.advice } : refused(fault.advice)
}

// Every error while connecting ends the connection. Errors about the user, the password or the database stay until somebody fixes that.
function meaningAtStart(state: string): Meaning {
  if (BY_STATE[state] !== undefined) return BY_STATE[state]
  if (/^28/.test(state)) return denied('check user, password and pg_hba.conf')
  return /^(0A|22|42)/.test(state)
    ? refused('the server refuses a setting of this connection: check the URL and the settings of the role')
    : UNAVAILABLE
}

// What a pooler answers to start-up options that it does not pass on: a violation of the protocol (PgBouncer, RDS Proxy), a parameter it
// doesn't know, a value it doesn't take, or a feature it doesn't have.
const ABOUT_OPTIONS = ['08P01', '42704', '22023', '0A000']

/** Whether a connection may have been refused for its start-up options alone. */
export function refusesOptions(thrown: unknown): boolean {
  const state = sqlStateOf(thrown)
  return state !== null && ABOUT_OPTIONS.includes(state)
}

function translate(what: string, thrown: unknown, meaning: Meaning): HoldfastError {
  if (isHoldfastError(thrown)) return thrown
  const state = sqlStateOf(thrown)
  const named = (thrown as { code?: unknown })?.code
  const label = state ?? (typeof named === 'string' ? named : null)
  return new HoldfastError(
    meaning.code,
    `${what}: ${saidBy(thrown)}${label === null ? '' : ` (${label})`}; ${meaning.advice}`,
    {
      cause: thrown,
      retryable: meaning.retryable,
      details: { sqlState: state },
    },
  )
}

// A host with several addresses fails with one error for each, and a message of its own that is empty.
function saidBy(thrown: unknown): string {
  if (thrown instanceof AggregateError && thrown.errors.length > 0) return saidBy(thrown.errors[0])
  return thrown instanceof Error ? thrown.message || thrown.name : String(thrown)
}

/** The SQLSTATE of a server's error, or null. */
export function sqlStateOf(thrown: unknown): string | null {
  const code = (thrown as { code?: unknown; severity?: unknown })?.code
  const isServers = (thrown as { severity?: unknown })?.severity !== undefined
  return isServers && typeof code === 'string' ? code : null
}

// What a failure of PostgreSQL or of the connection means to a caller: one table, tested for each SQLSTATE in it.

import { type ErrorCode, HoldfastError, isHoldfastError } from '../../core/errors.js'

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
  '40001': CONTENDED,
  '40P01': CONTENDED,
  '55P03': CONTENDED,
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

/** The HoldfastError for whatever a query raised. */
export function storeError(doing: string, thrown: unknown): HoldfastError {
  return translate(`PostgreSQL could not ${doing}`, thrown, null)
}

/** The HoldfastError for a connection that could not be opened. `where` names the server, without its password. */
export function connectError(where: string, thrown: unknown): HoldfastError {
  return translate(
    `cannot connect to PostgreSQL at ${where}`,
    thrown,
    'start the server, or check host, port and network',
  )
}

function translate(what: string, thrown: unknown, adviceWithoutState: string | null): HoldfastError {
  if (isHoldfastError(thrown)) return thrown
  const state = sqlStateOf(thrown)
  const meaning = meaningOf(state)
  const named = (thrown as { code?: unknown })?.code
  const label = state ?? (typeof named === 'string' ? named : null)
  const advice = state === null && adviceWithoutState !== null ? adviceWithoutState : meaning.advice
  return new HoldfastError(
    meaning.code,
    `${what}: ${saidBy(thrown)}${label === null ? '' : ` (${label})`}; ${advice}`,
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

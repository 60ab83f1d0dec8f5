// The settings that every session of ours must have, whatever the server, database and role set. They are asked for when the connection
// starts, and then verified. Where a pooler drops them, each statement sets them itself.

import type { Durability } from '../../core/durability.js'
import type { Query } from './exchange.js'
import type { Row } from './statement.js'

/** Settings of a session, each in the form in which the server shows it. */
export type SessionSettings = Readonly<Record<string, string>>

// Every statement is written for read committed: one that waited for a lock sees what was committed meanwhile. Under a stricter
// level the same statements fail, or act on a state that is gone.
// Plans must not depend on statistics: a table that was empty when a plan was made may hold millions a minute later.
// Nothing of ours is found through the search path, and nothing of others should be: a function in public whose arguments fit
// better than the server's own would be called in its place.
// Parameters are arrays in which NULL means null, and statements have backslashes in strings that mean themselves: a role may set
// both otherwise.
const SETTINGS: SessionSettings = {
  default_transaction_isolation: 'read committed',
  search_path: 'pg_catalog,pg_temp',
  array_nulls: 'on',
  standard_conforming_strings: 'on',
  enable_seqscan: 'off',
  enable_bitmapscan: 'off',
  jit: 'off',
  plan_cache_mode: 'force_generic_plan',
  idle_in_transaction_session_timeout: '1min',
  statement_timeout: '5min',
}

/** The start-up options that ask for them. */
export const START_OPTIONS: string = optionsOf(SETTINGS)

function optionsOf(settings: SessionSettings): string {
  return Object.entries(settings)
    .map(([name, value]) => `-c ${name}=${value.replace(/[\\ ]/g, '\\$&')}`)
    .join(' ')
}

/** What the last check of a connection found. */
export interface SessionFacts {
  /** True of a standby, and where transactions are read-only by default. */
  readonly isReadOnly: boolean
  /** True when the session has its settings. Otherwise a pooler dropped them, and each statement must bring them along. */
  readonly hasSettings: boolean
  /** The server process that answered. Another one than the connection was announced with means that a pooler is in between. */
  readonly backend: number | null
}

/** How sessions with certain settings are opened and verified, and how the settings are set for one transaction where they are missing. */
export interface Session {
  /** The start-up options. */
  readonly options: string
  /** Asks for the facts, and completes the session where it has its settings. */
  readonly check: string
  /** Statements that bring the settings along, to be sent before another one in the same implicit transaction. */
  readonly guard: readonly Query[]
  /** Begins a transaction; `guardedBegin` also brings the settings along. */
  readonly begin: string
  readonly guardedBegin: string
}

const BEGIN = 'BEGIN ISOLATION LEVEL READ COMMITTED'

/** The session with the usual settings and these beside them, and with commits that wait for as much as `durability` says. */
export function sessionWith(more: SessionSettings, durability: Durability = 'replicated'): Session {
  const settings = { ...SETTINGS, ...more }
  const local = Object.entries(settings).map(([name, value]) => setting(name, value, true))
  const bring = `SELECT ${[...local, durable(durability, true), unlimited(true)].join(', ')}`
  return {
    options: optionsOf(settings),
    check: checkText(settings, durability),
    // Without BEGIN the transaction lasts until the exchange ends, also when it fails: nothing has to be rolled back, and what
    // was sent behind it is not harmed. The level can't be set after a snapshot was taken, so not by the SELECT.
    guard: ["SET transaction_isolation = 'read committed'", bring].map((text) => ({ name: '', text, values: [] })),
    begin: BEGIN,
    guardedBegin: `${BEGIN}; ${bring}`,
  }
}

// Which settings are in force is read before any is changed: the inner query has an OFFSET and is not merged with the outer one.
// Without them a pooler gives the session to somebody else after the transaction, so nothing is set permanently.
function checkText(settings: SessionSettings, durability: Durability): string {
  const isSet = Object.entries(settings).map(([name, value]) => `pg_catalog.current_setting('${name}') = '${value}'`)
  return `
SELECT session.read_only, session.has_settings,
       CASE WHEN session.has_settings THEN ${durable(durability, false)} END,
       CASE WHEN session.has_settings THEN ${unlimited(false)} END,
       pg_catalog.pg_backend_pid()
  FROM (SELECT pg_catalog.current_setting('transaction_read_only') AS read_only,
               ${isSet.join(' AND ')} AS has_settings
        OFFSET 0) AS session`
}

/** Reads the answer to the check. */
export function readFacts(rows: readonly Row[]): SessionFacts {
  const [readOnly, hasSettings, _durable, _unlimited, backend] = rows[0]!
  return { isReadOnly: readOnly === 'on', hasSettings: hasSettings === 't', backend: Number(backend) }
}

function setting(name: string, value: string, isLocal: boolean): string {
  return `pg_catalog.set_config('${name}', '${value}', ${isLocal})`
}

// An accepted job must survive a crash, and must be on the disks of the synchronous standbys, unless the process asked for less. One
// setting is stronger than 'on' and is kept. It is set even where it is 'on' already, so that a later change of the server's default has no effect.
function durable(durability: Durability, isLocal: boolean): string {
  const name = 'synchronous_commit'
  if (durability !== 'replicated') return setting(name, durability === 'local' ? 'local' : 'remote_apply', isLocal)
  const value = `CASE pg_catalog.current_setting('${name}') WHEN 'remote_apply' THEN 'remote_apply' ELSE 'on' END`
  return `pg_catalog.set_config('${name}', ${value}, ${isLocal})`
}

// From PostgreSQL 17 on a role may limit whole transactions, also those of a single statement, by ending the connection. Zero, and not a
// limit of ours: within a transaction the server takes no new limit as long as the old one counts.
function unlimited(isLocal: boolean): string {
  const name = 'transaction_timeout'
  return `CASE WHEN pg_catalog.current_setting('${name}', true) IS NOT NULL THEN ${setting(name, '0', isLocal)} END`
}
